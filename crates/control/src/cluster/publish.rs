//! What an operator does with the store: publish a configuration, roll it back, look at the edges.

use std::time::{SystemTime, UNIX_EPOCH};

use serde::{Deserialize, Serialize};

use super::{
    EdgeEntry, Fault, Published, Refusal, Settings, SharedServiceInfo, Version,
    agent::read_version,
    etcd::{
        Client, EtcdError,
        message::{Compare, DeleteRangeRequest, KeyValue, Operation, PutRequest},
    },
    keys::{self, Keys, ValueError},
    shares,
};
use crate::acme::{self, CertificateInfo};

/// A connection to the store of a cluster.
pub struct Store {
    client: Client,
    keys: Keys,
}

/// What is in the store, for people and programs.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct Overview {
    /// The member of etcd that was asked.
    pub endpoint: String,
    /// The version of etcd.
    pub etcd: String,
    /// Bytes of its database.
    pub bytes: i64,
    /// Whether it has a leader.
    pub has_leader: bool,
    /// Alarms and the like, as etcd says them.
    pub alarms: Vec<String>,
    /// The identity of the cluster.
    pub cluster: Option<String>,
    /// The version in force.
    pub current: Option<u64>,
    /// Versions that can be rolled back to, the oldest first.
    pub versions: Vec<VersionInfo>,
    /// The name of the edge that computes shares; none if nothing is shared.
    pub elected: Option<String>,
    /// By name.
    pub edges: Vec<EdgeInfo>,
    /// The services with groups that are shared.
    pub shared: Vec<SharedServiceInfo>,
    /// Certificates by ACME; their keys are not among it.
    #[serde(default)]
    pub certificates: Vec<CertificateInfo>,
    /// Values that nobody can read.
    pub unreadable: Vec<String>,
}

impl Overview {
    /// The version that was put in force since this one was; none where this one still is.
    #[must_use]
    pub fn superseded(&self, version: u64) -> Option<u64> {
        self.current.filter(|current| *current != version)
    }

    /// Whether an edge runs this version, and not another text that had its number in a store that
    /// was before this one.
    #[must_use]
    pub fn is_run_by(&self, edge: &EdgeEntry, version: u64) -> bool {
        edge.configuration == version && self.is_of(version, edge.digest.as_deref())
    }

    /// Why an edge has refused this version, if it has.
    #[must_use]
    pub fn refusal_by<'a>(&self, edge: &'a EdgeEntry, version: u64) -> Option<&'a Refusal> {
        let refused = edge.refused.as_ref().filter(|it| it.version == version)?;
        self.is_of(version, refused.digest.as_deref()).then_some(refused)
    }

    /// Whether this may be the digest of a version: edges of older releases tell none.
    fn is_of(&self, version: u64, digest: Option<&str>) -> bool {
        let stored = self.versions.iter().find(|it| it.version == version);
        stored.zip(digest).is_none_or(|(stored, digest)| stored.digest == digest)
    }
}

/// A version, without its text.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct VersionInfo {
    /// Number of the version.
    pub version: u64,
    /// Seconds since 1970, by the clock of who published it.
    pub at_s: u64,
    /// Whose machine that was.
    pub by: String,
    /// Bytes of its text.
    pub bytes: usize,
    /// The digest of its text, as edges tell of what they run.
    pub digest: String,
}

/// An edge.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct EdgeInfo {
    /// Its name in the cluster.
    pub name: String,
    /// What it tells of itself.
    #[serde(flatten)]
    pub member: EdgeEntry,
    /// Seconds that its lease has left.
    pub lease_s: i64,
}

