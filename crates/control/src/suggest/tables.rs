//! How tables of the file are written in short, for those who write a value in the place of one.

/// A table as it may be written in the table `at`, by its key.
struct Short {
    /// The table that it stands in: `service.NAME`; empty for the top of the file.
    at: &'static str,
    key: &'static str,
    example: &'static str,
}

/// How the table to which these keys lead may be written.
pub(super) fn short(path: &[&str]) -> Option<&'static str> {
    let (key, at) = path.split_last()?;
    let shared = ["listener", "routes"];
    let at = if let ["routes", _] = at { &shared[..] } else { at };
    SHORT.iter().find(|it| it.key == *key && is_at(it.at, at)).map(|it| it.example)
}

/// Whether `path` leads to the table `at`, in which `NAME` is any name.
fn is_at(at: &str, path: &[&str]) -> bool {
    let keys: Vec<&str> = at.split('.').filter(|key| !key.is_empty()).collect();
    keys.len() == path.len() && keys.iter().zip(path).all(|(key, it)| *key == "NAME" || key == it)
}

const fn short_of(at: &'static str, key: &'static str, example: &'static str) -> Short {
    Short { at, key, example }
}

const TOP: &str = "";
const LISTENER: &str = "listener";
const ROUTE: &str = "listener.routes";
const SERVICE: &str = "service.NAME";
const GROUP: &str = "service.NAME.group";

const BASIC_AUTH: &str = "basic_auth = { users_file = \"htpasswd\" }";
const JWT: &str = "jwt = { keys = \"jwks.json\", audience = \"api\" }";
const FORWARD_AUTH: &str = "forward_auth = { service = \"auth\", path = \"/verify\" }";
const ERROR_PAGES: &str = "error_pages = { 5xx = \"error.html\" }";

const SHORT: &[Short] = &[
    short_of(TOP, "admin", "admin = { bind = \"127.0.0.1:9090\" }"),
    short_of(TOP, "cache", "cache = { memory = \"256MiB\" }"),
    short_of(TOP, "cluster", "cluster = { etcd = [\"https://10.0.0.1:2379\"] }"),
    short_of(TOP, "dns", "dns = { servers = [\"10.0.0.53\"] }"),
    short_of(TOP, "tracing", "tracing = { endpoint = \"http://127.0.0.1:4318\" }"),
    short_of("cache", "disk", "disk = { path = \"/var/cache/loadline\", size = \"20GiB\" }"),
    short_of(LISTENER, "basic_auth", BASIC_AUTH),
    short_of(LISTENER, "error_pages", ERROR_PAGES),
    short_of(LISTENER, "forward_auth", FORWARD_AUTH),
    short_of(LISTENER, "http2", "http2 = { streams = 100 }"),
    short_of(LISTENER, "jwt", JWT),
    short_of(LISTENER, "limits", "limits = { size = \"16KiB\" }"),
    short_of(LISTENER, "names", "names = [{ name = \"*.example.com\", service = \"web\" }]"),
    short_of(LISTENER, "timeouts", "timeouts = { idle = \"60s\" }"),
    short_of(
        LISTENER,
        "tls",
        "tls = { certificates = [{ chain = \"site.crt\", key = \"site.key\" }] }",
    ),
    short_of(ROUTE, "answer", "answer = { status = 503, body = \"back soon\" }"),
    short_of(ROUTE, "answer_headers", "answer_headers = { set = { X-Frame-Options = \"DENY\" } }"),
    short_of(ROUTE, "basic_auth", BASIC_AUTH),
    short_of(ROUTE, "cache", "cache = { stale_if_error = \"1h\" }"),
    short_of(ROUTE, "cookie", "cookie = { beta = \"yes\" }"),
    short_of(ROUTE, "cors", "cors = { origins = [\"https://app.example.com\"] }"),
    short_of(ROUTE, "forward_auth", FORWARD_AUTH),
    short_of(ROUTE, "header", "header = { X-Tenant = \"acme\" }"),
    short_of(ROUTE, "jwt", JWT),
    short_of(ROUTE, "limit", "limit = { rate = \"10/s\" }"),
    short_of(ROUTE, "query", "query = { version = \"2\" }"),
    short_of(ROUTE, "redirect", "redirect = { scheme = \"https\" }"),
    short_of(ROUTE, "request_headers", "request_headers = { set = { X-Via = \"edge\" } }"),
    short_of(ROUTE, "rewrite", "rewrite = { prefix = \"/api/\", to = \"/\" }"),
    short_of(ROUTE, "split", "split = { web = 95, canary = 5 }"),
    short_of("listener.routes.redirect", "rewrite", "rewrite = { prefix = \"/a/\", to = \"/b/\" }"),
    short_of(SERVICE, "compress", "compress = { algorithms = [\"gzip\"] }"),
    short_of(SERVICE, "ejection", "ejection = { errors = 3 }"),
    short_of(SERVICE, "error_pages", ERROR_PAGES),
    short_of(SERVICE, "health", "health = { http = \"/health\" }"),
    short_of(SERVICE, "maintenance", "maintenance = { enabled = true }"),
    short_of(SERVICE, "manager", "manager = { active = \"50%\", new = \"50%\" }"),
    short_of(SERVICE, "retry", "retry = { attempts = 2 }"),
    short_of(SERVICE, "sticky", "sticky = { hash = \"client-address\" }"),
    short_of(SERVICE, "timeouts", "timeouts = { head = \"60s\" }"),
    short_of(SERVICE, "tls", "tls = { verify = true }"),
    short_of(SERVICE, "when_full", "when_full = { queue = \"1s\", length = 200 }"),
    short_of(GROUP, "discover", "discover = { dns = \"web.internal:80\" }"),
    short_of(GROUP, "per_server", "per_server = { max_in_flight = 80 }"),
];

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{LocalOnly, parse_with};

    #[test]
    fn a_table_is_found_by_the_keys_that_lead_to_it() {
        for (path, expected) in [
            (&["listener", "routes", "limit"][..], Some("limit = { rate = \"10/s\" }")),
            (&["routes", "site", "limit"], Some("limit = { rate = \"10/s\" }")),
            (&["service", "web", "tls"], Some("tls = { verify = true }")),
            (&["service", "web", "limit"], None),
            (&["limit"], None),
            (&[], None),
        ] {
            assert_eq!(short(path), expected, "{path:?}");
        }
    }

    /// What every example says is known where it stands.
    #[test]
    fn every_short_form_may_be_written_where_it_is_told() {
        for Short { at, key, example } in SHORT {
            let head = match *at {
                TOP => String::new(),
                LISTENER => "[[listener]]\n".to_owned(),
                ROUTE => "[[listener]]\n[[listener.routes]]\n".to_owned(),
                "listener.routes.redirect" => {
                    "[[listener]]\n[[listener.routes]]\n[listener.routes.redirect]\n".to_owned()
                }
                SERVICE => "[service.web]\n".to_owned(),
                GROUP => "[[service.web.group]]\n".to_owned(),
                other => format!("[{other}]\n"),
            };
            let Err(errors) = parse_with("a.toml", &format!("{head}{example}\n"), &LocalOnly)
            else {
                continue;
            };
            let is_of_form = |it: &str| it.starts_with("unknown key") || it.starts_with("expected");
            let wrong = errors.errors().iter().map(ToString::to_string).find(|it| is_of_form(it));
            assert_eq!(wrong, None, "{example} in {at:?}");
            assert!(example.starts_with(&format!("{key} = ")), "{example}");
        }
    }
}
