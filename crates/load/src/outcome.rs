//! What can become of a request: one of ten classes, decided in this file alone.

use std::io;

use loadline_measure::record::Outcomes;
use rustix::io::Errno;
use serde::{Deserialize, Serialize};

/// The class a request ended in. The names are those of [`Outcomes`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// Answered with 1xx to 3xx.
    Ok,
    /// Answered with 4xx.
    ClientError,
    /// Answered with 5xx or above.
    ServerError,
    /// The connection was refused or the address was not reachable.
    ConnectRefused,
    /// The connection did not open in time.
    ConnectTimeout,
    /// No whole response in time.
    Timeout,
    /// The connection was reset or closed before the response was whole.
    Reset,
    /// The response was not valid HTTP.
    BadAnswer,
    /// Not sent: the generator was out of descriptors, ports or its in-flight limit.
    Dropped,
    /// Under way when the run was ended.
    CutOff,
}

/// What the generator itself was out of when a connection could not be opened.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub(crate) enum Shortage {
    /// No free local port to this address: EADDRNOTAVAIL.
    Ports,
    /// No free descriptor, in the process or the system: EMFILE, ENFILE.
    Descriptors,
    /// No kernel memory for a socket: ENOBUFS, ENOMEM.
    Memory,
}

impl Shortage {
    /// What was lacking, where the generator is to blame for this error.
    pub(crate) fn of(error: &io::Error) -> Option<Self> {
        match Errno::from_raw_os_error(error.raw_os_error()?) {
            Errno::ADDRNOTAVAIL => Some(Self::Ports),
            Errno::MFILE | Errno::NFILE => Some(Self::Descriptors),
            Errno::NOBUFS | Errno::NOMEM => Some(Self::Memory),
            _ => None,
        }
    }
}

impl Outcome {
    /// The class of a whole response with this status.
    #[must_use]
    pub const fn of_status(status: u16) -> Self {
        match status {
            0..400 => Self::Ok,
            400..500 => Self::ClientError,
            _ => Self::ServerError,
        }
    }

    /// The class of a connection that could not be opened.
    #[must_use]
    pub fn of_connect_error(error: &io::Error) -> Self {
        if Shortage::of(error).is_some() {
            return Self::Dropped;
        }
        match error.raw_os_error().map(Errno::from_raw_os_error) {
            Some(Errno::TIMEDOUT) => Self::ConnectTimeout,
            Some(Errno::CONNRESET) => Self::Reset,
            _ => Self::ConnectRefused,
        }
    }

    /// Counts one request in this class.
    pub fn count_in(self, outcomes: &mut Outcomes) {
        let class = match self {
            Self::Ok => &mut outcomes.ok,
            Self::ClientError => &mut outcomes.client_error,
            Self::ServerError => &mut outcomes.server_error,
            Self::ConnectRefused => &mut outcomes.connect_refused,
            Self::ConnectTimeout => &mut outcomes.connect_timeout,
            Self::Timeout => &mut outcomes.timeout,
            Self::Reset => &mut outcomes.reset,
            Self::BadAnswer => &mut outcomes.bad_answer,
            Self::Dropped => &mut outcomes.dropped,
            Self::CutOff => &mut outcomes.cut_off,
        };
        *class += 1;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn statuses_fall_into_three_classes() {
        for (status, class) in [
            (101, Outcome::Ok),
            (200, Outcome::Ok),
            (399, Outcome::Ok),
            (400, Outcome::ClientError),
            (499, Outcome::ClientError),
            (500, Outcome::ServerError),
            (999, Outcome::ServerError),
        ] {
            assert_eq!(Outcome::of_status(status), class, "{status}");
        }
    }

    #[test]
    fn the_generators_own_shortages_are_not_the_servers_fault() {
        for (errno, class) in [
            (Errno::MFILE, Outcome::Dropped),
            (Errno::ADDRNOTAVAIL, Outcome::Dropped),
            (Errno::CONNREFUSED, Outcome::ConnectRefused),
            (Errno::HOSTUNREACH, Outcome::ConnectRefused),
            (Errno::TIMEDOUT, Outcome::ConnectTimeout),
            (Errno::CONNRESET, Outcome::Reset),
        ] {
            assert_eq!(Outcome::of_connect_error(&errno.into()), class, "{errno}");
        }
    }
}
