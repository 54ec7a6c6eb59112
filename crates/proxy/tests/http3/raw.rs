//! Streams whose bytes are written by hand, for what no client of a library says.

use quinn::{Connection, RecvStream, SendStream};

/// A stream with a head of these lines, as a name and a value or as they are encoded.
pub(crate) async fn open(connection: &Connection, block: &[u8]) -> (SendStream, RecvStream) {
    let (mut send, receive) = connection.open_bi().await.unwrap();
    send.write_all(&frame(1, &[&[0, 0], block].concat())).await.unwrap();
    (send, receive)
}

pub(crate) fn frame(kind: u8, payload: &[u8]) -> Vec<u8> {
    let length = (0b10 << 30 | payload.len() as u32).to_be_bytes();
    [&[kind], &length[..], payload].concat()
}

/// Lines with names and values as they are.
pub(crate) fn lines(lines: &[(&str, &str)]) -> Vec<u8> {
    let mut block = Vec::new();
    for (name, value) in lines {
        length(&mut block, 0x20, 7, name.len());
        block.extend_from_slice(name.as_bytes());
        length(&mut block, 0, 127, value.len());
        block.extend_from_slice(value.as_bytes());
    }
    block
}

/// A length that begins in the lower bits of a byte (RFC 7541, 5.1).
fn length(block: &mut Vec<u8>, bits: u8, most: usize, length: usize) {
    if length < most {
        return block.push(bits | length as u8);
    }
    block.push(bits | most as u8);
    let mut left = length - most;
    while left >= 128 {
        block.push((left % 128) as u8 | 0x80);
        left /= 128;
    }
    block.push(left as u8);
}

/// The next frame: its type and payload.
pub(crate) async fn next_frame(stream: &mut RecvStream) -> (u64, Vec<u8>) {
    let (kind, length) = (varint(stream).await, varint(stream).await);
    let mut payload = vec![0; length as usize];
    stream.read_exact(&mut payload).await.unwrap();
    (kind, payload)
}

async fn varint(stream: &mut RecvStream) -> u64 {
    let mut first = [0];
    stream.read_exact(&mut first).await.unwrap();
    let mut rest = vec![0; (1 << (first[0] >> 6)) - 1];
    stream.read_exact(&mut rest).await.unwrap();
    rest.iter().fold(u64::from(first[0] & 0x3f), |value, byte| value << 8 | u64::from(*byte))
}
