//! Encoder and decoder against the examples of RFC 7541, against each other and against strangers.

use proptest::prelude::*;

use super::{decoder::Undecodable, *};

type Field = (Vec<u8>, Vec<u8>);

fn bytes(hex: &str) -> Vec<u8> {
    let digits: Vec<u8> = hex.bytes().filter(|byte| *byte != b' ').collect();
    let pairs = digits.chunks_exact(2).map(|pair| std::str::from_utf8(pair).unwrap());
    pairs.map(|pair| u8::from_str_radix(pair, 16).unwrap()).collect()
}

fn decode(decoder: &mut Decoder, block: &[u8]) -> Result<Vec<Field>, Undecodable> {
    let mut fields = Vec::new();
    decoder
        .decode(block, usize::MAX, |name, value| fields.push((name.to_vec(), value.to_vec())))?;
    Ok(fields)
}

/// What a decoder that knows nothing says of a block.
fn fresh(hex: &str) -> Result<Vec<Field>, Undecodable> {
    decode(&mut Decoder::new(), &bytes(hex))
}

fn fields(lines: &[(&str, &str)]) -> Vec<Field> {
    lines
        .iter()
        .map(|(name, value)| (name.as_bytes().to_vec(), value.as_bytes().to_vec()))
        .collect()
}

fn encode(encoder: &mut Encoder, fields: &[Field]) -> Vec<u8> {
    let mut out = Vec::new();
    encoder.begin(&mut out);
    for (name, value) in fields {
        encoder.field(&mut out, name, value);
    }
    out
}

/// Blocks in hexadecimal digits, with the fields that they stand for.
type Example = (&'static str, &'static [(&'static str, &'static str)]);

#[track_caller]
fn decodes(decoder: &mut Decoder, examples: &[Example]) {
    for (hex, lines) in examples {
        assert_eq!(decode(decoder, &bytes(hex)), Ok(fields(lines)), "{hex}");
    }
}

const REQUESTS: [&[(&str, &str)]; 3] = [
    &[(":method", "GET"), (":scheme", "http"), (":path", "/"), (":authority", "www.example.com")],
    &[
        (":method", "GET"),
        (":scheme", "http"),
        (":path", "/"),
        (":authority", "www.example.com"),
        ("cache-control", "no-cache"),
    ],
    &[
        (":method", "GET"),
        (":scheme", "https"),
        (":path", "/index.html"),
        (":authority", "www.example.com"),
        ("custom-key", "custom-value"),
    ],
];

const RESPONSES: [&[(&str, &str)]; 3] = [
    &[
        (":status", "302"),
        ("cache-control", "private"),
        ("date", "Mon, 21 Oct 2013 20:13:21 GMT"),
        ("location", "https://www.example.com"),
    ],
    &[
        (":status", "307"),
        ("cache-control", "private"),
        ("date", "Mon, 21 Oct 2013 20:13:21 GMT"),
        ("location", "https://www.example.com"),
    ],
    &[
        (":status", "200"),
        ("cache-control", "private"),
        ("date", "Mon, 21 Oct 2013 20:13:22 GMT"),
        ("location", "https://www.example.com"),
        ("content-encoding", "gzip"),
        ("set-cookie", "foo=ASDJKHQKBZXOQWEOPIUAXQWEOIU; max-age=3600; version=1"),
    ],
];

#[test]
fn the_fields_of_rfc_7541_c_2_are_decoded() {
    let custom: Example = (
        "400a 6375 7374 6f6d 2d6b 6579 0d63 7573 746f 6d2d 6865 6164 6572",
        &[("custom-key", "custom-header")],
    );
    decodes(&mut Decoder::new(), &[custom, ("be", &[("custom-key", "custom-header")])]);
    let plain: Example = ("040c 2f73 616d 706c 652f 7061 7468", &[(":path", "/sample/path")]);
    decodes(&mut Decoder::new(), &[plain]);
    let never: Example = ("1008 7061 7373 776f 7264 0673 6563 7265 74", &[("password", "secret")]);
    let mut decoder = Decoder::new();
    decodes(&mut decoder, &[never, ("82", &[(":method", "GET")])]);
    assert_eq!(decode(&mut decoder, &[0xbe]), Err(Undecodable::Index));
}

#[test]
fn the_requests_of_rfc_7541_c_3_are_decoded() {
    let examples = [
        ("8286 8441 0f77 7777 2e65 7861 6d70 6c65 2e63 6f6d", REQUESTS[0]),
        ("8286 84be 5808 6e6f 2d63 6163 6865", REQUESTS[1]),
        ("8287 85bf 400a 6375 7374 6f6d 2d6b 6579 0c63 7573 746f 6d2d 7661 6c75 65", REQUESTS[2]),
    ];
    decodes(&mut Decoder::new(), &examples);
}

