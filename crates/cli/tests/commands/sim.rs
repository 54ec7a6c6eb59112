//! `loadline sim` as people call it.

use std::{
    fs,
    path::{Path, PathBuf},
    process::{Command, Output},
};

use serde_json::Value;

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

fn sim(args: &[&str]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_loadline"));
    command.current_dir(root()).arg("sim").args(args).output().unwrap()
}

/// The record that is printed with --json.
fn record(args: &[&str]) -> Value {
    let output = sim(&[args, &["--json"]].concat());
    let error = String::from_utf8_lossy(&output.stderr);
    serde_json::from_slice(&output.stdout).unwrap_or_else(|wrong| panic!("{wrong}: {error}"))
}

/// What is wrong with a traffic file of this text.
fn complaint(text: &str) -> String {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("traffic.toml");
    fs::write(&file, text).unwrap();
    let output = sim(&[TWO_REGIONS, "--traffic", file.to_str().unwrap()]);
    assert_eq!(output.status.code(), Some(1), "{text}");
    String::from_utf8(output.stderr).unwrap()
}

fn group<'r>(record: &'r Value, region: &str) -> &'r Value {
    let groups = record["simulation"]["groups"].as_array().unwrap();
    groups.iter().find(|group| group["region"] == region).unwrap()
}

#[test]
fn the_traffic_file_of_the_documentation_runs_the_same_each_time() {
    let page = fs::read_to_string(root().join("docs/simulating.md")).unwrap();
    let (_, rest) = page.split_once("```toml\n").unwrap();
    let (text, _) = rest.split_once("```").unwrap();
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("traffic.toml");
    fs::write(&file, text).unwrap();
    let args = [TWO_REGIONS, "--traffic", file.to_str().unwrap(), "--json"];
    let (one, other) = (sim(&args), sim(&args));
    assert!(one.status.success(), "{}", String::from_utf8_lossy(&one.stderr));
    assert_eq!(one.stdout, other.stdout);
    let another = sim(&[&args[..], &["--seed", "2"]].concat());
    assert_ne!(one.stdout, another.stdout);
    let record: Value = serde_json::from_slice(&one.stdout).unwrap();
    assert_eq!(record["kind"], "load");
    let outcomes = record["outcomes"].as_object().unwrap().values();
    let sum: u64 = outcomes.map(|count| count.as_u64().unwrap()).sum();
    assert!(sum > 20_000, "{sum}");
    assert_eq!(record["planned"], sum);
}

#[test]
fn the_near_region_gets_its_capacity_and_the_far_one_the_excess() {
    let record = record(&[TWO_REGIONS, "--traffic", "x1.2"]);
    let near = group(&record, "europe-west3")["requests"].as_f64().unwrap();
    let far = group(&record, "us-central1");
    // 168/s for a minute, of which the near region may be given 100/s and its burst.
    assert!((5_800.0..=6_012.0).contains(&near), "{near}");
    assert_eq!(far["overflowed"], far["requests"]);
    assert!(record["outcomes"]["ok"].as_f64() >= Some(0.999 * 60.0 * 168.0 - 300.0));
}

#[test]
fn a_lost_region_costs_what_the_other_has_no_capacity_for() {
    let lose = ["--lose", "region=us-central1", "--at", "20s"];
    let args = [&["what-if", TWO_REGIONS][..], &lose[..]].concat();
    let record = record(&args);
    let failed =
        1.0 - record["outcomes"]["ok"].as_f64().unwrap() / record["planned"].as_f64().unwrap();
    // 40 of 140 a second have no place for 40 of 60 seconds.
    assert!((0.15..0.21).contains(&failed), "{failed}");
    let output = sim(&args);
    let page = String::from_utf8(output.stdout).unwrap();
    assert!(page.contains("timed out in the queue"), "{page}");
    let nobody = sim(&["what-if", TWO_REGIONS, "--lose", "region=mars"]);
    let error = String::from_utf8(nobody.stderr).unwrap();
    assert_eq!(nobody.status.code(), Some(1));
    assert!(error.contains("the configuration has no server of region `mars`"), "{error}");
}

#[test]
fn a_time_at_which_nothing_is_lost_is_wrong_usage() {
    for time in ["--at", "--for"] {
        let output = sim(&["what-if", TWO_REGIONS, time, "1s"]);
        let error = String::from_utf8(output.stderr).unwrap();
        assert_eq!(output.status.code(), Some(1), "{time}: {error}");
        assert!(error.contains("--lose") && error.contains("--slow"), "{time}: {error}");
    }
}

