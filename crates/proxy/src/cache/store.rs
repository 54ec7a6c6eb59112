//! What is stored, and which fetches are under way: one for all workers of a process, over any
//! reload.
//!
//! A URL has an object, or a *branch*: what tells its objects apart, which are under longer keys
//! then. Whoever takes the branch away has taken all of them: the next one has a number of its own,
//! which is part of these keys. A key may also have a note that its responses cannot be stored, so
//! that requests for it do not wait for each other in vain.
//!
//! No lock is held while anything is read, written or dropped. Lookups share one.

use std::{
    cmp::Reverse,
    sync::{
        Arc, Mutex, OnceLock, PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard,
        atomic::{
            AtomicU64,
            Ordering::{AcqRel, Acquire, Relaxed},
        },
    },
};

use arc_swap::{ArcSwapOption, Guard};
use bytes::Bytes;
use loadline_core::{
    cache::{Fields, Vary},
    fleet::{CacheLimits, DiskCache},
    time::Instant,
    units,
};
use loadline_linux::arena::Arena;

use super::{
    arrival::Reader,
    disk::Disk,
    object::{Length, Object, Response, SENT_IN_PLACE},
    pinned::{Pinned, pages_of},
    purge::url_of,
    reserved::{Arriving, Reserved},
    selectors::Selectors,
    sweeps::{Closed, Sweeps},
    table::{ENTRY_BYTES, Known, Table},
    wanted::Wanted,
};
use crate::runtime::clock::Clock;

mod fetches;
mod notes;

use fetches::Fetches;

/// A key as the store knows it.
pub(crate) type Key = Arc<[u8]>;

/// The store of a process.
#[derive(Debug)]
pub(crate) struct Store {
    pub(super) table: RwLock<Table>,
    /// Responses that are being fetched.
    fetches: Mutex<Fetches>,
    /// Memory of bodies that are coming in.
    pub(super) arriving: Arriving,
    pub(super) pinned: Pinned,
    /// Responses that were evicted.
    pub(super) evicted: AtomicU64,
    limits: RwLock<CacheLimits>,
    /// Where large bodies are; made for the first of them, none where the kernel gives none.
    arena: OnceLock<Option<Arc<Arena>>>,
    /// Purges that have come.
    pub(super) epoch: AtomicU64,
    /// Purges that closed fetches, each noted before it looks at what is stored.
    sweeps: Sweeps,
    disk: ArcSwapOption<Disk>,
    clock: Clock,
}

/// What is known under a key.
#[derive(Clone, Debug)]
pub(crate) enum What {
    Object(Arc<Object>),
    /// Under longer keys there is more.
    Branch(Arc<Branch>),
    /// The latest response could not be stored; this holds until then.
    Unstorable(Instant),
}

/// What tells the objects of a URL apart.
#[derive(Debug)]
pub(crate) struct Branch {
    vary: Vary,
    number: u64,
}

/// What is known of a request, and where.
#[derive(Debug)]
pub(crate) struct Found {
    /// Where: the fetch for it goes by this key.
    pub(crate) key: Key,
    pub(crate) what: Option<What>,
    /// What is stored for the URL varies, and is for other requests.
    pub(crate) has_others: bool,
}

/// Who fetches a response.
#[derive(Debug)]
pub(crate) enum Join {
    /// Another request does.
    Other(Reader),
    /// The asking request has to.
    Begin(Reader),
    /// Something has been stored meanwhile.
    Again,
}

impl Store {
    /// An empty one.
    pub(crate) fn new(limits: CacheLimits, clock: Clock) -> Self {
        let pinned = Pinned::default();
        Self {
            table: RwLock::new(Table::new(limits.memory, pinned.clone())),
            fetches: Mutex::default(),
            arriving: Arriving::default(),
            pinned,
            evicted: AtomicU64::new(0),
            limits: RwLock::new(limits),
            arena: OnceLock::new(),
            epoch: AtomicU64::new(0),
            sweeps: Sweeps::new(),
            disk: ArcSwapOption::empty(),
            clock,
        }
    }

