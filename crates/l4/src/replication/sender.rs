//! The active's half: what one standby may not know yet.
//!
//! ```text
//!            Join with our token                        walked through all facts
//!  calling ------------------------> telling (walking) ------------------------> telling (whole)
//!     ^                                  |                                          |
//!     '------- silence, or it joins again with another nonce: a new token ----------'
//! ```

use std::{
    collections::{BTreeMap, VecDeque},
    ops::Bound,
};

use loadline_core::time::{Duration, Instant};

use super::{
    Extent, Facts, Key, SILENCE,
    codec::write,
    datagram::{Datagram, PAYLOAD, Stream},
};

/// Tells one standby all facts, and what changes about them.
#[derive(Debug)]
pub struct Sender {
    epoch: u64,
    token: u64,
    /// When to call, or to ask after an answer.
    due: Instant,
    told: Option<StandbyStream>,
    counts: Sent,
}

/// What was sent to one standby, in all.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Sent {
    /// Records, those of a whole telling as well.
    pub records: u64,
    /// Datagrams with records.
    pub datagrams: u64,
    /// Datagrams that did not arrive; what they said was said again.
    pub lost: u64,
    /// How often everything was told.
    pub joins: u64,
}

/// A stream to a standby that has joined.
#[derive(Debug)]
struct StandbyStream {
    stream: Stream,
    heard: Instant,
    /// The number of the last datagram.
    number: u64,
    /// What has changed and was not sent since.
    dirty: BTreeMap<Key, Extent>,
    flying: VecDeque<Flight>,
    telling: Telling,
}

/// How much of everything has been told.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Telling {
    /// Everything up to this key, or nothing.
    Walking(Option<Key>),
    /// All, but some was lost and is to be sent again.
    Repeating,
    /// All, by datagrams up to this number, of which some may still be lost.
    Sent(u64),
    /// All of it has arrived.
    Whole,
}

/// A datagram of which nothing is known yet.
#[derive(Debug)]
struct Flight {
    number: u64,
    at: Instant,
    keys: Vec<(Key, Extent)>,
}

impl Sender {
    /// A sender that became active at `epoch`, by a clock that is roughly that of the others.
    /// `draw` is any number that was never drawn before.
    #[must_use]
    pub fn new(epoch: u64, draw: u64) -> Self {
        let counts = Sent::default();
        Self { epoch, token: draw, due: Instant::ZERO, told: None, counts }
    }

    /// A fact has changed, or is gone.
    pub fn changed(&mut self, key: Key, extent: Extent) {
        if let Some(told) = &mut self.told {
            told.mark(key, extent);
        }
    }

    /// Takes a datagram of the standby in, whose seal was right.
    pub fn handle(&mut self, now: Instant, datagram: &Datagram<'_>) {
        match datagram {
            Datagram::Join { token, nonce } if *token == self.token => self.join(now, *nonce),
            Datagram::Ack { stream, newest, taken } => {
                let Some(told) = self.told.as_mut().filter(|told| told.stream == *stream) else {
                    return;
                };
                if *newest <= told.number {
                    told.heard = now;
                    let was = told.telling;
                    self.counts.lost += told.acknowledge(*newest, *taken);
                    if was != told.telling {
                        // It is told at once when that was everything.
                        self.due = now;
                    }
                }
            }
            _ => {}
        }
    }

    /// The next datagram, if there is one now. To be asked until there is none, every 10 ms or so:
    /// what changes in between travels together.
    pub fn poll(&mut self, now: Instant, facts: &Facts) -> Option<Vec<u8>> {
        if self.told.as_ref().is_some_and(|told| now.since(told.heard) > SILENCE) {
            self.call_again(now);
        }
        let Some(told) = &mut self.told else {
            return self.call(now);
        };
        if let Some(datagram) = told.next(now, facts, &mut self.counts) {
            self.due = now + PROBE;
            return Some(datagram);
        }
        if now < self.due {
            return None;
        }
        self.due = now + if told.flying.is_empty() { BEAT } else { PROBE };
        Some(told.datagram(&[]))
    }

    /// What was sent, in all.
    #[must_use]
    pub const fn sent(&self) -> Sent {
        self.counts
    }

    /// Whether the standby has been told everything; it may lack the last changes.
    #[must_use]
    pub fn is_followed(&self) -> bool {
        self.told.as_ref().is_some_and(|told| told.telling == Telling::Whole)
    }

    /// Facts that it may not know as they are now; none where nobody follows.
    #[must_use]
    pub fn behind(&self) -> Option<usize> {
        let told = self.told.as_ref()?;
        Some(told.dirty.len() + told.flying.iter().map(|flight| flight.keys.len()).sum::<usize>())
    }

    /// How long the oldest datagram has been without an answer.
    #[must_use]
    pub fn lag(&self, now: Instant) -> Option<Duration> {
        let told = self.told.as_ref()?;
        Some(told.flying.front().map_or(Duration::ZERO, |flight| now.since(flight.at)))
    }

