//! What all workers know of one bucket: how requests for it are signed.

use std::{
    collections::BTreeMap,
    io,
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicU64, Ordering::Relaxed},
    },
};

use arc_swap::ArcSwap;
use loadline_core::{
    decide::reason::Reason,
    fleet::{Access, Bucket, Store},
    time::{Duration, Instant},
};
use tracing::error;

use super::{
    bucket::{Outgoing, outgoing},
    credentials::{Credentials, Known},
    error_pages::{ErrorPages, PageTurn},
};

/// A bucket, as it is reached.
#[derive(Debug)]
pub(crate) struct Remote {
    /// None where requests are not signed.
    credentials: Option<Arc<Credentials>>,
    /// For which requests are signed: that of the file, or another that the store has named.
    region: ArcSwap<String>,
    pub(crate) error_pages: ErrorPages,
    /// The instant, in nanoseconds, until which the store is taken not to refuse the credentials.
    accepts_until: AtomicU64,
}

/// The buckets of the process, and its credentials.
#[derive(Debug, Default)]
pub(crate) struct Remotes {
    known: Mutex<RemotesKnown>,
}

#[derive(Debug, Default)]
struct RemotesKnown {
    buckets: BTreeMap<Bucket, Arc<Remote>>,
    credentials: BTreeMap<Access, Arc<Credentials>>,
}

impl Remotes {
    /// The remote of a bucket; none if the thread that reads its credentials cannot be started.
    pub(crate) fn of(&self, bucket: &Bucket) -> Option<Arc<Remote>> {
        let mut known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        let RemotesKnown { buckets, credentials } = &mut *known;
        if let Some(remote) = buckets.get(bucket) {
            return Some(remote.clone());
        }
        let made = Remote::of(bucket, |access| {
            if let Some(known) = credentials.get(access) {
                return Ok(known.clone());
            }
            let started = Arc::new(Credentials::start(access)?);
            credentials.insert(access.clone(), started.clone());
            Ok(started)
        });
        match made {
            Ok(remote) => {
                let remote = Arc::new(remote);
                buckets.insert(bucket.clone(), remote.clone());
                Some(remote)
            }
            Err(error) => {
                error!("no thread can be started for the credentials of stores: {error}");
                None
            }
        }
    }
}

/// A signed request, and its credentials.
#[derive(Debug)]
pub(crate) struct Signed {
    outgoing: Outgoing,
    generation: u64,
    region: Arc<String>,
    may_renew: bool,
    /// The client asks for what is beyond the end of the object.
    is_beyond: bool,
    /// The status for the client where it asks why a `HEAD` was refused, and is not told.
    unexplained: Option<u16>,
    /// Where it asks for the store's error page.
    turn: Option<PageTurn>,
}

impl Signed {
    fn new(outgoing: Outgoing, (region, generation): (Arc<String>, u64), may_renew: bool) -> Self {
        let (is_beyond, unexplained, turn) = (false, None, None);
        Self { outgoing, generation, region, may_renew, is_beyond, unexplained, turn }
    }

    /// None: the client is told that there is no such object.
    pub(crate) fn missing() -> Self {
        Self::new(Outgoing::Local(404, ""), (Arc::default(), 0), false)
    }

    /// The same, where the client asks for what `is_beyond` the end of the object: all of that is
    /// asked for to judge the conditions, which come first.
    pub(crate) fn beyond(self, is_beyond: bool) -> Self {
        Self { is_beyond, ..self }
    }

    /// Whether the client asks for what is beyond the end of the object.
    pub(crate) const fn is_beyond(&self) -> bool {
        self.is_beyond
    }

    /// The same, to hear why the store refused a `HEAD`, whose client gets this status if it does
    /// not say.
    pub(crate) fn for_cause(self, unexplained: u16) -> Self {
        Self { unexplained: Some(unexplained), ..self }
    }

    /// The status for the client where it asks for that, and is not told.
    pub(crate) const fn unexplained(&self) -> Option<u16> {
        self.unexplained
    }

    /// Whether it asks for something else than the client does.
    pub(crate) const fn is_for_us(&self) -> bool {
        self.unexplained.is_some() || self.is_for_error_page()
    }

    /// Whether it is worth having the credentials read anew if the store refuses them.
    pub(crate) const fn may_renew(&self) -> bool {
        self.may_renew
    }

