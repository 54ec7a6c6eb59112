//! `if` of nginx: the conditions that routes have, too.

use crate::condition::{Host, Path, Place, Value, When, compile};
use crate::expression::{self, whole};
use crate::haproxy::is_host_name;
use crate::parameter;

/// What an `if` asks.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Test {
    Always(bool),
    /// Whether it has to hold, or must not.
    When(When, bool),
    /// One of these holds.
    Either(Vec<Alternative>),
}

/// What has to hold, and what must not.
pub(super) type Alternative = (When, Vec<When>);

impl Test {
    /// The conditions of which one has to hold; none where none does.
    pub(super) fn alternatives(self) -> Vec<Alternative> {
        match self {
            Self::Always(false) => Vec::new(),
            Self::Always(true) => vec![(When::default(), Vec::new())],
            Self::When(when, true) => vec![(when, Vec::new())],
            Self::When(when, false) => vec![(When::default(), vec![when])],
            Self::Either(all) => all,
        }
    }
}

/// What of it a route asks otherwise.
pub(super) fn differing(args: &[&str]) -> Option<&'static str> {
    let text = args.join(" ");
    let variable = text.trim_start_matches(['(', ' ']);
    (variable.starts_with("$arg_") || variable.starts_with("$cookie_")).then_some(
        "nginx finds the name in any case, and takes the first of several; here the name has its \
         case, and one of several is enough",
    )
}

/// Reads the arguments of an `if`, on a listener with TLS or without.
///
/// # Errors
/// What of it a route cannot ask.
pub(super) fn test(args: &[&str], tls: bool) -> Result<Test, String> {
    let text = args.join(" ");
    let inside = text.trim().strip_prefix('(').and_then(|it| it.strip_suffix(')'));
    let inside = inside.ok_or_else(|| "an `if` without parentheses".to_owned())?.trim();
    let mut parts = inside.splitn(3, ' ');
    let variable = parts.next().unwrap_or_default();
    let operator = parts.next().unwrap_or_default();
    let value = parts.next().unwrap_or_default().trim().trim_matches(['"', '\'']);
    let Some(name) = variable.strip_prefix('$') else {
        return Err(format!("a route cannot ask for `{variable}`"));
    };
    let negated = operator.starts_with('!');
    let how = operator.trim_start_matches('!');
    match (name, how) {
        ("scheme", "=") => Ok(Test::Always((value == "https") == (tls != negated))),
        ("https", "=") => Ok(Test::Always(((value == "on") == tls) != negated)),
        ("host" | "http_host", "=") if is_host_name(&value.to_ascii_lowercase()) => {
            let host = Host::Exact(value.to_ascii_lowercase());
            Ok(Test::When(When::host(vec![host]), !negated))
        }
        // Other than `$http_host`, `$host` has no port.
        ("host", "~" | "~*") => {
            let regex = expression::host(&cased(how, value))?;
            compile(&regex)?;
            let when = When::field(Place::Header, "Host", vec![Value::Regex(regex)]);
            Ok(Test::When(when, !negated))
        }
        ("http_host", "~" | "~*") => field(Place::Header, "Host", how, value, negated),
        ("request_method", "=") if is_method(value) => Ok(methods(vec![value.to_owned()], negated)),
        ("request_method", "=") => Err(NO_METHOD.to_owned()),
        ("request_method", "~" | "~*") => {
            let names = value.trim_start_matches('^').trim_end_matches('$');
            let names: Vec<_> =
                names.trim_matches(['(', ')']).split('|').map(str::to_owned).collect();
            if names.iter().all(|name| is_method(name)) {
                return Ok(methods(names, negated));
            }
            Err(NO_METHOD.to_owned())
        }
        ("request_uri", "~" | "~*") if !value.starts_with("^/") || value.contains(['?', '$']) => {
            Err("a route asks for path and query apart, not for `$request_uri`".to_owned())
        }
        ("uri" | "document_uri" | "request_uri", "~" | "~*") => {
            let regex = cased(how, value);
            compile(&regex)?;
            Ok(Test::When(When::path(vec![Path::Regex(regex)]), !negated))
        }
        ("uri" | "document_uri", "=") => {
            Ok(Test::When(When::path(vec![Path::Exact(value.to_owned())]), !negated))
        }
        (name, how) => match named(name) {
            Some((place, name)) => field(place, &name, how, value, negated),
            None => Err(format!("a route cannot ask for `${name}`")),
        },
    }
}

fn methods(names: Vec<String>, negated: bool) -> Test {
    Test::When(When { methods: Some(names), ..When::default() }, !negated)
}

fn is_method(name: &str) -> bool {
    !name.is_empty() && name.bytes().all(|it| it.is_ascii_uppercase())
}

const NO_METHOD: &str = "a route asks for methods by name, in capitals";

/// A variable that is a header, a cookie or a parameter of the query.
fn named(variable: &str) -> Option<(Place, String)> {
    let (kind, name) = variable.split_once('_')?;
    let place = match kind {
        "http" => return Some((Place::Header, name.replace('_', "-"))),
        "cookie" => Place::Cookie,
        "arg" => Place::Query,
        _ => return None,
    };
    Some((place, name.to_owned()))
}

