//! `bind` lines: addresses, and how TLS ends there.

use super::lex::{Line, shown, without_variables};
use crate::{model::PROTECTED, write::VARIABLE};

/// Directories of `global` below which certificates and authorities are.
#[derive(Clone, Debug, Default)]
pub(super) struct Bases {
    pub(super) crt: String,
    pub(super) ca: String,
}

/// What a `bind` line asks for.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Bind {
    /// Addresses as our file writes them.
    pub(super) addresses: Vec<String>,
    /// The port; none if the addresses have several.
    pub(super) port: Option<u16>,
    pub(super) tls: Option<Tls>,
    pub(super) accept_proxy: bool,
    /// Ports at which HTTP/3 is spoken.
    pub(super) quic: Vec<u16>,
    /// Options without a counterpart.
    pub(super) lost: Vec<String>,
}

/// TLS of a `bind` line.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Tls {
    pub(super) certificates: Vec<String>,
    pub(super) authorities: Option<String>,
    pub(super) is_optional: bool,
    pub(super) min_version: Option<&'static str>,
}

/// More ports of a range are hardly meant.
const PORTS_MAX: u16 = 100;

/// Reads a `bind` line.
///
/// # Errors
/// Which word cannot be read, and why.
pub(super) fn bind(line: &Line, bases: &Bases) -> Result<Bind, (usize, String)> {
    if line.word(1).is_empty() {
        return Err((0, "`bind` without an address".to_owned()));
    }
    let mut bind = Bind::default();
    for address in line.word(1).split(',') {
        add_address(&mut bind, address).map_err(|why| (1, why))?;
    }
    bind.port = only_port(&bind.addresses);
    let mut tls = Tls::default();
    let (mut is_tls, mut authorities, mut verify) = (false, None, "none");
    let mut index = 2;
    while index < line.words.len() {
        let (word, value) = (line.word(index), line.word(index + 1));
        index += if VALUED.contains(&word) { 2 } else { 1 };
        match word {
            "ssl" => is_tls = true,
            "accept-proxy" => bind.accept_proxy = true,
            "crt" => certificate(&mut bind, &mut tls, &under(&bases.crt, value)),
            "ca-file" => authorities = Some(under(&bases.ca, value)),
            "verify" => verify = value,
            "ssl-min-ver" if value == "TLSv1.3" => tls.min_version = Some("1.3"),
            "no-tlsv12" | "force-tlsv13" => tls.min_version = Some("1.3"),
            "ssl-min-ver" if value == "TLSv1.2" => {}
            "v4v6" => add_ipv4(&mut bind),
            "crl-file" => bind.lost.push(format!("{PROTECTED}: nothing corresponds to `{word}`")),
            "crt-list" => {
                let why = "write the certificates of the `crt-list` into `tls.certificates`";
                bind.lost.push(why.to_owned());
            }
            "maxconn" => {
                let why = "`maxconn` is that of the listener (`max_connections`)";
                bind.lost.push(why.to_owned());
            }
            word if NEEDLESS.contains(&word) => {}
            other => bind.lost.push(format!("nothing corresponds to `{other}`")),
        }
    }
    // HAProxy asks for no certificates unless it is told to.
    if matches!(verify, "required" | "optional") {
        tls.is_optional = verify == "optional";
        tls.authorities = authorities;
        if is_tls && tls.authorities.is_none() {
            let why = format!("{PROTECTED}: clients are verified with a `ca-file` alone");
            bind.lost.push(why);
        }
    }
    bind.tls = is_tls.then_some(tls);
    Ok(bind)
}

fn certificate(bind: &mut Bind, tls: &mut Tls, path: &str) {
    if path.ends_with('/') {
        bind.lost.push(format!("write the files of `{path}` into `tls.certificates`"));
        return;
    }
    let name = path.rsplit('/').next().unwrap_or(path);
    if !name.contains('.') {
        bind.lost.push(format!("if `{path}` is a directory, write its files instead"));
    }
    tls.certificates.push(path.to_owned());
}

/// Words of `bind` that have a value behind them, of all versions of HAProxy up to 3.2. All others
/// stand alone.
const VALUED: [&str; 55] = [
    "accept-netscaler-cip", "alpn", "backlog", "ca-file", "ca-ignore-err", "ca-sign-file",
    "ca-sign-pass", "ca-verify-file", "cc", "ciphers", "ciphersuites", "client-sigalgs",
    "crl-file", "crt", "crt-ignore-err", "crt-list", "curves", "default-crt", "ech", "ecdhe",
    "expose-fd", "gid", "group", "guid-prefix", "id", "idle-ping", "interface", "ktls", "label",
    "level", "maxconn", "mode", "mss", "name", "namespace", "nbconn", "nice", "npn", "ocsp-update",
    "process", "proto", "quic-cc-algo", "quic-socket", "severity-output", "shards", "sigalgs",
    "ssl-max-ver", "ssl-min-ver", "tcp-md5sig", "tcp-ut", "thread", "tls-ticket-keys", "uid",
    "user", "verify",
];

/// Further words, without which nothing is lost.
const NEEDLESS: [&str; 22] = [
    "alpn", "backlog", "defer-accept", "gid", "group", "id", "label", "level", "mode", "name",
    "nice", "no-sslv3", "no-tls-tickets", "no-tlsv10", "no-tlsv11", "process", "shards", "tfo",
    "thread", "uid", "user", "v6only",
];

/// A path of HAProxy: relative ones are below the directory that `global` names.
pub(super) fn under(base: &str, path: &str) -> String {
    if base.is_empty() || path.starts_with('/') {
        return path.to_owned();
    }
    format!("{}/{path}", base.trim_end_matches('/'))
}

