//! Servers of HAProxy, and what they say of their service.

use super::{
    bind::{Bases, under},
    format::duration,
    lex::{Line, shown, without_variables},
};
use crate::{
    model::Table,
    write::{VARIABLE, text},
};

/// What a `server` or `default-server` line says.
#[derive(Clone, Debug, Default)]
pub(super) struct Options {
    /// Keys of the server.
    pub(super) server: Table,
    /// Keys of the service, as they have to be for this server.
    pub(super) service: Table,
    pub(super) is_checked: bool,
    /// Whether checks have TLS that requests need not have.
    is_check_tls: bool,
    is_disabled: bool,
    /// Whether its name is looked up again and again.
    is_resolved: bool,
    pub(super) lost: Vec<String>,
}

impl Options {
    /// What the whole line says: some words count only where another one is, before or behind them.
    pub(super) fn settle(&mut self, line: &Line) {
        if self.is_disabled {
            self.server.set("weight", "0");
        }
        // Without `ssl` the rest is said of checks alone.
        if self.service.get(TLS).is_none() {
            self.service.keys.retain(|(key, _)| !key.starts_with("tls."));
            if self.is_checked && self.is_check_tls {
                self.lost.push("the checks are without TLS".to_owned());
            }
        }
        if self.is_resolved && line.word(0) == "server" && is_named(line.word(2)) {
            let why =
                "the name is resolved once; `discover = { dns = ... }` on the group follows it";
            self.lost.push(why.to_owned());
        }
    }
}

/// The key that says there is TLS.
const TLS: &str = "tls.min_version";

/// Whether an address of a server is a name.
fn is_named(written: &str) -> bool {
    let bare = written.rsplit_once('@').map_or(written, |(_, bare)| bare);
    let host = bare.rsplit_once(':').map_or(bare, |(host, _)| host);
    let is_ip = |text: &str| text.trim_matches(['[', ']']).parse::<std::net::IpAddr>().is_ok();
    !host.is_empty() && !is_ip(host) && !is_ip(bare)
}

/// Reads the options of a line, from the word at `first` on, beside those that are given already.
///
/// # Errors
/// Which word cannot be read, and why.
pub(super) fn options(
    line: &Line,
    first: usize,
    given: &Options,
    bases: &Bases,
) -> Result<Options, (usize, String)> {
    let mut options = given.clone();
    let mut index = first;
    while index < line.words.len() {
        let (word, value) = (line.word(index), line.word(index + 1));
        if !takes_value(word) {
            flag(&mut options, word);
            index += 1;
            continue;
        }
        if value.contains(VARIABLE) {
            options.lost.push(format!("`{word}` is in the environment of HAProxy"));
        } else {
            valued(&mut options, word, value, bases).map_err(|why| (index + 1, why))?;
        }
        index += 2;
    }
    Ok(options)
}

/// Follows a word without a value.
fn flag(options: &mut Options, word: &str) {
    let (server, service) = (&mut options.server, &mut options.service);
    match word {
        "check" => options.is_checked = true,
        "no-check" => options.is_checked = false,
        "backup" => server.set("priority", "1"),
        "no-backup" => server.keys.retain(|(key, _)| key != "priority"),
        "disabled" => options.is_disabled = true,
        "enabled" => options.is_disabled = false,
        "check-ssl" => options.is_check_tls = true,
        "no-check-ssl" => options.is_check_tls = false,
        "ssl" => service.set(TLS, text("1.2")),
        "no-ssl" => service.keys.retain(|(key, _)| !key.starts_with("tls.")),
        "send-proxy" => service.set("send_proxy", text("v1")),
        "send-proxy-v2" => service.set("send_proxy", text("v2")),
        "send-proxy-v2-ssl" | "send-proxy-v2-ssl-cn" => {
            service.set("send_proxy", text("v2"));
            options.lost.push("the PROXY header says nothing of TLS".to_owned());
        }
        "no-send-proxy" | "no-send-proxy-v2" => {
            service.keys.retain(|(key, _)| key != "send_proxy");
        }
        "allow-0rtt" | "tfo" | "no-tfo" | "stick" | "tls-tickets" | "no-agent-check"
        | "no-verifyhost" => {}
        other => options.lost.push(format!("nothing corresponds to `{other}`")),
    }
}

