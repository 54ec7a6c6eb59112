//! One slip each in a right file: the error stands where the slip is and says what would be
//! right, and nothing else is blamed.

use std::{fs, path::Path};

use loadline_control::{LocalOnly, load, parse_with};
use loadline_spanned::FileError;

const RIGHT: &str = r#"[edge]
region = "near"
threads = 2

[regions.far]
rtt = { near = "30ms" }

[[listener]]
bind = ":8080"
service = "web"

[service.web]
policy = "least-requests"

[[service.web.group]]
region = "near"
max_rate = "100/s"
servers = ["10.0.0.1:80"]

[[service.web.group]]
region = "far"
servers = ["10.1.0.1:80"]
"#;

/// What is replaced, by what, the line and column of the error, and words it has to have.
type Case = (&'static str, &'static str, (usize, usize), &'static [&'static str]);

/// Checks every case and shows all that differ at once.
fn check(cases: &[Case]) {
    let wrong: Vec<String> = cases.iter().filter_map(|case| check_one(case).err()).collect();
    assert!(wrong.is_empty(), "\n{}", wrong.join("\n"));
}

fn check_one((right, slip, place, words): &Case) -> Result<(), String> {
    let text = RIGHT.replacen(right, slip, 1);
    assert_ne!(text, RIGHT, "{right} is in the file");
    let Err(errors) = parse_with("slip.toml", &text, &LocalOnly) else {
        return Err(format!("{slip}: accepted"));
    };
    let [error] = errors.errors() else { return Err(format!("{slip}: {:?}", errors.errors())) };
    let said = format!("{error}; {}", error.help_text());
    let found = (error.line(), error.column());
    let missing = words.iter().find(|word| !said.contains(**word));
    if found == *place && missing.is_none() {
        return Ok(());
    }
    Err(format!("{slip}: at {found:?}, without {missing:?}: {said}"))
}

#[test]
fn the_file_is_right_before_the_slip() {
    let loaded = parse_with("right.toml", RIGHT, &LocalOnly).unwrap();
    assert!(loaded.warnings.is_empty());
}

#[test]
fn a_broken_line_is_found() {
    check(&[
        ("\"near\"\nthreads", "near\nthreads", (2, 10), &["not TOML", "quotes", "\"near\""]),
        ("\"100/s\"", "100/s", (17, 12), &["not TOML", "\"100/s\""]),
        ("[edge]", "[edge", (1, 6), &["not TOML", "]"]),
        ("threads = 2", "threads", (3, 8), &["not TOML", "="]),
        ("threads = 2", "threads =", (3, 10), &["not TOML"]),
        ("threads = 2", "region = \"far\"", (3, 1), &["duplicate key", "keep one"]),
        ("[service.web]", "[edge]\n[service.web]", (12, 2), &["duplicate key"]),
        ("\"30ms\" }", "\"30ms\"", (8, 1), &["not TOML", "}", "not closed"]),
    ]);
}

#[test]
fn a_key_of_too_many_parts_is_told_where_it_is() {
    let key = vec!["a"; 100].join(".");
    for (text, place) in [
        (format!("{RIGHT}{key} = 1\n"), (23, 1)),
        (format!("{RIGHT}[{key}]\n"), (23, 2)),
        (format!("{RIGHT}x = {{ {key} = 1 }}\n"), (23, 7)),
    ] {
        let errors = parse_with("deep.toml", &text, &LocalOnly).unwrap_err();
        let [error] = errors.errors() else { panic!("{errors:?}") };
        assert!(error.message().starts_with("not TOML: "), "{error}");
        assert_eq!((error.line(), error.column()), place, "{error}");
    }
}

#[test]
fn an_unknown_key_is_told_the_nearest() {
    check(&[
        ("threads", "threds", (3, 1), &["unknown key `threds`", "did you mean `threads`?"]),
        ("[edge]\n", "[edge]\nname = 1\n", (2, 1), &["unknown key `name`", "`access_log`"]),
        ("policy", "polcy", (13, 1), &["did you mean `policy`?"]),
        ("servers = [\"10.0", "server = [\"10.0", (18, 1), &["did you mean `servers`?"]),
        ("bind", "listen", (9, 1), &["unknown key `listen`", "`bind`"]),
        ("rtt", "rt", (6, 1), &["did you mean `rtt`?"]),
        (
            "\"10.0.0.1:80\"",
            "{ address = \"10.0.0.1:80\", wieght = 2 }",
            (18, 39),
            &["did you mean `weight`?"],
        ),
        (
            "[service.web]\n",
            "[service.web]\nhealth = { http = \"/\", raise = 1 }\n",
            (13, 24),
            &["did you mean `rise`?"],
        ),
        ("[edge]", "[egde]", (1, 2), &["unknown key `egde`", "did you mean `edge`?"]),
    ]);
}

