//! The signals that end a command in order: SIGINT, as of Ctrl-C, and SIGTERM, as of `timeout` and
//! of service managers. A measurement then prints what there is so far.

use std::io;

use loadline_linux::signals;
use tokio::signal::unix::{Signal, SignalKind, signal};

/// Waits for them. What comes while nobody waits is not lost.
pub(super) struct StopSignal {
    interrupt: Signal,
    terminate: Signal,
}

impl StopSignal {
    /// Heeds them from now on. Called within a runtime.
    ///
    /// # Errors
    /// The system does not let them be caught.
    pub(super) fn new() -> io::Result<Self> {
        let [interrupt, terminate] = [SignalKind::interrupt(), SignalKind::terminate()];
        signals::hold(&[interrupt.as_raw_value(), terminate.as_raw_value()], || {
            Ok(Self { interrupt: signal(interrupt)?, terminate: signal(terminate)? })
        })
    }

    /// Ends when one of them has come.
    pub(super) async fn received(&mut self) {
        tokio::select! {
            _ = self.interrupt.recv() => {}
            _ = self.terminate.recv() => {}
        }
    }
}
