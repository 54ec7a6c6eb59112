//! Texts with variables: `$request_id` in the value of a header. Maps are variables too.
//!
//! A name begins after a dollar sign and has lower-case letters and `_`; that of a claim
//! (`$jwt_claim_NAME`) has capitals and digits as well. `$$` is a dollar sign. A dollar sign before
//! anything else stands for itself.

use alloc::{borrow::ToOwned as _, string::String, sync::Arc, vec::Vec};
use core::fmt;

use super::Map;

/// What a request tells of itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Variable {
    /// The address of the client, without its port.
    ClientAddress,
    /// The port of the client.
    ClientPort,
    /// The subject of the client's certificate (RFC 4514).
    ClientCertificate,
    /// The host that was asked for, without its port.
    Host,
    /// The method.
    Method,
    /// The path as it was asked for.
    Path,
    /// The path in its normal form, which a map sees as `$path`.
    NormalPath,
    /// The query as it was asked for, without the question mark.
    Query,
    /// The id of the request.
    RequestId,
    /// `http` or `https`.
    Scheme,
    /// The server name (SNI) of the client's handshake.
    ServerName,
    /// The cipher suite towards the client.
    TlsCipher,
    /// The version of TLS towards the client.
    TlsVersion,
    /// The user of basic authentication, or the subject of a token.
    User,
}

impl Variable {
    /// Every variable that has a name of its own.
    pub const ALL: [Self; 13] = [
        Self::ClientAddress,
        Self::ClientCertificate,
        Self::ClientPort,
        Self::Host,
        Self::Method,
        Self::Path,
        Self::Query,
        Self::RequestId,
        Self::Scheme,
        Self::ServerName,
        Self::TlsCipher,
        Self::TlsVersion,
        Self::User,
    ];

    /// The name, without the dollar sign.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::ClientAddress => "client_address",
            Self::ClientCertificate => "client_certificate",
            Self::ClientPort => "client_port",
            Self::Host => "host",
            Self::Method => "method",
            Self::Path | Self::NormalPath => "path",
            Self::Query => "query",
            Self::RequestId => "request_id",
            Self::Scheme => "scheme",
            Self::ServerName => "server_name",
            Self::TlsCipher => "tls_cipher",
            Self::TlsVersion => "tls_version",
            Self::User => "user",
        }
    }

    /// Whether it is known while routes are compared with a request.
    #[must_use]
    pub const fn is_of_routes(self) -> bool {
        matches!(
            self,
            Self::ClientAddress
                | Self::Host
                | Self::Method
                | Self::Path
                | Self::NormalPath
                | Self::Query
                | Self::Scheme
        )
    }

    /// Whether it may differ for clients that ask for the same, and is a client's more than once:
    /// not what the key of a cache has already, nor what is another in each request or connection.
    const fn tells_clients_apart(self) -> bool {
        match self {
            Self::ClientAddress
            | Self::ClientCertificate
            | Self::ServerName
            | Self::TlsCipher
            | Self::TlsVersion
            | Self::User => true,
            Self::ClientPort
            | Self::Host
            | Self::Method
            | Self::Path
            | Self::NormalPath
            | Self::Query
            | Self::RequestId
            | Self::Scheme => false,
        }
    }
}

/// Appends what a variable stands for.
pub trait Variables {
    /// Appends the value of `variable` to `out`; nothing where there is none.
    fn write(&self, variable: Variable, out: &mut Vec<u8>);

    /// Appends the claim of this name of the token; nothing where there is none.
    fn write_claim(&self, _name: &str, _out: &mut Vec<u8>) {}
}

/// A text with variables.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Template {
    parts: Vec<Part>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum Part {
    Literal(String),
    /// A literal that is not UTF-8, as only a message has it.
    Bytes(Vec<u8>),
    Variable(Variable),
    Claim(String),
    Map(Arc<Map>),
}

/// A name after a dollar sign that is not the name of a variable.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UnknownVariable(pub String);

impl Template {
    /// A text without variables, which says just that.
    #[must_use]
    pub fn literal(text: &str) -> Self {
        Self { parts: [Part::Literal(text.to_owned())].into() }
    }

    /// The same of what a message has, which may not be UTF-8 (RFC 9110, 5.5).
    #[must_use]
    pub fn literal_bytes(bytes: &[u8]) -> Self {
        match core::str::from_utf8(bytes) {
            Ok(text) => Self::literal(text),
            Err(_) => Self { parts: [Part::Bytes(bytes.to_vec())].into() },
        }
    }

