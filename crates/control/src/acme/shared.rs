//! What edges of a cluster share of their certificates, in its store.
//!
//! | key below `acme/` | value | who writes it | until |
//! |---|---|---|---|
//! | `accounts/ISSUER` | the account and its key | who has `locks/ISSUER/account` | |
//! | `certificates/ISSUER/NAME` | [`Record`]: certificate, key, order | who has its lock | |
//! | `locks/ISSUER/NAME` | [`Holder`]: the edge that asks | that edge | its lease ends |
//! | `challenges/ISSUER/NAME` | [`Proof`] for the authority | who has its lock | that ends |
//!
//! ISSUER is made of the directory of the authority ([`Issuer::name`]).

use std::{collections::BTreeMap, sync::Arc, time::Duration};

use loadline_core::{
    acme::{Lock, SPACING_S, Window},
    fleet::acme::Issuer,
    state::Asking,
};
use serde::{Deserialize, Serialize};
use tokio::time::sleep;

use super::{account::Kept, disk::Progress, fault::Fault, issued::now_s};
use crate::cluster::{
    keys::written,
    keyspace::{Entry, Hold, Keyspace, Write},
};

/// How it stands with a certificate.
#[derive(Clone, Debug, Default, Deserialize, Serialize)]
pub(super) struct Record {
    /// How the attempt to get the next one stands.
    #[serde(flatten)]
    pub(super) progress: Progress,
    /// The certificate; none where there is none yet.
    pub(super) certificate: Option<Stored>,
}

/// A certificate that all edges show.
#[derive(Clone, Debug, Deserialize, Serialize)]
pub(super) struct Stored {
    /// It and its key, in PEM.
    pub(super) pem: String,
    /// When it was issued, in seconds since 1970.
    pub(super) issued_s: u64,
    /// The edge that asked for it.
    pub(super) issued_by: String,
    /// When the authority is asked next when to renew it, in seconds since 1970.
    pub(super) ask_s: u64,
    /// When the authority wants it to be renewed: from, to.
    pub(super) suggested: Option<(u64, u64)>,
}

/// The holder of a lock.
#[derive(Clone, Debug, Deserialize, Serialize)]
struct Holder {
    edge: String,
    since_s: u64,
}

/// The proof shown to an authority that verifies a name.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "kebab-case")]
pub(super) enum Proof {
    /// A response (RFC 8555, section 8.3).
    #[serde(rename = "http-01")]
    Http01 { token: String, key_authorization: String },
    /// A certificate (RFC 8737), which each edge makes of the digest of the key authorization.
    #[serde(rename = "tls-alpn-01")]
    TlsAlpn01 { digest: Vec<u8> },
}

/// The part of the store that is about certificates.
pub(crate) const PART: &str = "acme/";

/// The keys of one authority in the store.
#[derive(Clone, Debug)]
pub(super) struct Shared {
    pub(super) keyspace: Arc<Keyspace>,
    issuer: String,
}

impl Shared {
    pub(super) fn of(issuer: &Issuer, keyspace: &Arc<Keyspace>) -> Self {
        Self { keyspace: keyspace.clone(), issuer: issuer.name() }
    }

    fn key(&self, kind: &str, name: &str) -> String {
        format!("{kind}/{}/{name}", self.issuer)
    }

    fn account_key(&self) -> String {
        format!("accounts/{}", self.issuer)
    }

    /// The account with the revision at which it was written; 0 where there is none.
    pub(super) fn account(&self) -> Result<(i64, Option<Kept>), Fault> {
        let Some(entry) = self.keyspace.get(&self.account_key()) else { return Ok((0, None)) };
        let kept = read(&self.account_key(), &entry.value)?;
        Ok((entry.revision, Some(kept)))
    }

    /// Locks the account, if it still has this revision and nobody else changes it.
    pub(super) async fn lock_account(&self, revision: i64) -> Result<Option<Hold>, Fault> {
        // No name of a certificate is without a dot.
        let lock = self.key(LOCKS, "account");
        self.lock(&lock, (&self.account_key(), revision)).await
    }

    pub(super) async fn keep_account(&self, hold: &Hold, kept: &Kept) -> Result<(), Fault> {
        let write = Write::Put(self.account_key(), written(kept));
        hold.write(vec![write]).await.map_err(Fault::local)
    }

    pub(super) async fn forget_account(&self, revision: i64) -> Result<(), Fault> {
        let Some(hold) = self.lock_account(revision).await? else { return Ok(()) };
        let forgotten = hold.write(vec![Write::Remove(self.account_key())]).await;
        hold.release().await;
        forgotten.map_err(Fault::local)
    }

    async fn lock(&self, lock: &str, unchanged: (&str, i64)) -> Result<Option<Hold>, Fault> {
        let holder = Holder { edge: self.keyspace.edge().to_owned(), since_s: now_s() };
        let locked = self.keyspace.lock(lock, written(&holder), unchanged).await;
        locked.map_err(Fault::local)
    }
}

/// The keys of one certificate in the store.
#[derive(Clone, Debug)]
pub(super) struct Place {
    pub(super) shared: Shared,
    name: String,
}

