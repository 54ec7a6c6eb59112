//! `.if` and what belongs to it: which lines HAProxy reads, as far as that is known here.

use super::lex::Line;

/// The conditions around a line, the innermost last.
#[derive(Debug, Default)]
pub(super) struct Branches {
    open: Vec<Branch>,
}

/// The branch of an `.if` in which a line is.
#[derive(Debug)]
struct Branch {
    /// Whether HAProxy reads it; none where that is not known.
    is_read: Option<bool>,
    /// The same of any branch so far, with this one.
    is_any_read: Option<bool>,
}

impl Branches {
    /// Follows a line of branches, or a message to who starts HAProxy; false where it is neither.
    pub(super) fn follow(&mut self, line: &Line) -> bool {
        let condition = holds(&line.from(1).join(" "));
        match (line.word(0), self.open.last_mut()) {
            (".if", _) => self.open.push(Branch { is_read: condition, is_any_read: condition }),
            (".elif", Some(branch)) => branch.next(condition),
            (".else", Some(branch)) => branch.next(Some(true)),
            (".endif", _) => {
                self.open.pop();
            }
            (".diag" | ".notice" | ".warning" | ".alert", _) => {}
            _ => return false,
        }
        true
    }

    /// Whether HAProxy reads the lines here; none where that is not known.
    pub(super) fn here(&self) -> Option<bool> {
        let mut all = self.open.iter().map(|branch| branch.is_read);
        if all.clone().any(|it| it == Some(false)) {
            return Some(false);
        }
        all.all(|it| it == Some(true)).then_some(true)
    }
}

impl Branch {
    /// Goes on to a branch that is read where this holds and no earlier one is.
    fn next(&mut self, condition: Option<bool>) {
        self.is_read = match (self.is_any_read, condition) {
            (Some(true), _) | (_, Some(false)) => Some(false),
            (Some(false), condition) => condition,
            (None, _) => None,
        };
        self.is_any_read = match (self.is_any_read, condition) {
            (Some(true), _) | (_, Some(true)) => Some(true),
            (Some(false), Some(false)) => Some(false),
            _ => None,
        };
    }
}

/// Whether a condition holds wherever HAProxy runs; none where that depends on it.
fn holds(condition: &str) -> Option<bool> {
    match condition {
        "" | "false" => Some(false),
        "true" => Some(true),
        number => number.parse::<i64>().ok().map(|number| number != 0),
    }
}