    /// Reads a text as the file has it.
    ///
    /// # Errors
    /// The first name that is not the name of a variable.
    pub fn read(text: &str) -> Result<Self, UnknownVariable> {
        Self::read_with(text, &|_| None)
    }

    /// As [`Template::read`], with variables that are looked up in maps.
    ///
    /// # Errors
    /// The first name that is neither the name of a variable nor that of a map.
    pub fn read_with(
        text: &str,
        map: &dyn Fn(&str) -> Option<Arc<Map>>,
    ) -> Result<Self, UnknownVariable> {
        let (mut parts, mut literal, mut rest) = (Vec::new(), String::new(), text);
        while let Some(at) = rest.find('$') {
            let after = &rest[at + 1..];
            literal.push_str(&rest[..at]);
            let name = name_at(after);
            if name.is_empty() {
                literal.push('$');
                rest = after.strip_prefix('$').unwrap_or(after);
                continue;
            }
            let part = Part::named(name).or_else(|| map(name).map(Part::Map));
            let part = part.ok_or_else(|| UnknownVariable(name.to_owned()))?;
            flush(&mut literal, &mut parts);
            parts.push(part);
            rest = &after[name.len()..];
        }
        literal.push_str(rest);
        flush(&mut literal, &mut parts);
        Ok(Self { parts })
    }

    /// Whether it is the same for every request.
    #[must_use]
    pub fn is_literal(&self) -> bool {
        self.parts.iter().all(|part| matches!(part, Part::Literal(_) | Part::Bytes(_)))
    }

    /// The maps in it.
    pub fn maps(&self) -> impl Iterator<Item = &Map> {
        self.parts.iter().filter_map(|part| match part {
            Part::Map(map) => Some(&**map),
            Part::Literal(_) | Part::Bytes(_) | Part::Variable(_) | Part::Claim(_) => None,
        })
    }

    /// Its parts, and the parts of its maps' keys.
    fn deciding(&self) -> impl Iterator<Item = &Part> {
        self.parts.iter().chain(self.maps().flat_map(|map| &map.of().parts))
    }

    /// The name of what is not known while routes are compared with a request.
    #[must_use]
    pub fn unknown_to_routes(&self) -> Option<String> {
        self.deciding().find_map(|part| match part {
            Part::Variable(variable) if !variable.is_of_routes() => {
                Some(variable.name().to_owned())
            }
            Part::Claim(name) => Some(alloc::format!("{CLAIM}{name}")),
            Part::Literal(_) | Part::Bytes(_) | Part::Variable(_) | Part::Map(_) => None,
        })
    }

    /// The same with the path in its normal form.
    pub(super) fn of_normal_path(mut self) -> Self {
        for part in &mut self.parts {
            if *part == Part::Variable(Variable::Path) {
                *part = Part::Variable(Variable::NormalPath);
            }
        }
        self
    }

    /// Whether it has a variable that identifies the user, by credentials shown.
    #[must_use]
    pub fn tells_user(&self) -> bool {
        let tells = |part: &Part| matches!(part, Part::Variable(Variable::User) | Part::Claim(_));
        self.deciding().any(tells)
    }

    /// Whether it may differ for clients that ask for the same; `$request_id` and `$client_port`,
    /// which differ in everything, do not count.
    #[must_use]
    pub fn tells_clients_apart(&self) -> bool {
        self.deciding().any(|part| match part {
            Part::Literal(_) | Part::Bytes(_) | Part::Map(_) => false,
            Part::Variable(variable) => variable.tells_clients_apart(),
            Part::Claim(_) => true,
        })
    }

    /// Appends the text for one request.
    pub fn write(&self, variables: &dyn Variables, out: &mut Vec<u8>) {
        for part in &self.parts {
            match part {
                Part::Literal(text) => out.extend_from_slice(text.as_bytes()),
                Part::Bytes(bytes) => out.extend_from_slice(bytes),
                Part::Variable(variable) => variables.write(*variable, out),
                Part::Claim(name) => variables.write_claim(name, out),
                Part::Map(map) => out.extend_from_slice(map.value(variables).as_bytes()),
            }
        }
    }
}

