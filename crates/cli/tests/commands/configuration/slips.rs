//! The tables: one slip each in a right file, and wrong commands.

pub(crate) const RIGHT: &str = r#"[edge]
region = "near"

[[listener]]
bind = "127.0.0.1:0"
service = "web"

[service.web]
policy = "least-requests"
health = { http = "/", interval = "1s" }

[[service.web.group]]
region = "near"
max_rate = "100/s"
servers = ["10.0.0.1:80"]
"#;

/// What is replaced, by what, the line of the error, and words it has to have.
type Slip = (&'static str, &'static str, usize, &'static [&'static str]);

pub(crate) const SLIPS: &[Slip] = &[
    // Other formats.
    ("service = \"web\"", "service: \"web\"", 6, &["`=` stands between", "service = \"web\""]),
    ("service = \"web\"", "service:", 6, &["`[service]`"]),
    ("service = \"web\"", "service \"web\"", 6, &["the file is TOML", "`key = value`"]),
    ("service = \"web\"", "proxy_pass http://web;", 6, &["the file is TOML"]),
    ("[service.web]", "server {", 8, &["the file is TOML"]),
    ("[service.web]", "- name: web", 8, &["the file is TOML"]),
    ("[edge]", "{ \"edge\": {} }", 1, &["the file is TOML"]),
    ("[edge]", "// comment", 1, &["the file is TOML"]),
    ("policy = \"least-requests\"", "balance roundrobin", 9, &["the file is TOML"]),
    ("\"127.0.0.1:0\"", ":8080", 5, &["stand in quotes", "\":8080\""]),
    // A table is not a list of its values.
    ("[edge]\nregion = \"near\"", "edge = [\"near\"]\n", 1, &["found a list"]),
    // Variables.
    ("\"127.0.0.1:0\"", "\"${ADDRESS}\"", 5, &["`ADDRESS` is not set", "write a default"]),
    ("\"127.0.0.1:0\"", "${ADDRESS}", 5, &["variable is written", "in quotes"]),
    ("\"127.0.0.1:0\"", "\"127.0.0.1:$PORT\"", 5, &["an IP address and a port"]),
    ("\"10.0.0.1:80\"", "\"$SERVER\"", 15, &["an environment variable is written"]),
    ("\"100/s\"", "\"${RATE}/s\"", 14, &["`RATE` is not set"]),
    // Paths.
    ("[edge]", "[edge]\naccess_log = \"~/access.log\"", 2, &["`~` is not expanded"]),
    ("[edge]", "[edge]\npid_file = \"${RUN}/pid\"", 2, &["`RUN` is not set"]),
    ("[edge]", "admin.bind = \"~/admin.sock\"\n[edge]", 1, &["`~` is not expanded"]),
    // The cache on disk.
    (
        "[edge]",
        "cache.disk = { path = \"cache\" }\n[edge]",
        1,
        &["on disk without `size`", "20GiB"],
    ),
    ("[edge]", "cache.disk = { size = \"1GiB\" }\n[edge]", 1, &["on disk without `path`"]),
    ("[edge]", "cache.disk = { path = \"a\", size = \"1MiB\" }\n[edge]", 1, &["64MiB"]),
    ("[edge]", "cache.disk = \"/var/cache\"\n[edge]", 1, &["a table"]),
    // Ports and addresses.
    ("\"127.0.0.1:0\"", "\":99999\"", 5, &["ports are 1 to 65535"]),
    ("\"127.0.0.1:0\"", "\"127.0.0.1:65536\"", 5, &["ports are 1 to 65535"]),
    ("10.0.0.1:80", "10.0.0.1:99999", 15, &["ports are 1 to 65535"]),
    ("10.0.0.1:80", "web.internal:99999", 15, &["ports are 1 to 65535"]),
    ("[edge]", "admin.bind = \"127.0.0.1:99999\"\n[edge]", 1, &["ports are 1 to 65535"]),
    ("[edge]", "dns.servers = [\"10.0.0.53:99999\"]\n[edge]", 1, &["ports are 1 to 65535"]),
    ("\"127.0.0.1:0\"", "\"*:80\"", 5, &["write \":80\" for all addresses"]),
    ("\"127.0.0.1:0\"", "\"localhost:80\"", 5, &["write \"127.0.0.1:80\""]),
    ("\"127.0.0.1:0\"", "80", 5, &["found integer `80`", "\":8080\""]),
    ("\"10.0.0.1:80\"", "\"10.0.0.1\"", 15, &["add the port"]),
    ("[\"10.0.0.1:80\"]", "\"10.0.0.1:80\"", 15, &["a list stands in brackets: [\"10.0.0.1:80\"]"]),
    // Words of HAProxy, nginx and Envoy.
    ("\"least-requests\"", "\"leastconn\"", 9, &["did you mean `least-requests`?"]),
    ("\"least-requests\"", "\"least_conn\"", 9, &["did you mean `least-requests`?"]),
    ("\"least-requests\"", "\"LEAST_REQUEST\"", 9, &["did you mean `least-requests`?"]),
    ("\"least-requests\"", "\"roundrobin\"", 9, &["did you mean `round-robin`?"]),
    ("\"least-requests\"", "\"ROUND_ROBIN\"", 9, &["did you mean `round-robin`?"]),
    ("\"least-requests\"", "\"static-rr\"", 9, &["did you mean `round-robin`?"]),
    ("\"least-requests\"", "\"ip_hash\"", 9, &["`maglev` with hash = \"client-address\"?"]),
    ("\"least-requests\"", "\"source\"", 9, &["`maglev` with hash = \"client-address\"?"]),
    ("\"least-requests\"", "\"RING_HASH\"", 9, &["did you mean `bounded-hash`?"]),
    ("\"least-requests\"", "\"random(2)\"", 9, &["did you mean `power-of-two`?"]),
    ("\"least-requests\"", "\"least_time\"", 9, &["did you mean `lowest-latency`?"]),
    ("policy", "balance", 9, &["unknown key `balance`", "did you mean `policy`?"]),
    ("policy", "lb_policy", 9, &["did you mean `policy`?"]),
    ("policy =", "hash = \"source\"\npolicy =", 9, &["did you mean `client-address`?"]),
    ("health", "health_checks", 10, &["did you mean `health`?"]),
    ("health", "option_httpchk", 10, &["did you mean `health`?"]),
    ("interval", "inter", 10, &["did you mean `interval`?"]),
    ("interval = \"1s\"", "unhealthy_threshold = 3", 10, &["did you mean `fall`?"]),
    ("http = \"/\"", "path = \"/\"", 10, &["did you mean `http`?"]),
    ("health = {", "outlier_detection = {}\nhealth = {", 10, &["did you mean `ejection`?"]),
    ("health = {", "proxy_next_upstream = {}\nhealth = {", 10, &["did you mean `retry`?"]),
    ("bind", "listen", 5, &["did you mean `bind`?"]),
    ("bind", "mode = \"http\"\nbind", 5, &["did you mean `protocol`?"]),
    ("bind", "protocol = \"ssl\"\nbind", 5, &["did you mean `tls`?"]),
    ("bind", "protocol = \"grpc\"\nbind", 5, &["did you mean `http`?"]),
    ("service = \"web\"", "default_backend = \"web\"", 6, &["did you mean `service`?"]),
    (
        "service = \"web\"",
        "service = \"web\"\npolicy = \"maglev\"",
        7,
        &["a key of `service.NAME`"],
    ),
    ("region = \"near\"\n\n", "maxconn = 9\nregion = \"near\"\n\n", 2, &["`max_connections`?"]),
    ("region = \"near\"\n\n", "nbthread = 9\nregion = \"near\"\n\n", 2, &["mean `threads`?"]),
    ("[[listener]]", "[[frontend]]", 4, &["did you mean `listener`?"]),
    ("[service.web]", "[upstream.web]\n[service.web]", 8, &["did you mean `service`?"]),
    ("servers =", "backends =", 15, &["did you mean `servers`?"]),
    ("max_rate = \"100/s\"", "rps = 100", 14, &["did you mean `max_rate`?"]),
    ("max_rate = \"100/s\"", "max_rate = 100", 14, &["a rate", "\"100/s\""]),
];

