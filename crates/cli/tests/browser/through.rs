//! A browser through the proxy: pages, events that never end, many responses at once and
//! `WebSocket`, all over TLS and HTTP/2, and all but the last over HTTP/3. The server behind is a
//! dashboard, which has all of these but the last.

use std::{
    fs,
    io::{BufRead as _, BufReader},
    process::{Child, Command, Stdio},
    thread,
    time::{Duration, Instant},
};

use serde_json::json;

use crate::{
    edge::{Edge, Process, place},
    page::{DESK, Page},
};

#[test]
fn a_page_its_events_and_fifty_answers_come_over_http2() {
    let edge = Edge::start();
    let front = Front::before(&edge.admin, "127.0.0.1:9");
    shows_events_and_fifty_answers(Page::open(&front.url, DESK), "h2");
}

#[test]
fn a_page_its_events_and_fifty_answers_come_over_http3() {
    let edge = Edge::start();
    let front = Front::before(&edge.admin, "127.0.0.1:9");
    front.wait_for_http3();
    // Over QUIC a certificate is trusted by its key alone.
    let (origin, key) = (front.origin(), front.key());
    let options =
        format!("--origin-to-force-quic-on={origin} --ignore-certificate-errors-spki-list={key}");
    shows_events_and_fifty_answers(Page::open_with(&front.url, DESK, &options), "h3");
}

fn shows_events_and_fifty_answers(mut page: Page, protocol: &str) {
    let navigation = "performance.getEntriesByType('navigation')[0].nextHopProtocol";
    assert_eq!(page.run(navigation), json!(protocol));
    page.run("new Promise(done => events.addEventListener('message', () => done(1)))");

    let answers = "Promise.all(Array.from({ length: 50 }, (_, n) => \
                   fetch('/metrics?' + n).then(answer => answer.text()))) \
                   .then(all => all.filter(text => text.includes('loadline_')).length)";
    assert_eq!(page.run(answers), json!(50));
    let versions = "[...new Set(performance.getEntriesByType('resource') \
                    .filter(entry => entry.name.includes('metrics')) \
                    .map(entry => entry.nextHopProtocol))]";
    assert_eq!(page.run(versions), json!([protocol]));
}

#[test]
fn a_websocket_is_opened_and_echoes() {
    let (edge, echo) = (Edge::start(), Echo::start());
    let front = Front::before(&edge.admin, &echo.address);
    let mut page = Page::open(&front.url, DESK);
    let heard = "new Promise((done, failed) => { \
                 const socket = new WebSocket(location.origin.replace('http', 'ws') + '/echo'); \
                 socket.onopen = () => socket.send('hello'); \
                 socket.onmessage = message => done(message.data); \
                 socket.onerror = () => failed('no echo'); })";
    assert_eq!(page.run(heard), json!("hello"));
}

/// A proxy with TLS before other servers: one for `/echo`, one for everything else.
struct Front {
    _proxy: Process,
    url: String,
    directory: tempfile::TempDir,
}

impl Front {
    fn before(server: &str, echo: &str) -> Self {
        let directory = tempfile::tempdir().unwrap();
        let at = |name: &str| directory.path().join(name);
        let own = rcgen::generate_simple_self_signed(["127.0.0.1".to_owned()]).unwrap();
        fs::write(at("own.pem"), own.cert.pem() + &own.signing_key.serialize_pem()).unwrap();
        let config = format!(
            "[[listener]]\nbind = \"127.0.0.1:0\"\nprotocol = \"https\"\n\
             tls = {{ certificates = [{:?}] }}\n\
             service = \"web\"\nroutes = [{{ path = \"/echo\", service = \"echo\" }}]\n\
             [[service.web.group]]\nservers = [\"{server}\"]\n\
             [[service.echo.group]]\nservers = [\"{echo}\"]\n",
            at("own.pem").display().to_string()
        );
        fs::write(at("front.toml"), config).unwrap();
        let (proxy, lines) = Process::start(&["serve", at("front.toml").to_str().unwrap()], 1);
        let url = format!("https://{}/", place(&lines[0]));
        Self { _proxy: proxy, url, directory }
    }

    /// Host and port.
    fn origin(&self) -> &str {
        self.url.trim_start_matches("https://").trim_end_matches('/')
    }

    /// Waits until it offers HTTP/3.
    fn wait_for_http3(&self) {
        let deadline = Instant::now() + Duration::from_secs(20);
        let asked = || Command::new("curl").args(["-skI", &self.url]).output().unwrap().stdout;
        while !String::from_utf8_lossy(&asked()).to_lowercase().contains("alt-svc: h3=") {
            assert!(Instant::now() < deadline, "HTTP/3 is not offered");
            thread::sleep(Duration::from_millis(20));
        }
    }

    /// The SHA-256 of the key that its certificate is for.
    fn key(&self) -> String {
        let hash = "openssl x509 -in \"$1\" -pubkey -noout | openssl pkey -pubin -outform der | \
                    openssl dgst -sha256 -binary | openssl enc -base64";
        let certificate = self.directory.path().join("own.pem");
        let output = Command::new("sh").args(["-c", hash, "sh"]).arg(certificate).output();
        String::from_utf8(output.unwrap().stdout).unwrap().trim_end().to_owned()
    }
}

/// An echo over `WebSocket` by the distribution's Python; killed when it is dropped.
struct Echo {
    process: Child,
    address: String,
}

impl Echo {
    fn start() -> Self {
        let mut command = Command::new("/usr/bin/python3");
        let command = command.args(["-c", ECHO]).stdout(Stdio::piped());
        let mut process = command.spawn().unwrap();
        let mut port = String::new();
        BufReader::new(process.stdout.take().unwrap()).read_line(&mut port).unwrap();
        Self { process, address: format!("127.0.0.1:{}", port.trim()) }
    }
}

impl Drop for Echo {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

const ECHO: &str = "
import asyncio, websockets

async def echo(socket):
    async for message in socket:
        await socket.send(message)

async def serve():
    async with websockets.serve(echo, '127.0.0.1', 0) as server:
        print(server.sockets[0].getsockname()[1], flush=True)
        await asyncio.Future()

asyncio.run(serve())
";
