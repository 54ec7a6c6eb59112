//! HTTP/1 message syntax without I/O: heads, framing, strictness.
//!
//! The crate reads and writes bytes that somebody else moves. Nothing here allocates for a
//! request: heads are offsets into the caller's buffer, kept in a table that is used again.
//!
//! | to | use |
//! |---|---|
//! | read a request or a response | [`RequestHead`], [`ResponseHead`] with [`HeadLimits`] |
//! | look at its fields | [`Fields`], [`Field`], [`Known`], [`Span`], [`Underscores`] |
//! | find the end of its body | [`Framing`], [`BodyReader`], [`Trailers`] |
//! | pass a head on | [`write_request`] with [`ClientLines`], [`write_response`] |
//! | answer oneself | [`LocalReply`], [`CONTINUE`] |
//! | make a message | [`MessageBuilder`], [`write_chunk`], [`LAST_CHUNK`] |
//! | read a sloppy health answer | [`lenient_status`] |
//! | know why a message was refused, and what it asked | [`ParseError`], [`RequestLine`] |
//!
//! ```
//! use loadline_http1::{BodyReader, Framing, RequestHead, Status};
//!
//! let bytes = b"POST /a HTTP/1.1\r\nHost: x\r\nContent-Length: 2\r\n\r\nhi";
//! let mut head = RequestHead::default();
//! let Ok(Status::Complete(length)) = head.parse(bytes) else { panic!() };
//! assert_eq!(head.path(bytes), b"/a");
//! assert_eq!(head.framing(), Framing::Length(2));
//! let mut body = BodyReader::new(head.framing());
//! assert!(body.feed(&bytes[length..]).unwrap().finished);
//! ```
#![forbid(unsafe_code)]

mod authentication;
mod body;
mod build;
mod chunk_extension;
mod chunked;
mod client_lines;
mod connection;
mod error;
mod fields;
mod forward;
mod forward_request;
mod forward_response;
mod framing;
mod head;
mod health_line;
mod local_reply;
mod method;
mod request;
mod request_line;
mod response;
mod scan;
mod target;
mod trailers;

pub use body::{BodyReader, Progress};
pub use build::{BuildError, LAST_CHUNK, MessageBuilder, write_chunk};
pub use client_lines::{ClientLines, ForwardRules};
pub use error::ParseError;
pub use fields::{Field, Fields, Known, Span, Underscores};
pub use forward_request::{RequestOptions, write_request};
pub use forward_response::{Forwarded, ResponseOptions, write_response};
pub use framing::Framing;
pub use head::{HeadLimits, Status, Version};
pub use health_line::lenient_status;
pub use local_reply::{CONTINUE, LocalReply, reason};
pub use method::Method;
pub use request::RequestHead;
pub use request_line::RequestLine;
pub use response::ResponseHead;
pub use target::TargetForm;
pub use trailers::Trailers;
