//! Where sites of Caddy listen: `bind`, and what the global options say of addresses and ports.

use super::{Import, lex::Directive, site::reason};
use crate::model::{PROTECTED, Table};

/// What the global options say of listeners.
#[derive(Clone, Debug)]
pub(super) struct Options {
    pub(super) http_port: u16,
    pub(super) https_port: u16,
    default_bind: Vec<Directive>,
}

/// Where a listener is.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Place {
    pub(super) port: u16,
    pub(super) tls: bool,
    /// The IP address; empty for every one.
    pub(super) host: String,
}

impl Options {
    /// Those of a file.
    pub(super) fn of(tree: &[Directive]) -> Self {
        let mut options = Self { http_port: 80, https_port: 443, default_bind: Vec::new() };
        for line in tree.iter().filter(|it| it.words.is_empty()).flat_map(Directive::block) {
            match (line.name(), line.arg(0).parse()) {
                ("http_port", Ok(port)) => options.http_port = port,
                ("https_port", Ok(port)) => options.https_port = port,
                ("default_bind", _) => options.default_bind.push(line.clone()),
                _ => {}
            }
        }
        options
    }

    /// Whether a global option is read here.
    pub(super) fn reads(line: &Directive) -> bool {
        let is_port = || line.arg(0).parse::<u16>().is_ok();
        match line.name() {
            "http_port" | "https_port" => is_port(),
            name => name == "default_bind",
        }
    }
}

impl Place {
    /// The addresses as our file writes them.
    pub(super) fn addresses(&self) -> Vec<String> {
        let port = self.port;
        match self.host.as_str() {
            "" => vec![format!(":{port}"), format!("[::]:{port}")],
            "0.0.0.0" => vec![format!(":{port}")],
            host => vec![format!("{host}:{port}")],
        }
    }
}

/// The IP addresses at which a site listens, an empty one for all of them. What is none is told:
/// the site is not there.
pub(super) fn hosts(import: &Import<'_>, site: &Directive, table: &mut Table) -> Vec<String> {
    let own: Vec<&Directive> = site.block().iter().filter(|it| it.name() == "bind").collect();
    let all = if own.is_empty() { import.options.default_bind.iter().collect() } else { own };
    let mut hosts = Vec::new();
    for directive in &all {
        for written in directive.args() {
            match host(written) {
                Some(host) => hosts.push(host),
                None => {
                    let why = format!(
                        "{PROTECTED}: a listener has an IP address and a port: the site is left \
                         out at `{written}`"
                    );
                    table.remark(import.lines.lost(import.files, directive.at(), &why));
                }
            }
        }
        for inner in directive.block() {
            let why = reason(inner.name());
            table.remark(import.lines.lost(import.files, inner.at(), why));
        }
    }
    if all.iter().all(|it| it.args().is_empty()) {
        hosts.push(String::new());
    }
    hosts.sort();
    hosts.dedup();
    hosts
}

/// An IP address as our file writes it; empty for all of them.
fn host(written: &str) -> Option<String> {
    let networks = ["tcp/", "tcp4/", "tcp6/"];
    let bare = networks.iter().find_map(|kind| written.strip_prefix(kind)).unwrap_or(written);
    match bare.trim_start_matches('[').trim_end_matches(']') {
        "localhost" => Some("127.0.0.1".to_owned()),
        "::" => Some(String::new()),
        bare => match bare.parse().ok()? {
            std::net::IpAddr::V4(ip) => Some(ip.to_string()),
            std::net::IpAddr::V6(ip) => Some(format!("[{ip}]")),
        },
    }
}
