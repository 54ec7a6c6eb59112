//! The dashboard: where traffic goes now, why, and how far each group is from its load line.
//!
//! Rendered here, once a second for whoever watches; the browser puts in place what it is sent and
//! knows nothing. One file each of style and script, nothing from elsewhere.

mod picture;
mod viewers;

use std::{convert::Infallible, sync::Arc, time::Duration};

use axum::{
    Router,
    body::{Body, Bytes},
    extract::State,
    http::{
        StatusCode,
        header::{CACHE_CONTROL, CONTENT_SECURITY_POLICY, CONTENT_TYPE, RETRY_AFTER},
    },
    response::{Html, IntoResponse, Response},
    routing::get,
};
use maud::{DOCTYPE, PreEscaped, html};
use tokio::time::{self, MissedTickBehavior};
use tokio_stream::{
    StreamExt as _,
    wrappers::{IntervalStream, WatchStream},
};

use super::context::{AdminContext, processor_time};
use viewers::PATIENCE;
pub(crate) use viewers::Viewers;

pub(crate) fn routes() -> Router<Arc<AdminContext>> {
    Router::new()
        .route("/", get(page))
        .route("/live", get(live))
        .route("/dashboard.css", get(async || ([(CONTENT_TYPE, "text/css")], STYLE)))
        .route("/dashboard.js", get(async || ([(CONTENT_TYPE, "text/javascript")], SCRIPT)))
}

async fn page(State(context): State<Arc<AdminContext>>) -> impl IntoResponse {
    let (content, _) = picture::content(&context).await;
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
                main id="live" { (PreEscaped(content)) }
            }
        }
    };
    ([(CONTENT_SECURITY_POLICY, POLICY)], Html(page.into_string()))
}

/// The content of the page again, each second, to whoever watches, and a sign of life between;
/// until another process serves, or somebody else is given the place. Who reads slowly gets the
/// latest content when the last is through.
async fn live(State(context): State<Arc<AdminContext>>) -> Response {
    let Some(viewer) = context.viewers.enter() else {
        let after = [(RETRY_AFTER, PATIENCE.as_secs())];
        return (StatusCode::SERVICE_UNAVAILABLE, after, BUSY).into_response();
    };
    let pictures = WatchStream::from_changes(context.pictures.subscribe()).map(Some);
    let ends = WatchStream::from_changes(context.left()).map(|()| None);
    let mut beats = time::interval(HEARTBEAT);
    beats.set_missed_tick_behavior(MissedTickBehavior::Delay);
    let beats = IntervalStream::new(beats).map(|_| Some(Bytes::from_static(ALIVE)));
    let events = pictures.merge(beats).merge(ends);
    let events = events.map_while(move |event| event.filter(|_| viewer.takes()));
    let body = Body::from_stream(events.map(Ok::<_, Infallible>));
    ([(CONTENT_TYPE, "text/event-stream"), (CACHE_CONTROL, "no-cache")], body).into_response()
}

/// Makes the content of the last look, once for all who watch; none where nobody does.
pub(crate) async fn renew(context: &Arc<AdminContext>) {
    if context.pictures.receiver_count() == 0 {
        // Nobody needs the last one any more.
        context.pictures.send_replace(Bytes::new());
        return;
    }
    let (content, took) = picture::content(context).await;
    let event = || Bytes::from(format!("data: {}\n\n", content.replace(['\n', '\r'], " ")));
    let (event, more) = processor_time(event);
    context.took(took + more);
    context.pictures.send_replace(event);
}

/// Scripts do not see comments, and an event without data is none.
const ALIVE: &[u8] = b"event: alive\ndata: -\n\n";

const BUSY: &str = "too many watch the dashboard at once\n";

/// The script takes the connection for dead after three of them.
const HEARTBEAT: Duration = Duration::from_secs(5);

const STYLE: &str = include_str!("style.css");
const SCRIPT: &str = include_str!("live.js");

/// Nothing from elsewhere; styles in attributes are the lengths of bars.
const POLICY: &str = "default-src 'none'; script-src 'self'; connect-src 'self'; img-src data:; \
                      style-src 'self' 'unsafe-inline'; frame-ancestors 'none'";

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicU32, Ordering::SeqCst};

    use axum::body::BodyDataStream;

    use super::*;
    use crate::admin::{Detail, site::tests::counted, token::Token};

    /// A context, and how many services it has asked about: there is one.
    fn context() -> (Arc<AdminContext>, Arc<AtomicU32>) {
        let (site, asked) = counted();
        let (token, _) = Token::of(None, None).unwrap();
        let context = AdminContext::new(Arc::new(site), token, Detail::default());
        (Arc::new(context), asked)
    }

    async fn watch(context: &Arc<AdminContext>) -> BodyDataStream {
        live(State(context.clone())).await.into_body().into_data_stream()
    }

    async fn next_picture(events: &mut BodyDataStream) -> Bytes {
        loop {
            let event = events.next().await.unwrap().unwrap();
            if event.starts_with(b"data: ") {
                return event;
            }
            assert_eq!(event, ALIVE);
        }
    }

    fn run<T>(test: impl Future<Output = T>) -> T {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        runtime.block_on(test)
    }

    #[test]
    fn a_look_is_drawn_once_however_many_watch_and_not_at_all_where_nobody_does() {
        run(async {
            let (context, asked) = context();
            asked.store(0, SeqCst);
            context.look();
            renew(&context).await;
            assert_eq!(asked.load(SeqCst), 1, "by the look alone");
            let mut viewers = Vec::new();
            for _ in 0..20 {
                viewers.push(watch(&context).await);
            }
            for looks in 1..4 {
                asked.store(0, SeqCst);
                context.look();
                renew(&context).await;
                let mut pictures = Vec::new();
                for viewer in &mut viewers {
                    pictures.push(next_picture(viewer).await);
                }
                assert_eq!(asked.load(SeqCst), 2, "by look {looks}, and once to draw it");
                assert!(pictures[0].starts_with(b"data: <header>"), "{:?}", pictures[0]);
                let shared = pictures.iter().all(|it| it.as_ptr() == pictures[0].as_ptr());
                assert!(shared, "each has a copy of its own");
            }
            drop(viewers);
            renew(&context).await;
            assert!(context.pictures.borrow().is_empty(), "nobody watches, and yet it is kept");
        });
    }

    #[test]
    fn who_has_read_nothing_for_a_while_gets_the_latest_picture_and_none_of_those_before() {
        run(async {
            let (context, _) = context();
            let mut slow = watch(&context).await;
            for _ in 0..3 {
                context.look();
                renew(&context).await;
            }
            let latest = context.pictures.borrow().clone();
            assert_eq!(next_picture(&mut slow).await.as_ptr(), latest.as_ptr());
        });
    }

    #[test]
    fn others_have_a_turn_before_a_picture_is_made() {
        run(async {
            let (context, asked) = context();
            let _viewer = watch(&context).await;
            asked.store(0, SeqCst);
            let other = tokio::spawn(async {});
            renew(&context).await;
            assert_eq!(asked.load(SeqCst), 1);
            assert!(other.is_finished(), "it had to wait for the whole picture");
        });
    }
}
