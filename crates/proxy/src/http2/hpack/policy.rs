//! Which fields of responses enter the table.
//!
//! A field that differs with each response costs time and the places of others there, and one that
//! is a secret could be guessed by who sees the lengths of blocks (RFC 7541, 7.1). What is left out
//! is what nghttp2 leaves (`hd_deflate_decide_indexing` in its `lib/nghttp2_hd.c`: age,
//! content-length, etag, location, set-cookie, what takes over three quarters of the table; never
//! authorization and short cookies) and h2 (`skip_value_index` in its `src/hpack/header.rs`: the
//! same), and more that is another in each response. HAProxy's encoder refers to the static table
//! alone.

use super::dynamic_table;

/// How a field is written that no table has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Policy {
    /// It enters the table.
    Insert,
    /// It does not.
    Leave,
    /// It does not, nor may it at any other hop.
    Never,
}

/// For a name in lower case; `limit` is the table's size.
pub(super) const fn policy(name: &[u8], value: &[u8], limit: u32) -> Policy {
    match name {
        b"authorization" | b"cookie" | b"proxy-authorization" | b"set-cookie" => Policy::Never,
        b"age" | b"content-length" | b"content-range" | b"etag" | b"last-modified"
        | b"location" | b"server-timing" | b"traceparent" | b"x-request-id" => Policy::Leave,
        _ if value.len() > LONGEST_VALUE => Policy::Leave,
        _ if dynamic_table::size(name, value) > limit as usize / 4 * 3 => Policy::Leave,
        _ => Policy::Insert,
    }
}

/// Longer values would be an eighth of the table and more.
pub(super) const LONGEST_VALUE: usize = 512;
