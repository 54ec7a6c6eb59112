//! The JSON API: the state to read, changes to make. `openapi` describes it.

use std::{error::Error, net::SocketAddr, sync::Arc};

use axum::{
    Json, Router,
    extract::{
        FromRequestParts, Path, Query, State,
        rejection::{JsonRejection, QueryRejection},
    },
    http::{
        StatusCode, Uri,
        header::{CONTENT_TYPE, WWW_AUTHENTICATE},
        request::Parts,
    },
    response::{IntoResponse, Response},
    routing::{get, post},
};
use loadline_core::{
    decide::overrides::{Mode, Override, OverrideError, Setting},
    fleet::{Fleet, ServerAddress, ServerAddressError},
    state::{self, Flow, FlowFilter},
    time::Duration,
};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize, de::DeserializeOwned};

use crate::{
    Page,
    value::number::{Numeric as _, Scaler},
};

use super::{
    cache, context::AdminContext, history::Sample, object::Object, openapi::openapi,
    site::ChangeError, whole::Whole,
};

pub(crate) fn routes() -> Router<Arc<AdminContext>> {
    Router::new()
        .route("/openapi.json", get(description))
        .route("/api/state", get(whole))
        .route("/api/services/{service}", get(service).post(change_service))
        .route("/api/services/{service}/history", get(history))
        .route("/api/flows", get(flows))
        .merge(cache::routes())
        .route("/api/changes", get(changes))
        .route("/api/changes.toml", get(lines))
        .route("/api/services/{service}/groups/{group}", post(change_group))
        .route("/api/services/{service}/groups/{group}/servers/{server}", post(change_server))
        .route("/api/reload", post(reload))
}

/// What is answered where there is nothing.
pub(super) async fn absent(uri: Uri) -> Refused {
    refused(StatusCode::NOT_FOUND, format!("there is no `{}`; see /openapi.json", uri.path()))
}

async fn description() -> impl IntoResponse {
    ([(CONTENT_TYPE, "application/json")], Page::OpenApi.json_or(openapi))
}

/// Change of a service.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct ServiceChange {
    /// Whether the service is in maintenance.
    maintenance: bool,
}

/// Change of a group.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct GroupChange {
    /// Scaler: factor of the group's capacity; 0, which drains it, or 0.1 to 1.
    #[schemars(range(min = 0.0, max = 1.0))]
    scaler: f64,
}

/// Change of a server: weight, mode or both.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct ServerChange {
    /// Weight, 0 to 1000: its share of the group's traffic; 0 drains it.
    #[schemars(with = "Option<u32>", range(max = 1000))]
    weight: Option<Whole>,
    /// Mode of the server.
    mode: Option<Mode>,
    /// With the mode `drain`: seconds until requests still in flight are cut, at most 86,400.
    /// Default: `drain_timeout` of the service.
    #[schemars(range(min = 0.0, max = 86_400.0))]
    deadline_s: Option<f64>,
}

/// Changes in force until the next reload.
#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct Changes {
    /// Changes by service, group and server.
    changes: Vec<Change>,
}

/// A change.
#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct Change {
    /// Name of the service.
    service: String,
    /// Name of the group; absent for a change of the service.
    #[serde(skip_serializing_if = "Option::is_none")]
    group: Option<String>,
    /// Whether the service is in maintenance.
    #[serde(skip_serializing_if = "Option::is_none")]
    maintenance: Option<bool>,
    /// Address of the server; absent for a change of the group or service.
    #[serde(skip_serializing_if = "Option::is_none")]
    server: Option<String>,
    /// New scaler of the group.
    #[serde(skip_serializing_if = "Option::is_none")]
    scaler: Option<f64>,
    /// New weight of the server.
    #[serde(skip_serializing_if = "Option::is_none")]
    weight: Option<u32>,
    /// New mode of the server.
    #[serde(skip_serializing_if = "Option::is_none")]
    mode: Option<Mode>,
    /// Seconds from the start of the drain until requests in flight are cut.
    #[serde(skip_serializing_if = "Option::is_none")]
    deadline_s: Option<f64>,
}

/// The last five minutes of a service.
#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct Samples {
    /// One sample for each second, the oldest first.
    samples: Vec<Sample>,
}

/// Remembered flows and NAT connections of packet forwarding.
#[derive(Debug, Default, Serialize, JsonSchema)]
pub(crate) struct Flows {
    /// Flows that match the filter, by client.
    flows: Vec<Flow>,
    /// Number of matching flows that are left out, beyond the limit.
    omitted: usize,
}

/// An error.
#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct Failure {
    /// Message for people.
    error: String,
}

impl Changes {
    fn of(context: &AdminContext) -> Json<Self> {
        Json(Self { changes: context.site.changes().into_iter().map(Change::of).collect() })
    }
}

