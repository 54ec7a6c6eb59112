//! Why an attempt came to nothing.

use std::{error, fmt::Display};

use instant_acme::{Error, Problem};
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
                Self { failure, why: escaped(&words(problem, kind)) }
            }
            Error::Unsupported(_) | Error::KeyRejected | Error::Crypto => Self::refused(error),
            // Whatever does not speak ACME is something between the authority and us.
            _ => Self { failure: Failure::Away, why: escaped(&with_causes(&error)) },
        }
    }
}

/// What an authority says, with what it says of single names (RFC 8555, section 6.7.1).
fn words(problem: &Problem, kind: &str) -> String {
    // Without a detail the library tells of all.
    let Some(detail) = &problem.detail else { return problem.to_string() };
    let mut text = format!("{detail} ({})", kind.rsplit(':').next().unwrap_or(""));
    for subproblem in problem.subproblems.iter().take(SUBPROBLEMS_MAX) {
        text += &format!("; {subproblem}");
    }
    text
}

/// On one line: what somebody else has written goes into logs.
fn escaped(text: &str) -> String {
    let mut escaped = String::with_capacity(text.len());
    for character in text.chars() {
        match character.is_control() {
            true => escaped.extend(character.escape_default()),
            false => escaped.push(character),
        }
    }
    escaped
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

/// An order is for one name.
const SUBPROBLEMS_MAX: usize = 4;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_an_authority_says_is_told_with_what_it_says_of_names_and_on_one_line() {
        let problem = r#"{
            "type": "urn:ietf:params:acme:error:malformed", "status": 403,
            "detail": "no\nWARN acme: all is well\u001b[31m",
            "subproblems": [{
                "type": "urn:ietf:params:acme:error:rejectedIdentifier",
                "detail": "not by this authority",
                "identifier": { "type": "dns", "value": "a.test" }
            }]
        }"#;
        let problem: Problem = serde_json::from_str(problem).unwrap();
        assert_eq!(
            Fault::from(Error::Api(problem)).why,
            r#"no\nWARN acme: all is well\u{1b}[31m (malformed); for "a.test": not by this "#
                .to_owned()
                + "authority (urn:ietf:params:acme:error:rejectedIdentifier)"
        );
    }
}
