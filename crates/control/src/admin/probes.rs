//! What machines ask again and again: metrics, and whether the process lives and is ready.

use std::sync::Arc;

use axum::{
    Router,
    extract::State,
    http::{StatusCode, header::CONTENT_TYPE},
    response::IntoResponse,
    routing::get,
};

use super::{desk::Desk, metrics};

pub(crate) fn routes() -> Router<Arc<Desk>> {
    Router::new()
        .route("/metrics", get(exposition))
        .route("/healthz", get(async || "alive\n"))
        .route("/readyz", get(readiness))
}

async fn exposition(State(desk): State<Arc<Desk>>) -> impl IntoResponse {
    ([(CONTENT_TYPE, metrics::CONTENT_TYPE)], metrics::exposition(desk.state()))
}

/// Ready where every service has a server that may take traffic; not while draining, so that
/// whoever stands before this edge sends elsewhere.
async fn readiness(State(desk): State<Arc<Desk>>) -> (StatusCode, String) {
    let state = desk.site.state();
    if state.is_ready() {
        return (StatusCode::OK, "ready\n".to_owned());
    }
    let closed = state.services.iter().filter(|service| !service.ready);
    let mut reasons: Vec<String> =
        closed.map(|it| format!("no server of `{}` may take traffic", it.name)).collect();
    reasons.extend(state.draining.then(|| "draining".to_owned()));
    (StatusCode::SERVICE_UNAVAILABLE, reasons.join("\n") + "\n")
}
