//! A map in a file that somebody else writes: a header for servers, and redirects.

use std::fs;

use crate::process::{Process, file, logging, run, until_logged};

#[test]
fn a_map_decides_a_header_and_redirects_and_is_read_again_at_a_reload() {
    let worker = Process::fixed();
    let moved = file("moved.map", "# old pages\n/old https://new.test/page\n");
    let text = format!(
        "[maps.moved]\nof = \"$path\"\nfile = \"{}\"\n\
         [maps.color]\nof = \"$host\"\nkind = \"suffix\"\ndefault = \"grey\"\n\
         values = {{ \".blue.test\" = \"blue\" }}\n\
         [maps.inside]\nof = \"$path\"\nvalues = {{ \"/in\" = \"/stats\" }}\n\
         [[listener]]\nbind = \"127.0.0.1:0\"\nservice = \"web\"\nroutes = [\n\
         {{ redirect = {{ location = \"$moved\", status = 301 }} }},\n\
         {{ service = \"web\", rewrite = {{ map = \"inside\" }}, \
         answer_headers = {{ set = {{ X-Color = \"is-$color\" }} }} }},\n]\n\
         [[service.web.group]]\nservers = [\"{}\"]\n",
        moved.display(),
        worker.address
    );
    let path = file("maps.toml", &text);
    let (proxy, log) = logging(&["serve", path.to_str().unwrap()]);
    let head = |path: &str, host: &str| {
        let host = format!("Host: {host}");
        let url = proxy.url(path);
        let args = ["-s", "--path-as-is", "-o", "/dev/null", "-D", "-", "-H", &host, &url];
        String::from_utf8(run("curl", &args).stdout).unwrap().to_ascii_lowercase()
    };
    for old in ["/old", "/%6Fld", "/x/../old?y"] {
        let told = head(old, "a.test");
        assert!(told.starts_with("http/1.1 301 "), "{old}: {told}");
        assert!(told.contains("location: https://new.test/page\r\n"), "{old}: {told}");
    }
    for (host, color) in [("A.Blue.Test", "is-blue"), ("blue.test", "is-grey")] {
        let told = head("/", host);
        assert!(told.starts_with("http/1.1 200 "), "{told}");
        assert!(told.contains(&format!("x-color: {color}\r\n")), "{host}: {told}");
    }
    let body = |path: &str| run("curl", &["-s", &proxy.url(path)]).stdout;
    assert!(body("/in").starts_with(b"{") && !body("/inn").starts_with(b"{"), "rewritten by a map");
    fs::write(&moved, "/older /newer\n").unwrap();
    proxy.signal("HUP");
    assert!((0..2_000).any(|_| head("/older", "a").contains("location: /newer\r\n")));
    let is_gone = |_| !head("/old", "a").starts_with("http/1.1 301 ");
    assert!((0..2_000).any(is_gone), "it is not in the file any more");
    // A file that cannot be read changes nothing.
    fs::write(&moved, "/older\n").unwrap();
    proxy.signal("HUP");
    until_logged(&log, "line 1, column 7");
    assert!(head("/older", "a").contains("location: /newer\r\n"));
    proxy.terminate();
    for path in [moved, path, log] {
        fs::remove_file(path).unwrap();
    }
}
