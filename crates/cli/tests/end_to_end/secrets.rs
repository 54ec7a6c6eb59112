//! No secret comes into a log: secrets are sent every way there is, while the process tells all
//! that it can, and nothing of what it wrote may hold one.

use std::{
    fs,
    io::{Read as _, Write as _},
    net::TcpStream,
    path::{Path, PathBuf},
    time::Duration,
};

use crate::process::{Process, file, run};

/// Stands in every secret; in base64 as `curl -u` sends it, too.
const SECRET: &str = "hush";
const IN_BASE64: &str = "aHVzaDpodXNo";

/// What the key of sessions and the token are.
const KEY: &str = "hush-hush-hush-hush";

/// An edge with an administration, an access log and a collector that is away.
struct Edge {
    worker: Process,
    process: Process,
    config: PathBuf,
    lines: PathBuf,
    told: PathBuf,
    admin: PathBuf,
}

impl Edge {
    fn logging(format: &str) -> Self {
        let worker = Process::fixed();
        let (lines, told) = (file("access.log", ""), file("told.log", ""));
        let (token, admin) = (file("token", KEY), file("admin.sock", ""));
        fs::remove_file(&admin).unwrap();
        let config = format!(
            "[edge]\naccess_log = {{ to = {lines:?}, format = \"{format}\", query = false }}\n\
             [admin]\nbind = {admin:?}\ntoken_file = {token:?}\n\
             [tracing]\nendpoint = \"http://127.0.0.1:9\"\nsample = \"100%\"\n\
             [[listener]]\nbind = \"127.0.0.1:0\"\nservice = \"web\"\n\
             [service.web]\nsticky = {{ cookie = \"sid\", key = \"{KEY}\" }}\n\
             [[service.web.group]]\nservers = [\"{}\"]\n",
            worker.address
        );
        let config = file("secrets.toml", &config);
        let process = Process::telling_all(&["serve", config.to_str().unwrap()], &told);
        Self { worker, process, config, lines, told, admin }
    }

    /// A request full of secrets, with these options more.
    fn ask(&self, options: &[&str]) {
        let url = self.process.url("/page?token=hush&X-Amz-Signature=hush");
        let secrets = [
            "-u",
            "hush:hush",
            "-b",
            "sid=hush; session=hush",
            "-e",
            "http://a.test/?code=hush",
            "-H",
            "Proxy-Authorization: Bearer hush",
            "-H",
            "X-Api-Key: hush",
        ];
        run("curl", &[&["-s", "-o", "/dev/null"], &secrets[..], options, &[&url]].concat());
    }

    /// What is no request, up to the end of the connection.
    fn say(&self, bytes: &[u8]) {
        let mut stream = TcpStream::connect(&self.process.address).unwrap();
        stream.set_read_timeout(Some(Duration::from_secs(10))).unwrap();
        stream.write_all(bytes).unwrap();
        // It may be reset where there is more than was read.
        let _ = stream.read_to_end(&mut Vec::new());
    }

    /// The status of a change by the administration.
    fn change(&self, path: &str, token: &str, body: &str) -> String {
        let (socket, url) = (self.admin.to_str().unwrap(), format!("http://localhost{path}"));
        let token = format!("Authorization: Bearer {token}");
        let said = run(
            "curl",
            &[
                "-s",
                "-o",
                "/dev/null",
                "-w",
                "%{http_code}",
                "--unix-socket",
                socket,
                "-H",
                &token,
                "-H",
                "Content-Type: application/json",
                "-d",
                body,
                &url,
            ],
        );
        String::from_utf8(said.stdout).unwrap()
    }

    /// Reads the file again with a mistake on the line of the key.
    fn reload_with_a_mistake(&self) {
        let text = fs::read_to_string(&self.config).unwrap();
        let wrong = text.replace("cookie = \"sid\",", "cookie = \"sid\", pth = \"/\",");
        fs::write(&self.config, wrong).unwrap();
        self.process.signal("HUP");
        let told = || fs::read_to_string(&self.told).unwrap_or_default().contains("not reloaded");
        assert!((0..1_000).any(|_| told() || pause()), "the mistake is told");
    }
}

/// A moment, which is never the condition that is waited for.
fn pause() -> bool {
    std::thread::sleep(Duration::from_millis(10));
    false
}

/// All that was written, for as long as nothing of it is a secret.
fn read(path: &Path) -> String {
    let text = fs::read_to_string(path).unwrap();
    let secret = |line: &&str| line.to_lowercase().contains(SECRET) || line.contains(IN_BASE64);
    assert_eq!(text.lines().find(secret), None, "in {}", path.display());
    text
}

#[test]
fn nothing_that_is_written_holds_a_secret_that_was_sent() {
    for format in ["text", "combined", "json"] {
        let edge = Edge::logging(format);
        edge.ask(&[]);
        edge.ask(&["--http2-prior-knowledge"]);
        edge.ask(&["--data", "password=hush"]);
        edge.ask(&["-H", "Transfer-Encoding: hush", "--data", "password=hush"]);
        edge.say(b"GET /?token=hush HTTP/1.1\r\nAuthorization : Bearer hush\r\n\r\n");
        edge.say(b"GET /?token=hush HTTP/1.1\r\nHost: a\r\nCookie: hush\x01\r\n\r\n");
        edge.say(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\nhush hush hush hush hush hush");
        let cookie = "hush".repeat(10_000);
        edge.say(format!("GET / HTTP/1.1\r\nHost: a\r\nCookie: {cookie}\r\n\r\n").as_bytes());

        let server = format!("/api/services/web/groups/local/servers/{}", edge.worker.address);
        assert_eq!(edge.change(&server, "hush", "{\"weight\":2}"), "401");
        assert_eq!(edge.change(&server, KEY, "{\"hush\":\"hush\"}"), "422");
        assert_eq!(edge.change(&server, KEY, "{\"weight\":2}"), "200");
        edge.reload_with_a_mistake();
        edge.worker.signal("KILL");
        edge.ask(&[]);

        let Edge { process, lines, told, .. } = edge;
        process.terminate();
        let (lines, told) = (read(&lines), read(&told));
        assert!(lines.lines().count() >= 8, "{lines}");
        // Whichever the killed server was quicker to lose, its connections or its address.
        let is_lost = ["connect-refused", "server-reset"].iter().any(|it| lines.contains(it));
        assert!(lines.contains("/page?") && is_lost, "{lines}");
        for known in ["changed by the admin interface", "pth", "spans wait for the collector"] {
            assert!(told.contains(known), "{known} is not told");
        }
    }
}
