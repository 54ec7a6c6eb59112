//! HSTS: the header of the responses of a listener, which a route may not set a second time.

use loadline_core::{
    fleet::{Hsts, Protocol},
    time::Duration,
};
use loadline_spanned::{At, Key, Named, Problems, Text};

use crate::{
    file,
    value::{either::TextOr, pattern::HeaderTemplate},
};

/// What a listener says in each response; nothing where the file has no `hsts`.
pub(super) fn hsts(
    listener: &At<file::Listener>,
    tls: &file::ListenerTls,
    protocol: Protocol,
    problems: &mut Problems,
) -> Option<Hsts> {
    let given = tls.hsts.at()?;
    if !protocol.is_http() {
        let help = "leave `hsts` out, or say protocol = \"https\"".to_owned();
        let message = "`hsts` on a listener that does not read HTTP".to_owned();
        problems.error(&given.span, message, "never used", help);
    }
    refuse_in_routes(&listener.value, problems);
    let table = match &given.value {
        TextOr::Text(max_age) => return Some(Hsts { max_age: max_age.0, ..ONCE }),
        TextOr::Table(table) => table,
    };
    if !table.max_age.given() {
        let help = "say for how long: max_age = \"365d\"".to_owned();
        problems.absent(&given.span, &given.span, "`hsts` without `max_age`".to_owned(), help);
    }
    let is = |key: &Key<bool>| key.get().copied().unwrap_or(false);
    let hsts = Hsts {
        max_age: table.max_age.get().map_or(Duration::ZERO, |time| time.0.0),
        include_subdomains: is(&table.include_subdomains),
        preload: is(&table.preload),
    };
    let may_preload = hsts.max_age >= PRELOAD_MIN && hsts.include_subdomains;
    if let (true, false, Some(preload)) = (hsts.preload, may_preload, table.preload.at()) {
        let message = "`preload` for less than a year, or not for all names below".to_owned();
        let help = "say max_age = \"365d\" and include_subdomains = true".to_owned();
        problems.error(&preload.span, message, "not granted", help);
    }
    Some(hsts)
}

/// A route would say it a second time (RFC 6797, 6.1: once at most).
fn refuse_in_routes(listener: &file::Listener, problems: &mut Problems) {
    let mut refuse = |fields: &Key<Named<Text<HeaderTemplate>>>| {
        for (name, _) in fields.get().into_iter().flat_map(Named::iter) {
            if name.value.eq_ignore_ascii_case("strict-transport-security") {
                let message = "`hsts` of this listener says this already".to_owned();
                let help = "leave one of them out".to_owned();
                problems.error(&name.span, message, "said twice", help);
            }
        }
    };
    let routes = listener.routes.get().into_iter().flat_map(file::ListenerRoutes::list);
    for At { value: route, .. } in routes {
        route.answer.get().into_iter().for_each(|answer| refuse(&answer.headers));
        if let Some(edits) = route.answer_headers.get() {
            refuse(&edits.set);
            refuse(&edits.add);
        }
    }
}

/// For the host alone.
const ONCE: Hsts = Hsts { max_age: Duration::ZERO, include_subdomains: false, preload: false };

/// What the lists that browsers are delivered with ask for (hstspreload.org).
const PRELOAD_MIN: Duration = Duration::from_secs(365 * 24 * 3_600);