/// As the file has it.
impl fmt::Display for Template {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.parts.iter().try_for_each(|part| match part {
            Part::Literal(text) => f.write_str(&text.replace('$', "$$")),
            Part::Bytes(bytes) => f.write_str(&String::from_utf8_lossy(bytes).replace('$', "$$")),
            Part::Variable(variable) => write!(f, "${}", variable.name()),
            Part::Claim(name) => write!(f, "${CLAIM}{name}"),
            Part::Map(map) => write!(f, "${}", map.name()),
        })
    }
}

impl Part {
    /// The variable or the claim of this name.
    fn named(name: &str) -> Option<Self> {
        let variable =
            || Variable::ALL.into_iter().find(|it| it.name() == name).map(Self::Variable);
        match name.strip_prefix(CLAIM) {
            Some("") | None => variable(),
            Some(claim) => Some(Self::Claim(claim.to_owned())),
        }
    }
}

/// What the name of a claim of a token comes after: `$jwt_claim_sub`.
pub const CLAIM: &str = "jwt_claim_";

/// The name with which a text begins; empty if it begins with none.
fn name_at(text: &str) -> &str {
    let is_claim = text.starts_with(CLAIM);
    let is_of_name = |c: char| match is_claim {
        true => c.is_ascii_alphanumeric() || c == '_',
        false => c.is_ascii_lowercase() || c == '_',
    };
    let end = text.find(|c| !is_of_name(c)).unwrap_or(text.len());
    &text[..end]
}

fn flush(literal: &mut String, parts: &mut Vec<Part>) {
    if !literal.is_empty() {
        parts.push(Part::Literal(core::mem::take(literal)));
    }
}

impl fmt::Display for UnknownVariable {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "there is no variable `${}`", self.0)
    }
}

#[cfg(test)]
mod tests {
    use alloc::string::ToString as _;

    use super::*;

    struct Names;

    impl Variables for Names {
        fn write(&self, variable: Variable, out: &mut Vec<u8>) {
            out.extend_from_slice(b"<");
            out.extend_from_slice(variable.name().as_bytes());
            out.extend_from_slice(b">");
        }

        fn write_claim(&self, name: &str, out: &mut Vec<u8>) {
            out.extend_from_slice(b"{");
            out.extend_from_slice(name.as_bytes());
            out.extend_from_slice(b"}");
        }
    }

    fn written(text: &str) -> Result<String, UnknownVariable> {
        let mut out = Vec::new();
        Template::read(text)?.write(&Names, &mut out);
        Ok(String::from_utf8_lossy(&out).into_owned())
    }

    #[test]
    fn variables_are_replaced_and_all_else_stays() {
        for (text, expected) in [
            ("", ""),
            ("plain", "plain"),
            ("$request_id", "<request_id>"),
            ("$scheme://$host$path?$query", "<scheme>://<host><path>?<query>"),
            ("id=$request_id;", "id=<request_id>;"),
            ("costs 5$", "costs 5$"),
            ("$$host", "$host"),
            ("$1 and $ and $-", "$1 and $ and $-"),
            ("$tls_version-$tls_cipher", "<tls_version>-<tls_cipher>"),
            ("$jwt_claim_sub-$jwt_claim_tenantId2", "{sub}-{tenantId2}"),
        ] {
            assert_eq!(written(text).as_deref(), Ok(expected), "{text}");
        }
    }

    #[test]
    fn a_name_that_is_none_is_told() {
        assert_eq!(written("a $remote_addr"), Err(UnknownVariable("remote_addr".into())));
        assert_eq!(written("$hosts"), Err(UnknownVariable("hosts".into())));
        assert_eq!(written("$jwt_claim_"), Err(UnknownVariable("jwt_claim_".into())));
    }

    #[test]
    fn every_variable_is_read_and_written_as_the_file_has_it() {
        for variable in Variable::ALL {
            let text = ["a$$b $", variable.name()].concat();
            let template = Template::read(&text).expect("a variable");
            assert!(!template.is_literal());
            assert_eq!(template.to_string(), text);
        }
        assert!(Template::literal("$host").is_literal());
        let claim = Template::read("a $jwt_claim_x$$").expect("a claim");
        assert_eq!(claim.to_string(), "a $jwt_claim_x$$");
        assert!(!claim.is_literal() && claim.tells_user() && claim.tells_clients_apart());
    }
}