fn cased(how: &str, regex: &str) -> String {
    if how == "~*" { format!("(?i){regex}") } else { regex.to_owned() }
}

/// Any text but an empty one; an empty field is the same as none.
const SOME: &str = ".+";
/// What a variable alone has to be: neither empty nor 0.
const TRUE: &str = "[^0].*|0.+";

/// What is asked of a field. One that is absent is an empty text in nginx, where a route asks for
/// one that is there.
fn field(place: Place, name: &str, how: &str, value: &str, negated: bool) -> Result<Test, String> {
    let value = if place == Place::Query { queried(name, how, value)? } else { value.to_owned() };
    let asked = |value| When::field(place, name, vec![value]);
    let regex = |regex: &str| asked(Value::Regex(regex.to_owned()));
    match how {
        "" => Ok(Test::When(regex(TRUE), !negated)),
        "=" if value.is_empty() => Ok(Test::When(regex(SOME), negated)),
        "=" => Ok(Test::When(asked(Value::Exact(value)), !negated)),
        "~" | "~*" => {
            let found = cased(how, &value);
            let pattern = whole(&found);
            compile(&pattern)?;
            let own = regex(&pattern);
            if !compile(&found)?.is_match(b"") {
                return Ok(Test::When(own, !negated));
            }
            let any = asked(Value::Any);
            Ok(match (found.trim_start_matches("(?i)"), negated) {
                // Nothing but an empty text.
                ("^$", _) => Test::When(regex(SOME), negated),
                (_, true) => Test::Either(vec![(any, vec![own])]),
                (_, false) => Test::Either(vec![(own, Vec::new()), (When::default(), vec![any])]),
            })
        }
        other => Err(format!("a route cannot compare by `{other}`")),
    }
}

/// The value of a parameter as a route compares it: nginx compares what is in the URL.
fn queried(name: &str, how: &str, value: &str) -> Result<String, String> {
    parameter::checked(name)?;
    match how {
        "=" => parameter::decoded(value),
        _ if value.contains('%') => {
            Err("parameters are compared decoded: write the expression so".to_owned())
        }
        _ => Ok(value.to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str, tls: bool) -> Result<Test, String> {
        test(&text.split(' ').collect::<Vec<_>>(), tls)
    }

    #[test]
    fn the_scheme_is_that_of_the_listener() {
        assert_eq!(read("($scheme = http)", false), Ok(Test::Always(true)));
        assert_eq!(read("($scheme = http)", true), Ok(Test::Always(false)));
        assert_eq!(read("($scheme != \"https\")", false), Ok(Test::Always(true)));
        assert_eq!(read("($scheme != \"https\")", true), Ok(Test::Always(false)));
    }

    #[test]
    fn hosts_methods_and_headers_are_asked_for() {
        let host = When::host(vec![Host::Exact("a.example".to_owned())]);
        assert_eq!(read("($host = A.example)", false), Ok(Test::When(host, true)));
        let methods =
            When { methods: Some(vec!["GET".to_owned(), "HEAD".to_owned()]), ..When::default() };
        assert_eq!(
            read("($request_method !~ ^(GET|HEAD)$)", false),
            Ok(Test::When(methods, false))
        );
        let agent = When::field(Place::Header, "user-agent", vec![Value::Regex(TRUE.to_owned())]);
        assert_eq!(read("($http_user_agent)", false), Ok(Test::When(agent, true)));
        assert!(read("($request_method = put)", false).is_err());
        assert!(read("(-f $request_filename)", false).is_err());
    }

    #[test]
    fn a_field_that_is_absent_is_as_good_as_an_empty_one() {
        let agent = |value| When::field(Place::Header, "user-agent", vec![value]);
        let some = || agent(Value::Regex(SOME.to_owned()));
        for empty in ["($http_user_agent = \"\")", "($http_user_agent ~ \"^$\")"] {
            assert_eq!(read(empty, false), Ok(Test::When(some(), false)), "{empty}");
        }
        assert_eq!(read("($http_user_agent != '')", false), Ok(Test::When(some(), true)));
        let own = || agent(Value::Regex("(?s).*(?:^(|a)$).*".to_owned()));
        let either = vec![(own(), vec![]), (When::default(), vec![agent(Value::Any)])];
        assert_eq!(read("($http_user_agent ~ ^(|a)$)", false), Ok(Test::Either(either)));
        let other = vec![(agent(Value::Any), vec![own()])];
        assert_eq!(read("($http_user_agent !~ ^(|a)$)", false), Ok(Test::Either(other)));
    }

    #[test]
    fn parameters_are_asked_for_decoded() {
        let value = Value::Exact("a b/".to_owned());
        let asked = When::field(Place::Query, "q", vec![value]);
        assert_eq!(read("($arg_q = a+b%2F)", false), Ok(Test::When(asked, true)));
        assert!(read("($arg_q ~ ^%2F)", false).is_err());
        assert!(read("($arg_q = %FF)", false).is_err());
    }
}
