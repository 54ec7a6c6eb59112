//! The administration of a running edge, asked over TCP or a Unix socket.

use std::{
    fs,
    io::{ErrorKind, Read, Write},
    net::{IpAddr, SocketAddr, TcpStream, ToSocketAddrs as _},
    os::unix::{fs::FileTypeExt as _, net::UnixStream},
    path::PathBuf,
    str::FromStr,
    time::Duration,
};

use anyhow::{Context as _, bail, ensure};
use loadline_core::state::State;
use loadline_http1::{BodyReader, HeadLimits, Method, ResponseHead, Status};
use serde::{Deserialize, de::DeserializeOwned};

/// Where an administration listens.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Administration {
    /// `host:port`.
    Address(String),
    /// The path of a Unix socket.
    Socket(PathBuf),
}

impl FromStr for Administration {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let is_path = |text: &str| text.starts_with(['/', '.']);
        if let Some(path) = text.strip_prefix("unix:").or(Some(text)).filter(|it| is_path(it)) {
            return Ok(Self::Socket(path.into()));
        }
        let url = text.strip_prefix("http://");
        let bare = url.unwrap_or(text).trim_end_matches('/');
        let has_scheme = bare.contains("://");
        if url.is_none() && !has_scheme && (bare.contains('/') || is_socket(bare)) {
            return Ok(Self::Socket(text.into()));
        }
        let inner = bare.strip_prefix('[').and_then(|it| it.strip_suffix(']'));
        if let Ok(ip) = inner.unwrap_or(bare).parse::<IpAddr>() {
            return Ok(Self::Address(SocketAddr::new(ip, PORT).to_string()));
        }
        let (host, port) =
            bare.rsplit_once(':').map_or((bare, Ok(PORT)), |it| (it.0, it.1.parse()));
        let host = if host.is_empty() { "127.0.0.1" } else { host };
        match port {
            Ok(port) if !host.contains('/') => Ok(Self::Address(format!("{host}:{port}"))),
            _ => Err("write an address like 127.0.0.1:9090 or the path of a socket".into()),
        }
    }
}

impl Administration {
    /// What the edge does now.
    pub(crate) fn state(&self) -> anyhow::Result<State> {
        self.get("/api/state")
    }

    /// What is at a path of the API.
    pub(crate) fn get<T: DeserializeOwned>(&self, path: &str) -> anyhow::Result<T> {
        self.ask((&[format!("GET {path} HTTP/1.1")], ""), &TO_TELL)
    }

    /// Asks for a change, of which `body` is the description, and proves by `token` that it may.
    pub(crate) fn post<T: DeserializeOwned>(
        &self,
        path: &str,
        token: &str,
        body: &str,
    ) -> anyhow::Result<T> {
        let lines = [
            format!("POST {path} HTTP/1.1"),
            format!("Authorization: Bearer {token}"),
            "Content-Type: application/json".to_owned(),
            format!("Content-Length: {}", body.len()),
        ];
        self.ask((&lines, body), &TO_CHANGE)
    }

    fn ask<T: DeserializeOwned>(
        &self,
        request: (&[String], &str),
        patience: &Patience,
    ) -> anyhow::Result<T> {
        match self {
            Self::Address(address) => {
                let mut stream = connect(address)?;
                stream.set_read_timeout(Some(patience.limit))?;
                ask(&mut stream, address, request, patience)
            }
            Self::Socket(socket) => {
                let stream = UnixStream::connect(socket);
                let mut stream =
                    stream.with_context(|| unreached(&socket.display().to_string()))?;
                stream.set_read_timeout(Some(patience.limit))?;
                ask(&mut stream, "localhost", request, patience)
            }
        }
    }
}

fn ask<T: DeserializeOwned>(
    stream: &mut (impl Read + Write),
    host: &str,
    (lines, body): (&[String], &str),
    patience: &Patience,
) -> anyhow::Result<T> {
    let request = lines.join("\r\n") + &format!("\r\nHost: {host}\r\n{CLOSE}\r\n\r\n{body}");
    stream.write_all(request.as_bytes())?;
    let mut answer = Vec::new();
    match stream.take(ANSWER_MAX).read_to_end(&mut answer) {
        Ok(_) => read(&answer),
        Err(error) if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut) => {
            let Patience { limit, then } = patience;
            bail!("no answer within {} s{then}", limit.as_secs_f64())
        }
        Err(error) => Err(error).context("the answer broke off"),
    }
}