#[test]
fn a_value_of_the_wrong_kind_is_told_the_right_one() {
    check(&[
        ("\"100/s\"", "100", (17, 12), &["integer `100`", "a rate", "\"100/s\""]),
        ("\"100/s\"", "\"100\"", (17, 12), &["`100` is not a rate", "unit", "`100/s`"]),
        ("\"100/s\"", "\"100ms\"", (17, 12), &["`100ms` is not a rate"]),
        ("\"100/s\"", "\"0/s\"", (17, 12), &["out of range", "above zero"]),
        ("\"30ms\"", "\"30\"", (6, 16), &["`30` is not a duration", "`500ms`"]),
        ("\"30ms\"", "0.03", (6, 16), &["a duration", "in quotes"]),
        ("threads = 2", "threads = \"2\"", (3, 11), &["string \"2\"", "a whole number"]),
        ("threads = 2", "threads = -2", (3, 11), &["`-2` is out of range", "from 0 to 1024"]),
        ("threads = 2", "threads = 2.5", (3, 11), &["a whole number"]),
        ("threads = 2", "threads = 2026-01-01", (3, 11), &["a date", "a whole number"]),
        ("[[listener]]", "[listener]", (8, 1), &["found a table", "[[name]]"]),
        ("[\"10.0.0.1:80\"]", "\"10.0.0.1:80\"", (18, 11), &["string", "a list"]),
        ("\"near\"\nthreads", "[]\nthreads", (2, 10), &["a list", "a name"]),
        ("policy", "hash = []\npolicy", (13, 8), &["or a table, found a list"]),
        ("\":8080\"", "{}", (9, 8), &["or a list, found a table"]),
        ("\"least-requests\"", "\"least-request\"", (13, 10), &["did you mean `least-requests`?"]),
        ("\"least-requests\"", "\"fastest\"", (13, 10), &["not a policy", "`round-robin`"]),
        ("\":8080\"", "\"8080\"", (9, 8), &["not an address to bind", "\":8080\""]),
        ("\":8080\"", "\"localhost:8080\"", (9, 8), &["127.0.0.1:8080"]),
        ("\"10.0.0.1:80\"", "\"10.0.0.1\"", (18, 12), &["add the port", "10.0.0.1:80"]),
        ("\"10.0.0.1:80\"", "\"http://10.0.0.1:80\"", (18, 12), &["host and port alone"]),
        ("\"10.0.0.1:80\"", "\"10.0.0.1:0\"", (18, 12), &["ports are 1 to 65535"]),
        ("\"10.0.0.1:80\"", "\"nowhere.invalid:80\"", (18, 12), &["cannot be resolved"]),
        (
            "servers = [\"10.0.0.1:80\"]",
            "discover = { allow_empty = true }",
            (18, 12),
            &["does not say where", "file = "],
        ),
        (
            "servers = [\"10.0.0.1:80\"]",
            "discover = { dns = \"10.0.0.1:80\" }",
            (18, 20),
            &["needs no name server"],
        ),
        (
            "servers = [\"10.0.0.1:80\"]",
            "discover = { dns = \"web:80\", srv = \"_http._tcp.web\" }",
            (18, 36),
            &["a second place", "another group"],
        ),
        ("[edge]", "dns.servers = [\"ns1\"]\n[edge]", (1, 16), &["not the address", "10.0.0.53"]),
        (
            "[edge]",
            "dns = { min_ttl = \"5s\", max_ttl = \"1s\" }\n[edge]",
            (1, 35),
            &["below `min_ttl`"],
        ),
        (
            "servers = [\"10.0.0.1:80\"]",
            "servers = [\"10.0.0.1:80\"]\ndiscover = { file = \"a.toml\" }",
            (19, 12),
            &["`discover` beside `servers`", "leave one"],
        ),
        ("service = \"web\"", "service = \"a b\"", (10, 11), &["not a name", "letters"]),
    ]);
}

#[test]
fn a_value_between_wrong_quotes_or_brackets_is_told_how_it_is_written() {
    let proxied = |slip: &str| -> &'static str { format!("service = \"web\"\n{slip}").leak() };
    check(&[
        (
            "policy",
            "timeouts = { idle = 30 }\npolicy",
            (13, 21),
            &["with its unit, like \"500ms\""],
        ),
        ("threads = 2", "threads = \"2\"", (3, 11), &["a number stands without quotes: 2"]),
        (
            "service = \"web\"",
            proxied("accept_proxy = \"yes\""),
            (11, 16),
            &["write true, without"],
        ),
        (
            "service = \"web\"",
            proxied("accept_proxy = \"off\""),
            (11, 16),
            &["write false, without"],
        ),
        ("service = \"web\"", proxied("accept_proxy = \"v2\""), (11, 16), &["write true or false"]),
        ("policy", "health = [1]\npolicy", (13, 10), &["like health = { http = "]),
        ("[edge]", "maps.moved = [1]\n[edge]", (1, 14), &["in braces: `{ ... }`"]),
        ("[service.web]", "[[service.web]]", (12, 1), &["`[name]`, with one bracket"]),
        ("[[listener]]", "[listener]", (8, 1), &["`[[name]]`, with two brackets"]),
        ("max_rate = \"100/s\"", "scaler = 1e-300", (17, 10), &["`1e-300` is out of range"]),
    ]);
}

