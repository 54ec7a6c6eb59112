//! HTTP/2 (RFC 9113): a second syntax for the same exchange.
//!
//! Frames, streams, windows and header compression are h2's. Each stream is shown to the proxy as a
//! [`Socket`](crate::io::socket::Socket) that speaks HTTP/1, and a session of one request responds.
//! So every rule about requests holds for both versions without being written twice, and what
//! HTTP/2 could smuggle past its own rules meets the strict HTTP/1 parser. Towards servers it is
//! the other way round: an exchange writes HTTP/1 to a socket that is a stream of a connection that
//! many share.
//!
//! | | |
//! |---|---|
//! | `connection`, `streams` | one client connection: streams in, idle time, abuse, GOAWAY |
//! | `stream` | one stream of it as a socket |
//! | `links`, `link` | the connections to servers: opened, shared, retired |
//! | `call` | one stream of them as a socket |
//! | `incoming`, `outgoing` | its two bodies, with their windows |
//! | `head`, `websocket` | heads in the other syntax, both ways |
//! | `backlog` | what has come for streams, taken out of h2 where that is many frames |
//! | `wire`, `inbound` | a socket as h2 wants it, and the frames that h2 is to see |
//! | `outbound` | what h2 tells clients alone |
//! | `offered` | what a client is told of the longest head |

mod backlog;
mod call;
mod connection;
mod head;
mod inbound;
mod incoming;
mod link;
mod links;
mod offered;
mod outbound;
mod outgoing;
mod stream;
mod streams;
mod websocket;
mod wire;

pub(crate) use call::{Call, StreamFailure};
pub(crate) use connection::{SEND_BYTES, serve};
pub(crate) use head::{ANY, answer, fields, final_answer, list_size, write_request};
pub(crate) use incoming::{Incoming, Receive};
pub(crate) use link::{Link, Target, UNTOLD, unopened};
pub(crate) use links::Links;
pub(crate) use stream::Stream;
pub(crate) use streams::{Place, Streams};
pub(crate) use websocket::{has_key, has_length, opens_websocket, write_upgrade};