fn connect(address: &str) -> anyhow::Result<TcpStream> {
    let found = address.to_socket_addrs().with_context(|| unreached(address))?;
    let mut last = None;
    for candidate in found {
        match TcpStream::connect_timeout(&candidate, TO_TELL.limit) {
            Ok(stream) => return Ok(stream),
            Err(error) => last = Some(error),
        }
    }
    match last {
        Some(error) => Err(error).with_context(|| unreached(address)),
        None => bail!(unreached(address)),
    }
}

/// Whether there is a socket of this name. A host may have the name of a file or a folder.
fn is_socket(name: &str) -> bool {
    fs::metadata(name).is_ok_and(|it| it.file_type().is_socket())
}

fn unreached(place: &str) -> String {
    format!("no admin interface at {place}: is there an [admin] table in the file it runs with?")
}

/// What a response holds.
fn read<T: DeserializeOwned>(answer: &[u8]) -> anyhow::Result<T> {
    let mut head = ResponseHead::new(HeadLimits { bytes: 16 << 10, fields: 100 });
    let Status::Complete(length) = head.parse(answer, Method::Get).context(STRANGE)? else {
        bail!("the answer broke off");
    };
    let mut body = Vec::new();
    BodyReader::new(head.framing())
        .feed_data(&answer[length..], |piece| body.extend_from_slice(piece))
        .context(STRANGE)?;
    ensure!(head.status() == 200, "it answered {}: {}", head.status(), refusal(&body));
    serde_json::from_slice(&body).context(STRANGE)
}

/// Why it refuses, in its own words, or all that it says where it has none for that.
fn refusal(body: &[u8]) -> String {
    match serde_json::from_slice::<Refusal>(body) {
        Ok(Refusal { error }) => error,
        Err(_) => String::from_utf8_lossy(body).trim().to_owned(),
    }
}

/// What the API answers where it refuses.
#[derive(Deserialize)]
struct Refusal {
    error: String,
}

/// What is said of a response that is not HTTP, or not the administration's.
const STRANGE: &str = "this is no admin interface of loadline";

/// The port of an address without one.
const PORT: u16 = 9090;

/// The response is all that comes.
const CLOSE: &str = "Connection: close";

/// How long an edge may be silent, and what is known where it is so for longer.
struct Patience {
    limit: Duration,
    then: &'static str,
}

/// With a question.
const TO_TELL: Patience = Patience { limit: Duration::from_secs(3), then: "" };

/// With a change: one of thousands of services takes its time, and so does a disk.
const TO_CHANGE: Patience =
    Patience { limit: Duration::from_secs(30), then: "; it may have been done" };

/// More than any fleet needs to be told.
const ANSWER_MAX: u64 = 256 << 20;

#[cfg(test)]
mod tests {
    use std::{os::unix::net::UnixListener, path::Path};

    use super::*;

    #[test]
    fn places_are_written_in_many_ways() {
        let address = |text: &str| Ok(Administration::Address(text.to_owned()));
        assert_eq!("10.0.0.1:91".parse(), address("10.0.0.1:91"));
        assert_eq!("http://edge:9090/".parse(), address("edge:9090"));
        assert_eq!("edge".parse(), address("edge:9090"));
        assert_eq!(":91".parse(), address("127.0.0.1:91"));
        assert_eq!("/run/it.sock".parse(), Ok(Administration::Socket("/run/it.sock".into())));
        assert!("edge:http".parse::<Administration>().unwrap_err().contains("127.0.0.1:9090"));
    }

