//! The examples of the specification, HAProxy's own headers, and what is wrong with others.

use super::*;

fn ends(source: &str, destination: &str) -> Ends {
    let parse = |text: &str| text.parse().expect("an address");
    Ends { source: parse(source), destination: parse(destination) }
}

fn whole(ends: Option<Ends>, length: usize) -> Result<Header, HeaderError> {
    Ok(Header::Whole { ends, length })
}

/// A header of version 2 with this command, family and body.
fn binary(command: u8, family: u8, body: &[u8]) -> Vec<u8> {
    let size = (body.len() as u16).to_be_bytes();
    [SIGNATURE, &[command, family], &size, body].concat()
}

const FOUR: [u8; 12] = [192, 168, 0, 1, 192, 168, 0, 11, 0xdc, 0x04, 0x01, 0xbb];

#[test]
fn the_examples_of_the_specification_are_read() {
    let line = b"PROXY TCP4 192.168.0.1 192.168.0.11 56324 443\r\nGET / HTTP/1.1\r\n";
    assert_eq!(read(line), whole(Some(ends("192.168.0.1:56324", "192.168.0.11:443")), 47));
    let worst = b"PROXY TCP6 ffff:ffff:ffff:ffff:ffff:ffff:ffff:ffff \
        ffff:ffff:ffff:ffff:ffff:ffff:ffff:ffff 65535 65535\r\n";
    let all_ones = "[ffff:ffff:ffff:ffff:ffff:ffff:ffff:ffff]:65535";
    assert_eq!(read(worst), whole(Some(ends(all_ones, all_ones)), 104));
    assert_eq!(read(b"PROXY UNKNOWN\r\n"), whole(None, 15));
    let longest = b"PROXY UNKNOWN ffff:ffff:ffff:ffff:ffff:ffff:ffff:ffff \
        ffff:ffff:ffff:ffff:ffff:ffff:ffff:ffff 65535 65535\r\n";
    assert_eq!((longest.len(), read(longest)), (107, whole(None, 107)));
}

#[test]
fn what_haproxy_sends_is_read() {
    // `send-proxy-v2` of HAProxy 2.6, from 127.0.0.1:53884 to 127.0.0.1:44797.
    let haproxy = b"\r\n\r\n\0\r\nQUIT\n\x21\x11\0\x0c\x7f\0\0\x01\x7f\0\0\x01\xd2\x7c\xae\xfd";
    assert_eq!(read(haproxy), whole(Some(ends("127.0.0.1:53884", "127.0.0.1:44797")), 28));
    // Its health checks.
    assert_eq!(read(b"\r\n\r\n\0\r\nQUIT\n\x20\0\0\0"), whole(None, 16));
}

#[test]
fn extensions_are_skipped_whatever_they_are() {
    let authority = [&[2, 0, 11][..], b"example.com"].concat();
    let of_a_cloud = [0xea, 0, 3, 1, b'v', b'p'];
    let header = binary(0x21, 0x11, &[&FOUR[..], &authority, &of_a_cloud, &[4, 0, 0]].concat());
    let found = whole(Some(ends("192.168.0.1:56324", "192.168.0.11:443")), header.len());
    assert_eq!(read(&header), found);
    for cut_off in [&[4][..], &[4, 0], &[4, 0, 1], &[4, 0, 0, 9]] {
        let header = binary(0x21, 0x11, &[&FOUR[..], cut_off].concat());
        assert!(matches!(read(&header), Err(HeaderError::Binary(_))), "{cut_off:?}");
    }
}

