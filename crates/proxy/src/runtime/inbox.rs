//! Where inputs wait for the thread of the controller: a queue that is bounded by the number of
//! servers ([`Inputs`]), so that no flood of failures makes it grow.

use std::sync::{Mutex, MutexGuard, PoisonError};

use loadline_core::decide::controller::{Input, Inputs};
use tokio::sync::Notify;

/// Inputs from any thread for the one that hears them.
#[derive(Debug, Default)]
pub(crate) struct Inbox {
    inputs: Mutex<Inputs>,
    came: Notify,
}

impl Inbox {
    /// Hands an input over. Never waits for the one that hears it.
    pub(crate) fn send(&self, input: Input) {
        self.inputs().push(input);
        self.came.notify_one();
    }

    /// Waits for the next input. None is lost where the future is dropped.
    pub(crate) async fn recv(&self) -> Input {
        loop {
            let next = self.inputs().pop();
            match next {
                Some(input) => return input,
                None => self.came.notified().await,
            }
        }
    }

    fn inputs(&self) -> MutexGuard<'_, Inputs> {
        // Nobody panics while holding it.
        self.inputs.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use std::thread;

    use loadline_core::decide::{
        ledger::{Ledger, ServerId},
        reason::Reason,
    };

    use super::*;

    fn failing(server: ServerId, errors_in_a_row: u32) -> Input {
        Input::Failing { server, errors_in_a_row, reason: Reason::ConnectionRefused }
    }

    /// Numbers of servers that exist.
    fn servers(count: u16) -> Vec<ServerId> {
        let mut ledger = Ledger::default();
        let address = |port| ([127, 0, 0, 1], port).into();
        (1..=count).map(|port| ledger.server("web", "here", address(port)).id()).collect()
    }

    #[test]
    fn a_dead_server_fills_one_place_while_nobody_hears() {
        let inbox = Inbox::default();
        let server = servers(1)[0];
        (1..=10_000).for_each(|errors| inbox.send(failing(server, errors)));
        assert_eq!(inbox.inputs().len(), 1);
        let last = inbox.inputs().pop();
        assert!(matches!(last, Some(Input::Failing { errors_in_a_row: 10_000, .. })), "{last:?}");
    }

    #[tokio::test]
    async fn of_what_many_threads_send_the_last_of_each_server_is_heard() {
        const LAST: u32 = 1_000;
        let inbox = Inbox::default();
        let servers = servers(8);
        let (mut heard, mut last) = (0, 0);
        thread::scope(|threads| {
            for server in servers.clone() {
                let inbox = &inbox;
                threads.spawn(move || (1..=LAST).for_each(|n| inbox.send(failing(server, n))));
            }
        });
        assert_eq!(inbox.inputs().len(), servers.len());
        while last < servers.len() {
            let Input::Failing { errors_in_a_row, .. } = inbox.recv().await else { continue };
            heard += 1;
            last += usize::from(errors_in_a_row == LAST);
        }
        assert_eq!(heard, servers.len());
    }
}
