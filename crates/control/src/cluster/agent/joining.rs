//! Being there: a lease, and a key that ends with it.

use super::*;
use crate::cluster::{
    etcd::message::{Compare, Operation, PutRequest},
    known::Entry,
};

/// What the store remembers this process by.
#[derive(Debug)]
pub(super) struct Lease {
    id: i64,
    /// When the last renewal that was granted was asked for.
    renewed: Instant,
    asked: Instant,
}

impl Agent {
    /// Renews the lease, or gets one, and tells the others what has changed. What the store refuses
    /// now is tried again next time.
    pub(super) async fn keep_up(
        &mut self,
        client: &Client,
        renewals: &mut Option<Stream<LeaseResponse>>,
    ) -> Result<(), Fault> {
        match self.try_to_keep_up(client, renewals).await {
            // What nobody can read is still there.
            Ok(()) if self.known.is_readable() => self.view.well(),
            Ok(()) => {}
            Err(fault) if fault.is_of_the_request() => self.tell(&fault),
            Err(fault) => return Err(fault),
        }
        Ok(())
    }

    async fn try_to_keep_up(
        &mut self,
        client: &Client,
        renewals: &mut Option<Stream<LeaseResponse>>,
    ) -> Result<(), Fault> {
        let lease = Duration::from_nanos(self.settings.lease.as_nanos());
        if self.lease.as_ref().is_some_and(|it| it.renewed.elapsed() > lease) {
            self.lose();
        }
        if self.lease.is_none() {
            let asked = Instant::now();
            let seconds = i64::try_from(lease.as_secs()).unwrap_or(i64::MAX);
            let id = client.grant(seconds).await?;
            self.view.change(|state| state.writes += 1);
            self.leases.insert(id);
            self.lease = Some(Lease { id, renewed: asked, asked });
            *renewals = None;
        }
        let Some(lease) = &mut self.lease else { return Ok(()) };
        lease.asked = Instant::now();
        match renewals {
            Some(renewals) => renewals.send(&LeaseRequest { id: lease.id })?,
            None => *renewals = Some(client.renewals(lease.id).await?),
        }
        let id = lease.id;
        self.introduce(client, id).await
    }

    /// Takes in that the lease was renewed, or has ended.
    pub(super) fn renewed(
        &mut self,
        heard: Option<LeaseResponse>,
        renewals: &mut Option<Stream<LeaseResponse>>,
    ) -> Result<(), Fault> {
        let heard = heard.ok_or_else(|| Fault::Watch("renewals have ended".to_owned()))?;
        match &mut self.lease {
            Some(lease) if lease.id == heard.id && heard.ttl > 0 => lease.renewed = lease.asked,
            Some(lease) if lease.id == heard.id => {
                self.lose();
                *renewals = None;
            }
            _ => {}
        }
        Ok(())
    }

    fn lose(&mut self) {
        (self.lease, self.told) = (None, None);
        self.view.change(|state| state.joined = false);
    }

    /// The key of this edge's name, where it is of another process.
    fn entry_of_other(&self) -> Option<&Entry> {
        let entry = self.known.entry(&self.settings.name);
        entry.filter(|entry| !self.leases.contains(&entry.lease))
    }

    /// Whether the name is that of another edge, and not of a process before this one or after it.
    pub(super) fn is_another(&self) -> bool {
        let member = self.entry_of_other().and_then(|entry| entry.member.as_ref());
        member.is_some_and(|member| member.instance != self.disk.instance())
    }

    /// Puts the key of this edge, unless another edge has that name or nothing has changed. One
    /// whose name another has takes no part in anything that is written below the prefix.
    async fn introduce(&mut self, client: &Client, lease: i64) -> Result<(), Fault> {
        let member = EdgeEntry {
            instance: self.disk.instance().to_owned(),
            region: self.identity.region.clone(),
            release: self.identity.release.clone(),
            admin: self.identity.admin.clone(),
            configuration: self.running,
            digest: self.digest.clone(),
            refused: self.refused.clone(),
            services: (self.identity.services)(),
        };
        let is_another = self.is_another();
        self.view.admit(!is_another);
        // The process before this one has left its key, unless it came after.
        if is_another || self.has_joined && self.entry_of_other().is_some() {
            self.told = None;
            self.view.change(|state| state.joined = false);
            return Err(Fault::Name(self.settings.name.clone()));
        }
        let name = &self.settings.name;
        let entry = self.known.entry(name);
        if entry.is_some() && self.told.as_ref() == Some(&(lease, member.clone())) {
            self.view.change(|state| state.joined = true);
            return Ok(());
        }
        let key = self.keys.member(name);
        let unchanged = Compare::changed(key.clone().into(), entry.map_or(0, |it| it.changed));
        let put = PutRequest { key: key.into(), value: keys::written(&member), lease };
        let done = client.transaction(vec![unchanged], vec![Operation::Put(put)]).await?;
        self.view.change(|state| state.writes += 1);
        if done.succeeded {
            (self.told, self.has_joined) = (Some((lease, member)), true);
            self.view.change(|state| state.joined = true);
        }
        Ok(())
    }

    /// Leaves in order: the others need not wait for the end of the lease.
    pub(super) async fn leave(self, client: &Client) {
        let Some(lease) = self.lease else { return };
        if let Err(error) = client.revoke(lease.id).await {
            tracing::warn!(%error, "cluster: the lease cannot be revoked, it ends by itself");
        }
    }
}
