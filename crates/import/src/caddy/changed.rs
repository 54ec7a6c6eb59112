//! Directives of Caddy that change the path or headers. Matchers behind them see what was changed,
//! where a route sees the request as it came.

use super::{Import, lex::Directive, matcher::Matcher, proxy};
use crate::{
    condition::{Place, When},
    model::{PROTECTED, Table, is_guard},
};

/// What directives of a site have changed so far.
#[derive(Clone, Debug, Default)]
pub(super) struct Changed {
    path: bool,
    /// Names of headers in lower case; a star is all of them.
    headers: Vec<String>,
}

impl Changed {
    /// Notes what a directive changes.
    pub(super) fn follow(&mut self, directive: &Directive) {
        let args = directive.args();
        let is_matcher = |word: &str| word.starts_with(['@', '/']) || word == "*";
        let skipped = usize::from(args.len() > 1 && is_matcher(args[0]));
        let first = args.get(skipped).copied().unwrap_or_default();
        match directive.name() {
            "uri" if first == "query" => {}
            "rewrite" | "uri" => self.path = true,
            "request_header" => {
                let lines = directive.block().iter().map(Directive::name);
                self.headers.extend(lines.chain([first]).map(header));
            }
            "forward_auth" => {
                let copied = directive.block().iter().flat_map(proxy::copied);
                self.headers.extend(copied.map(|name| header(&name)));
            }
            _ => {}
        }
    }

    /// What a matcher asks for that was changed.
    fn asked(&self, matcher: &Matcher) -> Option<&'static str> {
        let mut conditions = matcher.yes.iter().chain(&matcher.no);
        if self.path && conditions.clone().any(|when| when.paths.is_some()) {
            return Some(
                "the path is asked for as it came, not as an earlier directive changes it",
            );
        }
        let is_changed = |name: &str| {
            let lower = name.to_ascii_lowercase();
            self.headers.iter().any(|it| *it == lower || it.contains('*'))
        };
        let is_asked = |when: &When| {
            let mut headers = when.fields.iter().filter(|it| it.place == Place::Header);
            headers.any(|it| is_changed(&it.name)) || when.hosts.is_some() && is_changed("host")
        };
        let why = "the header is asked for as the client sent it, not as an earlier directive \
                   changes it";
        conditions.any(is_asked).then_some(why)
    }
}

/// The name of a header in lower case, without what says how it is changed.
fn header(written: &str) -> String {
    let name = written.rsplit('>').next().unwrap_or_default();
    name.trim_start_matches(['+', '-', '?']).to_ascii_lowercase()
}

/// Tells where a matcher asks for what was changed.
pub(super) fn tell(
    import: &Import<'_>,
    directive: &Directive,
    matcher: &Matcher,
    table: &mut Table,
) {
    let Some(why) = import.changed.asked(matcher) else { return };
    let why = if refuses(directive) { format!("{PROTECTED}: {why}") } else { why.to_owned() };
    table.remark(import.lines.differs(import.files, directive.at(), &why));
}

/// Whether a directive, or one within it, refuses requests.
fn refuses(directive: &Directive) -> bool {
    let words: Vec<&str> = directive.words.iter().map(|word| word.text.as_str()).collect();
    let is_error = |word: &&str| word.parse().is_ok_and(|it: u16| (400..600).contains(&it));
    directive.name() == "error"
        || directive.name() == "respond" && words.iter().any(is_error)
        || is_guard(&words.join(" "))
        || directive.block().iter().any(refuses)
}