    /// A body as it is kept: a large one where sockets take it without a copy, if there is room.
    pub(super) fn kept(&self, pieces: Box<[Bytes]>) -> Box<[Bytes]> {
        let length: usize = pieces.iter().map(Bytes::len).sum();
        if length < SENT_IN_PLACE {
            return pieces;
        }
        let new = || Arena::new("loadline-cache", self.limits().memory.get()).ok();
        let arena = self.arena.get_or_init(new).as_ref();
        let kept = arena.and_then(|arena| arena.copy(&pieces)).unwrap_or_else(|| pieces.into());
        kept.into_iter().map(|piece| self.count(piece)).collect()
    }

    /// Bytes that are sent to clients and count as memory for as long as anybody has them.
    pub(crate) fn count(&self, bytes: Bytes) -> Bytes {
        self.pinned.count(bytes)
    }

    /// The file that these bytes are in, and where, if they are to be sent from there.
    pub(crate) fn file_of(&self, bytes: &[u8]) -> Option<(&Arc<Arena>, u64)> {
        let arena = self.arena.get()?.as_ref().filter(|_| bytes.len() >= SENT_IN_PLACE)?;
        Some((arena, arena.offset_of(bytes)?))
    }

    /// How many purges have come.
    pub(crate) fn epoch(&self) -> u64 {
        self.epoch.load(Acquire)
    }

    /// Marks now, when something is asked of a server.
    pub(crate) fn asks(&self) -> Closed {
        self.sweeps.closed()
    }

    /// The second tier, if there is one.
    pub(crate) fn disk(&self) -> Guard<Option<Arc<Disk>>> {
        self.disk.load()
    }

    /// Keeps what memory lets go there from now on; nowhere where none is given.
    pub(crate) fn keep_on(&self, wanted: Option<&DiskCache>) {
        let disk = self.disk();
        match (&*disk, wanted) {
            (Some(disk), Some(wanted)) if disk.is_at(wanted) => return disk.resize(wanted.size),
            (None, None) => return,
            _ => {}
        }
        let started = wanted
            .map(|wanted| Disk::start(wanted, self.epoch(), (self.clock, self.pinned.clone())));
        let started = started.transpose().map(|disk| disk.map(Arc::new));
        match started {
            Ok(started) => self.disk.store(started),
            Err(error) => tracing::error!("cannot start a thread for the cache on disk: {error}"),
        }
    }

    /// Leaves the disk to another process, with what is in memory; gives it to be waited for.
    pub(crate) fn leave_disk(&self) -> Option<Arc<Disk>> {
        let disk = self.disk.swap(None)?;
        let mut all = Vec::new();
        {
            let table = self.read();
            for Known { key, what } in table.iter() {
                if let What::Object(object) = what
                    && table.leads_to(key)
                {
                    all.push((url_of(key).into(), object.clone()));
                }
            }
        }
        // What was used most goes first: there may not be time for all.
        all.sort_by_key(|(_, object): &(_, Arc<Object>)| Reverse(object.hits.load(Relaxed)));
        disk.close(all);
        Some(disk)
    }

    /// What is known of a request for this URL with these fields, which counts as a use of it: what
    /// is used stays longer.
    pub(crate) fn find(&self, url: &Key, variant: &[u8], request: Fields<'_>) -> Found {
        found(&self.read(), Table::hit, (url, variant, request))
    }

    /// The same, which does not count.
    pub(crate) fn look(&self, url: &Key, variant: &[u8], request: Fields<'_>) -> Found {
        found(&self.read(), Table::get, (url, variant, request))
    }

    /// The stored response to a request, without counting that as a use of it.
    pub(crate) fn peek(
        &self,
        url: &Key,
        variant: &[u8],
        request: Fields<'_>,
    ) -> Option<Arc<Object>> {
        match self.look(url, variant, request).what? {
            What::Object(object) => Some(object),
            What::Branch(_) | What::Unstorable(_) => None,
        }
    }