    /// Whether it is signed for this region.
    pub(crate) fn is_for_region(&self, region: &str) -> bool {
        *self.region == region
    }

    /// What is sent to the store; none where the client is answered without it.
    pub(crate) fn request(&self) -> Option<&[u8]> {
        match &self.outgoing {
            Outgoing::Request(text) | Outgoing::ErrorPage(text) => Some(text),
            Outgoing::Local(..) => None,
        }
    }

    /// The same, for a request for the store's error page.
    pub(crate) fn for_error_page(self, turn: PageTurn) -> Self {
        let outgoing = match self.outgoing {
            Outgoing::Request(text) => Outgoing::ErrorPage(text),
            other => other,
        };
        Self { outgoing, turn: Some(turn), ..self }
    }

    /// Lets others ask for the error page, if they still have to.
    pub(crate) fn end_turn(&mut self) {
        self.turn = None;
    }

    /// Whether it asks for the store's error page.
    pub(crate) const fn is_for_error_page(&self) -> bool {
        matches!(self.outgoing, Outgoing::ErrorPage(_))
    }

    /// The status, and lines, that the client gets without the store being asked.
    pub(crate) const fn local(&self) -> Option<(u16, &'static str)> {
        match self.outgoing {
            Outgoing::Request(_) | Outgoing::ErrorPage(_) => None,
            Outgoing::Local(status, lines) => Some((status, lines)),
        }
    }
}

impl Remote {
    /// The one of `bucket`, with credentials that `find` knows.
    fn of(
        bucket: &Bucket,
        find: impl FnOnce(&Access) -> io::Result<Arc<Credentials>>,
    ) -> io::Result<Self> {
        let credentials = match &bucket.access {
            Access::Anonymous => None,
            access => Some(find(access)?),
        };
        let region = ArcSwap::from_pointee(bucket.region.clone());
        let (error_pages, accepts_until) = Default::default();
        Ok(Self { credentials, region, error_pages, accepts_until })
    }

    /// Makes the request for the store out of one whose head `text` begins with; for `all` of the
    /// object, where its range does not count. It says whether it `may_renew` the credentials.
    ///
    /// # Errors
    /// [`Reason::StoreNoCredentials`] where none are found within `limit`, else those of
    /// [`outgoing`].
    pub(crate) async fn sign(
        &self,
        (store, bucket): (&Store, &Bucket),
        (text, all): (&[u8], bool),
        (limit, may_renew): (Duration, bool),
    ) -> Result<Signed, Reason> {
        let Known { credential, generation, .. } = match &self.credentials {
            None => Known::default(),
            Some(credentials) => credentials.known(limit.to_std()).await,
        };
        if credential.is_none() && self.credentials.is_some() {
            return Err(Reason::StoreNoCredentials);
        }
        let region = self.region.load_full();
        let with = (credential.as_deref(), region.as_str());
        let outgoing = outgoing((store, bucket), (text, all), with)?;
        Ok(Signed::new(outgoing, (region, generation), may_renew))
    }

    /// Reads credentials anew, since the store refuses those of `signed`: whether there are others.
    pub(crate) async fn renew(&self, signed: &Signed, limit: Duration) -> bool {
        match &self.credentials {
            None => false,
            Some(credentials) => credentials.renewed(signed.generation, limit.to_std()).await,
        }
    }

    /// Whether the store may refuse the credentials where it does not say what it refuses.
    pub(crate) fn may_refuse(&self, now: Instant) -> bool {
        self.credentials.is_some() && now.as_nanos() >= self.accepts_until.load(Relaxed)
    }

    /// The store has refused a request for another reason than the credentials.
    pub(crate) fn note_accepted(&self, now: Instant) {
        self.accepts_until.store((now + ACCEPTED).as_nanos(), Relaxed);
    }

    /// Signs for this region from now on: whether `signed` is for another.
    pub(crate) fn learn_region(&self, signed: &Signed, region: &str) -> bool {
        let fits = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'-';
        let is_name = (1..=64).contains(&region.len()) && region.bytes().all(fits);
        if !is_name || *signed.region == region {
            return false;
        }
        if self.region.load().as_str() != region {
            self.region.store(Arc::new(region.to_owned()));
        }
        true
    }
}

/// For how long it is not asked again why a `HEAD` is refused: where keys may not be listed, each
/// `HEAD` of what is missing would be two requests.
const ACCEPTED: Duration = Duration::from_secs(10);
