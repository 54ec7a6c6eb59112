//! Values of nginx: times, sizes, rates, addresses, and texts with variables.

/// A time as our file writes it, out of one of nginx: seconds, unless it has units.
pub(super) fn time(text: &str) -> Option<String> {
    let mut out = String::new();
    let mut rest = text.trim();
    while !rest.is_empty() {
        let digits = rest.find(|c: char| !c.is_ascii_digit()).unwrap_or(rest.len());
        let number: u64 = rest[..digits].parse().ok()?;
        rest = rest[digits..].trim_start();
        let length = rest.find(|c: char| !c.is_ascii_alphabetic()).unwrap_or(rest.len());
        let unit = &rest[..length];
        rest = rest[length..].trim_start();
        out += &match unit {
            "" => format!("{number}s"),
            "ms" | "s" | "m" | "h" | "d" => format!("{number}{unit}"),
            "w" => format!("{}d", number.checked_mul(7)?),
            "M" => format!("{}d", number.checked_mul(30)?),
            "y" => format!("{}d", number.checked_mul(365)?),
            _ => return None,
        };
    }
    (!out.is_empty()).then_some(out)
}

/// A size as our file writes it; "0" where there is no limit.
pub(super) fn size(text: &str) -> Option<String> {
    let lower = text.to_ascii_lowercase();
    let digits = lower.find(|c: char| !c.is_ascii_digit()).unwrap_or(lower.len());
    let number: u64 = lower[..digits].parse().ok()?;
    if number == 0 {
        return Some("0".to_owned());
    }
    let unit = match &lower[digits..] {
        "" => "B",
        "k" => "KiB",
        "m" => "MiB",
        "g" => "GiB",
        _ => return None,
    };
    Some(format!("{number}{unit}"))
}

/// The least size of a body that is compressed, as our file writes it; none above the highest.
pub(super) fn least_size(text: &str) -> Option<String> {
    let size = size(text)?;
    let digits = size.find(|c: char| !c.is_ascii_digit()).unwrap_or(size.len());
    let number: u64 = size[..digits].parse().ok()?;
    let bits = match &size[digits..] {
        "KiB" => 10,
        "MiB" => 20,
        "GiB" => 30,
        _ => 0,
    };
    (number <= (1 << 30) >> bits).then(|| if number == 0 { "0B".to_owned() } else { size })
}

/// A rate as our file writes it: `10r/s`.
pub(super) fn rate(text: &str) -> Option<String> {
    let (number, unit) = text.split_once("r/")?;
    let number: u64 = number.parse().ok()?;
    matches!(unit, "s" | "m").then(|| format!("{number}/{unit}"))
}

/// What is literal in place of a variable.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Literals<'a> {
    /// The first name of the server.
    pub(super) server_name: &'a str,
    /// The port of the listener.
    pub(super) port: &'a str,
    /// What `proxy_pass` names.
    pub(super) proxy_host: &'a str,
    /// The port of that.
    pub(super) proxy_port: &'a str,
}

/// A text of nginx with variables as the value of a header of ours.
///
/// # Errors
/// Which variable has no counterpart.
pub(super) fn template(text: &str, literals: Literals<'_>) -> Result<String, String> {
    let mut out = String::new();
    let mut rest = text;
    while let Some(at) = rest.find('$') {
        out.push_str(&rest[..at]);
        rest = &rest[at + 1..];
        let (name, after) = match rest.strip_prefix('{').and_then(|it| it.split_once('}')) {
            Some(braced) => braced,
            None => {
                let is_end = |c: char| !(c.is_ascii_alphanumeric() || c == '_');
                rest.split_at(rest.find(is_end).unwrap_or(rest.len()))
            }
        };
        let ours = variable(name, literals).ok_or_else(|| format!("no variable like `${name}`"))?;
        // A letter behind it would make it another name.
        if ours.starts_with('$') && after.starts_with(|c: char| c.is_ascii_lowercase() || c == '_')
        {
            return Err(format!("`${name}` runs into the text behind it"));
        }
        out.push_str(ours);
        rest = after;
    }
    out.push_str(rest);
    Ok(out)
}

/// What of the variables in a text is not quite that of nginx.
pub(super) fn differing(text: &str) -> Option<&'static str> {
    let has = |name: &str| {
        let is_end = |c: char| !(c.is_ascii_alphanumeric() || c == '_');
        let mut found = text.split('$').skip(1).map(|it| it.trim_start_matches('{'));
        found.any(|it| {
            it.strip_prefix(name).is_some_and(|it| it.is_empty() || it.starts_with(is_end))
        })
    };
    if has("http_host") {
        return Some("`$host` is in lower case and without a port");
    }
    let is_path = has("uri") || has("document_uri");
    is_path.then_some("`$path` is as the client sent it: not decoded, and not rewritten")
}