    /// Stores an object beside others of its URL with other selecting fields, unless it was purged
    /// since its fetch was closed. True if it did. The record on disk is older.
    pub(crate) fn store(&self, url: &Key, object: &Arc<Object>, closed: Closed) -> bool {
        if let Some(disk) = &*self.disk() {
            disk.forget(url, object);
        }
        self.promote(url, object, closed)
    }

    /// The same for an object that was read from disk.
    pub(crate) fn promote(&self, url: &Key, object: &Arc<Object>, closed: Closed) -> bool {
        let key = self.place(url, &object.response);
        self.put(&key, What::Object(object.clone()), Some(closed))
    }

    /// Where a response to a request for this URL is stored, with all that leads there.
    pub(crate) fn place(&self, url: &Key, response: &Response) -> Key {
        let Response { variant, selectors, .. } = response;
        let Selectors { vary, secondary, .. } = &**selectors;
        let seen = self.sweeps.closed();
        let there = self.read().get(url).cloned();
        let (branch, other) = match there {
            Some(What::Branch(branch)) if branch.vary == *vary => (Some(branch), None),
            Some(What::Object(other)) if other.response.variant == *variant => (None, None),
            Some(What::Object(other)) if other.response.selectors.vary == *vary => {
                (Some(Branch::new(vary)), Some(other))
            }
            None => (None, None),
            Some(_) => (Some(Branch::new(vary)), None),
        };
        let is_one_of_several = secondary.as_ref().is_some_and(|it| !it.is_empty())
            || response.length.slices().is_some();
        let branch = branch.or_else(|| is_one_of_several.then(|| Branch::new(vary)));
        let Some(branch) = branch else { return url.clone() };
        self.put(url, What::Branch(branch.clone()), None);
        if let Some(other) = other {
            // What was alone for the URL stays beside the others, unless it is purged meanwhile.
            let key = branch.place(url, &other.response);
            self.put(&key, What::Object(other), Some(seen));
        }
        branch.place(url, response)
    }

    /// Gives up the record on disk for a request: its server has something else.
    pub(crate) fn give_up_on_disk(&self, wanted: &Wanted, request: Fields<'_>) {
        if let Some(disk) = &*self.disk() {
            let next = || self.epoch.fetch_add(1, AcqRel) + 1;
            disk.give_up(next, (&wanted.url, &wanted.variant), request);
        }
    }

    /// Puts something under a key, in place of what was there: whether it did. What is too large is
    /// not kept; for a part, what was there stays. What a fetch brought that was `closed` is not
    /// where it has been purged since: the purge may have looked before there was anything to see.
    fn put(&self, key: &Key, what: What, closed: Option<Closed>) -> bool {
        self.put_if(key, what, |_| self.is_spared(key, closed))
    }

    /// The same if it `may` be put there, as the table is then.
    fn put_if(&self, key: &Key, what: What, may: impl FnOnce(&Table) -> bool) -> bool {
        let bytes = units::Bytes::new(what.bytes() + (key.len() + ENTRY_BYTES) as u64);
        let (disk, limits) = (self.disk(), self.limits());
        let own = if let What::Object(object) = &what { object.pages() } else { 0 };
        let room = self.room(own);
        let mut table = self.write();
        if !may(&table) || what.is_part() && !table.takes(bytes) {
            return false;
        }
        if let (Some(What::Branch(old)), What::Branch(new)) = (table.get(key), &what)
            && Arc::ptr_eq(old, new)
        {
            return true;
        }
        let replaced = table.remove(key);
        let mut gone = table.resize(limits.memory, room);
        let (is_kept, refused) = match table.insert(Known { key: key.clone(), what }, bytes) {
            Ok(evicted) => {
                gone.extend(evicted);
                (true, None)
            }
            Err(Known { what: What::Object(object), .. }) => {
                let keep = |disk: &Arc<Disk>| disk.keep(url_of(key), &object);
                (disk.as_ref().is_some_and(keep), Some(object))
            }
            Err(_) => (false, None),
        };
        self.evicted.fetch_add(gone.len() as u64, Relaxed);
        table.offer(&gone, disk.as_deref());
        // What is gone is dropped without the lock.
        drop(table);
        drop((replaced, gone, refused));
        is_kept
    }

