//! The head of a request: fields of HTTP/2 in the order they come, text of HTTP/1 out.
//!
//! The rules are those of `head`, and what RFC 9113 calls malformed (8.1.1) is none here. Fields go
//! to the text as they come; only what may have to stand elsewhere, or nowhere, waits for the last:
//! other hosts, cookies, a length.

use std::mem;

use loadline_http1 as http1;

use super::{
    field_syntax::{
        Class, Malformed, checked, is_authority, is_method, is_path, is_scheme, is_value,
        write_line,
    },
    head::{are_same, expects_body, with_port},
    incoming::Coding,
    websocket::write_handshake,
};

/// The text of a head in the making. There is one for each connection.
#[derive(Debug)]
pub(super) struct RequestText {
    longest: usize,
    pseudo: PseudoFields,
    /// Empty before the first field that is no pseudo-header field.
    text: Vec<u8>,
    /// Lines of Host, beside that of the authority. One that says the same is none: the parser
    /// refuses two.
    hosts: Vec<u8>,
    /// The line of Cookie.
    cookies: Vec<u8>,
    seen: Seen,
}

/// What is known of a head so far.
#[derive(Debug, Default)]
struct Seen {
    fault: Option<Malformed>,
    /// A field was left out for the length of the head.
    is_cut: bool,
    kind: Kind,
    /// Where the request line ends.
    line_end: usize,
    /// Where the line of the authority ends.
    host_end: usize,
    has_host: bool,
    /// Bytes of fields that go no further.
    dropped: usize,
    length: Option<u64>,
    lengths: usize,
    has_trailer: bool,
    has_key: bool,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Kind {
    #[default]
    Usual,
    /// CONNECT, for whatever protocol.
    Connect,
    /// CONNECT for a WebSocket: a GET in HTTP/1 (RFC 8441).
    WebSocket,
}

/// The pseudo-header fields, one behind the other.
#[derive(Debug, Default)]
struct PseudoFields {
    text: Vec<u8>,
    at: [Option<(usize, usize)>; 4],
    protocol: Option<Protocol>,
}

/// One of them.
#[derive(Clone, Copy, Debug)]
enum Pseudo {
    Method,
    Scheme,
    Authority,
    Path,
}

/// What `:protocol` says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Protocol {
    WebSocket,
    Other,
}

/// The head of a request as HTTP/1, and what else is to be known of it.
#[derive(Debug)]
pub(super) struct Head {
    /// The whole head.
    pub(super) text: Vec<u8>,
    pub(super) coding: Coding,
    /// What decides whether the response has a body.
    pub(super) method: http1::Method,
    /// How long the body is by what the client says. None where the parser refuses that.
    pub(super) content_length: Option<u64>,
    /// Whether the next frame has to tell if there is a body: the end of a GET may come in a frame
    /// of its own.
    pub(super) may_lack_body: bool,
    /// The client has sent a key for a WebSocket.
    pub(super) has_key: bool,
}

impl RequestText {
    /// Of a head with more text than `longest` no further field is kept. It is for the parser to
    /// refuse for its length, which takes no more than that.
    pub(super) fn new(longest: usize) -> Self {
        Self {
            longest,
            pseudo: PseudoFields::default(),
            text: Vec::new(),
            hosts: Vec::new(),
            cookies: Vec::new(),
            seen: Seen::default(),
        }
    }

    /// Takes the next field. Once the request cannot but be refused, further ones are not even
    /// looked at: a byte of HPACK may stand for thousands.
    #[inline]
    pub(super) fn field(&mut self, name: &[u8], value: &[u8]) {
        if self.seen.fault.is_some() {
            return;
        }
        let taken = match name {
            [b':', ..] => self.take_pseudo(name, value),
            _ if self.seen.is_cut => Ok(()),
            _ => self.take(name, value),
        };
        self.seen.fault = taken.err();
    }