/// Whether a value of ours may be an empty text, which nginx does not send.
pub(super) fn may_be_empty(value: &str) -> bool {
    const EMPTY: [&str; 5] =
        ["$query", "$tls_version", "$tls_cipher", "$server_name", "$client_certificate"];
    !value.is_empty()
        && EMPTY.iter().fold(value.to_owned(), |rest, name| rest.replace(name, "")).is_empty()
}

fn variable<'a>(name: &str, literals: Literals<'a>) -> Option<&'a str> {
    Some(match name {
        "host" | "http_host" => "$host",
        "remote_addr" | "proxy_protocol_addr" => "$client_address",
        "remote_port" => "$client_port",
        "scheme" => "$scheme",
        "request_method" => "$method",
        "uri" | "document_uri" => "$path",
        "args" | "query_string" => "$query",
        "request_id" => "$request_id",
        "ssl_protocol" => "$tls_version",
        "ssl_cipher" => "$tls_cipher",
        "ssl_server_name" => "$server_name",
        "ssl_client_s_dn" => "$client_certificate",
        "server_name" if !literals.server_name.is_empty() => literals.server_name,
        "server_port" if !literals.port.is_empty() => literals.port,
        "proxy_host" if !literals.proxy_host.is_empty() => literals.proxy_host,
        "proxy_port" if !literals.proxy_port.is_empty() => literals.proxy_port,
        _ => return None,
    })
}

/// An address of `listen` as our file writes it, and its port; none for one that is no IP address.
pub(super) fn listen(text: &str) -> Option<(String, u16)> {
    if let Ok(port) = text.parse::<u16>() {
        return Some((format!(":{port}"), port));
    }
    let (host, port) = match text.rsplit_once(':') {
        Some((host, port)) if !text.ends_with(']') => (host, port.parse().ok()?),
        _ => (text, 80),
    };
    let host = if host == "localhost" { "127.0.0.1" } else { host };
    let bare = host.trim_start_matches('[').trim_end_matches(']');
    match host {
        "*" | "0.0.0.0" => Some((format!(":{port}"), port)),
        _ if bare.parse::<std::net::IpAddr>().is_ok() => Some((format!("{host}:{port}"), port)),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_and_sizes_are_written_as_ours() {
        assert_eq!(time("60").as_deref(), Some("60s"));
        assert_eq!(time("1h 30m").as_deref(), Some("1h30m"));
        assert_eq!(time("1w").as_deref(), Some("7d"));
        assert_eq!((time("soon"), time("")), (None, None));
        assert_eq!(size("10m").as_deref(), Some("10MiB"));
        assert_eq!((size("0").as_deref(), size("1x")), (Some("0"), None));
        assert_eq!(least_size("256").as_deref(), Some("256B"));
        assert_eq!(least_size("1g").as_deref(), Some("1GiB"));
        assert_eq!((least_size("0").as_deref(), least_size("1025m")), (Some("0B"), None));
        assert_eq!(rate("30r/m").as_deref(), Some("30/m"));
    }

    #[test]
    fn variables_have_counterparts_or_are_refused() {
        let literals =
            Literals { server_name: "a.example", proxy_host: "web", ..Literals::default() };
        let read = |text| template(text, literals);
        assert_eq!(
            read("${scheme}://$server_name/$uri").as_deref(),
            Ok("$scheme://a.example/$path")
        );
        assert!(read("$geoip_country").is_err() && read("${host}x").is_err());
        assert!(read("$host:$server_port").is_err() && read("$realip_remote_addr").is_err());
        let literals = Literals { port: "8080", ..literals };
        assert_eq!(template("$host:$server_port", literals).as_deref(), Ok("$host:8080"));
        assert!(may_be_empty("$query$tls_version") && !may_be_empty("?$query"));
    }

    #[test]
    fn listeners_have_addresses() {
        let read = |text| listen(text).map(|it| it.0);
        assert_eq!(read("80").as_deref(), Some(":80"));
        assert_eq!(read("[::]:443").as_deref(), Some("[::]:443"));
        assert_eq!(read("127.0.0.1").as_deref(), Some("127.0.0.1:80"));
        assert_eq!(read("[::1]").as_deref(), Some("[::1]:80"));
        assert_eq!((read("unix:/run/x"), read("web:80")), (None, None));
    }
}
