//! TLS: connections, and the configurations they are made with.

mod client;
mod config;
mod expiry;
mod issued;
mod keys;
mod names;
mod ocsp;
mod self_signed;
mod sessions;
mod stream;
mod validity;

pub(crate) use client::ClientTls;
pub use config::TlsError;
pub(crate) use issued::VALIDATION_PROTOCOL;
pub(crate) use keys::Dialing;
pub use keys::Keys;
pub use ocsp::StapleFault;
pub(crate) use stream::Tls;
