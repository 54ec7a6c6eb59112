//! The requests to an authority, a connection each: a certificate takes about ten in a month.

use std::{cell::Cell, io, pin::Pin, time::Duration};

use bytes::Bytes;
use http::{Request, StatusCode, Uri, header::RETRY_AFTER};
use instant_acme::{BodyWrapper, BytesResponse, Error, HttpClient};
use loadline_core::{cache::parse_date, fleet::acme::Issuer, time::UnixTime};
use serde_json::Value;
use tokio::{task_local, time::timeout};

use super::issued::now_s;
use crate::https::{self, Anything};

task_local! {
    /// How long the authority wants to be left alone, in seconds: 0 where it has not said so.
    static RETRY_AFTER_S: Cell<u64>;
}

/// What comes of `work`, and how long the authority has asked it to wait, in seconds, if it has.
/// The requests for many names are made with one account, and what one is told is for it alone.
pub(super) async fn with_retry_after<T>(work: impl Future<Output = T>) -> (T, Option<u64>) {
    let noted = async {
        let done = work.await;
        (done, RETRY_AFTER_S.try_with(Cell::get).ok().filter(|seconds| *seconds > 0))
    };
    RETRY_AFTER_S.scope(Cell::new(0), noted).await
}

/// Sends requests over TLS. Copies are one client.
#[derive(Clone)]
pub(super) struct Client {
    https: https::Client,
    /// Where the directory of the authority is.
    directory: Option<Uri>,
}

impl Client {
    /// A client that trusts the authorities of the file, or those of the system.
    pub(super) fn of(issuer: &Issuer) -> io::Result<Self> {
        let https = https::Client::trusting(issuer.authorities.as_deref())?;
        Ok(Self { https, directory: issuer.directory.parse().ok() })
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
            note_retry_after(given.and_then(|text| seconds(text, now_s())).unwrap_or(0));
        }
        if is_of_directory {
            check_directory(parts.status, &body)?;
        }
        Ok(BytesResponse { parts, body: Box::new(body) })
    }
}

/// Notes it for the work that the request is for.
fn note_retry_after(seconds: u64) {
    let noted = RETRY_AFTER_S.try_with(|it| it.set(it.get().max(seconds)));
    if noted.is_err() {
        tracing::debug!(seconds, "acme: nobody waits for that long");
    }
}

/// How many seconds a value of `Retry-After` asks for: it is their number, or a date (RFC 9110,
/// section 10.2.3).
fn seconds(value: &str, now_s: u64) -> Option<u64> {
    let (value, now) = (value.trim(), UnixTime::from_secs(now_s.cast_signed()));
    let until = || Some(parse_date(value.as_bytes(), now)?.since(now).to_std().as_secs());
    value.parse().ok().or_else(until)
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
    use tokio::task::yield_now;

    use super::*;

    #[tokio::test]
    async fn what_an_authority_asks_of_one_name_is_not_asked_of_another() {
        let throttled = with_retry_after(async {
            note_retry_after(604_800);
            yield_now().await;
            note_retry_after(60);
        });
        let other = with_retry_after(yield_now());
        let (((), throttled), ((), other)) = tokio::join!(throttled, other);
        assert_eq!((throttled, other), (Some(604_800), None));
    }

    #[test]
    fn a_retry_after_is_seconds_or_a_date() {
        let now_s = 784_111_777;
        for (value, expected) in [
            ("3600", Some(3_600)),
            (" 7 ", Some(7)),
            ("Sun, 06 Nov 1994 08:49:37 GMT", Some(0)),
            ("Sun, 06 Nov 1994 09:49:37 GMT", Some(3_600)),
            ("Sat, 05 Nov 1994 09:49:37 GMT", Some(0)),
            ("soon", None),
        ] {
            assert_eq!(seconds(value, now_s), expected, "{value}");
        }
    }

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
