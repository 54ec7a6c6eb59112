//! A browser through the proxy: pages, events that never end, many responses at once and
//! `WebSocket`, all over TLS and HTTP/2. The server behind is a dashboard, which has all of these
//! but the last.

use std::{
    fs,
    io::{BufRead as _, BufReader},
    process::{Child, Command, Stdio},
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
    let mut page = Page::open(&front.url, DESK);
    let navigation = "performance.getEntriesByType('navigation')[0].nextHopProtocol";
    assert_eq!(page.run(navigation), json!("h2"));
    page.run("new Promise(done => events.addEventListener('message', () => done(1)))");

    let answers = "Promise.all(Array.from({ length: 50 }, (_, n) => \
                   fetch('/metrics?' + n).then(answer => answer.text()))) \
                   .then(all => all.filter(text => text.includes('loadline_')).length)";
    assert_eq!(page.run(answers), json!(50));
    let versions = "[...new Set(performance.getEntriesByType('resource') \
                    .filter(entry => entry.name.includes('metrics')) \
                    .map(entry => entry.nextHopProtocol))]";
    assert_eq!(page.run(versions), json!(["h2"]));
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
    _directory: tempfile::TempDir,
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
        Self { _proxy: proxy, url, _directory: directory }
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