    fn is_spared(&self, key: &[u8], since: Option<Closed>) -> bool {
        since.is_none_or(|since| self.sweeps.spared(key, since))
    }

    /// Counts this form of an object as well, if it is there; false where it would be too large.
    pub(crate) fn grow(&self, url: &Key, object: &Arc<Object>, form: &Bytes) -> bool {
        let key = self.place_of(url, &object.response);
        let bytes = object.bytes() + (key.len() + ENTRY_BYTES + form.len()) as u64;
        let mut table = self.write();
        if !has(&table, &key, object) {
            return true;
        }
        let evicted = table.set_bytes(&key, units::Bytes::new(bytes));
        if evicted.is_some() && object.counted.load(Relaxed) > 0 {
            // Unless it has left itself.
            table.count_more(object, pages_of(form));
        }
        // What is gone is dropped without the lock.
        drop(table);
        self.evicted.fetch_add(evicted.as_ref().map_or(0, Vec::len) as u64, Relaxed);
        evicted.is_some()
    }

    /// Takes out this object, if it is there.
    pub(crate) fn forget(&self, url: &Key, object: &Arc<Object>) {
        if let Some(disk) = &*self.disk() {
            disk.forget(url, object);
        }
        let key = self.place_of(url, &object.response);
        let is_there = has(&self.read(), &key, object);
        if is_there {
            self.remove(&key);
        }
    }

    /// The key of a response, stored or not.
    fn place_of(&self, url: &Key, response: &Response) -> Key {
        match self.read().get(url) {
            Some(What::Branch(branch)) => branch.place(url, response),
            _ => url.clone(),
        }
    }

    /// Takes out what is under a key.
    pub(super) fn remove(&self, key: &[u8]) {
        let gone = self.write().remove(key);
        drop(gone);
    }

    /// Puts an object in place of another that is still there, and was not purged `since`.
    pub(super) fn replace(
        &self,
        key: &Key,
        old: &Arc<Object>,
        new: Arc<Object>,
        since: Option<Closed>,
    ) {
        let may = |table: &Table| has(table, key, old) && self.is_spared(key, since);
        self.put_if(key, What::Object(new), may);
    }

    /// The longest body that is kept whole while it comes in: one that memory stores, or one that
    /// goes from there to the disk.
    pub(crate) fn longest_arriving(&self) -> u64 {
        let CacheLimits { memory, max_object } = self.limits();
        let on_disk = self.disk().as_ref().map_or(0, |disk| disk.longest());
        on_disk.min(memory.get() / ARRIVING_PART).min(max_object.get()).max(self.longest())
    }

    /// The longest body that is stored in memory.
    pub(crate) fn longest(&self) -> u64 {
        self.limits().longest().get()
    }

    /// Takes memory for a body that is coming in; none if there is no more.
    pub(super) fn reserve(&self, bytes: u64) -> Option<Reserved> {
        let most = self.limits().memory.get() / ARRIVING_PART;
        let before = self.arriving.bytes();
        let reserved = self.arriving.reserve(bytes, most.saturating_sub(self.pinned.bytes()))?;
        if before / RESIZE_STEP != (before + bytes) / RESIZE_STEP {
            self.fit();
        }
        Some(reserved)
    }

    /// The limits.
    pub(crate) fn limits(&self) -> CacheLimits {
        *self.limits.read().unwrap_or_else(PoisonError::into_inner)
    }

    /// Holds to other limits from now on.
    pub(crate) fn limit(&self, limits: CacheLimits) {
        *self.limits.write().unwrap_or_else(PoisonError::into_inner) = limits;
        self.fit();
    }

    /// What may be stored beside what is coming in, and what is still sent but for `own` pages.
    /// Those take no more than their part: what is evicted while it is sent makes no room.
    fn room(&self, own: u32) -> units::Bytes {
        let pinned = self.pinned.bytes().saturating_sub(Arena::memory_of(1) * u64::from(own));
        let memory = self.limits().memory.get();
        let others = (self.arriving.bytes() + pinned).min(memory / ARRIVING_PART);
        units::Bytes::new(memory - others)
    }

