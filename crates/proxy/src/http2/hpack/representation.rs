//! How the forms of a field begin (RFC 7541, 6): some bits, then an integer that the rest of the
//! first byte begins, whose bits are under the mask.

/// A field that is in a table, name and value.
pub(super) const INDEXED: u8 = 0x80;
pub(super) const INDEXED_MASK: u8 = 0x7f;

/// A literal that enters the table.
pub(super) const INSERTED: u8 = 0x40;
pub(super) const INSERTED_MASK: u8 = 0x3f;

/// A change of the table's size.
pub(super) const SIZE: u8 = 0x20;
pub(super) const SIZE_MASK: u8 = 0x1f;

/// A literal that enters no table, here or at any other hop.
pub(super) const NEVER: u8 = 0x10;

/// A literal that does not enter the table.
pub(super) const LEFT: u8 = 0x00;
/// Of both.
pub(super) const LEFT_MASK: u8 = 0x0f;

/// Not of a field but of a text in it: whether it is in Huffman's code. Its length follows.
pub(super) const HUFFMAN: u8 = 0x80;
pub(super) const LENGTH_MASK: u8 = 0x7f;
