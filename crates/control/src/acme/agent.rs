//! Which certificates there are to be, and when each is asked for.

use std::{collections::BTreeMap, io, path::Path, sync::Arc, time::Duration};

use loadline_core::{
    acme::{SPACING_S, Window, ask_again_s, wait_s},
    fleet::{Fleet, acme::Issuer},
    state::AcmeCertificate,
};
use tokio::{sync::watch, task::JoinSet, time::sleep};

use super::{
    Front, View,
    account::Authority,
    attempt::Attempt,
    disk::{Folder, KeptOrder, Progress},
    fault::Fault,
    issued::{Issued, now_s},
};
use crate::admin::LiveConfiguration;

/// Asks for certificates, again and again.
pub(super) struct Agent {
    front: Arc<dyn Front>,
    view: View,
    /// By their folders.
    authorities: BTreeMap<String, Arc<Authority>>,
    /// By their files.
    certificates: BTreeMap<String, Tracked>,
    /// Folders that another process holds, or that cannot be used, are tried again.
    has_all: bool,
    under_way: JoinSet<(String, Done)>,
}

/// A certificate that there is to be.
struct Tracked {
    name: String,
    authority: Arc<Authority>,
    held: Option<Issued>,
    progress: Progress,
    /// When its authority is asked when to renew it.
    ask_s: u64,
    is_busy: bool,
}

/// What has come of something that was under way.
enum Done {
    Attempt(Result<Issued, (Option<KeptOrder>, Fault)>),
    /// When to renew, and in how many seconds to ask again.
    Information(Option<(Window, u64)>),
}

