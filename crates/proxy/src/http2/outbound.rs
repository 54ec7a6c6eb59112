//! Frames on their way from h2: the streams that it resets for a rule that their client broke.
//!
//! h2 refuses a malformed request (RFC 9113, 8.1.1) before anybody has seen it, and tells its
//! client alone. So it is read from what is written.

/// Where in the frames to a client the writer is.
#[derive(Debug, Default)]
pub(super) struct Outbound {
    /// Bytes before the next header.
    ahead: usize,
}

impl Outbound {
    /// Takes the first `count` bytes of `pieces`, which have been written: `found` gets each stream
    /// that is reset with PROTOCOL_ERROR. h2 has whole frames written, and of one that was cut the
    /// rest.
    pub(super) fn pass(&mut self, pieces: [&[u8]; 2], count: usize, mut found: impl FnMut(u32)) {
        let mut at = self.ahead;
        while at < count {
            let [first, second] = pieces;
            let rest = first.get(at..).filter(|rest| !rest.is_empty());
            let rest = rest.or_else(|| second.get(at - first.len()..));
            let Some([a, b, c, frame @ ..]) = rest else { break };
            if let [RST_STREAM, _, d, e, f, g, 0, 0, 0, PROTOCOL_ERROR, ..] = *frame {
                found(u32::from_be_bytes([d, e, f, g]));
            }
            at += HEADER + u32::from_be_bytes([0, *a, *b, *c]) as usize;
        }
        self.ahead = at.saturating_sub(count);
    }
}

/// Bytes of a frame before its payload (RFC 9113, 4.1).
const HEADER: usize = 9;

const RST_STREAM: u8 = 3;

/// RFC 9113, 7.
const PROTOCOL_ERROR: u8 = 1;

#[cfg(test)]
mod tests {
    use super::*;

    /// Frames as h2 has them written: the last one's payload is a piece of its own.
    const FRAMES: [&[u8]; 6] = [
        b"\0\0\x06\x04\0\0\0\0\0\0\x03\0\0\0\x64",
        b"\0\0\x04\x03\0\0\0\0\x05\0\0\0\x01",
        b"\0\0\x0d\x00\0\0\0\0\x01\0\0\x04\x03\0\0\0\0\x09\0\0\0\x01",
        b"\0\0\x04\x03\0\0\0\0\x07\0\0\0\x08",
        b"\0\0\x04\x03\0\0\0\x01\x0b\0\0\0\x01",
        b"\0\0\x0d\x00\0\0\0\0\x01",
    ];

    const PAYLOAD: &[u8] = b"\0\0\x04\x03\0\0\0\0\x0d\0\0\0\x01";

    #[test]
    fn streams_that_are_reset_as_malformed_are_found_however_little_is_taken_at_a_time() {
        let head = FRAMES.concat();
        for most in 1..=head.len() + PAYLOAD.len() {
            let (mut outbound, mut found) = (Outbound::default(), Vec::new());
            for _ in 0..2 {
                let (mut first, mut second) = (&head[..], PAYLOAD);
                while !first.is_empty() || !second.is_empty() {
                    let pieces = if first.is_empty() { [second, b""] } else { [first, second] };
                    let count = most.min(first.len() + second.len());
                    outbound.pass(pieces, count, |stream| found.push(stream));
                    let of_first = count.min(first.len());
                    (first, second) = (&first[of_first..], &second[count - of_first..]);
                }
            }
            assert_eq!(found, [5, 0x10b, 5, 0x10b], "{most} at a time");
        }
    }
}
