//! The cache in an exchange: it answers, has the request wait for a fetch, or lets it pass.

use std::{future::poll_fn, sync::Arc, task::Poll};

use loadline_core::{
    cache::{
        Decision, Fields, Forward, Found, Metadata, Outcome, Situation, Wishes, decide,
        is_server_error, may_join,
    },
    decide::{
        ending::{Ending, Fault},
        ledger::ServerId,
    },
    state::ServiceCounter,
};
use loadline_http1::Method;

use super::{
    Exchange, Next, Record,
    in_part::InPart,
    stored::{Given, Source},
};
use crate::{
    cache::{
        Begun, CacheResult, Disk, DiskBody, Failed, Fetch, Join, Kept, Key, Known, Load, Object,
        Opened, Place, Reader, Response, Start, Store, Via, Wanted, What, request_fields, unix_now,
        wants_another,
    },
    telemetry::{access_log::Times, tally::Cells},
};

/// What is to be done.
pub(super) enum Step {
    /// The stored response is sent.
    Give(Arc<Object>, Given, bool),
    /// It needs a fetch.
    Fetch(Need),
    /// The client wants nothing that is not stored.
    OnlyIfCached,
    /// It goes on without the cache; with the stored response to fall back on.
    Pass(Option<Arc<Object>>),
}

/// Where a response is on disk.
type OnDisk = (Arc<Disk>, Place);

/// A fetch that a request needs.
pub(super) struct Need {
    pub(super) key: Key,
    pub(super) why: Forward,
    pub(super) stored: Option<Arc<Object>>,
    /// What is stored has to be validated, rather than replaced.
    pub(super) validates: bool,
    /// What is stored is good enough where there is no capacity.
    pub(super) may_be_full: bool,
    /// Where the stored response is on disk.
    pub(super) place: Option<OnDisk>,
    /// What servers are asked for, if that is not the whole.
    pub(super) asked: Option<Box<Wanted>>,
}

/// How a wait ended.
enum Round {
    Over(Ending, Next),
    Again,
    Pass(Option<Arc<Object>>),
}

/// Somebody who waits for a fetch.
struct Waiting<'w> {
    wanted: &'w Wanted,
    need: &'w Need,
    reader: Reader,
    /// The fetch was begun for it.
    is_first: bool,
}

