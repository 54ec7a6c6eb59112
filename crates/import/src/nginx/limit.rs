//! `limit_req` of nginx: limits that are counted by route.

use super::{Import, lex::Directive, values::rate};
use crate::{
    model::Table,
    write::{inline, text},
};

/// The limit of a route, and what nginx does otherwise.
///
/// # Errors
/// What of it has no counterpart.
pub(super) fn limit(
    import: &mut Import<'_>,
    directive: &Directive,
) -> Result<(String, String), String> {
    let args = directive.args();
    let option = |name: &str| args.iter().find_map(|arg| arg.strip_prefix(name));
    let zone = option("zone=").unwrap_or_default();
    let Some((key, each)) = import.zones.get(zone) else {
        return Err(format!("there is no zone `{zone}`"));
    };
    let each = rate(each).ok_or_else(|| format!("`{each}` is no rate"))?;
    let burst = option("burst=").and_then(|it| it.parse::<u64>().ok()).unwrap_or(0) + 1;
    let mut entries =
        vec![("rate".to_owned(), text(&each)), ("burst".to_owned(), burst.to_string())];
    let mut differs = OVER.to_owned();
    let by = match key.as_str() {
        "$binary_remote_addr" | "$remote_addr" => None,
        key => match (key.strip_prefix("$http_"), key.strip_prefix("$cookie_")) {
            (Some(name), _) => Some(("header", name.replace('_', "-"))),
            (_, Some(name)) => Some(("cookie", name.to_owned())),
            _ => return Err(format!("a limit counts addresses, headers or cookies, not `{key}`")),
        },
    };
    if let Some((kind, name)) = by {
        differs += &format!(
            "; requests without the {kind} `{name}` are counted by the address of the client, \
             where nginx lets all of them through"
        );
        entries.push((kind.to_owned(), text(&name)));
    }
    import.limited.entry(zone.to_owned()).or_default().push(directive.at());
    Ok((inline(&entries), differs))
}

const OVER: &str = "what is over the rate gets 429 at once: it is not delayed, and not 503";

/// Tells of zones that limit requests in several places, which have one limit in nginx.
pub(super) fn tell_shared(import: &Import<'_>, table: &mut Table) {
    for (zone, places) in import.limited.iter().filter(|(_, places)| places.len() > 1) {
        let why = format!(
            "each route with the zone `{zone}` has a limit of its own: a client may come at its \
             rate on all of them; {OVER}"
        );
        for at in places {
            table.remark(import.lines.differs(import.files, *at, &why));
        }
    }
}
