//! The administration as people and machines use it: metrics, health, API, dashboard.
//!
//! Every process listens on a port of the loopback that the kernel chose, and is ended by its
//! handle.

use std::{
    fs,
    io::{BufRead as _, BufReader, Lines, Read as _, Write as _},
    net::TcpStream,
    path::PathBuf,
    process::{Child, ChildStdout, Command, Stdio},
    time::{Duration, Instant},
};

use serde_json::{Value, json};

use crate::becomes::becomes;

#[test]
fn metrics_are_well_formed_and_agree_with_what_was_sent() {
    let worker = Process::worker();
    let edge = Edge::before(&[&worker]);
    for _ in 0..7 {
        assert_eq!(get(&format!("http://{}/", edge.traffic)).status, 200);
    }
    // A client has its response before the request is counted.
    let complete = "loadline_requests_total{service=\"web\",ending=\"complete\"}";
    edge.until("/metrics", |answer| answer.body.contains(&format!("\n{complete} 7\n")));
    let open_metrics = "Accept: application/openmetrics-text; version=1.0.0";
    let text = curl(&["-H", open_metrics, &format!("http://{}/metrics", edge.admin)]).body;
    assert_well_formed(&text);
    let sample = |name: &str| {
        let line = text.lines().find_map(|line| line.strip_prefix(name));
        line.unwrap_or_else(|| panic!("{name} in {text}")).trim().to_owned()
    };
    assert_eq!(sample(complete), "7");
    assert_eq!(sample("loadline_responses_total{service=\"web\",code=\"2xx\"}"), "7");
    assert_eq!(sample("loadline_request_duration_seconds_count{service=\"web\"}"), "7");
    let labels = format!("{{service=\"web\",group=\"here\",server=\"{}\"}}", worker.place);
    assert_eq!(sample(&format!("loadline_server_requests_total{labels}")), "7");
    assert_eq!(
        sample("loadline_capacity_requests_per_second{service=\"web\",group=\"here\"}"),
        "50.0"
    );
}

#[test]
fn metrics_of_thousands_of_servers_come_in_pieces_and_who_reads_them_slowly_holds_nobody_up() {
    let worker = Process::worker();
    let edge = Edge::with(&[&worker], &many_servers(3_000));
    let mut slow = edge.slow_reader();
    let mut text = vec![0; 400];
    slow.read_exact(&mut text).unwrap();
    let head = String::from_utf8_lossy(&text).to_lowercase();
    assert!(head.contains("\r\ntransfer-encoding: chunked\r\n"), "{head}");

    // It does not read on for now.
    assert_eq!(edge.get("/healthz").status, 200);
    let group = "/api/services/web/groups/here";
    assert_eq!(edge.post(group, Some(TOKEN), Some(json!({ "scaler": 0.5 }))).status, 200);
    let all = edge.get("/metrics").body;
    assert_eq!(all.matches("\nloadline_in_flight{").count(), 3_001);

    slow.read_to_end(&mut text).unwrap();
    assert!(text.ends_with(b"\r\n0\r\n\r\n"), "it comes to its end");
    assert!(text.len() > all.len(), "{} of {}", text.len(), all.len());
}

#[test]
fn while_four_read_the_metrics_slowly_the_next_is_told_so_at_once() {
    let worker = Process::worker();
    let edge = Edge::with(&[&worker], &many_servers(8_000));
    let slow: Vec<TcpStream> = (0..4).map(|_| edge.slow_reader()).collect();
    // Each has its turn.
    slow.iter().for_each(|mut slow| slow.read_exact(&mut [0; 400]).unwrap());
    let url = format!("http://{}/metrics", edge.admin);
    let refused = curl(&["-i", "--max-time", "20", &url]);
    assert_eq!(refused.status, 503, "{}", refused.body);
    assert!(refused.body.to_lowercase().contains("\r\nretry-after: 30\r\n"), "{}", refused.body);
    drop(slow);
    edge.until("/metrics", |answer| answer.status == 200);
}

#[test]
fn while_as_many_watch_the_dashboard_as_may_the_next_is_told_so() {
    let worker = Process::worker();
    let edge = Edge::before(&[&worker]);
    let watching: Vec<TcpStream> = (0..64).map(|_| edge.reader("/live")).collect();
    // Each has its place.
    watching.iter().for_each(|mut it| it.read_exact(&mut [0; 100]).unwrap());
    let url = format!("http://{}/live", edge.admin);
    let refused = curl(&["-i", "--max-time", "20", &url]);
    assert_eq!(refused.status, 503, "{}", refused.body);
    assert!(refused.body.to_lowercase().contains("\r\nretry-after: 30\r\n"), "{}", refused.body);
    assert_eq!(edge.get("/healthz").status, 200);
}

