//! Keys that are right in another table of the file.

use loadline_spanned::expected;
use serde_json::Value;

use super::{
    foreign, known, meant,
    places::{self, Place},
};
use crate::{Page, schema::schema};

/// A table, as it is written, and its keys.
type Table<'a> = (String, Vec<&'a str>);

/// A help text for a key that may not stand where only `names` may.
pub(crate) fn help_for_misplaced_key(typed: &str, names: &[&str]) -> String {
    let schema = Page::ConfigurationSchema.value_or(schema);
    let mut tables = Vec::new();
    add_tables(&schema, &schema, "", &mut tables);
    let is_here = |(_, keys): &&Table<'_>| {
        keys.len() == names.len() && keys.iter().all(|key| names.contains(key))
    };
    let here = tables.iter().find(is_here).map(|(table, _)| table.as_str());
    note_hint(typed, here, names)
        .or_else(|| header_hint(typed, here, names))
        .or_else(|| place_hint(typed, here, names))
        .unwrap_or_else(|| table_hint(typed, here, names, &tables))
}

/// What there is to say of such a key in this table.
fn note_hint(typed: &str, here: Option<&str>, names: &[&str]) -> Option<String> {
    let note = places::note(typed, here?)?;
    Some(format!("{note}; {}", expected(None, names)))
}

/// The name of a header in a table that changes headers.
fn header_hint(typed: &str, here: Option<&str>, names: &[&str]) -> Option<String> {
    (here?.ends_with("_headers") && meant(typed, names).is_none())
        .then(|| format!("write set = {{ {typed} = \"...\" }}; {}", expected(None, names)))
}

/// What another program calls so, and where that is written.
fn place_hint(typed: &str, here: Option<&str>, names: &[&str]) -> Option<String> {
    let place = nearest_place(typed, here)?;
    if here.is_some_and(|here| place.tables.contains(&here)) {
        let meant = format!("{}{}", quoted(place.keys), written(place));
        return Some(expected(Some(&meant), names));
    }
    let is_known_here = foreign::meanings(typed).any(|(ours, _)| names.contains(&ours));
    (!is_known_here).then(|| format!("{}; here {}", told(place, here), expected(None, names)))
}

/// The name that is nearest, or the table that has the key.
fn table_hint(typed: &str, here: Option<&str>, names: &[&str], tables: &[Table<'_>]) -> String {
    let ours = known(typed, names);
    if meant(typed, names).is_some() {
        return ours;
    }
    match table_with(typed, here, tables) {
        Some((key, table)) => format!("`{key}` is a key of `{table}`; here {ours}"),
        None => ours,
    }
}

/// The place of what is called `typed` elsewhere: `here`, below it, or anywhere but in its value.
fn nearest_place(typed: &str, here: Option<&str>) -> Option<&'static Place> {
    let here = here.unwrap_or_default();
    let place_of_table = |fits: &dyn Fn(&str) -> bool| {
        places::places(typed).find(|place| place.tables.iter().any(|table| fits(table)))
    };
    let is_outside = |place: &&Place| {
        let value = |(table, key): (&&str, &&str)| format!("{table}.{key}");
        let mut values = place
            .tables
            .iter()
            .flat_map(|table| place.keys.iter().map(move |key| value((table, key))));
        !values.any(|value| value == here || is_below(here, &value))
    };
    place_of_table(&|table| table == here)
        .or_else(|| place_of_table(&|table| is_below(table, here)))
        .or_else(|| places::places(typed).find(is_outside))
}

/// "`path` is a key of `listener.routes`: path = \"/api/\"": where to write it, seen from `here`.
fn told(place: &Place, here: Option<&str>) -> String {
    let here = here.unwrap_or_default();
    let tables_that = |fit: &dyn Fn(&str) -> bool| -> Vec<&str> {
        place.tables.iter().copied().filter(|table| fit(table)).collect()
    };
    let below = tables_that(&|table| is_below(table, here));
    let above = tables_that(&|table| is_below(here, table));
    let near = [below, above].into_iter().find(|near| !near.is_empty());
    let tables = near.unwrap_or_else(|| place.tables.to_vec());
    let verb = if place.keys.len() == 1 { "is a key" } else { "are keys" };
    format!("{} {verb} of {}{}", quoted(place.keys), quoted(&tables), written(place))
}