impl Agent {
    pub(super) fn new(front: Arc<dyn Front>, view: View) -> Self {
        Self {
            front,
            view,
            authorities: BTreeMap::new(),
            certificates: BTreeMap::new(),
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
        self.certificates.retain(|file, it| stays(file, &it.authority.issuer));
        let used = |folder: &String| {
            let mut issuers = self.certificates.values().map(|it| it.authority.issuer.folder());
            issuers.any(|it| it == *folder)
        };
        self.authorities.retain(|folder, _| used(folder));
        self.view.all().retain(|file, _| wanted.contains_key(file));
        let had_all = std::mem::replace(&mut self.has_all, true);
        for (file, (name, issuer)) in wanted {
            if self.certificates.contains_key(&file) {
                continue;
            }
            match self.authority(&issuer, had_all) {
                Some(authority) => self.track(file, name, authority),
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
            Authority::new(issuer.clone(), folder.ok_or_else(wrong)?)
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

    fn track(&mut self, file: String, name: String, authority: Arc<Authority>) {
        let held = authority.folder.certificate(&name).and_then(|pem| {
            let read = Issued::read(&pem, &name);
            read.inspect_err(|fault| tracing::warn!(file, %fault, "acme: not usable")).ok()
        });
        let progress = authority.folder.progress(&name);
        if held.is_some() {
            // Another process may have put it there since the listener began.
            self.show(&file);
        }
        let known = AcmeCertificate { name: name.clone(), file, ..AcmeCertificate::default() };
        let tracked = Tracked { name, authority, held, progress, ask_s: 0, is_busy: false };
        let mut view = self.view.all();
        let known = view.entry(known.file.clone()).or_insert(known);
        known.next_attempt_s = tracked.due_s();
        self.certificates.insert(known.file.clone(), tracked);
    }

    fn show(&self, file: &str) {
        if let Err(error) = self.front.show_issued(file) {
            tracing::warn!(file, error, "acme: not shown");
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
            if tracked.held.is_some() && tracked.ask_s <= now_s {
                tracked.is_busy = true;
                self.under_way.spawn_local(tracked.ask(file));
            } else if tracked.due_s() <= now_s {
                tracked.is_busy = true;
                self.under_way.spawn_local(tracked.attempt(file, self.front.clone()));
            }
        }
    }

    /// How long there is nothing to begin with.
    fn wait(&self) -> Duration {
        let idle = self.certificates.values().filter(|it| !it.is_busy);
        let next_s = match self.under_way.len() {
            AT_ONCE.. => None,
            _ => idle.map(Tracked::next_s).min(),
        };
        let wait_s = next_s.map_or(LONGEST_SLEEP_S, |at| at.saturating_sub(now_s()));
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
            Done::Information(information) => tracked.inform(information),
            Done::Attempt(Ok(issued)) => {
                known.issued += 1;
                known.fault = None;
                tracked.renew(issued);
            }
            Done::Attempt(Err((order, fault))) => {
                known.failures += 1;
                known.fault = Some(fault.to_string());
                tracked.fail(order, &fault);
            }
        }
        known.next_attempt_s = tracked.due_s();
    }
}

impl Tracked {
    /// When to ask for another certificate.
    fn due_s(&self) -> u64 {
        let renewal_s = self.held.as_ref().map_or(0, |held| held.lifetime.renewal_s(held.draw));
        renewal_s.max(self.progress.not_before_s)
    }

    /// When there is anything to do.
    fn next_s(&self) -> u64 {
        let ask_s = self.held.as_ref().map_or(u64::MAX, |_| self.ask_s);
        ask_s.min(self.due_s())
    }

    fn attempt(
        &self,
        file: &str,
        front: Arc<dyn Front>,
    ) -> impl Future<Output = (String, Done)> + use<> {
        let attempt = Attempt {
            authority: self.authority.clone(),
            front,
            name: self.name.clone(),
            file: file.to_owned(),
            progress: self.progress.clone(),
            replaced: self.held.as_ref().and_then(|held| held.identifier.clone()),
        };
        let file = file.to_owned();
        async move { (file, Done::Attempt(attempt.run().await)) }
    }

    /// Asks when to renew (RFC 9773).
    fn ask(&self, file: &str) -> impl Future<Output = (String, Done)> + use<> {
        let identifier = self.held.as_ref().and_then(|held| held.identifier.clone());
        let (authority, file) = (self.authority.clone(), file.to_owned());
        async move {
            let Some(identifier) = identifier else { return (file, Done::Information(None)) };
            let answer = async {
                let account = authority.account().await?;
                Ok::<_, Fault>(account.renewal_info(&identifier).await?)
            };
            let answer = answer.await.inspect_err(|fault| {
                tracing::debug!(file, %fault, "acme: no renewal information");
            });
            let information = answer.ok().map(|(info, wait)| {
                let seconds = |at: i64| u64::try_from(at).unwrap_or(0);
                let window = info.suggested_window;
                let [start_s, end_s] =
                    [window.start, window.end].map(|at| seconds(at.unix_timestamp()));
                (Window { start_s, end_s }, wait.as_secs())
            });
            (file, Done::Information(information))
        }
    }

    fn inform(&mut self, information: Option<(Window, u64)>) {
        self.ask_s = now_s() + ask_again_s(information.map(|(_, wait_s)| wait_s));
        if let (Some(held), Some((window, _))) = (&mut self.held, information) {
            held.lifetime.suggested = Some(window);
        }
    }

    fn renew(&mut self, issued: Issued) {
        let (name, not_after_s) = (&self.name, issued.lifetime.not_after_s);
        tracing::info!(name, not_after_s, "acme: a certificate was issued");
        self.held = Some(issued);
        self.ask_s = 0;
        self.keep(Progress::default());
        self.progress.not_before_s = now_s() + SPACING_S;
    }

    fn fail(&mut self, order: Option<KeptOrder>, fault: &Fault) {
        let failures = self.progress.failures.saturating_add(1);
        let wait_s = wait_s(failures, self.authority.client.take_retry_after(), rand::random());
        let name = &self.name;
        tracing::warn!(name, failures, retry_in_s = wait_s, "acme: no certificate: {fault}");
        self.keep(Progress { failures, not_before_s: now_s() + wait_s, order });
    }

    fn keep(&mut self, progress: Progress) {
        self.progress = progress;
        let kept = self.authority.folder.keep_progress(&self.name, &self.progress);
        if let Err(error) = kept {
            tracing::warn!(name = self.name, %error, "acme: a restart will not know of this");
        }
    }
}

/// Certificates that are asked for at a time. Authorities take a few hundred orders in some hours.
const AT_ONCE: usize = 8;

const LONGEST_SLEEP_S: u64 = 60;
/// How soon a folder is tried again that another process holds: one that is being replaced.
const FOLDER_WAIT_S: u64 = 2;