impl Change {
    fn of(change: Override) -> Self {
        let (server, scaler, weight, mode, limit) = match change.setting {
            Setting::Scaler(scaler) => (None, Some(scaler.as_f64()), None, None, None),
            Setting::Weight(server, weight) => (Some(server), None, Some(weight), None, None),
            Setting::Mode(server, mode) => (Some(server), None, None, Some(mode), None),
            Setting::Drain(server, limit) => {
                (Some(server), None, None, Some(Mode::Drain), Some(limit))
            }
            Setting::Maintenance(_) => (None, None, None, None, None),
        };
        let server = server.map(|server| ServerAddress(server).to_string());
        let deadline_s = limit.map(Duration::as_secs_f64);
        let maintenance = match change.setting {
            Setting::Maintenance(on) => Some(on),
            _ => None,
        };
        let Override { service, group, .. } = change;
        let group = (!group.is_empty()).then_some(group);
        Self { service, group, maintenance, server, scaler, weight, mode, deadline_s }
    }
}

/// A response that says what was wrong.
pub(super) type Refused = (StatusCode, Json<Failure>);

/// Proof that the request showed the token.
pub(super) struct Authorized;

impl FromRequestParts<Arc<AdminContext>> for Authorized {
    type Rejection = Response;

    async fn from_request_parts(
        parts: &mut Parts,
        context: &Arc<AdminContext>,
    ) -> Result<Self, Self::Rejection> {
        if context.token.is_shown_by(&parts.headers) {
            return Ok(Self);
        }
        let error = "changes need the token: Authorization: Bearer TOKEN";
        let failure = refused(StatusCode::UNAUTHORIZED, error);
        Err(([(WWW_AUTHENTICATE, "Bearer")], failure).into_response())
    }
}

async fn whole(State(context): State<Arc<AdminContext>>) -> Json<state::State> {
    Json(context.state())
}

async fn service(
    State(context): State<Arc<AdminContext>>,
    Names(name): Names<String>,
) -> Result<Json<state::Service>, Refused> {
    let absent = || refused(StatusCode::NOT_FOUND, format!("there is no service `{name}`"));
    context.service(&name).map(Json).ok_or_else(absent)
}

async fn history(
    State(context): State<Arc<AdminContext>>,
    Names(name): Names<String>,
) -> Result<Json<Samples>, Refused> {
    if context.site.file().services.iter().any(|service| service.name == name) {
        // None yet where the service is new.
        return Ok(Json(Samples { samples: context.samples(&name) }));
    }
    Err(refused(StatusCode::NOT_FOUND, format!("there is no service `{name}`")))
}

async fn flows(
    State(context): State<Arc<AdminContext>>,
    filter: Result<Query<FlowFilter>, QueryRejection>,
) -> Result<Json<Flows>, Refused> {
    let failed = |error: String| refused(StatusCode::UNPROCESSABLE_ENTITY, error);
    let filter = query(filter)?;
    if let Some(name) = &filter.service
        && context.site.file().services.iter().all(|service| service.name != *name)
    {
        return Err(failed(format!("there is no service `{name}`")));
    }
    // There may be hundreds of thousands, read one by one.
    let site = context.site.clone();
    let flows = tokio::task::spawn_blocking(move || site.flows()).await;
    let mut flows = flows.map_err(|error| failed(error.to_string()))?.map_err(failed)?;
    flows.retain(|flow| filter.wants(flow));
    flows.sort_by(|a, b| (&a.client, &a.frontend).cmp(&(&b.client, &b.frontend)));
    let told = filter.limit.unwrap_or(FLOWS_MAX).min(flows.len());
    let omitted = flows.len() - told;
    flows.truncate(told);
    Ok(Json(Flows { flows, omitted }))
}

async fn changes(State(context): State<Arc<AdminContext>>) -> Json<Changes> {
    Changes::of(&context)
}

/// The changes as lines for the file.
async fn lines(State(context): State<Arc<AdminContext>>) -> String {
    lines_of(&context.site.changes(), &context.site.file())
}

fn lines_of(changes: &[Override], fleet: &Fleet) -> String {
    let counts = |change: &&Override| !changes.iter().any(|it| change.yields_to(it, fleet));
    let line = |change: &Override| {
        let other = change.of_store(fleet).or_else(|| of_discovered(change, fleet));
        let mut line = other.unwrap_or_else(|| change.to_string());
        if let Some(weight) = weight_of_return(change, changes, fleet) {
            let is_comment = line.lines().next_back().is_some_and(|last| last.contains('#'));
            line += if is_comment { "; " } else { "  # " };
            line += &format!("`weight = {weight}` once it is active again");
        }
        line + "\n"
    };
    changes.iter().filter(counts).map(line).collect()
}

