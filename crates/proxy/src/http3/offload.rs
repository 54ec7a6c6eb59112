//! Segmentation offload (GSO) of a socket, which a send that fails does not end for good.
//!
//! quinn-udp takes EINVAL and EIO for a network card without it: from then on each packet is sent
//! by itself, without its ECN codepoint, for three times the CPU time. But an address that cannot
//! be sent to or from, as one that is removed for a moment, gives the same error. So the state of
//! the socket is made anew after a pause, which grows while that does not help.

use std::{
    io,
    net::UdpSocket,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use loadline_core::time::{Duration, Instant};
use quinn::{
    AsyncUdpSocket,
    udp::{Transmit, UdpSocketState},
};

/// Sends by one socket.
#[derive(Debug)]
pub(super) struct Offload {
    /// The socket with its first state, as the runtime knows it.
    first: Arc<dyn AsyncUdpSocket>,
    socket: Arc<UdpSocket>,
    /// None where the kernel has no offload.
    later: Option<Mutex<Later>>,
}

/// The states after the first.
#[derive(Debug, Default)]
struct Later {
    state: Option<UdpSocketState>,
    /// When it was made.
    made: Instant,
    /// When it is made anew, once it has lost its offload.
    next: Option<Instant>,
    pause: Duration,
}

impl Offload {
    /// `first` is of the same socket.
    pub(super) fn new(first: Arc<dyn AsyncUdpSocket>, socket: Arc<UdpSocket>) -> Self {
        let later = (first.max_transmit_segments() > 1).then(Mutex::default);
        Self { first, socket, later }
    }

    /// As [`AsyncUdpSocket::try_send`].
    pub(super) fn try_send(&self, transmit: &Transmit<'_>) -> io::Result<()> {
        let later = self.later();
        let state = later.as_ref().and_then(|later| later.state.as_ref());
        match state.map(|state| state.send((&*self.socket).into(), transmit)) {
            Some(Ok(())) => Ok(()),
            // There is no room. The runtime has to see that itself to say when there is.
            Some(Err(_)) | None => self.first.try_send(transmit),
        }
    }

    /// How many packets can be sent at a time. The time is asked for where it matters.
    pub(super) fn max_segments(&self, now: impl FnOnce() -> Instant) -> usize {
        match self.later() {
            Some(mut later) => later.max_segments(&self.socket, now),
            None => self.first.max_transmit_segments(),
        }
    }

    /// The states after the first, once that has lost its offload.
    fn later(&self) -> Option<MutexGuard<'_, Later>> {
        let later = self.later.as_ref().filter(|_| self.first.max_transmit_segments() == 1)?;
        Some(later.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

impl Later {
    fn max_segments(&mut self, socket: &UdpSocket, now: impl FnOnce() -> Instant) -> usize {
        let segments = self.segments();
        if segments > 1 {
            return segments;
        }
        let now = now();
        match self.next {
            Some(next) if now < next => {}
            Some(_) => {
                self.state = UdpSocketState::new(socket.into()).ok();
                (self.made, self.next) = (now, None);
            }
            None => {
                self.pause = match now.since(self.made) < STEADY {
                    true => (self.pause * 2).clamp(LEAST, MOST),
                    false => LEAST,
                };
                self.next = Some(now + self.pause);
            }
        }
        self.segments()
    }

    fn segments(&self) -> usize {
        self.state.as_ref().map_or(1, UdpSocketState::max_gso_segments)
    }
}

/// The shortest pause.
const LEAST: Duration = Duration::from_secs(1);

/// The longest: where a network card has no offload, packets are lost once in so long.
const MOST: Duration = Duration::from_secs(60);

/// A state that has worked for so long was right: the next one waits for the shortest pause.
const STEADY: Duration = Duration::from_secs(60);

#[cfg(test)]
mod tests {
    use std::{future::poll_fn, net::Ipv4Addr};

    use quinn::{Runtime as _, TokioRuntime};

    use super::*;

    /// After so many milliseconds.
    fn at(ms: u64) -> Instant {
        Instant::ZERO + Duration::from_millis(ms)
    }

    #[tokio::test]
    async fn a_packet_that_cannot_be_sent_switches_offload_off_for_a_moment_and_not_for_good() {
        let socket = Arc::new(UdpSocket::bind((Ipv4Addr::LOCALHOST, 0)).unwrap());
        let first = TokioRuntime.wrap_udp_socket(socket.try_clone().unwrap()).unwrap();
        let mut poller = first.clone().create_io_poller();
        poll_fn(|cx| poller.as_mut().poll_writable(cx)).await.unwrap();
        // 1 where the kernel has none.
        let all = first.max_transmit_segments();
        let offload = Offload::new(first, socket.clone());
        let send = |port| {
            let transmit = Transmit {
                destination: (Ipv4Addr::LOCALHOST, port).into(),
                ecn: None,
                contents: b"packet",
                segment_size: None,
                src_ip: None,
            };
            offload.try_send(&transmit).unwrap();
        };
        let max = |ms| offload.max_segments(|| at(ms));
        assert_eq!(max(10_000), all);
        send(0);
        assert_eq!([10_000, 10_999, 11_000, 11_001].map(max), [1, 1, all, all]);
        send(0);
        assert_eq!([12_000, 13_999, 14_000].map(max), [1, 1, all], "a longer pause");
        send(socket.local_addr().unwrap().port());
        let mut room = [0; 10];
        assert_eq!(socket.recv(&mut room).unwrap(), 6);
        assert_eq!(max(80_000), all);
        send(0);
        assert_eq!([80_000, 80_999, 81_000].map(max), [1, 1, all], "it has worked for long");
    }
}
