//! Health checks of a service.

use alloc::string::String;

use crate::{health::advisor::Script, time::Duration, units::Ratio};

/// An active health check.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HealthCheck {
    /// What is asked.
    pub probe: Probe,
    /// Time from one check of a server to the next.
    pub interval: Duration,
    /// The same while the server's state is changing.
    pub fast_interval: Duration,
    /// How long a check may take.
    pub timeout: Duration,
    /// Successes in a row that bring a server up, at least 1.
    pub rise: u32,
    /// Failures in a row that bring it down, at least 1.
    pub fall: u32,
    /// Accept a status line followed by the end of the stream, as the tutorial's server answers.
    pub lenient: bool,
}

/// What a check verifies.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Probe {
    /// That a connection opens.
    Tcp,
    /// That a GET of this path is answered with 2xx or 3xx.
    Http {
        /// Path and query.
        path: String,
        /// The Host header; the server's address if omitted.
        host: Option<String>,
    },
    /// That the health service of gRPC says SERVING, over HTTP/2.
    Grpc {
        /// Which service of the server is meant; the server as a whole if empty.
        service: String,
        /// The authority of the call; the server's address if omitted.
        host: Option<String>,
    },
    /// That TLS is agreed on; the certificate counts only if the service verifies it.
    Tls,
    /// That the host answers an ICMP echo.
    Ping,
    /// That the server plays its part of a script.
    Script {
        /// Name of the script, for people.
        name: String,
        /// What is said and heard.
        script: Script,
    },
}

impl Probe {
    /// Whether passing takes a program that answers. The kernel opens connections and answers
    /// pings for one that is stopped.
    #[must_use]
    pub const fn asks_a_program(&self) -> bool {
        match self {
            Self::Http { .. } | Self::Grpc { .. } | Self::Tls | Self::Script { .. } => true,
            Self::Tcp | Self::Ping => false,
        }
    }
}

/// Passive ejection: errors of real requests take a server out for a while.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ejection {
    /// Errors in a row that eject a server, at least 1.
    pub errors: u32,
    /// The first time out; doubled with each ejection in a row, up to `time_max`. A server
    /// that is checked also has to pass a check, or be down.
    pub time: Duration,
    /// The longest time out.
    pub time_max: Duration,
    /// The largest share of a service's servers that may be out by ejection.
    pub share_max: Ratio,
    /// The least time without a response to anybody that counts as an error; ten times the usual
    /// latency, or twice the longest of late, where that is more. Switched off by
    /// [`Duration::ZERO`].
    pub silence: Duration,
    /// By how much the share of 5xx among a server's responses may exceed that of the other servers
    /// of its group; beyond that, and beyond chance, it is ejected. None switches it off.
    pub excess_5xx: Option<Ratio>,
}

impl Default for Ejection {
    fn default() -> Self {
        Self {
            errors: 3,
            time: Duration::from_secs(1),
            time_max: Duration::from_secs(30),
            share_max: Ratio::percent(50),
            silence: Duration::from_millis(500),
            excess_5xx: Some(Ratio::percent(25)),
        }
    }
}
