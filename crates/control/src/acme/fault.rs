//! Why an attempt came to nothing.

use std::{error, fmt::Display};

use instant_acme::Error;
use loadline_core::acme::Failure;

/// Why an attempt failed.
#[derive(Debug, thiserror::Error)]
#[error("{why}")]
pub(super) struct Fault {
    pub(super) failure: Failure,
    pub(super) why: String,
}

impl Fault {
    pub(super) fn refused(why: impl Display) -> Self {
        Self { failure: Failure::Refused, why: why.to_string() }
    }

    /// Something of our own is in the way; the order is as good as before.
    pub(super) fn local(why: impl Display) -> Self {
        Self { failure: Failure::Away, why: why.to_string() }
    }
}

impl From<Error> for Fault {
    fn from(error: Error) -> Self {
        match &error {
            Error::Api(problem) => {
                let kind = problem.r#type.as_deref().unwrap_or_default();
                let failure = Failure::of_problem(problem.status, kind);
                let why = match &problem.detail {
                    Some(detail) => format!("{detail} ({})", kind.rsplit(':').next().unwrap_or("")),
                    None => problem.to_string(),
                };
                Self { failure, why }
            }
            Error::Unsupported(_) | Error::KeyRejected | Error::Crypto => Self::refused(error),
            // Whatever does not speak ACME is something between the authority and us.
            _ => Self { failure: Failure::Away, why: with_causes(&error) },
        }
    }
}

fn with_causes(error: &dyn error::Error) -> String {
    let mut text = error.to_string();
    let mut cause = error.source();
    while let Some(error) = cause {
        let more = error.to_string();
        if !text.contains(&more) {
            text = format!("{text}: {more}");
        }
        cause = error.source();
    }
    text
}

/// Sends a request again as long as only its nonce is refused, as RFC 8555 wants it (section 6.5).
/// The library gives up after three: among hundreds of requests some would fail for nothing.
pub(super) async fn again<T>(
    mut request: impl AsyncFnMut() -> Result<T, Error>,
) -> Result<T, Fault> {
    let mut left = NONCE_ROUNDS;
    loop {
        let fault = match request().await {
            Ok(done) => return Ok(done),
            Err(error) => Fault::from(error),
        };
        left -= 1;
        if fault.failure != Failure::Nonce || left == 0 {
            return Err(fault);
        }
    }
}

/// Rounds of three: an authority that refuses every other nonce refuses all in one of 10^9 cases.
const NONCE_ROUNDS: u32 = 10;