impl Place {
    pub(super) fn of(shared: &Shared, name: &str) -> Self {
        Self { shared: shared.clone(), name: name.to_owned() }
    }

    /// The revision at which it was written last; 0 where nothing was.
    pub(super) fn revision(&self) -> i64 {
        let key = self.shared.key(CERTIFICATES, &self.name);
        self.shared.keyspace.get(&key).map_or(0, |entry| entry.revision)
    }

    /// The record of the certificate. An unreadable one counts as missing.
    pub(super) fn record(&self) -> Record {
        let key = self.shared.key(CERTIFICATES, &self.name);
        let Some(entry) = self.shared.keyspace.get(&key) else { return Record::default() };
        read(&key, &entry.value)
            .inspect_err(|fault| tracing::warn!("acme: {fault}"))
            .unwrap_or_default()
    }

    /// The key of what an authority is shown of it.
    pub(super) fn proof_key(&self) -> String {
        self.shared.key(CHALLENGES, &self.name)
    }

    /// Who has the lock; none where nobody has.
    pub(super) fn asking(&self) -> Option<Asking> {
        let key = self.shared.key(LOCKS, &self.name);
        let entry = self.shared.keyspace.get(&key)?;
        let holder: Option<Holder> = read(&key, &entry.value).ok();
        holder.map(|Holder { edge, since_s }| Asking { edge, since_s })
    }

    /// Whether the authority may be asked, for who has not got the lock.
    pub(super) fn state(&self) -> Lock {
        let lock = self.shared.key(LOCKS, &self.name);
        match self.shared.keyspace.get(&lock) {
            _ if !self.shared.keyspace.is_connected() => Lock::Unknown,
            Some(_) => Lock::Others,
            None => Lock::Free,
        }
    }

    /// Takes the lock, if nobody has it and nothing was written since `revision`.
    /// What was stored then stays, but for what is changed.
    pub(super) async fn lock(
        &self,
        revision: i64,
        stored: Option<Stored>,
    ) -> Result<Option<Locked>, Fault> {
        let [lock, key] = [LOCKS, CERTIFICATES].map(|kind| self.shared.key(kind, &self.name));
        let hold = self.shared.lock(&lock, (&key, revision)).await?;
        Ok(hold.map(|hold| Locked { place: self.clone(), hold, stored }))
    }
}

/// The right to ask the authority for a certificate, and to write of it.
#[derive(Debug)]
pub(super) struct Locked {
    place: Place,
    hold: Hold,
    stored: Option<Stored>,
}

impl Locked {
    /// Returns when another edge may have the right.
    pub(super) async fn lost(&self) {
        self.hold.renew_until_lost().await;
    }

    pub(super) async fn release(&self) {
        self.hold.release().await;
    }

    pub(super) async fn keep_progress(&self, progress: &Progress) -> Result<(), Fault> {
        let (progress, certificate) = (progress.clone(), self.stored.clone());
        self.put(&Record { progress, certificate }).await
    }

    /// For all edges, in the place of the order that it came by.
    pub(super) async fn keep_certificate(&self, pem: &str) -> Result<(), Fault> {
        let stored = Stored {
            pem: pem.to_owned(),
            issued_s: now_s(),
            issued_by: self.hold.keyspace().edge().to_owned(),
            ask_s: 0,
            suggested: None,
        };
        self.put(&Record { progress: renewed(), certificate: Some(stored) }).await
    }

    /// Notes when to renew, if the authority has said so, and when it is asked again.
    pub(super) async fn inform(
        &self,
        progress: &Progress,
        (window, ask_s): (Option<Window>, u64),
    ) -> Result<(), Fault> {
        let Some(stored) = self.stored.clone() else { return Ok(()) };
        let window = window.map(|it| (it.start_s, it.end_s));
        let certificate = Stored { ask_s, suggested: window.or(stored.suggested), ..stored };
        let progress = progress.clone();
        self.put(&Record { progress, certificate: Some(certificate) }).await
    }

    async fn put(&self, record: &Record) -> Result<(), Fault> {
        let key = self.place.shared.key(CERTIFICATES, &self.place.name);
        self.write(Write::Put(key, written(record))).await
    }

    /// Has all edges show the proof while the lock is held. They have it when this returns, unless
    /// the store is slow for them.
    pub(super) async fn prove(&self, proof: &Proof) -> Result<(), Fault> {
        self.write(Write::PutForNow(self.place.proof_key(), written(proof))).await?;
        if self.hold.keyspace().has_others() {
            sleep(SPREAD).await;
        }
        Ok(())
    }

    async fn write(&self, write: Write) -> Result<(), Fault> {
        self.hold.write(vec![write]).await.map_err(Fault::local)
    }
}

/// How it stands after a certificate was issued.
pub(super) fn renewed() -> Progress {
    Progress { not_before_s: now_s() + SPACING_S, ..Progress::default() }
}