impl Exchange<'_> {
    /// Answers the request from the cache; none if it goes on without the cache.
    pub(super) async fn cached(&mut self, wanted: Box<Wanted>) -> Option<(Ending, Next)> {
        let store = self.worker.shared.store.clone();
        let mut uses_disk = true;
        for _ in 0..ROUNDS {
            match self.round(&store, &mut uses_disk, &wanted).await {
                Round::Over(ending, next) => return Some((ending, next)),
                Round::Pass(stored) => {
                    self.pass_cache(wanted, stored);
                    return None;
                }
                Round::Again => {}
            }
        }
        self.pass_cache(wanted, None);
        None
    }

    /// One attempt to answer it. What is on disk and cannot be used is not tried again.
    async fn round(&mut self, store: &Arc<Store>, uses_disk: &mut bool, wanted: &Wanted) -> Round {
        let need = match self.step(store, *uses_disk, wanted) {
            Step::Pass(stored) => return Round::Pass(stored),
            Step::OnlyIfCached => {
                return Round::Over(Ending::Cached, self.tell_status(504, None, false).await);
            }
            Step::Give(object, given, revalidates) => {
                if revalidates {
                    self.revalidate(store, wanted, &object);
                }
                return self
                    .over(wanted, &object.response, Source::Object(object.clone()), given)
                    .await;
            }
            Step::Fetch(need) => need,
        };
        if let Some((disk, place)) = &need.place
            && place.bytes() > store.longest()
        {
            // Too large for memory: each client has it read for itself.
            let opened = disk.open(place).await;
            let given = opened.and_then(|opened| self.given_body(wanted, opened));
            let Some((response, body, given)) = given else {
                *uses_disk = false;
                return Round::Again;
            };
            return self.over(wanted, &response, Source::Disk(body), given).await;
        }
        let has_come = || match self.step(store, *uses_disk, wanted) {
            Step::Fetch(again) => again.key != need.key || !is_same(&again, &need),
            _ => true,
        };
        let is_usable = |coming: &Metadata| self.may_join(wanted, coming);
        let (reader, is_first) = match store.join_if(&need.key, is_usable, has_come) {
            Join::Again => return Round::Again,
            Join::Other(reader) => (reader, false),
            Join::Begin(reader) => (reader, true),
        };
        let under = (need.key.clone(), reader.arrival().clone());
        if let (true, Some((disk, place))) = (is_first, &need.place) {
            let what = (wanted.url.clone(), place.clone());
            Load::new((store, disk.clone()), what, under).begin();
        } else if is_first {
            let wanted = need.asked.as_deref().unwrap_or(wanted);
            let stored = need.stored.clone().map(|object| (object, need.validates));
            let at = (store, self.worker.shared.clock);
            let fetch = Fetch::new(at, under, wanted, stored);
            fetch.begin(self.start(need.may_be_full), &self.request);
        }
        let is_first = is_first && need.place.is_none();
        let wanted = need.asked.as_deref().unwrap_or(wanted);
        self.wait(Waiting { wanted, need: &need, reader, is_first }, uses_disk).await
    }

    /// Whether it may wait for the rest of a response whose head has come.
    fn may_join(&self, wanted: &Wanted, coming: &Metadata) -> bool {
        let fields = request_fields(&self.request.text);
        let settings = &wanted.caching().settings;
        may_join(coming, &Wishes::of(Fields(&fields), settings), unix_now(), settings)
    }

    fn step(&self, store: &Store, uses_disk: bool, wanted: &Wanted) -> Step {
        let fields = request_fields(&self.request.text);
        let fields = Fields(&fields);
        let settings = &wanted.caching().settings;
        let wishes = Wishes::of(fields, settings);
        let found = store.find(&wanted.url, &wanted.variant, fields);
        let in_part = |is_passed| {
            let key = &found.key;
            let asked = InPart { wanted, fields, wishes: &wishes, key, is_passed };
            self.step_in_part(store, &asked)
        };
        let mut stored = match found.what {
            Some(What::Object(object)) => Some(object),
            Some(What::Unstorable(until)) if self.worker.shared.clock.now() < until => {
                return in_part(true).unwrap_or_else(|| Step::without(&wishes));
            }
            _ => None,
        };
        let mut place = None;
        if stored.is_none() && uses_disk {
            (place, stored) = on_disk(store, wanted, fields);
        }
        if place.is_some() {
            let (key, why) = (found.key, Forward::UriMiss);
            let (stored, validates, may_be_full, asked) = (None, false, false, None);
            return Step::Fetch(Need { key, why, stored, validates, may_be_full, place, asked });
        }
        if stored.is_none()
            && let Some(step) = in_part(false)
        {
            return step;
        }
        let now = unix_now();
        let known = match &stored {
            Some(object) => Found::Response(&object.metadata),
            None if found.has_others => Found::OtherVariants,
            None => Found::Nothing,
        };
        let decision = |situation| decide(known, &wishes, situation, now, settings);
        let give = |object: &Arc<Object>, revalidates| {
            if wants_another(&object.response, fields, object.metadata.received) {
                return Step::without(&wishes);
            }
            Step::Give(object.clone(), Given::hit(&object.metadata, now).to(fields), revalidates)
        };
        let (why, validates) = match (decision(Situation::Available), &stored) {
            (Decision::Fresh, Some(object)) => return give(object, false),
            (Decision::Stale { revalidate }, Some(object)) => return give(object, revalidate),
            (Decision::OnlyIfCached, _) => return Step::OnlyIfCached,
            (Decision::Fetch(why), _) => (why, false),
            (Decision::Validate(why), _) => (why, true),
            (Decision::Fresh | Decision::Stale { .. } | Decision::Fail, _) => {
                return Step::Pass(None);
            }
        };
        if wishes.directives.no_store
            || why == Forward::Bypass
            || self.request.method == Method::Head
            || wishes.authorized && store.passes_authorized(wanted, self.worker.shared.clock.now())
        {
            return Step::Pass(stored);
        }
        let may_be_full =
            matches!(decision(Situation::Full), Decision::Fresh | Decision::Stale { .. });
        let key = fetch_key(found.key, fields);
        let asked = None;
        Step::Fetch(Need { key, why, stored, validates, may_be_full, place, asked })
    }

    pub(super) fn start(&self, in_background: bool) -> Start<'_> {
        Start {
            worker: self.worker,
            listener: self.listener,
            view: self.driver.route.view(),
            in_background,
        }
    }

    /// Has what is stored validated while it is used, where nobody does so already.
    fn revalidate(&self, store: &Arc<Store>, wanted: &Wanted, object: &Arc<Object>) {
        let fields = request_fields(&self.request.text);
        let found = store.find(&wanted.url, &wanted.variant, Fields(&fields));
        if let Join::Begin(reader) = store.join(&found.key, || false) {
            let under = (found.key, reader.arrival().clone());
            let stored = Some((object.clone(), object.metadata.has_validator));
            let at = (store, self.worker.shared.clock);
            Fetch::new(at, under, wanted, stored).begin(self.start(true), &self.request);
        }
    }

    /// Waits for the response to a fetch, and gives it where it is the one for this request.
    async fn wait(&mut self, mut waiting: Waiting<'_>, uses_disk: &mut bool) -> Round {
        let begun = self.begun(&mut waiting.reader).await;
        if !waiting.is_first {
            self.has_waited();
        }
        let Some((begun, via)) = begun else {
            return Round::Over(Ending::ClientGone, Next::Close);
        };
        if waiting.is_first {
            // Where it goes on by itself, no server is to answer for the wait.
            self.request.received = self.worker.shared.clock.now();
            self.record.came_by(&via);
        }
        match begun {
            Begun::Interim(_) | Begun::Again => Round::Again,
            Begun::Failed(failed) => self.failed_fetch(&waiting, failed).await,
            Begun::Stored(object, withheld) => {
                if !self.is_for(&object.response, &object.metadata, &waiting) {
                    return Round::Again;
                }
                let withheld = withheld.filter(|_| waiting.is_first);
                let known = Some((object.metadata, true));
                let given = waiting.forwarded(known, Some(304)).with(withheld);
                self.over(waiting.wanted, &object.response, Source::Object(object.clone()), given)
                    .await
            }
            Begun::Refused(object) if waiting.is_first => {
                let given = waiting.forwarded(None, Some(304)).of_server(via.id);
                self.over(waiting.wanted, &object.response, Source::Object(object.clone()), given)
                    .await
            }
            Begun::Refused(_) => Round::Again,
            Begun::Response(response, metadata, withheld) => {
                self.came(waiting, (response, via.id), (metadata, withheld)).await
            }
            Begun::Disk(response, metadata, is_kept) => {
                let given = self.given_from_disk(waiting.wanted, &response, &metadata);
                if let Some(given) = given {
                    let source = Source::Arrival(waiting.reader);
                    return self.over(waiting.wanted, &response, source, given).await;
                }
                if !is_kept {
                    // What cannot be validated from memory is fetched anew.
                    *uses_disk = false;
                    return Round::Again;
                }
                self.whole(waiting.reader).await
            }
        }
    }

    /// Waits for the head of a response, and passes interim ones on; none if the client goes away.
    async fn begun(&mut self, reader: &mut Reader) -> Option<(Begun, Via)> {
        loop {
            let begun = poll_fn(|cx| match reader.poll_begun(cx) {
                // A client that has sent all it had may say so, and wants its response all the
                // same.
                Poll::Pending => self.client.socket.poll_reset(cx).map(|()| None),
                begun => begun.map(Some),
            });
            match begun.await? {
                (Begun::Interim(head), _) => self.pass_interim(&head).await.ok()?,
                begun => return Some(begun),
            }
        }
    }

    /// What is told of a response on disk that can be used at once; none where it cannot.
    fn given_from_disk(
        &self,
        wanted: &Wanted,
        response: &Response,
        metadata: &Metadata,
    ) -> Option<Given> {
        let fields = request_fields(&self.request.text);
        let fields = Fields(&fields);
        let (now, settings) = (unix_now(), &wanted.caching().settings);
        let found = Found::Response(metadata);
        let wishes = Wishes::of(fields, settings);
        let decision = decide(found, &wishes, Situation::Available, now, settings);
        let is_it = decision == Decision::Fresh
            && response.answers(&wanted.variant, fields)
            && !wants_another(response, fields, metadata.received);
        is_it.then(|| Given::hit_on_disk(metadata, now))
    }

    /// The body of it, where it can be used at once.
    fn given_body(
        &self,
        wanted: &Wanted,
        opened: Opened,
    ) -> Option<(Arc<Response>, DiskBody, Given)> {
        let given = self.given_from_disk(wanted, &opened.response, &opened.metadata)?;
        Some((opened.response, opened.body, given))
    }

    /// Waits until all of what is read from disk is in memory, to go on as if it had been there.
    async fn whole(&mut self, mut reader: Reader) -> Round {
        loop {
            let piece = poll_fn(|cx| match reader.poll_piece(cx) {
                Poll::Pending => self.client.socket.poll_closed(cx).map(|()| None),
                piece => piece.map(Some),
            });
            match piece.await {
                None => return Round::Over(Ending::ClientGone, Next::Close),
                Some(Ok(Some(piece))) => reader.advance(piece.len() as u64),
                Some(Ok(None) | Err(_)) => return Round::Again,
            }
        }
    }

    async fn came(
        &mut self,
        waiting: Waiting<'_>,
        (response, server): (Arc<Response>, Option<ServerId>),
        (known, withheld): (Option<Known>, Option<Arc<[u8]>>),
    ) -> Round {
        if is_server_error(response.status)
            && let Some((object, given)) = self.instead(&waiting, Situation::Failed)
        {
            return self
                .over(waiting.wanted, &object.response, Source::Object(object.clone()), given)
                .await;
        }
        let is_own = match &known {
            Some((metadata, _)) => self.is_for(&response, metadata, &waiting),
            None => waiting.is_first,
        };
        if !is_own {
            return Round::Again;
        }
        let withheld = withheld.filter(|_| waiting.is_first);
        let given = waiting.forwarded(known, None).with(withheld);
        // What others get as well is of no session.
        let given = given.of_server(server.filter(|_| known.is_none()));
        self.over(waiting.wanted, &response, Source::Arrival(waiting.reader), given).await
    }

    /// Whether a response that may be stored is the one for this request.
    fn is_for(&self, response: &Response, metadata: &Metadata, waiting: &Waiting<'_>) -> bool {
        let fields = request_fields(&self.request.text);
        let settings = &waiting.wanted.caching().settings;
        let is_allowed =
            waiting.is_first || metadata.for_authorized || !settings.is_authorized(Fields(&fields));
        waiting.is_first || is_allowed && response.answers(&waiting.wanted.variant, Fields(&fields))
    }

    async fn failed_fetch(&mut self, waiting: &Waiting<'_>, failed: Failed) -> Round {
        let is_full = failed.ending.fault() == Fault::Capacity;
        let situation = if is_full { Situation::Full } else { Situation::Failed };
        if let Some((object, given)) = self.instead(waiting, situation) {
            return self
                .over(waiting.wanted, &object.response, Source::Object(object.clone()), given)
                .await;
        }
        if is_full && waiting.need.may_be_full {
            // It was not let wait, since others had something to use instead.
            return Round::Pass(None);
        }
        let result = if waiting.is_first { CacheResult::Miss } else { CacheResult::Collapsed };
        (self.record.cache, self.record.reason) = (Some(result), failed.reason);
        let next = self.tell_failure(failed.ending).await;
        Round::Over(failed.ending, next)
    }

    /// What is stored and may be used in this situation.
    fn instead(&self, waiting: &Waiting<'_>, situation: Situation) -> Option<(Arc<Object>, Given)> {
        let object = waiting.need.stored.as_ref()?;
        let fields = request_fields(&self.request.text);
        let (now, settings) = (unix_now(), &waiting.wanted.caching().settings);
        let found = Found::Response(&object.metadata);
        match decide(found, &Wishes::of(Fields(&fields), settings), situation, now, settings) {
            Decision::Fresh | Decision::Stale { .. } => {
                Some((object.clone(), Given::hit(&object.metadata, now)))
            }
            _ => None,
        }
    }

    /// Where its response came from, or was to come from.
    pub(crate) fn via(&self) -> Via {
        let Record { server, overflow, times, .. } = self.record;
        let id = self.driver.place().map(|place| place.server);
        Via { server, id, overflow, retries: self.retries(), stored: 0, times }
    }

    /// Further attempts, those of the fetch that was begun for it among them.
    pub(super) const fn retries(&self) -> u32 {
        self.driver.retries() + self.record.retries
    }

    async fn over(
        &mut self,
        wanted: &Wanted,
        response: &Response,
        source: Source,
        given: Given,
    ) -> Round {
        let (ending, next) = self.give(wanted, response, source, given).await;
        Round::Over(ending, next)
    }
}

