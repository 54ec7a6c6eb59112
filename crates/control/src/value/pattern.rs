//! What routes compare with: hosts, paths, values and networks.

use loadline_core::{
    compress::MediaRange,
    rules::{self, Network, Origin, OriginError, Regex, normal},
};
use loadline_spanned::{Complaint, Textual};
use schemars::{Schema, json_schema};

/// A host, or all below a domain.
#[derive(Clone, Debug)]
pub(crate) struct HostPattern(pub(crate) rules::Host);

impl Textual for HostPattern {
    const EXPECTED: &'static str = "a host like \"www.example.com\" or \"*.example.com\"";
    const TITLE: &'static str = "a host, or `*.` and a domain for all below it";
    const PATTERN: Option<&'static str> = Some("^(\\*\\.)?[A-Za-z0-9._-]+$|^\\[[0-9A-Fa-f:.]+\\]$");
    const EXAMPLES: &'static [&'static str] = &["www.example.com", "*.example.com"];

    fn read(text: &str) -> Result<Self, Complaint> {
        let complain = |error| Complaint::new(format!("`{text}` is not a host"), say(error));
        rules::Host::parse(text).map(Self).map_err(complain)
    }
}

/// A path, all below a path, or an expression.
#[derive(Clone, Debug)]
pub(crate) struct PathPattern(pub(crate) rules::Path);

impl Textual for PathPattern {
    const EXPECTED: &'static str =
        "a path like \"/exact\", \"/all/below/\" or \"~/an/expression/[0-9]+\"";
    const TITLE: &'static str =
        "a path, with `/` at its end also all below it, or `~` and an expression";
    const PATTERN: Option<&'static str> = Some("^/([^?#]*[^*?#])?$|^~");
    const EXAMPLES: &'static [&'static str] = &["/login", "/api/", "~/users/[0-9]+"];

    fn read(text: &str) -> Result<Self, Complaint> {
        let path = match text.strip_prefix('~') {
            Some(expression) => Regex::whole(expression).map(rules::Path::Regex),
            None if text.contains('?') => {
                let help = "leave `?` and what follows out: query = { name = \"value\" } is a \
                            condition of its own";
                return Err(Complaint::new(format!("`{text}` is not a path"), help));
            }
            None if text.ends_with('*') => {
                let help = "end it with a slash for all below it: \"/api/\"";
                return Err(Complaint::new(format!("`{text}` has a star"), help));
            }
            None if text.ends_with('/') => rules::Path::prefix(text),
            None => rules::Path::exact(text),
        };
        let complain = |error| Complaint::new(format!("`{text}` is not a path"), say(error));
        path.map(Self).map_err(complain)
    }
}

/// A value, the beginning of one, an expression, or any.
#[derive(Clone, Debug)]
pub(crate) struct ValuePattern(pub(crate) Option<rules::Text>);

impl Textual for ValuePattern {
    const EXPECTED: &'static str =
        "a value like \"exact\", \"beginning*\", \"~an expression\" or \"*\" for any";
    const TITLE: &'static str =
        "a value, its beginning and `*`, `~` and an expression, or `*` for any";

    fn read(text: &str) -> Result<Self, Complaint> {
        if text == "*" {
            return Ok(Self(None));
        }
        let is_expression = text.starts_with('~');
        if !is_expression && text.strip_suffix('*').unwrap_or(text).contains('*') {
            let help = "a star stands at the end only: write an expression, \"~a.*b\" for all \
                        between a and b, \"~a\\\\*b\" for the star itself";
            return Err(Complaint::new(format!("`{text}` has a star before its end"), help));
        }
        let pattern = match (text.strip_prefix('~'), text.strip_suffix('*')) {
            (Some(expression), _) => {
                let complain =
                    |error| Complaint::new(format!("`{expression}` does not compile"), say(error));
                rules::Text::Regex(Regex::whole(expression).map_err(complain)?)
            }
            (None, Some(beginning)) => rules::Text::Prefix(beginning.to_owned()),
            (None, None) => rules::Text::Exact(text.to_owned()),
        };
        Ok(Self(Some(pattern)))
    }
}

/// A range of addresses.
#[derive(Clone, Debug)]
pub(crate) struct NetworkRange(pub(crate) Network);