#[test]
fn a_cache_that_is_lost_leaves_its_load_to_the_servers() {
    let folder = tempfile::tempdir().unwrap();
    let (file, page) = (folder.path().join("traffic.toml"), folder.path().join("cache.html"));
    let text = "duration = \"1m\"\n[[source]]\nrate = \"120/s\"\n\
                [[objects]]\ncount = 20000\nttl = \"10m\"\n[[cache]]\nsize = \"20MB\"\n";
    fs::write(&file, text).unwrap();
    let traffic = ["--traffic", file.to_str().unwrap()];
    let with = record(&[&[TWO_REGIONS][..], &traffic].concat());
    let lost = ["--lose", "cache", "--at", "20s", "--for", "20s"];
    let report = ["--report", page.to_str().unwrap()];
    let args = [&["what-if", TWO_REGIONS][..], &traffic, &lost, &report].concat();
    let without = record(&args);
    let hits = |record: &Value| record["simulation"]["caches"][0]["hit_ratio"].as_f64().unwrap();
    let given = |record: &Value| {
        let groups = record["simulation"]["groups"].as_array().unwrap();
        groups.iter().map(|group| group["requests"].as_u64().unwrap()).sum::<u64>()
    };
    assert!(hits(&with) > 0.5 && hits(&without) < 0.75 * hits(&with));
    assert!(given(&without) > given(&with) + 1_200, "{} {}", given(&without), given(&with));
    let page = fs::read_to_string(page).unwrap();
    assert!(page.contains("hit ratio, %") && page.contains("go on to the servers"));
    let refused = sim(&["what-if", TWO_REGIONS, "--lose", "cache"]);
    let error = String::from_utf8(refused.stderr).unwrap();
    assert_eq!(refused.status.code(), Some(1));
    assert!(error.contains("the traffic has no cache; say in its file"), "{error}");
}

#[test]
fn objects_and_caches_that_cannot_be_have_an_error_at_their_place() {
    let source = "[[source]]\nrate = \"10/s\"\n";
    let objects = "[[objects]]\ncount = 100\n";
    for (text, message) in [
        ("[[objects]]\nzipf = 1.0\n".to_owned(), "`objects` needs `count`"),
        ("[[objects]]\ncount = 0\n".to_owned(), "expected 1 to 10000000, found 0"),
        (format!("{objects}zipf = -1.0\n"), "expected a number from 0 to 10, found -1"),
        (format!("{objects}size = \"0B\"\n"), "expected more than 0B"),
        (format!("{objects}ttl = \"0s\"\n"), "expected more than 0s"),
        (format!("{objects}service = \"wbe\"\n"), "the configuration has no service `wbe`"),
        (format!("{objects}{objects}"), "the objects of service `web` are said twice"),
        (format!("{objects}[[cache]]\nwarm = 0\n"), "`cache` needs `size`"),
        ("[[cache]]\nsize = \"1GB\"\n".to_owned(), "the cache has nothing to store"),
        (
            format!("{objects}[[cache]]\nsize = \"1GB\"\nedge = \"us-central1\"\n"),
            "no requests come in at an edge in `us-central1`",
        ),
        (
            format!("{objects}[[cache]]\nsize = \"1GB\"\n[[cache]]\nsize = \"2GB\"\n"),
            "the edge in europe-west3 has a cache already",
        ),
    ] {
        let said = complaint(&format!("{source}{text}"));
        assert!(said.contains(message) && said.contains("traffic.toml:"), "{text}\n{said}");
    }
}

/// A folder with a configuration and a traffic file of these texts.
fn written(configuration: &str, traffic: &str) -> (tempfile::TempDir, [String; 2]) {
    let folder = tempfile::tempdir().unwrap();
    let write = |name: &str, text: &str| {
        let path = folder.path().join(name);
        fs::write(&path, text).unwrap();
        path.to_str().unwrap().to_owned()
    };
    let files = [write("loadline.toml", configuration), write("traffic.toml", traffic)];
    (folder, files)
}

/// Two edges that want 80/s each of a group of 100/s.
fn two_edges(cluster: &str, traffic: &str) -> (tempfile::TempDir, [String; 2]) {
    let file = format!(
        "[edge]\nregion = \"one\"\n{cluster}\n\
         [[listener]]\nbind = \"127.0.0.1:0\"\nservice = \"web\"\n\
         [service.web]\nwhen_full = \"shed\"\n[[service.web.group]]\nregion = \"one\"\n\
         servers = [\"127.0.0.1:81\"]\nmax_rate = \"100/s\"\n\
         [service.other]\n[[service.other.group]]\nregion = \"two\"\nservers = [\"127.0.0.1:82\"]\n\
         [regions.two.rtt]\none = \"20ms\"\n"
    );
    let source =
        |edge| format!("[[source]]\nedge = \"{edge}\"\nservice = \"web\"\nrate = \"80/s\"\n");
    let server = "[[server]]\ntime = \"1ms\"\n";
    let traffic = [&source("one"), &source("two"), server, traffic].concat();
    written(&file, &traffic)
}

const CLUSTER: &str = "[cluster]\netcd = [\"http://127.0.0.1:2379\"]\nmax_edges = 2";

