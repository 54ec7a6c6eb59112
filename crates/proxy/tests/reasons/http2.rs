//! Servers that fail in HTTP/2.

use std::{
    io::{self, Read as _, Write as _},
    net::{SocketAddr, TcpStream},
};

use loadline_core::decide::ending::Ending;

use crate::support::{Case, SHORT, end, say, scripted, wait};

const RST_STREAM: u8 = 3;
const SETTINGS: u8 = 4;
const GOAWAY: u8 = 7;

fn frame(kind: u8, stream: u32, payload: &[u8]) -> Vec<u8> {
    let length = u32::try_from(payload.len()).unwrap().to_be_bytes();
    [&length[1..], &[kind, 0], &stream.to_be_bytes(), payload].concat()
}

/// Exchanges settings.
fn begin(stream: &mut TcpStream) -> io::Result<()> {
    stream.write_all(&frame(SETTINGS, 0, &[]))?;
    stream.read_exact(&mut [0; 24])
}

/// Takes a request: the number of its stream.
fn request(stream: &mut TcpStream) -> io::Result<u32> {
    loop {
        let mut header = [0; 9];
        stream.read_exact(&mut header)?;
        let length = u64::from(u32::from_be_bytes([0, header[0], header[1], header[2]]));
        io::copy(&mut stream.take(length), &mut io::sink())?;
        if header[3] == 1 {
            return Ok(u32::from_be_bytes([header[5], header[6], header[7], header[8]]));
        }
    }
}

/// A server that answers the request of each stream with these bytes.
fn answering(answer: impl Fn(u32) -> Vec<u8> + Send + Sync + 'static) -> SocketAddr {
    scripted(move |mut stream| {
        let _ = begin(&mut stream);
        while let Ok(number) = request(&mut stream) {
            let _ = stream.write_all(&answer(number));
        }
    })
}

pub(crate) fn cases() -> Vec<Case> {
    let reset = |(code, reason): &(u32, &'static str)| {
        let code = code.to_be_bytes();
        let address = answering(move |stream| frame(RST_STREAM, stream, &code));
        Case::new(reason, address, (Ending::ServerReset, reason)).by_http2()
    };
    let left = |(code, reason): &(u32, &'static str)| {
        let payload = [[0; 4], code.to_be_bytes()].concat();
        let address = answering(move |_| frame(GOAWAY, 0, &payload));
        Case::new(reason, address, (Ending::ServerReset, reason)).by_http2()
    };
    let bad = |(kind, stream, payload, reason): &(u8, u32, &[u8], &'static str)| {
        let bytes = frame(*kind, *stream, payload);
        let address = answering(move |_| bytes.clone());
        Case::new(reason, address, (Ending::ServerBad, reason)).by_http2()
    };
    let mut cases: Vec<Case> = RESETS.iter().map(reset).collect();
    cases.extend(GOAWAYS.iter().map(left));
    cases.extend(VIOLATIONS.iter().map(bad));
    cases.extend(beginnings());
    cases
}

const RESETS: &[(u32, &str)] = &[
    (1, "HTTP/2 stream reset by the server: PROTOCOL_ERROR"),
    (2, "HTTP/2 stream reset by the server: INTERNAL_ERROR"),
    (7, "HTTP/2 stream reset by the server: REFUSED_STREAM"),
    (8, "HTTP/2 stream reset by the server: CANCEL"),
    (11, "HTTP/2 stream reset by the server: ENHANCE_YOUR_CALM"),
    (13, "HTTP/2 stream reset by the server: HTTP_1_1_REQUIRED"),
    (99, "HTTP/2 stream reset by the server: unknown code"),
];

const GOAWAYS: &[(u32, &str)] = &[
    (0, "HTTP/2 GOAWAY from the server: NO_ERROR"),
    (11, "HTTP/2 GOAWAY from the server: ENHANCE_YOUR_CALM"),
    (12, "HTTP/2 GOAWAY from the server: INADEQUATE_SECURITY"),
];

/// Kind, stream and payload of a frame.
const VIOLATIONS: &[(u8, u32, &[u8], &str)] = &[
    (0, 0, b"data of no stream", "HTTP/2 violated by the server: PROTOCOL_ERROR"),
    (0, 1, &[0; 17_000], "HTTP/2 violated by the server: FRAME_SIZE_ERROR"),
    (8, 0, &[0x7f, 255, 255, 255], "HTTP/2 violated by the server: FLOW_CONTROL_ERROR"),
];

/// Servers with which no connection comes about.
fn beginnings() -> Vec<Case> {
    let older = scripted(|mut stream| {
        let _ = stream.read_exact(&mut [0; 24]);
        say(stream, b"HTTP/1.1 400 Bad Request\r\nContent-Length: 0\r\n\r\n");
    });
    let closing = scripted(|mut stream| {
        let _ = stream.read_exact(&mut [0; 24]);
        end(stream, b"");
    });
    // MAX_CONCURRENT_STREAMS.
    let barred = scripted(|stream| say(stream, &frame(SETTINGS, 0, &[0, 3, 0, 0, 0, 0])));
    let told = [
        (
            "takes no streams",
            barred,
            (Ending::ServerReset, "HTTP/2 connection takes no more streams"),
        ),
        (
            "speaks HTTP/1 alone",
            older,
            (Ending::ServerBad, "not HTTP/2: server does not begin with SETTINGS"),
        ),
        (
            "closed before SETTINGS",
            closing,
            (Ending::ServerReset, "connection closed before SETTINGS of HTTP/2"),
        ),
        (
            "no SETTINGS",
            scripted(wait),
            (Ending::ConnectTimeout, "timed out while waiting for SETTINGS of HTTP/2"),
        ),
    ];
    let case = |(name, address, told)| Case::new(name, address, told).by_http2();
    let mut cases: Vec<Case> = told.into_iter().map(case).collect();
    let late = cases.pop().map(|case| case.hurried(|limits| limits.connect = SHORT));
    cases.extend(late);
    cases
}
