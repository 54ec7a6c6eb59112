//! Chromium, driven over the DevTools protocol on a pipe, without a port, and ended by its handle;
//! what it writes goes to a directory that is removed.

use std::{
    io::{BufRead as _, BufReader, Write as _},
    process::{Child, ChildStdin, Command, Stdio},
    sync::mpsc::{Receiver, channel},
    thread,
    time::{Duration, Instant},
};

use serde_json::{Value, json};

/// A page of a browser of its own.
pub(crate) struct Page {
    browser: Child,
    commands: ChildStdin,
    messages: Receiver<Value>,
    session: Option<String>,
    number: u64,
    _profile: tempfile::TempDir,
}

impl Page {
    /// Opens a page of loadline's admin on a screen, by its URL.
    pub(crate) fn open(url: &str, screen: (u32, u32)) -> Self {
        Self::open_with(url, screen, "--ignore-certificate-errors")
    }

    /// The same in a browser with these options.
    pub(crate) fn open_with(url: &str, (width, height): (u32, u32), options: &str) -> Self {
        let profile = tempfile::tempdir().unwrap();
        // The protocol speaks on descriptors 3 and 4.
        let start = format!(
            "exec chromium --headless=new --no-sandbox --disable-gpu --disable-dev-shm-usage \
             {options} --remote-debugging-pipe --user-data-dir={} \
             3<&0 4>&1 </dev/null >/dev/null",
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
        page.call("Page.navigate", &json!({ "url": url }));
        // By then its scripts have run.
        page.until(
            "document.getElementById('live') !== null && document.readyState === 'complete'",
        );
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
    pub(crate) fn run(&mut self, expression: &str) -> Value {
        let parameters =
            json!({ "expression": expression, "returnByValue": true, "awaitPromise": true });
        let result = self.call("Runtime.evaluate", &parameters);
        assert!(result.get("exceptionDetails").is_none(), "{expression}: {result}");
        result["result"]["value"].clone()
    }

    /// Asks until an expression is true.
    pub(crate) fn until(&mut self, expression: &str) {
        let deadline = Instant::now() + LIMIT;
        let parameters = json!({ "expression": expression, "returnByValue": true });
        // While a page is being loaded there may be nothing to ask yet.
        while self.call("Runtime.evaluate", &parameters)["result"]["value"] != true {
            let text = "document.body ? document.body.innerText : ''";
            assert!(Instant::now() < deadline, "not {expression}: {}", self.run(text));
            thread::sleep(Duration::from_millis(50));
        }
    }

    pub(crate) fn press(&mut self, key: &str, code: u32) {
        let text = if key == "Enter" { "\r" } else { "" };
        for kind in ["keyDown", "keyUp"] {
            let event = json!({
                "type": kind, "key": key, "code": key, "text": text,
                "windowsVirtualKeyCode": code,
            });
            self.call("Input.dispatchKeyEvent", &event);
        }
    }

    pub(crate) fn prefer(&mut self, scheme: &str) {
        let feature = json!({ "name": "prefers-color-scheme", "value": scheme });
        self.call("Emulation.setEmulatedMedia", &json!({ "features": [feature] }));
    }

    /// Shows it as on paper.
    pub(crate) fn print(&mut self) {
        self.call("Emulation.setEmulatedMedia", &json!({ "media": "print" }));
    }
}

impl Drop for Page {
    fn drop(&mut self) {
        // Its own children end with it.
        let _ = self.browser.kill();
        let _ = self.browser.wait();
    }
}

/// Width and height of a screen.
pub(crate) const DESK: (u32, u32) = (1100, 900);
pub(crate) const PHONE: (u32, u32) = (390, 844);

/// Long enough for a browser to start on a machine that is busy.
const LIMIT: Duration = Duration::from_secs(60);