#[test]
fn edges_of_a_cluster_share_a_group_and_edges_without_one_give_it_more_than_it_can_take() {
    let given = |cluster: &str| {
        let (_folder, [file, traffic]) = two_edges(cluster, "");
        let record = record(&[&file, "--traffic", &traffic]);
        let writes = record["simulation"]["store_writes"].as_u64();
        (group(&record, "one")["requests"].as_f64().unwrap() / 60.0, writes)
    };
    let (alone, shared) = (given(""), given(CLUSTER));
    assert!((150.0..170.0).contains(&alone.0) && alone.1.is_none(), "{alone:?}");
    assert!((90.0..101.0).contains(&shared.0), "{shared:?}");
    assert!(shared.1.is_some_and(|writes| writes > 4), "{shared:?}");
}

#[test]
fn prequal_keeps_the_load_of_eight_equal_servers_even_where_requests_share_cores() {
    let servers: Vec<String> = (1..=8).map(|n| format!("10.0.0.{n}:80")).collect();
    let configuration = |policy: &str| {
        format!(
            "[[listener]]\nbind = \":8080\"\nservice = \"web\"\n\
             [service.web]\npolicy = {policy:?}\n\
             [[service.web.group]]\ncapacity = \"none\"\nservers = {servers:?}\n"
        )
    };
    // With this seed three servers once got all the load and stayed at 200 in flight.
    let traffic = "duration = \"60s\"\nseed = 2\n[[source]]\nrate = \"2560/s\"\n[[server]]\n\
                   distribution = \"exponential\"\ntime = \"10ms\"\ncores = 4\n\
                   discipline = \"processor-sharing\"\n";
    let p99 = |policy: &str| {
        let (_folder, [file, traffic]) = written(&configuration(policy), traffic);
        record(&[&*file, "--traffic", &*traffic])["response"]["p99_ms"].as_f64().unwrap()
    };
    let (prequal, least) = (p99("prequal"), p99("least-requests"));
    assert!(prequal <= 1.2 * least, "{prequal} and {least} ms");
}

#[test]
fn without_their_store_edges_go_on_with_their_floors_when_their_leases_have_ended() {
    let (_folder, [file, traffic]) = two_edges(CLUSTER, "");
    let lose = ["--lose", "store", "--at", "20s", "--for", "20s"];
    let args = [&["what-if", &file, "--traffic", &traffic][..], &lose].concat();
    let record = record(&args);
    let moments = group(&record, "one")["moments"].as_array().unwrap();
    let given = |from: usize, to: usize| {
        let rates = moments[from..to].iter().map(|it| it["rate_per_s"].as_f64().unwrap());
        rates.sum::<f64>() / (to - from) as f64
    };
    // A floor is 1 % of 100/s, and the lease 10 s.
    assert!(given(10, 20) > 85.0 && given(45, 59) > 85.0, "{} {}", given(10, 20), given(45, 59));
    assert!(given(32, 39) < 5.0, "{}", given(32, 39));
}

#[test]
fn a_store_that_cannot_be_has_an_error() {
    for (cluster, traffic, expected) in [
        ("", "[store]\nrtt = \"1ms\"\n", "the configuration has no store"),
        (CLUSTER, "[store]\nrtts = { three = \"1ms\" }\n", "there is no edge in region `three`"),
        (CLUSTER, "[store]\nloss = \"60%\"\n", "expected at most 50%"),
        (
            "[cluster]\netcd = [\"http://127.0.0.1:2379\"]\nmax_edges = 1",
            "",
            "2 edges share, and `max_edges` in [cluster] of the configuration is 1",
        ),
    ] {
        let (_folder, [file, traffic]) = two_edges(cluster, traffic);
        let output = sim(&[&file, "--traffic", &traffic]);
        let error = String::from_utf8(output.stderr).unwrap();
        assert_eq!(output.status.code(), Some(1), "{error}");
        assert!(error.contains(expected), "{error}");
    }
}

/// What comes of a configuration of this text, without a traffic file.
fn configured(text: &str) -> Output {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("loadline.toml");
    fs::write(&file, text).unwrap();
    sim(&[file.to_str().unwrap(), "--duration", "1s", "--json"])
}

const COOKIE: &str = "sticky = { cookie = \"s\", key = \"0f1e2d3c4b5a69788796a5b4c3d2e1f0\" }\n";

#[test]
fn what_is_not_simulated_is_said_and_packets_that_are_forwarded_are_refused() {
    let listener = "[[listener]]\nbind = \"127.0.0.1:0\"\nservice = \"web\"\n";
    let servers = "[[service.web.group]]\nservers = [\"127.0.0.1:81\"]\n";
    let plain = configured(&format!("{listener}[service.web]\n{servers}"));
    assert_eq!((plain.status.code(), &plain.stderr[..]), (Some(0), &b""[..]));
    for (listener_keys, service_keys, said) in [
        ("protocol = \"tcp\"\n", "", "connections of tcp at 127.0.0.1:0"),
        ("", COOKIE, "sessions by cookie of `web`"),
        ("", "maintenance = { enabled = true }\n", "maintenance of `web`"),
    ] {
        let text = format!("{listener}{listener_keys}[service.web]\n{service_keys}{servers}");
        let output = configured(&text);
        let error = String::from_utf8(output.stderr).unwrap();
        assert_eq!(output.status.code(), Some(0), "{error}");
        assert!(error.contains(&format!("warning: not simulated: {said}")), "{error}");
    }
    let refused = sim(&["examples/forwarding.toml"]);
    let error = String::from_utf8(refused.stderr).unwrap();
    assert_eq!(refused.status.code(), Some(1), "{error}");
    assert!(error.contains("forwarding of packets is not simulated"), "{error}");
}

