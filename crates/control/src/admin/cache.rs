//! The cache in the API: its contents, and purges.

use std::sync::Arc;

use axum::{
    Json, Router,
    extract::{
        Query, State,
        rejection::{JsonRejection, QueryRejection},
    },
    http::StatusCode,
    routing::{get, post},
};
use loadline_core::state::{CachedObject, Purge, Purged};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use tokio::task::spawn_blocking;

use super::{
    api::{Authorized, Refused, body, query, refused},
    context::AdminContext,
    object::Object,
};

pub(super) fn routes() -> Router<Arc<AdminContext>> {
    Router::new().route("/api/cache/objects", get(objects)).route("/api/cache/purge", post(purge))
}

/// Stored responses, the most used first.
#[derive(Debug, Default, Serialize, JsonSchema)]
pub(super) struct CachedObjects {
    /// The responses, at most `limit`.
    objects: Vec<CachedObject>,
}

/// Number of responses to list.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct Limit {
    /// Maximum number of responses, up to 10,000; 20 if omitted.
    limit: Option<usize>,
}

async fn objects(
    State(context): State<Arc<AdminContext>>,
    limit: Result<Query<Limit>, QueryRejection>,
) -> Result<Json<CachedObjects>, Refused> {
    let Limit { limit } = query(limit)?;
    let most = limit.unwrap_or(OBJECTS).min(OBJECTS_MAX);
    Ok(Json(CachedObjects { objects: context.site.cached(most) }))
}

async fn purge(
    _: Authorized,
    State(context): State<Arc<AdminContext>>,
    purge: Result<Json<Object<Purge>>, JsonRejection>,
) -> Result<Json<Purged>, Refused> {
    let purge = body(purge)?;
    if !purge.is_clear() {
        let error = "say one of `url`, `prefix` and `tag`";
        return Err(refused(StatusCode::UNPROCESSABLE_ENTITY, error));
    }
    if purge.normalized().is_none() {
        return Err(refused(StatusCode::UNPROCESSABLE_ENTITY, Purge::NO_URL));
    }
    // The disk may take its time to record it.
    let (site, given) = (context.clone(), purge.clone());
    let purged = spawn_blocking(move || site.site.purge(&given)).await;
    let purged =
        purged.map_err(|error| refused(StatusCode::INTERNAL_SERVER_ERROR, error.to_string()))?;
    tracing::info!(?purge, objects = purged.objects, "purged by the admin interface");
    match &purged.unrecorded {
        None => Ok(Json(purged)),
        Some(why) => {
            let error = format!(
                "purged, {} in memory, but not recorded on disk, where a restart could undo it: \
                 {why}",
                purged.objects
            );
            Err(refused(StatusCode::INTERNAL_SERVER_ERROR, error))
        }
    }
}

/// As many as people look through.
const OBJECTS: usize = 20;

/// As many as one answer may have.
const OBJECTS_MAX: usize = 10_000;