#[test]
fn a_value_in_the_place_of_a_table_is_told_how_the_table_is_written() {
    let own = |slip: &str| -> &'static str { format!("service = \"web\"\n{slip}").leak() };
    let route = |slip: &str| own(&format!("routes = [{{ {slip} }}]"));
    let service = |slip: &str| -> &'static str { format!("{slip}\npolicy").leak() };
    check(&[
        ("service = \"web\"", route("redirect = \"https\""), (11, 24), &["{ scheme = \"https\" }"]),
        ("service = \"web\"", route("limit = \"10/s\""), (11, 21), &["{ rate = \"10/s\" }"]),
        ("service = \"web\"", route("rewrite = \"/\""), (11, 23), &["{ prefix = \"/api/\", to ="]),
        (
            "service = \"web\"",
            route("split = [{ service = \"web\", weight = 1 }]"),
            (11, 21),
            &["like split = { web = 95, canary = 5 }"],
        ),
        ("service = \"web\"", own("basic_auth = \"a\""), (11, 14), &["{ users_file = "]),
        ("service = \"web\"", own("error_pages = \"a\""), (11, 15), &["{ 5xx = \"error.html\" }"]),
        ("service = \"web\"", own("tls = true"), (11, 7), &["tls = { certificates = [{ chain"]),
        ("policy", service("health = \"/health\""), (13, 10), &["{ http = \"/health\" }"]),
        ("policy", service("sticky = true"), (13, 10), &["{ hash = \"client-address\" }"]),
        ("policy", service("maintenance = true"), (13, 15), &["{ enabled = true }"]),
        ("policy", service("retry = 3"), (13, 9), &["retry = { attempts = 2 }"]),
        ("policy", service("tls = true"), (13, 7), &["tls = { verify = true }"]),
        ("[edge]", "admin = true\n[edge]", (1, 9), &["admin = { bind = \"127.0.0.1:9090\" }"]),
    ]);
}

#[test]
fn no_error_tells_the_password_of_a_user_whatever_is_wrong_with_it() {
    for users in [
        "\"alice:73577357\"", "[\"alice:73577357\"]", "73577357", "{ alice = 73577357 }",
        "{ alice = \"73577357\" }", "{ alice = [\"73577357\"] }",
    ] {
        let slip = format!("service = \"web\"\nbasic_auth = {{ users = {users} }}");
        let text = RIGHT.replacen("service = \"web\"", &slip, 1);
        let errors = parse_with("slip.toml", &text, &LocalOnly).unwrap_err();
        let [error] = errors.errors() else { panic!("{users}: {:?}", errors.errors()) };
        let said = format!("{error}; {}", error.help_text());
        assert!(!said.contains("73577357"), "{users}: {said}");
        assert_eq!(error.line(), 11, "{users}: {said}");
    }
}

#[test]
fn a_password_of_a_user_without_quotes_is_not_told_with_them() {
    let slip = "service = \"web\"\n[listener.basic_auth.users]\nalice = s73577357";
    check(&[(
        "service = \"web\"",
        slip,
        (12, 9),
        &["text and quantities stand in quotes: \"*********\""],
    )]);
}

#[test]
fn a_server_with_words_behind_its_address_is_told_the_table() {
    check(&[
        (
            "\"10.0.0.1:80\"",
            "\"10.0.0.1:80 weight 5\"",
            (18, 12),
            &["write { address = \"10.0.0.1:80\", weight = 5 }"],
        ),
        ("\"10.0.0.1:80\"", "\"10.0.0.1:80 check weight=5\"", (18, 12), &["weight = 5 }"]),
        ("\"10.0.0.1:80\"", "\"a:80 backup\"", (18, 12), &["\"a:80\", priority = 1 }"]),
        ("\"10.0.0.1:80\"", "\"a:80 check\"", (18, 12), &["the address alone, \"a:80\""]),
    ]);
}

#[test]
fn a_bad_item_of_a_list_is_the_only_error() {
    let proxied = |slip: &str| -> &'static str { format!("service = \"web\"\n{slip}").leak() };
    let route = |slip: &str| proxied(&format!("routes = [{{ {slip} }}]"));
    let tls = |slip: &str| proxied(&format!("protocol = \"https\"\ntls = {slip}"));
    check(&[
        (
            "policy",
            "compress = { algorithms = [\"gzp\"] }\npolicy",
            (13, 28),
            &["not an algorithm"],
        ),
        ("policy", "compress = { algorithms = [1] }\npolicy", (13, 28), &["integer `1`"]),
        ("policy", "compress = { types = [\"text\"] }\npolicy", (13, 23), &["not a media type"]),
        ("policy", "health = { script = [1] }\npolicy", (13, 22), &["a table"]),
        (
            "service = \"web\"",
            route("service = \"web\", cors = { origins = [\"a b\"] }"),
            (11, 50),
            &["not an origin"],
        ),
        ("service = \"web\"", route("split = { web = \"95\" }"), (11, 29), &["without quotes: 95"]),
        ("service = \"web\"", route("split = { web = -1 }"), (11, 29), &["out of range"]),
        ("service = \"web\"", proxied("trusted_proxies = [\"x\"]"), (11, 20), &["not a network"]),
        ("service = \"web\"", tls("true"), (12, 7), &["found boolean"]),
        ("service = \"web\"", tls("{ certificates = [1] }"), (12, 25), &["the path of a file"]),
        ("bind = \":8080\"", "bind = [\"80\"]", (9, 9), &["not an address to bind"]),
        (
            "[edge]",
            "cache = { disk = { path = 1, size = \"1GiB\" } }\n[edge]",
            (1, 27),
            &["the path of a file"],
        ),
    ]);
}