/// Why it could not be done.
#[derive(Debug, thiserror::Error)]
pub enum StoreError {
    /// The store cannot be reached, or refuses.
    #[error(transparent)]
    Fault(#[from] Fault),
    /// Somebody else has published meanwhile.
    #[error("somebody else has published meanwhile: look at `loadline cluster status`, and again")]
    Conflict,
    /// There is no such version.
    #[error("there is no version {0}; there are: {1}")]
    NoVersion(u64, String),
    /// There is nothing to go back to.
    #[error("no version is older than the one in force")]
    NothingOlder,
    /// Nobody can read which version is in force.
    #[error("{0}; remove it (`etcdctl del {key}`), and publish again", key = .0.key)]
    Current(ValueError),
    /// The text is more than the store takes.
    #[error("the file has {0} bytes; etcd takes {max} at most", max = TEXT_MAX)]
    TooLarge(usize),
}

impl From<EtcdError> for StoreError {
    fn from(error: EtcdError) -> Self {
        Self::Fault(error.into())
    }
}

impl From<ValueError> for StoreError {
    fn from(error: ValueError) -> Self {
        Self::Fault(error.into())
    }
}

/// The version in force, with the revision at which it was written; 0 and 0 where there is none.
struct Current {
    version: u64,
    revision: i64,
}

impl Store {
    /// Connects to it.
    ///
    /// # Errors
    /// Why no member answers.
    pub async fn open(settings: &Settings) -> Result<Self, StoreError> {
        let (client, _) = Client::connect(settings, 0).await?;
        Ok(Self { client, keys: Keys { prefix: settings.prefix.clone() } })
    }

    /// Puts a text in force for all edges; the number of its version. `services` are those that an
    /// edge has with it, `by` is who publishes.
    ///
    /// # Errors
    /// The store refuses, or somebody else was faster. Nothing has changed then.
    pub async fn publish(
        &self,
        text: &str,
        services: Vec<String>,
        by: &str,
    ) -> Result<u64, StoreError> {
        if text.len() > TEXT_MAX {
            return Err(StoreError::TooLarge(text.len()));
        }
        let current = self.current().await?;
        let numbers = self.numbers().await?;
        let highest = numbers.last().copied().unwrap_or(0).max(current.version);
        let version = highest.max(self.highest_run().await?).saturating_add(1);
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        let (text, by) = (text.to_owned(), by.to_owned());
        let replaces = Some(current.version).filter(|version| *version > 0);
        let value = keys::written(&Version { text, at_s: now.as_secs(), by, services, replaces });
        let key = self.keys.version(version);
        let new = PutRequest { key: key.clone().into(), value, lease: 0 };
        let mut operations = vec![Operation::Put(new), self.points_to(version)];
        let old = numbers.len().saturating_sub(VERSIONS_KEPT - 1);
        let old = numbers[..old].iter().filter(|number| **number != current.version);
        operations.extend(old.map(|number| {
            Operation::Delete(DeleteRangeRequest { key: self.keys.version(*number).into() })
        }));
        let compare = vec![self.is_still(&current), Compare::created(key.into(), 0)];
        let done = self.client.transaction(compare, operations).await?;
        if done.succeeded { Ok(version) } else { Err(StoreError::Conflict) }
    }

    /// Puts an older version in force again: this one, or the one that was in force before that
    /// which is. Tells which.
    ///
    /// # Errors
    /// There is none, the store refuses, or somebody else was faster. Nothing has changed then.
    pub async fn roll_back(&self, version: Option<u64>) -> Result<u64, StoreError> {
        let current = self.current().await?;
        let numbers = self.numbers().await?;
        let version = match version {
            Some(version) => version,
            None => {
                let published = read_version(&self.client, &self.keys, current.version).await?;
                let replaces = published.ok().and_then(|it| it.replaces);
                before(current.version, replaces, &numbers).ok_or(StoreError::NothingOlder)?
            }
        };
        if !numbers.contains(&version) {
            let numbers: Vec<String> = numbers.iter().map(ToString::to_string).collect();
            return Err(StoreError::NoVersion(version, numbers.join(", ")));
        }
        let operations = vec![self.points_to(version)];
        let done = self.client.transaction(vec![self.is_still(&current)], operations).await?;
        if done.succeeded { Ok(version) } else { Err(StoreError::Conflict) }
    }

