//! Header blocks of HTTP/2: whatever comes is decoded or refused, and what is decoded is the same
//! when it has been encoded again, whatever becomes of the table's size.
//!
//! Each block follows its length in one byte, or one says a size.
#![no_main]

use hpack::{Decoder, Encoder, Undecodable};
use libfuzzer_sys::fuzz_target;

// The proxy keeps it to itself; nobody but this needs it.
#[path = "../../crates/proxy/src/http2/hpack/mod.rs"]
mod hpack;

type Fields = Vec<(Vec<u8>, Vec<u8>)>;

fuzz_target!(|bytes: &[u8]| {
    let mut client = Decoder::new();
    let mut encoder = Encoder::new();
    let mut decoder = Decoder::new();
    let mut rest = bytes;
    while let Some((first, after)) = rest.split_first() {
        rest = after;
        if let Some(size) = first.checked_sub(LONGEST) {
            encoder.set_table_size(u32::from(size) * 80);
            continue;
        }
        let (block, after) = rest.split_at(rest.len().min(usize::from(*first)));
        rest = after;
        let Ok(mut fields) = fields(&mut client, block) else { return };
        let mut again = Vec::new();
        encoder.begin(&mut again);
        encoder.status(&mut again, 200 + u16::from(*first));
        for (name, value) in &fields {
            encoder.field(&mut again, name, value);
        }
        for (name, _) in &mut fields {
            name.make_ascii_lowercase();
        }
        let status = (200 + u16::from(*first)).to_string();
        fields.insert(0, (b":status".to_vec(), status.into_bytes()));
        assert_eq!(self::fields(&mut decoder, &again), Ok(fields));
    }
});

fn fields(decoder: &mut Decoder, block: &[u8]) -> Result<Fields, Undecodable> {
    let mut fields = Vec::new();
    decoder
        .decode(block, usize::MAX, |name, value| fields.push((name.to_vec(), value.to_vec())))?;
    Ok(fields)
}

/// Longer "blocks" are sizes.
const LONGEST: u8 = 192;
