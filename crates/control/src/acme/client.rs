//! The requests to an authority, a connection each: a certificate takes about ten in a month.

use std::{
    io,
    pin::Pin,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering::Relaxed},
    },
    time::Duration,
};

use bytes::Bytes;
use http::{Request, StatusCode, Uri, header::RETRY_AFTER};
use instant_acme::{BodyWrapper, BytesResponse, Error, HttpClient};
use loadline_core::fleet::acme::Issuer;
use serde_json::Value;
use tokio::time::timeout;

use crate::https::{self, Anything};

/// Sends requests over TLS. Copies are one client.
#[derive(Clone)]
pub(super) struct Client {
    https: https::Client,
    /// Where the directory of the authority is.
    directory: Option<Uri>,
    retry_after_s: Arc<AtomicU64>,
}

impl Client {
    /// A client that trusts the authorities of the file, or those of the system.
    pub(super) fn of(issuer: &Issuer) -> io::Result<Self> {
        let https = https::Client::trusting(issuer.authorities.as_deref())?;
        Ok(Self { https, directory: issuer.directory.parse().ok(), retry_after_s: Arc::default() })
    }

    /// How long the authority wants to be left alone, in seconds, where it has said so since this
    /// was asked last.
    pub(super) fn take_retry_after(&self) -> Option<u64> {
        Some(self.retry_after_s.swap(0, Relaxed)).filter(|seconds| *seconds > 0)
    }

    async fn send(self, request: Request<BodyWrapper<Bytes>>) -> Result<BytesResponse, Anything> {
        if request.uri().scheme_str() != Some("https") {
            return Err("a URL that is not https".into());
        }
        let is_of_directory = self.directory.as_ref() == Some(request.uri());
        let (parts, body) = self.https.send(request).await?.into_parts();
        let asks = [StatusCode::TOO_MANY_REQUESTS, StatusCode::SERVICE_UNAVAILABLE];
        if asks.contains(&parts.status) {
            let given = parts.headers.get(RETRY_AFTER).and_then(|it| it.to_str().ok());
            let seconds = given.and_then(|text| text.trim().parse().ok());
            self.retry_after_s.fetch_max(seconds.unwrap_or(0), Relaxed);
        }
        if is_of_directory {
            check_directory(parts.status, &body)?;
        }
        Ok(BytesResponse { parts, body: Box::new(body) })
    }
}

/// Refuses what is no directory; the library would tell of its JSON alone.
fn check_directory(status: StatusCode, body: &[u8]) -> Result<(), String> {
    let found: Value = serde_json::from_slice(body).unwrap_or_default();
    let is_missing = |member: &&str| !found.get(*member).is_some_and(Value::is_string);
    match MEMBERS.into_iter().find(is_missing) {
        Some(member) => {
            Err(format!("no ACME directory: the response ({status}) has no `{member}`"))
        }
        None => Ok(()),
    }
}

impl HttpClient for Client {
    fn request(
        &self,
        request: Request<BodyWrapper<Bytes>>,
    ) -> Pin<Box<dyn Future<Output = Result<BytesResponse, Error>> + Send>> {
        let (client, place) = (self.clone(), request.uri().to_string());
        Box::pin(async move {
            let told = |why: &dyn std::fmt::Display| Error::Other(format!("{place}: {why}").into());
            match timeout(LIMIT, client.send(request)).await {
                Ok(sent) => sent.map_err(|error| told(&error)),
                Err(_) => Err(told(&"no answer in time")),
            }
        })
    }
}

/// What is used of a directory (RFC 8555, section 7.1.1).
const MEMBERS: [&str; 3] = ["newNonce", "newAccount", "newOrder"];

/// Authorities answer within seconds, or are in trouble.
const LIMIT: Duration = Duration::from_secs(30);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_no_directory_is_told_as_such() {
        let directory = br#"{"newNonce": "https://a/n", "newAccount": "https://a/a", "#;
        let whole = [&directory[..], br#""newOrder": "https://a/o", "meta": {}}"#].concat();
        assert_eq!(check_directory(StatusCode::OK, &whole), Ok(()));
        let cut = [&directory[..], br#""meta": {}}"#].concat();
        for (status, body, expected) in [
            (StatusCode::OK, &b"{}"[..], "(200 OK) has no `newNonce`"),
            (StatusCode::NOT_FOUND, &b"<html>"[..], "(404 Not Found) has no `newNonce`"),
            (StatusCode::OK, &cut[..], "(200 OK) has no `newOrder`"),
        ] {
            let expected = format!("no ACME directory: the response {expected}");
            assert_eq!(check_directory(status, body), Err(expected));
        }
    }
}
