//! A running edge without a server that answers.

use std::{
    fs,
    io::{BufRead as _, BufReader, Lines, Read as _, Write as _},
    net::TcpStream,
    path::Path,
    process::{Child, ChildStdout, Command, Stdio},
};

/// `loadline serve` on ports that the kernel chose; ended when it is dropped.
pub(crate) struct Edge {
    process: Child,
    pub(crate) traffic: String,
    pub(crate) admin: String,
}

impl Edge {
    /// With `file` as its configuration.
    pub(crate) fn start(binary: &Path, file: &Path) -> Self {
        let config = "[admin]\nbind = \"127.0.0.1:0\"\n\
            [[listener]]\nbind = \"127.0.0.1:0\"\nservice = \"web\"\n\
            [[service.web.group]]\nservers = [\"127.0.0.1:1\"]\n";
        fs::write(file, config).unwrap();
        let mut serve = Command::new(binary);
        let serve = serve.arg("serve").arg(file).stdout(Stdio::piped()).stderr(Stdio::null());
        let mut process = serve.spawn().unwrap();
        let mut lines = BufReader::new(process.stdout.take().unwrap()).lines();
        let traffic = after(&mut lines, "listening on ");
        let admin = after(&mut lines, "administration on ");
        Self { process, traffic, admin }
    }
}

impl Drop for Edge {
    fn drop(&mut self) {
        // It may have ended by itself; what was asked of it says so.
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

/// The response to a request for `path`, head and body.
pub(crate) fn get(address: &str, path: &str) -> String {
    let mut stream = TcpStream::connect(address).unwrap();
    write!(stream, "GET {path} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n").unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    answer
}

/// The address at the end of the next line that holds `words`.
fn after(lines: &mut Lines<BufReader<ChildStdout>>, words: &str) -> String {
    let line = lines.map(Result::unwrap).find(|line| line.contains(words)).unwrap();
    let address = line.split_once(words).unwrap().1.split_whitespace().next().unwrap();
    address.trim_start_matches("http://").trim_end_matches('/').to_owned()
}
