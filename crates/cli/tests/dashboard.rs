//! The dashboard in a real browser: it is renewed by itself, every control can be reached by the
//! keyboard, and it fits a phone, in light and in the dark.
//!
//! Chromium is driven over the DevTools protocol on a pipe, without a port, and ended by its
//! handle; what it writes goes to a directory that is removed.
#![expect(clippy::unwrap_used, reason = "a test helper fails the test it helps")]

use std::{
    fs,
    io::{BufRead as _, BufReader, Write as _},
    process::{Child, ChildStdin, Command, Stdio},
    sync::mpsc::{Receiver, channel},
    thread,
    time::{Duration, Instant},
};

use serde_json::{Value, json};

#[test]
fn figures_change_by_themselves_until_somebody_pauses() {
    let edge = Edge::start();
    let mut page = Page::open(&edge.admin, DESK);
    page.until("document.querySelector('.said').textContent.includes('0/s come in')");
    page.until("document.querySelector('.mark') !== null");

    let _load = edge.load();
    page.until("/\\d+\\/s come in: all to here/.test(document.querySelector('.said').textContent)");
    page.until("document.querySelector('polyline').getAttribute('points').split(' ').length > 1");

    page.run("document.getElementById('pause').click()");
    let seen = page.run("document.querySelector('header').textContent");
    page.until("document.getElementById('pause').textContent === 'Go on'");
    page.run("new Promise(done => events.addEventListener('message', () => done(1)))");
    assert_eq!(page.run("document.querySelector('header').textContent"), seen);
    page.run("document.getElementById('pause').click()");
    page.until(&format!("document.querySelector('header').textContent !== {seen}"));

    drop(edge);
    page.until("!document.getElementById('stale').hidden");
}

#[test]
fn the_keyboard_reaches_every_control_and_keeps_its_place() {
    let edge = Edge::start();
    let mut page = Page::open(&edge.admin, DESK);
    page.until("document.readyState === 'complete'");
    let mut reached = Vec::new();
    for _ in 0..3 {
        page.press("Tab", 9);
        reached.push(page.run("document.activeElement.id || document.activeElement.tagName"));
    }
    assert_eq!(reached, ["pause", "to-web", "SUMMARY"]);
    page.press("Enter", 13);
    page.until("document.querySelector('details').open");
    // The next news must neither close it nor take the focus away.
    page.run("new Promise(done => events.addEventListener('message', () => done(1)))");
    assert_eq!(page.run("document.querySelector('details').open"), json!(true));
    assert_eq!(page.run("document.activeElement.tagName"), json!("SUMMARY"));
}

#[test]
fn it_fits_a_phone_and_the_dark() {
    let edge = Edge::start();
    let mut page = Page::open(&edge.admin, PHONE);
    page.until("document.querySelector('summary') !== null");
    page.run("document.querySelector('summary').click()");
    page.until("document.querySelector('details').open");
    let width = "document.documentElement.scrollWidth <= window.innerWidth";
    assert_eq!(page.run(width), json!(true), "it scrolls to the side");

    let brightness = "getComputedStyle(document.body).backgroundColor.match(/\\d+/g).slice(0, 3) \
                      .reduce((sum, part) => sum + Number(part), 0)";
    page.prefer("light");
    assert!(page.run(brightness).as_i64().unwrap() > 600);
    page.prefer("dark");
    assert!(page.run(brightness).as_i64().unwrap() < 150);
}

/// A page of a browser of its own.
struct Page {
    browser: Child,
    commands: ChildStdin,
    messages: Receiver<Value>,
    session: Option<String>,
    number: u64,
    _profile: tempfile::TempDir,
}

impl Page {
    /// Opens the dashboard on a screen.
    fn open(admin: &str, (width, height): (u32, u32)) -> Self {
        let profile = tempfile::tempdir().unwrap();
        // The protocol speaks on descriptors 3 and 4.
        let start = format!(
            "exec chromium --headless=new --no-sandbox --disable-gpu --disable-dev-shm-usage \
             --remote-debugging-pipe --user-data-dir={} 3<&0 4>&1 </dev/null >/dev/null",
            profile.path().display()
        );
        let mut command = Command::new("sh");
        let command = command.args(["-c", &start]).stderr(Stdio::null());
        let browser = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn();
        let mut browser = browser.unwrap();
        let commands = browser.stdin.take().unwrap();
        let answers = BufReader::new(browser.stdout.take().unwrap());
        let (sender, messages) = channel();
        thread::spawn(move || {
            let split = answers.split(0).map_while(Result::ok);
            let parsed = split.map_while(|message| serde_json::from_slice(&message).ok());
            let _ = parsed.map(|message: Value| sender.send(message)).find(Result::is_err);
        });
        let (session, number) = (None, 0);
        let mut page = Self { browser, commands, messages, session, number, _profile: profile };
        let target = page.call("Target.createTarget", &json!({ "url": "about:blank" }));
        let attach = json!({ "targetId": target["targetId"], "flatten": true });
        let attached = page.call("Target.attachToTarget", &attach);
        page.session = Some(attached["sessionId"].as_str().unwrap().to_owned());
        let screen = json!({
            "width": width, "height": height, "deviceScaleFactor": 1, "mobile": width < 500,
        });
        page.call("Emulation.setDeviceMetricsOverride", &screen);
        page.call("Page.navigate", &json!({ "url": format!("http://{admin}/") }));
        page.until("document.getElementById('live') !== null");
        page
    }

