//! Every way a request can end: its name, whose fault it is, the status that the client gets.
//!
//! The counterpart of HAProxy's termination states. Each request ends in exactly one of these;
//! each has a counter, and its name stands in the access log line.

/// How a request ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(u8)]
pub enum Ending {
    /// The server's response reached the client whole, whatever its status.
    Complete,
    /// The connection became a tunnel (Upgrade) and was closed by either side, or broken off by the
    /// client.
    Tunnel,
    /// A TCP connection on which neither side sent anything for as long as `idle` allows.
    Idle,
    /// A rule of the listener answered it: a redirect, a fixed answer, a rate limit.
    Ruled,
    /// The cache answered it, without a server being asked for it alone.
    Cached,
    /// The client's message was not valid HTTP, or larger than the limits: 400, 414, 431, 501, 505.
    ClientBad,
    /// A rule wants a user and a password or a token, and the request had none or wrong ones: 401,
    /// or 403 where a right token does not suffice.
    Unauthorized,
    /// The client took too long to send its head or body: 408.
    ClientTimeout,
    /// The client went away before its request or the response was through.
    ClientGone,
    /// The listener was at its connection limit, and no client had been longer about its head: its
    /// connection was closed at once for the next that came.
    ClientSlow,
    /// Its client had as many connections as the listener allows one: 429, or the connection was
    /// closed as it came.
    ClientLimit,
    /// The service is in maintenance: 503, or a connection closed.
    Maintenance,
    /// Every server of every group is down: 503.
    NoServer,
    /// Every group is full and the service sheds: 503 with Retry-After.
    Shed,
    /// Every group is full and the queue is, too: 503 with Retry-After.
    QueueFull,
    /// The request waited in the queue for as long as the service allows: 503 with Retry-After.
    QueueTimeout,
    /// The server refused the connection: 502.
    ConnectRefused,
    /// There is no way to the server: 502.
    ConnectUnreachable,
    /// The server did not accept the connection in time: 504.
    ConnectTimeout,
    /// The server and loadline did not agree on TLS, or its certificate is not trusted: 502.
    TlsFailed,
    /// The server did not agree on TLS in time: 504.
    TlsTimeout,
    /// The server closed or reset the connection before its response: 502.
    ServerReset,
    /// The server did not begin its response in time: 504.
    ServerTimeout,
    /// The server's response was not valid HTTP: 502.
    ServerBad,
    /// The head of the server's response was over the limits: 502.
    ServerHeadTooLarge,
    /// The body of the server's response was not valid HTTP: 502, or the client's connection is cut
    /// where it has seen some of it.
    ServerBodyBad,
    /// The body of the server's response is over the limit of the service: 502, or the client's
    /// connection is cut where it has seen some of it.
    ServerBodyTooLarge,
    /// The server's response, or a tunnel to it, broke off on the way to the client: the client's
    /// connection is cut.
    ServerCut,
    /// The server paused too long in the middle of its response: the client's connection is cut.
    ServerStalled,
    /// The store gives nothing to anybody: its directory or bucket is not there, or its credentials
    /// are refused: 502.
    StoreRefused,
    /// The store asked for fewer requests: 503 with Retry-After.
    Throttled,
    /// The client asked for another protocol, which a server spoken to in HTTP/2 does not offer or
    /// HTTP/2 cannot ask for: 501.
    NoUpgrade,
    /// loadline stopped, or its server was to be given up, before the request was through, and the
    /// time for the drain was over: 503, or the client's connection is cut where it has seen some
    /// of the response.
    Drained,
    /// loadline ran out of a resource of its own (descriptors, ports): 503.
    Internal,
}

/// Whose fault an ending is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fault {
    /// Nobody's: the request is through.
    None,
    /// The client's.
    Client,
    /// The server's; counts towards its ejection.
    Server,
    /// There was no capacity for it.
    Capacity,
    /// loadline's own.
    Proxy,
}

impl Ending {
    /// Every ending, in the order of their counters.
    pub const ALL: [Self; 34] = [
        Self::Complete,
        Self::Tunnel,
        Self::Idle,
        Self::Ruled,
        Self::Cached,
        Self::ClientBad,
        Self::Unauthorized,
        Self::ClientTimeout,
        Self::ClientGone,
        Self::ClientSlow,
        Self::ClientLimit,
        Self::Maintenance,
        Self::NoServer,
        Self::Shed,
        Self::QueueFull,
        Self::QueueTimeout,
        Self::ConnectRefused,
        Self::ConnectUnreachable,
        Self::ConnectTimeout,
        Self::TlsFailed,
        Self::TlsTimeout,
        Self::ServerReset,
        Self::ServerTimeout,
        Self::ServerBad,
        Self::ServerHeadTooLarge,
        Self::ServerBodyBad,
        Self::ServerBodyTooLarge,
        Self::ServerCut,
        Self::ServerStalled,
        Self::StoreRefused,
        Self::Throttled,
        Self::NoUpgrade,
        Self::Drained,
        Self::Internal,
    ];

