//! Free text with rules: names, paths, hosts and header names.

use std::net::Ipv6Addr;

use loadline_core::{fleet::LogTarget, rules};
use loadline_spanned::NAME_PATTERN;
use loadline_spanned::{Complaint, Textual, VARIABLES_HELP, has_variable};

use super::address::port_help;

/// Whether `text` may name a service, a group or a region.
pub(crate) fn is_name(text: &str) -> bool {
    let fits = |c: char| c.is_ascii_alphanumeric() || matches!(c, '.' | '_' | '-');
    !text.is_empty() && text.chars().all(fits)
}

/// What a name may be, for a help text.
pub(crate) const NAME_RULE: &str = "names are made of letters, digits, `.`, `_` and `-`";

/// The name of a region, a service or a group.
#[derive(Clone, Debug)]
pub(crate) struct Name(pub(crate) String);

impl Textual for Name {
    const EXPECTED: &'static str = "a name in quotes";
    const TITLE: &'static str = "a name";
    const PATTERN: Option<&'static str> = Some(NAME_PATTERN);

    fn read(text: &str) -> Result<Self, Complaint> {
        let wrong = || Complaint::new(format!("`{text}` is not a name"), NAME_RULE);
        is_name(text).then(|| Self(text.to_owned())).ok_or_else(wrong)
    }
}

/// Path and query of a request.
#[derive(Clone, Debug)]
pub(crate) struct UrlPath(pub(crate) String);

impl Textual for UrlPath {
    const EXPECTED: &'static str = "a path like \"/health-check\"";
    const TITLE: &'static str = "a path";
    const PATTERN: Option<&'static str> = Some("^/[!-\"$-~]*$");
    const EXAMPLES: &'static [&'static str] = &["/health-check"];

    fn read(text: &str) -> Result<Self, Complaint> {
        let visible = text.bytes().all(|byte| byte.is_ascii_graphic() && byte != b'#');
        if text.starts_with('/') && visible {
            return Ok(Self(text.to_owned()));
        }
        let help = "write a path that begins with a slash and holds no spaces: \"/health-check\"";
        Err(Complaint::new(format!("`{text}` is not a path"), help))
    }
}

/// The name of a service of gRPC.
#[derive(Clone, Debug)]
pub(crate) struct GrpcService(pub(crate) String);

impl Textual for GrpcService {
    const EXPECTED: &'static str = "a service of gRPC like \"package.Service\"";
    const TITLE: &'static str = "a service of gRPC";
    const PATTERN: Option<&'static str> = Some("^[A-Za-z0-9_.-]{1,200}$");
    const EXAMPLES: &'static [&'static str] = &["package.Service"];

    fn read(text: &str) -> Result<Self, Complaint> {
        let is_part = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'.' | b'-');
        if (1..=200).contains(&text.len()) && text.bytes().all(is_part) {
            return Ok(Self(text.to_owned()));
        }
        let help = "write its whole name: \"package.Service\"; true asks for the whole server";
        Err(Complaint::new(format!("`{text}` is not the name of a service of gRPC"), help))
    }
}

/// The value of a Host header.
#[derive(Clone, Debug)]
pub(crate) struct Host(pub(crate) String);

impl Textual for Host {
    const EXPECTED: &'static str = "a host name like \"www.example.com\"";
    const TITLE: &'static str = "a host";
    const PATTERN: Option<&'static str> =
        Some("^([A-Za-z0-9_-]+(\\.[A-Za-z0-9_-]+)*\\.?|\\[[0-9A-Fa-f:.]+\\])(:[1-9][0-9]{0,4})?$");
    const EXAMPLES: &'static [&'static str] = &["www.example.com"];

    fn read(text: &str) -> Result<Self, Complaint> {
        let (name, port) = match text.rfind([':', ']']) {
            Some(at) if text[at..].starts_with(':') => (&text[..at], Some(&text[at + 1..])),
            _ => (text, None),
        };
        let is_port = |port: &str| {
            port.starts_with(|c: char| matches!(c, '1'..='9')) && port.parse::<u16>().is_ok()
        };
        let is_host = match name.strip_prefix('[').and_then(|name| name.strip_suffix(']')) {
            Some(address) => address.parse::<Ipv6Addr>().is_ok(),
            None => {
                let labels = name.strip_suffix('.').unwrap_or(name);
                matches!(rules::Host::parse(labels), Ok(rules::Host::Exact(_)))
            }
        };
        if is_host && port.is_none_or(is_port) {
            return Ok(Self(text.to_owned()));
        }
        let help = if text.parse::<Ipv6Addr>().is_ok() {
            format!("an address of IPv6 stands in brackets: \"[{text}]\"")
        } else {
            let help = "write a host name, with a port if need be: \"www.example.com:8080\"";
            port_help(text).unwrap_or(help).to_owned()
        };
        Err(Complaint::new(format!("`{text}` is not a host"), help))
    }
}

