//! The flags that say how requests travel, named as curl names them.

use std::net::IpAddr;

use loadline_load::{Protocol, Transport};

use super::usage::UsageError;
use crate::commands::switches::Switches;

/// How requests travel.
#[derive(clap::Args)]
#[command(next_help_heading = "Protocol, TLS and addresses")]
pub(crate) struct TransportArgs {
    #[command(flatten)]
    switches: Switches,
    /// Connect from this source address; repeat for more addresses, and so more ports
    #[arg(long = "source-address", value_name = "IP")]
    sources: Vec<IpAddr>,
    /// Maximum number of connections, over which requests are spread [as many as needed]
    #[arg(long, value_name = "N", conflicts_with = "no_keepalive")]
    connections: Option<u32>,
    /// Open a new connection for every request, as siege and httperf do
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
        let transport = self.switches.transport().map_err(UsageError::Conflict)?;
        if self.connections == Some(0) {
            return Err(UsageError::Conflict("--connections must be above zero"));
        }
        if matches!(transport.protocol, Protocol::Http2 | Protocol::Http3) && self.no_keepalive {
            return Err(UsageError::Conflict(
                "HTTP/2 and HTTP/3 keep their connections: leave --no-keepalive out, or use \
                 --http1.1",
            ));
        }
        let (sources, connections) = (self.sources.clone(), self.connections);
        Ok(Transport { sources, connections, ..transport })
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
    fn connections_and_sources_go_beside_the_switches() {
        assert_eq!(read(""), Transport::default());
        assert_eq!(read("--http2 --connections 4").connections, Some(4));
        assert_eq!(read("--source-address 127.0.0.2 --source-address ::1").sources.len(), 2);
    }
}
