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
use http::{Request, StatusCode, header::RETRY_AFTER};
use instant_acme::{BodyWrapper, BytesResponse, Error, HttpClient};
use loadline_core::fleet::acme::Issuer;
use tokio::time::timeout;

use crate::https::{self, Anything};

/// Sends requests over TLS. Copies are one client.
#[derive(Clone)]
pub(super) struct Client {
    https: https::Client,
    retry_after_s: Arc<AtomicU64>,
}

impl Client {
    /// A client that trusts the authorities of the file, or those of the system.
    pub(super) fn of(issuer: &Issuer) -> io::Result<Self> {
        let https = https::Client::trusting(issuer.authorities.as_deref())?;
        Ok(Self { https, retry_after_s: Arc::default() })
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
        let (parts, body) = self.https.send(request).await?.into_parts();
        let asks = [StatusCode::TOO_MANY_REQUESTS, StatusCode::SERVICE_UNAVAILABLE];
        if asks.contains(&parts.status) {
            let given = parts.headers.get(RETRY_AFTER).and_then(|it| it.to_str().ok());
            let seconds = given.and_then(|text| text.trim().parse().ok());
            self.retry_after_s.fetch_max(seconds.unwrap_or(0), Relaxed);
        }
        Ok(BytesResponse { parts, body: Box::new(body) })
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

/// Authorities answer within seconds, or are in trouble.
const LIMIT: Duration = Duration::from_secs(30);
