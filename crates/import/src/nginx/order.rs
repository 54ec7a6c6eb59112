//! In which order nginx asks: names of servers, and locations within one.

use super::lex::Directive;
use crate::{
    condition::{Host, Path, Value, When, compile},
    haproxy::is_host_name,
};

/// What a `server_name` stands for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Name {
    pub(super) when: When,
    /// The lowest is asked first.
    pub(super) rank: (u8, usize),
}

/// Reads a name of a server.
///
/// # Errors
/// What of it has no counterpart.
pub(super) fn names(written: &str) -> Result<Vec<Name>, String> {
    let lower = written.to_ascii_lowercase();
    let exact =
        |name: &str| Name { when: When::host(vec![Host::Exact(name.to_owned())]), rank: (0, 0) };
    let under = |domain: &str| Name {
        when: When::host(vec![Host::Under(domain.to_owned())]),
        rank: (1, usize::MAX - domain.len()),
    };
    if let Some(regex) = written.strip_prefix('~') {
        let regex = crate::expression::host(&format!("(?i){regex}"))?;
        compile(&regex)?;
        return Ok(vec![by_regex(regex, (3, 0))]);
    }
    if let Some(domain) = lower.strip_prefix("*.").filter(|it| is_host_name(it)) {
        return Ok(vec![under(domain)]);
    }
    if let Some(domain) = lower.strip_prefix('.').filter(|it| is_host_name(it)) {
        return Ok(vec![exact(domain), under(domain)]);
    }
    if let Some(start) = lower.strip_suffix(".*").filter(|it| is_host_name(it)) {
        let regex = format!("(?i){}\\..+", crate::expression::escape(start));
        return Ok(vec![by_regex(regex, (2, usize::MAX - start.len()))]);
    }
    // A name that no request has, as `_`, is a way to have none.
    if lower.is_empty() || !is_host_name(&lower) || lower == "_" {
        return Ok(Vec::new());
    }
    Ok(vec![exact(&lower)])
}

fn by_regex(regex: String, rank: (u8, usize)) -> Name {
    use crate::condition::Place;
    Name { when: When::field(Place::Header, "Host", vec![Value::Regex(regex)]), rank }
}

/// A location: its condition, and when it is asked.
#[derive(Clone, Debug)]
pub(super) struct Location<'a> {
    pub(super) directive: &'a Directive,
    pub(super) when: When,
    /// The prefix of its paths; empty for an expression.
    pub(super) prefix: String,
    pub(super) kind: Kind,
    rank: (u8, usize),
}

/// How a location takes paths.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    /// `=`: one path.
    Exact,
    /// `^~`: a prefix before which no expression is asked.
    Firm,
    /// `~` and `~*`.
    Expression,
    Prefix,
}

impl Location<'_> {
    /// Whether it is for one path, rather than for a prefix.
    pub(super) fn is_exact(&self) -> bool {
        self.kind == Kind::Exact
    }

    /// Whether it takes all that no other one does.
    pub(super) fn is_all(&self) -> bool {
        self.prefix == "/" && matches!(self.kind, Kind::Firm | Kind::Prefix)
    }
}

/// The locations among these directives, in the order in which they are asked, and those that
/// cannot be said, with the reason. Of a prefix and longer ones within it the longest decides,
/// also whether expressions are asked: `^~` is asked before them for what no longer one takes.
pub(super) fn locations(block: &[Directive]) -> (Vec<Location<'_>>, Vec<(&Directive, String)>) {
    let (mut found, mut lost) = (Vec::new(), Vec::new());
    for (index, directive) in block.iter().enumerate().filter(|(_, it)| it.name() == "location") {
        match location(directive, index) {
            Ok(location) => found.push(location),
            Err(why) => lost.push((directive, why)),
        }
    }
    found.sort_by_key(|location| location.rank);
    (found, lost)
}

/// The modifier and the pattern, between which there need be no space.
fn pattern(directive: &Directive) -> Result<(&str, &str), String> {
    match directive.args().as_slice() {
        [one] => {
            let glued = ["=", "^~", "~*", "~"].into_iter().find_map(|modifier| {
                let pattern = one.strip_prefix(modifier).filter(|pattern| !pattern.is_empty());
                pattern.map(|pattern| (modifier, pattern))
            });
            Ok(glued.unwrap_or(("", *one)))
        }
        [modifier, pattern] => Ok((*modifier, *pattern)),
        _ => Err("a location has one pattern".to_owned()),
    }
}

fn location(directive: &Directive, index: usize) -> Result<Location<'_>, String> {
    let (modifier, pattern) = pattern(directive)?;
    let make = |kind, path, prefix: &str, rank| Location {
        directive,
        when: When::path(vec![path]),
        prefix: prefix.to_owned(),
        kind,
        rank,
    };
    let by_length = usize::MAX - pattern.len();
    let begins = Path::Begins(pattern.to_owned());
    match modifier {
        "=" => Ok(make(Kind::Exact, Path::Exact(pattern.to_owned()), pattern, (0, by_length))),
        "^~" => Ok(make(Kind::Firm, begins, pattern, (1, by_length))),
        "~" | "~*" => {
            let regex =
                if modifier == "~*" { format!("(?i){pattern}") } else { pattern.to_owned() };
            compile(&regex)?;
            Ok(make(Kind::Expression, Path::Regex(regex), "", (2, index)))
        }
        "" if pattern.starts_with('@') => {
            Err("a named location is reached from `try_files` and `error_page` alone".to_owned())
        }
        "" if pattern == "/" => Ok(Location {
            when: When::default(),
            ..make(Kind::Prefix, begins, "/", (3, by_length))
        }),
        "" => Ok(make(Kind::Prefix, begins, pattern, (3, by_length))),
        other => Err(format!("a location has no modifier `{other}`")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{files::Files, model::Lines, nginx::lex};

    fn order(text: &str) -> Vec<String> {
        let (mut files, mut lines) = (Files::default(), Lines::default());
        files.add(String::new(), text.to_owned());
        let none = |_: &str| Err(std::io::ErrorKind::NotFound.into());
        let tree = lex::tree(&mut files, &mut lines, &none, 0, 0);
        let (found, _) = locations(&tree);
        found.iter().map(|it| it.directive.args().join(" ")).collect()
    }

    #[test]
    fn locations_are_asked_as_nginx_asks_them() {
        let text = "location / {} location /a {} location ~ \\.php$ {} location ^~ /img/ {} \
                    location = / {} location /a/b {} location /img/big/ {} location ~* x {}";
        let expected = ["= /", "^~ /img/", "~ \\.php$", "~* x", "/img/big/", "/a/b", "/a", "/"];
        assert_eq!(order(text), expected);
    }

    #[test]
    fn a_modifier_needs_no_space_behind_it() {
        let text = "location / {} location ~/\\.ht {} location ~*\\.PHP$ {} location ^~/a {} \
                    location =/b {}";
        assert_eq!(order(text), ["=/b", "^~/a", "~/\\.ht", "~*\\.PHP$", "/"]);
    }

    #[test]
    fn names_rank_exact_wildcard_expression() {
        let rank = |text| names(text).map(|it| it.iter().map(|it| it.rank.0).collect::<Vec<_>>());
        assert_eq!(rank("a.example"), Ok(vec![0]));
        assert_eq!(rank(".example"), Ok(vec![0, 1]));
        assert_eq!(rank("www.*"), Ok(vec![2]));
        assert_eq!(rank("~^w(?<n>.+)$"), Ok(vec![3]));
        assert_eq!((rank("_"), rank("\"\"").is_ok()), (Ok(vec![]), true));
    }
}
