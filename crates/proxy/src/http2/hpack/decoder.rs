//! Blocks to fields.

use super::{
    TABLE_BYTES,
    dynamic_table::Table,
    huffman, integer,
    representation::{
        HUFFMAN, INDEXED, INDEXED_MASK, INSERTED, INSERTED_MASK, LEFT_MASK, LENGTH_MASK, SIZE,
        SIZE_MASK,
    },
    static_table::{FIELDS, FIRST_DYNAMIC},
};

/// Decodes the header blocks of one connection, in their order.
#[derive(Debug)]
pub(crate) struct Decoder {
    table: Table,
    scratch: Scratch,
}

/// Why a block cannot be decoded; neither can any that follows it (RFC 9113, 4.3:
/// COMPRESSION_ERROR).
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum Undecodable {
    #[error("a header block ends within a field")]
    Incomplete,
    #[error("an integer of a header block is too long")]
    Integer,
    #[error("an index of a header block is in no table")]
    Index,
    #[error("a text of a header block is not in Huffman's code")]
    Huffman,
    #[error("a header block lets the table grow beyond what the settings say")]
    TableSize,
    #[error("a header block changes the table's size between fields")]
    LateTableSize,
    #[error("the fields of a header block are longer than they may be")]
    TooLong,
}

impl Decoder {
    /// A decoder with nothing in its table, which the peer may fill with 4,096 bytes
    /// (SETTINGS_HEADER_TABLE_SIZE, whose default we keep). It allocates nothing.
    pub(crate) const fn new() -> Self {
        Self { table: Table::new(), scratch: Scratch::new() }
    }

    /// Decodes a whole block, its fragments joined; `field` gets name and value of each field in
    /// their order.
    ///
    /// One byte of a block may stand for a field of 4 KiB. What comes behind `most` bytes of
    /// fields, counted as in HTTP/2 (RFC 9113, 6.5.2), is not even looked at.
    #[inline]
    pub(crate) fn decode(
        &mut self,
        block: &[u8],
        most: usize,
        mut field: impl FnMut(&[u8], &[u8]),
    ) -> Result<(), Undecodable> {
        let mut left = most;
        let mut field = |name: &[u8], value: &[u8]| {
            let size = name.len() + value.len() + ENTRY_BYTES;
            left = left.checked_sub(size).ok_or(Undecodable::TooLong)?;
            field(name, value);
            Ok(())
        };
        let mut rest = self.update_size(block)?;
        while let Some((&first, after)) = rest.split_first() {
            rest = after;
            if first >= INDEXED {
                let index = integer::read(first, INDEXED_MASK, &mut rest)?;
                let (name, value) = self.get(index).ok_or(Undecodable::Index)?;
                field(name, value)?;
            } else {
                let literal = self.literal(first, &mut rest)?;
                let (name, value) = self.scratch.resolve(&literal);
                field(name, value)?;
                if literal.is_inserted {
                    self.table.insert(name, value);
                }
            }
        }
        self.scratch.shrink();
        Ok(())
    }

    /// How much memory is kept for texts between blocks.
    #[cfg(test)]
    pub(super) const fn kept(&self) -> usize {
        self.scratch.bytes.capacity()
    }

    /// Reads the changes of the table's size that a block begins with.
    fn update_size<'a>(&mut self, block: &'a [u8]) -> Result<&'a [u8], Undecodable> {
        let mut rest = block;
        while let [first @ SIZE..INSERTED, after @ ..] = rest {
            rest = after;
            let size = integer::read(*first, SIZE_MASK, &mut rest)?;
            if size > TABLE_BYTES {
                return Err(Undecodable::TableSize);
            }
            self.table.resize(size);
        }
        Ok(rest)
    }

    #[inline]
    fn get(&self, index: u32) -> Option<(&[u8], &[u8])> {
        if let Some(newer) = index.checked_sub(FIRST_DYNAMIC) {
            return self.table.get(newer);
        }
        FIELDS.get((index as usize).wrapping_sub(1)).copied()
    }

    /// Reads a field that is not in a table, though its name may be.
    fn literal<'a>(&mut self, first: u8, rest: &mut &'a [u8]) -> Result<Literal<'a>, Undecodable> {
        let (is_inserted, mask) = match first {
            INSERTED.. => (true, INSERTED_MASK),
            SIZE.. => return Err(Undecodable::LateTableSize),
            // Whether a field may ever be indexed is for those who compress it again.
            _ => (false, LEFT_MASK),
        };
        let index = integer::read(first, mask, rest)?;
        self.scratch.used = 0;
        let name = if index == 0 {
            self.scratch.read(rest)?
        } else if let Some(newer) = index.checked_sub(FIRST_DYNAMIC) {
            let (name, _) = self.table.get(newer).ok_or(Undecodable::Index)?;
            // The entry may have to go for the new one.
            self.scratch.copy(name)
        } else {
            let (name, _) = FIELDS.get(index as usize - 1).ok_or(Undecodable::Index)?;
            Text::There(name)
        };
        let value = self.scratch.read(rest)?;
        Ok(Literal { name, value, is_inserted })
    }
}

struct Literal<'a> {
    name: Text<'a>,
    value: Text<'a>,
    is_inserted: bool,
}

enum Text<'a> {
    /// Where it was found.
    There(&'a [u8]),
    /// In the scratch memory.
    Scratch { start: usize, end: usize },
}

/// Room for what a field has in Huffman's code.
#[derive(Debug)]
struct Scratch {
    bytes: Vec<u8>,
    used: usize,
}

impl Scratch {
    const fn new() -> Self {
        Self { bytes: Vec::new(), used: 0 }
    }

    /// Reads a text (RFC 7541, 5.2).
    #[inline]
    fn read<'a>(&mut self, rest: &mut &'a [u8]) -> Result<Text<'a>, Undecodable> {
        let (&first, after) = rest.split_first().ok_or(Undecodable::Incomplete)?;
        *rest = after;
        let length = integer::read(first, LENGTH_MASK, rest)? as usize;
        let (text, after) = rest.split_at_checked(length).ok_or(Undecodable::Incomplete)?;
        *rest = after;
        if first < HUFFMAN {
            return Ok(Text::There(text));
        }
        let start = self.used;
        self.used += huffman::decode(text, self.room(huffman::room(text.len())))?;
        Ok(Text::Scratch { start, end: self.used })
    }

    fn copy<'a>(&mut self, text: &[u8]) -> Text<'a> {
        let start = self.used;
        self.room(text.len()).copy_from_slice(text);
        self.used += text.len();
        Text::Scratch { start, end: self.used }
    }

    /// So many bytes after those that are used.
    #[inline]
    fn room(&mut self, bytes: usize) -> &mut [u8] {
        let end = self.used + bytes;
        if self.bytes.len() < end {
            self.bytes.resize(end, 0);
        }
        &mut self.bytes[self.used..end]
    }

    /// Name and value.
    #[inline]
    fn resolve<'a>(&'a self, literal: &Literal<'a>) -> (&'a [u8], &'a [u8]) {
        let text = |text: &Text<'a>| match *text {
            Text::There(text) => text,
            Text::Scratch { start, end } => self.bytes.get(start..end).unwrap_or_default(),
        };
        (text(&literal.name), text(&literal.value))
    }

    /// Gives back what few blocks need.
    fn shrink(&mut self) {
        if self.bytes.len() > KEPT_BYTES {
            self.bytes = Vec::new();
        }
    }
}

/// What a field counts beside its bytes.
const ENTRY_BYTES: usize = 32;

/// As much as a long cookie takes; a connection keeps it.
const KEPT_BYTES: usize = 4096;
