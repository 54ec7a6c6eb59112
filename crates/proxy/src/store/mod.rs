//! Responses out of a store of objects, which knows no HTTP server that would make them.
//!
//! A store is one more server of its group: the exchange, its retries and its records know no
//! difference. Files are read behind a socket that takes a request and gives the response
//! ([`FileReply`]), so that whatever becomes of a server's response becomes of theirs.
//!
//! | | |
//! |---|---|
//! | `asked` | the head of a request as a store reads it |
//! | `files` | files of this machine |
//! | `bucket`, `remote` | requests for objects of a bucket, and who signs them |
//! | `error_pages` | the pages of a bucket for objects that are not there |
//! | `credentials`, `sources`, `client` | who loadline is for a store, kept up to date |

mod asked;
mod bucket;
mod client;
mod credentials;
mod error_pages;
mod files;
mod remote;
mod sources;

pub(crate) use asked::first_byte;
pub(crate) use bucket::{hide_rest, is_object, leaves_out_conditions, make_not_modified};
pub(crate) use error_pages::ErrorPage;
pub(crate) use files::FileReply;
pub(crate) use remote::{Remote, Remotes, Signed};