fn written(place: &Place) -> String {
    if place.example.is_empty() { String::new() } else { format!(": {}", place.example) }
}

fn quoted(names: &[&str]) -> String {
    names.iter().map(|name| format!("`{name}`")).collect::<Vec<_>>().join(" and ")
}

/// Whether a table stands in `other`, which is not the top of the file.
fn is_below(table: &str, other: &str) -> bool {
    !other.is_empty() && table.strip_prefix(other).is_some_and(|rest| rest.starts_with('.'))
}

/// The table that has `typed`, or what it means elsewhere, and by which key: one below `here`
/// before one above it, then the one that is the shortest to write. Of others there may be only
/// one, and what is below it.
fn table_with<'a>(
    typed: &'a str,
    here: Option<&str>,
    tables: &'a [Table<'_>],
) -> Option<(&'a str, &'a str)> {
    let here = here.unwrap_or_default();
    let ours = foreign::meanings(typed).map(|(ours, _)| ours);
    [typed].into_iter().chain(ours).find_map(|key| {
        let having = tables.iter().filter(|(table, keys)| !table.is_empty() && keys.contains(&key));
        let having: Vec<&str> = having.map(|(table, _)| table.as_str()).collect();
        let distance =
            |table: &&&str| (!is_below(table, here), !is_below(here, table), table.len());
        let nearest = *having.iter().min_by_key(distance)?;
        let is_near = is_below(nearest, here) || is_below(here, nearest);
        let is_alone = || having.iter().all(|it| *it == nearest || is_below(it, nearest));
        (is_near || is_alone()).then_some((key, nearest))
    })
}

/// Adds to `found` the table at `node` and each below it, as they are written.
fn add_tables<'a>(schema: &'a Value, node: &'a Value, path: &str, found: &mut Vec<Table<'a>>) {
    let Some(keys) = node["properties"].as_object() else { return };
    found.push((path.to_owned(), keys.keys().map(String::as_str).collect()));
    for (name, value) in keys {
        let below = if path.is_empty() { name.clone() } else { format!("{path}.{name}") };
        let named = format!("{below}.NAME");
        for (path, value) in
            [(&below, value), (&named, &value["additionalProperties"]), (&below, &value["items"])]
        {
            let forms = value["oneOf"].as_array().into_iter().flatten();
            for form in forms.chain([value]) {
                if let Some(table) = referred(schema, form) {
                    add_tables(schema, table, path, found);
                }
            }
        }
    }
}

