//! What a message costs: parsing, forwarding, reading chunks. The proxy's budget is 4 us of user
//! time per request; these are to stay a small part of it.
//!
//! `cargo bench -p loadline-http1`

use std::net::{IpAddr, Ipv4Addr};

use divan::{AllocProfiler, Bencher, black_box, counter::BytesCount};
use loadline_http1::{
    BodyReader, ClientLines, ForwardRules, Framing, Method, RequestHead, RequestOptions,
    ResponseHead, ResponseOptions, Status, write_chunk, write_request, write_response,
};

/// Prints a line for whatever allocates: nothing here should.
#[global_allocator]
static ALLOCATOR: AllocProfiler = AllocProfiler::system();

const SMALL: &[u8] = b"GET / HTTP/1.1\r\nHost: 127.0.0.1:8101\r\n\r\n";

const BROWSER: &[u8] = b"GET /s HTTP/1.1\r\nHost: 127.0.0.1:8101\r\n\
User-Agent: Mozilla/5.0 (X11; Linux x86_64) AppleWebKit/537.36 (KHTML, like Gecko) \
Chrome/126.0.0.0 Safari/537.36\r\n\
Accept: text/html,application/xhtml+xml,application/xml;q=0.9,image/avif,image/webp,*/*;q=0.8\r\n\
Accept-Language: en-US,en;q=0.9\r\nAccept-Encoding: gzip, deflate, br\r\n\
Cookie: session=0123456789abcdef0123456789abcdef; theme=dark; _ga=GA1.2.1234567890.1234567890\r\n\
Referer: https://www.example.com/some/page.html\r\nCache-Control: max-age=0\r\n\
Sec-Fetch-Mode: navigate\r\nSec-Fetch-Site: same-origin\r\n\
X-Request-Id: 4f3c1c2a-aaaa-bbbb-cccc-1234567890ab\r\n\r\n";

const ANSWER: &[u8] = b"HTTP/1.1 200 OK\r\nServer: nginx/1.22.1\r\n\
Date: Sat, 21 Nov 2026 04:00:00 GMT\r\nContent-Type: text/plain\r\nContent-Length: 100\r\n\
Connection: keep-alive\r\n\r\n";

fn main() {
    divan::main();
}

fn parse(bencher: Bencher, bytes: &[u8]) {
    let mut head = RequestHead::default();
    bencher.counter(BytesCount::of_slice(bytes)).bench_local(|| {
        let status = head.parse(black_box(bytes));
        assert_eq!(status, Ok(Status::Complete(bytes.len())));
    });
}

#[divan::bench]
fn parse_small_request(bencher: Bencher) {
    parse(bencher, SMALL);
}

#[divan::bench]
fn parse_browser_request(bencher: Bencher) {
    parse(bencher, BROWSER);
}

#[divan::bench]
fn parse_answer(bencher: Bencher) {
    let mut head = ResponseHead::default();
    bencher.bench_local(|| head.parse(black_box(ANSWER), Method::Get));
}

fn forward(bencher: Bencher, bytes: &[u8]) {
    let mut head = RequestHead::default();
    head.parse(bytes).expect("the request is valid");
    let address = IpAddr::V4(Ipv4Addr::LOCALHOST);
    let client = ClientLines::new(ForwardRules::default(), address, "http");
    let mut out = Vec::with_capacity(4096);
    bencher.bench_local(|| {
        out.clear();
        write_request(&mut out, black_box(bytes), &head, &client, RequestOptions::default());
        out.len()
    });
}

#[divan::bench]
fn forward_small_request(bencher: Bencher) {
    forward(bencher, SMALL);
}

#[divan::bench]
fn forward_browser_request(bencher: Bencher) {
    forward(bencher, BROWSER);
}

fn forward_answer(bencher: Bencher, options: ResponseOptions<'_>) {
    let mut head = ResponseHead::default();
    head.parse(ANSWER, Method::Get).expect("the answer is valid");
    let mut out = Vec::with_capacity(4096);
    bencher.bench_local(|| {
        out.clear();
        write_response(&mut out, black_box(ANSWER), &head, options)
    });
}

#[divan::bench]
fn forward_answer_unchanged(bencher: Bencher) {
    forward_answer(bencher, ResponseOptions::default());
}

#[divan::bench]
fn forward_answer_with_via(bencher: Bencher) {
    forward_answer(bencher, ResponseOptions { via: true, ..ResponseOptions::default() });
}

/// 64 KiB of body in chunks of this size.
#[divan::bench(args = [16, 1024, 16384])]
fn read_chunks(bencher: Bencher, size: usize) {
    let mut bytes = Vec::new();
    for _ in 0..(65_536 / size) {
        write_chunk(&mut bytes, &vec![b'x'; size]);
    }
    bencher.counter(BytesCount::of_slice(&bytes)).bench_local(|| {
        BodyReader::new(Framing::Chunked).feed(black_box(&bytes)).map(|progress| progress.consumed)
    });
}
