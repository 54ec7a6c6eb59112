//! The dashboard: where traffic goes now, why, and how far each group is from its load line.
//!
//! Rendered here, once a second for whoever watches; the browser puts in place what it is sent and
//! knows nothing. One file each of style and script, nothing from elsewhere.

mod picture;

use std::{convert::Infallible, sync::Arc, time::Duration};

use axum::{
    Router,
    extract::State,
    http::header::{CONTENT_SECURITY_POLICY, CONTENT_TYPE},
    response::{Html, IntoResponse, Sse, sse::Event},
    routing::get,
};
use maud::{DOCTYPE, html};
use tokio::time::{self, MissedTickBehavior};
use tokio_stream::{
    Stream, StreamExt as _,
    wrappers::{IntervalStream, WatchStream},
};

use super::context::{AdminContext, processor_time};

pub(crate) fn routes() -> Router<Arc<AdminContext>> {
    Router::new()
        .route("/", get(page))
        .route("/live", get(live))
        .route("/dashboard.css", get(async || ([(CONTENT_TYPE, "text/css")], STYLE)))
        .route("/dashboard.js", get(async || ([(CONTENT_TYPE, "text/javascript")], SCRIPT)))
}

async fn page(State(context): State<Arc<AdminContext>>) -> impl IntoResponse {
    let page = html! {
        (DOCTYPE)
        html lang="en" {
            head {
                meta charset="utf-8";
                meta name="viewport" content="width=device-width, initial-scale=1";
                meta name="color-scheme" content="light dark";
                title { "loadline" }
                link rel="stylesheet" href="/dashboard.css";
                link rel="icon" href="data:,";
                script src="/dashboard.js" defer {}
            }
            body {
                div class="controls" {
                    p id="stale" role="status" hidden { "No connection: these figures are old" }
                    button id="pause" type="button" aria-pressed="false" { "Pause" }
                }
                main id="live" { (picture::content(&context)) }
            }
        }
    };
    ([(CONTENT_SECURITY_POLICY, POLICY)], Html(page.into_string()))
}

/// The content of the page again, each second, to whoever watches, and a sign of life between;
/// until another process serves.
async fn live(
    State(context): State<Arc<AdminContext>>,
) -> Sse<impl Stream<Item = Result<Event, Infallible>>> {
    let looks = WatchStream::from_changes(context.looks());
    let ends = WatchStream::from_changes(context.left()).map(|()| None);
    let events = looks.map(move |()| {
        let (content, took) = processor_time(|| picture::content(&context).into_string());
        context.took(took);
        Ok(Event::default().data(content.replace(['\n', '\r'], " ")))
    });
    let mut beats = time::interval(HEARTBEAT);
    beats.set_missed_tick_behavior(MissedTickBehavior::Delay);
    // Scripts do not see comments, and an event without data is none.
    let beats = IntervalStream::new(beats).map(|_| Ok(Event::default().event("alive").data("-")));
    Sse::new(events.merge(beats).map(Some).merge(ends).map_while(|event| event))
}

/// The script takes the connection for dead after three of them.
const HEARTBEAT: Duration = Duration::from_secs(5);

const STYLE: &str = include_str!("style.css");
const SCRIPT: &str = include_str!("live.js");

/// Nothing from elsewhere; styles in attributes are the lengths of bars.
const POLICY: &str = "default-src 'none'; script-src 'self'; connect-src 'self'; img-src data:; \
                      style-src 'self' 'unsafe-inline'; frame-ancestors 'none'";
