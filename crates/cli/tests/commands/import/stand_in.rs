//! Servers that stand in for those of a configuration: each says which one it is and what came.

use std::{
    io::{BufRead, BufReader, Read as _, Write as _},
    net::{TcpListener, TcpStream},
    thread,
};

/// Starts a server that answers as `name`; its address. It ends with the process.
pub(super) fn start(name: &str) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap().to_string();
    let name = name.to_owned();
    thread::spawn(move || {
        for stream in listener.incoming().flatten() {
            let name = name.clone();
            thread::spawn(move || serve(&stream, &name));
        }
    });
    address
}

/// Answers what comes on a connection until it closes.
fn serve(stream: &TcpStream, name: &str) {
    let mut reader = BufReader::new(stream);
    while let Some((line, headers)) = head(&mut reader) {
        let length = headers.iter().find(|(name, _)| name == "content-length");
        let length: u64 = length.map_or(0, |(_, value)| value.parse().unwrap());
        std::io::copy(&mut reader.by_ref().take(length), &mut std::io::sink()).unwrap();
        // What the proxies add by themselves and what differs by nature is not compared.
        let own =
            |(name, _): &&(String, String)| name.starts_with("x-") && !name.contains("forwarded");
        let mut seen: Vec<_> =
            headers.iter().filter(own).map(|(n, v)| format!("{n}: {v}")).collect();
        seen.sort();
        let host = headers.iter().find(|(name, _)| name == "host").map_or("", |it| it.1.as_str());
        let body = format!("{name}\n{line}\nhost: {host}\n{}\n", seen.join("\n"));
        let is_head = line.starts_with("HEAD ");
        let sent = if is_head { "" } else { body.as_str() };
        let length = body.len();
        let answer =
            format!("HTTP/1.1 200 OK\r\nX-Pool: {name}\r\nContent-Length: {length}\r\n\r\n{sent}");
        if (&mut &*stream).write_all(answer.as_bytes()).is_err() {
            return;
        }
    }
}

/// The first line and the headers, with names in lower case; none at the end of the stream.
pub(super) fn head(reader: &mut impl BufRead) -> Option<(String, Vec<(String, String)>)> {
    let mut lines = Vec::new();
    loop {
        let mut line = String::new();
        if reader.read_line(&mut line).ok()? == 0 {
            return None;
        }
        if line.trim().is_empty() {
            break;
        }
        lines.push(line.trim_end().to_owned());
    }
    let mut lines = lines.into_iter();
    let first = lines.next()?;
    let field = |line: String| {
        let (name, value) = line.split_once(':')?;
        Some((name.to_ascii_lowercase(), value.trim().to_owned()))
    };
    Some((
        first.replace(" HTTP/1.1", "").replace(" HTTP/1.0", ""),
        lines.filter_map(field).collect(),
    ))
}