impl Textual for NetworkRange {
    const EXPECTED: &'static str = "a network like \"10.0.0.0/8\"";
    const TITLE: &'static str = "an address, or a network";
    const PATTERN: Option<&'static str> = Some("^[0-9A-Fa-f:.]+(/[0-9]{1,3})?$");
    const EXAMPLES: &'static [&'static str] = &["10.0.0.0/8", "2001:db8::/32"];

    fn read(text: &str) -> Result<Self, Complaint> {
        let complain = |error| Complaint::new(format!("`{text}` is not a network"), say(error));
        text.parse().map(Self).map_err(complain)
    }
}

/// Origins of web pages.
#[derive(Clone, Debug)]
pub(crate) struct OriginPattern(pub(crate) Origin);

impl Textual for OriginPattern {
    const EXPECTED: &'static str = "an origin like \"https://app.example.com\"";
    const TITLE: &'static str = "an origin, with `*.` for all below a domain, or `*` for all";
    const PATTERN: Option<&'static str> =
        Some("^\\*$|^[A-Za-z][A-Za-z0-9+.-]*://(\\*\\.)?[A-Za-z0-9._:\\[\\]-]+$");
    const EXAMPLES: &'static [&'static str] = &["https://app.example.com", "https://*.example.com"];

    fn read(text: &str) -> Result<Self, Complaint> {
        let message = format!("`{text}` is not an origin");
        let complain = |error: OriginError| Complaint::new(message, error.to_string());
        Origin::parse(text).map(Self).map_err(complain)
    }
}

/// An expression that may match a part of a path.
#[derive(Clone, Debug)]
pub(crate) struct Expression(pub(crate) Regex);

impl Textual for Expression {
    const EXPECTED: &'static str = "a regular expression";
    const TITLE: &'static str = "a regular expression";

    fn read(text: &str) -> Result<Self, Complaint> {
        let complain = |error| Complaint::new(format!("`{text}` does not compile"), say(error));
        Regex::part(text).map(Self).map_err(complain)
    }
}

/// A path that is replaced with all below it.
#[derive(Clone, Debug)]
pub(crate) struct PathPrefix(pub(crate) String);

impl Textual for PathPrefix {
    const EXPECTED: &'static str = "a path like \"/old/\"";
    const TITLE: &'static str = "a path";
    const PATTERN: Option<&'static str> = Some("^/[^?#]*$");
    const EXAMPLES: &'static [&'static str] = &["/old/"];

    fn read(text: &str) -> Result<Self, Complaint> {
        let complain = |error| Complaint::new(format!("`{text}` is not a path"), say(error));
        rules::Path::prefix(text).map_err(complain)?;
        Ok(Self(text.trim_end_matches('/').to_owned()))
    }
}

/// What a path becomes, decoded or percent-encoded.
#[derive(Clone, Debug)]
pub(crate) struct NewPath(pub(crate) String);

impl NewPath {
    /// What to write instead of a text that has a slash at its beginning and yet is no path, or one
    /// that clients and servers read as another.
    pub(crate) fn fault(text: &str) -> Option<&'static str> {
        if text.contains(|c: char| matches!(c, '?' | '#') || c.is_control()) {
            return Some(NEW_PATH_HELP);
        }
        let is_another = text.starts_with("//") || normal::has_dots(text.as_bytes());
        is_another.then_some("begin it with one slash, and leave `/./` and `/../` out")
    }
}

impl Textual for NewPath {
    const EXPECTED: &'static str = "a path like \"/new/\"";
    const TITLE: &'static str = "a path, decoded or percent-encoded";
    const PATTERN: Option<&'static str> =
        Some("^/([^/?#\\x00-\\x1f\\x7f-\\x9f][^?#\\x00-\\x1f\\x7f-\\x9f]*)?$");
    const EXAMPLES: &'static [&'static str] = &["/new/", "/caf%C3%A9"];

    fn read(text: &str) -> Result<Self, Complaint> {
        let is_relative = !text.starts_with('/');
        match Self::fault(text).or(is_relative.then_some("begin it with a slash")) {
            None => Ok(Self(text.to_owned())),
            Some(help) => Err(Complaint::new(format!("`{text}` is not a path"), help)),
        }
    }
}

