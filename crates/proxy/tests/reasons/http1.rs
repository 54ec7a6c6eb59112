//! Servers that say something else than a response in HTTP/1, or too little of it.

use loadline_core::decide::ending::Ending;

use crate::support::{Case, SHORT, end, head, reset, say, scripted, wait};

pub(crate) fn cases() -> Vec<Case> {
    let bad = |(name, answer, reason): &Said| saying((name, Ending::ServerBad, reason), answer);
    let broken =
        |(name, answer, reason): &Said| saying((name, Ending::ServerBodyBad, reason), answer);
    let mut cases: Vec<Case> = HEADS.iter().map(bad).collect();
    cases.push(bad(&NAMELESS).asking(UPGRADE.to_vec()));
    cases.extend(BODIES.iter().map(broken));
    cases.extend(large());
    cases.extend(leaving());
    cases.extend(slow());
    cases
}

/// A name, what is said, and what is told of it.
type Said = (&'static str, &'static str, &'static str);

const HEADS: &[Said] = &[
    (
        "another protocol",
        "SSH-2.0-OpenSSH_9.2\r\n\r\n",
        "no valid HTTP/1 header: status line without a version of HTTP",
    ),
    ("a low status", "HTTP/1.1 99 Low\r\n\r\n", "malformed status line"),
    ("a version to come", "HTTP/3.0 200 OK\r\n\r\n", "unsupported HTTP version in status line"),
    ("LF alone", "HTTP/1.1 200 OK\nA: b\n\n", "bare line feed (LF without CR)"),
    ("CR alone", "HTTP/1.1 200 OK\r\nA: b\rc\r\n\r\n", "bare carriage return (CR without LF)"),
    (
        "NUL in a value",
        "HTTP/1.1 200 OK\r\nA: b\0c\r\n\r\n",
        "control character (such as NUL) in response header",
    ),
    ("obs-fold", "HTTP/1.1 200 OK\r\nA: b\r\n c\r\n\r\n", "folded header line (obs-fold)"),
    (
        "a space before the colon",
        "HTTP/1.1 200 OK\r\nA : b\r\n\r\n",
        "white space before the colon of a header",
    ),
    ("no name", "HTTP/1.1 200 OK\r\n: b\r\n\r\n", "empty header name"),
    ("a bad name", "HTTP/1.1 200 OK\r\nA@b: c\r\n\r\n", "invalid header name"),
    (
        "two lengths",
        "HTTP/1.1 200 OK\r\nContent-Length: 2\r\nContent-Length: 2\r\n\r\nok",
        "duplicate Content-Length",
    ),
    (
        "a negative length",
        "HTTP/1.1 200 OK\r\nContent-Length: -2\r\n\r\n",
        "invalid Content-Length",
    ),
    (
        "an endless length",
        "HTTP/1.1 200 OK\r\nContent-Length: 99999999999999999999\r\n\r\n",
        "Content-Length overflows",
    ),
    (
        "both framings",
        "HTTP/1.1 200 OK\r\nContent-Length: 2\r\nTransfer-Encoding: chunked\r\n\r\n",
        "both Content-Length and Transfer-Encoding",
    ),
    (
        "two codings",
        "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n\r\n",
        "duplicate Transfer-Encoding",
    ),
    (
        "chunked twice",
        "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked, chunked\r\n\r\n",
        "invalid Transfer-Encoding",
    ),
    (
        "an unknown coding",
        "HTTP/1.1 200 OK\r\nTransfer-Encoding: gzip\r\n\r\n",
        "unknown transfer coding: only chunked is known",
    ),
    (
        "a coding in HTTP/1.0",
        "HTTP/1.0 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n",
        "Transfer-Encoding in an HTTP/1.0 response",
    ),
    (
        "a switch that nobody asked for",
        "HTTP/1.1 101 Switching Protocols\r\nUpgrade: x\r\nConnection: Upgrade\r\n\r\n",
        "101 Switching Protocols without an Upgrade in the request",
    ),
];

/// A request for another protocol.
const UPGRADE: &[u8] = b"GET / HTTP/1.1\r\nHost: x\r\nConnection: upgrade\r\nUpgrade: x\r\n\r\n";

/// A switch that does not say to what.
const NAMELESS: Said = (
    "a switch to nothing",
    "HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\n\r\n",
    "101 Switching Protocols without an Upgrade in the response",
);

/// Bodies in chunks, behind a head that comes with them.
const BODIES: &[Said] = &[
    ("a bad size", "xyz\r\nok\r\n0\r\n\r\n", "invalid chunk size"),
    ("an endless size", "fffffffffffffffffff\r\n", "chunk size has too many digits"),
    ("a bad extension", "2;a=\"b\r\nok\r\n0\r\n\r\n", "invalid chunk extension"),
    ("no end of a chunk", "2\r\nokay\r\n0\r\n\r\n", "missing CR LF after chunk data"),
    ("a length in a trailer", "0\r\nContent-Length: 2\r\n\r\n", "forbidden trailer field"),
    ("a trailer without a colon", "0\r\nname\r\n\r\n", "malformed trailer field"),
    (
        "a bare line feed behind a size",
        "2\nok\r\n0\r\n\r\n",
        "bare line feed (LF without CR) in chunked body",
    ),
    (
        "a bare carriage return behind a size",
        "2\rok\r\n0\r\n\r\n",
        "bare carriage return (CR without LF) in chunked body",
    ),
];

/// Responses with these bytes, behind a head in chunks where they are a body.
fn saying(
    (name, ending, reason): (&'static str, Ending, &'static str),
    answer: &'static str,
) -> Case {
    let before = match ending {
        Ending::ServerBodyBad => "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n",
        _ => "",
    };
    let address = scripted(move |mut stream| {
        head(&mut stream);
        say(stream, format!("{before}{answer}").as_bytes());
    });
    Case::new(name, address, (ending, reason))
}

/// What is more than any response needs.
fn large() -> Vec<Case> {
    let field = |length: usize| format!("X: {}\r\n", "y".repeat(length));
    let whole = |middle: &str| format!("HTTP/1.1 200 OK\r\n{middle}Content-Length: 0\r\n\r\n");
    let chunks =
        |rest: &str| format!("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n{rest}");
    let names: Vec<String> = (0..200).map(|n| format!("a{n}")).collect();
    let all = [
        (
            "a long head",
            whole(&field(1_000).repeat(40)),
            (Ending::ServerHeadTooLarge, "too big header: response head exceeds its size limit"),
        ),
        (
            "many lines",
            whole(&field(1).repeat(300)),
            (Ending::ServerHeadTooLarge, "too many header lines in response"),
        ),
        (
            "many names in Connection",
            whole(&format!("Connection: {}\r\n", names.join(","))),
            (Ending::ServerBad, "too many names in Connection"),
        ),
        (
            "many interim answers",
            "HTTP/1.1 103 Early Hints\r\n\r\n".repeat(40),
            (Ending::ServerBad, "too many 1xx interim responses"),
        ),
        (
            "a long extension",
            chunks(&format!("2;{}\r\nok\r\n0\r\n\r\n", "a".repeat(8_000))),
            (Ending::ServerBodyBad, "chunk extension too long"),
        ),
        (
            "long trailers",
            chunks(&format!("0\r\n{}\r\n", field(1_000).repeat(40))),
            (Ending::ServerBodyBad, "too big trailers: section exceeds its limit"),
        ),
    ];
    let case = |(name, answer, told): (&'static str, String, _)| {
        let address = scripted(move |mut stream| {
            head(&mut stream);
            say(stream, answer.as_bytes());
        });
        Case::new(name, address, told)
    };
    all.into_iter().map(case).collect()
}

/// Those that close or reset the connection.
fn leaving() -> Vec<Case> {
    let closing = |name, answer: &'static [u8], told| {
        let address = scripted(move |mut stream| {
            head(&mut stream);
            end(stream, answer);
        });
        Case::new(name, address, told)
    };
    let resetting = |name, answer: &'static [u8], told| {
        let address = scripted(move |mut stream| {
            head(&mut stream);
            let _ = std::io::Write::write_all(&mut stream, answer);
            // The proxy takes in what there is before the reset comes.
            std::thread::sleep(std::time::Duration::from_millis(200));
            reset(stream);
        });
        Case::new(name, address, told)
    };
    let lost = |reason| (Ending::ServerReset, reason);
    let cut = |reason| (Ending::ServerCut, reason);
    const COUNTED: &[u8] = b"HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\nonly this";
    const SWITCH: &[u8] =
        b"HTTP/1.1 101 Switching Protocols\r\nUpgrade: x\r\nConnection: Upgrade\r\n\r\n";
    const CHUNKED: &[u8] = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n";
    vec![
        closing(
            "closed at once",
            b"",
            lost("empty reply from server: connection closed before the response"),
        ),
        closing(
            "closed in its head",
            b"HTTP/1.1 200 O",
            lost("connection prematurely closed while reading response header"),
        ),
        closing(
            "closed in its body",
            COUNTED,
            cut("transfer closed with outstanding read data remaining"),
        ),
        closing(
            "closed between chunks",
            CHUNKED,
            cut("incomplete chunked encoding: closed before the last chunk"),
        ),
        resetting("reset at once", b"", lost("connection reset by peer before the response")),
        resetting(
            "reset in its head",
            b"HTTP/1.1 200 O",
            lost("connection reset by peer while reading response header"),
        ),
        resetting(
            "reset in its body",
            COUNTED,
            cut("connection reset by peer while reading response body"),
        ),
        resetting(
            "reset in a tunnel",
            SWITCH,
            cut("connection reset by peer in the middle of the stream"),
        )
        .asking(UPGRADE.to_vec()),
    ]
}

/// Those that say nothing more.
fn slow() -> Vec<Case> {
    let stopping = |name, answer: &'static [u8], told| {
        let address = scripted(move |mut stream| {
            head(&mut stream);
            say(stream, answer);
        });
        Case::new(name, address, told).hurried(|limits| {
            (limits.head, limits.idle) = (SHORT, SHORT);
        })
    };
    let late = |reason| (Ending::ServerTimeout, reason);
    // Nothing is read of it.
    let deaf = scripted(|stream| {
        std::thread::sleep(std::time::Duration::from_secs(2));
        wait(stream);
    });
    let mut upload = b"POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 30000000\r\n\r\n".to_vec();
    upload.resize(upload.len() + 30_000_000, b'x');
    let deaf = Case::new("reads nothing", deaf, late("timed out while sending the request body"));
    vec![
        stopping("says nothing", b"", late("timed out while waiting for the response")),
        stopping(
            "stops in its head",
            b"HTTP/1.1 2",
            late("timed out while reading response header"),
        ),
        stopping(
            "stops in its body",
            b"HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nok",
            (Ending::ServerStalled, "timed out while reading response body"),
        ),
        deaf.asking(upload).hurried(|limits| limits.idle = SHORT),
    ]
}