impl Step {
    /// Of a request for which nothing may be used that is stored.
    pub(super) const fn without(wishes: &Wishes) -> Self {
        if wishes.directives.only_if_cached { Self::OnlyIfCached } else { Self::Pass(None) }
    }
}

impl Record {
    /// What is told of a response that a fetch has brought for this request, or has not.
    fn came_by(&mut self, via: &Via) {
        (self.server, self.retries, self.elsewhere) = (via.server, via.retries, via.stored);
        self.overflow = via.overflow;
        let Times { received, ended, .. } = self.times;
        let waited = self.times.waited + via.times.waited;
        self.times = Times { received, ended, waited, ..via.times };
    }

    /// Counts what the cache did, and the bytes that the client got by where they are from.
    pub(super) fn count_cache(&self, cells: &Cells) {
        let Some(result) = self.cache else { return };
        let elsewhere = self.elsewhere.min(self.bytes);
        let (own, other) = match result.is_of_server() {
            true => (ServiceCounter::CacheMissBytes, ServiceCounter::CacheBytes),
            false => (ServiceCounter::CacheBytes, ServiceCounter::CacheMissBytes),
        };
        cells.add(result.counter(), 1);
        cells.add(own, self.bytes - elsewhere);
        cells.add(other, elsewhere);
    }
}

