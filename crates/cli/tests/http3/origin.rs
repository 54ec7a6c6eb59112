//! The server behind the proxy: HTTP/1.1, as many bytes as its path says, and how many it was sent.

use std::{
    io::{BufRead, BufReader, Read as _, Write as _},
    net::{SocketAddr, TcpListener, TcpStream},
    thread,
};

/// Starts it; it ends with the test process.
pub(crate) fn start() -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    thread::spawn(move || {
        for stream in listener.incoming().map_while(Result::ok) {
            // A connection that breaks is the proxy's.
            thread::spawn(move || serve(&stream));
        }
    });
    address
}

fn serve(stream: &TcpStream) -> Option<()> {
    // A head would be acknowledged late, and its body wait for that.
    stream.set_nodelay(true).ok()?;
    let (mut reader, mut stream) = (BufReader::new(stream), stream);
    loop {
        let head = head(&mut reader)?;
        let path = head[0].split(' ').nth(1)?;
        let sent = body(&mut reader, &head)?;
        if path == "/slow" {
            // Until the proxy closes.
            reader.read_exact(&mut [0]).ok()?;
            return None;
        }
        let answer = match path[1..].parse() {
            Ok(count) => vec![b'x'; count],
            Err(_) => sent.to_string().into_bytes(),
        };
        write!(stream, "HTTP/1.1 200 OK\r\nContent-Length: {}\r\n\r\n", answer.len()).ok()?;
        stream.write_all(&answer).ok()?;
    }
}

/// Lines up to an empty one.
fn head(reader: &mut impl BufRead) -> Option<Vec<String>> {
    let mut lines = Vec::new();
    loop {
        let mut line = String::new();
        if reader.read_line(&mut line).ok()? == 0 {
            return None;
        }
        match line.trim_end() {
            "" => return Some(lines),
            line => lines.push(line.to_ascii_lowercase()),
        }
    }
}

/// Reads the body; gives its length.
fn body(reader: &mut impl BufRead, head: &[String]) -> Option<u64> {
    let named = |name| head.iter().find_map(|line| line.strip_prefix(name));
    if let Some(length) = named("content-length: ") {
        return take(reader, length.parse().ok()?);
    }
    if named("transfer-encoding: ").is_none() {
        return Some(0);
    }
    let mut all = 0;
    loop {
        let mut size = String::new();
        reader.read_line(&mut size).ok()?;
        let size = u64::from_str_radix(size.trim_end(), 16).ok()?;
        if size == 0 {
            // Trailers end as a head does.
            self::head(reader)?;
            return Some(all);
        }
        all += take(reader, size)?;
        take(reader, 2)?;
    }
}

fn take(reader: &mut impl BufRead, length: u64) -> Option<u64> {
    let took = std::io::copy(&mut reader.take(length), &mut std::io::sink()).ok()?;
    (took == length).then_some(took)
}
