//! A response on its way from disk to memory: read once, whoever asks for it meanwhile.
//!
//! It comes in as the response to a fetch does. Where memory has no room for all of it, it goes to
//! whoever waits for it already, and stays on disk alone.

use std::sync::Arc;

use loadline_core::decide::ending::Ending;
use tokio::task::spawn_local;

use super::{
    arrival::{Abandoned, Arrival, Begun, Failed},
    disk::{Disk, Opened, Place},
    fetch::Via,
    object::Object,
    store::{Key, Store},
};

/// A response to read from disk, and the fetch it is read for.
#[derive(Debug)]
pub(crate) struct Load {
    store: Arc<Store>,
    disk: Arc<Disk>,
    place: Place,
    url: Key,
    /// The key by which it is joined.
    key: Key,
    arrival: Arc<Arrival>,
}

impl Load {
    /// One under this key, of what is at this place and for this URL.
    pub(crate) fn new(
        (store, disk): (&Arc<Store>, Arc<Disk>),
        (url, place): (Key, Place),
        (key, arrival): (Key, Arc<Arrival>),
    ) -> Self {
        Self { store: store.clone(), disk, place, url, key, arrival }
    }

    /// Begins it.
    pub(crate) fn begin(self) {
        spawn_local(async move { self.run().await });
    }

    async fn run(self) {
        match self.disk.open(&self.place).await {
            Some(opened) => self.read(opened).await,
            None => {
                // Nobody has seen anything of it: it is fetched.
                self.close();
                self.arrival.begin(Begun::Again, Via::default());
            }
        }
    }

    async fn read(&self, Opened { response, metadata, epoch, mut body }: Opened) {
        let length = body.length;
        let fits = length <= self.store.longest();
        let reserved = fits.then(|| self.store.reserve(length)).flatten();
        let is_kept = reserved.is_some();
        match reserved {
            Some(reserved) => self.arrival.reserve(reserved),
            None => self.close(),
        }
        self.arrival.begin(Begun::Disk(response.clone(), metadata, is_kept), Via::default());
        let mut at = 0;
        while at < length {
            if let Err(Abandoned) = self.arrival.room().await {
                return;
            }
            let Ok(piece) = body.after(at).await else {
                self.close();
                return self.arrival.fail(BROKEN, Via::default());
            };
            at += piece.len() as u64;
            self.arrival.append(piece);
        }
        let pieces = self.store.kept(self.arrival.finish());
        self.arrival.replace(&pieces);
        if is_kept && let Some(closed) = self.store.ended(&self.key, &self.arrival) {
            let mut object = Object::new(response, metadata, pieces, epoch);
            object.is_on_disk = true;
            self.store.promote(&self.url, &Arc::new(object), closed);
        }
        self.close();
    }

    /// Lets nobody join any more.
    fn close(&self) {
        self.store.close(&self.key, &self.arrival);
    }
}

impl Drop for Load {
    /// Cut on its way, unless it has ended.
    fn drop(&mut self) {
        self.close();
        let failed = Failed { ending: Ending::Drained, reason: None };
        self.arrival.fail(failed, Via::default());
    }
}

/// How a response ends that was sent in part and whose rest is damaged.
pub(crate) const BROKEN: Failed = Failed { ending: Ending::Internal, reason: None };
