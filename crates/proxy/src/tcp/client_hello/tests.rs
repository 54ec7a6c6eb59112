//! Hellos of real clients, cut in every place; malformed ones, each refused by its name.

use super::*;

/// `openssl s_client -servername Www.Example.com -tls1_2`, OpenSSL 3.0.19.
const OPENSSL_12: &str = "\
    160301009b010000970303814e83065a172fdd91012e8be64d29d0a182691aac87533fbd86335affbe384e000004\
    c02f00ff0100006a00000014001200000f5777772e4578616d706c652e636f6d000b000403000102000a000c000a\
    001d0017001e00190018002300000016000000170000000d002a0028040305030603080708080809080a080b0804\
    08050806040105010601030303010302040205020602";

/// The same with `-noservername`.
const OPENSSL_NAMELESS: &str = "\
    16030100830100007f0303c3aadc4f2073de244e6fe1e81110f78089acb19f61f63d22a7488d747f4443f3000004\
    c02f00ff01000052000b000403000102000a000c000a001d0017001e00190018002300000016000000170000000d\
    002a0028040305030603080708080809080a080b08040805080604010501060103030301030204020502\
    0602";

/// `openssl s_client -servername www.example.com`, TLS 1.3, OpenSSL 3.0.19.
const OPENSSL_13: &str = "\
    160301013c010001380303647b6a376d25518351254a5f03ffa04bd67ea83d2f924e51ee47298621acb3a720ccae\
    1662a46fc4c03a37dd1efb15cece4b3940a8b710496e348ff56504aa9c0b003e130213031301c02cc030009fcca9\
    cca8ccaac02bc02f009ec024c028006bc023c0270067c00ac0140039c009c0130033009d009c003d003c0035002f\
    00ff010000b100000014001200000f7777772e6578616d706c652e636f6d000b000403000102000a00160014001d\
    0017001e0019001801000101010201030104002300000016000000170000000d002a002804030503060308070808\
    0809080a080b080408050806040105010601030303010302040205020602002b0009080304030303020301002d00\
    020101003300260024001d002050d966ecddf26f4527dab937f8868d1a528915307795e858541e6a1003c2cf0e";

/// `curl https://shop.example.org`, curl 7.88.1, without the 173 zeros of its padding extension.
const CURL: &str = "\
    160301014f0100014b0303e77f9337c97866bab1a058c1ed9dd0b456ee222819ded6fbb1517e6c4711f61820b613\
    cc9301ab0070720b0195260ae1e2824fd60a644d4c5be085e5b3da4b522a003e130213031301c02cc030009fcca9\
    cca8ccaac02bc02f009ec024c028006bc023c0270067c00ac0140039c009c0130033009d009c003d003c0035002f\
    00ff010000c400000015001300001073686f702e6578616d706c652e6f7267000b000403000102000a0016001400\
    1d0017001e00190018010001010102010301040010000e000c02683208687474702f312e31001600000017000000\
    310000000d002a0028040305030603080708080809080a080b080408050806040105010601030303010302040205\
    020602002b0009080304030303020301002d00020101003300260024001d00204e4fc2039fcde040e0bb640508a9\
    67ba338c41ea612384205d6126f8d94b2d00";

fn bytes(hex: &str) -> Vec<u8> {
    let digits: Vec<u32> = hex.chars().map(|digit| digit.to_digit(16).expect("hex")).collect();
    digits.chunks(2).map(|pair| (pair[0] * 16 + pair[1]) as u8).collect()
}

fn named(name: &str) -> Result<Hello, HelloError> {
    Ok(Hello::Whole(Some(name.to_owned())))
}

/// What rustls sends to ask for `name`.
fn rustls_hello(name: &str) -> Vec<u8> {
    let provider = rustls::crypto::aws_lc_rs::default_provider();
    let config = rustls::ClientConfig::builder_with_provider(provider.into())
        .with_safe_default_protocol_versions()
        .expect("the default versions")
        .with_root_certificates(rustls::RootCertStore::empty())
        .with_no_client_auth();
    let name = name.to_owned().try_into().expect("a name");
    let mut client = rustls::ClientConnection::new(config.into(), name).expect("a client");
    let mut hello = Vec::new();
    client.write_tls(&mut hello).expect("memory");
    hello
}