    /// The text of a version.
    ///
    /// # Errors
    /// It is not there, or nobody can read it.
    pub async fn text(&self, version: u64) -> Result<String, StoreError> {
        Ok(read_version(&self.client, &self.keys, version).await??.text)
    }

    /// What is in the store.
    ///
    /// # Errors
    /// It cannot be reached, or refuses.
    pub async fn overview(&self) -> Result<Overview, StoreError> {
        let status = self.client.status().await?;
        let mut unreadable = Vec::new();
        let marker = self.client.range(&self.keys.marker(), "").await?;
        let marker = marker.kvs.first().map(|it| {
            keys::read::<super::Marker>("the identity of a cluster", &self.keys.marker(), &it.value)
        });
        let cluster = kept(marker, &mut unreadable).map(|marker| marker.id);
        let current = match self.current().await {
            Ok(current) => Some(current.version).filter(|version| *version > 0),
            Err(StoreError::Current(error)) => {
                unreadable.push(error.to_string());
                None
            }
            Err(error) => return Err(error),
        };
        let mut versions = Vec::new();
        for it in self.client.prefix(&self.keys.versions()).await?.kvs {
            versions.extend(kept(Some(self.info(&it)), &mut unreadable));
        }
        let members = self.client.prefix(&self.keys.members()).await?.kvs;
        let mut edges = Vec::new();
        for it in &members {
            let key = String::from_utf8_lossy(&it.key).into_owned();
            let name = key.strip_prefix(&self.keys.members()).unwrap_or(&key).to_owned();
            let member = keys::read("a member", &key, &it.value);
            let Some(member) = kept(Some(member), &mut unreadable) else { continue };
            let lease_s = self.client.left(it.lease).await?;
            edges.push(EdgeInfo { name, member, lease_s });
        }
        let shares = shares::read(&self.client, &self.keys.prefix, &mut unreadable).await?;
        let certificates = self.certificates(&mut unreadable).await?;
        Ok(Overview {
            shared: shares.services,
            certificates,
            endpoint: self.client.endpoint().to_owned(),
            etcd: status.version,
            bytes: status.bytes,
            has_leader: status.leader != 0,
            alarms: status.errors,
            cluster,
            current,
            versions,
            elected: shares.elected,
            edges,
            unreadable,
        })
    }

    /// Certificates by ACME. Who publishes need not have the right to read their keys.
    async fn certificates(
        &self,
        unreadable: &mut Vec<String>,
    ) -> Result<Vec<CertificateInfo>, StoreError> {
        let prefix = format!("{}{}", self.keys.prefix, acme::PART);
        let found = match self.client.prefix(&prefix).await {
            Ok(found) => found.kvs,
            Err(error) if error.is_denied() => {
                unreadable.push(format!("certificates by ACME: {error}"));
                return Ok(Vec::new());
            }
            Err(error) => return Err(error.into()),
        };
        let entries = found.iter().filter_map(|it| {
            let key = std::str::from_utf8(&it.key).ok()?;
            Some((key.strip_prefix(&prefix)?, &*it.value))
        });
        Ok(acme::overview(entries, unreadable))
    }

    fn info(&self, it: &KeyValue) -> Result<VersionInfo, ValueError> {
        let key = String::from_utf8_lossy(&it.key);
        let Version { text, at_s, by, .. } = keys::read("a configuration", &key, &it.value)?;
        let number = key.strip_prefix(&self.keys.versions()).and_then(|it| it.parse().ok());
        let (version, bytes) = (number.unwrap_or(0), text.len());
        let digest = Published { version, text, name: None }.digest();
        Ok(VersionInfo { version, at_s, by, bytes, digest })
    }

    async fn current(&self) -> Result<Current, StoreError> {
        let key = self.keys.current();
        let found = self.client.range(&key, "").await?;
        let Some(it) = found.kvs.first() else { return Ok(Current { version: 0, revision: 0 }) };
        let version = keys::read("the number of a version", &key, &it.value);
        let version = version.map_err(StoreError::Current)?;
        Ok(Current { version, revision: it.mod_revision })
    }

