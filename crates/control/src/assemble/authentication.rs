//! Authentication: that of a listener, and that of a route instead.

use std::sync::Arc;

use loadline_core::{
    fleet::Listener,
    rules::{Authentication, HeaderEdits},
};
use loadline_spanned::{At, Problems, Span};

use super::{basic_auth::basic_auth, forward_auth::forward_auth, jwt::jwt, listener::Services};
use crate::{file, value::either::TableOrFalse};

/// The authentication of a route: its own, else that of its listener. `false` switches off one
/// kind, and leaves another kind of the listener in force.
pub(super) fn of_route(
    route: &file::Route,
    listener: Option<&Authentication>,
    services: &Services<'_>,
    problems: &mut Problems,
) -> Option<Authentication> {
    let basic = table(route.basic_auth.at());
    let jwt_table = table(route.jwt.at());
    let forward = table(route.forward_auth.at());
    let places = [basic.map(|it| it.1), jwt_table.map(|it| it.1), forward.map(|it| it.1)];
    refuse_two(places, problems);
    own(basic, jwt_table, forward, services, problems).or_else(|| {
        let stays = |of_listener: &&Authentication| match of_listener {
            Authentication::Basic(_) => !route.basic_auth.given(),
            Authentication::Jwt(_) => !route.jwt.given(),
            Authentication::Forward(_) => !route.forward_auth.given(),
        };
        let stays = listener.filter(stays)?;
        warn_of_other(route, stays, problems);
        Some(stays.clone())
    })
}

/// Warns where a route switches off another kind than that of its listener, which stays.
fn warn_of_other(route: &file::Route, stays: &Authentication, problems: &mut Problems) {
    let kept = match stays {
        Authentication::Basic(_) => "basic_auth",
        Authentication::Jwt(_) => "jwt",
        Authentication::Forward(_) => "forward_auth",
    };
    let off = [off(route.basic_auth.at()), off(route.jwt.at()), off(route.forward_auth.at())];
    for (key, span) in KEYS.into_iter().zip(off).filter_map(|(key, span)| Some((key, span?))) {
        let message = format!("`{key} = false`, but the listener has `{kept}`, which stays");
        let help = format!("say {kept} = false to let everybody in, or leave `{key}` out");
        problems.warning(span, message, "no effect", help);
    }
}

/// What one of these tables says.
fn own(
    basic: Option<(&file::BasicAuth, &Span)>,
    token: Option<(&file::Jwt, &Span)>,
    forward: Option<(&file::ForwardAuth, &Span)>,
    services: &Services<'_>,
    problems: &mut Problems,
) -> Option<Authentication> {
    if let Some(given) = forward {
        let auth = forward_auth(given, services, problems);
        return Some(Authentication::Forward(Arc::new(auth)));
    }
    if let Some(given) = token {
        return Some(Authentication::Jwt(Arc::new(jwt(given, problems))));
    }
    basic.map(|given| Authentication::Basic(Arc::new(basic_auth(given, problems))))
}

/// The authentication of a listener.
pub(super) fn of_listener(
    given: &file::Listener,
    listener: &Listener,
    services: &Services<'_>,
    problems: &mut Problems,
) -> Option<Authentication> {
    let basic = given.basic_auth.at().map(|at| (&at.value, &at.span));
    let jwt = given.jwt.at().map(|at| (&at.value, &at.span));
    let forward = given.forward_auth.at().map(|at| (&at.value, &at.span));
    let places = [basic.map(|it| it.1), jwt.map(|it| it.1), forward.map(|it| it.1)];
    for (key, span) in KEYS.into_iter().zip(places).filter_map(|(key, span)| Some((key, span?))) {
        if !listener.protocol.is_http() {
            let help = format!("leave `{key}` out, or say protocol = \"http\"");
            let message = format!("`{key}` on a listener that does not read HTTP");
            problems.error(span, message, "never used", help);
        }
    }
    refuse_two(places, problems);
    own(basic, jwt, forward, services, problems)
}

fn table<T>(given: Option<&At<TableOrFalse<T>>>) -> Option<(&T, &Span)> {
    match given? {
        At { value: TableOrFalse::Table(table), span } => Some((table, span)),
        At { value: TableOrFalse::False, .. } => None,
    }
}

fn off<T>(given: Option<&At<TableOrFalse<T>>>) -> Option<&Span> {
    match given? {
        At { value: TableOrFalse::False, span } => Some(span),
        At { value: TableOrFalse::Table(_), .. } => None,
    }
}

/// The keys by which a file says who may ask.
const KEYS: [&str; 3] = ["basic_auth", "jwt", "forward_auth"];

/// Refuses more than one kind of authentication.
fn refuse_two(places: [Option<&Span>; 3], problems: &mut Problems) {
    let mut given = KEYS.into_iter().zip(places).filter_map(|(key, span)| Some((key, span?)));
    let Some((first, _)) = given.next() else { return };
    for (second, span) in given {
        let message = format!("`{first}` and `{second}` at once");
        let help = "leave one of them out, or give each a route of its own".to_owned();
        problems.error(span, message, "not both", help);
    }
}

/// Refuses a cache for requests that tell servers the user: others get its responses.
pub(super) fn refuse_cached_user(
    route: &file::Route,
    (request, own): (&HeaderEdits, Option<&Authentication>),
    problems: &mut Problems,
) {
    let Some(At { span, .. }) = route.cache.at() else { return };
    let help = if request.fields().any(|(_, value)| value.tells_user()) {
        "leave `cache` out of this route, or `$user` and `$jwt_claim_...`"
    } else if let Some(Authentication::Forward(auth)) = own
        && !auth.copy_headers.is_empty()
    {
        "leave `cache` out of this route, or `copy_headers`"
    } else {
        return;
    };
    let message = "servers are told the user, and others get what is cached".to_owned();
    problems.error(span, message, "cached for everybody", help.to_owned());
}

/// The default name of the protected area.
pub(super) const REALM: &str = "loadline";