/// A hello whose record and message say how long they are, with these extensions.
fn hello_with(extensions: &[u8]) -> Vec<u8> {
    let mut body = vec![3, 3];
    body.extend([7; RANDOM]);
    body.extend([0, 0, 2, 0x13, 0x01, 1, 0]);
    body.extend((extensions.len() as u16).to_be_bytes());
    body.extend(extensions);
    in_records(&message(&body), usize::MAX)
}

fn message(body: &[u8]) -> Vec<u8> {
    let length = (body.len() as u32).to_be_bytes();
    [&[CLIENT_HELLO], &length[1..], body].concat()
}

fn in_records(message: &[u8], size: usize) -> Vec<u8> {
    let records = message.chunks(size.min(RECORD_MAX)).map(|piece| {
        let length = (piece.len() as u16).to_be_bytes();
        [&[HANDSHAKE, 3, 1], &length[..], piece].concat()
    });
    records.collect::<Vec<_>>().concat()
}

fn name_extension(name: &[u8]) -> Vec<u8> {
    let length = |count: usize| (count as u16).to_be_bytes();
    let (inner, outer) = (length(name.len()), length(name.len() + 3));
    let data = [&outer[..], &[HOST_NAME], &inner, name].concat();
    [&[0, 0], &length(data.len())[..], &data].concat()
}

#[test]
fn the_names_that_real_clients_ask_for_are_found() {
    assert_eq!(read(&bytes(OPENSSL_12)), named("www.example.com"), "in lower case");
    assert_eq!(read(&bytes(OPENSSL_13)), named("www.example.com"));
    assert_eq!(read(&bytes(CURL)), named("shop.example.org"));
    assert_eq!(read(&bytes(OPENSSL_NAMELESS)), Ok(Hello::Whole(None)));
    assert_eq!(read(&rustls_hello("a.b.example.net")), named("a.b.example.net"));
    assert_eq!(read(&rustls_hello("127.0.0.1")), Ok(Hello::Whole(None)), "addresses are no names");
}

#[test]
fn a_hello_may_come_in_any_pieces() {
    for whole in [bytes(OPENSSL_12), bytes(CURL), rustls_hello("a.example.net")] {
        let found = read(&whole);
        for cut in 0..whole.len() {
            assert_eq!(read(&whole[..cut]), Ok(Hello::Partial), "cut at {cut}");
        }
        for size in 1..whole.len() {
            let pieces = in_records(&whole[RECORD_HEADER..], size);
            assert_eq!(read(&pieces), found, "records of {size} bytes");
        }
        let followed = [&whole[..], b"\x14\x03\x03\x00\x01\x01 and so on"].concat();
        assert_eq!(read(&followed), found, "what comes behind is not looked at");
    }
}

#[test]
fn whatever_is_changed_is_refused_or_read_and_never_misread_as_partial_for_ever() {
    let whole = bytes(OPENSSL_12);
    for at in 0..whole.len() {
        for change in [0x01, 0x10, 0x80, 0xff] {
            let mut changed = whole.clone();
            changed[at] ^= change;
            // A length that grew asks for more, which ends at the limit.
            changed.resize(WIRE_MAX + RECORD_HEADER, 0);
            assert_ne!(read(&changed), Ok(Hello::Partial), "byte {at} changed by {change:#x}");
        }
    }
}

#[test]
fn what_is_not_tls_is_refused_at_its_first_byte() {
    assert_eq!(read(b""), Ok(Hello::Partial));
    assert_eq!(read(b"GET / HTTP/1.1\r\n"), Err(HelloError::NotTls(b'G')));
    assert_eq!(read(b"SSH-2.0-OpenSSH\r\n"), Err(HelloError::NotTls(b'S')));
    assert_eq!(read(b"\x80\x2e\x01\x00\x02"), Err(HelloError::NotTls(0x80)), "SSL 2");
    assert_eq!(read(b"\x16\x02"), Err(HelloError::NotRecord));
    assert_eq!(read(b"\x16\x03\x01\x00\x00"), Err(HelloError::RecordSize(0)));
    assert_eq!(read(b"\x16\x03\x01\x40\x01"), Err(HelloError::RecordSize(16385)));
    assert_eq!(read(b"\x16\x03\x01\x00\x05\x02"), Err(HelloError::NotHello(2)));
    let then_data = b"\x16\x03\x01\x00\x01\x01\x17\x03\x03";
    assert_eq!(read(then_data), Err(HelloError::NotRecord), "other records in between");
}

