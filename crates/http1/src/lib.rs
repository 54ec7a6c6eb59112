//! HTTP/1 message syntax without I/O: heads, framing, strictness.
#![forbid(unsafe_code)]