#[test]
fn a_header_with_a_checksum_that_is_wrong_is_refused() {
    assert_eq!(crc32c(b"123456789".iter()), 0xe306_9283);
    assert_eq!(crc32c([0; 32].iter()), 0x8a91_36aa, "of RFC 3720, B.4");
    // An example of a network load balancer of AWS.
    let ends_of_aws = b"\xac\x1f\x07\x71\xac\x1f\x0a\x1f\xc8\xf2\x00\x50";
    let endpoint = b"\xea\0\x17\x01vpce-08d2bf15fac5001c9";
    let padding = [&[4, 0, 36][..], &[0_u8; 36]].concat();
    let with = |checksums: &[u8]| {
        binary(0x21, 0x11, &[&ends_of_aws[..], checksums, endpoint, &padding].concat())
    };
    let right = with(b"\x03\0\x04\xe8\xd6\x89\x2d");
    let told = ends("172.31.7.113:51442", "172.31.10.31:80");
    assert_eq!(read(&right), whole(Some(told), right.len()));
    let wrong = HeaderError::Binary("its CRC32C checksum is wrong");
    for at in [17, 27, 34, right.len() - 1] {
        let mut header = right.clone();
        header[at] ^= 1;
        assert_eq!(read(&header), Err(wrong), "byte {at}");
    }
    assert_eq!(read(&with(b"\x03\0\0")), Err(wrong));
    assert_eq!(read(&with(b"\x03\0\x05\xe8\xd6\x89\x2d\0")), Err(wrong));
    let twice = with(b"\x03\0\x04\xe8\xd6\x89\x2d\x03\0\x04\xe8\xd6\x89\x2d");
    assert_eq!(read(&twice), Err(HeaderError::Binary("more than one checksum")));
}

#[test]
fn connections_that_no_tcp_client_can_have_speak_for_themselves() {
    assert_eq!(read(&binary(0x21, 0x00, &[])), whole(None, 16), "unspecified");
    assert_eq!(read(&binary(0x21, 0x01, &FOUR)), whole(None, 28), "with addresses of nobody");
    assert_eq!(read(&binary(0x21, 0x31, &[b'/'; 216])), whole(None, 232), "a Unix socket");
    assert_eq!(read(&binary(0x21, 0x12, &FOUR)), whole(None, 28), "UDP");
    assert_eq!(read(&binary(0x20, 0x11, &[0xff; 5])), whole(None, 21), "LOCAL, not looked at");
}

#[test]
fn a_header_may_come_in_any_pieces() {
    let line = b"PROXY TCP4 192.168.0.1 192.168.0.11 56324 443\r\n".to_vec();
    for whole in [line, binary(0x21, 0x11, &FOUR), binary(0x21, 0x21, &[9; 36])] {
        for cut in 0..whole.len() {
            assert_eq!(read(&whole[..cut]), Ok(Header::Partial), "cut at {cut}");
        }
        let followed = [&whole[..], b"\r\n"].concat();
        assert_eq!(read(&followed), read(&whole));
    }
}

#[test]
fn what_is_written_is_what_is_read() {
    let (near, far) = ("10.0.0.9:41234", "[2001:db8::1]:65535");
    let pairs = [(near, "10.0.0.1:443"), (far, "[::1]:1"), (near, far)];
    for version in [ProxyVersion::V1, ProxyVersion::V2] {
        for (source, destination) in pairs {
            let told = ends(source, destination);
            let mut bytes = Vec::new();
            write(&mut bytes, version, Some(told));
            assert_eq!(read(&bytes), whole(Some(told), bytes.len()));
        }
        let mut bytes = Vec::new();
        write(&mut bytes, version, None);
        assert_eq!(read(&bytes), whole(None, bytes.len()));
    }
}

#[test]
fn ends_of_two_families_are_written_in_the_larger_and_mapped_ones_in_their_own() {
    let mut line = Vec::new();
    write(&mut line, ProxyVersion::V1, Some(ends("10.0.0.9:4", "[::1]:5")));
    assert_eq!(line, b"PROXY TCP6 ::ffff:10.0.0.9 ::1 4 5\r\n");
    line.clear();
    write(&mut line, ProxyVersion::V1, Some(ends("[::ffff:10.0.0.9]:4", "10.0.0.1:5")));
    assert_eq!(line, b"PROXY TCP4 10.0.0.9 10.0.0.1 4 5\r\n");
}

