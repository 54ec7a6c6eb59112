//! Fields to blocks.

use super::{
    TABLE_BYTES,
    dynamic_table::Table,
    huffman, integer,
    lookup::Lookup,
    policy::{LONGEST_VALUE, Policy, policy},
    representation::{
        HUFFMAN, INDEXED, INDEXED_MASK, INSERTED, INSERTED_MASK, LEFT, LEFT_MASK, LENGTH_MASK,
        NEVER, SIZE, SIZE_MASK,
    },
    static_table::{self, FIELDS, FIRST_DYNAMIC},
    words::{hash, is_same, lower},
};

/// Encodes the header blocks of one connection.
#[derive(Debug)]
pub(crate) struct Encoder {
    table: Table,
    lookup: Lookup,
    /// The table's size as the peer knows it.
    told: u32,
    /// The smallest that it has been since it was told.
    smallest: u32,
}

impl Encoder {
    /// An encoder whose table takes 4,096 bytes, the default. It allocates nothing.
    pub(crate) const fn new() -> Self {
        Self {
            table: Table::new(),
            lookup: Lookup::new(),
            told: TABLE_BYTES,
            smallest: TABLE_BYTES,
        }
    }

    /// The peer's SETTINGS_HEADER_TABLE_SIZE has changed; of a large table 4,096 bytes are used.
    pub(crate) fn set_table_size(&mut self, bytes: u32) {
        let bytes = bytes.min(TABLE_BYTES);
        self.table.resize(bytes);
        self.smallest = self.smallest.min(bytes);
    }

    /// Begins a block: to be called once before its first field. Tells what has become of the
    /// table's size, the smallest between too (RFC 7541, 4.2).
    #[inline]
    pub(crate) fn begin(&mut self, out: &mut Vec<u8>) {
        if self.smallest != self.told || self.table.limit() != self.told {
            self.tell_size(out);
        }
    }

    fn tell_size(&mut self, out: &mut Vec<u8>) {
        let limit = self.table.limit();
        for size in [self.smallest.min(self.told), limit] {
            if size != self.told {
                integer::write(out, SIZE, SIZE_MASK, size as usize);
                self.told = size;
            }
        }
        self.smallest = limit;
    }

    /// Appends `:status` with three digits.
    #[inline]
    pub(crate) fn status(&mut self, out: &mut Vec<u8>, status: u16) {
        out.push(match status {
            200 => 0x88,
            204 => 0x89,
            206 => 0x8a,
            304 => 0x8b,
            400 => 0x8c,
            404 => 0x8d,
            500 => 0x8e,
            _ => return self.other_status(out, status),
        });
    }

    fn other_status(&mut self, out: &mut Vec<u8>, status: u16) {
        let digit = |divisor: u16| b'0' + (status / divisor % 10) as u8;
        self.field(out, b":status", &[digit(100), digit(10), digit(1)]);
    }

    /// Appends a field, its name in lower case.
    pub(crate) fn field(&mut self, out: &mut Vec<u8>, name: &[u8], value: &[u8]) {
        if name.len() > LONGEST_NAME {
            return literal_long_name(out, name, value);
        }
        let name_hash = hash(0, name, lower);
        let is_short = value.len() <= LONGEST_VALUE;
        let field_hash = if is_short { hash(name_hash, value, |word| word) } else { 0 };
        let is_it = |its_name: &[u8], its_value: &[u8]| {
            is_same(name, its_name, lower) && is_same(value, its_value, |word| word)
        };
        match self.lookup.find(&self.table, field_hash, is_it) {
            Some(newer) => write_indexed(out, FIRST_DYNAMIC + newer),
            None => self.new_field(out, name, value, [name_hash, field_hash]),
        }
    }

    /// Appends a field that the dynamic table has not.
    fn new_field(&mut self, out: &mut Vec<u8>, name: &[u8], value: &[u8], hashes: [u64; 2]) {
        let mut lowered = [0; LONGEST_NAME];
        let name = to_lower(name, &mut lowered);
        let [name_hash, field_hash] = hashes;
        let known = static_table::index(name).map(u32::from);
        if let Some(index) = known
            && FIELDS.get(index as usize - 1).is_some_and(|(_, known)| *known == value)
        {
            return write_indexed(out, index);
        }
        let has_name = |other: &[u8], _: &[u8]| other == name;
        let learnt = || self.lookup.find(&self.table, name_hash, has_name);
        let index = known.or_else(|| Some(FIRST_DYNAMIC + learnt()?)).unwrap_or(0);
        let policy = policy(name, value, self.table.limit());
        let (high, mask) = match policy {
            Policy::Insert => (INSERTED, INSERTED_MASK),
            Policy::Leave => (LEFT, LEFT_MASK),
            Policy::Never => (NEVER, LEFT_MASK),
        };
        integer::write(out, high, mask, index as usize);
        if index == 0 {
            write_text(out, name);
        }
        write_text(out, value);
        if policy == Policy::Insert {
            self.table.insert(name, value);
            self.lookup.note(&self.table, field_hash);
            if known.is_none() {
                self.lookup.note(&self.table, name_hash);
            }
        }
    }
}

/// Appends a field whose name is too long to be looked for.
#[cold]
fn literal_long_name(out: &mut Vec<u8>, name: &[u8], value: &[u8]) {
    out.push(LEFT);
    integer::write(out, 0, LENGTH_MASK, name.len());
    out.extend(name.iter().map(u8::to_ascii_lowercase));
    write_text(out, value);
}

#[inline]
fn write_indexed(out: &mut Vec<u8>, index: u32) {
    integer::write(out, INDEXED, INDEXED_MASK, index as usize);
}

/// Appends a text, in Huffman's code where that is shorter.
fn write_text(out: &mut Vec<u8>, text: &[u8]) {
    let bytes = huffman::encoded_bytes(text);
    if bytes < text.len() {
        integer::write(out, HUFFMAN, LENGTH_MASK, bytes);
        huffman::encode(text, out);
    } else {
        integer::write(out, 0, LENGTH_MASK, text.len());
        out.extend_from_slice(text);
    }
}

/// The name in lower case, of which there is no more than that long.
fn to_lower<'a>(name: &[u8], out: &'a mut [u8; LONGEST_NAME]) -> &'a [u8] {
    for (byte, out) in name.iter().zip(&mut *out) {
        *out = byte.to_ascii_lowercase();
    }
    out.get(..name.len()).unwrap_or_default()
}

/// Longer names are no names of fields that come again.
const LONGEST_NAME: usize = 64;