#[test]
fn the_requests_of_rfc_7541_c_4_are_decoded() {
    let examples = [
        ("8286 8441 8cf1 e3c2 e5f2 3a6b a0ab 90f4 ff", REQUESTS[0]),
        ("8286 84be 5886 a8eb 1064 9cbf", REQUESTS[1]),
        ("8287 85bf 4088 25a8 49e9 5ba9 7d7f 8925 a849 e95b b8e8 b4bf", REQUESTS[2]),
    ];
    decodes(&mut Decoder::new(), &examples);
}

/// A decoder whose table has 256 bytes, as in these examples.
fn small() -> Decoder {
    let mut decoder = Decoder::new();
    assert_eq!(decode(&mut decoder, &bytes("3fe1 01")), Ok(Vec::new()));
    decoder
}

#[test]
fn the_responses_of_rfc_7541_c_5_are_decoded() {
    let examples = [
        (
            "4803 3330 3258 0770 7269 7661 7465 611d 4d6f 6e2c 2032 3120 4f63 7420 3230 3133 2032 \
             303a 3133 3a32 3120 474d 546e 1768 7474 7073 3a2f 2f77 7777 2e65 7861 6d70 6c65 2e63 \
             6f6d",
            RESPONSES[0],
        ),
        ("4803 3330 37c1 c0bf", RESPONSES[1]),
        (
            "88c1 611d 4d6f 6e2c 2032 3120 4f63 7420 3230 3133 2032 303a 3133 3a32 3220 474d 54c0 \
             5a04 677a 6970 7738 666f 6f3d 4153 444a 4b48 514b 425a 584f 5157 454f 5049 5541 5851 \
             5745 4f49 553b 206d 6178 2d61 6765 3d33 3630 303b 2076 6572 7369 6f6e 3d31",
            RESPONSES[2],
        ),
    ];
    decodes(&mut small(), &examples);
}

#[test]
fn the_responses_of_rfc_7541_c_6_are_decoded() {
    let examples = [
        (
            "4882 6402 5885 aec3 771a 4b61 96d0 7abe 9410 54d4 44a8 2005 9504 0b81 66e0 82a6 2d1b \
             ff6e 919d 29ad 1718 63c7 8f0b 97c8 e9ae 82ae 43d3",
            RESPONSES[0],
        ),
        ("4883 640e ffc1 c0bf", RESPONSES[1]),
        (
            "88c1 6196 d07a be94 1054 d444 a820 0595 040b 8166 e084 a62d 1bff c05a 839b d9ab 77ad \
             94e7 821d d7f2 e6c7 b335 dfdf cd5b 3960 d5af 2708 7f36 72c1 ab27 0fb5 291f 9587 3160 \
             65c0 03ed 4ee5 b106 3d50 07",
            RESPONSES[2],
        ),
    ];
    decodes(&mut small(), &examples);
}

#[test]
fn the_responses_of_the_rfc_are_encoded_and_decoded_again() {
    let (mut encoder, mut decoder) = (Encoder::new(), Decoder::new());
    encoder.set_table_size(256);
    for lines in RESPONSES.iter().chain(&RESPONSES) {
        let mut out = Vec::new();
        encoder.begin(&mut out);
        let (status, rest) = lines.split_first().unwrap();
        encoder.status(&mut out, status.1.parse().unwrap());
        for (name, value) in rest {
            encoder.field(&mut out, name.as_bytes(), value.as_bytes());
        }
        assert_eq!(decode(&mut decoder, &out), Ok(fields(lines)));
    }
}

#[test]
fn a_field_that_comes_again_is_one_byte() {
    let lines = fields(&[("Date", "Mon, 21 Oct 2013 20:13:21 GMT"), ("x-cache", "HIT")]);
    let mut encoder = Encoder::new();
    encode(&mut encoder, &lines);
    assert_eq!(encode(&mut encoder, &lines), [0xbf, 0xbe]);
    let mut out = Vec::new();
    encoder.status(&mut out, 200);
    encoder.field(&mut out, b"dATE", b"Mon, 21 Oct 2013 20:13:21 GMT");
    assert_eq!(out, [0x88, 0xbf]);
}

#[test]
fn an_own_name_that_comes_again_is_an_index() {
    let mut encoder = Encoder::new();
    encode(&mut encoder, &fields(&[("x-cache", "HIT")]));
    assert_eq!(encode(&mut encoder, &fields(&[("x-cache", "000")])), bytes("7e82 0001"));
}

