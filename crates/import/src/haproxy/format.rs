//! Values of HAProxy: durations, and texts with variables.

/// A duration as our file writes it, out of one of HAProxy: milliseconds, unless it has a unit.
pub(super) fn duration(text: &str) -> Option<String> {
    let digits = text.find(|c: char| !c.is_ascii_digit()).unwrap_or(text.len());
    let (number, unit) = text.split_at(digits);
    let number: u64 = number.parse().ok()?;
    let (number, unit) = match unit {
        "" | "ms" if number >= 1000 && number.is_multiple_of(1000) => (number / 1000, "s"),
        "" | "ms" => (number, "ms"),
        "us" | "s" | "m" | "h" | "d" => (number, unit),
        _ => return None,
    };
    Some(format!("{number}{unit}"))
}

/// A text of HAProxy with `%[...]` as the value of a header of ours.
///
/// # Errors
/// Which variable has no counterpart.
pub(super) fn template(text: &str) -> Result<String, String> {
    let mut out = String::new();
    let mut rest = text;
    while let Some(at) = rest.find('%') {
        out.push_str(&rest[..at].replace('$', "$$"));
        rest = &rest[at + 1..];
        if let Some(after) = rest.strip_prefix('%') {
            out.push('%');
            rest = after;
        } else if let Some((inside, after)) =
            rest.strip_prefix('[').and_then(|it| it.split_once(']'))
        {
            out.push_str(sample(inside)?);
            rest = after;
        } else {
            let letters = rest.find(|c: char| !c.is_ascii_alphabetic()).unwrap_or(rest.len());
            let (name, after) = rest.split_at(letters);
            out.push_str(alias(name).ok_or_else(|| format!("no variable like `%{name}`"))?);
            rest = after;
        }
    }
    out.push_str(&rest.replace('$', "$$"));
    Ok(out)
}

/// What of the variables in a text is not quite that of HAProxy.
pub(super) fn differing(text: &str) -> Option<&'static str> {
    let mut samples = text.split("%[").skip(1).filter_map(|it| it.split_once(']'));
    let is_as_sent = |(sample, _): (&str, &str)| {
        let (name, converters) = sample.split_once(',').unwrap_or((sample, ""));
        HOST.contains(&name) && !(converters.contains("lower") && converters.contains("host_only"))
    };
    samples.any(is_as_sent).then_some("`$host` is in lower case and without a port")
}

const HOST: [&str; 4] = ["hdr(host)", "hdr(Host)", "req.hdr(host)", "req.hdr(Host)"];

fn sample(text: &str) -> Result<&'static str, String> {
    let unknown = || format!("no variable like `%[{text}]`");
    let (name, converters) = text.split_once(',').unwrap_or((text, ""));
    let ours = match name {
        "src" => "$client_address",
        "src_port" => "$client_port",
        host if HOST.contains(&host) => "$host",
        "path" => "$path",
        "query" => "$query",
        "method" => "$method",
        "ssl_fc_sni" => "$server_name",
        "ssl_fc_protocol" => "$tls_version",
        "ssl_fc_cipher" => "$tls_cipher",
        "ssl_c_s_dn" => "$client_certificate",
        "unique-id" => "$request_id",
        "uuid()" | "uuid" => {
            return Err(format!("no variable like `%[{text}]`: `$request_id` is no UUID"));
        }
        _ => return Err(unknown()),
    };
    let mut converters = converters.split(',').filter(|it| !it.is_empty());
    let fits = converters.all(|it| match ours {
        "$host" => matches!(it, "lower" | "host_only"),
        _ => ours == "$client_address" && it == "lower",
    });
    if fits { Ok(ours) } else { Err(unknown()) }
}

fn alias(name: &str) -> Option<&'static str> {
    Some(match name {
        "ci" => "$client_address",
        "cp" => "$client_port",
        "ID" => "$request_id",
        "HM" => "$method",
        "HP" | "HPO" => "$path",
        "sslc" => "$tls_cipher",
        "sslv" => "$tls_version",
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_are_in_milliseconds_unless_they_say() {
        for (text, expected) in
            [("5000", "5s"), ("1500", "1500ms"), ("1m", "1m"), ("0", "0ms"), ("30s", "30s")]
        {
            assert_eq!(duration(text).as_deref(), Some(expected), "{text}");
        }
        assert_eq!(duration("5 s"), None);
        assert_eq!(duration("soon"), None);
    }

    #[test]
    fn variables_have_counterparts_or_are_refused() {
        assert_eq!(
            template("%[src]:%cp $x 5%%"),
            Ok("$client_address:$client_port $$x 5%".to_owned())
        );
        assert_eq!(template("%[req.hdr(Host),lower]").as_deref(), Ok("$host"));
        assert!(template("%[path,lower]").is_err() && template("%[hdr(host),upper]").is_err());
        assert!(template("%[var(txn.x)]").is_err());
        assert!(template("%Tq").is_err() && template("%[uuid()]").is_err());
    }
}
