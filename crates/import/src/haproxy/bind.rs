//! `bind` lines: addresses, and how TLS ends there.

use super::lex::Line;

/// What a `bind` line asks for.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Bind {
    /// Addresses as our file writes them.
    pub(super) addresses: Vec<String>,
    pub(super) port: Option<u16>,
    pub(super) tls: Option<Tls>,
    pub(super) accept_proxy: bool,
    /// What of it has no counterpart.
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

/// Reads a `bind` line. `base` is the directory of certificates.
///
/// # Errors
/// Which word cannot be read, and why.
pub(super) fn bind(line: &Line, base: &str) -> Result<Bind, (usize, String)> {
    if line.word(1).is_empty() {
        return Err((0, "`bind` without an address".to_owned()));
    }
    let mut bind = Bind::default();
    for address in line.word(1).split(',') {
        add_address(&mut bind, address).map_err(|why| (1, why))?;
    }
    let mut tls = Tls::default();
    let mut is_tls = false;
    let mut index = 2;
    while index < line.words.len() {
        let value = line.word(index + 1);
        let taken = match line.word(index) {
            "ssl" => {
                is_tls = true;
                1
            }
            "accept-proxy" => {
                bind.accept_proxy = true;
                1
            }
            "crt" => {
                tls.certificates.push(under(base, value));
                2
            }
            "ca-file" => {
                tls.authorities = Some(under(base, value));
                2
            }
            "verify" => {
                tls.is_optional = value == "optional";
                2
            }
            "ssl-min-ver" => {
                tls.min_version = (value == "TLSv1.3").then_some("1.3");
                2
            }
            "name" | "alpn" | "proto" | "id" | "maxconn" | "backlog" | "nice" | "process"
            | "thread" | "shards" | "user" | "group" | "mode" | "level" | "ciphers"
            | "ciphersuites" | "curves" | "ecdhe" | "ssl-max-ver" => 2,
            "v4v6" => {
                add_ipv4(&mut bind);
                1
            }
            "v6only"
            | "tfo"
            | "defer-accept"
            | "no-sslv3"
            | "no-tlsv10"
            | "no-tlsv11"
            | "no-tls-tickets"
            | "prefer-client-ciphers"
            | "strict-sni"
            | "transparent" => 1,
            other => {
                bind.lost.push(format!("nothing corresponds to `{other}`"));
                1
            }
        };
        index += taken;
    }
    bind.tls = is_tls.then_some(tls);
    Ok(bind)
}

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

fn add_address(bind: &mut Bind, text: &str) -> Result<(), String> {
    let bare =
        ["ipv4@", "ipv6@"].iter().find_map(|prefix| text.strip_prefix(prefix)).unwrap_or(text);
    if bare.starts_with('/') || bare.contains('@') {
        bind.lost.push(format!("a listener has an IP address and a port, not `{text}`"));
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
    bind.port = bind.port.or(Some(low));
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
        let sections = sections(&mut files, &mut Lines::default());
        bind(&sections[0].lines[0], "/etc/tls")
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
}