/// The weight that was given to a server which is out by this change.
fn weight_of_return(change: &Override, changes: &[Override], fleet: &Fleet) -> Option<u32> {
    changes.iter().find_map(|it| match it.setting {
        Setting::Weight(_, weight) if it.yields_to(change, fleet) => Some(weight),
        _ => None,
    })
}

/// What is said of the weight of a server that the file does not name, since its group discovers
/// its servers.
fn of_discovered(change: &Override, fleet: &Fleet) -> Option<String> {
    let (server, weight) = match change.setting {
        Setting::Weight(server, weight) => (server, weight),
        Setting::Mode(server, Mode::Drain | Mode::Maintenance) | Setting::Drain(server, _) => {
            (server, 0)
        }
        Setting::Mode(_, Mode::Active) | Setting::Scaler(_) | Setting::Maintenance(_) => {
            return None;
        }
    };
    let Override { service, group, .. } = change;
    let services = fleet.services.iter().filter(|it| it.name == *service);
    let mut groups = services.flat_map(|it| &it.groups).filter(|it| it.name == *group);
    groups.find(|it| it.discovery.is_some())?;
    let server = ServerAddress(server).to_string();
    Some(format!(
        "# service.{service}, group {group}: weight = {weight} of {server:?} is for the list of \
         its `discover`"
    ))
}

async fn change_service(
    _: Authorized,
    State(context): State<Arc<AdminContext>>,
    Names(service): Names<String>,
    change: Result<Json<Object<ServiceChange>>, JsonRejection>,
) -> Result<Json<Changes>, Refused> {
    let setting = Setting::Maintenance(body(change)?.maintenance);
    set(&context, Override { service, group: String::new(), setting })?;
    context.site.settled().await;
    Ok(Changes::of(&context))
}

async fn change_group(
    _: Authorized,
    State(context): State<Arc<AdminContext>>,
    Names((service, group)): Names<(String, String)>,
    change: Result<Json<Object<GroupChange>>, JsonRejection>,
) -> Result<Json<Changes>, Refused> {
    let setting = scaler(body(change)?.scaler).map_err(|error| of_override(&error))?;
    set(&context, Override { service, group, setting })?;
    context.site.settled().await;
    Ok(Changes::of(&context))
}

/// The scaler that a file may have: one that would be rounded to zero must not drain a group.
fn scaler(number: f64) -> Result<Setting, OverrideError> {
    let Scaler(scaler) = Scaler::read(number).ok_or(OverrideError::Scaler)?;
    Ok(Setting::Scaler(scaler))
}

async fn change_server(
    _: Authorized,
    State(context): State<Arc<AdminContext>>,
    Names((service, group, server)): Names<(String, String, String)>,
    change: Result<Json<Object<ServerChange>>, JsonRejection>,
) -> Result<Json<Changes>, Refused> {
    let change = body(change)?;
    let no_address = |error: ServerAddressError| refused(StatusCode::NOT_FOUND, error.to_string());
    let ServerAddress(server) = server.parse().map_err(no_address)?;
    let weight = change.weight.map(|Whole(weight)| Setting::Weight(server, weight));
    let mode = mode(&change, server)?;
    if weight.is_none() && mode.is_none() {
        return Err(refused(StatusCode::UNPROCESSABLE_ENTITY, "say `weight`, `mode` or both"));
    }
    for setting in weight.into_iter().chain(mode) {
        set(&context, Override { service: service.clone(), group: group.clone(), setting })?;
    }
    context.site.settled().await;
    Ok(Changes::of(&context))
}

fn mode(change: &ServerChange, server: SocketAddr) -> Result<Option<Setting>, Refused> {
    let Some(seconds) = change.deadline_s else {
        return Ok(change.mode.map(|mode| Setting::Mode(server, mode)));
    };
    let wrong = |error| Err(refused(StatusCode::UNPROCESSABLE_ENTITY, error));
    if change.mode != Some(Mode::Drain) {
        return wrong("`deadline_s` is for the mode `drain`");
    }
    if !(0.0..=DEADLINE_MAX_S).contains(&seconds) {
        return wrong("a `deadline_s` is from 0, which cuts at once, to 86400");
    }
    Ok(Some(Setting::Drain(server, Duration::from_secs(1).scale(seconds))))
}

async fn reload(
    _: Authorized,
    State(context): State<Arc<AdminContext>>,
) -> Result<Json<Changes>, Refused> {
    // The file is read, and names in it may be asked of a name server: not on this task's time.
    let site = context.site.clone();
    let reloaded = tokio::task::spawn_blocking(move || site.reload()).await;
    let failed = |error: String| match context.site.is_handed_over() {
        true => refused(StatusCode::SERVICE_UNAVAILABLE, error),
        false => refused(StatusCode::UNPROCESSABLE_ENTITY, error),
    };
    reloaded.map_err(|error| failed(error.to_string()))?.map_err(failed)?;
    tracing::info!("reloaded by the admin interface");
    context.site.settled().await;
    Ok(Changes::of(&context))
}

