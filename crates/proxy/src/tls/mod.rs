//! TLS: connections, and the configurations they are made with.

mod config;
mod keys;
mod names;
mod stream;
mod unverified;
mod verified;

pub use config::TlsError;
pub(crate) use keys::Dialing;
pub use keys::Keys;
pub(crate) use stream::Tls;