/// Arguments, the exit code, and words that have to be said. `TAKEN` is an address in use.
type Wrong = (&'static str, i32, &'static [&'static str]);

pub(crate) const COMMANDS: &[Wrong] = &[
    ("serve --listen TAKEN --to 10.0.0.1:80", 2, &["cannot listen on", "Address already in use"]),
    ("serve taken.toml", 2, &["cannot listen on", "Address already in use"]),
    ("serve administration.toml", 2, &["the admin interface", "Address already in use"]),
    ("serve --listen :99999 --to 10.0.0.1:80", 1, &["--listen :99999", "ports are 1 to 65535"]),
    ("serve --listen :8080 --to 10.0.0.1:99999", 1, &["--to 10.0.0.1:99999", "1 to 65535"]),
    ("serve --listen 8080 --to 10.0.0.1:80", 1, &["write \":8080\" for all addresses"]),
    ("serve --listen :8080", 1, &["--to"]),
    ("serve a.toml --to 10.0.0.1:80", 1, &["--to", "cannot be used with"]),
    ("serve a.toml --insecure", 1, &["--insecure", "cannot be used with"]),
    ("serve --listen :0 --to 10.0.0.1:80 --watch", 1, &["--watch", "cannot be used with"]),
    ("serve --listen :0 --to 10.0.0.1:80 --xdp-mode native", 1, &["cannot be used with"]),
    ("serve nowhere.toml", 1, &["cannot read `nowhere.toml`", "No such file or directory"]),
    ("check nowhere.toml", 1, &["cannot read `nowhere.toml`", "No such file or directory"]),
    ("check empty", 1, &["cannot read `empty`", "no file in it ends in .toml"]),
    ("chek a.toml", 1, &["check"]),
    ("bench http://TAKEN/ --rate fast", 1, &["fast"]),
    (
        "serve --listen 127.0.0.1:0 --to 10.0.0.1:80 --pid-file no/pid",
        2,
        &["no/pid", "No such file"],
    ),
    ("upgrade a.toml", 1, &["edge.control"]),
    ("cluster status --edge a.toml", 1, &["there is no [cluster] in a.toml"]),
    ("cache purge --token-file a.toml example.com", 1, &["begins with `http://`"]),
    ("cache purge --token-file a.toml http://b\u{fc}cher.test/a", 1, &["xn--bcher-kva.example"]),
    ("weight web -1", 1, &["no quantity can be below zero"]),
    ("report nowhere.json", 1, &["nowhere.json", "No such file or directory"]),
    ("worker fixed --listen TAKEN", 2, &["cannot listen on", "Address already in use"]),
];
