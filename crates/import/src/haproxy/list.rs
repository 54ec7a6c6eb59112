//! Patterns for the values of a header that is a list, as expressions for the whole line.
//!
//! HAProxy looks at each value between commas, without the blanks around it. A route looks at the
//! line, so that what begins or ends a value may also stand behind or before a comma there, and
//! nothing of a pattern may go beyond one.

use super::acl::Match;
use crate::{
    condition::compile,
    expression::{Anchors, anchored, escape},
};

/// The expression that matches the whole line where one value of it is as the pattern says.
/// `regex` is the pattern as an expression that finds a part of a value.
///
/// # Errors
/// Why no value is like this, or what of the expression cannot be said of a line.
pub(super) fn line(
    text: &str,
    regex: &str,
    how: Match,
    ignore_case: bool,
) -> Result<String, String> {
    if how != Match::Regex && text.contains(',') {
        return Err("HAProxy compares what is between commas, in which there is none".to_owned());
    }
    let flag = if ignore_case { "(?i)" } else { "" };
    let plain = escape(text);
    let made = match how {
        Match::Exact => format!("{flag}{BEFORE}{plain}{BEHIND}"),
        Match::Begins => format!("{flag}{BEFORE}{plain}.*"),
        Match::Ends => format!("{flag}.*{plain}{BEHIND}"),
        Match::Contains => format!("{flag}.*{plain}.*"),
        _ => {
            let edges =
                Anchors { start: "(?:^|,)[ \\t]*", end: "[ \\t]*(?:,|$)", never: Some(',') };
            format!("(?s).*(?:{}).*", anchored(regex, &edges)?)
        }
    };
    compile(&made).map(|_| made)
}

/// Values before one, and values behind it.
const BEFORE: &str = "(.*,)?[ \\t]*";
const BEHIND: &str = "[ \\t]*(,.*)?";

#[cfg(test)]
mod tests {
    use super::*;

    fn matches(regex: &str, how: Match, value: &str) -> bool {
        let made = line(regex, regex, how, false);
        let whole = made.map(|made| format!("^(?:{made})$"));
        whole.and_then(|it| compile(&it)).is_ok_and(|it| it.is_match(value.as_bytes()))
    }

    #[test]
    fn each_value_of_a_list_is_looked_at() {
        use Match::{Begins, Contains, Ends, Exact, Regex};
        for (regex, how, value, expected) in [
            ("b", Exact, "b", true),
            ("b", Exact, "a, b ,c", true),
            ("b", Exact, "a,bc", false),
            ("b", Begins, "a,  bc", true),
            ("b", Begins, "a, cb", false),
            ("b", Ends, "ab , c", true),
            ("b", Contains, "abc", true),
            ("^b$", Regex, "a, b", true),
            ("^b.*d$", Regex, "b, d", false),
            ("^[^x]+d$", Regex, "b, cd", true),
            ("^b\\d$|^$", Regex, "a,b1", true),
            ("^b\\S+d$", Regex, "bb,dd", false),
            ("^[[:alnum:]._-]+$", Regex, "a/b!", false),
            ("^[[:alnum:]._-]+$", Regex, "a/b!,a.b", true),
            ("^[!-~]{3}$", Regex, "a,b", false),
            ("^[!-~]{3}$", Regex, "a.b", true),
            ("^[\\S]{3}$", Regex, "a,b", false),
        ] {
            assert_eq!(matches(regex, how, value), expected, "{regex} {value}");
        }
    }

    #[test]
    fn what_has_a_comma_is_in_no_value() {
        assert!(line("a,b", "a,b", Match::Contains, false).is_err());
        assert!(line("a,b", "a,b", Match::Regex, false).is_err());
        assert!(line("a{1,2}", "a{1,2}", Match::Regex, false).is_ok());
    }
}
