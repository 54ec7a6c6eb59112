//! The certificates to get, and when each is requested.

mod tracked;

use std::{collections::BTreeMap, io, path::Path, sync::Arc, time::Duration};

use loadline_core::{
    acme::{Task, Window},
    fleet::{
        Fleet,
        acme::{Issuer, Storage},
    },
    state::AcmeCertificate,
};
use tokio::{sync::watch, task::JoinSet, time::sleep};

use self::tracked::Tracked;
use super::{
    Front, View,
    account::Authority,
    disk::{Folder, Progress},
    fault::Fault,
    issued::{Issued, now_s, validation},
    shared::{PROOFS, Place, Proof, Shared, proofs},
};
use crate::{admin::LiveConfiguration, cluster::keyspace::Keyspace};

/// Asks for certificates, again and again.
pub(super) struct Agent {
    front: Arc<dyn Front>,
    view: View,
    /// What edges share; none where this one is alone.
    keyspace: Option<Arc<Keyspace>>,
    /// What the authorities are shown for orders of any edge, by the keys.
    proofs: BTreeMap<String, Proof>,
    /// Authorities by folder.
    authorities: BTreeMap<String, Arc<Authority>>,
    /// Certificates by file.
    certificates: BTreeMap<String, Tracked>,
    /// Failed attempts by name, for files that are no longer asked for: other settings of an issuer
    /// may mean another file.
    former_failures: BTreeMap<String, u64>,
    /// Folders that another process holds, or that cannot be used, are tried again.
    has_all: bool,
    under_way: JoinSet<(String, Done)>,
}

/// The result of a task that was under way.
enum Done {
    Attempt(Result<Issued, Fault>, Progress),
    /// When to renew, and when to ask again.
    Information(Option<Window>, u64),
    /// Whether the state was written to the store of the cluster; the fault if not.
    Shared(Option<Fault>),
}

impl Agent {
    pub(super) fn new(front: Arc<dyn Front>, view: View, keyspace: Option<Arc<Keyspace>>) -> Self {
        Self {
            front,
            view,
            keyspace,
            proofs: BTreeMap::new(),
            authorities: BTreeMap::new(),
            certificates: BTreeMap::new(),
            former_failures: BTreeMap::new(),
            has_all: true,
            under_way: JoinSet::new(),
        }
    }

    /// Never ends.
    pub(super) async fn run(
        mut self,
        site: &Arc<LiveConfiguration>,
        mut reloads: watch::Receiver<()>,
    ) {
        let mut changes = self.keyspace.as_ref().map(|keyspace| keyspace.changes());
        self.follow(&site.file());
        loop {
            self.begin_due();
            let wait = self.wait();
            tokio::select! {
                Some(done) = self.under_way.join_next() => {
                    // One that panicked has said so on its own, and is not tried again.
                    if let Ok((file, done)) = done {
                        self.conclude(&file, done);
                    }
                }
                () = sleep(wait) => {
                    if !self.has_all {
                        self.follow(&site.file());
                    }
                }
                Ok(()) = reloads.changed() => self.follow(&site.file()),
                () = changed(&mut changes) => self.take_in(),
            }
        }
    }

    /// Takes in what listeners name now.
    fn follow(&mut self, fleet: &Fleet) {
        let mut wanted: BTreeMap<String, (String, Arc<Issuer>)> = BTreeMap::new();
        for acme in fleet.listeners.iter().filter_map(|it| it.tls.as_ref()?.acme.as_ref()) {
            for name in &acme.names {
                let named = || (name.clone(), acme.issuer.clone());
                wanted.entry(acme.issuer.certificate(name)).or_insert_with(named);
            }
        }
        let stays = |file: &String, of: &Issuer| {
            wanted.get(file).is_some_and(|(_, issuer)| **issuer == *of)
        };
        self.certificates.retain(|file, it| stays(file, it.issuer()));
        let used = |folder: &String| {
            let mut issuers = self.certificates.values().map(|it| it.issuer().folder());
            issuers.any(|it| it == *folder)
        };
        self.authorities.retain(|folder, _| used(folder));
        let former = &mut self.former_failures;
        self.view.all().retain(|file, it| {
            let is_wanted = wanted.contains_key(file);
            if !is_wanted && it.failures > 0 {
                *former.entry(it.name.clone()).or_default() += it.failures;
            }
            is_wanted
        });
        let had_all = std::mem::replace(&mut self.has_all, true);
        for (file, (name, issuer)) in wanted {
            if self.certificates.contains_key(&file) {
                continue;
            }
            match self.authority(&issuer, had_all) {
                Some(authority) => self.track(&file, name, authority),
                None => self.has_all = false,
            }
        }
    }

