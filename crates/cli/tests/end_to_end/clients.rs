//! Real clients through the proxy: curl, siege and httperf as people call them.

use std::fs;

use crate::process::{Process, file, run};

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

#[test]
fn curl_gets_heads_posts_and_speaks_http_1_0() {
    let worker = Process::start(&["worker", "json", "--listen", "127.0.0.1:0"]);
    let proxy = Process::proxy(&[&worker]);
    let url = proxy.url("/");
    let got = text(&run("curl", &["-sS", "-i", &url]).stdout);
    assert!(got.starts_with("HTTP/1.1 200 OK\r\n"), "{got}");
    assert!(got.ends_with("\r\n\r\n{\"hello\": \"world\"}"), "{got}");
    let head = text(&run("curl", &["-sS", "-I", &url]).stdout);
    assert!(head.starts_with("HTTP/1.1 200 OK\r\n") && head.ends_with("\r\n\r\n"), "{head}");
    let old = text(&run("curl", &["-sS", "--http1.0", "-w", " %{http_code}", &url]).stdout);
    assert_eq!(old, "{\"hello\": \"world\"} 200");

    // Over a mebibyte curl asks with `Expect: 100-continue` before it sends the body.
    let body = file("body", &"x".repeat(3 << 20));
    let data = format!("@{}", body.display());
    let posted = run("curl", &["-sS", "--data-binary", &data, "-w", " %{http_code}", &url]);
    assert_eq!(text(&posted.stdout), "{\"hello\": \"world\"} 200");
    let chunked = ["-sS", "-H", "Transfer-Encoding: chunked", "--data-binary", &data];
    let posted = run("curl", &[&chunked[..], &["-w", " %{http_code}", &url]].concat());
    assert_eq!(text(&posted.stdout), "{\"hello\": \"world\"} 200");
    fs::remove_file(body).unwrap();
}

#[test]
fn the_picture_of_the_tutorial_comes_through_whole() {
    let args = ["worker", "mandelbrot", "--listen", "127.0.0.1:0", "--service-time", "10ms"];
    let worker = Process::start(&args);
    let proxy = Process::proxy(&[&worker]);
    let direct = run("curl", &["-sS", &worker.url("/")]).stdout;
    assert!(direct.starts_with(b"\x89PNG"));
    assert_eq!(run("curl", &["-sS", &proxy.url("/")]).stdout, direct);
}

#[test]
fn siege_and_httperf_finish_without_a_failure() {
    let worker = Process::fixed();
    let proxy = Process::proxy(&[&worker]);
    let config = file("siegerc", "parser = false\njson_output = false\ncolor = off\n");
    let rc = format!("--rc={}", config.display());
    let siege = run("siege", &[&rc, "-c", "4", "-r", "20", "-b", &proxy.url("/")]);
    let report = text(&[siege.stdout, siege.stderr].concat());
    let line = |name: &str| report.lines().find(|line| line.starts_with(name)).unwrap().to_owned();
    assert!(line("Successful transactions").ends_with(" 80"), "{report}");
    assert!(line("Failed transactions").ends_with(" 0"), "{report}");

    let (host, port) = proxy.address.split_once(':').unwrap();
    let args = ["--server", host, "--port", port, "--rate", "100", "--num-conns", "200"];
    let report = text(&run("httperf", &args).stdout);
    assert!(report.contains("Total: connections 200 requests 200 replies 200"), "{report}");
    assert!(report.contains("Errors: total 0"), "{report}");
}
