//! Endpoints for monitoring: `/metrics`, `/healthz`, `/readyz`.

use std::{sync::Arc, time::Duration};

use axum::{
    Router,
    extract::State,
    http::{
        HeaderMap, StatusCode,
        header::{ACCEPT, CONTENT_TYPE, RETRY_AFTER},
    },
    response::{IntoResponse, Response},
    routing::get,
};
use loadline_core::state::Part;
use tokio::time::timeout;

use super::{
    context::AdminContext,
    metrics::{self, Format, PATIENCE, Pieces},
};

pub(crate) fn routes() -> Router<Arc<AdminContext>> {
    Router::new()
        .route("/metrics", get(exposition))
        .route("/healthz", get(async || "alive\n"))
        .route("/readyz", get(readiness))
}

/// The metrics, or 503 while as many read them as may at once.
async fn exposition(State(context): State<Arc<AdminContext>>, headers: HeaderMap) -> Response {
    let accepted = headers.get_all(ACCEPT).iter().filter_map(|value| value.to_str().ok());
    let format = Format::preferred(accepted);
    // Nobody closes it.
    let Ok(turn) = timeout(TURN, context.scrapes.clone().acquire_owned()).await else {
        let after = [(RETRY_AFTER, PATIENCE.as_secs())];
        return (StatusCode::SERVICE_UNAVAILABLE, after, BUSY).into_response();
    };
    let body = Pieces::body(move |mut to| {
        let _turn = turn;
        metrics::write(context.survey(), context.detail, format, &mut to)
    });
    ([(CONTENT_TYPE, format.content_type())], body).into_response()
}

/// Ready where every service has a server that may take traffic; not while draining, so that
/// whoever stands before this edge sends elsewhere.
async fn readiness(State(context): State<Arc<AdminContext>>) -> (StatusCode, String) {
    let state = context.site.state(Part::Service);
    if state.is_ready() {
        return (StatusCode::OK, "ready\n".to_owned());
    }
    let closed = state.services.iter().filter(|service| !service.ready);
    let mut reasons: Vec<String> =
        closed.map(|it| format!("no server of `{}` may take traffic", it.name)).collect();
    reasons.extend(state.draining.then(|| "draining".to_owned()));
    (StatusCode::SERVICE_UNAVAILABLE, reasons.join("\n") + "\n")
}

/// For one of those who read the metrics to end.
const TURN: Duration = Duration::from_secs(1);

const BUSY: &str = "too many read the metrics at once\n";