/// A host name or an address, without a port.
#[derive(Clone, Debug)]
pub(crate) struct HostName(pub(crate) String);

impl Textual for HostName {
    const EXPECTED: &'static str = "a host name like \"www.example.com\"";
    const TITLE: &'static str = "a host name or an address";
    const PATTERN: Option<&'static str> =
        Some("^[A-Za-z0-9_-][A-Za-z0-9._-]*$|^[0-9A-Fa-f:.]+$|^\\[[0-9A-Fa-f:.]+\\]$");
    const EXAMPLES: &'static [&'static str] = &["www.example.com"];

    fn read(text: &str) -> Result<Self, Complaint> {
        let bare = text.strip_prefix('[').and_then(|it| it.strip_suffix(']')).unwrap_or(text);
        let fits = |byte: u8| byte.is_ascii_alphanumeric() || b".-_".contains(&byte);
        let is_name = !text.is_empty() && !text.starts_with('.') && text.bytes().all(fits);
        if is_name || bare.parse::<Ipv6Addr>().is_ok() {
            return Ok(Self(bare.to_owned()));
        }
        let help = "write a host name or an address, without a port: \"www.example.com\"";
        Err(Complaint::new(format!("`{text}` is not a host name"), help))
    }
}

/// A server name of TLS, or all names below one.
#[derive(Clone, Debug)]
pub(crate) struct ServerName(pub(crate) String);

impl Textual for ServerName {
    const EXPECTED: &'static str = "a server name like \"www.example.com\" or \"*.example.com\"";
    const TITLE: &'static str = "a server name";
    const PATTERN: Option<&'static str> = Some("^(\\*\\.)?[A-Za-z0-9_-]+(\\.[A-Za-z0-9_-]+)*$");
    const EXAMPLES: &'static [&'static str] = &["www.example.com", "*.example.com"];

    fn read(text: &str) -> Result<Self, Complaint> {
        let fits = |byte: u8| byte.is_ascii_alphanumeric() || b"-_".contains(&byte);
        let name = text.strip_prefix("*.").unwrap_or(text);
        let label = |label: &str| (1..=63).contains(&label.len()) && label.bytes().all(fits);
        if name.len() <= 253 && name.split('.').all(label) {
            return Ok(Self(text.to_ascii_lowercase()));
        }
        let help = if text.is_ascii() {
            "write a name without a port; a star stands for all of its beginning: \
             \"*.example.com\""
        } else {
            "write it in ASCII, as certificates have it: \"xn--bcher-kva.example\" for \
             `bücher.example`"
        };
        Err(Complaint::new(format!("`{text}` is not a server name"), help))
    }
}

/// The name of a header field.
#[derive(Clone, Debug)]
pub(crate) struct HeaderName(pub(crate) String);