impl Waiting<'_> {
    fn forwarded(&self, known: Option<Known>, status: Option<u16>) -> Given {
        let outcome = Outcome::Forwarded {
            why: self.need.why,
            status,
            stored: known.is_some_and(|(_, is_stored)| is_stored),
            collapsed: !self.is_first,
        };
        let metadata = known.map(|(metadata, _)| metadata);
        Given::new(outcome, metadata, unix_now(), self.is_first)
    }
}

/// Where the response to a request is on disk, or the response if it waits to be written there.
fn on_disk(
    store: &Store,
    wanted: &Wanted,
    fields: Fields<'_>,
) -> (Option<OnDisk>, Option<Arc<Object>>) {
    let Some(disk) = store.disk().clone() else { return (None, None) };
    match disk.find(&wanted.url, &wanted.variant, fields) {
        Some(Kept::There(place)) => (Some((disk, place)), None),
        Some(Kept::Waiting(object)) => (None, Some(object)),
        None => (None, None),
    }
}

/// The key by which a fetch is joined: what may be for somebody who is known is not waited for by
/// others.
pub(super) fn fetch_key(stored: Key, request: Fields<'_>) -> Key {
    match request.first("authorization") {
        Some(credentials) => [&stored, &b"\0"[..], credentials].concat().into(),
        None => stored,
    }
}

fn is_same(one: &Need, other: &Need) -> bool {
    let stored = |need: &Need| {
        let beginning = need.asked.as_ref().and_then(|asked| asked.beginning());
        [need.stored.as_ref(), beginning].map(|object| object.map(Arc::as_ptr))
    };
    stored(one) == stored(other)
}

/// More often than this nobody waits for a fetch that turns out to be for others.
pub(super) const ROUNDS: u32 = 8;
