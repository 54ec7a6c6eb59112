//! A record: its head, its key, its value.
//!
//! ```text
//! | magic | kind | key | value | check of value | check of head and key | key ... | value ...
//! ```
//! Six numbers of four bytes, little-endian; `key` and `value` are lengths. Both checks are CRC-32
//! (of IEEE 802.3): they find what was cut off and what a disk got wrong. They keep nobody from
//! writing to the directory who may.

use bytes::Bytes;

/// What is known of a record by its head.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Head {
    pub(super) kind: Kind,
    key: u32,
    value: u32,
    value_check: u32,
    check: u32,
}

/// What a record says of its key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    /// It has this value.
    Value = 1,
    /// It has none any more.
    Removed = 2,
}

impl Head {
    pub(super) const BYTES: usize = 24;

    /// Reads a head; none where there is none.
    pub(super) fn read(bytes: &[u8]) -> Option<Self> {
        let number = |index: usize| {
            let bytes = bytes.get(4 * index..4 * index + 4)?;
            bytes.try_into().ok().map(u32::from_le_bytes)
        };
        if number(0)? != MAGIC {
            return None;
        }
        let kind = [Kind::Value, Kind::Removed];
        let said = number(1)?;
        let kind = kind.into_iter().find(|kind| *kind as u32 == said)?;
        let [key, value, value_check, check] = [number(2)?, number(3)?, number(4)?, number(5)?];
        Some(Self { kind, key, value, value_check, check })
    }

    pub(super) fn key_bytes(&self) -> usize {
        self.key as usize
    }

    /// The whole record.
    pub(super) fn record_bytes(&self) -> u64 {
        Self::BYTES as u64 + u64::from(self.key) + u64::from(self.value)
    }

    /// Whether the head is that of a record with this key.
    pub(super) fn is_of(&self, key: &[u8]) -> bool {
        key.len() == self.key_bytes() && check_of_head(&self.numbers(), key) == self.check
    }

    /// Whether the value is what was written.
    pub(super) fn has(&self, value: &[u8]) -> bool {
        value.len() == self.value as usize && crc32fast::hash(value) == self.value_check
    }

    fn numbers(&self) -> [u32; 5] {
        [MAGIC, self.kind as u32, self.key, self.value, self.value_check]
    }
}

/// The head and the key of a record of this kind.
pub(super) fn head(kind: Kind, key: &[u8], value: &[Bytes]) -> Vec<u8> {
    let mut check = crc32fast::Hasher::new();
    value.iter().for_each(|part| check.update(part));
    let length = value.iter().map(Bytes::len).sum::<usize>();
    let numbers = [MAGIC, kind as u32, key.len() as u32, length as u32, check.finalize()];
    let mut bytes: Vec<u8> = numbers.iter().flat_map(|number| number.to_le_bytes()).collect();
    bytes.extend(check_of_head(&numbers, key).to_le_bytes());
    bytes.extend(key);
    bytes
}

/// What a record takes.
pub(super) fn bytes(key: &[u8], value: &[Bytes]) -> u64 {
    (Head::BYTES + key.len() + value.iter().map(Bytes::len).sum::<usize>()) as u64
}

fn check_of_head(numbers: &[u32; 5], key: &[u8]) -> u32 {
    let mut check = crc32fast::Hasher::new();
    numbers.iter().for_each(|number| check.update(&number.to_le_bytes()));
    check.update(key);
    check.finalize()
}

/// `LLC1`: the first edition of the format.
const MAGIC: u32 = u32::from_le_bytes(*b"LLC1");

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_record_is_read_as_it_was_written_and_not_where_a_bit_differs() {
        let parts = [Bytes::from_static(b"one "), Bytes::from_static(b"value")];
        let written = head(Kind::Value, b"key", &parts);
        let read = Head::read(&written).unwrap();
        assert!(read.is_of(b"key") && read.has(b"one value") && !read.is_of(b"kez"));
        assert_eq!(read.record_bytes(), bytes(b"key", &parts));
        for bit in 0..written.len() * 8 {
            let mut wrong = written.clone();
            wrong[bit / 8] ^= 1 << (bit % 8);
            let read = Head::read(&wrong);
            let key = &wrong[Head::BYTES..];
            assert!(read.is_none_or(|head| !head.is_of(key)), "bit {bit}");
        }
        assert!(!read.has(b"one valuf") && !read.has(b"one valu"));
    }
}