#[test]
fn what_differs_with_each_response_does_not_enter_the_table() {
    let mut encoder = Encoder::new();
    let long = "v".repeat(513);
    for (name, value) in [("etag", "\"1\""), ("content-length", "12"), ("X-Request-ID", "1")]
        .into_iter()
        .chain([("x-long", &long[..]), (&long[..65], "1")])
    {
        for _ in 0..2 {
            let block = encode(&mut encoder, &fields(&[(name, value)]));
            assert_eq!(block[0] & 0xf0, 0, "{name}");
            let expected = fields(&[(&name.to_ascii_lowercase(), value)]);
            assert_eq!(decode(&mut Decoder::new(), &block), Ok(expected));
        }
    }
}

#[test]
fn secrets_never_enter_a_table() {
    let mut encoder = Encoder::new();
    for name in ["set-cookie", "Cookie", "Authorization", "proxy-authorization"] {
        for _ in 0..2 {
            let block = encode(&mut encoder, &fields(&[(name, "secret")]));
            assert_eq!(block[0] & 0xf0, 0x10, "{name}");
        }
    }
}

#[test]
fn a_block_begins_with_the_smallest_size_between_and_the_last() {
    let mut encoder = Encoder::new();
    encoder.set_table_size(65_536);
    assert_eq!(encode(&mut encoder, &[]), b"");
    encoder.set_table_size(100);
    encoder.set_table_size(0);
    encoder.set_table_size(65_536);
    assert_eq!(encode(&mut encoder, &[]), bytes("20 3fe1 1f"));
    assert_eq!(encode(&mut encoder, &[]), b"");
    encoder.set_table_size(10);
    assert_eq!(encode(&mut encoder, &[]), bytes("2a"));
    encoder.set_table_size(20);
    encoder.set_table_size(15);
    assert_eq!(encode(&mut encoder, &[]), bytes("2f"));
}

#[test]
fn an_index_of_zero_is_refused() {
    assert_eq!(fresh("80"), Err(Undecodable::Index));
}

#[test]
fn an_index_beyond_the_tables_is_refused() {
    for hex in ["be", "ff 80 01", "7f 00 00", "0f 2f 00", "1f 2f 00", "ff ff ff ff 7f"] {
        assert_eq!(fresh(hex), Err(Undecodable::Index), "{hex}");
    }
    assert_eq!(fresh("bd"), Ok(fields(&[("www-authenticate", "")])));
}

#[test]
fn an_entry_that_had_to_go_is_not_found() {
    // Two entries of 2,032 bytes and a half, of which two have room and three have not.
    let mut decoder = Decoder::new();
    for at in 0..3 {
        let mut block = bytes("40 01 61 7f d0 0e");
        block.resize(block.len() + 1999, b'0' + at);
        assert!(decode(&mut decoder, &block).is_ok());
    }
    assert_eq!(decode(&mut decoder, &[0xbf]).unwrap()[0].1[0], b'1');
    assert_eq!(decode(&mut decoder, &[0xc0]), Err(Undecodable::Index));
}

#[test]
fn a_name_whose_entry_goes_for_the_field_itself_is_still_its_name() {
    let mut decoder = Decoder::new();
    let mut first = bytes("40 03 61 62 63 7f 81 0f");
    first.resize(first.len() + 2048, b'1');
    assert!(decode(&mut decoder, &first).is_ok());
    let mut second = bytes("7e 7f 81 17");
    second.resize(second.len() + 3072, b'2');
    assert_eq!(decode(&mut decoder, &second).unwrap()[0].0, b"abc");
    assert_eq!(decode(&mut decoder, &[0xbe]).unwrap()[0], (b"abc".to_vec(), vec![b'2'; 3072]));
    assert_eq!(decode(&mut decoder, &[0xbf]), Err(Undecodable::Index));
}

#[test]
fn an_entry_bigger_than_the_table_empties_it_and_is_a_field_all_the_same() {
    let mut decoder = small();
    assert!(decode(&mut decoder, &bytes("40 01 61 01 62")).is_ok());
    let mut big = bytes("40 01 63 7f 81 01");
    big.resize(big.len() + 256, b'd');
    assert_eq!(decode(&mut decoder, &big), Ok(vec![(b"c".to_vec(), vec![b'd'; 256])]));
    assert_eq!(decode(&mut decoder, &[0xbe]), Err(Undecodable::Index));
}

#[test]
fn a_size_beyond_the_settings_is_refused() {
    assert_eq!(fresh("3f e1 1f"), Ok(Vec::new()));
    assert_eq!(fresh("3f e2 1f"), Err(Undecodable::TableSize));
    assert_eq!(fresh("20 3f e2 1f"), Err(Undecodable::TableSize));
}

