//! The signals that `loadline serve` heeds.

use anyhow::Context as _;
use loadline_linux::signals::hold;
use tokio::signal::unix::{Signal, SignalKind, signal};

/// What the process is told by signals.
#[derive(Debug)]
pub(super) struct Signals {
    terminate: Signal,
    interrupt: Signal,
    hangup: Signal,
    first_user: Signal,
    second_user: Signal,
}

/// What a signal tells.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum SignalAction {
    /// SIGTERM or SIGINT.
    End,
    /// SIGHUP.
    Reload,
    /// SIGUSR1.
    ReopenLog,
    /// SIGUSR2.
    Upgrade,
}

impl Signals {
    /// Heeds them from now on. Must be called inside a runtime.
    pub(super) fn listen() -> anyhow::Result<Self> {
        let kinds = [
            SignalKind::terminate(),
            SignalKind::interrupt(),
            SignalKind::hangup(),
            SignalKind::user_defined1(),
            SignalKind::user_defined2(),
        ];
        let numbers = kinds.map(|kind| kind.as_raw_value());
        let listen = |kind| signal(kind).context("signals cannot be received");
        let [terminate, interrupt, hangup, first_user, second_user] = kinds;
        hold(&numbers, || {
            Ok(Self {
                terminate: listen(terminate)?,
                interrupt: listen(interrupt)?,
                hangup: listen(hangup)?,
                first_user: listen(first_user)?,
                second_user: listen(second_user)?,
            })
        })
    }

    /// Waits for the next one.
    pub(super) async fn next(&mut self) -> SignalAction {
        tokio::select! {
            _ = self.terminate.recv() => SignalAction::End,
            _ = self.interrupt.recv() => SignalAction::End,
            _ = self.hangup.recv() => SignalAction::Reload,
            _ = self.first_user.recv() => SignalAction::ReopenLog,
            _ = self.second_user.recv() => SignalAction::Upgrade,
        }
    }

    /// Waits for one that ends the process.
    pub(super) async fn until_end(&mut self) {
        while self.next().await != SignalAction::End {}
    }
}