#[test]
fn servers_that_are_found_by_discovery_are_said_to_be_missing() {
    let found =
        "[[service.web.group]]\nname = \"found\"\ndiscover = { dns = \"pods.internal:80\" }\n";
    let none = configured(&format!("{LISTENER}[service.web]\n{found}"));
    let error = String::from_utf8(none.stderr).unwrap();
    assert_eq!(none.status.code(), Some(1), "{error}");
    assert!(error.contains("all servers of service `web` are found by it"), "{error}");
    let listed = "[[service.web.group]]\nservers = [\"127.0.0.1:81\"]\n";
    let some = configured(&format!("{LISTENER}[service.web]\n{found}{listed}"));
    let error = String::from_utf8(some.stderr).unwrap();
    assert_eq!(some.status.code(), Some(0), "{error}");
    assert!(error.contains("not simulated: servers of `web/found`, by discovery"), "{error}");
}

#[test]
fn a_cache_of_routes_is_said_to_be_left_out_unless_the_traffic_has_one() {
    let file = format!(
        "{LISTENER}routes = [{{ path = \"/\", service = \"web\", cache = true }}]\n\
         [service.web]\n[[service.web.group]]\nservers = [\"127.0.0.1:81\"]\n"
    );
    let source = "duration = \"1s\"\n[[source]]\nrate = \"10/s\"\n";
    let cache = "[[objects]]\ncount = 10\n[[cache]]\nsize = \"1MB\"\n";
    for (traffic, is_said) in [(source.to_owned(), true), (format!("{source}{cache}"), false)] {
        let (_folder, [file, traffic]) = written(&file, &traffic);
        let output = sim(&[&file, "--traffic", &traffic]);
        let error = String::from_utf8(output.stderr).unwrap();
        assert_eq!(output.status.code(), Some(0), "{error}");
        assert_eq!(error.contains("not simulated: the cache of routes"), is_said, "{error}");
    }
}

/// The edge in paris has no servers, and its clients go to another one when it is lost.
#[test]
fn an_edge_in_a_region_without_servers_can_be_simulated_and_lost() {
    let folder = tempfile::tempdir().unwrap();
    let write = |name: &str, text: &str| {
        let path = folder.path().join(name);
        fs::write(&path, text).unwrap();
        path.to_str().unwrap().to_owned()
    };
    let file = write(
        "loadline.toml",
        "[edge]\nregion = \"one\"\n\
         [[listener]]\nbind = \"127.0.0.1:0\"\nservice = \"web\"\n[service.web]\n\
         [[service.web.group]]\nregion = \"one\"\nservers = [\"127.0.0.1:81\"]\n\
         [regions.paris.rtt]\none = \"20ms\"\n",
    );
    let traffic = write("traffic.toml", "[[source]]\nedge = \"paris\"\nrate = \"10/s\"\n");
    let files = [&file[..], "--traffic", &traffic];
    let whole = record(&files);
    assert!(whole["service"]["min_ms"].as_f64() >= Some(20.0), "{}", whole["service"]);
    let lost = [&["what-if"][..], &files, &["--lose", "region=paris", "--at", "20s"]].concat();
    let lost = record(&lost);
    assert_eq!(lost["planned"], whole["planned"]);
    assert!(lost["service"]["p50_ms"].as_f64() < whole["service"]["p50_ms"].as_f64());
}

#[test]
fn an_objective_that_is_breached_has_its_exit_code() {
    let code = |slo| sim(&[TWO_REGIONS, "--slo", slo]).status.code();
    assert_eq!(code("p99<10s"), Some(0));
    assert_eq!(code("p99<1ms"), Some(99));
}

#[test]
fn a_rate_relative_to_a_target_is_refused_where_users_have_none() {
    let folder = tempfile::tempdir().unwrap();
    let traffic = folder.path().join("traffic.toml");
    fs::write(&traffic, "duration = \"2s\"\n[[source]]\nusers = 2\n").unwrap();
    let traffic = ["--traffic", traffic.to_str().unwrap(), "--traffic", "x2"];
    for command in [&["what-if"][..], &["plan"], &["policies"], &["explain"], &[]] {
        let args = [command, &[TWO_REGIONS], &traffic, &["--slo", "rate>=0.9*target"]].concat();
        let output = sim(&args);
        let error = String::from_utf8(output.stderr).unwrap();
        assert_eq!(output.status.code(), Some(1), "{command:?}: {error}");
        assert!(error.contains("only an open loop has a target"), "{command:?}: {error}");
    }
    let open = sim(&[TWO_REGIONS, "--duration", "2s", "--slo", "rate>=0.5*target"]);
    assert_eq!(open.status.code(), Some(0));
}

