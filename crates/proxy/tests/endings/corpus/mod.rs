//! Messages that two parsers could read differently, through the proxy and into another parser.
//!
//! `requests.txt` and `responses.txt` hold the messages, each with its source. Behind the proxy
//! stands hyper as server, before it hyper as client. What they read must be what our own codec
//! reads at the other side of the proxy, message for message and byte for byte, or the message is
//! refused. `cached` is the same with a cache in the proxy.

mod cached;
mod cases;
mod reading;
mod requests;
mod responses;