    /// The head of which that was the last field, with a body unless it `is_over`. `draws` are 128
    /// random bits. The next field is the first of another head.
    ///
    /// # Errors
    /// If the request is malformed.
    pub(super) fn finish(
        &mut self,
        is_over: bool,
        draws: impl FnOnce() -> [u64; 2],
    ) -> Result<Head, Malformed> {
        let head = self.conclude(is_over, draws);
        self.pseudo.clear();
        self.text = Vec::new();
        for waiting in [&mut self.hosts, &mut self.cookies] {
            clear(waiting);
        }
        self.seen = Seen::default();
        head
    }

    fn take(&mut self, name: &[u8], value: &[u8]) -> Result<(), Malformed> {
        let class = checked(name, value)?;
        if self.text.is_empty() {
            self.begin()?;
        }
        match class {
            Class::ContentLength => return self.take_length(value),
            Class::Trailer => self.seen.has_trailer = true,
            Class::Key => self.seen.has_key = true,
            Class::Dropped => self.seen.dropped += name.len() + value.len(),
            _ => {}
        }
        if !self.has_room() {
            return Ok(());
        }
        match class {
            Class::Dropped => {}
            Class::Cookie => {
                let before: &[u8] = if self.cookies.is_empty() { b"cookie: " } else { b"; " };
                self.cookies.extend_from_slice(before);
                self.cookies.extend_from_slice(value);
            }
            Class::Host => {
                let is_first = !mem::replace(&mut self.seen.has_host, true);
                if !(is_first && self.pseudo.names(value)) {
                    write_line(&mut self.hosts, name, value);
                }
            }
            _ => write_line(&mut self.text, name, value),
        }
        Ok(())
    }

    fn take_pseudo(&mut self, name: &[u8], value: &[u8]) -> Result<(), Malformed> {
        let (pseudo, is_valid): (_, fn(&[u8]) -> bool) = match name {
            b":method" => (Some(Pseudo::Method), is_method),
            b":scheme" => (Some(Pseudo::Scheme), is_scheme),
            b":authority" => (Some(Pseudo::Authority), is_authority),
            b":path" => (Some(Pseudo::Path), is_path),
            b":protocol" => (None, is_value),
            _ => return Err(Malformed::UnknownPseudo),
        };
        if !self.text.is_empty() {
            return Err(Malformed::LatePseudo);
        }
        if !is_valid(value) {
            return Err(Malformed::Value);
        }
        let Some(pseudo) = pseudo else { return self.pseudo.take_protocol(value) };
        let value = if self.has_room() { value } else { b"" };
        self.pseudo.take(pseudo, value)
    }

    /// Takes what `content-length` says: decimal digits, the same each time.
    fn take_length(&mut self, value: &[u8]) -> Result<(), Malformed> {
        let is_number = (1..=19).contains(&value.len()) && value.iter().all(u8::is_ascii_digit);
        if !is_number {
            return Err(Malformed::Length);
        }
        let length = value.iter().fold(0, |sum, digit| sum * 10 + u64::from(digit - b'0'));
        self.seen.lengths += 1;
        match self.seen.length.replace(length) {
            Some(before) if before != length => Err(Malformed::Length),
            _ => Ok(()),
        }
    }

    /// Whether one more field is kept.
    #[inline]
    fn has_room(&mut self) -> bool {
        // The pseudo-header fields are in the text once that has begun.
        let begun = if self.text.is_empty() { self.pseudo.text.len() } else { self.text.len() };
        let waiting = self.hosts.len() + self.cookies.len();
        let has_room = begun + waiting + self.seen.dropped <= self.longest;
        self.seen.is_cut |= !has_room;
        has_room
    }

    /// Writes what the pseudo-header fields say, of which no more may come.
    fn begin(&mut self) -> Result<(), Malformed> {
        let Self { pseudo, text, seen, .. } = self;
        seen.kind = pseudo.kind()?;
        *text = Vec::with_capacity(TEXT_BYTES);
        pseudo.write_line(text, seen.kind);
        seen.line_end = text.len();
        if let Some(authority) = pseudo.get(Pseudo::Authority) {
            write_line(text, b"host", authority);
        }
        seen.host_end = text.len();
        Ok(())
    }