impl Textual for HeaderName {
    const EXPECTED: &'static str = "a header name like \"X-User\"";
    const TITLE: &'static str = "a header name";
    const PATTERN: Option<&'static str> = Some("^[A-Za-z0-9!#$%&'*+.^_`|~-]+$");
    const EXAMPLES: &'static [&'static str] = &["X-User"];

    fn read(text: &str) -> Result<Self, Complaint> {
        // The tokens of RFC 9110, section 5.6.2.
        let fits = |byte: u8| byte.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(&byte);
        if !text.is_empty() && text.bytes().all(fits) {
            return Ok(Self(text.to_owned()));
        }
        let help = "write the name alone, without a colon or spaces: \"X-User\"";
        Err(Complaint::new(format!("`{text}` is not a header name"), help))
    }
}

/// A path, of which nothing is left to be expanded.
pub(crate) fn file_path(text: &str) -> Result<String, Complaint> {
    if text.is_empty() || text.contains('\0') {
        return Err(Complaint::new("an empty path names no file", "write the path of a file"));
    }
    if text.starts_with('~') {
        let help = "`~` is not expanded: write the whole path, or one from the directory of this \
                    file on";
        return Err(Complaint::new(format!("`{text}` begins with `~`"), help));
    }
    if has_variable(text) {
        return Err(Complaint::new(format!("`{text}` names a variable"), VARIABLES_HELP));
    }
    Ok(text.to_owned())
}

/// The name of a query parameter, decoded.
#[derive(Clone, Debug)]
pub(crate) struct ParameterName(pub(crate) String);

impl Textual for ParameterName {
    const EXPECTED: &'static str = "the name of a query parameter like \"page\"";
    const TITLE: &'static str = "the name of a query parameter";
    const LENGTH_MIN: usize = 1;

    fn read(text: &str) -> Result<Self, Complaint> {
        let (message, help) = match text.chars().next() {
            None => ("an empty name".to_owned(), "write the name of a query parameter: \"page\""),
            Some(mark @ ('?' | '&')) => {
                (format!("`{text}` begins with `{mark}`"), "write the name alone: \"page\"")
            }
            Some(_) if text.contains('*') => {
                (format!("`{text}` has a star"), "write one name each: there are no patterns")
            }
            Some(_) if is_encoded(text) => {
                (format!("`{text}` is percent-encoded"), "names are written decoded: \"ids[]\"")
            }
            Some(_) => return Ok(Self(text.to_owned())),
        };
        Err(Complaint::new(message, help))
    }
}

/// The name of a cookie.
#[derive(Clone, Debug)]
pub(crate) struct CookieName;

impl Textual for CookieName {
    fn read(text: &str) -> Result<Self, Complaint> {
        let ends_it = |c: char| matches!(c, '=' | ';' | '\0'..=' ' | '\x7f');
        if !text.is_empty() && !text.contains(ends_it) {
            return Ok(Self);
        }
        let help = "write the name alone, without `=`, `;` and spaces: \"session\"";
        Err(Complaint::new(format!("`{text}` is not the name of a cookie"), help))
    }
}

/// Whether a byte of `text` is written as in a URL, with `%` and two digits.
fn is_encoded(text: &str) -> bool {
    let is_byte = |it: &[u8]| it[0] == b'%' && it[1..].iter().all(u8::is_ascii_hexdigit);
    text.as_bytes().windows(3).any(is_byte)
}

/// The path of a file.
#[derive(Clone, Debug)]
pub(crate) struct FilePath(pub(crate) String);

impl Textual for FilePath {
    const EXPECTED: &'static str = "the path of a file";
    const TITLE: &'static str = "the path of a file";
    const LENGTH_MIN: usize = 1;

    fn read(text: &str) -> Result<Self, Complaint> {
        file_path(text).map(Self)
    }
}

/// The name of a cipher suite. Which there are is known to whoever speaks TLS.
#[derive(Clone, Debug)]
pub(crate) struct SuiteName(pub(crate) String);

impl Textual for SuiteName {
    const EXPECTED: &'static str = "a cipher suite like \"TLS13_AES_128_GCM_SHA256\"";
    const TITLE: &'static str = "a cipher suite";
    const PATTERN: Option<&'static str> = Some("^TLS[A-Za-z0-9_]+$");

    fn read(text: &str) -> Result<Self, Complaint> {
        let fits = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'_';
        if text.starts_with("TLS") && text.bytes().all(fits) {
            return Ok(Self(text.to_owned()));
        }
        let help = "write it like \"TLS13_AES_128_GCM_SHA256\"";
        Err(Complaint::new(format!("`{text}` is not a cipher suite"), help))
    }
}

/// Where log lines go.
#[derive(Clone, Debug)]
pub(crate) struct LogPlace(pub(crate) LogTarget);

impl Textual for LogPlace {
    const EXPECTED: &'static str = "\"stdout\", the path of a file or \"syslog\"";
    const TITLE: &'static str = "`stdout`, a path or `syslog`";
    const EXAMPLES: &'static [&'static str] =
        &["stdout", "/var/log/loadline/access.log", "syslog://10.0.0.9:514"];
    const LENGTH_MIN: usize = 1;

    fn read(text: &str) -> Result<Self, Complaint> {
        if text.is_empty() || text.contains('\0') {
            let help = "write \"stdout\" or the path of a file, or leave the key out";
            return Err(Complaint::new("an empty path names no file", help));
        }
        Ok(Self(match text {
            "stdout" => LogTarget::Stdout,
            "syslog" => LogTarget::SyslogSocket("/dev/log".to_owned()),
            _ => match text.strip_prefix("syslog:") {
                Some(place) => collector(place)?,
                None => LogTarget::File(file_path(text)?),
            },
        }))
    }
}

/// What stands behind `syslog:`.
fn collector(place: &str) -> Result<LogTarget, Complaint> {
    let help = "write \"syslog\", \"syslog:/path/of/a/socket\" or \"syslog://10.0.0.9:514\"";
    match place.strip_prefix("//") {
        Some(address) => address.parse().map(LogTarget::SyslogUdp).map_err(|_| {
            let help = port_help(address).unwrap_or(help);
            Complaint::new(format!("`{address}` is not an address with a port"), help)
        }),
        None if place.starts_with('/') => Ok(LogTarget::SyslogSocket(place.to_owned())),
        None => Err(Complaint::new(format!("`{place}` is not the path of a socket"), help)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_host_name_that_has_no_port_is_not_told_to_have_one() {
        for wrong in ["*.a.test", "a.test:443", "a b", ".a.test", "", "[a.test]"] {
            let help = HostName::read(wrong).unwrap_err().help;
            assert!(help.contains("without a port: \"www.example.com\""), "{wrong}: {help}");
        }
        for (right, read) in [("a.test", "a.test"), ("[::1]", "::1"), ("::1", "::1")] {
            assert_eq!(HostName::read(right).unwrap().0, read);
        }
    }

    #[test]
    fn a_host_has_no_empty_part_and_a_port_that_there_can_be() {
        for right in ["a.test", "a.test.", "a_b:80", "A.test:65535", "127.0.0.1:1", "[::1]:8080"] {
            assert_eq!(Host::read(right).unwrap().0, right);
        }
        for (wrong, help) in [
            (":80", "write a host name"),
            (":65536", "ports are 1 to 65535"),
            ("a.test:x", "with a port if need be"),
            ("a.test:", "with a port if need be"),
            ("a.test:0", "with a port if need be"),
            ("a.test:080", "with a port if need be"),
            ("a.test:+80", "with a port if need be"),
            ("a.test:65536", "ports are 1 to 65535"),
            ("::1", "\"[::1]\""),
            ("[a.test]", "write a host name"),
            ("[::1", "write a host name"),
            ("[::1]x", "write a host name"),
            ("a..b", "write a host name"),
            ("*.a.test", "write a host name"),
            (".", "write a host name"),
            ("", "write a host name"),
        ] {
            let complaint = Host::read(wrong).unwrap_err();
            assert_eq!(complaint.message, format!("`{wrong}` is not a host"));
            assert!(complaint.help.contains(help), "{wrong}: {}", complaint.help);
        }
    }

    #[test]
    fn a_name_with_letters_that_certificates_do_not_have_says_how_it_is_written() {
        let refused = ServerName::read("bücher.example").unwrap_err();
        assert!(refused.help.contains("xn--bcher-kva.example"), "{}", refused.help);
        assert!(ServerName::read("xn--bcher-kva.example").is_ok());
        assert!(ServerName::read("a.test:443").unwrap_err().help.contains("without a port"));
    }
}