    /// The versions that are there, the oldest first.
    async fn numbers(&self) -> Result<Vec<u64>, StoreError> {
        let found = self.client.keys(&self.keys.versions()).await?;
        let number = |it: &KeyValue| {
            let key = String::from_utf8_lossy(&it.key);
            key.strip_prefix(&self.keys.versions()).and_then(|it| it.parse().ok())
        };
        Ok(found.kvs.iter().filter_map(number).collect())
    }

    /// The highest version that an edge runs: a store that has lost its data has not got it.
    async fn highest_run(&self) -> Result<u64, StoreError> {
        let members = self.client.prefix(&self.keys.members()).await?.kvs;
        let runs = members.iter().filter_map(|it| {
            let key = String::from_utf8_lossy(&it.key);
            keys::read("a member", &key, &it.value).ok().map(|it: EdgeEntry| it.configuration)
        });
        Ok(runs.max().unwrap_or(0))
    }

    fn points_to(&self, version: u64) -> Operation {
        let value = keys::written(&version);
        Operation::Put(PutRequest { key: self.keys.current().into(), value, lease: 0 })
    }

    fn is_still(&self, current: &Current) -> Compare {
        Compare::changed(self.keys.current().into(), current.revision)
    }
}

/// What was in force before this version: what it replaced, or where that is not known or not kept
/// any more, the newest of those that are older.
fn before(version: u64, replaces: Option<u64>, numbers: &[u64]) -> Option<u64> {
    let kept = replaces.filter(|number| numbers.contains(number));
    kept.or_else(|| numbers.iter().rev().find(|number| **number < version).copied())
}

/// The value; an error is added to `unreadable`.
fn kept<T>(read: Option<Result<T, ValueError>>, unreadable: &mut Vec<String>) -> Option<T> {
    read?.map_err(|error| unreadable.push(error.to_string())).ok()
}

/// Versions that can be rolled back to, that in force among them.
pub const VERSIONS_KEPT: usize = 20;

/// With what JSON adds it stays below what etcd takes at once, 1.5 MiB unless it is told otherwise.
const TEXT_MAX: usize = 1 << 20;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_edge_that_runs_another_text_of_this_number_does_not_run_the_version() {
        let published = |text: &str| Published { version: 1, text: text.to_owned(), name: None };
        let (old, new) = (published("# old").digest(), published("# new").digest());
        let by = "here".to_owned();
        let version = VersionInfo { version: 1, at_s: 0, by, bytes: 5, digest: new.clone() };
        let overview = Overview { versions: vec![version], ..Overview::default() };
        let refused = |digest| Some(Refusal { version: 1, digest, reason: "no".to_owned() });
        for (digest, is_it) in [(Some(old), false), (Some(new), true), (None, true)] {
            let refused = refused(digest.clone());
            let edge = EdgeEntry { configuration: 1, digest, refused, ..EdgeEntry::default() };
            assert_eq!(overview.is_run_by(&edge, 1), is_it, "{edge:?}");
            assert_eq!(overview.refusal_by(&edge, 1).is_some(), is_it, "{edge:?}");
            assert!(!overview.is_run_by(&edge, 2) && overview.refusal_by(&edge, 2).is_none());
        }
    }

    #[test]
    fn a_rollback_goes_back_to_what_ran_before_and_not_to_what_was_rolled_back_from() {
        let numbers = [5, 6, 7, 8];
        // 7 replaced 6 and was rolled back; 8 was published while 6 ran.
        assert_eq!(before(8, Some(6), &numbers), Some(6));
        assert_eq!(before(8, None, &numbers), Some(7), "published by an earlier release");
        assert_eq!(before(8, Some(2), &numbers), Some(7), "its text is not kept any more");
        assert_eq!(before(5, Some(4), &numbers), None);
        let old = br#"{ "text": "", "at_s": 1, "by": "here", "services": [] }"#;
        let old: Version = keys::read("a configuration", "versions/5", old).unwrap();
        assert_eq!(old.replaces, None);
    }
}