#[test]
fn a_traffic_file_that_cannot_be_has_an_error_at_its_place() {
    for (text, place, message) in [
        ("[[source]]\nrate = \"-5/s\"\n", "traffic.toml:2:8", "`-5/s` is not"),
        ("[[source]]\nrate = \"0/s\"\n", "traffic.toml:2:8", "no request comes"),
        ("[[source]]\ntimes = []\n", "traffic.toml:2:9", "no request comes"),
        ("[[source]]\nrate = \"5/s\"\nservice = \"wob\"\n", ":3:11", "no service `wob`"),
        ("[[server]]\nregion = \"mars\"\n", "traffic.toml:2:10", "no region `mars`"),
        ("[[server]]\ndistribution = \"gamma\"\n", ":2:16", "`gamma` is none of constant"),
        ("[[server]]\ndistribution = \"pareto\"\nshape = 0.5\n", ":3:9", "above 1, found 0.5"),
        ("[[fault]]\nat = \"1s\"\nwhat = \"slow\"\n", "traffic.toml:1:1", "needs `factor`"),
        ("duration = \"0s\"\n", "traffic.toml:1:12", "expected more than 0s"),
        ("sources = 3\n", "traffic.toml:1:1", "unknown key `sources`"),
    ] {
        let complaint = complaint(text);
        assert!(complaint.contains(place), "{text}: {complaint}");
        assert!(complaint.contains(message), "{text}: {complaint}");
    }
}

#[test]
fn a_run_in_which_by_chance_no_request_comes_is_an_error() {
    let traffic = "duration = \"1s\"\n[[source]]\nrate = \"0.001/s\"\n";
    let complaint = complaint(traffic);
    assert!(complaint.contains("no request came in the 1s that count"), "{complaint}");
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("traffic.toml");
    fs::write(&file, traffic).unwrap();
    let lose = ["--lose", "region=us-central1", "--traffic", file.to_str().unwrap()];
    let output = sim(&[&["what-if", TWO_REGIONS][..], &lose[..]].concat());
    let error = String::from_utf8(output.stderr).unwrap();
    assert_eq!(output.status.code(), Some(1), "{error}");
    assert!(error.contains("no request came"), "{error}");
}

#[test]
fn a_change_that_nothing_comes_of_is_refused() {
    let lose = ["what-if", TWO_REGIONS, "--lose", "group=web/us-central1"];
    for (args, message) in [
        (["--at", "60s"], "it would begin at 1m, and requests come for 1m"),
        (["--for", "0s"], "expected more than 0s"),
    ] {
        let output = sim(&[&lose[..], &args[..]].concat());
        let error = String::from_utf8(output.stderr).unwrap();
        assert_eq!(output.status.code(), Some(1), "{error}");
        assert!(error.contains(message), "{error}");
    }
    assert_eq!(sim(&[&lose[..], &["--at", "20s"]].concat()).status.code(), Some(0));
}

#[test]
fn a_what_if_without_a_change_is_wrong_usage() {
    for change in [&[][..], &["--traffic", "x1"]] {
        let output = sim(&[&["what-if", TWO_REGIONS], change].concat());
        let error = String::from_utf8(output.stderr).unwrap();
        assert_eq!(output.status.code(), Some(1), "{error}");
        assert!(error.contains("say what changes: --lose"), "{error}");
    }
}

#[test]
fn a_plan_holds_with_each_region_lost_and_not_with_one_server_less() {
    let args = ["plan", TWO_REGIONS, "--slo", "p99<300ms, errors<0.1%"];
    let plan = record(&args);
    assert_eq!((&plan["kind"], &plan["met"]), (&"plan".into(), &true.into()));
    // Each region carries 140/s alone, of which a server may be given 33/s.
    for group in plan["groups"].as_array().unwrap() {
        assert_eq!(group["servers_now"], 3);
        assert!((5..=6).contains(&group["servers"].as_u64().unwrap()), "{group}");
        assert!(group["breached_with_one_less"]["runs"].as_u64().unwrap() >= 3, "{group}");
    }
    for case in plan["cases"].as_array().unwrap() {
        assert_eq!((&case["held"]["runs"], &case["held"]["of"]), (&5.into(), &5.into()), "{case}");
    }
    let output = sim(&args);
    let page = String::from_utf8(output.stdout).unwrap();
    assert!(page.contains("without region us-central1"), "{page}");
    assert!(page.contains("without the servers of region europe-west3"), "{page}");
}

