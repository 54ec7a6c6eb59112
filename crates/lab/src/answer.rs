//! What is said for each path, as bytes for the wire.

use std::{fmt::Write as _, sync::Arc};

use loadline_core::time::Duration;
use loadline_http1::reason;
use serde_json::json;

use crate::{config::Content, unit::Choice};

/// A path a worker knows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Route {
    /// The content, which takes work.
    Work,
    /// The content of a machine that is still to be drawn.
    Forward(Choice),
    /// Whether the worker is alive: answered at once, past the queue.
    Health,
    /// The counts.
    Stats,
}

impl Route {
    /// The route of a path with or without a query.
    pub(crate) fn of(target: &[u8]) -> Option<Self> {
        match target.split(|&byte| byte == b'?').next()? {
            b"/" | b"/index.php" => Some(Self::Work),
            b"/health-check" | b"/status.php" => Some(Self::Health),
            b"/stats" => Some(Self::Stats),
            _ => None,
        }
    }
}

/// A response without what depends on the connection.
#[derive(Clone)]
pub(crate) struct PreparedResponse {
    pub(crate) status: u16,
    pub(crate) kind: &'static str,
    pub(crate) body: Arc<[u8]>,
    /// How busy the cores are, to be told.
    pub(crate) utilization: Option<f64>,
}

/// What becomes of the connection after a response, in the words of its header.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum After {
    /// Kept, as HTTP/1.1 does without a word.
    Keep,
    /// Kept, told to an HTTP/1.0 client that asked.
    KeepAndTell,
    /// Closed.
    Close,
}

impl PreparedResponse {
    /// A short text with this status.
    pub(crate) fn text(status: u16, body: &str) -> Self {
        Self { status, kind: "text/plain", body: body.as_bytes().into(), utilization: None }
    }

    /// JSON.
    pub(crate) fn json(body: Vec<u8>) -> Self {
        Self::good("application/json", body)
    }

    /// What a worker with `content` answers, `picture` being what it drew when it began.
    pub(crate) fn content(content: Content, picture: Vec<u8>) -> Self {
        match content {
            Content::Mandelbrot => Self::good("image/png", picture),
            Content::Page => Self::good("text/html; charset=utf-8", crate::lorem::page()),
            Content::Json => Self::json(br#"{"hello": "world"}"#.to_vec()),
            Content::Fixed { size } => {
                let size = usize::try_from(size.get()).unwrap_or(usize::MAX);
                Self::good("text/plain", vec![b'x'; size])
            }
            // What these say is not known from the content alone.
            Content::Machine | Content::Unit => Self::json(b"{}".to_vec()),
        }
    }

    /// What a machine tells of itself.
    pub(crate) fn machine(machine: &str, region: &str, work: Duration) -> Self {
        let told = json!({
            "machine": machine, "region": region, "work_time": work.as_millis_f64(),
        });
        Self::json(told.to_string().into_bytes())
    }

    fn good(kind: &'static str, body: Vec<u8>) -> Self {
        Self { status: 200, kind, body: body.into(), utilization: None }
    }

    /// The head with `lines` in it, and the empty line after it.
    pub(crate) fn head(&self, lines: &str, after: After) -> String {
        let Self { status, kind, body, .. } = self;
        let mut head = String::with_capacity(HEAD_CAPACITY);
        // Writing to a string does not fail.
        let _ = write!(
            head,
            "HTTP/1.1 {status} {}\r\nContent-Type: {kind}\r\nContent-Length: {}\r\n\
             {lines}",
            reason(*status),
            body.len(),
        );
        if let Some(utilization) = self.utilization {
            let _ =
                write!(head, "endpoint-load-metrics: TEXT cpu_utilization={utilization:.2}\r\n");
        }
        head.push_str(match after {
            After::Keep => "\r\n",
            After::KeepAndTell => "Connection: keep-alive\r\n\r\n",
            After::Close => "Connection: close\r\n\r\n",
        });
        head
    }
}

/// The tutorial's answer to a health check, byte for byte but for the date: its server never ends
/// the head, it closes the connection.
pub(crate) const LENIENT_HEALTH: &str = "HTTP/1.0 200 OK\r\nServer: BaseHTTP/0.3 Python/2.7.16\r\n\
Date: Mon, 01 Jan 2018 00:00:00 GMT\r\n";

/// Enough for every head but one with a very long name.
const HEAD_CAPACITY: usize = 256;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_query_does_not_change_the_route() {
        assert_eq!(Route::of(b"/"), Some(Route::Work));
        assert_eq!(Route::of(b"/?n=1"), Some(Route::Work));
        assert_eq!(Route::of(b"/status.php?x"), Some(Route::Health));
        assert_eq!(Route::of(b"/health-check"), Some(Route::Health));
        assert_eq!(Route::of(b"/stats"), Some(Route::Stats));
        assert_eq!(Route::of(b"/health-check/"), None);
        assert_eq!(Route::of(b""), None);
    }

    #[test]
    fn a_head_says_what_the_client_needs() {
        let mut answer = PreparedResponse::content(Content::Json, Vec::new());
        assert_eq!(
            answer.head("X-Served-By: west/80\r\n", After::Keep),
            "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: 18\r\n\
             X-Served-By: west/80\r\n\r\n"
        );
        answer.utilization = Some(0.534);
        let head = answer.head("X-Served-By: west/80\r\n", After::Close);
        assert!(head.ends_with(
            "endpoint-load-metrics: TEXT cpu_utilization=0.53\r\nConnection: close\r\n\r\n"
        ));
    }
}
