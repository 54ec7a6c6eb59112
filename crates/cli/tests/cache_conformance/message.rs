//! HTTP/1.1 messages as the two ends of a conversation write and read them, plainly.

use std::{
    io::{self, BufRead, BufReader, Read, Write},
    net::TcpStream,
    time::Duration,
};

/// A request or a response that was read.
#[derive(Clone, Debug, Default)]
pub(crate) struct Message {
    /// The request line or the status line.
    pub(crate) line: String,
    pub(crate) fields: Vec<(String, String)>,
    pub(crate) content: Vec<u8>,
}

impl Message {
    /// The value of the first field of that name.
    pub(crate) fn field(&self, name: &str) -> Option<&str> {
        self.all(name).next()
    }

    /// The values of all fields of that name.
    pub(crate) fn all(&self, name: &str) -> impl Iterator<Item = &str> {
        let named = move |field: &&(String, String)| field.0.eq_ignore_ascii_case(name);
        self.fields.iter().filter(named).map(|(_, value)| value.as_str())
    }

    /// The status code of a response.
    pub(crate) fn status(&self) -> u16 {
        self.line.split(' ').nth(1).and_then(|code| code.parse().ok()).unwrap_or(0)
    }

    /// All of it, as text.
    pub(crate) fn text(&self) -> String {
        let fields: String =
            self.fields.iter().map(|(name, value)| format!("{name}: {value}\n")).collect();
        format!("{}\n{fields}\n{}", self.line, String::from_utf8_lossy(&self.content))
    }
}

/// Sends a request on a connection of its own and reads the last response to it.
pub(crate) fn exchange(address: &str, request: &[u8], method: &str) -> io::Result<Message> {
    let mut stream = TcpStream::connect(address)?;
    stream.set_read_timeout(Some(PATIENCE))?;
    stream.write_all(request)?;
    let mut reader = BufReader::new(stream);
    loop {
        let mut response = read_head(&mut reader)?;
        let status = response.status();
        if (100..200).contains(&status) {
            continue;
        }
        if method != "HEAD" && status != 204 && status != 304 {
            response.content = read_content(&mut reader, &response, true)?;
        }
        return Ok(response);
    }
}

/// Reads a request; an error where the connection has ended.
pub(crate) fn read_request(reader: &mut impl BufRead) -> io::Result<Message> {
    let mut request = read_head(reader)?;
    request.content = read_content(reader, &request, false)?;
    Ok(request)
}

fn read_head(reader: &mut impl BufRead) -> io::Result<Message> {
    let mut message = Message { line: read_line(reader)?, ..Message::default() };
    loop {
        let line = read_line(reader)?;
        let Some((name, value)) = line.split_once(':') else { return Ok(message) };
        message.fields.push((name.to_owned(), value.trim().to_owned()));
    }
}

fn read_content(
    reader: &mut impl BufRead,
    head: &Message,
    to_the_end: bool,
) -> io::Result<Vec<u8>> {
    let mut content = Vec::new();
    if head.field("transfer-encoding").is_some() {
        loop {
            let line = read_line(reader)?;
            let length = u64::from_str_radix(line.trim(), 16).map_err(io::Error::other)?;
            reader.take(length).read_to_end(&mut content)?;
            read_line(reader)?;
            if length == 0 {
                return Ok(content);
            }
        }
    }
    let length = head.field("content-length").and_then(|length| length.parse().ok());
    match length {
        Some(length) => drop(reader.take(length).read_to_end(&mut content)?),
        None if to_the_end => drop(reader.read_to_end(&mut content)?),
        None => {}
    }
    Ok(content)
}

fn read_line(reader: &mut impl BufRead) -> io::Result<String> {
    let mut line = Vec::new();
    if reader.read_until(b'\n', &mut line)? == 0 {
        return Err(io::ErrorKind::UnexpectedEof.into());
    }
    Ok(String::from_utf8_lossy(&line).trim_end().to_owned())
}

/// A cache that does not respond for that long does not respond.
const PATIENCE: Duration = Duration::from_secs(10);