/// With this seed some sizes breach a p99 by chance that smaller ones meet.
#[test]
fn a_plan_has_no_group_that_can_do_with_one_server_less_by_its_own_proof() {
    let folder = tempfile::tempdir().unwrap();
    let write = |name: &str, text: &str| {
        let file = folder.path().join(name);
        fs::write(&file, text).unwrap();
        file.to_str().unwrap().to_owned()
    };
    let config = "[edge]\nregion = \"a\"\n[regions.b]\nrtt = { a = \"40ms\" }\n\
                  [service.web]\npolicy = \"round-robin\"\n\
                  when_full = { queue = \"200ms\", length = 50, then = \"shed\" }\n\
                  health = { http = \"/h\", interval = \"1s\", timeout = \"500ms\" }\n\
                  [[service.web.group]]\nregion = \"a\"\nmax_rate = \"100/s\"\n\
                  servers = [\"10.0.0.1:80\", \"10.0.0.2:80\"]\n\
                  [[service.web.group]]\nregion = \"b\"\nmax_in_flight = 10\n\
                  servers = [\"10.0.1.1:80\", \"10.0.1.2:80\"]\n";
    let config = write("loadline.toml", &[LISTENER, config].concat());
    let traffic = "warm_up = \"2s\"\nduration = \"30s\"\nseed = 7\n\
                   [[source]]\nrate = \"400/s\"\n[[server]]\ntime = \"15ms\"\n";
    let traffic = write("traffic.toml", traffic);
    let slo = "p99<150ms, errors<1%";
    let args = ["plan", &config, "--traffic", &traffic, "--slo", slo, "--survive", "nothing"];
    let plan = record(&args);
    assert_eq!(plan["met"], true);
    let groups = plan["groups"].as_array().unwrap();
    for group in groups {
        assert_ne!(group["breached_with_one_less"]["runs"], 0, "{group}");
    }
    // It was 18, and 10 are enough.
    let servers: u64 = groups.iter().map(|group| group["servers"].as_u64().unwrap()).sum();
    assert!(servers <= 12, "{plan}");
}

#[test]
fn an_answer_is_the_same_to_the_byte_with_any_number_of_threads() {
    let slo = ["--slo", "p99<300ms, errors<0.1%"];
    let policies = [&["policies", TWO_REGIONS, "--duration", "5s", "--seeds", "3"], &slo[..]];
    let plan = [&["plan", TWO_REGIONS, "--duration", "20s"], &slo[..]];
    let what_if = [&["what-if", TWO_REGIONS, "--lose", "region=us-central1"][..], &[]];
    for question in [policies, plan, what_if] {
        for form in [&["--json"][..], &[]] {
            let answer = |threads: &str| {
                let args = [&question.concat()[..], form, &["--threads", threads]].concat();
                let output = sim(&args);
                assert!(!output.stdout.is_empty(), "{}", String::from_utf8_lossy(&output.stderr));
                (output.status.code(), output.stdout)
            };
            let one = answer("1");
            assert!(answer("2") == one && answer("7") == one, "{question:?}");
        }
    }
}

#[test]
fn a_plan_says_why_it_cannot_be() {
    let run = |args: &[&str]| {
        let output = sim(&[&["plan", TWO_REGIONS], args].concat());
        (output.status.code(), String::from_utf8(output.stderr).unwrap())
    };
    let (code, error) = run(&[]);
    assert!(code == Some(1) && error.contains("say what must hold: --slo"), "{error}");
    let (code, error) = run(&["--slo", "p99<1s", "--survive", "service=web"]);
    assert!(code == Some(1) && error.contains("nothing is left of service `web`"), "{error}");
    assert_eq!(run(&["--slo", "p99<1ms"]).0, Some(99));
}

#[test]
fn an_explanation_says_what_the_edge_knew_when_it_sent_a_request_far() {
    let explain = |request| record(&["explain", TWO_REGIONS, "--request", request]);
    let first = explain("1");
    let whats = |way: &Value| -> Vec<String> {
        let steps = way["steps"].as_array().unwrap().iter();
        steps.map(|step| step["what"].as_str().unwrap().to_owned()).collect()
    };
    assert_eq!((&first["kind"], &first["request"]), (&"explanation".into(), &1.into()));
    assert_eq!(whats(&first)[0], "comes to the edge in europe-west3");
    assert!(whats(&first)[1].ends_with("of europe-west3"), "{first}");

    // The slowest is one that went far: near had given its rate, and far had not.
    let slowest = explain("slowest");
    let sent = &slowest["steps"][1];
    assert!(sent["what"].as_str().unwrap().ends_with("us-central1, past nearer groups"), "{sent}");
    let [near, far] = [&sent["groups"][0], &sent["groups"][1]];
    assert!(near["last_second"].as_u64() >= Some(95), "{near}");
    assert_eq!((&near["chosen"], &far["chosen"]), (&false.into(), &true.into()));
    let number = slowest["request"].to_string();
    assert_eq!(explain(&number), slowest);

    let none = sim(&["explain", TWO_REGIONS, "--request", "1000000"]);
    let error = String::from_utf8(none.stderr).unwrap();
    assert_eq!(none.status.code(), Some(1));
    assert!(error.contains("no request 1000000; its requests are 1 to"), "{error}");
}

