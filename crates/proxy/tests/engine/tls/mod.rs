//! TLS towards clients and towards servers, over loopback, with rustls as the other side.

mod clients;
mod handed_on;
mod hsts;
mod servers;
mod stops;
mod support;
