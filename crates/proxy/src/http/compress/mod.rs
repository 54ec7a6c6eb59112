//! Compression of responses on their way to clients: what [`loadline_core::compress`] decides is
//! done here.
//!
//! | | |
//! |---|---|
//! | `head` | what changes in the heads of requests and responses |
//! | `encoder` | gzip, brotli and zstd behind one call |
//! | `encoders` | encoders that a worker keeps for the next response, and how hard they may try |
//! | `body` | a body from the server, through an encoder, to the client |

pub(crate) mod body;
pub(crate) mod encoder;
pub(crate) mod encoders;
pub(crate) mod head;
