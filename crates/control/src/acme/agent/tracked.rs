//! A certificate to get and to renew.

use std::{io, sync::Arc, time::Duration};

use loadline_core::{
    acme::{CertificateState, Lock, Task, Window, ask_again_s},
    fleet::acme::Issuer,
};
use tokio::time::sleep;

use super::{Done, Front};
use crate::acme::{
    account::Authority,
    attempt::Attempt,
    client::with_retry_after,
    disk::Progress,
    fault::Fault,
    issued::{Issued, now_s},
    shared::{Locked, Place, Stored},
};

/// It, as far as this edge knows.
pub(super) struct Tracked {
    pub(super) name: String,
    authority: Arc<Authority>,
    held: Option<Issued>,
    pub(super) progress: Progress,
    /// Why it is left to the other edges, if it is.
    pub(super) trouble: Option<String>,
    /// When its authority is asked when to renew it.
    ask_s: u64,
    pub(super) is_busy: bool,
    /// Where it is in the store of the cluster; none where it is on this disk alone.
    place: Option<InStore>,
}

/// A certificate in the store, as this edge has taken it in.
struct InStore {
    place: Place,
    revision: i64,
    stored: Option<Stored>,
    /// Whether that which is held was issued later.
    is_unstored: bool,
    /// Since when the store is away, in seconds since 1970; none where it is not.
    away_since_s: Option<u64>,
    /// When it was told that it cannot be renewed, in seconds since 1970.
    told_s: u64,
}

impl Tracked {
    pub(super) fn new(name: String, authority: Arc<Authority>, held: Option<Issued>) -> Self {
        let place = authority.shared.as_ref().map(|shared| InStore {
            place: Place::of(shared, &name),
            // What is there was not taken in yet.
            revision: -1,
            stored: None,
            is_unstored: false,
            away_since_s: None,
            told_s: 0,
        });
        let progress = match place {
            Some(_) => Progress::default(),
            None => taken_up(authority.folder.progress(&name), &name, &authority.issuer),
        };
        let (trouble, is_busy) = (None, false);
        Self { name, authority, held, progress, trouble, ask_s: 0, is_busy, place }
    }

    /// Why there is no certificate yet, or no other one; none where the last attempt went well.
    pub(super) fn fault(&self) -> Option<&String> {
        self.trouble.as_ref().or(self.progress.fault.as_ref())
    }

    pub(super) fn issuer(&self) -> &Issuer {
        &self.authority.issuer
    }

    pub(super) fn place(&self) -> Option<&Place> {
        self.place.as_ref().map(|it| &it.place)
    }

    /// When the held certificate was issued, and the edge that asked for it.
    pub(super) fn issued(&self) -> (u64, Option<String>) {
        let stored = self.place.as_ref().and_then(|it| it.stored.as_ref());
        let noted = stored.map(|it| (it.issued_s, Some(it.issued_by.clone())));
        let held = || self.held.as_ref().map_or(0, |held| held.lifetime.not_before_s);
        noted.unwrap_or_else(|| (held(), None))
    }

    /// Takes in what the store has; whether there is another certificate to show.
    pub(super) fn take_in(&mut self) -> io::Result<bool> {
        let Some(it) = &mut self.place else { return Ok(false) };
        let is_known = it.place.shared.keyspace.is_connected();
        let revision = it.place.revision();
        if !is_known || revision == it.revision {
            return Ok(false);
        }
        let is_first = it.revision < 0;
        it.revision = revision;
        let record = it.place.record();
        (self.progress, it.stored) = (record.progress, record.certificate);
        if is_first {
            let progress = std::mem::take(&mut self.progress);
            self.progress = taken_up(progress, &self.name, &self.authority.issuer);
        }
        let issued = it.stored.as_ref().and_then(|stored| {
            let window = |(start_s, end_s)| Window { start_s, end_s };
            let mut issued = Issued::read(&stored.pem, &self.name)
                .inspect_err(|fault| tracing::warn!(self.name, %fault, "acme: bad certificate"))
                .ok()?;
            issued.lifetime.suggested = stored.suggested.map(window);
            Some(issued)
        });
        let begun_s = |issued: &Option<Issued>| issued.as_ref().map(|it| it.lifetime.not_before_s);
        it.is_unstored = begun_s(&self.held) > begun_s(&issued);
        let (Some(issued), Some(stored), false) = (issued, &it.stored, it.is_unstored) else {
            return Ok(false);
        };
        self.ask_s = stored.ask_s;
        self.held = Some(issued);
        let folder = &self.authority.folder;
        if folder.certificate(&self.name).as_deref() == Some(&*stored.pem) {
            return Ok(false);
        }
        folder.keep_certificate(&self.name, &stored.pem)?;
        Ok(true)
    }