/// The warnings of the right file with a slip.
fn warnings(right: &str, slip: &str) -> Vec<(usize, String)> {
    let text = RIGHT.replacen(right, slip, 1);
    let parsed = parse_with("slip.toml", &text, &LocalOnly);
    let Ok(loaded) = parsed else { panic!("{text}: {parsed:?}") };
    loaded.warnings.iter().map(|it| (it.line(), it.message().to_owned())).collect()
}

#[test]
fn a_list_of_users_without_a_user_is_warned_of() {
    const HASH: &str = "$2y$05$c4WoMPo3SXsafkva.HHa6uXQZWr7oboPiC2bT/r7q1BB8I2s0BRqC";
    let folder = tempfile::tempdir().unwrap();
    let file = |name: &str, text: &str| {
        let path = folder.path().join(name);
        fs::write(&path, text).unwrap();
        path.display().to_string()
    };
    let nobody = file("nobody", "# nobody yet\n\n");
    let somebody = file("somebody", &format!("alice:{HASH}\n"));
    let of = |users: &str| {
        let slip = format!("service = \"web\"\nbasic_auth = {{ {users} }}");
        warnings("service = \"web\"", &slip)
    };
    let told = |key: &str| vec![(11, format!("`{key}` has no user: nobody can come in"))];
    assert_eq!(of(&format!("users_file = \"{nobody}\"")), told("users_file"));
    assert_eq!(of("users = {}"), told("users"));
    assert_eq!(of(&format!("users_file = \"{somebody}\"")), []);
    assert_eq!(of(&format!("users_file = \"{nobody}\", users = {{ a = \"{HASH}\" }}")), []);
    assert_eq!(of(&format!("users_file = \"{nobody}/not-there\"")), []);
}

#[test]
fn an_ocsp_response_of_a_certificate_for_servers_is_told_where_it_is_of_use() {
    check(&[(
        "policy",
        "tls = { certificate = { chain = \"a.pem\", ocsp = \"a.ocsp\" } }\npolicy",
        (13, 42),
        &["`ocsp`", "listener.tls.certificates"],
    )]);
}

#[test]
fn authorities_of_servers_that_are_not_verified_are_warned_of() {
    let of = |tls: &str| warnings("policy", &format!("tls = {{ {tls} }}\npolicy"));
    let told = vec![(13, "`authorities` with verify = false".to_owned())];
    assert_eq!(of("verify = false, authorities = \"a.pem\""), told);
    assert_eq!(of("verify = true, authorities = \"a.pem\""), []);
    assert_eq!(of("verify = false"), []);
}

#[test]
fn a_service_key_out_of_range_is_told_the_range() {
    check(&[
        ("policy", "slow_start = \"5\"\npolicy", (13, 14), &["not a duration"]),
        ("policy", "failover_threshold = \"101%\"\npolicy", (13, 22), &["from 0% to 100%"]),
        ("policy", "failover_threshold = 0.7\npolicy", (13, 22), &["a share", "\"80%\""]),
        ("policy", "retry = { attempts = 9 }\npolicy", (13, 22), &["from 0 to 3"]),
        ("policy", "timeouts = { connect = \"0s\" }\npolicy", (13, 24), &["above zero"]),
        ("policy", "ejection = true\npolicy", (13, 12), &["`true`", "false"]),
        ("policy", "ejection = { errors = 0 }\npolicy", (13, 23), &["from 1 to 1000"]),
        (
            "policy",
            "ejection = { time = \"60s\" }\npolicy",
            (13, 21),
            &["`time_max` (30s) is below `time` (1m)", "time_max = \"1m\""],
        ),
        ("policy", "when_full = \"queue\"\npolicy", (13, 13), &["not a rule", "`spread`"]),
        ("policy", "when_full = { length = 5 }\npolicy", (13, 13), &["without `queue`"]),
        ("policy", "when_full = { queue = \"0s\" }\npolicy", (13, 23), &["above zero"]),
        ("policy", "when_full = 5\npolicy", (13, 13), &["integer `5`", "\"spread\"", "a table"]),
        ("policy", "hash = { header = \"X User\" }\npolicy", (13, 19), &["not a header name"]),
        ("policy", "hash = {}\npolicy", (13, 8), &["without `header`"]),
        ("policy", "hash = \"cookie\"\npolicy", (13, 8), &["not a hash key", "`path`"]),
    ]);
}

#[test]
fn what_is_wrong_with_a_check_or_a_manager_is_told() {
    check(&[
        ("policy", "health = { rise = 2 }\npolicy", (13, 10), &["asks nothing", "tcp = true"]),
        ("policy", "health = { http = \"x\" }\npolicy", (13, 19), &["not a path", "slash"]),
        (
            "policy",
            "health = { http = \"/\", tcp = true }\npolicy",
            (13, 30),
            &["either `http` or `tcp`"],
        ),
        (
            "policy",
            "manager = { active = \"0%\", new = \"0%\" }\npolicy",
            (13, 11),
            &["nothing counts", "above 0%"],
        ),
        ("policy", "manager = { smoothing = 0.5 }\npolicy", (13, 25), &["out of range", "at once"]),
        (
            "policy",
            "health = { http = \"/\", advisor = \"smtp\" }\npolicy",
            (13, 34),
            &["either `http` or `advisor`"],
        ),
        (
            "policy",
            "health = { advisor = \"pop\" }\npolicy",
            (13, 22),
            &["not an advisor", "`dns`"],
        ),
        ("policy", "health = { tcp = false }\npolicy", (13, 18), &["`false` says nothing"]),
        ("policy", "health = { grpc = false }\npolicy", (13, 19), &["`false` says nothing"]),
        ("policy", "health = { grpc = \"a/B\" }\npolicy", (13, 19), &["not the name", "true"]),
        ("policy", "health = { grpc = true }\npolicy", (13, 19), &["http_version = \"2\""]),
        (
            "policy",
            "http_version = \"2\"\nhealth = { http = \"/\", grpc = true }\npolicy",
            (14, 31),
            &["either `http` or `grpc`"],
        ),
        (
            "policy",
            "health = { tcp = true, interval = \"1s\", fast_interval = \"2s\" }\npolicy",
            (13, 57),
            &["longer than `interval` (1s)"],
        ),
        ("policy", "health = { tcp = true, timeout = \"0s\" }\npolicy", (13, 34), &["above zero"]),
    ]);
}

