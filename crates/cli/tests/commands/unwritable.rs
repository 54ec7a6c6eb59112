//! What a result is to be written to is looked at before it is measured.

use std::net::TcpListener;

use crate::runs::{loadline, text};

#[test]
fn a_file_that_cannot_be_written_is_told_before_anything_is_measured() {
    let folder = tempfile::tempdir().unwrap();
    // Nothing can be made below what is a file.
    let file = folder.path().join("file");
    std::fs::write(&file, "").unwrap();
    let below = file.join("result");
    let below = below.to_str().unwrap();
    let service = TcpListener::bind("127.0.0.1:0").unwrap();
    service.set_nonblocking(true).unwrap();
    let url = format!("http://{}/", service.local_addr().unwrap());
    let commands: [&[&str]; 9] = [
        &["ttfb", "-n", "1", &url, "-o", below],
        &["ttfb", "-n", "1", &url, "--plot", below],
        &["bench", &url, "--rate", "10", "--duration", "1s", "-o", below],
        &["capacity", &url, "--slo", "p99<1s", "-o", below],
        &["watch", "-o", below, "--", "sleep", "60"],
        &["demo", "--report", below],
        &["demo", "--report", "/dev/null", "--json", below],
        &["lab", "overflow", "--markdown", below],
        &["lab", "simulate", "../../studies/capacity.toml", "--report", below],
    ];
    for args in commands {
        let told = loadline(args);
        assert_eq!(told.status.code(), Some(2), "{args:?}: {}", text(&told.stderr));
        let error = text(&told.stderr);
        assert!(told.stdout.is_empty() && error.lines().count() == 1, "{args:?}: {error}");
        assert!(error.starts_with("loadline: cannot "), "{args:?}: {error}");
    }
    assert!(service.accept().is_err(), "nothing was asked");
}
