//! Reads files again, one after another and apart from the thread that hears signals: a name may
//! have to be asked for, and a disk may be slow.

use std::{future::pending, sync::Arc};

use loadline_control::admin::LiveConfiguration;
use tokio::task::{JoinHandle, spawn_blocking};

use super::follow::{Changed, Contents, Marks, Named};

/// What is being read again, and what is to be.
pub(super) struct Reader {
    site: Arc<LiveConfiguration>,
    named: Arc<Named>,
    under_way: Option<JoinHandle<Option<Marks>>>,
    next: Option<Changed>,
}

impl Reader {
    pub(super) fn new(site: Arc<LiveConfiguration>, named: Named) -> Self {
        named.has_begun(site.file());
        Self { site, named: Arc::new(named), under_way: None, next: None }
    }

    /// Has it read again by the next [`Reader::go_on`], once however often it is asked for.
    pub(super) fn ask(&mut self, what: Changed) {
        self.next = self.next.max(Some(what));
    }

    /// Begins with what has been asked for, unless something is under way.
    pub(super) fn go_on(&mut self) {
        if self.under_way.is_some() {
            return;
        }
        let Some(what) = self.next.take() else { return };
        let (site, named) = (self.site.clone(), self.named.clone());
        self.under_way = Some(spawn_blocking(move || read_again(&site, what, &named)));
    }

    /// Begins with something that reads files, where nothing is under way.
    pub(super) fn begin(&mut self, work: impl FnOnce() + Send + 'static) {
        self.under_way = Some(spawn_blocking(move || {
            work();
            None
        }));
    }

    pub(super) fn is_idle(&self) -> bool {
        self.under_way.is_none()
    }

    /// Waits for the end of what is under way; for ever where nothing is. Gives what the
    /// configuration names, as it was before that was read; nothing of one that is in force now.
    pub(super) async fn done(&mut self) -> Option<Marks> {
        let Some(under_way) = &mut self.under_way else { return pending().await };
        // One that panicked has said so on its own.
        let done = under_way.await;
        self.under_way = None;
        done.ok().flatten()
    }
}

/// Unless the configuration itself is read, what was changed at run time stays.
fn read_again(site: &LiveConfiguration, what: Changed, named: &Named) -> Option<Marks> {
    if what < Changed::Configuration {
        let contents = named.renewable(what, &site.file());
        if renew(site, what) {
            named.has_renewed(contents);
        }
        return None;
    }
    let contents = named.contents();
    let differs = named.changed(&contents, &site.file());
    if what == Changed::Anything || differs == Changed::Configuration {
        return Some(reload(site, contents, named));
    }
    tracing::info!("the configuration says the same as before: not read again");
    if renew(site, differs) {
        named.has_read(contents, site.file());
    }
    Some(Marks::new())
}

/// Reads the configuration, which says this with all that it names; gives what to wait for where
/// it cannot be put in force.
fn reload(site: &LiveConfiguration, contents: Contents, named: &Named) -> Marks {
    let marks = named.marks();
    let outcome = site.reload();
    let is_in_force = outcome.is_ok();
    tell(outcome);
    if !is_in_force {
        return marks;
    }
    named.has_read(contents, site.file());
    Marks::new()
}

/// Reads lists of servers again and, unless they alone have changed, certificates and the like;
/// false where one of those cannot be used.
fn renew(site: &LiveConfiguration, what: Changed) -> bool {
    site.relist();
    if what == Changed::Lists {
        return true;
    }
    let outcome = site.renew();
    let is_in_force = outcome.is_ok();
    tell(outcome);
    is_in_force
}

/// Tells how a reload went.
fn tell(outcome: Result<(), String>) {
    match outcome {
        Ok(()) => tracing::info!("reloaded"),
        Err(error) => tracing::error!("not reloaded, the configuration is unchanged: {error}"),
    }
}
