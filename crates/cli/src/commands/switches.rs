//! The flags about protocol and TLS that `bench`, `capacity` and `ttfb` share, named as curl names
//! them.

use std::path::PathBuf;

use loadline_load::{Protocol, Tls, TlsVersion, Transport};

/// What is spoken.
#[derive(clap::Args)]
#[command(next_help_heading = "Protocol and TLS")]
pub(crate) struct Switches {
    /// Use HTTP/1.1 only [over TLS what the server chooses, otherwise HTTP/1.1]
    #[arg(long = "http1.1", conflicts_with_all = ["http2", "http3"])]
    http1: bool,
    /// Use HTTP/2: over TLS by ALPN, without TLS by prior knowledge (h2c)
    #[arg(long = "http2", visible_alias = "http2-prior-knowledge", conflicts_with = "http3")]
    http2: bool,
    /// Use HTTP/3, over QUIC to the UDP port of the same number
    #[arg(long = "http3", visible_alias = "http3-only")]
    http3: bool,
    /// Accept any certificate
    #[arg(short = 'k', long)]
    insecure: bool,
    /// PEM file of CA certificates to trust instead of the system's
    #[arg(long, value_name = "FILE", conflicts_with = "insecure")]
    cacert: Option<PathBuf>,
    /// PEM file of the client's certificate chain
    #[arg(short = 'E', long, value_name = "FILE")]
    cert: Option<PathBuf>,
    /// PEM file of the client's key [the file of --cert]
    #[arg(long, value_name = "FILE", requires = "cert")]
    key: Option<PathBuf>,
    /// Server name (SNI) to send and to verify in TLS, instead of the URL's host
    #[arg(long, value_name = "NAME", value_parser = server_name)]
    server_name: Option<String>,
    /// TLS 1.2 or later, which is the default
    #[arg(long = "tlsv1.2", visible_alias = "tls1.2", conflicts_with = "tls13")]
    tls12: bool,
    /// TLS 1.3 or later
    #[arg(long = "tlsv1.3", visible_alias = "tls1.3", id = "tls13")]
    tls13: bool,
    /// Maximum TLS version
    #[arg(long, value_name = "1.2|1.3", value_parser = ["1.2", "1.3"])]
    tls_max: Option<String>,
}

impl Switches {
    /// As a plan has it.
    ///
    /// # Errors
    /// What cannot be together.
    pub(crate) fn transport(&self) -> Result<Transport, &'static str> {
        let protocol = match (self.http1, self.http2, self.http3) {
            (true, ..) => Protocol::Http1,
            (_, true, _) => Protocol::Http2,
            (.., true) => Protocol::Http3,
            _ => Protocol::Auto,
        };
        let version = match (self.tls13, self.tls_max.as_deref()) {
            (true, Some("1.2")) => return Err(NO_VERSION),
            (_, Some("1.2")) if self.http3 => return Err(NO_QUIC),
            (true, _) => Some(TlsVersion::V13),
            (_, Some("1.2")) => Some(TlsVersion::V12),
            _ => None,
        };
        let tls = Tls {
            insecure: self.insecure,
            authorities: self.cacert.clone(),
            certificate: self.cert.clone(),
            key: self.key.clone(),
            server_name: self.server_name.clone(),
            version,
        };
        Ok(Transport { protocol, tls, ..Transport::default() })
    }
}

const NO_VERSION: &str = "--tlsv1.3 is above --tls-max 1.2: leave one of them out";

const NO_QUIC: &str = "HTTP/3 needs TLS 1.3: leave --tls-max 1.2 or --http3 out";

fn server_name(name: &str) -> Result<String, &'static str> {
    let told = "a certificate is for a name or an address, like www.example.org";
    loadline_load::is_server_name(name).then(|| name.to_owned()).ok_or(told)
}

/// Name and value of a header as curl's `-H` takes it.
///
/// # Errors
/// If there is no colon.
pub(crate) fn header(text: &str) -> Result<(String, String), &'static str> {
    let (name, value) = text.split_once(':').ok_or("write it like 'Accept: text/html'")?;
    Ok((name.trim().to_owned(), value.trim().to_owned()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::Parser;

    #[derive(Parser)]
    struct Line {
        #[command(flatten)]
        switches: Switches,
    }

    fn read(line: &str) -> Result<Transport, &'static str> {
        let line = Line::try_parse_from(["x"].into_iter().chain(line.split_whitespace())).unwrap();
        line.switches.transport()
    }

    #[test]
    fn the_switches_are_those_of_curl() {
        assert_eq!(read(""), Ok(Transport::default()));
        assert_eq!(read("--http1.1").unwrap().protocol, Protocol::Http1);
        assert_eq!(read("--http2-prior-knowledge").unwrap().protocol, Protocol::Http2);
        assert_eq!(read("--http3").unwrap().protocol, Protocol::Http3);
        for (line, version) in [
            ("--tls1.2", None),
            ("--tlsv1.2 --tls-max 1.2", Some(TlsVersion::V12)),
            ("--tls1.3", Some(TlsVersion::V13)),
        ] {
            assert_eq!(read(line).unwrap().tls.version, version, "{line}");
        }
        let tls = read("-k -E cert.pem --key key.pem --server-name a.example").unwrap().tls;
        assert!(tls.insecure && tls.key.is_some() && tls.certificate.is_some());
        assert_eq!(tls.server_name.as_deref(), Some("a.example"));
        assert!(read("--tlsv1.3 --tls-max 1.2").is_err());
    }

    #[test]
    fn a_server_name_that_no_certificate_can_be_for_is_wrong_usage() {
        let read = |name| Line::try_parse_from(["x", "--server-name", name]);
        for name in ["", "bad name"] {
            assert!(read(name).is_err_and(|it| it.to_string().contains("certificate")), "{name}");
        }
        assert!(read("a.example").is_ok() && read("::1").is_ok());
    }

    #[test]
    fn a_header_needs_its_colon() {
        assert_eq!(header("A: b:c"), Ok(("A".to_owned(), "b:c".to_owned())));
        assert!(header("A").is_err());
    }
}