    /// Evicts until what is stored fits beside that.
    fn fit(&self) {
        let (memory, room) = (self.limits().memory, self.room(0));
        let disk = self.disk();
        let mut table = self.write();
        let gone = table.resize(memory, room);
        self.evicted.fetch_add(gone.len() as u64, Relaxed);
        table.offer(&gone, disk.as_deref());
        drop(table);
        drop(gone);
    }

    pub(super) fn read(&self) -> RwLockReadGuard<'_, Table> {
        self.table.read().unwrap_or_else(PoisonError::into_inner)
    }

    fn write(&self) -> RwLockWriteGuard<'_, Table> {
        self.table.write().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Whether this object is under a key.
fn has(table: &Table, key: &[u8], object: &Arc<Object>) -> bool {
    matches!(table.get(key), Some(What::Object(other)) if Arc::ptr_eq(other, object))
}

/// What is known of a request, as `get` has it.
fn found<'t>(
    table: &'t Table,
    get: impl Fn(&'t Table, &[u8]) -> Option<&'t What>,
    (url, variant, request): (&Key, &[u8], Fields<'_>),
) -> Found {
    let of_url = get(table, url);
    let key = match of_url {
        Some(What::Object(object)) if object.response.answers(variant, request) => {
            let what = Some(What::Object(object.clone()));
            return Found { key: url.clone(), what, has_others: false };
        }
        Some(What::Branch(branch)) => branch.key(url, variant, request),
        _ => longer(url, 0, variant, b""),
    };
    let what = get(table, &key).cloned();
    let has_others = match of_url {
        Some(What::Object(object)) => varies(&object.response.selectors.vary),
        // It may lead to slices, parts and variants of the rule alone.
        Some(What::Branch(branch)) => varies(&branch.vary),
        Some(What::Unstorable(_)) | None => false,
    };
    Found { key, what, has_others }
}

/// Whether it names anything.
fn varies(vary: &Vary) -> bool {
    *vary != Vary::Fields(Box::default())
}

impl Branch {
    fn new(vary: &Vary) -> Arc<Self> {
        static NUMBERS: AtomicU64 = AtomicU64::new(1);
        Arc::new(Self { vary: vary.clone(), number: NUMBERS.fetch_add(1, Relaxed) })
    }

    /// The key of the response that a request selects.
    fn key(&self, url: &[u8], variant: &[u8], request: Fields<'_>) -> Key {
        let secondary = self.vary.secondary_key(request).unwrap_or_default();
        longer(url, self.number, variant, &secondary)
    }

    /// Where a response is.
    fn place(&self, url: &[u8], response: &Response) -> Key {
        let secondary = response.selectors.secondary.as_deref().unwrap_or_default();
        longer(url, self.number, &response.variant, secondary)
    }
}

/// The key of one of the objects of a URL.
fn longer(url: &[u8], number: u64, variant: &[u8], secondary: &[u8]) -> Key {
    [url, b"\0", &number.to_be_bytes(), variant, b"\0", secondary].concat().into()
}

impl What {
    /// The number of the branch, if it is one.
    pub(super) fn branch_number(&self) -> Option<u64> {
        match self {
            Self::Branch(branch) => Some(branch.number),
            Self::Object(_) | Self::Unstorable(_) => None,
        }
    }

    /// Whether it is a part that a client's own range brought.
    fn is_part(&self) -> bool {
        matches!(self, Self::Object(it) if matches!(it.response.length, Length::Part(_)))
    }

    /// The memory that it takes, without its key.
    fn bytes(&self) -> u64 {
        match self {
            Self::Object(object) => object.bytes(),
            Self::Branch(_) => BRANCH_BYTES,
            Self::Unstorable(_) => 0,
        }
    }
}

/// The part of the memory that bodies may take while they come in.
const ARRIVING_PART: u64 = 2;

/// What is stored makes room for what comes in steps of so many bytes.
const RESIZE_STEP: u64 = 1 << 20;

/// The names of a few fields.
const BRANCH_BYTES: u64 = 128;

#[cfg(test)]
mod tests;