#[test]
fn a_header_is_never_guessed() {
    for wrong in [&b"GET / HTTP/1.1\r\n"[..], b"PROX\r\n", b"proxy TCP4", b"\r\n\r\n\0\r\nQUIX"] {
        assert_eq!(read(wrong), Err(HeaderError::Missing), "{}", wrong.escape_ascii());
    }
}

#[test]
fn a_line_is_as_the_document_says_or_refused() {
    for wrong in [
        "TCP4 1.2.3.4 1.2.3.4 1", "TCP4 1.2.3.4 1.2.3.4 1 2 3", "TCP4  1.2.3.4 1.2.3.4 1 2",
        "TCP4 1.2.3.4 1.2.3.4 1 2 ", "TCP5 1.2.3.4 1.2.3.4 1 2", "UDP4 1.2.3.4 1.2.3.4 1 2",
        "UNKNOWNS", "TCP4 ::1 ::1 1 2", "TCP6 1.2.3.4 1.2.3.4 1 2", "TCP4 1.2.3 1.2.3.4 1 2",
        "TCP4 1.2.3.04 1.2.3.4 1 2", "TCP4 1.2.3.256 1.2.3.4 1 2", "TCP6 [::1] ::1 1 2",
        "TCP6 fe80::1%1 ::1 1 2", "TCP4 1.2.3.4 1.2.3.4 65536 2", "TCP4 1.2.3.4 1.2.3.4 -1 2",
        "TCP4 1.2.3.4 1.2.3.4 +1 2", "TCP4 1.2.3.4 1.2.3.4 01 2", "TCP4 1.2.3.4 1.2.3.4 1 \n2",
    ] {
        let found = read(format!("PROXY {wrong}\r\n").as_bytes());
        assert!(matches!(found, Err(HeaderError::Line(_))), "{wrong}: {found:?}");
    }
    assert!(matches!(read(b"PROXY TCP4 \xff\r\n"), Err(HeaderError::Line(_))));
    let endless = [LINE_START, &[b' '; LINE_MAX]].concat();
    assert_eq!(read(&endless), Err(HeaderError::LineTooLong));
    assert_eq!(read(&endless[..LINE_MAX - 1]), Ok(Header::Partial));
}

#[test]
fn a_binary_header_is_as_the_document_says_or_refused() {
    assert_eq!(read(&binary(0x11, 0x11, &FOUR)), Err(HeaderError::Version(1)));
    let wrong = [
        binary(0x22, 0x11, &FOUR),
        binary(0x21, 0x41, &FOUR),
        binary(0x21, 0x13, &FOUR),
        binary(0x21, 0x11, &FOUR[..11]),
        binary(0x21, 0x21, &FOUR),
        binary(0x21, 0x31, &FOUR),
    ];
    for header in wrong {
        let found = read(&header);
        assert!(matches!(found, Err(HeaderError::Binary(_))), "{found:?}");
    }
    let long = binary(0x21, 0x11, &[0; 4097]);
    assert_eq!(read(&long[..16]), Err(HeaderError::TooLong(4097)), "before it is read");
}

#[test]
fn an_address_of_version_4_that_is_told_as_one_of_version_6_is_of_version_4() {
    let line = b"PROXY TCP6 ::ffff:10.0.0.9 ::1 4 5\r\n";
    assert_eq!(read(line), whole(Some(ends("10.0.0.9:4", "[::1]:5")), line.len()));
    let mapped = [&[0; 10][..], &[0xff; 2], &[10, 0, 0, 9]].concat();
    let header = binary(0x21, 0x21, &[&mapped[..], &mapped, &[0, 4, 0, 5]].concat());
    assert_eq!(read(&header), whole(Some(ends("10.0.0.9:4", "10.0.0.9:5")), header.len()));
}