#[test]
fn metrics_by_groups_leave_out_the_series_of_single_servers() {
    let worker = Process::worker();
    let by_groups = Edge::administered(&[&worker], "metrics = \"groups\"\n", &many_servers(20));
    let text = by_groups.get("/metrics").body;
    assert!(!text.contains("server=\""), "{text}");
    assert!(text.contains("\nloadline_scaler_ratio{service=\"web\",group=\"here\"} "), "{text}");
    let many = &by_groups.get("/api/state").json()["services"][1]["groups"][0];
    assert_eq!(many["servers"].as_array().unwrap().len(), 20, "the API has them all: {many}");
}

/// A service beside the usual one, of so many servers that nobody asks for anything.
fn many_servers(count: u32) -> String {
    let address = |index| format!("\"127.9.{}.{}:1\"", index / 250, index % 250 + 1);
    let servers: Vec<String> = (0..count).map(address).collect();
    format!("[service.many]\n[[service.many.group]]\nservers = [{}]\n", servers.join(", "))
}

#[test]
fn promtool_has_nothing_to_say_of_what_curl_gets_and_it_tells_when_certificates_end() {
    let (chain, key) = (file("ends.pem", ""), file("ends.key", ""));
    let mut openssl = Command::new("openssl");
    openssl.args(["req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "10"]);
    openssl.args(["-subj", "/CN=a.test", "-addext", "subjectAltName=DNS:a.test"]);
    let made = openssl.arg("-out").arg(&chain).arg("-keyout").arg(&key).output().unwrap();
    assert!(made.status.success(), "{}", String::from_utf8_lossy(&made.stderr));
    let (chain, key) = (chain.display(), key.display());
    let worker = Process::worker();
    let secure = format!(
        "[[listener]]\nbind = \"127.0.0.1:0\"\nprotocol = \"https\"\nservice = \"web\"\n\
         tls = {{ certificates = [{{ chain = \"{chain}\", key = \"{key}\" }}] }}\n"
    );
    let edge = Edge::with(&[&worker], &secure);
    assert_eq!(get(&format!("http://{}/", edge.traffic)).status, 200);
    let text = edge.get("/metrics").body;

    let mut promtool = Command::new("promtool");
    let promtool = promtool.args(["check", "metrics"]).stdin(Stdio::piped());
    let mut promtool =
        promtool.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("promtool");
    promtool.stdin.take().unwrap().write_all(text.as_bytes()).unwrap();
    let said = promtool.wait_with_output().unwrap();
    let both = [said.stdout, said.stderr].concat();
    assert!(said.status.success() && both.is_empty(), "{}", String::from_utf8_lossy(&both));

    let metric = format!("loadline_certificate_remaining_seconds{{file=\"{chain}\"}} ");
    let left = text.lines().find_map(|line| line.strip_prefix(&metric)).expect(&text);
    let days = left.parse::<f64>().unwrap() / 86_400.0;
    assert!((9.9..=10.0).contains(&days), "{days} days");
    let certificate = &edge.get("/api/state").json()["certificates"][0];
    assert_eq!(certificate["names"], json!(["a.test"]));
    assert!((9.9..=10.0).contains(&certificate["days_left"].as_f64().unwrap()), "{certificate}");
}

#[test]
fn every_metric_is_in_the_documentation_and_every_one_of_it_is_told() {
    let page = fs::read_to_string(repository("docs/operation.md")).unwrap();
    let table = loadline_control::admin::metrics_reference();
    assert!(page.contains(&table), "run: make generated; docs/operation.md should hold:\n{table}");
}

#[test]
fn an_edge_is_ready_while_a_server_is_up_and_never_while_it_drains() {
    let worker = Process::worker();
    let edge = Edge::before(&[&worker]);
    assert_eq!(edge.get("/healthz").status, 200);
    assert_eq!(edge.get("/readyz").status, 200);

    drop(worker);
    edge.until("/readyz", |answer| answer.status == 503);
    assert!(edge.get("/readyz").body.contains("no server of `web`"));

    // A request under way keeps the process in its drain.
    let slow = Process::start(&["worker", "page", "--listen", "127.0.0.1:0"]);
    let edge = Edge::before(&[&slow]);
    let mut client = Command::new("curl");
    let client = client.args(["-s", &format!("http://{}/", edge.traffic)]);
    let mut client = client.stdout(Stdio::null()).spawn().unwrap();
    edge.until("/api/state", |answer| {
        answer.json()["services"][0]["groups"][0]["load"]["in_flight"] == 1
    });
    edge.process.signal("TERM");
    edge.until("/readyz", |answer| answer.status == 503 && answer.body.contains("draining"));
    client.wait().unwrap();
}

#[test]
fn changes_need_the_token_hold_until_a_reload_and_are_listed() {
    let (one, two) = (Process::worker(), Process::worker());
    let edge = Edge::before(&[&one, &two]);
    let server = format!("/api/services/web/groups/here/servers/{}", one.place);
    for token in [None, Some("wrong"), Some("")] {
        let refused = edge.post(&server, token, Some(json!({ "mode": "drain" })));
        assert_eq!(refused.status, 401, "{token:?}: {}", refused.body);
    }
    assert_eq!(edge.get("/api/changes").json(), json!({ "changes": [] }));

    let token = Some(TOKEN);
    assert_eq!(edge.post(&server, token, Some(json!({ "mode": "drain" }))).status, 200);
    let group = "/api/services/web/groups/here";
    assert_eq!(edge.post(group, token, Some(json!({ "scaler": 0.5 }))).status, 200);
    edge.until("/api/services/web", |answer| {
        let group = &answer.json()["groups"][0];
        group["limits"]["rate_per_s"] == 25.0 && group["servers"][0]["condition"] == "drained"
    });
    for _ in 0..4 {
        assert_eq!(get(&format!("http://{}/", edge.traffic)).status, 200);
    }
    edge.until("/api/services/web", |answer| {
        let servers = &answer.json()["groups"][0]["servers"];
        [&servers[0], &servers[1]].map(|server| &server["requests"]) == [&json!(0), &json!(4)]
    });
    assert!(edge.get("/api/changes.toml").body.contains("scaler = 0.5"));

    let reloaded = edge.post("/api/reload", token, None);
    assert_eq!((reloaded.status, reloaded.json()), (200, json!({ "changes": [] })));
    edge.until("/api/services/web", |answer| {
        answer.json()["groups"][0]["limits"]["rate_per_s"] == 50.0
    });
}

#[test]
fn who_is_told_that_a_change_is_made_finds_it_in_force_at_once() {
    let worker = Process::worker();
    // A plan with so many services takes a moment.
    let service =
        |n: u32| format!("[service.s{n}]\n[[service.s{n}.group]]\nservers = [\"127.9.0.1:1\"]\n");
    let services: String = (0..1_000).map(service).collect();
    let edge = Edge::with(&[&worker], &services);
    let server = format!("/api/services/web/groups/here/servers/{}", worker.place);
    for (round, mode) in ["drain", "active"].iter().cycle().take(20).enumerate() {
        let body = json!({ "mode": mode }).to_string();
        let told = edge.pipelined(&format!(
            "POST {server} HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer {TOKEN}\r\n\
             Content-Type: application/json\r\nContent-Length: {}\r\n\r\n{body}\
             GET /api/services/web HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n",
            body.len()
        ));
        assert!(told.starts_with("HTTP/1.1 200"), "{told}");
        let is_drained = told.contains("\"condition\":\"drained\"");
        assert_eq!(is_drained, *mode == "drain", "round {round}: {told}");
    }
}

#[test]
fn who_reloads_a_wrong_file_is_told_where_and_what_would_be_right() {
    let worker = Process::worker();
    let edge = Edge::before(&[&worker]);
    edge.append("[service.new]\npolicy = \"least-request\"\n");
    let lines = fs::read_to_string(&edge.file).unwrap().lines().count();
    let refused = edge.post("/api/reload", Some(TOKEN), None);
    assert_eq!(refused.status, 422, "{}", refused.body);
    let error = refused.json()["error"].as_str().unwrap().to_owned();
    assert!(error.contains(&format!("admin.toml:{lines}: ")), "{error}");
    assert!(error.contains("least-requests"), "{error}");
}

#[test]
fn a_server_is_drained_and_put_back_and_a_group_scaled_from_the_command_line() {
    let worker = Process::worker();
    let edge = Edge::before(&[&worker]);
    let token = file("command-token", TOKEN);
    let loadline = |args: &[&str]| {
        let mut command = Command::new(env!("CARGO_BIN_EXE_loadline"));
        let command = command.args(args).args(["--at", &edge.admin, "--token-file"]).arg(&token);
        let ran = command.output().unwrap();
        let told = String::from_utf8_lossy(&[ran.stdout, ran.stderr].concat()).into_owned();
        (ran.status.code(), told)
    };
    let group = || edge.get("/api/state").json()["services"][0]["groups"][0].clone();
    let traffic = || get(&format!("http://{}/", edge.traffic)).status;

    let (code, told) = loadline(&["drain", &worker.place, "--deadline", "30s"]);
    assert_eq!(code, Some(0), "{told}");
    assert!(
        told.contains(&format!("web/here/{}: deadline_s = 30.0, mode = drain", worker.place)),
        "{told}"
    );
    until("it is drained", || traffic() == 503);
    let (code, told) = loadline(&["activate", &format!("web/{}", worker.place)]);
    assert_eq!(code, Some(0), "{told}");
    until("it is put back", || traffic() == 200);
    let (code, told) = loadline(&["weight", &worker.place, "3"]);
    assert_eq!(code, Some(0), "{told}");
    until("it has this weight", || group()["servers"][0]["weight"] == 3);
    let (code, told) = loadline(&["scaler", "web/here", "0.5"]);
    assert_eq!(code, Some(0), "{told}");
    until("it is scaled", || group()["scaler"] == 0.5);
    let (code, told) = loadline(&["maintenance", "web"]);
    assert_eq!(code, Some(0), "{told}");
    assert!(told.contains("web: maintenance = true; until the next reload"), "{told}");
    until("it is in maintenance", || traffic() == 503);
    let changes = edge.get("/api/changes").json()["changes"].clone();
    let listed = changes.as_array().unwrap().iter().find(|it| it["maintenance"] == true).unwrap();
    assert_eq!((&listed["service"], &listed["group"]), (&json!("web"), &Value::Null));
    let (code, told) = loadline(&["activate", "web"]);
    assert_eq!(code, Some(0), "{told}");
    until("it is out of maintenance", || traffic() == 200);
    let (code, told) = loadline(&["maintenance", "10.9.9.9:80"]);
    assert_eq!(code, Some(2), "{told}");
    assert!(told.contains("nothing is called `10.9.9.9:80`"), "{told}");
    let wrong: [&[&str]; 5] = [
        &["drain", "web"],
        &["drain", "web/here", "--deadline", "30s"],
        &["maintenance", "web/here"],
        &["weight", "web/here", "3"],
        &["scaler", "web", "0.5"],
    ];
    for args in wrong {
        let (code, told) = loadline(args);
        assert_eq!(code, Some(1), "{args:?}: {told}");
    }
}

#[test]
fn a_token_file_that_is_empty_is_told_in_the_words_of_the_edge() {
    let worker = Process::worker();
    let edge = Edge::before(&[&worker]);
    let changes: [&[&str]; 2] =
        [&["drain", &worker.place], &["cache", "purge", "http://a.test/page"]];
    for args in changes {
        let mut command = Command::new(env!("CARGO_BIN_EXE_loadline"));
        let command = command.args(args).args(["--at", &edge.admin, "--token-file", "/dev/null"]);
        let ran = command.output().unwrap();
        let told = String::from_utf8_lossy(&ran.stderr);
        assert_eq!(ran.status.code(), Some(2), "{args:?}: {told}");
        let why = "the token in /dev/null is too short: its first line needs 16 characters";
        assert!(told.contains(why), "{args:?}: {told}");
    }
}

#[test]
fn top_without_a_terminal_is_wrong_usage_whether_there_is_an_edge_or_not() {
    let ran = Command::new(env!("CARGO_BIN_EXE_loadline")).args(["top", "127.0.0.1:1"]).output();
    let ran = ran.unwrap();
    let told = String::from_utf8_lossy(&ran.stderr);
    assert_eq!(ran.status.code(), Some(1), "{told}");
    assert!(told.contains("--once or --json"), "{told}");
}

#[test]
fn every_route_of_the_description_answers_as_it_says() {
    let worker = Process::worker();
    let edge = Edge::before(&[&worker]);
    let text = fs::read_to_string(repository("docs/openapi.json")).unwrap();
    let description: Value = serde_json::from_str(&text).unwrap();
    assert_eq!(description, edge.get("/openapi.json").json(), "run: make generated");
    let history = "/api/services/web/history";
    edge.until(history, |answer| answer.status == 200);
    for (path, operations) in description["paths"].as_object().unwrap() {
        for (method, operation) in operations.as_object().unwrap() {
            for server in [worker.place.as_str(), "10.0.0.1:1"] {
                let concrete = path.replace("{service}", "web").replace("{group}", "here");
                let concrete = concrete.replace("{server}", server);
                let answer = match method.as_str() {
                    "get" => edge.get(&concrete),
                    _ => edge.post(&concrete, Some(TOKEN), Some(change_for(path))),
                };
                assert_answers_as_told(&description, operation, &answer, &concrete);
            }
            if method == "post" {
                let answer = edge.post(&path.replace(['{', '}'], ""), None, None);
                assert_eq!(answer.status, 401, "{path}");
                assert_answers_as_told(&description, operation, &answer, path);
            }
        }
    }
    let absent = edge.get("/api/services/nobody");
    let operation = &description["paths"]["/api/services/{service}"]["get"];
    assert_eq!(absent.status, 404);
    assert_answers_as_told(&description, operation, &absent, "a service that is not there");
    let undecodable = edge.get("/api/services/%ff");
    assert_eq!(undecodable.status, 400);
    assert_answers_as_told(&description, operation, &undecodable, "a name that is not UTF-8");
}

#[test]
fn a_service_that_is_new_has_a_history_without_samples_and_one_that_is_not_there_none() {
    let worker = Process::worker();
    let edge = Edge::before(&[&worker]);
    let group = format!("[[service.new.group]]\nservers = [{:?}]\n", worker.place);
    edge.append(&group);
    assert_eq!(edge.post("/api/reload", Some(TOKEN), None).status, 200);
    edge.until("/api/services/new/history", |answer| answer.status == 200);
    let history = edge.get("/api/services/new/history");
    assert!(history.json()["samples"].is_array(), "{}", history.body);
    assert_eq!(edge.get("/api/services/nobody/history").status, 404);
}

#[test]
fn flows_of_what_is_no_address_no_service_or_no_method_are_an_error_and_not_none() {
    let worker = Process::worker();
    let edge = Edge::before(&[&worker]);
    let right = "client=%5Bfd77%3A%3A1%5D&server=10.0.0.21:80&service=web&method=ipip";
    let right = edge.get(&format!("/api/flows?{right}"));
    assert_eq!(right.status, 200, "{}", right.body);
    for wrong in [
        "client=foo", "server=10.0.0.21:99999", "client=10.0.0.0/24", "service=nosuch",
        "method=xyz",
    ] {
        let answer = edge.get(&format!("/api/flows?{wrong}"));
        assert_eq!(answer.status, 422, "{wrong}: {}", answer.body);
    }
    for (option, value, code) in [
        ("--client", "foo", 1),
        ("--server", "10.0.0.21:99999", 1),
        ("--client", "10.0.0.0/24", 1),
        ("--service", "nosuch", 2),
        ("--client", "[fd77::1]", 0),
    ] {
        let mut loadline = Command::new(env!("CARGO_BIN_EXE_loadline"));
        let ran = loadline.args(["l4", "flows", &edge.admin, option, value]).output().unwrap();
        let told = String::from_utf8_lossy(&ran.stderr);
        assert_eq!(ran.status.code(), Some(code), "{option} {value}: {told}");
    }
}

#[test]
fn values_out_of_range_are_refused_with_what_would_be_right() {
    let worker = Process::worker();
    let edge = Edge::before(&[&worker]);
    let group = "/api/services/web/groups/here";
    let server = format!("{group}/servers/{}", worker.place);
    let cases = [
        (group, json!({ "scaler": 0.01 }), 422, "0.1"),
        (group, json!({ "scaler": -3 }), 422, "0.1"),
        (group, json!({ "scaler": 1e-300 }), 422, "0.1"),
        (group, json!({ "scale": 1 }), 422, "scaler"),
        (server.as_str(), json!({ "weight": 5000 }), 422, "1000"),
        (server.as_str(), json!({ "weight": 5_000_000_000_u64 }), 422, "from 0 to 1000"),
        (server.as_str(), json!({}), 422, "weight"),
        (server.as_str(), json!({ "mode": "drain", "deadline_s": -1 }), 422, "cuts at once"),
        (server.as_str(), json!({ "mode": "active", "deadline_s": 1 }), 422, "mode `drain`"),
        (server.as_str(), json!({ "weight": 2.5 }), 422, "`2.5`, expected a whole number"),
        (group, json!({ "scaler": "1" }), 422, "the body: scaler: invalid type"),
        (group, json!({ "scaler": null }), 422, "null, expected a number"),
        (group, json!([0]), 422, "sequence, expected an object"),
        ("/api/services/web/groups/there", json!({ "scaler": 1 }), 404, "there"),
    ];
    let query = edge.get("/api/cache/objects?limit=-1");
    assert_eq!(query.status, 422);
    assert!(query.json()["error"].as_str().unwrap().starts_with("the query: limit: "));
    for (path, body, status, told) in cases {
        let refused = edge.post(path, Some(TOKEN), Some(body.clone()));
        assert_eq!(refused.status, status, "{body}: {}", refused.body);
        assert!(refused.json()["error"].as_str().unwrap().contains(told), "{}", refused.body);
    }
}

#[test]
fn a_request_that_is_none_is_refused_with_a_reason_in_json() {
    let worker = Process::worker();
    let edge = Edge::before(&[&worker]);
    let refused = edge.get("/api/services/w%ffb");
    assert_eq!(refused.status, 400, "{}", refused.body);
    assert!(refused.json()["error"].as_str().unwrap().contains("UTF-8"), "{}", refused.body);
    let absent = edge.get("/api/nothing?x=1");
    assert_eq!(absent.status, 404, "{}", absent.body);
    let told = absent.json()["error"].as_str().unwrap().to_owned();
    assert!(told.contains("there is no `/api/nothing`"), "{told}");
    for (line, hosts, status) in [
        ("GET /healthz HTTP/1.1", "", 400),
        ("GET /healthz HTTP/1.1", "Host: localhost\r\nHost: localhost\r\n", 400),
        ("GET /healthz HTTP/1.1", "Host: localhost\r\n", 200),
        ("GET /healthz HTTP/1.0", "", 200),
    ] {
        let mut client = TcpStream::connect(&edge.admin).unwrap();
        client.set_read_timeout(Some(Duration::from_secs(30))).unwrap();
        write!(client, "{line}\r\n{hosts}Connection: close\r\n\r\n").unwrap();
        let mut answer = String::new();
        client.read_to_string(&mut answer).unwrap();
        assert!(answer[8..].starts_with(&format!(" {status} ")), "{line} {hosts}: {answer}");
    }
}

#[test]
fn the_dashboard_shows_the_load_line_and_is_renewed_by_itself() {
    let worker = Process::worker();
    let edge = Edge::before(&[&worker]);
    let page = edge.get("/").body;
    assert!(page.contains("load line 50/s") && page.contains("1 of 1 servers take part"), "{page}");
    assert!(!page.contains("http://") && !page.contains("https://"), "nothing from elsewhere");
    assert!(page.contains("<section id=\"service-web\""), "no name of a service is one of ours");
    assert!(page.contains("href=\"#service-web\""), "{page}");
    for part in ["/dashboard.css", "/dashboard.js"] {
        assert_eq!(edge.get(part).status, 200, "{part}");
    }
    let mut watcher = Command::new("curl");
    let watcher = watcher.args(["-sN", "--max-time", "30", &format!("http://{}/live", edge.admin)]);
    let mut watcher = watcher.stdout(Stdio::piped()).spawn().unwrap();
    let mut events = BufReader::new(watcher.stdout.take().unwrap()).lines();
    let mut lines = events.by_ref().map(Result::unwrap);
    assert!(lines.any(|line| line == "event: alive"), "a sign of life, whatever there is to see");
    let shown = events.map(Result::unwrap).find(|line| line.starts_with("data: <"));
    let event = shown.unwrap();
    assert!(event.contains("load line 50/s"), "{event}");
    watcher.kill().unwrap();
    watcher.wait().unwrap();
}

/// What to send to a route that changes something.
fn change_for(path: &str) -> Value {
    match path {
        "/api/services/{service}" => json!({ "maintenance": false }),
        "/api/services/{service}/groups/{group}" => json!({ "scaler": 1.0 }),
        // An integer by JSON Schema.
        _ => json!({ "weight": 1.0, "mode": "active" }),
    }
}

fn assert_answers_as_told(
    description: &Value,
    operation: &Value,
    answer: &AdminResponse,
    what: &str,
) {
    let told = &operation["responses"][answer.status.to_string()];
    assert!(!told.is_null(), "{what}: {} is not described: {}", answer.status, answer.body);
    let Some(schema) = told["content"]["application/json"].get("schema") else { return };
    let mut schema = schema.clone();
    schema["components"] = description["components"].clone();
    let validator = jsonschema::validator_for(&schema).unwrap();
    let body = answer.json();
    let wrong: Vec<String> = validator.iter_errors(&body).map(|error| error.to_string()).collect();
    assert!(wrong.is_empty(), "{what}: {wrong:#?} in {body:#}");
}

/// The OpenMetrics text format, as strictly as lines can be judged: every sample belongs to the
/// family announced before it, its labels are quoted, its value is a number, bins add up.
fn assert_well_formed(text: &str) {
    assert!(text.ends_with("# EOF\n"));
    let mut family = "";
    let mut kind = "";
    let mut told = Vec::new();
    for line in text.lines().filter(|line| *line != "# EOF") {
        if let Some(rest) = line.strip_prefix("# HELP ") {
            family = rest.split(' ').next().unwrap();
            assert!(!told.contains(&family), "{family} is announced twice");
            told.push(family);
        } else if let Some(rest) = line.strip_prefix("# TYPE ") {
            kind = rest.strip_prefix(family).unwrap().trim();
        } else {
            let (series, value) = line.rsplit_once(' ').unwrap();
            assert!(value.parse::<f64>().is_ok(), "{line}");
            let name = series.split('{').next().unwrap();
            let suffixes: &[&str] = match kind {
                "counter" => &["_total"],
                "gauge" => &[""],
                "histogram" => &["_sum", "_count", "_bucket"],
                other => panic!("{other} in {line}"),
            };
            let suffix =
                name.strip_prefix(family).unwrap_or_else(|| panic!("{line}: not {family}"));
            assert!(suffixes.contains(&suffix), "{line}");
            assert_eq!(series.contains('{'), series.ends_with('}'), "{line}");
        }
    }
}

struct AdminResponse {
    status: u16,
    body: String,
}

impl AdminResponse {
    fn json(&self) -> Value {
        serde_json::from_str(&self.body).unwrap_or_else(|_| panic!("not JSON: {}", self.body))
    }
}

fn get(url: &str) -> AdminResponse {
    curl(&[url])
}

fn curl(args: &[&str]) -> AdminResponse {
    let output = Command::new("curl").args(["-s", "-w", "\n%{http_code}"]).args(args).output();
    let text = String::from_utf8(output.unwrap().stdout).unwrap();
    let (body, status) = text.rsplit_once('\n').unwrap();
    AdminResponse { status: status.parse().unwrap(), body: body.to_owned() }
}

/// A process that is ready; killed when it is dropped.
struct Process {
    child: Child,
    lines: Lines<BufReader<ChildStdout>>,
    place: String,
}

impl Process {
    fn start(args: &[&str]) -> Self {
        let mut command = Command::new(env!("CARGO_BIN_EXE_loadline"));
        let command = command.args(args).env_remove("RUST_LOG").stderr(Stdio::null());
        let mut child = command.stdout(Stdio::piped()).spawn().unwrap();
        let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
        let place = after(&mut lines, "listening on ");
        Self { child, lines, place }
    }

    /// A test server that answers at once.
    fn worker() -> Self {
        Self::start(&["worker", "fixed", "--listen", "127.0.0.1:0"])
    }

    fn signal(&self, name: &str) {
        let told = Command::new("kill").args(["-s", name, &self.child.id().to_string()]).status();
        assert!(told.unwrap().success());
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        // Both fail where it has ended already.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// The rest of the next line, which begins like this.
fn after(lines: &mut Lines<BufReader<ChildStdout>>, start: &str) -> String {
    let line = lines.next().expect("a line").unwrap();
    line.strip_prefix(start).unwrap_or_else(|| panic!("{line}")).to_owned()
}

/// A proxy with an administration.
struct Edge {
    process: Process,
    traffic: String,
    admin: String,
    file: PathBuf,
}

impl Edge {
    /// In front of one group, `here`, of these servers, with 50 requests per second.
    fn before(servers: &[&Process]) -> Self {
        Self::with(servers, "")
    }

    /// The same with further lines in its file.
    fn with(servers: &[&Process], lines: &str) -> Self {
        Self::administered(servers, "", lines)
    }

    /// The same with further lines in the table of the administration too.
    fn administered(servers: &[&Process], admin: &str, lines: &str) -> Self {
        let servers: Vec<String> = servers.iter().map(|it| format!("\"{}\"", it.place)).collect();
        let token = file("token", TOKEN);
        let config = format!(
            "[admin]\nbind = \"127.0.0.1:0\"\ntoken_file = \"{}\"\n{admin}\
             [[listener]]\nbind = \"127.0.0.1:0\"\nservice = \"web\"\n\
             [service.web]\nhealth = {{ tcp = true, interval = \"50ms\", fall = 1 }}\n\
             [[service.web.group]]\nregion = \"here\"\nmax_rate = \"50/s\"\nservers = [{}]\n\
             {lines}",
            token.display(),
            servers.join(", ")
        );
        let file = file("admin.toml", &config);
        let mut process = Process::start(&["serve", file.to_str().unwrap()]);
        for _ in 0..lines.matches("[[listener]]").count() {
            after(&mut process.lines, "listening on ");
        }
        let admin = after(&mut process.lines, "administration on ");
        Self { traffic: process.place.clone(), admin, file, process }
    }

    /// Adds these lines to its file.
    fn append(&self, lines: &str) {
        let text = fs::read_to_string(&self.file).unwrap();
        fs::write(&self.file, text + lines).unwrap();
    }

    fn get(&self, path: &str) -> AdminResponse {
        get(&format!("http://{}{path}", self.admin))
    }

    fn post(&self, path: &str, token: Option<&str>, body: Option<Value>) -> AdminResponse {
        let url = format!("http://{}{path}", self.admin);
        let header = token.map(|token| format!("Authorization: Bearer {token}"));
        let body = body.map(|body| body.to_string());
        let mut args = vec!["-X", "POST", url.as_str(), "-H", "Content-Type: application/json"];
        header.iter().for_each(|header| args.extend(["-H", header]));
        body.iter().for_each(|body| args.extend(["-d", body]));
        curl(&args)
    }

    /// Sends requests, of which the last ends the connection, before the first is answered.
    fn pipelined(&self, requests: &str) -> String {
        let mut stream = TcpStream::connect(&self.admin).unwrap();
        stream.set_read_timeout(Some(Duration::from_secs(30))).unwrap();
        stream.write_all(requests.as_bytes()).unwrap();
        let mut text = String::new();
        stream.read_to_string(&mut text).unwrap();
        text
    }

    /// Somebody who asks for the metrics and has read nothing of them yet.
    fn slow_reader(&self) -> TcpStream {
        self.reader("/metrics")
    }

    /// Somebody who asks for this and has read nothing of it yet.
    fn reader(&self, path: &str) -> TcpStream {
        let mut reader = TcpStream::connect(&self.admin).unwrap();
        reader.set_read_timeout(Some(Duration::from_secs(30))).unwrap();
        let rest = "HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n";
        reader.write_all(format!("GET {path} {rest}").as_bytes()).unwrap();
        reader
    }

    /// Asks until the response is as wanted, for ten seconds.
    fn until(&self, path: &str, wanted: impl Fn(&AdminResponse) -> bool) {
        let deadline = Instant::now() + Duration::from_secs(10);
        loop {
            let answer = self.get(path);
            if wanted(&answer) {
                return;
            }
            assert!(Instant::now() < deadline, "{path} stays {}: {}", answer.status, answer.body);
        }
    }
}

/// Waits for it: what is changed comes into force a moment later.
fn until(what: &str, is_so: impl Fn() -> bool) {
    assert!(becomes(is_so), "{what}");
}

fn repository(path: &str) -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../..").join(path)
}

/// A file of its own for a test, removed with the target directory.
fn file(name: &str, text: &str) -> PathBuf {
    use std::sync::atomic::{AtomicU32, Ordering::Relaxed};
    static FILES: AtomicU32 = AtomicU32::new(0);
    let name = format!("{}-{}-{name}", std::process::id(), FILES.fetch_add(1, Relaxed));
    let path = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join(name);
    fs::write(&path, text).unwrap();
    path
}

const TOKEN: &str = "0123456789abcdef0123456789abcdef";