#[test]
fn servers_on_unix_sockets_are_called_as_the_configuration_calls_them() {
    let socket = "unix:/run/app.sock";
    let (_folder, [file, traffic]) = written(
        &format!(
            "{LISTENER}[service.web]\n[[service.web.group]]\n\
             servers = [\"{socket}\", \"unix:/run/other.sock\"]\n"
        ),
        &format!(
            "duration = \"5s\"\n[[source]]\nrate = \"20/s\"\n\
             [[server]]\naddress = \"{socket}\"\ntime = \"1ms\"\n"
        ),
    );
    let files = [&file[..], "--traffic", &traffic];
    let way = record(&[&["explain"][..], &files, &["--request", "1"]].concat());
    let sent = &way["steps"][1];
    let servers = sent["groups"][0]["candidates"].as_array().unwrap();
    let chosen = servers.iter().find(|server| server["chosen"] == true).unwrap();
    let address = chosen["address"].as_str().unwrap();
    let told = sent["what"].as_str().unwrap();
    assert!(told.starts_with(&format!("is sent to {address} of ")), "{told}");
    let lose = |server: &str| {
        let server = format!("server={server}");
        let output = sim(&[&["what-if"][..], &files, &["--lose", &server]].concat());
        (output.status.code(), String::from_utf8(output.stderr).unwrap())
    };
    assert_eq!(lose(socket), (Some(0), String::new()));
    let (code, error) = lose("unix:/run/none.sock");
    assert!(code == Some(1) && error.contains("no server of server `unix:/run/none.sock`"));
}

const LISTENER: &str = "[[listener]]\nbind = \"127.0.0.1:0\"\nservice = \"web\"\n";

/// The record of 5 s of this traffic, so many `times`.
fn with_traffic(folder: &Path, text: &str, times: &str) -> Value {
    let file = folder.join("traffic.toml");
    fs::write(&file, format!("duration = \"5s\"\n{text}")).unwrap();
    record(&[TWO_REGIONS, "--traffic", file.to_str().unwrap(), "--traffic", times])
}

#[test]
fn the_load_model_of_a_run_is_what_was_asked_for() {
    let folder = tempfile::tempdir().unwrap();
    let run = |text: &str, times: &str| with_traffic(folder.path(), text, times);
    let rate = |run: &Value| run["model"]["rate_per_s"].as_f64().unwrap();
    let source = "[[source]]\nrate = \"50/s\"\n";
    let one = run(source, "x1.5");
    assert_eq!((rate(&one), &one["model"]["arrivals"]), (75.0, &"poisson".into()));
    let bursts = run(&format!("{source}arrivals = \"bursts\"\nburst = 5"), "x1");
    assert_eq!((rate(&bursts), &bursts["model"]["arrivals"]), (50.0, &"listed".into()));

    let users = "[[source]]\nusers = 10\nthink = \"100ms\"\n";
    let twice = run(users, "x2");
    assert_eq!((&twice["model"]["loop"], &twice["model"]["users"]), (&"closed".into(), &20.into()));
    let few = run(users, "x0.04");
    assert_eq!(few["model"]["users"], 1);
    assert!(few["planned"].as_u64() > Some(10), "one user comes");
    let mixed = run(&[users, source].concat(), "x1");
    assert_eq!(mixed["model"]["loop"], "open");
    assert!(rate(&mixed) > 60.0, "{}", mixed["model"]);
}

#[test]
fn so_many_times_the_traffic_is_to_the_byte_the_run_of_a_file_that_says_so() {
    let folder = tempfile::tempdir().unwrap();
    let run = |keys: &str, times: &str| {
        with_traffic(folder.path(), &format!("[[source]]\n{keys}"), times)
    };
    assert_eq!(run("rate = \"50/s\"", "x1.5"), run("rate = \"75/s\"", "x1"));
    assert_eq!(run("users = 10", "x2"), run("users = 20", "x1"));
}

/// A log of a hundred requests, a tenth of a second apart, each of 30 ms; and the traffic that
/// replays it.
fn recorded(folder: &Path, traffic: &str) -> String {
    let line = |n: u32| {
        let (second, millis) = (n / 10, n % 10 * 100);
        format!(
            "2026-11-21T04:00:{second:02}.{millis:03}Z 10.0.0.9:41234 GET \"/\" HTTP/1.1 200 1 \
             web/europe-west3/127.0.0.1:8001 complete 0 0.0 0.0 30.0 30.2\n"
        )
    };
    fs::write(folder.join("access.log"), (0..100).map(line).collect::<String>()).unwrap();
    let file = folder.join("traffic.toml");
    fs::write(&file, traffic).unwrap();
    file.to_str().unwrap().to_owned()
}

