//! One certificate: how it comes, by each challenge, and what happens while it does not.

use std::{
    fs,
    os::unix::fs::PermissionsExt as _,
    process::Command,
    thread::sleep,
    time::{Duration, SystemTime},
};

use serde_json::json;

use crate::{edge::Edge, pebble::Pebble};

const NONE: &[(&str, &str)] = &[("PEBBLE_WFE_NONCEREJECT", "0")];

#[test]
fn a_certificate_comes_by_http_01_is_served_and_is_used_after_a_restart() {
    let pebble = Pebble::start(NONE, &json!({}));
    let mut edge = Edge::of(&pebble, "names = [\"a.test\"]\nemail = \"you@example.com\"", true);
    edge.begin();
    edge.until(1, |it| it["issued"] == 1);
    edge.serves("a.test");
    // Renewal is weeks away, and known.
    edge.until(1, |it| it["next_attempt_s"].as_u64() > Some(1_000_000_000));
    let metrics = edge.get("/metrics");
    assert!(metrics.contains("loadline_acme_certificates_issued_total{file="), "{metrics}");
    for entry in fs::read_dir(edge.state()).unwrap() {
        let entry = entry.unwrap();
        let mode = entry.metadata().unwrap().permissions().mode();
        assert_eq!(mode & 0o777, 0o600, "{:?}", entry.path());
    }
    let before = edge.certificate("a.test").unwrap();
    // Nothing is left of the order.
    edge.until(1, |_| !edge.state().join("a.test.json").exists());
    edge.kill();
    let orders = pebble.orders();
    edge.begin();
    edge.serves("a.test");
    edge.until(1, |it| it["next_attempt_s"].as_u64() > Some(0));
    assert_eq!((edge.certificate("a.test").unwrap(), pebble.orders()), (before, orders));
}

#[test]
fn a_certificate_comes_by_tls_alpn_01_where_nothing_is_taken_in_clear() {
    let pebble = Pebble::start(NONE, &json!({}));
    let mut edge = Edge::of(&pebble, "names = [\"a.test\"]", false);
    edge.begin();
    edge.until(1, |it| it["issued"] == 1);
    edge.serves("a.test");
}

#[test]
fn names_come_from_routes_and_from_a_reload() {
    let pebble = Pebble::start(NONE, &json!({}));
    let mut edge = Edge::of(&pebble, "# by routes", true);
    let route = |host: &str| format!("routes = [{{ host = [\"*.b.test\", {host:?}], answer");
    edge.edit("routes = [{ answer", &route("a.test"));
    edge.begin();
    edge.until(1, |it| it["issued"] == 1);
    edge.serves("a.test");
    assert!(!edge.request("b.test").status.success());
    edge.until_logged(&["there is no certificate for this name"]);
    edge.edit("\"a.test\"", "\"b.test\"");
    edge.signal("-HUP");
    edge.until(1, |it| it["name"] == "b.test" && it["issued"] == 1);
    edge.serves("b.test");
}

#[test]
fn an_edge_serves_what_it_can_while_its_authority_is_away() {
    let mut pebble = Pebble::start(NONE, &json!({}));
    let names = "names = [\"a.test\"]";
    let mut edge = Edge::of(&pebble, names, true);
    edge.edit(
        "[listener.tls.acme]",
        "[listener.tls]\ncertificates = [\"own.pem\"]\n[listener.tls.acme]",
    );
    let own = rcgen::generate_simple_self_signed(vec!["a.test".to_owned()]).unwrap();
    let own = own.cert.pem() + &own.signing_key.serialize_pem();
    fs::write(edge.folder().join("own.pem"), own).unwrap();
    pebble.kill();
    edge.begin();
    let acme = edge.until(1, |it| it["failures"] == 1);
    let fault = acme[0]["fault"].as_str().unwrap();
    assert!(fault.contains("refused") && fault.contains("/dir"), "{fault}");
    edge.until_logged(&["acme: no certificate"]);
    let output = edge.request("a.test");
    let error = String::from_utf8_lossy(&output.stderr);
    assert!(error.contains("self-signed"), "its own is shown: {error}");
    // How long it waits is known over a restart, and why: a process that starts again and again
    // does not ask each time.
    edge.kill();
    edge.begin();
    let again = edge.until(1, |it| it["next_attempt_s"].as_u64() > Some(0));
    let next_s = again[0]["next_attempt_s"].as_u64().unwrap();
    assert!(next_s >= acme[0]["next_attempt_s"].as_u64().unwrap(), "{next_s}");
    assert_eq!(again[0]["fault"], acme[0]["fault"]);
    edge.until_logged(&["acme: still no certificate", fault]);
    sleep(Duration::from_secs(1));
    assert_eq!(edge.acme()[0]["failures"], 0);
}

