//! Edges that share a store, in the file, and what is published to them.

use loadline_control::{LocalOnly, cluster::Published};
use loadline_core::{time::Duration, units::Ratio};

use crate::repository;

const SITE: &str = "[[listener]]\nbind = \":8080\"\nservice = \"web\"\n[service.web]\n\
                    [[service.web.group]]\nservers = [\"10.0.0.1:80\"]\n";

fn errors(cluster: &str) -> String {
    let text = format!("{SITE}[cluster]\n{cluster}\n");
    let told = match loadline_control::parse_with("edge.toml", &text, &LocalOnly) {
        Ok(loaded) => loaded.warnings,
        Err(errors) => errors.errors().to_vec(),
    };
    told.iter()
        .map(|it| format!("{}: {} ({})\n", it.line(), it.message(), it.help_text()))
        .collect()
}

#[test]
fn a_store_has_defaults_for_all_but_its_place() {
    let text =
        format!("{SITE}[cluster]\netcd = [\"https://etcd-1:2379\", \"https://[fd00::1]\"]\n");
    let loaded = loadline_control::parse_with("edge.toml", &text, &LocalOnly).unwrap();
    let settings = loaded.cluster.unwrap();
    let endpoints: Vec<String> = settings.endpoints.iter().map(ToString::to_string).collect();
    assert_eq!(endpoints, ["https://etcd-1:2379", "https://[fd00::1]:2379"]);
    assert_eq!((&*settings.prefix, settings.lease), ("/loadline/", Duration::from_secs(10)));
    assert!(!settings.name.is_empty());
    let sharing = settings.sharing();
    assert_eq!((sharing.floor, sharing.edges), (Ratio::ppm(10_000), 10));
    assert_eq!(sharing.margin, Duration::from_millis(1_100));
}

#[test]
fn what_is_wrong_with_a_store_is_told_at_its_place() {
    for (cluster, line, words) in [
        ("name = \"edge-1\"", 7, "a cluster without `etcd`"),
        ("etcd = []", 7, "a cluster without `etcd`"),
        ("etcd = [\"10.0.0.1:2379\"]", 8, "\"https://10.0.0.1:2379\""),
        ("etcd = [\"https://e\"]\nuser = \"loadline\"", 9, "`user` without `password_file`"),
        ("etcd = [\"https://e\"]\npassword_file = \"p\"", 9, "`password_file` without `user`"),
        ("etcd = [\"http://e\"]\nca = \"ca.pem\"", 9, "`ca` of an etcd that is reached in clear"),
        ("etcd = [\"https://e\"]\nprefix = \"shop\"", 9, "with a `/` at the end"),
        ("etcd = [\"https://e\"]\nlease = \"1s\"", 9, "from 2s to 1h"),
        ("etcd = [\"https://e\"]\nlease = \"2900ms\"", 9, "etcd counts whole seconds (2s, or 3s"),
        (
            "etcd = [\"https://e\"]\nfloor = \"20%\"",
            9,
            "a `floor` of 20% for each of 10 edges is more than there is (10% at most",
        ),
        ("etcd = [\"https://e\"]\nmax_edges = 201", 9, "from 1 to 200"),
        ("etcd = [\"https://e\"]\nwhen_away = \"all\"", 9, "a rule for edges without the store"),
        (
            "etcd = [\"https://e\"]\nlease = \"8s\"\nelection_timeout = \"5s\"",
            10,
            "a `lease` of 8s with an `election_timeout` of 5s (a `lease` of 10s at least)",
        ),
        (
            "etcd = [\"http://10.0.0.1:2379\"]\nuser = \"a\"\npassword_file = \"p\"",
            8,
            "the password goes over the network in clear",
        ),
    ] {
        let told = errors(cluster);
        assert!(
            told.starts_with(&format!("{line}: ")) && told.contains(words),
            "{cluster}: {told}"
        );
    }
}

#[test]
fn an_edge_and_what_is_published_to_it_are_one_configuration() {
    let edge = repository("examples/cluster/edge.toml");
    let text = std::fs::read_to_string(repository("examples/cluster/site.toml")).unwrap();
    let published = |text: &str| Published { version: 7, text: text.to_owned(), name: None };
    let loaded = loadline_control::load_with(&edge, Some(&published(&text))).unwrap();
    assert_eq!((loaded.fleet.services.len(), loaded.fleet.listeners.len()), (1, 1));
    assert_eq!(loaded.fleet.edge.region, "europe-west3");

    let alone = loadline_control::load(&edge).unwrap_err();
    let help = alone.errors()[0].help_text();
    assert!(help.contains("loadline cluster publish FILE"), "{help}");
    let settings = loadline_control::load_cluster(&edge).unwrap().unwrap();
    assert_eq!((&*settings.name, settings.id.as_deref()), ("edge-1", Some("shop")));
    assert!(settings.state_dir.is_absolute() && settings.state_dir.ends_with("state"));

    let wrong = published(&format!("{text}\n[admin]\nbind = \":9090\"\n"));
    let errors = loadline_control::load_with(&edge, Some(&wrong)).unwrap_err();
    let error = &errors.errors()[0];
    assert_eq!(error.file(), "published version 7");
    assert_eq!(error.line(), text.lines().count() + 2);
    assert!(error.help_text().contains("each edge's own"), "{}", error.help_text());
}

#[test]
fn the_socket_for_upgrades_is_known_of_a_file_that_cannot_serve_by_itself() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("edge.toml");
    let text = std::fs::read_to_string(repository("examples/cluster/edge.toml")).unwrap();
    let with = |control: &str| {
        std::fs::write(&file, text.replace("[edge]\n", &format!("[edge]\n{control}\n"))).unwrap();
        loadline_control::load_control(&file)
    };
    let control = Some(folder.path().join("control.sock"));
    assert_eq!(with("control = \"control.sock\"").unwrap(), control);
    let of_the_process = "control = \"control.sock\"\npid_file = \"${LOADLINE_TEST_UNSET}/pid\"";
    assert_eq!(with(of_the_process).unwrap(), control, "a variable that the process alone has");
    assert_eq!(with("").unwrap(), None);
    let told = with("control = 1").unwrap_err();
    assert_eq!(told.errors()[0].line(), 5);
    assert!(with("control = \"${LOADLINE_TEST_UNSET}\"").is_err());
}
