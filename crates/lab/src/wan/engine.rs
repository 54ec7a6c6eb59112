//! The router's thread: what is due is written, then what has come is read, for ever.
//!
//! The thread sleeps in `epoll_pwait2`, whose time-out is in nanoseconds, until something has come
//! or is almost due, and polls for the rest (`busy_poll`). Both halves of a turn are bounded, so
//! that neither makes the other wait long.

use std::{
    io,
    mem::MaybeUninit,
    num::NonZeroU64,
    os::fd::OwnedFd,
    sync::{Arc, mpsc::Receiver},
};

use loadline_core::time::{Duration, Instant};
use loadline_linux::clock;
use loadline_measure::statistics::Times;
use rustix::{
    event::{
        Timespec,
        epoll::{self, CreateFlags, Event, EventData, EventFlags},
    },
    io::Errno,
};

use super::{
    busy_poll::BusyPoll,
    counters::{Counters, LATENESS_DIGITS, Lateness},
    forward::Forwarder,
    port::Port,
    router::Command,
};
use crate::topology::Topology;

/// The router as its thread has it.
pub(super) struct Engine {
    ports: Vec<Port>,
    forwarder: Forwarder,
    inbox: Receiver<Command>,
    bell: Arc<OwnedFd>,
    epoll: OwnedFd,
    busy_poll: BusyPoll,
    /// Where each frame is read to.
    frame: Vec<u8>,
    late: Times,
    longest_turn: Duration,
    refused: u64,
    /// The thread's processor time when the counters began.
    worked: Duration,
}

impl Engine {
    /// A router between `ports`, which has nothing under way.
    ///
    /// # Errors
    /// The system's, where no descriptor is left.
    pub(super) fn new(
        topology: &Topology,
        ports: Vec<Port>,
        inbox: Receiver<Command>,
        bell: Arc<OwnedFd>,
    ) -> io::Result<Self> {
        let epoll = epoll::create(CreateFlags::CLOEXEC)?;
        epoll::add(&epoll, &*bell, EventData::new_u64(BELL), EventFlags::IN)?;
        for (host, port) in ports.iter().enumerate() {
            epoll::add(&epoll, port, EventData::new_u64(host as u64), EventFlags::IN)?;
        }
        Ok(Self {
            ports,
            forwarder: Forwarder::new(topology),
            inbox,
            bell,
            epoll,
            busy_poll: BusyPoll::new(clock::now()),
            frame: vec![0; LONGEST_FRAME],
            late: Times::new(LATENESS_DIGITS),
            longest_turn: Duration::ZERO,
            refused: 0,
            worked: Duration::ZERO,
        })
    }

    /// Carries packets until told to stop; then the last counters.
    pub(super) fn run(mut self) -> Counters {
        // Without real-time scheduling a timer may end 50 us late otherwise, so that several can
        // be served at once. Where that is refused, lateness shows it.
        let _ = rustix::thread::set_current_timer_slack(NonZeroU64::new(1));
        let mut events = [const { MaybeUninit::uninit() }; EVENTS];
        let mut turn_began = clock::now();
        loop {
            let now = self.deliver();
            self.longest_turn = self.longest_turn.max(now.since(turn_began));
            let timeout = self.busy_poll.begin(now, self.forwarder.next_due());
            let came = self.wait(timeout, &mut events);
            turn_began = clock::now();
            self.busy_poll.end(turn_began, !came.is_empty());
            for event in came {
                match event.data.u64() {
                    BELL if self.obey() => return self.counters(),
                    BELL => {}
                    host => self.receive(host as usize),
                }
            }
        }
    }

    /// Writes what is due, and tells the time after that.
    fn deliver(&mut self) -> Instant {
        let mut now = clock::now();
        for _ in 0..MOST_WRITES {
            let Some(delivery) = self.forwarder.take(now) else { break };
            self.late.record(now.since(delivery.due));
            if self.ports[delivery.to].send(&delivery.frame).is_err() {
                self.refused += 1;
            }
            self.forwarder.give(delivery.frame);
            now = clock::now();
        }
        now
    }

    /// Sleeps until something has come, for so long at most; gives what has come.
    fn wait<'a>(&self, most: Option<Duration>, events: &'a mut Events) -> &'a mut [Event] {
        let timeout = most.and_then(|most| Timespec::try_from(most.to_std()).ok());
        match epoll::wait(&self.epoll, &mut events[..], timeout.as_ref()) {
            Ok((came, _)) => came,
            // A signal; the turn goes on as after a time-out.
            Err(_) => &mut [],
        }
    }

    /// Reads what `host` has sent.
    fn receive(&mut self, host: usize) {
        let port = &self.ports[host];
        for _ in 0..MOST_READS {
            match port.receive(&mut self.frame) {
                Ok(length) => {
                    let frame = &self.frame[..length];
                    self.forwarder.offer(clock::now(), host, frame, port.link_length());
                }
                Err(Errno::AGAIN | Errno::INTR | Errno::NETDOWN) => return,
                Err(_) => {
                    // The interface is gone for good; its descriptor would wake the thread for
                    // ever. It is in the list, so that taking it off cannot fail.
                    let _ = epoll::delete(&self.epoll, port);
                    return;
                }
            }
        }
    }

    /// Carries out commands; true if one is to stop.
    fn obey(&mut self) -> bool {
        let mut rung = [0; 8];
        // It was rung, or there is nothing to read: both are well.
        let _ = rustix::io::read(&*self.bell, &mut rung);
        while let Ok(command) = self.inbox.try_recv() {
            match command {
                Command::Change(link) => self.forwarder.change(clock::now(), link),
                Command::Compensate(one_way) => self.forwarder.compensate(one_way),
                // The asker may have given up.
                Command::Report(answer) => drop(answer.send(self.counters())),
                Command::Reset => self.reset(),
                Command::Stop => return true,
            }
        }
        false
    }

    fn counters(&self) -> Counters {
        Counters {
            links: self.forwarder.counters(),
            unroutable: self.forwarder.unroutable,
            malformed: self.forwarder.malformed,
            refused: self.refused,
            lateness: Lateness::of(&self.late),
            longest_turn: self.longest_turn,
            processor_time: clock::thread_time().saturating_sub(self.worked),
        }
    }

    fn reset(&mut self) {
        self.forwarder.reset_counters();
        self.late.reset();
        self.longest_turn = Duration::ZERO;
        self.refused = 0;
        self.worked = clock::thread_time();
    }
}

type Events = [MaybeUninit<Event>; EVENTS];

/// Of the bell, unlike any host's number.
const BELL: u64 = u64::MAX;

const EVENTS: usize = 64;

/// Packets read from one port in a turn: some 0.1 ms of work.
const MOST_READS: usize = 64;

/// Packets written in a turn: some 0.3 ms of work.
const MOST_WRITES: usize = 256;

/// 64 KiB and all headers.
const LONGEST_FRAME: usize = 66 << 10;