#[test]
fn what_is_wrong_with_a_scripted_check_is_told() {
    check(&[
        ("policy", "health = { script = [] }\npolicy", (13, 21), &["without a step"]),
        ("policy", "health = { script = [{}] }\npolicy", (13, 22), &["does nothing", "one key"]),
        (
            "policy",
            "health = { script = [{ send = \"a\", send_hex = \"00\" }] }\npolicy",
            (13, 22),
            &["more than one thing"],
        ),
        (
            "policy",
            "health = { script = [{ send_hex = \"0?\" }] }\npolicy",
            (13, 35),
            &["left open", "expected"],
        ),
        (
            "policy",
            "health = { script = [{ expect_hex = \"0g\" }] }\npolicy",
            (13, 37),
            &["`g` is no hexadecimal digit"],
        ),
        (
            "policy",
            "health = { script = [{ contains_hex = \"0a\\n01\" }] }\npolicy",
            (13, 39),
            &["`\\n` is no hexadecimal digit"],
        ),
        ("policy", "health = { script = [{ expect = \"\" }] }\npolicy", (13, 33), &["no text"]),
        ("policy", "health = { script = [{ reply = \"\" }] }\npolicy", (13, 32), &["one to three"]),
        (
            "policy",
            "health = { script = [{ reply = \"abc\" }] }\npolicy",
            (13, 32),
            &["`abc` is not"],
        ),
        (
            "policy",
            "health = { script = [{ reply = \"2200\" }] }\npolicy",
            (13, 32),
            &["`2200` is not the beginning of a code", "\"220\""],
        ),
    ]);
}

#[test]
fn what_is_wrong_with_sticky_sessions_is_told() {
    check(&[
        (
            "policy",
            "sticky = {}\npolicy",
            (13, 10),
            &["one of `cookie`, `hash` and `header`", "{ hash = \"client-address\" }"],
        ),
        ("policy", "sticky = \"cookie\"\npolicy", (13, 10), &["string", "a table"]),
        (
            "policy",
            "sticky = { cookie = \"lb\" }\npolicy",
            (13, 10),
            &["a cookie without `key`", "openssl rand"],
        ),
        (
            "policy",
            "sticky = { cookie = \"lb\", key = \"guess me\" }\npolicy",
            (13, 33),
            &["a key of 8 characters can be guessed", "openssl rand"],
        ),
        (
            "policy",
            "sticky = { cookie = \"l b\", key = \"0123456789abcdef\" }\npolicy",
            (13, 21),
            &["`l b` is not a"],
        ),
        (
            "policy",
            "sticky = { hash = \"cookie\" }\npolicy",
            (13, 19),
            &["not a hash key", "`client-address`"],
        ),
        (
            "policy",
            "sticky = { hash = \"path\", header = \"X-User\" }\npolicy",
            (13, 10),
            &["one of `cookie`, `hash` and `header`"],
        ),
        ("policy", "sticky = { header = \"X User\" }\npolicy", (13, 21), &["not a header name"]),
        (
            "policy",
            "sticky = { hash = \"path\", ttl = \"1h\" }\npolicy",
            (13, 33),
            &["for sessions by `cookie`", "leave it out"],
        ),
        (
            "policy",
            "sticky = { hash = \"path\", time = \"1h\" }\npolicy",
            (13, 34),
            &["clients that stay by their address", "hash = \"client-address\""],
        ),
        (
            "policy",
            "sticky = { cookie = \"lb\", key = \"0123456789abcdef\", ttl = \"0s\" }\npolicy",
            (13, 59),
            &["above zero"],
        ),
    ]);
}

#[test]
fn a_key_that_is_refused_is_not_repeated() {
    let text =
        RIGHT.replacen("policy", "sticky = { cookie = \"lb\", key = \"hunter2\" }\npolicy", 1);
    let errors = parse_with("key.toml", &text, &LocalOnly).unwrap_err();
    let [error] = errors.errors() else { panic!("one error: {errors:?}") };
    let said = format!("{error}; {}", error.help_text());
    assert!(!said.contains("hunter2"), "{said}");
}