/// Follows a word and its value.
fn valued(options: &mut Options, word: &str, value: &str, bases: &Bases) -> Result<(), String> {
    let time = || duration(value).ok_or_else(|| format!("`{value}` is no duration"));
    let whole = || value.parse::<u64>().map_err(|_| format!("`{value}` is no whole number"));
    let (server, service) = (&mut options.server, &mut options.service);
    let sni = value.strip_prefix("str(").and_then(|it| it.strip_suffix(')'));
    match word {
        "weight" => server.set("weight", whole()?.to_string()),
        "maxconn" if whole()? > 0 => server.set("max_in_flight", value),
        "maxconn" => server.keys.retain(|(key, _)| key != "max_in_flight"),
        "inter" => service.set("health.interval", text(&time()?)),
        "fastinter" => service.set("health.fast_interval", text(&time()?)),
        "rise" => service.set("health.rise", whole()?.clamp(1, 100).to_string()),
        "fall" => service.set("health.fall", whole()?.clamp(1, 100).to_string()),
        "slowstart" => service.set("slow_start", text(&time()?)),
        "verify" if value == "none" => service.set("tls.verify", "false"),
        "verify" => service.keys.retain(|(key, _)| key != "tls.verify"),
        "ca-file" => service.set("tls.authorities", text(&under(&bases.ca, value))),
        "crt" => service.set("tls.certificate", text(&under(&bases.crt, value))),
        "verifyhost" => service.set("tls.name", text(value)),
        "sni" if sni.is_some() => service.set("tls.name", text(sni.unwrap_or_default())),
        "alpn" | "proto" if value.starts_with("h2") => service.set("http_version", text("2")),
        "resolvers" => options.is_resolved = true,
        "cookie" | "init-addr" | "resolve-prefer" | "id" | "alpn" | "proto" | "check-alpn"
        | "check-sni" => {}
        other => options.lost.push(format!("nothing corresponds to `{other}`")),
    }
    Ok(())
}

fn takes_value(word: &str) -> bool {
    VALUED.contains(&word) || word.starts_with("set-proxy-v2-tlv-fmt(")
}

/// Words of servers that have a value behind them, of all versions of HAProxy up to 3.2. All others
/// stand alone.
const VALUED: [&str; 72] = [
    "addr", "agent-addr", "agent-inter", "agent-port", "agent-send", "alpn", "ca-file", "cc",
    "check-alpn", "check-pool-conn-name", "check-proto", "check-sni", "ciphers", "ciphersuites",
    "client-sigalgs", "cookie", "crl-file", "crt", "curves", "downinter", "error-limit", "fall",
    "fastinter", "guid", "hash-key", "id", "idle-ping", "init-addr", "init-state", "inter",
    "interface", "log-bufsize", "log-proto", "max-reuse", "maxconn", "maxqueue", "minconn",
    "namespace", "npn", "observe", "on-error", "on-marked-down", "on-marked-up", "pool-conn-name",
    "pool-low-conn", "pool-max-conn", "pool-purge-delay", "port", "proto", "proxy-v2-options",
    "redir", "resolve-net", "resolve-opts", "resolve-prefer", "resolvers", "rise", "shard",
    "sigalgs", "slowstart", "sni", "socks4", "source", "ssl-max-ver", "ssl-min-ver", "tcp-md5sig",
    "tcp-ut", "track", "usesrc", "verify", "verifyhost", "weight", "ws",
];