/// How a kind of number is called.
const NUMBER: (&str, &str) = ("expected f64", "expected a number");

/// As many as people look through.
const FLOWS_MAX: usize = 1_000;

/// A day.
const DEADLINE_MAX_S: f64 = 86_400.0;

fn set(context: &AdminContext, change: Override) -> Result<(), Refused> {
    let of_store = change.of_store(&context.site.file());
    let told = of_store.unwrap_or_else(|| change.to_string()).replace('\n', " ");
    context.site.change(change).map_err(|error| of_change(&error))?;
    tracing::info!(change = %told, "changed by the admin interface");
    Ok(())
}

/// The names in a path.
struct Names<T>(T);

impl<T: DeserializeOwned + Send> FromRequestParts<Arc<AdminContext>> for Names<T> {
    type Rejection = Refused;

    async fn from_request_parts(
        parts: &mut Parts,
        context: &Arc<AdminContext>,
    ) -> Result<Self, Self::Rejection> {
        let names = Path::from_request_parts(parts, context).await;
        let Path(names) = names.map_err(|error| refused(error.status(), error.body_text()))?;
        Ok(Self(names))
    }
}

pub(super) fn body<T>(body: Result<Json<Object<T>>, JsonRejection>) -> Result<T, Refused> {
    let body = body.map_err(|error| unreadable("the body", &error, error.body_text()));
    let Json(Object(body)) = body?;
    Ok(body)
}

pub(super) fn query<T>(query: Result<Query<T>, QueryRejection>) -> Result<T, Refused> {
    let Query(query) = query.map_err(|error| unreadable("the query", &error, error.body_text()))?;
    Ok(query)
}

/// Says what is wrong with a part of a request, where that is known.
fn unreadable(part: &str, error: &dyn Error, text: String) -> Refused {
    let error = error.source().map_or(text, |cause| format!("{part}: {cause}"));
    refused(StatusCode::UNPROCESSABLE_ENTITY, error.replace(NUMBER.0, NUMBER.1))
}

fn of_change(error: &ChangeError) -> Refused {
    match error {
        ChangeError::Override(error) => of_override(error),
        ChangeError::HandedOver => refused(StatusCode::SERVICE_UNAVAILABLE, error.to_string()),
    }
}

fn of_override(error: &OverrideError) -> Refused {
    let status = match error {
        OverrideError::Service(_) | OverrideError::Group(..) | OverrideError::Server(..) => {
            StatusCode::NOT_FOUND
        }
        OverrideError::Scaler | OverrideError::Weight => StatusCode::UNPROCESSABLE_ENTITY,
    };
    refused(status, error.to_string())
}

pub(super) fn refused(status: StatusCode, error: impl Into<String>) -> Refused {
    (status, Json(Failure { error: error.into() }))
}

#[cfg(test)]
mod tests {
    use loadline_core::units::Ratio;

    use super::*;

    #[test]
    fn the_lines_of_a_drained_server_tell_the_weight_that_it_was_given() {
        let text = "[[listener]]\nbind = \"127.0.0.1:0\"\nservice = \"web\"\n\
                    [[service.web.group]]\nname = \"near\"\nservers = [\"127.0.0.1:1\"]\n";
        let fleet = crate::parse_with("a", text, &crate::LocalOnly).unwrap().fleet;
        let server = fleet.services[0].groups[0].servers[0].address;
        let change = |setting| Override { service: "web".into(), group: "near".into(), setting };
        let weight = change(Setting::Weight(server, 7));
        for (out, ends) in [
            (
                Setting::Mode(server, Mode::Drain),
                "\nweight = 0  # `weight = 7` once it is active again",
            ),
            (
                Setting::Drain(server, Duration::from_secs(5)),
                "of the service; `weight = 7` once it is active again",
            ),
        ] {
            let told = lines_of(&[weight.clone(), change(out)], &fleet);
            assert!(told.ends_with(&format!("{ends}\n")), "{told}");
            assert_eq!(told.matches("\nweight = ").count(), 1, "{told}");
            assert!(!lines_of(&[change(out)], &fleet).contains("active again"));
        }
    }

    #[test]
    fn a_scaler_that_would_be_rounded_to_zero_drains_no_group() {
        for number in [1e-300, 1e-7, 0.09, -1.0, 1.5] {
            assert!(scaler(number).is_err(), "{number}");
        }
        for (number, ratio) in [(0.0, Ratio::ZERO), (0.5, Ratio::percent(50))] {
            let Ok(Setting::Scaler(set)) = scaler(number) else { panic!("{number} is right") };
            assert_eq!(set, ratio);
        }
    }
}