    fn conclude(
        &mut self,
        is_over: bool,
        draws: impl FnOnce() -> [u64; 2],
    ) -> Result<Head, Malformed> {
        if let Some(fault) = self.seen.fault {
            return Err(fault);
        }
        if self.text.is_empty() {
            self.begin()?;
        }
        let length = self.seen.length;
        if is_over && length.is_some_and(|length| length > 0) {
            return Err(Malformed::Length);
        }
        self.write_waiting();
        let is_websocket = self.seen.kind == Kind::WebSocket;
        let coding = if is_websocket { Coding::Plain } else { self.write_coding(is_over) };
        let mut text = mem::take(&mut self.text);
        if is_websocket {
            write_handshake(&mut text, (!self.seen.has_key).then(draws));
        }
        text.extend_from_slice(b"\r\n");
        let method = self.pseudo.get(Pseudo::Method).unwrap_or_default();
        let may_lack = matches!(method, b"GET" | b"HEAD" | b"OPTIONS");
        let is_refused = self.is_counted() && self.seen.lengths > 1;
        Ok(Head {
            text,
            coding,
            method: if method == b"HEAD" { http1::Method::Head } else { http1::Method::Other },
            content_length: length.filter(|_| !is_refused),
            may_lack_body: may_lack && !is_over && length.is_none(),
            has_key: self.seen.has_key,
        })
    }

    /// Writes what had to wait for the last field.
    fn write_waiting(&mut self) {
        let Self { longest, pseudo, text, hosts, cookies, seen } = self;
        if seen.kind == Kind::WebSocket && seen.length.is_some() {
            // A CONNECT has no content (RFC 9110, 9.3.6): one that says so is left a CONNECT, which
            // the parser refuses.
            seen.kind = Kind::Connect;
            let mut line = Vec::new();
            pseudo.write_line(&mut line, seen.kind);
            seen.host_end = seen.host_end - seen.line_end + line.len();
            text.splice(..seen.line_end, line);
        }
        if !hosts.is_empty() {
            text.splice(seen.host_end..seen.host_end, hosts.iter().copied());
        }
        if !cookies.is_empty() {
            text.extend_from_slice(cookies);
            text.extend_from_slice(b"\r\n");
        }
        if seen.is_cut {
            // Half a head must not pass for the whole: not where what was counted is not said after
            // all, nor where longer heads are allowed meanwhile.
            text.resize(text.len().max(longest.saturating_add(1)), b'x');
            text.push(0);
        }
    }

    /// Writes how long the body is.
    fn write_coding(&mut self, is_over: bool) -> Coding {
        let method = self.pseudo.get(Pseudo::Method).unwrap_or_default();
        if self.is_counted() {
            let mut digits = itoa::Buffer::new();
            let digits = digits.format(self.seen.length.unwrap_or_default());
            // Several are for the parser to refuse.
            for _ in 0..self.seen.lengths.min(2) {
                write_line(&mut self.text, b"content-length", digits.as_bytes());
            }
        } else if !is_over && self.seen.kind == Kind::Usual {
            self.text.extend_from_slice(CHUNKED_LINE);
            return Coding::Chunked;
        } else if is_over && expects_body(method) {
            // RFC 9110, 8.6: some servers answer 411 to a POST that does not say so.
            self.text.extend_from_slice(b"content-length: 0\r\n");
        }
        Coding::Plain
    }

    /// Whether the body goes with its length, rather than in chunks for its trailers.
    const fn is_counted(&self) -> bool {
        self.seen.length.is_some() && !self.seen.has_trailer
    }
}