    /// The authority with its folder, if that can be had now.
    fn authority(&mut self, issuer: &Arc<Issuer>, is_news: bool) -> Option<Arc<Authority>> {
        let path = issuer.folder();
        if let Some(known) = self.authorities.get(&path).filter(|it| *it.issuer == **issuer) {
            return Some(known.clone());
        }
        let opened = Folder::open(Path::new(&path)).and_then(|folder| {
            let wrong = || io::Error::new(io::ErrorKind::WouldBlock, "another process uses it");
            let keyspace = self.keyspace.as_ref().filter(|_| issuer.storage == Storage::Cluster);
            let shared = keyspace.map(|keyspace| Shared::of(issuer, keyspace));
            Authority::new(issuer.clone(), folder.ok_or_else(wrong)?, shared)
        });
        match opened {
            Ok(authority) => {
                let authority = Arc::new(authority);
                self.authorities.insert(path, authority.clone());
                Some(authority)
            }
            Err(error) => {
                if is_news {
                    tracing::warn!(folder = path, %error, "acme: waiting for the state directory");
                }
                None
            }
        }
    }

    fn track(&mut self, file: &str, name: String, authority: Arc<Authority>) {
        let held = authority.folder.certificate(&name).and_then(|pem| {
            let read = Issued::read(&pem, &name);
            read.inspect_err(|fault| tracing::warn!(file, %fault, "acme: bad certificate")).ok()
        });
        if held.is_some() {
            // Another process may have put it there since the listener began.
            self.show(file);
        }
        let former = &mut self.former_failures;
        self.view.all().entry(file.to_owned()).or_insert_with(|| AcmeCertificate {
            name: name.clone(),
            file: file.to_owned(),
            failures: former.remove(&name).unwrap_or_default(),
            ..Default::default()
        });
        self.certificates.insert(file.to_owned(), Tracked::new(name, authority, held));
        self.take_in_of(file);
    }

    fn show(&self, file: &str) {
        if let Err(error) = self.front.show_issued(file) {
            tracing::warn!(file, error, "acme: clients do not get the certificate yet");
        }
    }

    /// Takes in what the store of the cluster has now.
    fn take_in(&mut self) {
        self.prove();
        let files: Vec<String> = self.certificates.keys().cloned().collect();
        files.iter().for_each(|file| self.take_in_of(file));
    }

    fn take_in_of(&mut self, file: &str) {
        let Some(tracked) = self.certificates.get_mut(file) else { return };
        match tracked.take_in() {
            Ok(false) => {}
            Ok(true) => self.show(file),
            Err(error) => tracing::warn!(file, %error, "acme: certificate not kept on disk"),
        }
        self.tell(file);
    }

    /// Lets others see how it stands with a certificate.
    fn tell(&self, file: &str) {
        let Some(tracked) = self.certificates.get(file) else { return };
        let mut view = self.view.all();
        let known = view.entry(file.to_owned()).or_default();
        known.next_attempt_s = tracked.due_s();
        known.fault = tracked.fault().cloned();
        known.asking = tracked.place().and_then(Place::asking);
        (known.issued_s, known.issued_by) = tracked.issued();
    }

    /// Shows authorities what orders of any edge need, and no longer what they do not.
    fn prove(&mut self) {
        let Some(keyspace) = &self.keyspace else { return };
        let now = proofs(keyspace.below(PROOFS));
        let before = std::mem::take(&mut self.proofs);
        for (key, proof) in before.iter().filter(|(key, proof)| now.get(*key) != Some(proof)) {
            self.set_proof(key, proof, false);
        }
        for (key, proof) in now.iter().filter(|(key, proof)| before.get(*key) != Some(proof)) {
            self.set_proof(key, proof, true);
        }
        self.proofs = now;
    }

