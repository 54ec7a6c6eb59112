//! Checks by their protocol, and bytes as hexadecimal digits.

use loadline_core::{
    fleet::Probe,
    health::advisor::{Pattern, Script, Transport},
};
use loadline_spanned::{Complaint, Keyword, Textual};

use crate::suggest::Configuration;

/// A check that is known by its protocol.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Advisor {
    Tls,
    Dns,
    Smtp,
    Ldap,
    Ftp,
    Ping,
}

impl Advisor {
    /// What it asks.
    pub(crate) fn probe(self) -> Probe {
        let script = |name: &str, script| Probe::Script { name: name.to_owned(), script };
        match self {
            Self::Tls => Probe::Tls,
            Self::Ping => Probe::Ping,
            Self::Dns => script("DNS", Script::dns()),
            Self::Smtp => script("SMTP", Script::smtp()),
            Self::Ldap => script("LDAP", Script::ldap()),
            Self::Ftp => script("FTP", Script::ftp()),
        }
    }
}

impl Keyword<Configuration> for Advisor {
    const WHAT: &'static str = "an advisor";

    fn words() -> Vec<(&'static str, Self, &'static str)> {
        vec![
            (
                "tls",
                Self::Tls,
                "TLS has to be agreed on; the certificate is verified if the service has `tls`.",
            ),
            ("dns", Self::Dns, "A query over UDP for the root's name servers: NOERROR or REFUSED."),
            ("smtp", Self::Smtp, "220, EHLO, 250, QUIT."),
            ("ldap", Self::Ldap, "An anonymous bind has to succeed."),
            ("ftp", Self::Ftp, "220, QUIT."),
            ("ping", Self::Ping, "An ICMP echo. Says nothing of the port."),
        ]
    }
}

impl Keyword<Configuration> for Transport {
    const WHAT: &'static str = "what carries a script";

    fn words() -> Vec<(&'static str, Self, &'static str)> {
        vec![
            ("tcp", Self::Tcp, "A connection; with TLS where the service has it."),
            ("udp", Self::Udp, "Datagrams, none of which is sent twice."),
        ]
    }
}

/// Text that is sent or heard: at least a character.
#[derive(Clone, Debug)]
pub(crate) struct Said(pub(crate) String);

impl Textual for Said {
    const EXPECTED: &'static str = "text like \"QUIT\\r\\n\"";
    const LENGTH_MIN: usize = 1;

    fn read(text: &str) -> Result<Self, Complaint> {
        let empty = || Complaint::new("no text", "write what is sent or heard: \"220\"");
        (!text.is_empty()).then(|| Self(text.to_owned())).ok_or_else(empty)
    }
}

/// The code of a reply as in SMTP and FTP, or the beginning of one.
#[derive(Clone, Debug)]
pub(crate) struct ReplyCode(pub(crate) String);

impl Textual for ReplyCode {
    const EXPECTED: &'static str = "the digits of a code like \"220\"";
    const TITLE: &'static str = "one to three digits";
    const PATTERN: Option<&'static str> = Some("^[0-9]{1,3}$");
    const EXAMPLES: &'static [&'static str] = &["220", "2"];

    fn read(text: &str) -> Result<Self, Complaint> {
        if (1..=3).contains(&text.len()) && text.bytes().all(|byte| byte.is_ascii_digit()) {
            return Ok(Self(text.to_owned()));
        }
        let help = "write one to three digits: \"220\", or \"2\" for all that begin with it";
        Err(Complaint::new(format!("`{text}` is not the beginning of a code"), help))
    }
}

/// Bytes as pairs of hexadecimal digits, in which `?` may stand for any digit.
#[derive(Clone, Debug)]
pub(crate) struct Hex(pub(crate) Pattern);

impl Textual for Hex {
    const EXPECTED: &'static str = "bytes like \"0a 01 ?0\"";
    const TITLE: &'static str = "bytes in hexadecimal digits";
    const PATTERN: Option<&'static str> = Some("^( *[0-9a-fA-F?] *[0-9a-fA-F?])+ *$");
    const EXAMPLES: &'static [&'static str] = &["0a 01 ?0"];

    fn read(text: &str) -> Result<Self, Complaint> {
        let help = "write pairs of hexadecimal digits: \"0a 01 00\"";
        Pattern::from_hex(text).map(Self).map_err(|error| Complaint::new(error.to_string(), help))
    }
}
