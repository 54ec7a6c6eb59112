//! HTTP/1 messages: syntax, framing, what is built and what is sent on, one rule a test.

mod body_rules;
mod building;
mod forwarding;
mod properties;
mod request_rules;
mod response_rules;
