//! A lock that this edge has, and what it writes by it.

use std::sync::{Arc, Mutex, PoisonError};

use loadline_core::{
    acme::{LEASE_MIN, leased_until},
    time,
};
use tokio::time::{Duration, Instant, sleep, timeout_at};

use super::Keyspace;
use crate::cluster::{
    Fault,
    etcd::message::{Compare, DeleteRangeRequest, Operation},
};

/// A lock, held by a lease that is its own: what has the lease ends with it.
#[derive(Debug)]
pub(crate) struct Hold {
    keyspace: Arc<Keyspace>,
    name: String,
    /// The revision at which the lock was taken, unique to this hold.
    revision: i64,
    lease: i64,
    /// Until when the lock is certainly held.
    until: Mutex<Instant>,
}

/// Something to be written.
#[derive(Clone, Debug)]
pub(crate) enum Write {
    /// Puts a key.
    Put(String, Vec<u8>),
    /// Puts a key that ends with the lock.
    PutForNow(String, Vec<u8>),
    /// Removes a key.
    Remove(String),
}

impl Keyspace {
    /// Takes the lock of this name for whoever `holder` tells of, if nobody has it and `unchanged`
    /// still has the revision that is known of it here; none if not.
    ///
    /// # Errors
    /// The store is away, or refuses.
    pub(crate) async fn lock(
        self: &Arc<Self>,
        name: &str,
        holder: Vec<u8>,
        unchanged: (&str, i64),
    ) -> Result<Option<Hold>, Fault> {
        let client = self.client()?;
        let asked = Instant::now();
        let lease = client.grant(self.lease().as_secs().cast_signed()).await;
        let lease = lease.map_err(|error| self.fault(error))?;
        let compare = vec![
            Compare::created(self.key(name), 0),
            Compare::changed(self.key(unchanged.0), unchanged.1),
        ];
        let written = self.write(compare, vec![self.put(name, holder, lease)]).await;
        if let Ok(Some(revision)) = written {
            let (keyspace, name) = (self.clone(), name.to_owned());
            let until = Mutex::new(self.certain_until(asked));
            return Ok(Some(Hold { keyspace, name, revision, lease, until }));
        }
        // The lock may be there after all, where only the answer was lost.
        client.revoke(lease).await.map_err(|error| self.fault(error))?;
        written.map(|_| None)
    }

    fn lease(&self) -> Duration {
        self.settings.lease.max(LEASE_MIN).to_std()
    }

    /// Until when it is certain that a lease that was asked for at `asked` has not ended.
    fn certain_until(&self, asked: Instant) -> Instant {
        let lease = self.settings.lease.max(LEASE_MIN);
        asked + certain_for(lease, self.settings.sharing().margin)
    }
}

/// For how long, from when it was asked for, it is certain that a lease has not ended.
fn certain_for(lease: time::Duration, margin: time::Duration) -> Duration {
    leased_until(time::Instant::ZERO, lease, margin).since(time::Instant::ZERO).to_std()
}

impl Hold {
    /// The keyspace of the lock.
    pub(crate) fn keyspace(&self) -> &Arc<Keyspace> {
        &self.keyspace
    }

    /// Returns when the lease can no longer be renewed; the holder must have stopped by then.
    pub(crate) async fn renew_until_lost(&self) {
        loop {
            let until = *self.until.lock().unwrap_or_else(PoisonError::into_inner);
            if timeout_at(until, self.renew()).await.is_err() {
                return;
            }
        }
    }

    /// Waits until the lease has been renewed once.
    async fn renew(&self) {
        loop {
            sleep(self.keyspace.lease() / 5).await;
            let asked = Instant::now();
            let Ok(client) = self.keyspace.client() else { continue };
            match client.renew(self.lease).await {
                Ok(seconds) if seconds > 0 => {
                    let until = self.keyspace.certain_until(asked);
                    *self.until.lock().unwrap_or_else(PoisonError::into_inner) = until;
                    return;
                }
                // It has ended before its time, which etcd may do when it was restored.
                Ok(_) => {
                    *self.until.lock().unwrap_or_else(PoisonError::into_inner) = asked;
                    return;
                }
                Err(error) => {
                    let error = self.keyspace.fault(error);
                    tracing::debug!(self.name, %error, "a lock is not renewed");
                }
            }
        }
    }

    /// Writes all of it, if the lock is still this one.
    ///
    /// # Errors
    /// The store is away, or another edge has the lock: nothing was written then, as far as is
    /// known.
    pub(crate) async fn write(&self, writes: Vec<Write>) -> Result<(), Fault> {
        let keyspace = &self.keyspace;
        let operations = writes.into_iter().map(|write| match write {
            Write::Put(name, value) => keyspace.put(&name, value, 0),
            Write::PutForNow(name, value) => keyspace.put(&name, value, self.lease),
            Write::Remove(name) => {
                Operation::Delete(DeleteRangeRequest { key: keyspace.key(&name) })
            }
        });
        let still = Compare::created(keyspace.key(&self.name), self.revision);
        let written = keyspace.write(vec![still], operations.collect()).await?;
        let lost = || Fault::Watch(format!("another edge has the lock `{}`", self.name));
        written.map(drop).ok_or_else(lost)
    }

    /// Gives the lock up, with all that was put for now. Where the store is away it ends by itself.
    pub(crate) async fn release(&self) {
        let released = async { Ok::<_, Fault>(self.keyspace.client()?.revoke(self.lease).await?) };
        if let Err(error) = released.await {
            tracing::debug!(self.name, %error, "a lock is not released, its lease ends by itself");
        }
    }
}