impl PseudoFields {
    fn take(&mut self, pseudo: Pseudo, value: &[u8]) -> Result<(), Malformed> {
        let start = self.text.len();
        self.text.extend_from_slice(value);
        match self.at[pseudo as usize].replace((start, self.text.len())) {
            Some(_) => Err(Malformed::RepeatedPseudo),
            None => Ok(()),
        }
    }

    fn take_protocol(&mut self, value: &[u8]) -> Result<(), Malformed> {
        let is_websocket = value == b"websocket";
        let protocol = if is_websocket { Protocol::WebSocket } else { Protocol::Other };
        match self.protocol.replace(protocol) {
            Some(_) => Err(Malformed::RepeatedPseudo),
            None => Ok(()),
        }
    }

    #[inline]
    fn get(&self, pseudo: Pseudo) -> Option<&[u8]> {
        self.at[pseudo as usize].and_then(|(start, end)| self.text.get(start..end))
    }

    /// What is asked for, if that is all there and nothing else.
    fn kind(&self) -> Result<Kind, Malformed> {
        let has = |pseudo| self.get(pseudo).is_some();
        let is_connect = self.get(Pseudo::Method).ok_or(Malformed::MissingPseudo)? == b"CONNECT";
        let kind = match (is_connect, self.protocol) {
            (false, Some(_)) => return Err(Malformed::UnfitPseudo),
            (true, None) if has(Pseudo::Scheme) || has(Pseudo::Path) => {
                return Err(Malformed::UnfitPseudo);
            }
            (true, None) => return Ok(Kind::Connect),
            (true, Some(Protocol::WebSocket)) => Kind::WebSocket,
            (true, Some(Protocol::Other)) => Kind::Connect,
            (false, None) => Kind::Usual,
        };
        let is_whole = has(Pseudo::Scheme) && has(Pseudo::Path);
        if is_whole { Ok(kind) } else { Err(Malformed::MissingPseudo) }
    }

    fn write_line(&self, out: &mut Vec<u8>, kind: Kind) {
        let method = match kind {
            Kind::WebSocket => b"GET",
            Kind::Usual | Kind::Connect => self.get(Pseudo::Method).unwrap_or_default(),
        };
        let path = self.get(Pseudo::Path).unwrap_or(b"/");
        out.extend_from_slice(method);
        out.extend_from_slice(b" ");
        match self.get(Pseudo::Authority) {
            Some(authority) if kind == Kind::Connect => {
                out.extend_from_slice(&with_port(self.get(Pseudo::Scheme), authority));
            }
            _ => out.extend_from_slice(path),
        }
        out.extend_from_slice(b" HTTP/1.1\r\n");
    }

    /// Whether the authority is this host.
    fn names(&self, host: &[u8]) -> bool {
        let scheme = self.get(Pseudo::Scheme);
        self.get(Pseudo::Authority).is_some_and(|authority| are_same(scheme, authority, host))
    }

    fn clear(&mut self) {
        clear(&mut self.text);
        (self.at, self.protocol) = ([None; 4], None);
    }
}

impl Head {
    /// The same head for a request that may lack a body and has turned out to have none.
    pub(super) fn without_body(mut self) -> Self {
        if self.coding == Coding::Chunked {
            self.text.truncate(self.text.len().saturating_sub(CHUNKED_LINE.len() + 2));
            self.text.extend_from_slice(b"\r\n");
        }
        Self { coding: Coding::Plain, may_lack_body: false, ..self }
    }
}

/// Empties what is used again. One long head does not keep its memory for as long as its connection
/// lives.
fn clear(scratch: &mut Vec<u8>) {
    scratch.clear();
    scratch.shrink_to(KEPT_BYTES);
}

const CHUNKED_LINE: &[u8] = b"transfer-encoding: chunked\r\n";

/// Most heads are shorter.
const TEXT_BYTES: usize = 512;

/// Longer ones of a kind are rare.
const KEPT_BYTES: usize = 4 << 10;

#[cfg(test)]
mod tests;
