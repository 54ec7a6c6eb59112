//! Whether an edge and the keys at its prefix belong together.

use std::collections::BTreeSet;

use super::*;
use crate::cluster::{
    Marker,
    etcd::message::{Compare, Operation, PutRequest},
};

impl Agent {
    /// Refuses to be part of a cluster that is another one: two that use one prefix by accident
    /// would take each other's configuration.
    pub(super) async fn admit(&mut self, client: &Client) -> Result<(), Fault> {
        let cluster = self.disk.cluster().map(str::to_owned);
        let expected = self.settings.id.clone().or(cluster);
        let marker = self.marker(client, expected.as_deref()).await?;
        let Some(Marker { id }) = marker else { return Ok(()) };
        let foreign = |why| Fault::Foreign { prefix: self.keys.prefix.clone(), why };
        match &expected {
            Some(expected) if *expected != id => {
                return Err(foreign(format!("it is `{id}`, and this edge is one of `{expected}`")));
            }
            Some(_) => {}
            None => {
                let theirs = self.services_of_others(client).await?;
                let ours: BTreeSet<String> = (self.identity.services)().into_iter().collect();
                if !ours.is_empty() && !theirs.is_empty() && ours.is_disjoint(&theirs) {
                    return Err(foreign(format!(
                        "its services are {}, those of this edge {}",
                        listed(&theirs),
                        listed(&ours)
                    )));
                }
            }
        }
        if let Err(error) = self.disk.keep_cluster(&id) {
            self.event(&error.into());
        }
        Ok(())
    }

    /// The marker of the cluster, which is written where there is none; none where that is not
    /// possible now.
    async fn marker(
        &self,
        client: &Client,
        expected: Option<&str>,
    ) -> Result<Option<Marker>, Fault> {
        let key = self.keys.marker();
        for _ in 0..2 {
            if let Some(it) = client.range(&key, "").await?.kvs.first() {
                return Ok(Some(keys::read("the identity of a cluster", &key, &it.value)?));
            }
            let id = expected.map_or_else(drawn, str::to_owned);
            let value = keys::written(&Marker { id });
            let put = PutRequest { key: key.clone().into(), value, lease: 0 };
            let absent = Compare::created(key.clone().into(), 0);
            match client.transaction(vec![absent], vec![Operation::Put(put)]).await {
                Ok(_) => {}
                Err(error) if error.is_of_the_request() => {
                    self.tell(&error.into());
                    return Ok(None);
                }
                Err(error) => return Err(error.into()),
            }
        }
        Ok(None)
    }

    /// The services of the other edges, and those that were published.
    async fn services_of_others(&self, client: &Client) -> Result<BTreeSet<String>, Fault> {
        let others = self.known.others(&self.settings.name).flat_map(|it| it.services.clone());
        let mut services: BTreeSet<String> = others.collect();
        if let Some(version) = self.known.current()
            && let Ok(version) = read_version(client, &self.keys, version).await?
        {
            services.extend(version.services);
        }
        Ok(services)
    }
}

/// What is in force, for an edge that starts for the first time; none where nothing is.
///
/// # Errors
/// Why it cannot be told.
pub async fn fetch_published(settings: &Settings) -> Result<Option<Published>, Fault> {
    let keys = Keys { prefix: settings.prefix.clone() };
    let (client, _) = Client::connect(settings, 0).await?;
    if let Some(expected) = &settings.id
        && let Some(it) = client.range(&keys.marker(), "").await?.kvs.first()
    {
        let Marker { id } = keys::read("the identity of a cluster", &keys.marker(), &it.value)?;
        if id != *expected {
            let why = format!("it is `{id}`, and this edge is one of `{expected}`");
            return Err(Fault::Foreign { prefix: keys.prefix, why });
        }
    }
    let mut known = Known::default();
    for it in &client.range(&keys.current(), "").await?.kvs {
        known.learn(&keys, it)?;
    }
    let Some(version) = known.current() else { return Ok(None) };
    let Version { text, .. } = read_version(&client, &keys, version).await??;
    Ok(Some(Published { version, text, name: None }))
}

fn listed(names: &BTreeSet<String>) -> String {
    let names: Vec<String> = names.iter().map(|name| format!("`{name}`")).collect();
    names.join(", ")
}