#[test]
fn a_time_that_a_header_has_in_seconds_is_no_part_of_one() {
    check(&[
        (
            "policy",
            "maintenance = { retry_after = \"1ms\" }\npolicy",
            (13, 31),
            &["`1ms` is not in whole seconds; write `1s`"],
        ),
        (
            "policy",
            "sticky = { cookie = \"lb\", key = \"0123456789abcdef\", ttl = \"1500ms\" }\npolicy",
            (13, 59),
            &["`1500ms` is not in whole seconds", "`1s` or `2s`"],
        ),
        (
            "service = \"web\"",
            "service = \"web\"\n\
             routes = [{ service = \"web\", cors = { origins = \"*\", max_age = \"1999ms\" } }]",
            (11, 64),
            &["`1999ms` is not in whole seconds"],
        ),
    ]);
}

#[test]
fn a_class_that_is_none_is_told_the_classes() {
    let route = |class: &str, action: &str| {
        format!("service = \"web\"\n[[listener.routes]]\npath = \"/\"\nclass = {class}\n{action}")
    };
    let (unknown, unused) =
        (route("\"vip\"", "service = \"web\""), route("\"high\"", "answer = { status = 200 }"));
    let checked = |slip: &str, place, words: &'static [&'static str]| {
        let slip: &'static str = slip.to_owned().leak();
        check(&[("service = \"web\"", slip, place, words)]);
    };
    check(&[
        ("policy", "class = \"hihg\"\npolicy", (13, 9), &["did you mean `high`?"]),
        ("policy", "class = 1\npolicy", (13, 9), &["integer `1`", "\"normal\""]),
    ]);
    checked(&unknown, (13, 9), &["`vip` is not a class of requests", "`low`"]);
    checked(&unused, (13, 9), &["for a route with `service` or `split`", "no server is asked"]);
}

#[test]
fn a_capacity_that_cannot_be_found_is_told() {
    check(&[
        ("max_rate = \"100/s\"", "capacity = \"100/s\"", (17, 12), &["not a capacity", "`auto`"]),
        ("max_rate = \"100/s\"", "capacity = 100", (17, 12), &["integer `100`", "\"auto\""]),
        (
            "[\"10.0.0.1:80\"]",
            "[{ address = \"10.0.0.1:80\", capacity = \"auto\" }]",
            (18, 39),
            &["unknown key `capacity`"],
        ),
    ]);
    let auto = RIGHT.replace("max_rate = \"100/s\"", "capacity = \"auto\"");
    assert!(parse_with("auto.toml", &auto, &LocalOnly).is_ok());
    let stream = auto.replace("service = \"web\"", "service = \"web\"\nprotocol = \"tcp\"");
    let errors = parse_with("tcp.toml", &stream, &LocalOnly).unwrap_err();
    let [error] = errors.errors() else { panic!("one error: {errors:?}") };
    assert_eq!((error.line(), error.column()), (10, 11));
    assert!(error.message().contains("`capacity = \"auto\"`, which needs HTTP"), "{error}");
}

#[test]
fn a_limit_out_of_range_is_told_the_range() {
    check(&[
        ("max_rate = \"100/s\"", "scaler = 0.05", (17, 10), &["0.05", "0.1 to 1"]),
        ("max_rate = \"100/s\"", "scaler = 1.5", (17, 10), &["1.5", "0 to drain"]),
        ("max_rate = \"100/s\"", "scaler = \"50%\"", (17, 10), &["number from 0.1 to 1"]),
        ("max_rate = \"100/s\"", "scaler = nan", (17, 10), &["0.1 to 1"]),
        ("max_rate = \"100/s\"", "max_utilization = \"300%\"", (17, 19), &["from 1% to 100%"]),
        ("max_rate = \"100/s\"", "max_utilization = \"0%\"", (17, 19), &["from 1% to 100%"]),
        ("max_rate = \"100/s\"", "max_in_flight = 0", (17, 17), &["at least 1"]),
        ("max_rate = \"100/s\"", "max_in_flight = 99999999999", (17, 17), &["at least 1"]),
        ("service = \"web\"", "service = \"web\"\nmax_connections = 0", (11, 19), &["from 1"]),
        (
            "service = \"web\"",
            "service = \"web\"\nlimits = { size = \"100B\" }",
            (11, 19),
            &["from 256B to 1MiB"],
        ),
        (
            "service = \"web\"",
            "service = \"web\"\nlimits = { size = \"16K\" }",
            (11, 19),
            &["not a size", "`16KiB`"],
        ),
        (
            "\"10.0.0.1:80\"",
            "{ address = \"10.0.0.1:80\", weight = 1001 }",
            (18, 48),
            &["from 0 to 1000"],
        ),
    ]);
}

