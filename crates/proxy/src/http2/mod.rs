//! HTTP/2 (RFC 9113): a second syntax for the same exchange.
//!
//! Each stream of a client is shown to the proxy as a [`Socket`](crate::io::socket::Socket) that
//! speaks HTTP/1, and a session of one request responds. So every rule about requests holds for
//! both versions without being written twice, and what HTTP/2 could smuggle past its own rules
//! meets the strict HTTP/1 parser. Towards servers it is the other way round: an exchange writes
//! HTTP/1 to a socket that is a stream of a connection that many share. Frames, windows and header
//! compression are ours towards clients, and h2's towards servers.
//!
//! | towards clients | |
//! |---|---|
//! | `connection`, `streams` | one connection: streams in, idle time, abuse, GOAWAY |
//! | `protocol`, `hpack` | its frames, windows and states, without I/O; header compression |
//! | `stream`, `response_body` | one stream of it as a socket |
//! | `request_head`, `field_syntax` | the head of a request from its fields |
//!
//! | towards servers | |
//! |---|---|
//! | `links`, `link` | the connections to servers: opened, shared, retired |
//! | `call` | one stream of them as a socket |
//! | `outgoing` | the body of its request, with its windows |
//! | `backlog` | what has come for streams, taken out of h2 where that is many frames |
//! | `wire`, `inbound` | a socket as h2 wants it, and the frames that h2 is to see |
//!
//! | both | |
//! |---|---|
//! | `incoming` | the body that a stream brings |
//! | `level` | how often a peer may do what is harmless now and then |
//! | `head`, `websocket` | heads in the other syntax, both ways |

mod backlog;
mod call;
mod connection;
mod field_syntax;
mod head;
mod hpack;
mod inbound;
mod incoming;
mod level;
mod link;
mod links;
mod outgoing;
mod protocol;
mod request_head;
mod response_body;
mod stream;
mod streams;
mod websocket;
mod wire;

pub(crate) use call::{Call, StreamFailure};
pub(crate) use connection::serve;
pub(crate) use head::{ANY, answer, fields, final_answer, list_size, trailer_text, write_request};
pub(crate) use hpack::huffman;
pub(crate) use incoming::{Incoming, Receive};
pub(crate) use link::{Link, Target, UNTOLD, unopened};
pub(crate) use links::Links;
pub(crate) use protocol::SEND_BYTES;
pub(crate) use stream::Stream;
pub(crate) use streams::{Place, Streams};
pub(crate) use websocket::{has_key, has_length, opens_websocket, write_upgrade};