/// The definition that `value` is a reference to.
fn referred<'a>(schema: &'a Value, value: &Value) -> Option<&'a Value> {
    schema["$defs"].get(value["$ref"].as_str()?.strip_prefix("#/$defs/")?)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The help for `typed` in this table of the file.
    fn help(table: &str, typed: &str) -> String {
        let schema = schema();
        let mut tables = Vec::new();
        add_tables(&schema, &schema, "", &mut tables);
        let (_, keys) = tables.iter().find(|(path, _)| path == table).expect("such a table");
        help_for_misplaced_key(typed, keys)
    }

    #[test]
    fn a_key_of_another_table_is_told_which() {
        let here = ["bind", "service"];
        let help = |typed| help_for_misplaced_key(typed, &here);
        let told = "`policy` is a key of `service.NAME`; here expected one of";
        assert!(help("policy").starts_with(told), "{}", help("policy"));
        assert!(help("balance").starts_with("`policy` is a key of `service.NAME`"));
        assert!(help("max_rate").starts_with("`max_rate` is a key of `service.NAME.group`"));
        assert_eq!(help("colour"), known("colour", &here));
    }

    #[test]
    fn a_word_of_another_program_is_told_the_table_that_has_its_key() {
        const ROUTE: &str = "listener.routes";
        const GROUP: &str = "service.NAME.group";
        let of = |key: &str, table: &str| format!("`{key}` is a key of `{table}`");
        let here = |key: &str| format!("did you mean `{key}`");
        let cases = [
            ("", "servers", of("servers", GROUP)),
            ("service.NAME", "servers", of("servers", GROUP)),
            ("", "server", here("listener")),
            ("", "timeout", "`timeouts` is a key of `listener` and `service.NAME`".to_owned()),
            ("service.NAME", "timeout", here("timeouts")),
            (GROUP, "timeout", of("timeouts", "service.NAME")),
            (GROUP, "fail_timeout", of("time", "service.NAME.ejection")),
            ("service.NAME", "fail_timeout", of("time", "service.NAME.ejection")),
            ("service.NAME.ejection", "fail_timeout", here("time")),
            (GROUP, "max_fails", of("errors", "service.NAME.ejection")),
            ("service.NAME.group.servers", "max_fails", of("errors", "service.NAME.ejection")),
            ("service.NAME.health", "max_fails", here("fall")),
            ("", "server_name", of("host", ROUTE)),
            ("listener", "server_name", of("host", ROUTE)),
            (ROUTE, "server_name", here("host")),
            ("service.NAME", "server_name", of("name", "service.NAME.tls")),
            ("service.NAME.tls", "server_name", here("name")),
            ("service.NAME.health", "server_name", here("host")),
            (
                "service.NAME.health",
                "port",
                "a check goes to the address of its server;".to_owned(),
            ),
            ("service.NAME.health", "type", "the kind of a check is its key: http".to_owned()),
            ("cache", "ttl", "servers say in `Cache-Control` how long".to_owned()),
            ("listener.routes.cache", "ttl", "servers say in `Cache-Control` how long".to_owned()),
            ("listener", "gzip", of("compress", "service.NAME")),
            ("service.NAME", "gzip", here("compress")),
            ("service.NAME.compress", "gzip", of("gzip", "service.NAME.compress.levels")),
            ("listener", "priority", of("priority", ROUTE)),
            (GROUP, "priority", of("priority", "service.NAME.group.servers")),
            (GROUP, "zone", here("region")),
            ("service.NAME", "zone", of("region", GROUP)),
            ("", "client_max_body_size", "`max_body` is a key of `listener` and".to_owned()),
            ("listener", "client_max_body_size", here("max_body")),
            (ROUTE, "client_max_body_size", here("max_body")),
            ("service.NAME", "proxy_read_timeout", "`head` and `idle` are keys of".to_owned()),
            ("service.NAME", "proxy_connect_timeout", of("connect", "service.NAME.timeouts")),
            ("service.NAME.timeouts", "proxy_connect_timeout", here("connect")),
            ("listener", "limit_req", of("limit", ROUTE)),
            (ROUTE, "limit_req", here("limit")),
            ("listener", "limit", of("limit", ROUTE)),
            ("listener", "path_prefix", of("path", ROUTE)),
            (ROUTE, "path_prefix", here("path")),
            ("service.NAME", "strip_prefix", of("rewrite", ROUTE)),
            (ROUTE, "strip_prefix", here("rewrite")),
            ("", "maxconn", "`max_connections` is a key of `edge` and `listener`".to_owned()),
            ("listener", "maxconn", here("max_connections")),
            ("service.NAME", "maxconn", of("max_in_flight", GROUP)),
            (GROUP, "maxconn", here("max_in_flight")),
            (GROUP, "balance", of("policy", "service.NAME")),
            ("listener", "lb_policy", of("policy", "service.NAME")),
            ("service.NAME", "lb_policy", here("policy")),
        ];
        all_begin(cases);
    }

    fn all_begin<S: AsRef<str>>(cases: impl IntoIterator<Item = (&'static str, &'static str, S)>) {
        let wrong = cases.into_iter().filter_map(|(table, typed, start)| {
            let help = help(table, typed);
            let is_right = help.starts_with(start.as_ref());
            (!is_right).then(|| format!("{typed} in {table:?}: {help:.120}"))
        });
        let wrong: Vec<String> = wrong.collect();
        assert!(wrong.is_empty(), "\n{}", wrong.join("\n"));
    }

    #[test]
    fn a_word_for_headers_leads_to_those_of_its_direction() {
        const ROUTE: &str = "listener.routes";
        all_begin([
            (ROUTE, "response_headers", "did you mean `answer_headers`: answer_headers = { set"),
            (ROUTE, "add_header", "did you mean `answer_headers`"),
            (ROUTE, "proxy_set_header", "did you mean `request_headers`: request_headers = { set"),
            (ROUTE, "headers", "routes change headers: request_headers or answer_headers"),
            ("listener", "headers", "routes change headers"),
            ("listener", "response_headers", "`answer_headers` is a key of `listener.routes`: "),
            ("service.NAME", "host_header", "`request_headers` is a key of `listener.routes`: "),
            ("service.NAME.health", "host_header", "did you mean `host`"),
            ("service.NAME.health", "headers", "of the headers of a check the host alone"),
            ("listener.routes.request_headers", "Host", "write set = { Host = \"...\" }; expected"),
            ("listener.routes.request_headers", "sett", "did you mean `set`"),
            ("listener.routes.answer_headers", "Server", "write set = { Server = \"...\" }"),
        ]);
    }

    #[test]
    fn an_everyday_word_is_not_led_to_a_table_of_something_else() {
        const ROUTE: &str = "listener.routes";
        const SERVER: &str = "service.NAME.group.servers";
        all_begin([
            (ROUTE, "allow", "did you mean `source`: source = \"10.0.0.0/8\", and deny = 403"),
            ("listener", "allow", "`source` is a key of `listener.routes`: source = "),
            (ROUTE, "ip", "did you mean `source`"),
            (SERVER, "ip", "did you mean `address`"),
            (ROUTE, "whitelist", "did you mean `source`"),
            ("listener", "ip_allow_list", "`source` is a key of `listener.routes`"),
            (ROUTE, "from", "did you mean `source`"),
            (ROUTE, "client", "did you mean `source`"),
            ("listener.timeouts", "client", "did you mean `head`"),
            (ROUTE, "status", "did you mean `answer`: answer = { status = 503"),
            (ROUTE, "body", "did you mean `answer`"),
            (ROUTE, "response", "did you mean `answer`"),
            (ROUTE, "return", "did you mean `answer`: answer = { status = 503 }, or redirect"),
            ("service.NAME.health", "status", "a response with 2xx or 3xx passes"),
            ("service.NAME.health", "method", "a check by `http` is a GET"),
            ("service.NAME.maintenance", "status", "clients of a service in maintenance get 503"),
            ("listener.routes.limit", "status", "a request above the limit gets 429"),
            (ROUTE, "prefix", "did you mean `path`: path = \"/api/\""),
            (ROUTE, "match", "did you mean `path`: path = \"/api/\""),
            (ROUTE, "path_regex", "did you mean `path`: path = \"~"),
            ("listener.routes.redirect", "prefix", "the path is changed by `rewrite`"),
            ("listener.routes.redirect", "to", "a whole URL is `location`"),
            ("listener.routes.redirect", "url", "a whole URL is `location`"),
            ("listener.routes.redirect", "port", "the port stands in `host`"),
            (ROUTE, "weights", "did you mean `split`: split = { web = 95, canary = 5 }"),
            (ROUTE, "weighted_clusters", "did you mean `split`"),
            (ROUTE, "canary", "did you mean `split`"),
            ("service.NAME.group", "weight", "`weight` is a key of `service.NAME.group.servers`"),
            ("listener", "websocket", "a WebSocket passes without a key of its own"),
            ("service.NAME", "websocket", "a WebSocket passes without a key of its own"),
            ("service.NAME", "path", "`path` is a key of `listener.routes`: path = \"/api/\""),
            ("service.NAME.health", "path", "did you mean `http`"),
            ("cache", "path", "`path` is a key of `cache.disk`"),
            ("service.NAME", "users_file", "expected one of"),
            ("", "bind", "expected one of"),
        ]);
    }

    #[test]
    fn every_key_that_a_hint_names_is_a_key_of_its_table() {
        let schema = schema();
        let mut tables = Vec::new();
        add_tables(&schema, &schema, "", &mut tables);
        let find = |table: &str| {
            let found = tables.iter().find(|(path, _)| path == table);
            &found.unwrap_or_else(|| panic!("no table {table}")).1
        };
        for place in places::PLACES {
            for (table, key) in
                place.tables.iter().flat_map(|it| place.keys.iter().map(move |key| (it, key)))
            {
                assert!(find(table).contains(key), "{key} in {table}");
            }
        }
        for (table, words, _) in places::NOTES {
            let keys = find(table);
            assert!(words.iter().all(|word| !keys.contains(word)), "{table}");
        }
    }
}
