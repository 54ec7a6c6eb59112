//! What may stand to the right of an equals sign: one type for each kind of value.
//!
//! Each type reads the file, says what would have been right, and describes itself in the JSON
//! Schema, so that range, message and schema are stated in one place.

pub(crate) mod acme;
pub(crate) mod address;
pub(crate) mod advisor;
pub(crate) mod collector;
pub(crate) mod either;
pub(crate) mod endpoint;
pub(crate) mod etcd;
pub(crate) mod label;
pub(crate) mod link;
pub(crate) mod number;
pub(crate) mod one_or_more;
pub(crate) mod pattern;
pub(crate) mod quantity;
pub(crate) mod secret;
pub(crate) mod store;
pub(crate) mod token;
pub(crate) mod word;