#[test]
fn an_access_log_comes_again_with_the_times_of_its_servers() {
    let folder = tempfile::tempdir().unwrap();
    let text = "[[source]]\nlog = \"access.log\"\n\
                [[server]]\ndistribution = \"measured\"\nlog = \"access.log\"\n";
    let traffic = recorded(folder.path(), text);
    let run = record(&[TWO_REGIONS, "--traffic", &traffic]);
    assert_eq!((&run["planned"], &run["outcomes"]["ok"]), (&100.into(), &100.into()));
    assert_eq!(run["service"]["p50_ms"].as_f64().map(f64::round), Some(30.0));
    let more = record(&[TWO_REGIONS, "--traffic", &traffic, "--traffic", "x2"]);
    assert_eq!(more["planned"], 200);

    fs::write(folder.path().join("run.json"), run.to_string()).unwrap();
    let text = "[[source]]\nrate = \"5/s\"\n\
                [[server]]\ndistribution = \"measured\"\nrun = \"run.json\"\n";
    let traffic = recorded(folder.path(), text);
    let again = record(&[TWO_REGIONS, "--traffic", &traffic]);
    assert_eq!(again["service"]["p50_ms"].as_f64().map(f64::round), Some(30.0));
}

#[test]
fn what_is_no_log_or_no_record_has_an_error_at_its_place() {
    for (text, place, message) in [
        ("[[source]]\nlog = \"none.log\"\n", "traffic.toml:2:7", "cannot read"),
        ("[[source]]\nlog = \"traffic.toml\"\n", "traffic.toml:2:7", "no line of an access log"),
        (
            "[[source]]\nlog = \"access.log\"\nlog_service = \"api\"\n",
            "traffic.toml:3:15",
            "no request of service `api`",
        ),
        (
            "[[server]]\ndistribution = \"measured\"\nrun = \"access.log\"\n",
            "traffic.toml:3:7",
            "is no record of a run",
        ),
        ("[[server]]\ndistribution = \"measured\"\n", "traffic.toml:1:1", "one of `times`, `log`"),
    ] {
        let folder = tempfile::tempdir().unwrap();
        let traffic = recorded(folder.path(), text);
        let output = sim(&[TWO_REGIONS, "--traffic", &traffic]);
        let error = String::from_utf8(output.stderr).unwrap();
        assert_eq!(output.status.code(), Some(1), "{text}");
        assert!(error.contains(place) && error.contains(message), "{text}: {error}");
    }
}

const TWO_REGIONS: &str = "examples/two-regions.toml";

/// One of the three near servers takes four times as long.
#[test]
fn policies_are_ranked_and_the_reason_is_what_was_measured() {
    let folder = tempfile::tempdir().unwrap();
    let traffic = folder.path().join("traffic.toml");
    let page = folder.path().join("policies.html");
    let text = "duration = \"20s\"\n[[source]]\nrate = \"150/s\"\n[[server]]\ntime = \"10ms\"\n\
                [[server]]\naddress = \"10.0.0.11:80\"\ntime = \"40ms\"\n";
    fs::write(&traffic, text).unwrap();
    let (traffic, report) = (traffic.to_str().unwrap(), page.to_str().unwrap());
    let args = ["policies", TWO_REGIONS, "--traffic", traffic, "--seeds", "3"];
    let ranking = record(&[&args[..], &["--report", report]].concat());
    assert_eq!((&ranking["kind"], &ranking["seeds"]), (&"ranking".into(), &3.into()));
    let policies = ranking["policies"].as_array().unwrap();
    let place = |name: &str| policies.iter().position(|it| it["policy"] == name).unwrap();
    assert!(place("prequal") < place("least-requests"), "{policies:#?}");
    assert!(place("least-requests") < place("round-robin"), "{policies:#?}");
    for (at, policy) in policies.iter().enumerate() {
        let times = policy["times_the_first"]["high"].as_f64();
        assert_eq!(times.is_none(), at == 0 || policy["p99_ms"].is_null(), "{policy}");
    }
    let share = |name: &str| policies[place(name)]["to_slow"].as_f64().unwrap();
    assert!(share("prequal") < share("round-robin") / 2.0, "{policies:#?}");
    let reason = ranking["reason"].as_str().unwrap();
    assert!(reason.contains("went to slow servers"), "{reason}");
    let page = fs::read_to_string(page).unwrap();
    assert!(page.contains("<svg") && page.contains("p99 by policy"), "the picture is missing");
    let (one, other) = (sim(&args), sim(&args));
    assert_eq!(one.stdout, other.stdout);
    let text = String::from_utf8(one.stdout).unwrap();
    assert!(text.contains("least-requests *") && text.contains("times the first"), "{text}");
    let wanted = |slo| sim(&[&args[..], &["--slo", slo]].concat()).status.code();
    assert_eq!((wanted("p99<5s"), wanted("p99<1ms")), (Some(0), Some(99)));
}