#[test]
fn an_address_that_the_administration_shares_is_found() {
    check(&[
        (
            "[[listener]]",
            "[admin]\nbind = \"0.0.0.0:8080\"\n[[listener]]",
            (9, 8),
            &["`0.0.0.0:8080` is bound by the listener of `0.0.0.0:8080`"],
        ),
        (
            "[[listener]]",
            "[admin]\nbind = \"127.0.0.1:8080\"\n[[listener]]",
            (9, 8),
            &["`127.0.0.1:8080` is bound by the listener of `0.0.0.0:8080`"],
        ),
        (
            "[[listener]]\nbind = \":8080\"",
            "[admin]\nbind = \"127.0.0.1:8080\"\n[[listener]]\nbind = \"[::]:8080\"",
            (9, 8),
            &["`127.0.0.1:8080` is bound by the listener of `[::]:8080`"],
        ),
        (
            "[[listener]]\nbind = \":8080\"",
            "[admin]\nbind = \"[::]:8080\"\n[[listener]]\nbind = \"127.0.0.1:8080\"",
            (9, 8),
            &["`[::]:8080` is bound by the listener of `127.0.0.1:8080`"],
        ),
        (
            "[[listener]]\nbind = \":8080\"",
            "[admin]\nbind = \"[::ffff:127.0.0.1]:8080\"\n[[listener]]\nbind = \"127.0.0.1:8080\"",
            (9, 8),
            &["`[::ffff:127.0.0.1]:8080` is bound by the listener of `127.0.0.1:8080`"],
        ),
        (
            "threads = 2",
            "control = \"/run/ll.sock\"\n[admin]\nbind = \"/run/ll.sock\"",
            (5, 8),
            &["`/run/ll.sock` is the socket of `edge.control` too"],
        ),
    ]);
}

#[test]
fn what_does_not_fit_together_is_found() {
    check(&[
        ("service = \"web\"", "service = \"wbe\"", (10, 11), &["no service `wbe`", "`web`?"]),
        ("service = \"web\"\n", "", (8, 1), &["without `service`"]),
        ("bind = \":8080\"\n", "", (8, 1), &["without `bind`", ":8080"]),
        (
            "[service.web]",
            "[[listener]]\nbind = \"0.0.0.0:8080\"\nservice = \"web\"\n[service.web]",
            (13, 8),
            &["`0.0.0.0:8080` is bound by a listener above"],
        ),
        (
            "bind = \":8080\"",
            "bind = [\"127.0.0.1:8080\", \"[::ffff:127.0.0.1]:8080\"]",
            (9, 27),
            &["`[::ffff:127.0.0.1]:8080` is bound by a listener above"],
        ),
        ("[\"10.0.0.1:80\"]", "[]", (18, 11), &["no servers", "at least one"]),
        ("servers = [\"10.0.0.1:80\"]\n", "", (15, 1), &["no servers"]),
        (
            "\"10.0.0.1:80\"",
            "\"10.0.0.1:80\", { address = \"10.0.0.1:80\" }",
            (18, 27),
            &["`10.0.0.1:80` is in this group twice", "weight"],
        ),
        ("\"10.0.0.1:80\"", "{ weight = 2 }", (18, 12), &["without `address`"]),
        (
            "region = \"far\"",
            "region = \"near\"",
            (21, 10),
            &["second group named `near`", "name ="],
        ),
        ("region = \"far\"", "region = \"fra\"", (21, 10), &["unknown region `fra`", "`far`?"]),
        (
            "region = \"near\"\nthreads",
            "threads",
            (20, 10),
            &["in `near` and in `far`", "[edge] region = \"near\""],
        ),
        ("rtt = { near = \"30ms\" }\n", "", (20, 10), &["no distance from `near` to `far`", "rtt"]),
        ("{ near", "{ other", (21, 10), &["no distance from `near` to `far`"]),
        (
            "[[listener]]",
            "[regions.near]\nrtt = { far = \"40ms\" }\n[[listener]]",
            (9, 15),
            &["30ms apart elsewhere", "once"],
        ),
        (
            "[service.web]",
            "[service.\"a b\"]\n[[service.\"a b\".group]]\nservers = [\"10.0.0.9:1\"]\n\
             [service.web]",
            (12, 10),
            &["`a b` is not a name", "letters"],
        ),
        ("near\"\nthreads", "naer\"\nthreads", (2, 10), &["unknown region `naer`", "`near`?"]),
        (
            "[service.web]",
            "[service.idle]\n[service.web]",
            (12, 10),
            &["has no group", "service.idle.group"],
        ),
    ]);
}

/// Beyond that their places have no numbers: requests went to the first server, or twice to many.
#[test]
fn a_group_of_more_servers_than_it_has_places_for_is_refused_at_the_first_beyond() {
    let listed = |count: u32| {
        let server = |n: u32| format!("\"10.{}.{}.{}:80\"", 2 + (n >> 16), n >> 8 & 255, n & 255);
        let servers: Vec<String> = (0..count).map(server).collect();
        let text = RIGHT.replacen("\"10.0.0.1:80\"", &servers.join(",\n"), 1);
        parse_with("many.toml", &text, &LocalOnly)
    };
    assert!(listed(65_535).is_ok());
    let errors = listed(65_536).expect_err("one too many");
    let [error] = errors.errors() else { panic!("{:?}", errors.errors()) };
    assert_eq!((error.line(), error.column()), (18 + 65_535, 1));
    assert!(error.to_string().contains("65536 servers in one group"), "{error}");
    let help = error.help_text();
    assert!(help.contains("a group has 65535 servers at most: divide it"), "{help}");
}

