//! What our SETTINGS say of the longest head, where h2 is to take longer ones.
//!
//! h2 refuses a head by the number that it tells the client, and does not say so to us. So it is
//! given a larger one, the parser refuses by the true one, and on the way out the frame gets that.

/// The value of SETTINGS_MAX_HEADER_LIST_SIZE in the first frame of a connection.
#[derive(Debug)]
pub(super) struct Offered {
    value: [u8; VALUE],
    /// Bytes of the frame that are gone; none once nothing is to be changed any more.
    sent: Option<usize>,
    /// Where the value is in the frame, once that has been seen.
    at: Option<usize>,
}

impl Offered {
    /// A connection that tells its client this size; none: the size of h2.
    pub(super) fn new(size: Option<u32>) -> Self {
        let sent = size.map(|_| 0);
        Self { value: size.unwrap_or_default().to_be_bytes(), sent, at: None }
    }

    /// The bytes to write instead of `bytes`, where they are others.
    pub(super) fn put_in(&mut self, bytes: &[u8]) -> Option<Vec<u8>> {
        let sent = self.sent?;
        if sent == 0 {
            self.at = place(bytes);
        }
        let Some(at) = self.at else {
            self.sent = None;
            return None;
        };
        let mut bytes = bytes.to_vec();
        for (index, byte) in self.value.into_iter().enumerate() {
            if let Some(old) = (at + index).checked_sub(sent).and_then(|it| bytes.get_mut(it)) {
                *old = byte;
            }
        }
        Some(bytes)
    }

    /// So many bytes have been written.
    pub(super) fn pass(&mut self, count: usize) {
        let end = self.at.map_or(0, |at| at + VALUE);
        self.sent = self.sent.map(|sent| sent + count).filter(|sent| *sent < end);
    }
}

/// Where in a frame of SETTINGS the value begins.
fn place(bytes: &[u8]) -> Option<usize> {
    let [a, b, c, SETTINGS, ..] = *bytes else { return None };
    let length = u32::from_be_bytes([0, a, b, c]) as usize;
    let settings = bytes.get(HEADER..HEADER + length)?.chunks_exact(SETTING);
    let index = settings.into_iter().position(|it| it[..2] == MAX_HEADER_LIST_SIZE)?;
    Some(HEADER + index * SETTING + 2)
}

/// Bytes of a frame before its payload (RFC 9113, 4.1).
const HEADER: usize = 9;

const SETTINGS: u8 = 4;

/// Bytes of a setting: its identifier, and its value (RFC 9113, 6.5.1).
const SETTING: usize = 2 + VALUE;

const VALUE: usize = 4;

const MAX_HEADER_LIST_SIZE: [u8; 2] = [0, 6];

#[cfg(test)]
mod tests {
    use super::*;

    const FRAME: &[u8] = b"\0\0\x12\x04\0\0\0\0\0\0\x03\0\0\0\x64\0\x06\0\x01\0\0\0\x08\0\0\0\x01";

    #[test]
    fn the_size_is_put_in_however_little_is_taken_at_a_time() {
        for piece in 1..=FRAME.len() {
            let (mut offered, mut left, mut written) = (Offered::new(Some(259)), FRAME, vec![]);
            while !left.is_empty() {
                let changed = offered.put_in(left);
                let count = piece.min(left.len());
                written.extend_from_slice(&changed.as_deref().unwrap_or(left)[..count]);
                offered.pass(count);
                left = &left[count..];
            }
            let mut wanted = FRAME.to_vec();
            wanted[17..21].copy_from_slice(&[0, 0, 1, 3]);
            assert_eq!(written, wanted, "in pieces of {piece}");
            assert_eq!(offered.put_in(FRAME), None, "the next frame is another");
        }
    }

    #[test]
    fn what_has_no_such_setting_stays() {
        for bytes in [&b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"[..], b"\0\0\0\x04\0\0\0\0\0", b""] {
            assert_eq!(Offered::new(Some(1)).put_in(bytes), None);
        }
        assert_eq!(Offered::new(None).put_in(FRAME), None);
    }
}