    fn join(&mut self, now: Instant, nonce: u64) {
        match &self.told {
            // The same once more.
            Some(told) if told.stream.nonce == nonce => {}
            // It has begun anew. That may also be an old one that somebody sends again: who is
            // there answers another call.
            Some(_) => self.call_again(now),
            None => {
                self.counts.joins += 1;
                self.due = now;
                self.told = Some(StandbyStream {
                    stream: Stream { token: self.token, nonce },
                    heard: now,
                    number: 0,
                    dirty: BTreeMap::new(),
                    flying: VecDeque::new(),
                    telling: Telling::Walking(None),
                });
            }
        }
    }

    fn call_again(&mut self, now: Instant) {
        self.token = self.token.wrapping_add(1);
        self.told = None;
        self.due = now;
    }

    fn call(&mut self, now: Instant) -> Option<Vec<u8>> {
        if now < self.due {
            return None;
        }
        self.due = now + CALL;
        Some(Datagram::Call { epoch: self.epoch, token: self.token }.write())
    }
}

impl StandbyStream {
    fn mark(&mut self, key: Key, extent: Extent) {
        let marked = self.dirty.entry(key).or_insert(extent);
        *marked = extent.max(*marked);
    }

    /// Takes an Ack; gives the number of datagrams that were lost.
    fn acknowledge(&mut self, newest: u64, taken: u64) -> u64 {
        let mut lost = 0;
        while let Some(flight) = self.flying.pop_front_if(|flight| flight.number <= newest) {
            let back = newest - flight.number;
            if back < u64::from(u64::BITS) && taken >> back & 1 == 1 {
                continue;
            }
            lost += 1;
            if let Telling::Sent(last) = self.telling
                && flight.number <= last
            {
                self.telling = Telling::Repeating;
            }
            flight.keys.into_iter().for_each(|(key, extent)| self.mark(key, extent));
        }
        let first = self.flying.front().map_or(u64::MAX, |flight| flight.number);
        if matches!(self.telling, Telling::Sent(last) if last < first) {
            self.telling = Telling::Whole;
        }
        lost
    }

    /// A datagram with what the standby does not know, if there is something and room.
    fn next(&mut self, now: Instant, facts: &Facts, counts: &mut Sent) -> Option<Vec<u8>> {
        let next = self.number + 1;
        if self.flying.front().is_some_and(|first| next - first.number >= WINDOW) {
            return None;
        }
        let (mut records, mut keys) = (Vec::new(), Vec::new());
        self.pack_changes(facts, &mut records, &mut keys);
        self.walk(facts, &mut records, &mut keys);
        if self.telling == Telling::Repeating && self.dirty.is_empty() {
            self.telling = Telling::Sent(self.number + u64::from(!keys.is_empty()));
        }
        if keys.is_empty() {
            return None;
        }
        counts.records += keys.len() as u64;
        counts.datagrams += 1;
        self.number += 1;
        self.flying.push_back(Flight { number: self.number, at: now, keys });
        Some(self.datagram(&records))
    }

    fn pack_changes(
        &mut self,
        facts: &Facts,
        records: &mut Vec<u8>,
        keys: &mut Vec<(Key, Extent)>,
    ) {
        while let Some((key, extent)) = self.dirty.pop_first() {
            if !pack(records, facts, key, extent) {
                self.dirty.insert(key, extent);
                return;
            }
            keys.push((key, extent));
        }
    }

    /// Goes on telling everything.
    fn walk(&mut self, facts: &Facts, records: &mut Vec<u8>, keys: &mut Vec<(Key, Extent)>) {
        let Telling::Walking(told) = self.telling else { return };
        let after = told.map_or(Bound::Unbounded, Bound::Excluded);
        for key in facts.range((after, Bound::Unbounded)).map(|(key, _)| *key) {
            if !pack(records, facts, key, Extent::Whole) {
                return;
            }
            keys.push((key, Extent::Whole));
            self.telling = Telling::Walking(Some(key));
        }
        self.telling = Telling::Repeating;
    }

    fn datagram(&self, records: &[u8]) -> Vec<u8> {
        let is_whole = self.telling == Telling::Whole;
        Datagram::Data { stream: self.stream, number: self.number, is_whole, records }.write()
    }
}

/// Whether the fact still went in.
fn pack(records: &mut Vec<u8>, facts: &Facts, key: Key, extent: Extent) -> bool {
    let start = records.len();
    write(records, &key, facts.get(&key), extent);
    if records.len() > PAYLOAD {
        records.truncate(start);
        return false;
    }
    true
}

/// Datagrams without an answer at most: as many as one answer speaks of.
const WINDOW: u64 = u64::BITS as u64;

/// How often a standby is called.
const CALL: Duration = Duration::from_millis(200);

/// How soon to ask after datagrams without an answer.
const PROBE: Duration = Duration::from_millis(50);

/// How often something is said when there is nothing to say.
const BEAT: Duration = Duration::from_millis(500);
