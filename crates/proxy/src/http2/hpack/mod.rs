//! HPACK (RFC 7541): the fields of heads of HTTP/2 in few bytes.
//!
//! A block of bytes is a list of fields. Each is an index into a table or a literal, and a literal
//! may enter the table, so that both sides must read and write all blocks of a connection in their
//! order. The table is a static one of 61 entries with a dynamic one behind it, newest first.
//!
//! | | |
//! |---|---|
//! | `decoder` | blocks -> fields |
//! | `encoder`, `policy` | fields -> blocks, and which of them enter the table |
//! | `static_table`, `dynamic_table` | what indices mean |
//! | `lookup`, `words` | where the dynamic table of an encoder has a field |
//! | `representation`, `integer`, `huffman` | how fields begin, and the two codes in them |

mod decoder;
mod dynamic_table;
mod encoder;
pub(crate) mod huffman;
mod integer;
mod lookup;
mod policy;
mod representation;
mod static_table;
#[cfg(test)]
mod tests;
mod words;

pub(crate) use decoder::{Decoder, Undecodable};
pub(crate) use encoder::Encoder;

/// SETTINGS_HEADER_TABLE_SIZE until it is said otherwise (RFC 9113, 6.5.2), which we never do: the
/// most that a table of ours takes, each entry counted with 32 bytes beside its text.
const TABLE_BYTES: u32 = 4096;