    fn set_proof(&self, key: &str, proof: &Proof, is_there: bool) {
        let digest = match proof {
            Proof::Http01 { token, key_authorization } => {
                let answer = is_there.then_some(&**key_authorization);
                return self.front.answer_challenge(token, answer);
            }
            Proof::TlsAlpn01 { digest } => digest,
        };
        let of = |tracked: &Tracked| tracked.place().is_some_and(|it| it.proof_key() == key);
        for (file, tracked) in self.certificates.iter().filter(|(_, tracked)| of(tracked)) {
            let pair = is_there.then(|| validation(&tracked.name, digest)).transpose();
            let shown = pair.map_err(|fault| fault.to_string());
            if let Err(error) = shown.and_then(|pair| self.front.validate_with(file, pair)) {
                tracing::warn!(file, error, "acme: the challenge tls-alpn-01 cannot be answered");
            }
        }
    }

    /// Begins with what is due, a few at a time.
    fn begin_due(&mut self) {
        let now_s = now_s();
        for (file, tracked) in &mut self.certificates {
            if self.under_way.len() >= AT_ONCE {
                return;
            }
            if tracked.is_busy {
                continue;
            }
            tracked.warn_if_overdue(now_s);
            tracked.is_busy = true;
            match tracked.task(now_s) {
                Task::Lock => {
                    let shared = tracked.under_lock(file, self.front.clone(), now_s);
                    self.under_way.spawn_local(shared);
                }
                Task::RenewalInfo => drop(self.under_way.spawn_local(tracked.ask(file))),
                Task::Attempt => {
                    let attempt = tracked.attempt(file, self.front.clone(), None);
                    let file = file.clone();
                    self.under_way.spawn_local(async move {
                        let (outcome, progress) = attempt.run().await;
                        (file, Done::Attempt(outcome, progress))
                    });
                }
                Task::Store | Task::Wait(_) => tracked.is_busy = false,
            }
        }
    }

    /// How long there is nothing to begin with.
    fn wait(&self) -> Duration {
        let now_s = now_s();
        let idle = self.certificates.values().filter(|it| !it.is_busy);
        let next_s = match self.under_way.len() {
            AT_ONCE.. => None,
            _ => idle.map(|it| it.next_s(now_s)).min(),
        };
        let wait_s = next_s.map_or(LONGEST_SLEEP_S, |at| at.saturating_sub(now_s));
        // The clock of the machine may be set meanwhile.
        let longest_s = if self.has_all { LONGEST_SLEEP_S } else { FOLDER_WAIT_S };
        Duration::from_secs(wait_s.min(longest_s))
    }

    fn conclude(&mut self, file: &str, done: Done) {
        let Some(tracked) = self.certificates.get_mut(file) else { return };
        tracked.is_busy = false;
        let mut view = self.view.all();
        let known = view.entry(file.to_owned()).or_default();
        match done {
            Done::Information(window, ask_s) => tracked.inform(window, ask_s),
            Done::Attempt(Ok(issued), progress) => {
                known.issued += 1;
                tracked.trouble = None;
                tracked.renew(issued, progress);
            }
            Done::Attempt(Err(_), progress) => {
                known.failures += 1;
                (tracked.trouble, tracked.progress) = (None, progress);
            }
            Done::Shared(fault) => {
                let fault = fault.map(|fault| fault.to_string());
                if let Some(fault) = &fault {
                    tracked.postpone();
                    // Once, until it goes well again or something else is wrong.
                    if tracked.trouble.as_ref() != Some(fault) {
                        tracing::warn!(file, "acme: left to the other edges: {fault}");
                    }
                }
                tracked.trouble = fault;
            }
        }
        drop(view);
        self.take_in_of(file);
    }
}

/// Waits until more is known; for ever where there is no store.
async fn changed(changes: &mut Option<watch::Receiver<i64>>) {
    if let Some(changes) = changes
        && changes.changed().await.is_ok()
    {
        return;
    }
    std::future::pending::<()>().await;
}

/// Certificates that are asked for at a time. Authorities take a few hundred orders in some hours.
const AT_ONCE: usize = 8;

const LONGEST_SLEEP_S: u64 = 60;
/// How soon a folder is tried again that another process holds: one that is being replaced.
const FOLDER_WAIT_S: u64 = 2;
