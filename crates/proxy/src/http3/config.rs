//! What connections are made with, from what a listener says.

use std::{sync::Arc, time::Duration};

use loadline_core::fleet::Http2Limits;
use quinn::{IdleTimeout, TransportConfig, VarInt, crypto::rustls::QuicServerConfig};

use crate::runtime::view::ListenerContext;

/// The configuration of new connections, made anew when the listener says something else.
#[derive(Default)]
pub(super) struct Config {
    made: Option<(Arc<rustls::ServerConfig>, Http2Limits, Arc<quinn::ServerConfig>)>,
}

impl Config {
    /// That for a listener; none if it has no TLS that QUIC can use.
    pub(super) fn of(&mut self, listener: &ListenerContext) -> Option<Arc<quinn::ServerConfig>> {
        let tls = listener.tls.as_ref()?;
        if let Some((of, limits, made)) = &self.made
            && Arc::ptr_eq(of, tls)
            && *limits == listener.http2
        {
            return Some(made.clone());
        }
        let made = Arc::new(config(tls, listener.http2)?);
        self.made = Some((tls.clone(), listener.http2, made.clone()));
        Some(made)
    }
}

fn config(tls: &rustls::ServerConfig, limits: Http2Limits) -> Option<quinn::ServerConfig> {
    let mut tls = tls.clone();
    tls.alpn_protocols = vec![b"h3".to_vec()];
    // Nothing is answered that somebody else may have recorded and sent again.
    tls.max_early_data_size = 0;
    let crypto = QuicServerConfig::try_from(Arc::new(tls));
    let crypto = crypto
        .inspect_err(
            |error| tracing::warn!(%error, "no HTTP/3: QUIC needs TLS13_AES_128_GCM_SHA256"),
        )
        .ok()?;
    let mut config = quinn::ServerConfig::with_crypto(Arc::new(crypto));
    config.transport_config(Arc::new(transport(limits)));
    Some(config)
}

fn transport(limits: Http2Limits) -> TransportConfig {
    let size = |bytes: u64| VarInt::from_u64(bytes).unwrap_or(VarInt::MAX);
    let mut transport = TransportConfig::default();
    transport
        .max_concurrent_bidi_streams(limits.streams.into())
        .max_concurrent_uni_streams(UNI_STREAMS.into())
        .stream_receive_window(size(limits.window.get()))
        .receive_window(size(limits.connection_window.get()))
        .send_window(SEND_BYTES)
        .datagram_receive_buffer_size(None)
        .max_idle_timeout(Some(IdleTimeout::from(VarInt::from_u32(SILENCE_MS))))
        .keep_alive_interval(Some(PING));
    transport
}

/// Control, two of header compression, and as many of kinds that are unknown.
const UNI_STREAMS: u32 = 6;

/// What a connection holds of responses until the client has acknowledged it: 100 Mbit/s at 330 ms.
const SEND_BYTES: u64 = 4 << 20;

/// A client of which nothing has been heard for so long is gone.
const SILENCE_MS: u32 = 30_000;

/// Asks it in time whether it is there, while a server thinks.
const PING: Duration = Duration::from_secs(12);