/// `[::]` with `v4v6` is every IPv4 address, too.
fn add_ipv4(bind: &mut Bind) {
    let more: Vec<_> = bind
        .addresses
        .iter()
        .filter_map(|address| address.strip_prefix("[::]").map(str::to_owned))
        .collect();
    bind.addresses.extend(more);
}

/// The port of all addresses; none of one that is a variable.
fn only_port(addresses: &[String]) -> Option<u16> {
    let mut ports = addresses.iter().map(|it| it.rsplit(':').next()?.parse().ok());
    let first = ports.next()??;
    ports.all(|port| port == Some(first)).then_some(first)
}

fn add_address(bind: &mut Bind, text: &str) -> Result<(), String> {
    let bare =
        ["ipv4@", "ipv6@"].iter().find_map(|prefix| text.strip_prefix(prefix)).unwrap_or(text);
    if let Some(quic) = ["quic4@", "quic6@"].iter().find_map(|it| bare.strip_prefix(it)) {
        match quic.rsplit(':').next().unwrap_or_default().parse::<u16>() {
            Ok(port) => bind.quic.push(port),
            Err(_) => {
                let text = shown(text);
                bind.lost.push(format!("HTTP/3 has a port that is a number, not `{text}`"));
            }
        }
        return Ok(());
    }
    if bare.starts_with('/') || bare.contains('@') {
        let text = shown(text);
        bind.lost.push(format!("a listener has an IP address and a port, not `{text}`"));
        return Ok(());
    }
    if bare.contains(VARIABLE) {
        if without_variables(bare).contains(['-', '%']) {
            let bare = shown(bare);
            bind.lost.push(format!("a listener has one port, which `{bare}` does not say"));
            return Ok(());
        }
        bind.addresses.push(bare.trim_start_matches('*').to_owned());
        return Ok(());
    }
    let Some((host, ports)) = bare.rsplit_once(':') else {
        return Err(format!("`{text}` has no port"));
    };
    let host = match host {
        "" | "*" | "0.0.0.0" => "",
        "::" | "[::]" => "[::]",
        host => host,
    };
    let unbracketed = host.trim_start_matches('[').trim_end_matches(']');
    if !host.is_empty() && unbracketed.parse::<std::net::IpAddr>().is_err() {
        bind.lost.push(format!("write the IP address of `{host}`"));
        return Ok(());
    }
    let host = if unbracketed.contains(':') { format!("[{unbracketed}]") } else { host.to_owned() };
    let (low, high) = ports.split_once('-').unwrap_or((ports, ports));
    let (Ok(low), Ok(high)) = (low.parse::<u16>(), high.parse::<u16>()) else {
        return Err(format!("`{ports}` is no port"));
    };
    if high < low || high - low >= PORTS_MAX {
        return Err(format!("`{ports}` is no range of at most {PORTS_MAX} ports"));
    }
    bind.addresses.extend((low..=high).map(|port| format!("{host}:{port}")));
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{files::Files, haproxy::lex::sections, model::Lines};

    fn read(text: &str) -> Result<Bind, (usize, String)> {
        let mut files = Files::default();
        files.add(String::new(), format!("frontend f\n{text}\n"));
        let (sections, _) = sections(&mut files, &mut Lines::default());
        let bases = Bases { crt: "/etc/tls".to_owned(), ca: "/etc/ca".to_owned() };
        bind(&sections[0].lines[0], &bases)
    }

    #[test]
    fn addresses_are_written_as_ours() {
        for (text, expected) in [
            ("bind :80", vec![":80"]),
            ("bind *:8000-8002", vec![":8000", ":8001", ":8002"]),
            ("bind 10.0.0.1:80,[2001:db8::1]:80", vec!["10.0.0.1:80", "[2001:db8::1]:80"]),
            ("bind :::443 v4v6", vec!["[::]:443", ":443"]),
            ("bind ipv4@127.0.0.1:80 name x", vec!["127.0.0.1:80"]),
        ] {
            assert_eq!(read(text).unwrap_or_default().addresses, expected, "{text}");
        }
        assert!(read("bind :80x").is_err() && read("bind").is_err() && read("bind :9-1").is_err());
        assert_eq!(read("bind /run/x.sock").unwrap_or_default().lost.len(), 1);
    }

    #[test]
    fn certificates_are_below_their_directory() {
        let tls = read("bind :443 ssl crt a.pem crt /b.pem alpn h2").unwrap_or_default().tls;
        assert_eq!(tls.unwrap_or_default().certificates, ["/etc/tls/a.pem", "/b.pem"]);
    }

    #[test]
    fn clients_are_verified_where_haproxy_verifies_them() {
        for (text, expected) in [
            ("bind :443 ssl crt a.pem ca-file b.pem", (None, false)),
            ("bind :443 ssl crt a.pem ca-file b.pem verify none", (None, false)),
            (
                "bind :443 ssl crt a.pem ca-file b.pem verify required",
                (Some("/etc/ca/b.pem"), false),
            ),
            ("bind :443 ssl crt a.pem verify optional ca-file /b.pem", (Some("/b.pem"), true)),
        ] {
            let tls = read(text).unwrap_or_default().tls.unwrap_or_default();
            assert_eq!((tls.authorities.as_deref(), tls.is_optional), expected, "{text}");
        }
    }

    #[test]
    fn what_has_no_counterpart_is_told_once_each() {
        let text = "bind :443 ssl crt a.pem strict-sni ssl-max-ver TLSv1.2 ciphers A maxconn 9";
        assert_eq!(read(text).unwrap_or_default().lost.len(), 4);
        let lost = read("bind :443 ssl crt certs/ crt-list all.txt").unwrap_or_default();
        assert_eq!(lost.lost.len(), 2);
        assert!(lost.tls.unwrap_or_default().certificates.is_empty());
    }
}