/// What to write where a path has a query.
const NEW_PATH_HELP: &str = "leave `?` and `#` out: the query stays as it came; \
    `%3F` is a question mark in a path, and the `location` of a redirect has a query of its own";

/// A method of HTTP.
#[derive(Clone, Debug)]
pub(crate) struct MethodName(pub(crate) String);

impl Textual for MethodName {
    const EXPECTED: &'static str = "a method like \"GET\"";
    const TITLE: &'static str = "a method";
    const PATTERN: Option<&'static str> = Some("^[A-Z-]+$");

    fn read(text: &str) -> Result<Self, Complaint> {
        let fits = |byte: u8| byte.is_ascii_uppercase() || byte == b'-';
        if !text.is_empty() && text.bytes().all(fits) {
            return Ok(Self(text.to_owned()));
        }
        let help = "write it in capitals: \"GET\"";
        Err(Complaint::new(format!("`{text}` is not a method"), help))
    }
}

/// The value of a header field, which may have variables. Whether there are such variables depends
/// on the maps of the file.
#[derive(Clone, Debug)]
pub(crate) struct HeaderTemplate(pub(crate) String);

impl Textual for HeaderTemplate {
    const EXPECTED: &'static str = "the value of a header";
    const TITLE: &'static str = HeaderText::TITLE;
    const PATTERN: Option<&'static str> = HeaderText::PATTERN;

    fn read(text: &str) -> Result<Self, Complaint> {
        HeaderText::read(text).map(|text| Self(text.0))
    }
}

/// The value of a header field.
#[derive(Clone, Debug)]
pub(crate) struct HeaderText(pub(crate) String);

impl Textual for HeaderText {
    const EXPECTED: &'static str = "the value of a header";
    const TITLE: &'static str = "a value";
    const PATTERN: Option<&'static str> = Some("^([!-~]([ -~]*[!-~])?)?$");

    fn read(text: &str) -> Result<Self, Complaint> {
        let is_visible = text.bytes().all(|byte| (b' '..=b'~').contains(&byte));
        if !is_visible || text.trim() != text {
            let help = "write ASCII on one line, without spaces at its ends";
            return Err(Complaint::new("not allowed in a header", help));
        }
        Ok(Self(text.to_owned()))
    }
}

/// A character of a token, as a pattern; a star has its own meaning there.
const TOKEN: &str = "[A-Za-z0-9!#$&^_.+-]";

/// Some media types.
#[derive(Clone, Debug)]
pub(crate) struct MediaType(pub(crate) MediaRange);

impl Textual for MediaType {
    const EXPECTED: &'static str =
        "a media type like \"text/html\", \"text/*\" or \"application/*+json\"";

    fn read(text: &str) -> Result<Self, Complaint> {
        let help = "write it like \"text/html\", \"text/*\" or \"application/*+json\"";
        let complain = |_| Complaint::new(format!("`{text}` is not a media type"), help);
        text.parse().map(Self).map_err(complain)
    }

    fn schema() -> Schema {
        json_schema!({
            "type": "string",
            "title": "a media type, in which a star stands for anything",
            "pattern": format!("^({TOKEN}+/{TOKEN}*\\*?{TOKEN}*|\\*/\\*)$"),
            "examples": ["text/*", "application/json"],
        })
    }
}

/// The text of a response.
#[derive(Clone, Debug)]
pub(crate) struct Body(pub(crate) String);

impl Textual for Body {
    fn read(text: &str) -> Result<Self, Complaint> {
        Ok(Self(text.to_owned()))
    }
}

/// What would be right, as a sentence for whoever wrote the file.
#[expect(clippy::needless_pass_by_value, reason = "what `map_err` hands over")]
fn say(error: rules::PatternError) -> String {
    error.to_string()
}

#[cfg(test)]
mod tests {
    use loadline_core::rules::Variable;

    #[test]
    fn the_documentation_has_every_variable_of_headers() {
        let page = include_str!("../reference.md");
        for variable in Variable::ALL {
            assert!(page.contains(&format!("`${}`", variable.name())), "{}", variable.name());
        }
    }
}
