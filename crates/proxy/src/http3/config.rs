//! What connections are made with, from what a listener says.

use std::{sync::Arc, time::Duration};

use loadline_core::fleet::{Http2Limits, QuicCongestion};
use quinn::{
    IdleTimeout, TransportConfig, VarInt,
    congestion::{BbrConfig, CubicConfig},
    crypto::{HandshakeTokenKey, rustls::QuicServerConfig},
};
use rustls::{CipherSuite, server::ProducesTickets};

use crate::runtime::view::ListenerContext;

/// The configuration of new connections, made anew when the listener says something else.
pub(super) struct Config {
    /// What address tokens are made with: those that a process gave are good with the next.
    tokens: Arc<dyn HandshakeTokenKey>,
    made: Option<(Arc<rustls::ServerConfig>, Transport, Arc<quinn::ServerConfig>)>,
}

/// What a listener says of the transport.
type Transport = (Http2Limits, QuicCongestion);

impl Config {
    pub(super) const fn new(tokens: Arc<dyn HandshakeTokenKey>) -> Self {
        Self { tokens, made: None }
    }

    /// The configuration of a listener; none without a TLS suite that QUIC can use.
    pub(super) fn of(&mut self, listener: &ListenerContext) -> Option<Arc<quinn::ServerConfig>> {
        let tls = listener.tls.as_ref()?;
        let transport = (listener.http2, listener.quic_congestion);
        if let Some((of, before, made)) = &self.made
            && Arc::ptr_eq(of, tls)
            && *before == transport
        {
            return Some(made.clone());
        }
        let made = Arc::new(config(tls, listener, self.tokens.clone())?);
        self.made = Some((tls.clone(), transport, made.clone()));
        Some(made)
    }
}

/// Whether TLS has the suite that the first packets of QUIC need (RFC 9001, 5.2).
pub(crate) fn has_suite(tls: &rustls::ServerConfig) -> bool {
    let suites = &tls.crypto_provider().cipher_suites;
    suites.iter().any(|suite| suite.suite() == CipherSuite::TLS13_AES_128_GCM_SHA256)
}

/// Has sessions kept on this side.
#[derive(Debug)]
struct NoTickets;

impl ProducesTickets for NoTickets {
    fn enabled(&self) -> bool {
        false
    }

    fn lifetime(&self) -> u32 {
        0
    }

    fn encrypt(&self, _: &[u8]) -> Option<Vec<u8>> {
        None
    }

    fn decrypt(&self, _: &[u8]) -> Option<Vec<u8>> {
        None
    }
}

fn config(
    tls: &rustls::ServerConfig,
    listener: &ListenerContext,
    tokens: Arc<dyn HandshakeTokenKey>,
) -> Option<quinn::ServerConfig> {
    let mut tls = tls.clone();
    tls.alpn_protocols = vec![b"h3".to_vec()];
    tls.max_early_data_size = 0;
    if listener.early_data {
        // The only size that QUIC knows; its windows bound it.
        tls.max_early_data_size = u32::MAX;
        tls.ticketer = Arc::new(NoTickets);
    }
    let crypto = QuicServerConfig::try_from(Arc::new(tls)).ok()?;
    let mut config = quinn::ServerConfig::new(Arc::new(crypto), tokens);
    config.transport_config(Arc::new(transport(listener)));
    Some(config)
}

fn transport(listener: &ListenerContext) -> TransportConfig {
    let limits = listener.http2;
    let size = |bytes: u64| VarInt::from_u64(bytes).unwrap_or(VarInt::MAX);
    let mut transport = TransportConfig::default();
    transport
        .max_concurrent_bidi_streams(limits.streams.into())
        .max_concurrent_uni_streams(UNI_STREAMS.into())
        .stream_receive_window(size(limits.window.get()))
        .receive_window(size(limits.connection_window.get()))
        .send_window(SEND_START)
        .datagram_receive_buffer_size(None)
        .max_idle_timeout(Some(IdleTimeout::from(VarInt::from_u32(SILENCE_MS))))
        .keep_alive_interval(Some(PING));
    match listener.quic_congestion {
        QuicCongestion::Bbr => {
            let mut bbr = BbrConfig::default();
            bbr.initial_window(INITIAL_WINDOW);
            transport.congestion_controller_factory(Arc::new(bbr));
        }
        QuicCongestion::Cubic => {
            transport.congestion_controller_factory(Arc::new(CubicConfig::default()));
        }
    }
    transport
}

/// What is sent before anything is acknowledged (RFC 9002, 7.2); quinn's own 240 kB would fill the
/// network of a slow client for seconds.
const INITIAL_WINDOW: u64 = 14_720;

/// Control, two of header compression, and as many of kinds that are unknown.
const UNI_STREAMS: u32 = 6;

/// What a connection holds of responses until the client has acknowledged it, at first.
pub(super) const SEND_START: u64 = 128 << 10;

/// The same for a client that has shown that it takes as much: 100 Mbit/s at 330 ms.
pub(crate) const SEND_BYTES: u64 = 4 << 20;

/// A client of which nothing has been heard for so long is gone.
const SILENCE_MS: u32 = 30_000;

/// Asks it in time whether it is there, while a server thinks.
const PING: Duration = Duration::from_secs(12);
