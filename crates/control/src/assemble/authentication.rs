//! Who may ask: what a listener says of it, and what a route says instead.

use std::sync::Arc;

use loadline_core::{
    fleet::Listener,
    rules::{Authentication, HeaderEdits},
};
use loadline_spanned::{At, Problems, Span};

use super::{basic_auth::basic_auth, jwt::jwt};
use crate::{file, value::either::TableOrFalse};

/// Who may ask, by what a route says and what its listener says. `false` is about one way to show
/// it, and leaves the other one of the listener in force.
pub(super) fn of_route(
    route: &file::Route,
    listener: Option<&Authentication>,
    problems: &mut Problems,
) -> Option<Authentication> {
    let basic = table(route.basic_auth.at());
    let jwt_table = table(route.jwt.at());
    refuse_both(basic.map(|it| it.1), jwt_table.map(|it| it.1), problems);
    if let Some(given) = jwt_table {
        return Some(Authentication::Jwt(Arc::new(jwt(given, problems))));
    }
    if let Some(given) = basic {
        return Some(Authentication::Basic(Arc::new(basic_auth(given, problems))));
    }
    let stays = |of_listener: &&Authentication| match of_listener {
        Authentication::Basic(_) => !route.basic_auth.given(),
        Authentication::Jwt(_) => !route.jwt.given(),
    };
    listener.filter(stays).cloned()
}

/// Who may ask a listener.
pub(super) fn of_listener(
    given: &file::Listener,
    listener: &Listener,
    problems: &mut Problems,
) -> Option<Authentication> {
    let places = [
        ("basic_auth", given.basic_auth.at().map(|at| &at.span)),
        ("jwt", given.jwt.at().map(|at| &at.span)),
    ];
    for (key, span) in places.into_iter().filter_map(|(key, span)| Some((key, span?))) {
        if !listener.protocol.is_http() {
            let help = format!("leave `{key}` out, or say protocol = \"http\"");
            let message = format!("`{key}` on a listener that does not read HTTP");
            problems.error(span, message, "never used", help);
        }
    }
    refuse_both(places[0].1, places[1].1, problems);
    if let Some(At { value, span }) = given.jwt.at() {
        return Some(Authentication::Jwt(Arc::new(jwt((value, span), problems))));
    }
    let At { value, span } = given.basic_auth.at()?;
    Some(Authentication::Basic(Arc::new(basic_auth((value, span), problems))))
}

fn table<T>(given: Option<&At<TableOrFalse<T>>>) -> Option<(&T, &Span)> {
    match given? {
        At { value: TableOrFalse::Table(table), span } => Some((table, span)),
        At { value: TableOrFalse::False, .. } => None,
    }
}

/// A request has one `Authorization`.
fn refuse_both(basic: Option<&Span>, jwt: Option<&Span>, problems: &mut Problems) {
    if let (Some(_), Some(span)) = (basic, jwt) {
        let message = "`basic_auth` and `jwt` at once".to_owned();
        let help = "leave one of them out, or give each a route of its own".to_owned();
        problems.error(span, message, "not both", help);
    }
}

/// What is cached is for everybody who may ask, so that it must not be made for one of them.
pub(super) fn refuse_cached_user(
    route: &file::Route,
    request: &HeaderEdits,
    problems: &mut Problems,
) {
    let tells_user = request.fields().any(|(_, value)| value.tells_user());
    if let (true, Some(At { span, .. })) = (tells_user, route.cache.at()) {
        let message = "servers are told the user, and others get what is cached".to_owned();
        let help = "leave `cache` out of this route, or `$user` and `$jwt_claim_...`".to_owned();
        problems.error(span, message, "cached for everybody", help);
    }
}

/// What is protected, where the file does not name it.
pub(super) const REALM: &str = "loadline";