#[test]
fn failed_attempts_count_on_where_the_settings_of_the_authority_change() {
    let mut pebble = Pebble::start(NONE, &json!({}));
    let names = "names = [\"a.test\"]";
    let mut edge = Edge::of(&pebble, names, true);
    pebble.kill();
    edge.begin();
    edge.until(1, |it| it["failures"] == 1);
    edge.edit(names, &format!("{names}\nemail = \"ops@a.test\""));
    edge.signal("-HUP");
    edge.until(1, |it| it["failures"] == 2);
    edge.edit("state_dir = \"state\"", "state_dir = \"other\"");
    edge.signal("-HUP");
    edge.until(1, |it| it["failures"] == 3);
}

#[test]
fn an_authority_that_forgot_the_account_gets_another() {
    let mut pebble = Pebble::start(NONE, &json!({}));
    let mut edge = Edge::of(&pebble, "names = [\"a.test\"]", true);
    edge.begin();
    edge.until(1, |it| it["issued"] == 1);
    edge.kill();
    let account = fs::read_to_string(edge.state().join("account.json")).unwrap();
    fs::remove_file(edge.state().join("a.test.pem")).unwrap();
    pebble.kill();
    pebble.begin();
    edge.begin();
    let acme = edge.until(1, |it| it["failures"] == 1);
    assert!(acme[0]["fault"].as_str().unwrap().contains("accountDoesNotExist"), "{acme:?}");
    edge.kill();
    // Not to wait for half a minute.
    fs::remove_file(edge.state().join("a.test.json")).unwrap();
    edge.begin();
    edge.until(1, |it| it["issued"] == 1);
    assert_ne!(fs::read_to_string(edge.state().join("account.json")).unwrap(), account);
}

#[test]
fn an_account_of_the_authoritys_customer_is_bound() {
    let key = "zWNDZM6eQGHWpSRTPal5eIUYFTu7EajVIoguysqZ9wG44nMEtx3MUAsUDkMTQ12W";
    let keys = json!({
        "externalAccountBindingRequired": true,
        "externalAccountMACKeys": { "kid-1": key },
    });
    let pebble = Pebble::start(NONE, &keys);
    let names = "names = [\"a.test\"]";
    let mut edge = Edge::of(&pebble, names, true);
    edge.begin();
    let acme = edge.until(1, |it| it["failures"] == 1);
    assert!(acme[0]["fault"].as_str().unwrap().contains("externalAccount"), "{acme:?}");
    edge.kill();
    let bound = "external_account = { kid = \"kid-1\", key_file = \"account.key\" }";
    edge.edit(names, &format!("{names}\n{bound}"));
    fs::write(edge.folder().join("account.key"), "not base64!").unwrap();
    let check = || {
        let file = edge.folder().join("edge.toml");
        let mut command = Command::new(env!("CARGO_BIN_EXE_loadline"));
        command.arg("check").arg(file).env("NO_COLOR", "1").env("LC_ALL", "C.UTF-8");
        command.output().unwrap()
    };
    // Where its lines are broken depends on the length of the path.
    let said = String::from_utf8(check().stderr).unwrap().replace('│', "");
    let said = said.split_whitespace().collect::<Vec<_>>().join(" ");
    assert!(said.contains("key in base64url") && said.contains("account.key"), "{said}");
    fs::write(edge.folder().join("account.key"), format!("{key}\n")).unwrap();
    assert!(check().status.success());
    let waits_until_s = acme[0]["next_attempt_s"].as_u64().unwrap();
    edge.begin();
    // With the account that was missing it does not wait for what failed without.
    edge.until(1, |it| it["issued"] == 1);
    let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap();
    assert!(now.as_secs() < waits_until_s);
    edge.serves("a.test");
}

#[test]
fn a_name_that_does_not_lead_here_is_told_of_and_waits_and_the_others_are_served() {
    let pebble = Pebble::start(NONE, &json!({ "domainBlocklist": ["bad.test"] }));
    let mut edge = Edge::of(&pebble, "names = [\"a.test\", \"bad.test\"]", true);
    edge.begin();
    edge.until(1, |it| it["issued"] == 1);
    let acme = edge.until(1, |it| it["failures"] == 1);
    edge.serves("a.test");
    let bad = acme.iter().find(|it| it["name"] == "bad.test").unwrap();
    assert!(bad["fault"].as_str().unwrap().contains("rejectedIdentifier"), "{bad}");
}
