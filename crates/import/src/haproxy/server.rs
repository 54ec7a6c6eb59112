//! Servers of HAProxy, and what they say of their service.

use super::{bind::under, format::duration, lex::Line};
use crate::{model::Table, write::text};

/// What a `server` or `default-server` line says.
#[derive(Clone, Debug, Default)]
pub(super) struct Options {
    /// Keys of the server.
    pub(super) server: Table,
    /// Keys of the service, as they have to be for this server.
    pub(super) service: Table,
    pub(super) is_checked: bool,
    pub(super) lost: Vec<String>,
}

/// Reads the options of a line, from the word at `first` on, beside those that are given already.
///
/// # Errors
/// Which word cannot be read, and why.
pub(super) fn options(
    line: &Line,
    first: usize,
    given: &Options,
    base: &str,
) -> Result<Options, (usize, String)> {
    let mut options = given.clone();
    let mut index = first;
    while index < line.words.len() {
        let taken = option(&mut options, line.word(index), line.word(index + 1), base);
        index += taken.map_err(|why| (index + 1, why))?;
    }
    Ok(options)
}

/// Follows one option; how many words it has.
fn option(options: &mut Options, word: &str, value: &str, base: &str) -> Result<usize, String> {
    let time = || duration(value).ok_or_else(|| format!("`{value}` is no duration"));
    let whole = || value.parse::<u64>().map_err(|_| format!("`{value}` is no whole number"));
    let (server, service) = (&mut options.server, &mut options.service);
    match word {
        "check" => options.is_checked = true,
        "no-check" => options.is_checked = false,
        "backup" => server.set("priority", "1"),
        "disabled" => server.set("weight", "0"),
        "ssl" => service.set("tls.min_version", text("1.2")),
        "send-proxy" => service.set("send_proxy", text("v1")),
        "send-proxy-v2" => service.set("send_proxy", text("v2")),
        "enabled" | "check-ssl" | "no-ssl" | "allow-0rtt" | "tfo" | "no-backup" => {}
        _ => {
            match word {
                "weight" => server.set("weight", whole()?.to_string()),
                "maxconn" if whole()? > 0 => server.set("max_in_flight", value),
                "maxconn" => {}
                "inter" => service.set("health.interval", text(&time()?)),
                "fastinter" => service.set("health.fast_interval", text(&time()?)),
                "rise" => service.set("health.rise", whole()?.clamp(1, 100).to_string()),
                "fall" => service.set("health.fall", whole()?.clamp(1, 100).to_string()),
                "slowstart" => service.set("slow_start", text(&time()?)),
                "verify" if value == "none" => service.set("tls.verify", "false"),
                "verify" => {}
                "ca-file" => service.set("tls.authorities", text(&under(base, value))),
                "crt" => service.set("tls.certificate", text(&under(base, value))),
                "verifyhost" => service.set("tls.name", text(value)),
                "sni" if value.starts_with("str(") => {
                    service.set("tls.name", text(&value[4..value.len() - 1]));
                }
                "alpn" | "proto" if value.starts_with("h2") => {
                    service.set("http_version", text("2"));
                }
                "cookie" | "resolvers" | "init-addr" | "resolve-prefer" | "id" | "alpn"
                | "proto" | "check-alpn" | "check-sni" => {}
                other => options.lost.push(format!("nothing corresponds to `{other}`")),
            }
            return Ok(if KNOWN_ALONE.contains(&word) { 1 } else { 2 });
        }
    }
    Ok(1)
}

/// Words without a value that have no counterpart.
const KNOWN_ALONE: [&str; 8] = [
    "non-stick",
    "check-send-proxy",
    "no-tls-tickets",
    "no-sslv3",
    "no-tlsv10",
    "no-tlsv11",
    "ssl-reuse",
    "no-ssl-reuse",
];

/// The address of a server as our file writes it. `port` is what it has where it says none.
///
/// # Errors
/// Why a server cannot be there.
pub(super) fn address(written: &str, port: Option<u16>) -> Result<String, String> {
    let bare = ["ipv4@", "ipv6@"].iter().find_map(|it| written.strip_prefix(it)).unwrap_or(written);
    if bare.starts_with('/') || bare.contains('@') {
        return Err("a server has an address and a port".to_owned());
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
    let port = match digits {
        Some(digits) => {
            digits.parse::<u16>().map_err(|_| format!("a server has one port, not `{digits}`"))?
        }
        None => port.ok_or("a server has a port of its own")?,
    };
    let host = host.trim_start_matches('[').trim_end_matches(']');
    Ok(if host.contains(':') { format!("[{host}]:{port}") } else { format!("{host}:{port}") })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_have_a_port() {
        assert_eq!(address("10.0.0.1:80", None).as_deref(), Ok("10.0.0.1:80"));
        assert_eq!(address("10.0.0.1", Some(8080)).as_deref(), Ok("10.0.0.1:8080"));
        assert_eq!(address("2001:db8::1:80", None).as_deref(), Ok("[2001:db8::1]:80"));
        assert_eq!(address("[2001:db8::1]:80", None).as_deref(), Ok("[2001:db8::1]:80"));
        assert!(address("10.0.0.1", None).is_err() && address("/run/x", None).is_err());
        assert!(address("10.0.0.1:+100", None).is_err() && address("*:80", None).is_err());
    }
}