    /// Has a command done, and gives its result.
    fn call(&mut self, method: &str, parameters: &Value) -> Value {
        self.number += 1;
        let mut message = json!({ "id": self.number, "method": method, "params": parameters });
        if let Some(session) = &self.session {
            message["sessionId"] = json!(session);
        }
        self.commands.write_all(format!("{message}\0").as_bytes()).unwrap();
        loop {
            let answer = self.messages.recv_timeout(LIMIT);
            let answer = answer.expect("Chromium answers (`scripts/setup test` installs it)");
            if answer["id"] == self.number {
                assert!(answer.get("error").is_none(), "{method}: {answer}");
                return answer["result"].clone();
            }
        }
    }

    /// The value of an expression, awaited where it is a promise.
    fn run(&mut self, expression: &str) -> Value {
        let parameters =
            json!({ "expression": expression, "returnByValue": true, "awaitPromise": true });
        let result = self.call("Runtime.evaluate", &parameters);
        assert!(result.get("exceptionDetails").is_none(), "{expression}: {result}");
        result["result"]["value"].clone()
    }

    /// Asks until an expression is true.
    fn until(&mut self, expression: &str) {
        let deadline = Instant::now() + LIMIT;
        let parameters = json!({ "expression": expression, "returnByValue": true });
        // While a page is being loaded there may be nothing to ask yet.
        while self.call("Runtime.evaluate", &parameters)["result"]["value"] != true {
            let text = "document.body ? document.body.innerText : ''";
            assert!(Instant::now() < deadline, "not {expression}: {}", self.run(text));
            thread::sleep(Duration::from_millis(50));
        }
    }

    fn press(&mut self, key: &str, code: u32) {
        let text = if key == "Enter" { "\r" } else { "" };
        for kind in ["keyDown", "keyUp"] {
            let event = json!({
                "type": kind, "key": key, "code": key, "text": text,
                "windowsVirtualKeyCode": code,
            });
            self.call("Input.dispatchKeyEvent", &event);
        }
    }

    fn prefer(&mut self, scheme: &str) {
        let feature = json!({ "name": "prefers-color-scheme", "value": scheme });
        self.call("Emulation.setEmulatedMedia", &json!({ "features": [feature] }));
    }
}

impl Drop for Page {
    fn drop(&mut self) {
        // Its own children end with it.
        let _ = self.browser.kill();
        let _ = self.browser.wait();
    }
}

/// A proxy with its dashboard, before a server that answers at once.
struct Edge {
    _server: Process,
    _proxy: Process,
    traffic: String,
    admin: String,
    _directory: tempfile::TempDir,
}

impl Edge {
    fn start() -> Self {
        let (server, lines) = Process::start(&["worker", "fixed", "--listen", "127.0.0.1:0"], 1);
        let directory = tempfile::tempdir().unwrap();
        let file = directory.path().join("edge.toml");
        let config = format!(
            "[admin]\nbind = \"127.0.0.1:0\"\n[[listener]]\nbind = \"127.0.0.1:0\"\n\
             service = \"web\"\n[[service.web.group]]\nregion = \"here\"\nmax_rate = \"500/s\"\n\
             servers = [\"{}\"]\n",
            place(&lines[0])
        );
        fs::write(&file, config).unwrap();
        let (proxy, lines) = Process::start(&["serve", file.to_str().unwrap()], 3);
        let (traffic, admin) = (place(&lines[0]), place(&lines[1]));
        Self { _server: server, _proxy: proxy, traffic, admin, _directory: directory }
    }

    /// Forty requests a second for a minute, or until it is dropped.
    fn load(&self) -> Process {
        let url = format!("http://{}/", self.traffic);
        Process::start(&["bench", &url, "--rate", "40", "--duration", "60s"], 0).0
    }
}

/// A process that is killed when it is dropped.
struct Process(Child);

impl Process {
    /// Starts it and waits for its first lines, all that it prints while it runs.
    fn start(args: &[&str], lines: usize) -> (Self, Vec<String>) {
        let mut command = Command::new(env!("CARGO_BIN_EXE_loadline"));
        let command = command.args(args).env_remove("RUST_LOG").stderr(Stdio::null());
        let mut child = command.stdout(Stdio::piped()).spawn().unwrap();
        let told = BufReader::new(child.stdout.take().unwrap()).lines().take(lines);
        let told = told.map(Result::unwrap).collect();
        (Self(child), told)
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// The address at the end of a line.
fn place(line: &str) -> String {
    line.rsplit(' ').next().unwrap().to_owned()
}

/// Width and height of a screen.
const DESK: (u32, u32) = (1100, 900);
const PHONE: (u32, u32) = (390, 844);

/// Long enough for a browser to start on a machine that is busy.
const LIMIT: Duration = Duration::from_secs(60);