    /// When to ask for another certificate.
    pub(super) fn due_s(&self) -> u64 {
        let renewal_s = self.held.as_ref().map_or(0, |held| held.lifetime.renewal_s(held.draw));
        renewal_s.max(self.progress.not_before_s)
    }

    /// When the next task is due, in seconds since 1970.
    pub(super) fn next_s(&self, now_s: u64) -> u64 {
        let Task::Wait(at_s) = self.task(now_s) else { return now_s };
        let is_away = self.place.as_ref().is_some_and(|it| it.away_since_s.is_some());
        if is_away { at_s.min(now_s + AWAY_S) } else { at_s }
    }

    pub(super) fn task(&self, now_s: u64) -> Task {
        self.state(self.place().map_or(Lock::Sole, Place::state)).task(now_s)
    }

    fn state(&self, lock: Lock) -> CertificateState {
        CertificateState {
            lock,
            due_s: self.due_s(),
            ask_s: self.held.as_ref().map(|_| self.ask_s),
            is_unstored: self.place.as_ref().is_some_and(|it| it.is_unstored),
        }
    }

    /// Tells people of a certificate that should have been renewed while the store was away.
    pub(super) fn warn_if_overdue(&mut self, now_s: u64) {
        let (Some(held), Some(it)) = (&self.held, &mut self.place) else { return };
        if it.place.state() != Lock::Unknown {
            it.away_since_s = None;
            return;
        }
        let is_away = *it.away_since_s.get_or_insert(now_s) + AWAY_S <= now_s;
        if is_away && held.lifetime.latest_s() <= now_s && it.told_s + TELL_AGAIN_S <= now_s {
            it.told_s = now_s;
            let (name, not_after_s) = (&self.name, held.lifetime.not_after_s);
            tracing::error!(
                name,
                not_after_s,
                days_left = not_after_s.saturating_sub(now_s) / 86_400,
                "acme: this certificate ends soon, and is not renewed while the store of the \
                 cluster is away"
            );
        }
    }

    pub(super) fn attempt(
        &self,
        file: &str,
        front: Arc<dyn Front>,
        locked: Option<Arc<Locked>>,
    ) -> Attempt {
        Attempt {
            authority: self.authority.clone(),
            front,
            name: self.name.clone(),
            file: file.to_owned(),
            progress: self.progress.clone(),
            replaced: self.held.as_ref().and_then(|held| held.identifier.clone()),
            locked,
        }
    }

    /// Asks when to renew (RFC 9773); with that, when to ask again.
    pub(super) fn ask(&self, file: &str) -> impl Future<Output = (String, Done)> + use<> {
        let identifier = self.held.as_ref().and_then(|held| held.identifier.clone());
        let (authority, file) = (self.authority.clone(), file.to_owned());
        async move {
            let Some(identifier) = identifier else {
                return (file, Done::Information(None, now_s() + ask_again_s(None)));
            };
            let answer = async {
                let account = authority.account().await?;
                Ok::<_, Fault>(account.renewal_info(&identifier).await?)
            };
            let (answer, retry_after_s) = with_retry_after(answer).await;
            let answer = answer.inspect_err(|fault| {
                tracing::debug!(file, %fault, "acme: no renewal information");
            });
            let (window, wait_s) = answer.ok().map_or((None, retry_after_s), |(info, wait)| {
                let seconds = |at: i64| u64::try_from(at).unwrap_or(0);
                let window = info.suggested_window;
                let [start_s, end_s] =
                    [window.start, window.end].map(|at| seconds(at.unix_timestamp()));
                (Some(Window { start_s, end_s }), Some(wait.as_secs()))
            });
            (file, Done::Information(window, now_s() + ask_again_s(wait_s)))
        }
    }

    /// Takes the lock, if no other edge is faster, and does what is due.
    pub(super) fn under_lock(
        &self,
        file: &str,
        front: Arc<dyn Front>,
        now_s: u64,
    ) -> impl Future<Output = (String, Done)> + use<> {
        let task = self.state(Lock::Held).task(now_s);
        let attempt = self.attempt(file, front, None);
        let (ask, file) = (self.ask(file), file.to_owned());
        let known =
            self.place.as_ref().map(|it| (it.place.clone(), it.revision, it.stored.clone()));
        async move {
            let Some((place, revision, stored)) = known else { return (file, Done::Shared(None)) };
            let locked = match place.lock(revision, stored).await {
                Ok(Some(locked)) => Arc::new(locked),
                Ok(None) => {
                    // What another edge was faster with is about to be known.
                    sleep(RETRY).await;
                    return (file, Done::Shared(None));
                }
                Err(fault) => {
                    sleep(RETRY).await;
                    return (file, Done::Shared(Some(fault)));
                }
            };
            let work = work(task, attempt, ask, &locked);
            let done = tokio::select! {
                done = work => done,
                () = locked.lost() => {
                    Done::Shared(Some(Fault::local("the store of the cluster is away")))
                }
            };
            locked.release().await;
            (file, done)
        }
    }

