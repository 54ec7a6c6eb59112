//! The standby's half: takes facts in, and says what it has missed.

use std::{collections::BTreeSet, mem};

use loadline_core::time::{Duration, Instant};

use super::{
    Fact, Facts, Key, SILENCE,
    codec::{Malformed, Reader, Record, read},
    datagram::{Datagram, Stream},
};

/// Follows one active balancer at a time, the one that became active last.
#[derive(Debug)]
pub struct Receiver {
    facts: Facts,
    /// The next number to join with.
    nonce: u64,
    followed: Option<Followed>,
    joining: Option<Joining>,
    /// Known from before this stream, and not heard again in it.
    unconfirmed: BTreeSet<Key>,
    changes: Vec<Change>,
    counts: Received,
}

/// What has changed in the facts.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Change {
    /// Everything was forgotten: numbers have another meaning from now on.
    Reset,
    /// A fact, and what was known under its key before.
    Fact(Key, Option<Fact>),
}

/// What was received, in all.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Received {
    /// Records.
    pub records: u64,
    /// Datagrams with records.
    pub datagrams: u64,
    /// Datagrams that came late, twice or not at all.
    pub lost: u64,
    /// How often everything was told.
    pub joins: u64,
}

#[derive(Debug)]
struct Followed {
    peer: usize,
    epoch: u64,
    stream: Stream,
    heard: Instant,
    newest: u64,
    /// As in `Datagram::Ack`.
    taken: u64,
    is_whole: bool,
    /// Something is to be answered.
    owes: bool,
    answered: Instant,
}

#[derive(Clone, Copy, Debug)]
struct Joining {
    peer: usize,
    epoch: u64,
    stream: Stream,
    owes: bool,
}

impl Receiver {
    /// A receiver that knows nothing. `draw` is any number that was never drawn before.
    #[must_use]
    pub fn new(draw: u64) -> Self {
        Self {
            facts: Facts::new(),
            nonce: draw,
            followed: None,
            joining: None,
            unconfirmed: BTreeSet::new(),
            changes: Vec::new(),
            counts: Received::default(),
        }
    }

    /// Takes a datagram of a peer in, whose seal was right.
    ///
    /// # Errors
    /// A record is none of ours. What was read before it has been taken.
    pub fn handle(
        &mut self,
        now: Instant,
        peer: usize,
        datagram: &Datagram<'_>,
    ) -> Result<(), Malformed> {
        match *datagram {
            Datagram::Call { epoch, token } => self.called(now, peer, epoch, token),
            Datagram::Data { stream, number, is_whole, records } => {
                self.begin(now, stream);
                return self.take(now, stream, number, is_whole, records);
            }
            Datagram::Join { .. } | Datagram::Ack { .. } => {}
        }
        Ok(())
    }

    /// The next datagram and to which peer, if there is one now.
    pub fn poll(&mut self, now: Instant) -> Option<(usize, Vec<u8>)> {
        if let Some(joining) = self.joining.as_mut().filter(|joining| joining.owes) {
            joining.owes = false;
            let Stream { token, nonce } = joining.stream;
            return Some((joining.peer, Datagram::Join { token, nonce }.write()));
        }
        let followed = self.followed.as_mut()?;
        if !followed.owes || now.since(followed.answered) < PACE {
            return None;
        }
        followed.owes = false;
        followed.answered = now;
        let Followed { stream, newest, taken, .. } = *followed;
        Some((followed.peer, Datagram::Ack { stream, newest, taken }.write()))
    }

    /// What is known.
    #[must_use]
    pub const fn facts(&self) -> &Facts {
        &self.facts
    }

    /// What has changed since this was asked, in order.
    pub fn changes(&mut self) -> Vec<Change> {
        mem::take(&mut self.changes)
    }

    /// What was received, in all.
    #[must_use]
    pub const fn received(&self) -> Received {
        self.counts
    }

    /// Whether somebody is followed, and everything has been heard.
    #[must_use]
    pub fn is_whole(&self, now: Instant) -> bool {
        self.followed.as_ref().is_some_and(|followed| followed.is_whole && !followed.is_silent(now))
    }

