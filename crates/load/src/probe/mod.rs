//! Single requests and pings, one after another, each with its phases.
//!
//! A load run asks what a service does under load; a probe asks what one user sees of an idle one.
//! Every sample is kept in its order, because the order tells what an average hides: the first
//! requests that open connections somewhere on the way, and the floor that is distance alone.
//!
//! - [`ping`] measures round trips, by ICMP echo where that is allowed and by TCP otherwise;
//! - [`ttfb`] measures the time to the first byte of an HTTP response, part by part.
//!
//! Several targets take turns, so that a drift of the machine or the network meets them all.

use std::{io, net::IpAddr};

use loadline_measure::record::ProbeOutcome;

use crate::{LoadError, Outcome, PlanError};

mod echo;
mod ping;
mod series;
mod track;
mod ttfb;
mod wire;

pub use ping::{Family, PingEvent, PingPlan, ping};
pub use ttfb::{TtfbEvent, TtfbPlan, ttfb};

/// Why a probe could not begin.
#[derive(Debug, thiserror::Error)]
pub enum ProbeError {
    /// The plan is wrong.
    #[error(transparent)]
    Plan(#[from] PlanError),
    /// A target cannot be asked at all.
    #[error(transparent)]
    Load(LoadError),
    /// The host's name has no address of the family asked for.
    #[error("no address for the host `{host}`")]
    Resolve {
        /// Name of the host.
        host: String,
        /// What the resolver said.
        source: io::Error,
    },
    /// The address cannot be sent to from here.
    #[error("cannot send to {address}")]
    Unreachable {
        /// Address that was to be reached.
        address: IpAddr,
        /// What the system said.
        source: io::Error,
    },
}

impl From<LoadError> for ProbeError {
    fn from(error: LoadError) -> Self {
        match error {
            LoadError::Plan(wrong) => Self::Plan(wrong),
            other => Self::Load(other),
        }
    }
}

impl From<Outcome> for ProbeOutcome {
    fn from(outcome: Outcome) -> Self {
        match outcome {
            Outcome::Ok => Self::Ok,
            Outcome::ClientError => Self::ClientError,
            Outcome::ServerError => Self::ServerError,
            Outcome::ConnectRefused => Self::ConnectRefused,
            Outcome::ConnectTimeout => Self::ConnectTimeout,
            Outcome::Timeout => Self::Timeout,
            Outcome::Reset => Self::Reset,
            Outcome::BadAnswer => Self::BadAnswer,
            Outcome::Dropped => Self::Dropped,
            Outcome::CutOff => Self::CutOff,
        }
    }
}