/// What the authorities are shown, by the keys.
pub(super) fn proofs(found: Vec<(String, Entry)>) -> BTreeMap<String, Proof> {
    let read = |(key, entry): (String, Entry)| {
        let proof = read(&key, &entry.value);
        let proof = proof.inspect_err(|fault| tracing::warn!("acme: {fault}")).ok()?;
        Some((key, proof))
    };
    found.into_iter().filter_map(read).collect()
}

/// A value of the store. What is wrong with it may be a part of a key, and is not told.
fn read<T: for<'a> Deserialize<'a>>(key: &str, value: &[u8]) -> Result<T, Fault> {
    let wrong = |_| Fault::local(format!("the key `acme/{key}` of the store cannot be read"));
    serde_json::from_slice(value).map_err(wrong)
}

/// A certificate in the store, for people and programs; its key is not shown.
#[derive(Clone, Debug, Default, Deserialize, Serialize)]
pub struct CertificateInfo {
    /// The DNS name it is for.
    pub name: String,
    /// Who issues it, as in the names of keys.
    pub issuer: String,
    /// When it was issued, in seconds since 1970; 0 where there is none yet.
    pub issued_s: u64,
    /// The edge that asked for it.
    pub issued_by: Option<String>,
    /// The edge that is asking for another one now.
    pub asking: Option<Asking>,
}

/// The certificates among these keys below `acme/`, by their names; what cannot be read is noted.
pub(crate) fn overview<'a>(
    entries: impl Iterator<Item = (&'a str, &'a [u8])>,
    unreadable: &mut Vec<String>,
) -> Vec<CertificateInfo> {
    let mut all = BTreeMap::<(String, String), CertificateInfo>::new();
    for (key, value) in entries {
        let mut parts = key.splitn(3, '/');
        let (Some(kind), Some(issuer), Some(name)) = (parts.next(), parts.next(), parts.next())
        else {
            continue;
        };
        let of = (name.to_owned(), issuer.to_owned());
        let noted = match kind {
            CERTIFICATES => read(key, value).map(|Record { certificate, .. }| {
                let info = all.entry(of).or_default();
                info.issued_s = certificate.as_ref().map_or(0, |it| it.issued_s);
                info.issued_by = certificate.map(|it| it.issued_by);
            }),
            LOCKS if name.contains('.') => read(key, value).map(|Holder { edge, since_s }| {
                all.entry(of).or_default().asking = Some(Asking { edge, since_s });
            }),
            _ => Ok(()),
        };
        unreadable.extend(noted.err().map(|fault| fault.to_string()));
    }
    let named = |((name, issuer), info)| CertificateInfo { name, issuer, ..info };
    all.into_iter().map(named).collect()
}

const CERTIFICATES: &str = "certificates";
const LOCKS: &str = "locks";
const CHALLENGES: &str = "challenges";

/// What the keys of what authorities are shown begin with.
pub(super) const PROOFS: &str = "challenges/";

/// How long the edges are given to hear of a proof. One that has not may still be asked for a token
/// of http-01, and looks for it in the store then.
const SPREAD: Duration = Duration::from_millis(500);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_overview_has_who_asks_and_who_asked_and_no_key() {
        let certificate = Stored {
            pem: "SECRET".to_owned(),
            issued_s: 7,
            issued_by: "edge-1".to_owned(),
            ask_s: 0,
            suggested: None,
        };
        let record = Record { progress: Progress::default(), certificate: Some(certificate) };
        let holder = Holder { edge: "edge-2".to_owned(), since_s: 9 };
        let values = [
            ("accounts/ca.test", b"SECRET".to_vec()),
            ("certificates/ca.test/a.test", written(&record)),
            ("certificates/ca.test/b.test", b"{\"pem\":\"SECRET".to_vec()),
            ("locks/ca.test/a.test", written(&holder)),
            ("locks/ca.test/account", written(&holder)),
        ];
        let mut unreadable = Vec::new();
        let found = overview(values.iter().map(|(key, value)| (*key, &**value)), &mut unreadable);
        let told = serde_json::to_string(&(&found, &unreadable)).unwrap();
        assert!(!told.contains("SECRET"), "{told}");
        assert_eq!((found.len(), unreadable.len()), (1, 1), "{told}");
        assert_eq!((&*found[0].name, found[0].issued_s), ("a.test", 7));
        assert_eq!(found[0].issued_by.as_deref(), Some("edge-1"));
        assert_eq!(found[0].asking.as_ref().map(|it| &*it.edge), Some("edge-2"));
    }

    #[test]
    fn what_an_authority_is_shown_is_read_as_it_was_written() {
        let (token, key_authorization) = ("t".to_owned(), "t.thumbprint".to_owned());
        let http = Proof::Http01 { token, key_authorization };
        let tls = Proof::TlsAlpn01 { digest: vec![1, 2, 3] };
        let entry = |value| Entry { revision: 1, value };
        let [a, b, c] = ["a", "b", "c"].map(str::to_owned);
        let found = vec![
            (a.clone(), entry(written(&http))),
            (b.clone(), entry(written(&tls))),
            (c, entry(b"{".to_vec())),
        ];
        assert_eq!(proofs(found), [(a, http), (b, tls)].into());
    }
}
