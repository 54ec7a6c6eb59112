//! The queue of inputs for the controller's thread, bounded by the number of servers ([`Inputs`]),
//! so that no flood of failures makes it grow.

use std::sync::{Mutex, MutexGuard, PoisonError};

use loadline_core::decide::controller::{Input, Inputs, KnownServer};
use tokio::sync::{Notify, oneshot};

/// Inputs from any thread for the one that hears them.
#[derive(Debug, Default)]
pub(crate) struct Inbox {
    waiting: Mutex<Waiting>,
    came: Notify,
}

#[derive(Debug, Default)]
struct Waiting {
    inputs: Inputs,
    /// Senders to notify once the earlier inputs are in force: after so many more inputs.
    settling: Vec<(usize, oneshot::Sender<()>)>,
    /// Who asks what is known of servers.
    askers: Vec<oneshot::Sender<Vec<KnownServer>>>,
}

impl Inbox {
    /// Hands an input over. Never waits for the one that hears it.
    pub(crate) fn send(&self, input: Input) {
        self.waiting().inputs.push(input);
        self.came.notify_one();
    }

    /// Waits until everything that was sent before is in force.
    pub(crate) async fn settled(&self) {
        let (told, settled) = oneshot::channel();
        {
            let mut waiting = self.waiting();
            let before = waiting.inputs.len();
            waiting.settling.push((before, told));
        }
        self.came.notify_one();
        // Where nobody hears inputs any more, nothing comes into force either.
        let _ = settled.await;
    }

    /// Asks the one that hears inputs what it knows of servers.
    pub(crate) async fn ask(&self) -> Vec<KnownServer> {
        let (asker, told) = oneshot::channel();
        self.waiting().askers.push(asker);
        self.send(Input::Tick);
        told.await.unwrap_or_default()
    }

    /// Tells whoever has asked.
    pub(crate) fn tell(&self, known: impl Fn() -> Vec<KnownServer>) {
        let askers = std::mem::take(&mut self.waiting().askers);
        // Some do not wait any more.
        askers.into_iter().for_each(|asker| {
            let _ = asker.send(known());
        });
    }

    /// Waits for the next input; whoever asks has put in force what it had before. None is lost
    /// where the future is dropped.
    pub(crate) async fn recv(&self) -> Input {
        loop {
            let next = self.waiting().next();
            match next {
                Some(input) => return input,
                None => self.came.notified().await,
            }
        }
    }

    /// The next input that is there, which is put in force together with the one before.
    pub(crate) fn more(&self) -> Option<Input> {
        self.waiting().pop()
    }

    fn waiting(&self) -> MutexGuard<'_, Waiting> {
        // Nobody panics while holding it.
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Waiting {
    fn next(&mut self) -> Option<Input> {
        let settled = self.settling.extract_if(.., |(before, _)| *before == 0);
        // Some do not wait any more.
        settled.for_each(|(_, told)| {
            let _ = told.send(());
        });
        self.pop()
    }

    fn pop(&mut self) -> Option<Input> {
        let input = self.inputs.pop()?;
        // Of some all is taken already, and comes into force together with this one.
        self.settling.iter_mut().for_each(|(before, _)| *before = before.saturating_sub(1));
        Some(input)
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
        assert_eq!(inbox.waiting().inputs.len(), 1);
        let last = inbox.waiting().inputs.pop();
        assert!(matches!(last, Some(Input::Failing { errors_in_a_row: 10_000, .. })), "{last:?}");
    }

    #[tokio::test]
    async fn what_was_sent_is_settled_when_the_next_is_asked_for_and_no_sooner() {
        let inbox = Inbox::default();
        servers(2).into_iter().for_each(|server| inbox.send(failing(server, 1)));
        let settled = inbox.settled();
        tokio::pin!(settled);
        for _ in 0..2 {
            assert!(is_pending(&mut settled).await);
            inbox.recv().await;
        }
        inbox.send(failing(servers(1)[0], 2));
        assert!(is_pending(&mut settled).await, "the second is not in force yet");
        inbox.recv().await;
        settled.await;
    }

    #[tokio::test]
    async fn what_is_put_in_force_together_is_settled_when_the_next_is_asked_for() {
        let inbox = Inbox::default();
        servers(3).into_iter().for_each(|server| inbox.send(failing(server, 1)));
        let settled = inbox.settled();
        tokio::pin!(settled);
        inbox.recv().await;
        assert!(inbox.more().is_some() && inbox.more().is_some() && inbox.more().is_none());
        assert!(is_pending(&mut settled).await);
        inbox.send(failing(servers(1)[0], 2));
        inbox.recv().await;
        settled.await;
    }

    #[tokio::test]
    async fn what_comes_while_an_earlier_input_is_put_in_force_settles_with_it() {
        let inbox = Inbox::default();
        let [first, second, last] = servers(3)[..] else { unreachable!() };
        inbox.send(failing(first, 1));
        let settled = inbox.settled();
        tokio::pin!(settled);
        assert!(is_pending(&mut settled).await);
        inbox.recv().await;
        inbox.send(failing(second, 1));
        assert!(inbox.more().is_some() && is_pending(&mut settled).await);
        inbox.send(failing(last, 1));
        inbox.recv().await;
        settled.await;
    }

    #[tokio::test]
    async fn whoever_asks_what_is_known_of_servers_wakes_the_one_that_knows_and_is_told() {
        let inbox = Inbox::default();
        let asked = inbox.ask();
        tokio::pin!(asked);
        let told = tokio::time::timeout(std::time::Duration::ZERO, &mut asked).await;
        assert!(told.is_err(), "nobody has told it yet");
        assert!(matches!(inbox.recv().await, Input::Tick));
        inbox.tell(Vec::new);
        assert!(asked.await.is_empty());
    }

    /// Whether it waits still.
    async fn is_pending(future: &mut (impl Future<Output = ()> + Unpin)) -> bool {
        tokio::time::timeout(std::time::Duration::ZERO, future).await.is_err()
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
        assert_eq!(inbox.waiting().inputs.len(), servers.len());
        while last < servers.len() {
            let Input::Failing { errors_in_a_row, .. } = inbox.recv().await else { continue };
            heard += 1;
            last += usize::from(errors_in_a_row == LAST);
        }
        assert_eq!(heard, servers.len());
    }
}
