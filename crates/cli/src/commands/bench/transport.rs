//! The flags that say how requests travel, named as curl names them.

use std::{net::IpAddr, path::PathBuf};

use loadline_load::{Protocol, Tls, TlsVersion, Transport};

use super::usage::UsageError;

/// How requests travel.
#[derive(clap::Args)]
#[command(next_help_heading = "Protocol, TLS and addresses")]
pub(crate) struct TransportArgs {
    /// Speak HTTP/1.1 only [over TLS what the server chooses, else HTTP/1.1]
    #[arg(long = "http1.1", conflicts_with = "http2")]
    http1: bool,
    /// Speak HTTP/2: over TLS by ALPN, without TLS by prior knowledge (h2c)
    #[arg(long = "http2", visible_alias = "http2-prior-knowledge")]
    http2: bool,
    /// Take any certificate
    #[arg(short = 'k', long)]
    insecure: bool,
    /// PEM file of authorities to trust instead of the system's
    #[arg(long, value_name = "FILE", conflicts_with = "insecure")]
    cacert: Option<PathBuf>,
    /// PEM file of the client's certificate chain
    #[arg(short = 'E', long, value_name = "FILE")]
    cert: Option<PathBuf>,
    /// PEM file of the client's key [the file of --cert]
    #[arg(long, value_name = "FILE", requires = "cert")]
    key: Option<PathBuf>,
    /// The name to ask for and to verify in TLS instead of the URL's host
    #[arg(long, value_name = "NAME")]
    server_name: Option<String>,
    /// TLS 1.2 or later, as is so anyway
    #[arg(long = "tlsv1.2", alias = "tls1.2", conflicts_with = "tls13")]
    tls12: bool,
    /// TLS 1.3 or later
    #[arg(long = "tlsv1.3", alias = "tls1.3")]
    tls13: bool,
    /// TLS of this version at most
    #[arg(long, value_name = "1.2|1.3", value_parser = ["1.2", "1.3"])]
    tls_max: Option<String>,
    /// Go out from this address; repeat to widen the range of ports
    #[arg(long = "source-address", value_name = "IP")]
    sources: Vec<IpAddr>,
    /// Keep so many connections at most, and spread the requests over them [as many as needed]
    #[arg(long, value_name = "N", conflicts_with = "no_keepalive")]
    connections: Option<u32>,
    /// A new connection for every request, as siege and httperf do
    #[arg(long)]
    no_keepalive: bool,
}

impl TransportArgs {
    /// Whether connections are used again.
    pub(crate) fn keepalive(&self) -> bool {
        !self.no_keepalive
    }

    /// As a plan has it.
    pub(crate) fn transport(&self) -> Result<Transport, UsageError> {
        let protocol = match (self.http1, self.http2) {
            (true, _) => Protocol::Http1,
            (_, true) => Protocol::Http2,
            _ => Protocol::Auto,
        };
        if self.connections == Some(0) {
            return Err(UsageError::Conflict("--connections must be above zero"));
        }
        if self.http2 && self.no_keepalive {
            return Err(UsageError::Conflict(
                "HTTP/2 keeps its connections: leave --no-keepalive out, or use --http1.1",
            ));
        }
        let tls = Tls {
            insecure: self.insecure,
            authorities: self.cacert.clone(),
            certificate: self.cert.clone(),
            key: self.key.clone(),
            server_name: self.server_name.clone(),
            version: self.version()?,
        };
        let (sources, connections) = (self.sources.clone(), self.connections);
        Ok(Transport { protocol, tls, sources, connections })
    }

    /// curl's lower and upper bound as the one version between them; none where both are left.
    fn version(&self) -> Result<Option<TlsVersion>, UsageError> {
        match (self.tls13, self.tls_max.as_deref()) {
            (true, Some("1.2")) => {
                Err(UsageError::Conflict("--tlsv1.3 is above --tls-max 1.2: leave one of them out"))
            }
            (true, _) => Ok(Some(TlsVersion::V13)),
            (false, Some("1.2")) => Ok(Some(TlsVersion::V12)),
            (false, _) => Ok(None),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::Parser;

    #[derive(Parser)]
    struct Line {
        #[command(flatten)]
        transport: TransportArgs,
    }

    fn read(line: &str) -> Transport {
        let line = Line::try_parse_from(["x"].into_iter().chain(line.split_whitespace())).unwrap();
        line.transport.transport().unwrap()
    }

    #[test]
    fn the_switches_are_those_of_curl() {
        assert_eq!(read(""), Transport::default());
        assert_eq!(read("--http1.1").protocol, Protocol::Http1);
        assert_eq!(read("--http2-prior-knowledge").protocol, Protocol::Http2);
        for (line, version) in [
            ("--tlsv1.2", None),
            ("--tls-max 1.3", None),
            ("--tls-max 1.2", Some(TlsVersion::V12)),
            ("--tls1.2 --tls-max 1.2", Some(TlsVersion::V12)),
            ("--tlsv1.3", Some(TlsVersion::V13)),
        ] {
            assert_eq!(read(line).tls.version, version, "{line}");
        }
        let tls = read("-k -E cert.pem --key key.pem --server-name a.example").tls;
        assert!(tls.insecure && tls.key.is_some() && tls.certificate.is_some());
        assert_eq!(tls.server_name.as_deref(), Some("a.example"));
        let sources = read("--source-address 127.0.0.2 --source-address ::1").sources;
        assert_eq!(sources.len(), 2);
    }
}