/// The address of a server as our file writes it. `port` is what it has where it says none.
///
/// # Errors
/// Why a server cannot be there.
pub(super) fn address(written: &str, port: Option<u16>) -> Result<String, String> {
    let bare = ["ipv4@", "ipv6@"].iter().find_map(|it| written.strip_prefix(it)).unwrap_or(written);
    if let Some(socket) = bare.strip_prefix("unix@").or(bare.starts_with('/').then_some(bare)) {
        return crate::socket(socket).ok_or_else(|| format!("`{socket}` is no path of a socket"));
    }
    if let Some(name) = bare.strip_prefix("abnsz@") {
        let socket = crate::socket(&format!("@{name}"));
        return socket.ok_or_else(|| format!("`{name}` is no name of a socket"));
    }
    if bare.starts_with("abns@") {
        let why = "HAProxy fills the name of this socket up with zeros: use `abnsz@` or a path";
        return Err(why.to_owned());
    }
    if bare.contains('@') {
        return Err(crate::NO_ADDRESS.to_owned());
    }
    if bare.contains(VARIABLE) {
        return from_environment(bare, port);
    }
    let is_ipv6 = |text: &str| text.parse::<std::net::Ipv6Addr>().is_ok();
    let (host, own) = match bare.rsplit_once(':') {
        Some((host, digits)) if !is_ipv6(bare) || is_ipv6(host) => (host, Some(digits)),
        _ => (bare, None),
    };
    if matches!(host, "" | "*" | "0.0.0.0" | "::") {
        return Err("a server has an address of its own".to_owned());
    }
    let digits = own.filter(|digits| !digits.is_empty());
    if digits.is_some_and(|digits| !digits.bytes().all(|byte| byte.is_ascii_digit())) {
        return Err("a server has one port".to_owned());
    }
    let own = digits.map(|digits| {
        digits.parse::<u16>().map_err(|_| format!("a server has one port, not `{digits}`"))
    });
    // Port 0 is that of the client, as none is.
    let own = own.transpose()?.filter(|own| *own > 0);
    let port = own.or(port).ok_or("a server has a port of its own")?;
    let host = host.trim_start_matches('[').trim_end_matches(']');
    Ok(if host.contains(':') { format!("[{host}]:{port}") } else { format!("{host}:{port}") })
}

/// The same of one with variables of the environment: what they are cannot be seen here.
fn from_environment(written: &str, port: Option<u16>) -> Result<String, String> {
    let mut depth = 0_u32;
    let mut colon = None;
    for (at, c) in written.char_indices() {
        match c {
            '{' => depth += 1,
            '}' => depth = depth.saturating_sub(1),
            ':' if depth == 0 => colon = Some(at),
            _ => {}
        }
    }
    let (host, own) = colon.map_or((written, ""), |at| (&written[..at], &written[at + 1..]));
    let is_number = without_variables(own).bytes().all(|byte| byte.is_ascii_digit());
    let own = match (own, port) {
        ("", Some(port)) => port.to_string(),
        ("", None) => {
            return Err(format!("`{}` is not known here: write address and port", shown(written)));
        }
        (own, _) if is_number && !host.is_empty() => own.to_owned(),
        _ => return Err(format!("a server has one port, which `{}` is not", shown(own))),
    };
    let is_ipv6 = host.parse::<std::net::Ipv6Addr>().is_ok();
    Ok(if is_ipv6 { format!("[{host}]:{own}") } else { format!("{host}:{own}") })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_unix_socket_has_no_port() {
        for written in ["/run/app.sock", "unix@/run/app.sock"] {
            assert_eq!(address(written, Some(80)).as_deref(), Ok("unix:/run/app.sock"));
        }
        assert_eq!(address("abnsz@app", None).as_deref(), Ok("unix:@app"));
        assert!(address("abns@app", None).is_err_and(|why| why.contains("zeros")));
        assert!(address("unix@app.sock", None).is_err());
    }

    #[test]
    fn addresses_have_a_port() {
        assert_eq!(address("10.0.0.1:80", None).as_deref(), Ok("10.0.0.1:80"));
        assert_eq!(address("10.0.0.1", Some(8080)).as_deref(), Ok("10.0.0.1:8080"));
        assert_eq!(address("2001:db8::1:80", None).as_deref(), Ok("[2001:db8::1]:80"));
        assert_eq!(address("[2001:db8::1]:80", None).as_deref(), Ok("[2001:db8::1]:80"));
        assert!(address("10.0.0.1", None).is_err() && address("fd@3", None).is_err());
        assert_eq!(address("10.0.0.1:0", Some(8080)).as_deref(), Ok("10.0.0.1:8080"));
        assert!(address("10.0.0.1:0", None).is_err());
        assert!(address("10.0.0.1:+100", None).is_err() && address("*:80", None).is_err());
    }
}