#[test]
fn memory_for_a_hello_is_bounded() {
    assert_eq!(read(b"\x16\x03\x01\x40\x00\x01\x00\x40\x00"), Err(HelloError::TooLong(16388)));
    let padding = |size: usize| {
        let length = (size as u16).to_be_bytes();
        [&[0, 21], &length[..], &vec![0; size]].concat()
    };
    assert_eq!(read(&hello_with(&padding(16_000))), Ok(Hello::Whole(None)));
    let crumbs = in_records(&message(&[0; HELLO_MAX - HEADER]), 1);
    assert!(matches!(read(&crumbs[..WIRE_MAX + 1]), Err(HelloError::TooLong(_))));
}

#[test]
fn a_name_is_one_host_name() {
    let ask = |name: &[u8]| read(&hello_with(&name_extension(name)));
    assert_eq!(ask(b"a.example."), named("a.example"));
    assert_eq!(ask(b"xn--bcher-kva.example"), named("xn--bcher-kva.example"));
    for wrong in [&b""[..], b".", b"a..b", b".a", b"a b", b"a\0.b", "bücher".as_bytes(), b"[::1]"]
    {
        assert_eq!(ask(wrong), Err(HelloError::Name), "{}", wrong.escape_ascii());
    }
    assert_eq!(ask(&[b'a'; 64]), Err(HelloError::Name), "a label has 63 bytes at most");
    assert_eq!(ask(&b"a.".repeat(130)), Err(HelloError::Name), "a name has 253 bytes at most");
    let malformed = |extensions: &[u8]| {
        let found = read(&hello_with(extensions));
        assert!(matches!(found, Err(HelloError::Malformed(_))), "{found:?}");
    };
    assert!(HelloError::Name.reason().text().contains("(SNI)"), "told as such");
    malformed(&[name_extension(b"a"), name_extension(b"b")].concat());
    malformed(&[0, 0, 0, 0]);
    malformed(&[0, 0, 0, 2, 0, 0]);
    malformed(&[0, 0, 0, 6, 0, 4, 1, 0, 1, b'a']);
    malformed(&[0, 0, 0, 7, 0, 4, 0, 0, 1, b'a', 0]);
    malformed(&[0, 0, 0, 6, 0, 4, 0, 0, 2, b'a']);
    malformed(&[0, 0, 0, 9, 0]);
    malformed(&[0]);
}

#[test]
fn lengths_have_to_fit_into_each_other() {
    let whole = |body: &[u8]| read(&in_records(&message(body), usize::MAX));
    let start = [&[3, 3][..], &[7; RANDOM]].concat();
    let with = |rest: &[u8]| whole(&[&start[..], rest].concat());
    assert_eq!(with(&[0, 0, 2, 0x13, 1, 1, 0]), Ok(Hello::Whole(None)), "SSL 3 had no extensions");
    for (rest, why) in [
        (&[33][..], "a session that is cut off"),
        (&[0, 0, 0, 1, 0], "no cipher suite"),
        (&[0, 0, 3, 1, 1, 1, 1, 0], "half a cipher suite"),
        (&[0, 0, 2, 0x13, 1, 0], "no compression"),
        (&[0, 0, 2, 0x13, 1, 1, 0, 0, 1], "extensions that are cut off"),
        (&[0, 0, 2, 0x13, 1, 1, 0, 0, 0, 0], "something behind the extensions"),
    ] {
        assert!(matches!(with(rest), Err(HelloError::Malformed(_))), "{why}");
    }
    assert!(matches!(whole(&[3, 3, 7]), Err(HelloError::Malformed(_))));
}