    /// After something came to nothing of which the store could not be told.
    pub(super) fn postpone(&mut self) {
        let not_before_s = now_s() + POSTPONED_S;
        self.progress.not_before_s = self.progress.not_before_s.max(not_before_s);
        self.ask_s = self.ask_s.max(not_before_s);
    }

    pub(super) fn inform(&mut self, window: Option<Window>, ask_s: u64) {
        self.ask_s = ask_s;
        if let (Some(held), Some(window)) = (&mut self.held, window) {
            held.lifetime.suggested = Some(window);
        }
    }

    pub(super) fn renew(&mut self, issued: Issued, progress: Progress) {
        let (name, not_after_s) = (&self.name, issued.lifetime.not_after_s);
        tracing::info!(name, not_after_s, "acme: a certificate was issued");
        (self.held, self.progress, self.ask_s) = (Some(issued), progress, 0);
    }
}

/// How it stands after attempts of a process before this one, of other edges or with other settings
/// of the issuer. After the last the next one is made at once; otherwise that it waits, and why, is
/// told. Edges of which each has settings of its own do not go on like this: it is done once, when
/// an edge begins with its settings.
fn taken_up(progress: Progress, name: &str, issuer: &Issuer) -> Progress {
    if progress.settings.as_ref().is_some_and(|failed| *failed != issuer.settings()) {
        return Progress { failures: 0, not_before_s: 0, ..progress };
    }
    let retry_in_s = progress.not_before_s.saturating_sub(now_s());
    if progress.failures > 0 && retry_in_s > 0 {
        let fault = progress.fault.as_deref().unwrap_or("the reason was not kept");
        let failures = progress.failures;
        tracing::warn!(name, failures, retry_in_s, "acme: still no certificate: {fault}");
    }
    progress
}

/// Carries out a task that is due, under the lock.
async fn work(
    task: Task,
    attempt: Attempt,
    ask: impl Future<Output = (String, Done)>,
    locked: &Arc<Locked>,
) -> Done {
    let kept = match task {
        Task::Attempt => {
            let attempt = Attempt { locked: Some(locked.clone()), ..attempt };
            let (outcome, progress) = attempt.run().await;
            return Done::Attempt(outcome, progress);
        }
        Task::RenewalInfo => match ask.await {
            (_, Done::Information(window, ask_s)) => {
                locked.inform(&attempt.progress, (window, ask_s)).await
            }
            (_, done) => return done,
        },
        Task::Store => {
            let pem = attempt.authority.folder.certificate(&attempt.name);
            match pem {
                Some(pem) => locked.keep_certificate(&pem).await,
                None => Ok(()),
            }
        }
        Task::Wait(_) | Task::Lock => Ok(()),
    };
    Done::Shared(kept.err())
}

/// From one attempt to lock to the next.
const RETRY: Duration = Duration::from_secs(1);

/// How long this edge leaves a certificate to the others after that, in seconds.
const POSTPONED_S: u64 = 10;

/// How long the store may be away, in seconds, before that is told of a certificate.
const AWAY_S: u64 = 10;

/// From one message about the same to the next, in seconds.
const TELL_AGAIN_S: u64 = 3600;

#[cfg(test)]
mod tests {
    use loadline_core::fleet::acme::{Challenge, Storage};

    use super::*;

    #[test]
    fn what_failed_with_settings_that_were_corrected_is_tried_at_once() {
        let issuer = Issuer {
            directory: "https://ca.test/dir".to_owned(),
            email: None,
            authorities: None,
            external_account: None,
            challenge: Challenge::Http01,
            state_dir: "/s".to_owned(),
            storage: Storage::Disk,
        };
        let corrected = Issuer { challenge: Challenge::TlsAlpn01, ..issuer.clone() };
        let progress = |settings| Progress {
            failures: 9,
            not_before_s: u64::MAX,
            fault: Some("refused".to_owned()),
            settings,
            ..Progress::default()
        };
        let failed = progress(Some(issuer.settings()));
        assert_eq!(taken_up(failed.clone(), "a.test", &issuer), failed);
        let unknown = progress(None);
        assert_eq!(taken_up(unknown.clone(), "a.test", &corrected), unknown);
        let tried = taken_up(failed, "a.test", &corrected);
        assert_eq!((tried.failures, tried.not_before_s), (0, 0));
    }
}