#[test]
fn a_store_has_no_servers_beside_it_and_none_of_what_is_theirs() {
    let servers = "servers = [\"10.0.0.1:80\"]";
    let store = |store: &str, also: &str| RIGHT.replacen(servers, &format!("{store}{also}"), 1);
    let text = store("store = \"file:///srv/www\"", "");
    parse_with("store.toml", &text, &LocalOnly).expect("a right file");
    for (text, words) in [
        (store("store = \"file:///srv/www\"\n", servers), "servers beside `store`"),
        (store("store = \"/srv/www\"", ""), "write \"file:///srv/www\""),
        (store("store = {}", ""), "without `url`"),
        (store("store = { url = \"file:///srv/www\", index = \"a/b\" }", ""), "without slashes"),
        (store("store = { url = \"file:///srv\", region = \"auto\" }", ""), "`region` of files"),
        (store("store = \"s3://\"", ""), "the name of a bucket"),
        (store("store = { url = \"s3://b\", endpoint = \"minio:9000\" }", ""), "host and port"),
        (store("store = { url = \"az://b\", account = \"-1\" }", ""), "`-1` is no storage account"),
        (store("store = \"s3://b\"", ""), "one service speaks TLS to all its servers"),
        (text.replace("policy =", "prewarm = 1\npolicy ="), "`prewarm` with a group"),
        (text.replace("policy =", "http_version = \"2\"\npolicy ="), "http_version"),
        (text.replace("policy =", "send_proxy = \"v1\"\npolicy ="), "`send_proxy` with a group"),
        (text.replace("policy =", "health = { http = \"/\" }\npolicy ="), "`health` with a group"),
        (text.replace("[[listener]]\n", "[[listener]]\nprotocol = \"tcp\"\n"), "needs HTTP"),
    ] {
        let errors = parse_with("store.toml", &text, &LocalOnly).unwrap_err();
        let said = errors.errors().iter().map(|it| format!("{it} {}", it.help_text()));
        let said: Vec<String> = said.collect();
        assert!(said.iter().any(|it| it.contains(words)), "{words}: {said:?}\n{text}");
        assert!(errors.errors().iter().all(|error| error.line() > 0), "{said:?}");
    }
}

#[test]
fn soonest_needs_a_group_that_says_what_it_can_take() {
    let soonest = RIGHT.replace("policy =", "overflow = \"soonest\"\npolicy =");
    assert!(parse_with("rate.toml", &soonest, &LocalOnly).is_ok());
    let without = soonest.replace("max_rate = \"100/s\"\n", "");
    let errors = parse_with("soonest.toml", &without, &LocalOnly).unwrap_err();
    let [error] = errors.errors() else { panic!("one error: {errors:?}") };
    assert_eq!((error.line(), error.column()), (13, 12));
    assert!(error.message().contains("needs `max_in_flight` or `max_rate`"));
}

#[test]
fn an_empty_file_lacks_a_listener_and_a_service() {
    let errors = parse_with("empty.toml", "", &LocalOnly).unwrap_err();
    let said: Vec<String> = errors.errors().iter().map(ToString::to_string).collect();
    assert_eq!(said.len(), 2, "{said:?}");
    assert!(said[0].contains("no service") && said[1].contains("no listener"), "{said:?}");
}

#[test]
fn every_error_of_a_file_is_reported_at_once() {
    let text = RIGHT
        .replace("threads", "threds")
        .replace("\"web\"", "\"wbe\"")
        .replace("\"100/s\"", "100")
        .replace("10.1.0.1:80", "10.1.0.1");
    let errors = parse_with("many.toml", &text, &LocalOnly).unwrap_err();
    let lines: Vec<usize> = errors.errors().iter().map(FileError::line).collect();
    assert_eq!(lines, [3, 10, 17, 22]);
    assert_eq!(errors.to_string(), "many.toml: 4 errors in the configuration");
}

#[test]
fn the_only_region_of_the_groups_is_one_that_regions_names() {
    let of = |name: &str, edge: &str| {
        format!(
            "[[listener]]\nbind = \":8080\"\nservice = \"web\"\n[[service.web.group]]\n\
             region = \"{name}\"\nservers = [\"10.0.0.1:80\"]\n\
             [regions.a]\nrtt = {{ b = \"1ms\" }}\n{edge}"
        )
    };
    let errors = parse_with("region.toml", &of("c", ""), &LocalOnly).unwrap_err();
    let [error] = errors.errors() else { panic!("{errors:?}") };
    assert_eq!((error.line(), error.column()), (5, 10));
    assert_eq!(error.message(), "unknown region `c`");
    assert!(error.help_text().ends_with("expected one of `a`, `b`"), "{}", error.help_text());
    for text in [of("a", ""), of("b", ""), of("c", "[edge]\nregion = \"c\"\n")] {
        assert!(parse_with("region.toml", &text, &LocalOnly).is_ok(), "{text}");
    }
}

#[test]
fn a_hostile_file_of_thousands_of_errors_is_given_up_early() {
    let text =
        "[edge]\n".to_owned() + &(0..5000).map(|n| format!("k{n} = 1\n")).collect::<String>();
    let errors = parse_with("hostile.toml", &text, &LocalOnly).unwrap_err();
    assert_eq!(errors.errors().len(), 50);
}

#[test]
fn a_file_that_cannot_be_read_says_why() {
    let errors = load(Path::new("/nowhere/loadline.toml")).unwrap_err();
    assert!(errors.errors()[0].message().contains("cannot read `/nowhere/loadline.toml`"));

    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("latin1.toml");
    fs::write(&path, b"[edge]\nregion = \"Z\xfcrich\"\n").unwrap();
    let errors = load(&path).unwrap_err();
    let error = &errors.errors()[0];
    assert_eq!((error.line(), error.column()), (2, 12), "{error}");
    assert!(error.message().contains("not UTF-8"), "{error}");
}