    /// The name in logs and metrics.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Complete => "complete",
            Self::Tunnel => "tunnel",
            Self::Idle => "idle",
            Self::Ruled => "ruled",
            Self::Cached => "cached",
            Self::ClientBad => "client-bad",
            Self::Unauthorized => "unauthorized",
            Self::ClientTimeout => "client-timeout",
            Self::ClientGone => "client-gone",
            Self::ClientSlow => "client-slow",
            Self::ClientLimit => "client-limit",
            Self::Maintenance => "maintenance",
            Self::NoServer => "no-server",
            Self::Shed => "shed",
            Self::QueueFull => "queue-full",
            Self::QueueTimeout => "queue-timeout",
            Self::ConnectRefused => "connect-refused",
            Self::ConnectUnreachable => "connect-unreachable",
            Self::ConnectTimeout => "connect-timeout",
            Self::TlsFailed => "tls-failed",
            Self::TlsTimeout => "tls-timeout",
            Self::ServerReset => "server-reset",
            Self::ServerTimeout => "server-timeout",
            Self::ServerBad => "server-bad",
            Self::ServerHeadTooLarge => "server-head-too-large",
            Self::ServerBodyBad => "server-body-bad",
            Self::ServerBodyTooLarge => "server-body-too-large",
            Self::ServerCut => "server-cut",
            Self::ServerStalled => "server-stalled",
            Self::StoreRefused => "store-refused",
            Self::Throttled => "throttled",
            Self::NoUpgrade => "no-upgrade",
            Self::Drained => "drained",
            Self::Internal => "internal",
        }
    }

    /// Whether it failed, and not by fault of the client. Maintenance is what the operator wants.
    #[must_use]
    pub const fn is_failure(self) -> bool {
        !matches!(self.fault(), Fault::None | Fault::Client) && !matches!(self, Self::Maintenance)
    }

    /// Whether the server let nobody in: no further request has to find that out.
    #[must_use]
    pub const fn is_refusal(self) -> bool {
        matches!(self, Self::ConnectRefused | Self::ConnectUnreachable | Self::TlsFailed)
    }

    /// Whose fault it is.
    #[must_use]
    pub const fn fault(self) -> Fault {
        match self {
            Self::Complete | Self::Tunnel | Self::Idle | Self::Ruled | Self::Cached => Fault::None,
            Self::ClientBad
            | Self::Unauthorized
            | Self::ClientTimeout
            | Self::ClientGone
            | Self::ClientSlow
            | Self::ClientLimit => Fault::Client,
            Self::NoServer
            | Self::ConnectRefused
            | Self::ConnectUnreachable
            | Self::ConnectTimeout
            | Self::TlsFailed
            | Self::TlsTimeout
            | Self::ServerReset
            | Self::ServerTimeout
            | Self::ServerBad
            | Self::ServerHeadTooLarge
            | Self::ServerBodyBad
            | Self::ServerBodyTooLarge
            | Self::ServerCut
            | Self::ServerStalled
            | Self::StoreRefused => Fault::Server,
            Self::Shed | Self::QueueFull | Self::QueueTimeout | Self::Throttled => Fault::Capacity,
            Self::Maintenance | Self::NoUpgrade | Self::Drained | Self::Internal => Fault::Proxy,
        }
    }

    /// Whether no server has seen anything of the request, so that sending it elsewhere costs
    /// nobody anything.
    #[must_use]
    pub const fn is_unsent(self) -> bool {
        matches!(self, Self::ConnectTimeout | Self::TlsTimeout) || self.is_refusal()
    }

    /// Whether a request that ends like this was never given to a server. Of those whose client
    /// went away, was late or said something wrong, and of those that loadline cut, some were.
    #[must_use]
    pub const fn is_without_server(self) -> bool {
        matches!(
            self,
            Self::Ruled
                | Self::Cached
                | Self::Unauthorized
                | Self::ClientSlow
                | Self::ClientLimit
                | Self::Maintenance
                | Self::NoServer
                | Self::Shed
                | Self::QueueFull
                | Self::QueueTimeout
        )
    }

    /// The status the client is told where the server gave none; none where it is too late to
    /// say anything or nobody is there to hear it.
    #[must_use]
    pub const fn status(self) -> Option<u16> {
        match self {
            Self::ClientBad => Some(400),
            Self::Unauthorized => Some(401),
            Self::ClientTimeout => Some(408),
            Self::ClientLimit => Some(429),
            Self::NoUpgrade => Some(501),
            Self::ConnectRefused
            | Self::ConnectUnreachable
            | Self::TlsFailed
            | Self::ServerReset
            | Self::ServerBad
            | Self::ServerHeadTooLarge
            | Self::ServerBodyBad
            | Self::ServerBodyTooLarge
            | Self::StoreRefused => Some(502),
            Self::ConnectTimeout | Self::TlsTimeout | Self::ServerTimeout => Some(504),
            Self::Maintenance
            | Self::NoServer
            | Self::Shed
            | Self::QueueFull
            | Self::QueueTimeout
            | Self::Throttled
            | Self::Drained
            | Self::Internal => Some(503),
            Self::Complete
            | Self::Tunnel
            | Self::Idle
            | Self::Ruled
            | Self::Cached
            | Self::ClientGone
            | Self::ClientSlow
            | Self::ServerCut
            | Self::ServerStalled => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_ending_has_its_place_and_a_name_of_its_own() {
        for (index, ending) in Ending::ALL.iter().enumerate() {
            assert_eq!(*ending as usize, index);
            let same = Ending::ALL.iter().filter(|other| other.name() == ending.name());
            assert_eq!(same.count(), 1);
        }
    }

    #[test]
    fn no_server_is_blamed_for_what_it_was_not_asked() {
        let unasked = Ending::ALL.into_iter().filter(|ending| ending.is_without_server());
        let blamed = unasked.filter(|ending| ending.fault() == Fault::Server);
        // That one says that there is none.
        assert!(blamed.eq([Ending::NoServer]));
        assert!(Ending::ALL.iter().all(|it| !(it.is_without_server() && it.is_unsent())));
    }

    #[test]
    fn whoever_is_told_a_server_error_is_not_blamed_for_it() {
        for ending in Ending::ALL {
            let told_5xx = ending.status().is_some_and(|status| status >= 500);
            assert!(!(told_5xx && ending.fault() == Fault::Client), "{}", ending.name());
        }
    }
}