#[test]
fn a_size_after_a_field_is_refused() {
    assert_eq!(fresh("20 3f e1 1f 82"), Ok(fields(&[(":method", "GET")])));
    assert_eq!(fresh("82 20"), Err(Undecodable::LateTableSize));
    assert_eq!(fresh("20 82 3f e1 1f"), Err(Undecodable::LateTableSize));
}

#[test]
fn an_integer_that_overflows_or_is_padded_is_refused() {
    assert_eq!(fresh("ff ff ff ff ff ff ff ff ff 7f"), Err(Undecodable::Integer));
    assert_eq!(fresh("ff 80 80 80 80 00"), Err(Undecodable::Integer));
    assert_eq!(fresh("40 7f ff ff ff ff 0f"), Err(Undecodable::Integer));
}

#[test]
fn a_block_that_ends_within_a_field_is_refused() {
    let whole = bytes("4088 25a8 49e9 5ba9 7d7f 8925 a849 e95b b8e8 b4bf");
    for length in 1..whole.len() {
        let result = decode(&mut Decoder::new(), &whole[..length]);
        assert_eq!(result, Err(Undecodable::Incomplete), "{length}");
    }
    assert_eq!(fresh("ff"), Err(Undecodable::Incomplete));
    assert_eq!(fresh("3f"), Err(Undecodable::Incomplete));
    assert_eq!(fresh("00 01 61 7f ff ff ff 7f"), Err(Undecodable::Incomplete));
}

#[test]
fn padding_that_is_none_is_refused_in_names_and_values() {
    for hex in ["00 82 0f ff 01 61", "00 01 61 82 0f ff", "00 01 61 81 08", "00 81 ff 00"] {
        assert_eq!(fresh(hex), Err(Undecodable::Huffman), "{hex}");
    }
    assert_eq!(fresh("00 01 61 84 ff ff ff ff"), Err(Undecodable::Huffman));
}

#[test]
fn an_empty_block_has_no_fields() {
    assert_eq!(fresh(""), Ok(Vec::new()));
}

#[test]
fn a_long_text_leaves_no_memory_behind() {
    let long = vec![b'a'; 50_000];
    let mut encoder = Encoder::new();
    let block = encode(&mut encoder, &[(b"a".to_vec(), long.clone())]);
    assert!(block.len() < 40_000);
    let mut decoder = Decoder::new();
    assert_eq!(decode(&mut decoder, &block), Ok(vec![(b"a".to_vec(), long)]));
    assert_eq!(decoder.kept(), 0);
}

fn name() -> impl Strategy<Value = Vec<u8>> {
    let known = prop::sample::select(vec![
        "Date", "Content-Type", "server", "etag", ":status", "set-cookie", "accept-encoding",
        "x-a", "X-B", "x-c", "access-control-allow-origin", "",
    ]);
    prop_oneof![
        8 => known.prop_map(|name| name.as_bytes().to_vec()),
        1 => prop::collection::vec(any::<u8>(), 0..90),
    ]
}

fn value() -> impl Strategy<Value = Vec<u8>> {
    prop_oneof![
        8 => "[a-c]{0,2}".prop_map(String::into_bytes),
        1 => Just(b"gzip, deflate".to_vec()),
        2 => prop::collection::vec(any::<u8>(), 0..700),
    ]
}

proptest! {
    #[test]
    fn what_is_encoded_is_decoded_while_sizes_change(
        blocks in prop::collection::vec(
            (
                prop::option::weighted(0.2, prop::collection::vec(0..5000u32, 1..4)),
                prop::collection::vec((name(), value()), 0..20),
                100..1000u16,
            ),
            1..40,
        ),
    ) {
        let (mut encoder, mut decoder) = (Encoder::new(), Decoder::new());
        for (sizes, lines, status) in blocks {
            for size in sizes.into_iter().flatten() {
                encoder.set_table_size(size);
            }
            let mut block = Vec::new();
            encoder.begin(&mut block);
            encoder.status(&mut block, status);
            let mut expected = vec![(b":status".to_vec(), status.to_string().into_bytes())];
            for (name, value) in lines {
                encoder.field(&mut block, &name, &value);
                expected.push((name.to_ascii_lowercase(), value));
            }
            prop_assert_eq!(decode(&mut decoder, &block), Ok(expected));
        }
    }

    #[test]
    fn whatever_comes_is_decoded_or_refused(
        blocks in prop::collection::vec(prop::collection::vec(any::<u8>(), 0..60), 1..20),
    ) {
        let mut decoder = Decoder::new();
        for block in blocks {
            // What is refused ends a connection; here it does not, so that more is tried.
            let mut bytes = 0;
            let _ = decoder.decode(&block, usize::MAX, |name, value| {
                bytes += name.len() + value.len();
            });
            prop_assert!(bytes <= block.len() * 4096);
        }
    }
}