    #[test]
    fn an_ipv6_address_needs_no_port_and_a_socket_may_be_written_as_in_the_file() {
        let address = |text: &str| Ok(Administration::Address(text.to_owned()));
        for text in ["::1", "[::1]", "[::1]:9090", "http://[::1]/", "http://[::1]:9090"] {
            assert_eq!(text.parse(), address("[::1]:9090"), "{text}");
        }
        assert_eq!("10.0.0.1".parse(), address("10.0.0.1:9090"));
        let socket = |path: &str| Ok(Administration::Socket(path.into()));
        assert_eq!("unix:/run/it.sock".parse(), socket("/run/it.sock"));
        assert_eq!("unix:./it.sock".parse(), socket("./it.sock"));
        assert_eq!("run/it.sock".parse(), socket("run/it.sock"));
        assert_eq!("unix:91".parse(), address("unix:91"), "a host of this name");
        for text in ["https://edge:9090", "https://127.0.0.1", "tcp://edge:9090"] {
            let wrong = text.parse::<Administration>().unwrap_err();
            assert!(wrong.contains("127.0.0.1:9090"), "{text}: {wrong}");
        }
    }

    #[test]
    fn a_host_that_is_named_like_a_folder_is_no_socket() {
        assert!(Path::new("src").is_dir(), "tests run where the crate is");
        assert_eq!("src".parse(), Ok(Administration::Address("src:9090".to_owned())));
    }

    #[test]
    fn a_url_with_a_path_is_no_socket() {
        for text in ["http://127.0.0.1:9090/api", "http://edge/api", "http://edge/api:1"] {
            let wrong = text.parse::<Administration>().unwrap_err();
            assert!(wrong.contains("127.0.0.1:9090"), "{text}: {wrong}");
        }
    }

    #[test]
    fn a_socket_is_known_among_other_files() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("admin");
        let name = path.to_str().unwrap();
        assert!(!is_socket(name));
        let _listener = UnixListener::bind(&path).unwrap();
        assert!(is_socket(name) && !is_socket(folder.path().to_str().unwrap()));
    }

    #[test]
    fn who_changes_something_and_gets_no_answer_in_time_learns_that_it_may_have_been_done() {
        let (mut stream, _silent) = UnixStream::pair().unwrap();
        let limit = Duration::from_millis(10);
        stream.set_read_timeout(Some(limit)).unwrap();
        let mut told = |patience: &Patience| {
            let patience = Patience { limit, ..*patience };
            let answer = ask::<State>(&mut stream, "localhost", (&[], ""), &patience);
            answer.unwrap_err().to_string()
        };
        assert_eq!(told(&TO_TELL), "no answer within 0.01 s");
        assert!(told(&TO_CHANGE).contains("it may have been done"));
    }

    #[test]
    fn an_answer_is_read_whole_or_refused() {
        let body = serde_json::to_string(&State::default()).unwrap();
        let answer = format!("HTTP/1.1 200 OK\r\nContent-Length: {}\r\n\r\n{body}", body.len());
        assert_eq!(read::<State>(answer.as_bytes()).unwrap(), State::default());
        let refused = b"HTTP/1.1 421 Misdirected Request\r\nContent-Length: 4\r\n\r\nname";
        assert!(read::<State>(refused).unwrap_err().to_string().contains("421: name"));
        assert!(read::<State>(&answer.as_bytes()[..answer.len() - 9]).is_err());
        assert!(read::<State>(b"HTTP/1.1 200 OK\r\n").is_err());
    }

    #[test]
    fn a_refusal_is_told_in_its_words_and_not_as_json() {
        let body = r#"{"error":"there is no service `nosuch`"}"#;
        let answer =
            format!("HTTP/1.1 404 Not Found\r\nContent-Length: {}\r\n\r\n{body}", body.len());
        let told = read::<State>(answer.as_bytes()).unwrap_err().to_string();
        assert_eq!(told, "it answered 404: there is no service `nosuch`");
    }

    #[test]
    fn a_port_of_tls_or_of_another_service_is_told_to_be_no_admin_interface() {
        let alert = [0x15, 3, 3, 0, 2, 2, 0x0a];
        let chunked = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nsize\r\n";
        for answer in [&alert[..], chunked] {
            let told = read::<State>(answer).unwrap_err().to_string();
            assert!(told.contains("no admin interface of loadline"), "{told}");
        }
    }
}