    /// The peer that is followed, and for how long nothing was heard of it.
    #[must_use]
    pub fn followed(&self, now: Instant) -> Option<(usize, Duration)> {
        self.followed.as_ref().map(|followed| (followed.peer, now.since(followed.heard)))
    }

    fn called(&mut self, now: Instant, peer: usize, epoch: u64, token: u64) {
        if let Some(followed) = &self.followed {
            let is_old = epoch < followed.epoch && !followed.is_silent(now);
            if is_old || token == followed.stream.token {
                return;
            }
        }
        match &mut self.joining {
            Some(joining) if joining.stream.token == token && joining.epoch == epoch => {
                joining.owes = true;
            }
            _ => {
                self.nonce = self.nonce.wrapping_add(1);
                let stream = Stream { token, nonce: self.nonce };
                self.joining = Some(Joining { peer, epoch, stream, owes: true });
            }
        }
    }

    /// The stream that was asked for has begun.
    fn begin(&mut self, now: Instant, stream: Stream) {
        let Some(joining) = self.joining.take_if(|joining| joining.stream == stream) else {
            return;
        };
        let is_same = self.followed.as_ref().is_some_and(|before| before.epoch == joining.epoch);
        if !is_same {
            self.facts.clear();
            self.changes.clear();
            self.changes.push(Change::Reset);
        }
        self.unconfirmed = self.facts.keys().copied().collect();
        self.counts.joins += 1;
        let Joining { peer, epoch, stream, .. } = joining;
        self.followed = Some(Followed {
            peer,
            epoch,
            stream,
            heard: now,
            newest: 0,
            taken: 0,
            is_whole: false,
            owes: true,
            answered: Instant::ZERO,
        });
    }

    fn take(
        &mut self,
        now: Instant,
        stream: Stream,
        number: u64,
        is_whole: bool,
        records: &[u8],
    ) -> Result<(), Malformed> {
        let Some(followed) = self.followed.as_mut().filter(|one| one.stream == stream) else {
            return Ok(());
        };
        if !followed.advance(now, number, !records.is_empty(), &mut self.counts) {
            return Ok(());
        }
        let became_whole = is_whole && !followed.is_whole;
        followed.is_whole |= is_whole;
        let mut from = Reader(records);
        while !from.0.is_empty() {
            let (key, record) = read(&mut from)?;
            self.counts.records += 1;
            self.apply(key, record);
        }
        if became_whole {
            for key in mem::take(&mut self.unconfirmed) {
                self.apply(key, Record::Remove);
            }
        }
        Ok(())
    }

    fn apply(&mut self, key: Key, record: Record) {
        self.unconfirmed.remove(&key);
        let before = match record {
            Record::Put(fact) => self.facts.insert(key, fact),
            Record::Remove => self.facts.remove(&key),
            Record::Close => match self.facts.get_mut(&key) {
                Some(Fact::Nat(nat)) => {
                    let before = Fact::Nat(*nat);
                    nat.is_closed = true;
                    Some(before)
                }
                // What it is of was lost, and comes again with this.
                _ => return,
            },
        };
        if self.facts.get(&key) != before.as_ref() {
            self.changes.push(Change::Fact(key, before));
        }
    }
}

impl Followed {
    const fn is_silent(&self, now: Instant) -> bool {
        now.since(self.heard).as_nanos() > SILENCE.as_nanos()
    }

    /// Whether a datagram of this number is to be taken. One without records says up to where all
    /// that has not come is given up.
    fn advance(
        &mut self,
        now: Instant,
        number: u64,
        has_records: bool,
        counts: &mut Received,
    ) -> bool {
        self.heard = now;
        self.owes = true;
        if number < self.newest || (has_records && number == self.newest) {
            // Counted as missed when a newer one came.
            return false;
        }
        let ahead = number - self.newest;
        self.newest = number;
        self.taken = self.taken.checked_shl(u32::try_from(ahead).unwrap_or(u32::MAX)).unwrap_or(0);
        counts.lost += ahead;
        if has_records {
            counts.lost -= 1;
            counts.datagrams += 1;
            self.taken |= 1;
        }
        true
    }
}

/// How often answers are given at most.
const PACE: Duration = Duration::from_millis(10);
