//! libcurl (ngtcp2 and nghttp3), quic-go and aioquic: what they are answered, and what QUIC has
//! beyond TCP. Chromium is in the test `browser`.

use std::process::Command;

use crate::{
    edge::{Edge, said, script},
    installed::installed,
    skipped::skipped,
};

#[test]
fn libcurl_gets_posts_and_asks_a_hundred_times_at_once() {
    let mut edge = Edge::start();
    let Some(python) = python("curl_cffi") else { return skipped("curl_cffi") };
    let url = edge.url();
    let curl = |command: &str, argument: &str| {
        let mut curl = Command::new(&python);
        curl.arg(script("curl_client.py")).args([command, &url]);
        said(if argument.is_empty() { &mut curl } else { curl.arg(argument) })
    };
    assert_eq!(curl("get", ""), "200 1000 3, 200 1000 3, 200 1000 3");
    assert_eq!(curl("post", LARGE), format!("200 {LARGE}"));
    assert_eq!(curl("many", "100"), "100");
    edge.assert_sound();
}

#[test]
fn quic_go_gets_posts_and_asks_a_hundred_times_at_once() {
    let mut edge = Edge::start();
    let Some(client) = installed("quic-go-client") else { return skipped("quic-go") };
    let ask = |command: &str, argument: &str| {
        said(Command::new(&client).args([command, &edge.url(), argument]))
    };
    assert_eq!(ask("get", ""), "200 1000 HTTP/3.0");
    assert_eq!(ask("post", LARGE), format!("200 {LARGE}"));
    assert_eq!(ask("many", "100"), "100");
    edge.assert_sound();
}

#[test]
fn quic_go_goes_on_from_another_port_in_the_middle_of_a_download() {
    let mut edge = Edge::start();
    let Some(client) = installed("quic-go-client") else { return skipped("quic-go") };
    let told = said(Command::new(client).args(["migrate", &edge.url(), MIDDLING]));
    assert_eq!(told, format!("200 {MIDDLING}"));
    edge.assert_sound();
}

#[test]
fn aioquic_gets_posts_and_asks_a_hundred_times_at_once() {
    let mut edge = Edge::start();
    let Some(aioquic) = Aioquic::of(&edge) else { return skipped("aioquic") };
    assert_eq!(aioquic.does("get", &[]), "200 10");
    assert_eq!(aioquic.does("post", &[MIDDLING]), format!("200 {MIDDLING}"));
    assert_eq!(aioquic.does("many", &["100"]), "100");
    edge.assert_sound();
}

#[test]
fn aioquic_goes_on_from_another_port_and_with_other_keys_in_the_middle_of_a_download() {
    let mut edge = Edge::start();
    let Some(aioquic) = Aioquic::of(&edge) else { return skipped("aioquic") };
    for change in ["migrate", "keys"] {
        let told = aioquic.does(change, &[MIDDLING]);
        assert_eq!(told, format!("200 {MIDDLING} midway"), "{change}");
    }
    edge.assert_sound();
}

#[test]
fn early_data_is_not_offered_and_a_post_in_it_is_refused() {
    let mut edge = Edge::start();
    let Some(aioquic) = Aioquic::of(&edge) else { return skipped("aioquic") };
    assert_eq!(aioquic.does("early", &[]), "offered None, accepted False");
    edge.assert_sound();
}

/// The programs of aioquic, and the port they go to.
pub(crate) struct Aioquic {
    python: std::path::PathBuf,
    port: String,
}

impl Aioquic {
    /// None where it is not installed.
    pub(crate) fn of(edge: &Edge) -> Option<Self> {
        Some(Self { python: python("aioquic")?, port: edge.port.to_string() })
    }

    /// What came of a command.
    pub(crate) fn does(&self, command: &str, arguments: &[&str]) -> String {
        let mut program = Command::new(&self.python);
        let program = program.arg(script("aioquic_client.py")).args([command, &self.port]);
        said(program.args(arguments))
    }
}

/// The Python that has this module.
pub(crate) fn python(module: &str) -> Option<std::path::PathBuf> {
    let python = installed("python")?;
    let import = Command::new(&python).args(["-c", &format!("import {module}")]).output();
    import.is_ok_and(|it| it.status.success()).then_some(python)
}

/// 100 MB.
const LARGE: &str = "100000000";

/// As much as a client in Python takes within a second or two.
const MIDDLING: &str = "10000000";
