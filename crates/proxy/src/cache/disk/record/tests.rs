//! Records are read as they were written, or not at all.

use proptest::prelude::*;

use super::*;

fn head(url: &[u8], text: &[u8], tags: Vec<Vec<u8>>, names: Vec<Vec<u8>>, secs: i64) -> Head {
    let response = Response {
        status: 200,
        text: text.into(),
        length: Length::Unknown,
        variant: b"web"[..].into(),
        selectors: Selectors {
            vary: Vary::Fields(names.into()),
            secondary: Some(b"secondary"[..].into()),
            tags: tags.into_iter().map(Into::into).collect(),
        }
        .into(),
    };
    let metadata = Metadata {
        status: 200,
        generated: UnixTime::from_secs(secs - 7),
        received: UnixTime::from_secs(secs),
        lifetime: Duration::from_secs(60),
        stale_while_revalidate: None,
        stale_if_error: Some(Duration::from_secs(secs.unsigned_abs() % 90).into()),
        may_be_stale: secs % 2 == 0,
        needs_validation: secs % 3 == 0,
        has_validator: secs % 5 == 0,
        immutable: secs % 7 == 0,
        for_authorized: secs % 11 == 0,
    };
    Head { url: url.into(), response: Arc::new(response), metadata }
}

fn some() -> Head {
    let tags = vec![b"one".to_vec(), b"two".to_vec()];
    head(b"http://h/a", b"HTTP/1.1 200 OK\r\nA: b\r\n", tags, vec![b"accept".to_vec()], 1_000)
}

fn bytes() -> impl Strategy<Value = Vec<u8>> {
    prop::collection::vec(any::<u8>(), 0..40)
}

#[test]
fn the_first_of_several_slices_says_how_long_the_whole_is() {
    let mut wrote = some();
    let length = Length::Sliced { complete: 3_000_000_000, size: 1_000 };
    Arc::get_mut(&mut wrote.response).unwrap().length = length;
    let (opening, written) = wrote.write(1_000, 0).unwrap();
    let read = opening.head(&written[Opening::BYTES..]).unwrap();
    assert_eq!(read.response.length, length);
}

proptest! {
    #[test]
    fn a_head_is_read_as_it_was_written(
        url in bytes(), text in bytes(), tags in prop::collection::vec(bytes(), 0..4),
        names in prop::collection::vec(bytes(), 0..4), secs in -9_000..1_900_000_000i64,
        body in 0..1u64 << 40, epoch in any::<u64>(),
    ) {
        let wrote = head(&url, &text, tags, names, secs);
        let (opening, written) = wrote.write(body, epoch).unwrap();
        prop_assert_eq!(Opening::read(&written), Some(opening));
        prop_assert_eq!((opening.body, opening.epoch), (body, epoch));
        prop_assert_eq!(opening.body_at(), written.len() as u64);
        let read = opening.head(&written[Opening::BYTES..]).unwrap();
        prop_assert_eq!(&read.url, &wrote.url);
        prop_assert_eq!(read.metadata, wrote.metadata);
        let length = Length::Whole(body);
        let Response { status, text, variant, selectors, .. } = &*wrote.response;
        prop_assert_eq!(&read.response.text, text);
        prop_assert_eq!(&read.response.selectors, selectors);
        prop_assert_eq!((read.response.status, read.response.length), (*status, length));
        prop_assert_eq!(&read.response.variant, variant);
    }

    #[test]
    fn a_body_in_any_pieces_makes_the_same_blocks(
        length in 0..600_000usize, cuts in prop::collection::vec(1..300_000usize, 0..6),
    ) {
        let body: Vec<u8> = (0..length).map(|at| (at % 251) as u8).collect();
        let mut rest = Bytes::from(body.clone());
        let mut pieces = Vec::new();
        for cut in cuts {
            pieces.push(rest.split_to(cut.min(rest.len())));
        }
        pieces.push(rest);
        let mut written = Vec::new();
        let mut to = |bytes: &[u8]| { written.extend_from_slice(bytes); Ok::<_, ()>(()) };
        write_body(7, pieces.into_iter(), &mut to).unwrap();
        prop_assert_eq!(written.len() as u64, on_disk(length as u64));
        let mut read = Vec::new();
        for (index, bytes) in (0..).zip(written.chunks(BLOCK as usize + CHECK)) {
            let bytes = Bytes::copy_from_slice(bytes);
            read.extend_from_slice(&block(7, index, bytes.clone()).unwrap());
            prop_assert!(block(8, index, bytes.clone()).is_none(), "of another record");
            prop_assert!(block(7, index + 1, bytes).is_none(), "of another place");
        }
        prop_assert!(read == body);
    }
}

#[test]
fn a_head_with_a_bit_that_differs_is_none() {
    let (_, written) = some().write(5, 3).unwrap();
    for bit in 0..written.len() * 8 {
        let mut wrong = written.clone();
        wrong[bit / 8] ^= 1 << (bit % 8);
        let opening = Opening::read(&wrong);
        let read = opening.and_then(|opening| opening.head(&wrong[Opening::BYTES..]));
        assert!(read.is_none(), "bit {bit}");
    }
    for length in 0..written.len() {
        let cut = &written[..length];
        let read = Opening::read(cut).and_then(|it| it.head(&cut[Opening::BYTES..]));
        assert!(read.is_none(), "{length} bytes");
    }
}
