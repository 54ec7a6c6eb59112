//! This edge's part in a cluster of edges: with what it starts, and how a configuration that was
//! published comes into force.

use std::{
    future::pending,
    path::{Path, PathBuf},
    sync::{Arc, Mutex, PoisonError},
};

use loadline_control::{
    Loaded, Moment,
    admin::LiveConfiguration,
    cluster::{Agent, Disk, Identity, Offer, Published, Settings, View, fetch_published},
};
use loadline_spanned::FileErrors;
use tokio::{
    sync::{mpsc, oneshot},
    task::JoinHandle,
};

use crate::commands::outside;

/// What was published and is in force, for whoever reads the file again.
#[derive(Clone, Default)]
pub(super) struct InForce(Arc<Mutex<Option<Published>>>);

impl InForce {
    pub(super) fn get(&self) -> Option<Published> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    fn set(&self, published: Published) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = Some(published);
    }
}

/// This edge's part; nothing where it is alone.
#[derive(Default)]
pub(super) struct Cluster {
    pub(super) in_force: InForce,
    /// Until it joins.
    beginning: Option<Beginning>,
    membership: Option<Membership>,
}

/// An edge of a cluster before it serves.
struct Beginning {
    file: PathBuf,
    settings: Settings,
    disk: Disk,
    view: View,
}

/// The part that is under way.
struct Membership {
    offers: mpsc::Receiver<Offer>,
    taker: Taker,
    leave: oneshot::Sender<()>,
    agent: JoinHandle<()>,
}

impl Cluster {
    /// What the file says of a cluster, with what was published last as this edge knows it.
    ///
    /// # Errors
    /// What is wrong with the table.
    pub(super) fn of(file: Option<&Path>) -> Result<Self, FileErrors> {
        let mut cluster = Self::default();
        let Some(file) = file else { return Ok(cluster) };
        let Some(settings) = loadline_control::load_cluster(file)? else { return Ok(cluster) };
        let (disk, found) = Disk::open(&settings.state_dir);
        if let Err(error) = found {
            tracing::warn!("{error}; nothing is known of what was published before");
        }
        let kept = disk.published();
        // One that can serve by itself asks first whether these are others that it is to follow.
        let is_right = loadline_control::load_with(file, kept).is_ok();
        let published = if is_right { None } else { fetched(&settings) };
        if let Some(published) = published.or_else(|| kept.cloned()) {
            tracing::info!(version = published.version, "cluster: begins with what was published");
            cluster.in_force.set(published);
        }
        cluster.beginning =
            Some(Beginning { file: file.to_owned(), settings, disk, view: View::default() });
        Ok(cluster)
    }

    /// What is known of the others.
    pub(super) fn view(&self) -> Option<View> {
        self.beginning.as_ref().map(|beginning| beginning.view.clone())
    }

    /// Begins to be one of them.
    pub(super) fn join(&mut self, site: &Arc<LiveConfiguration>, admin: Option<String>) {
        let Some(Beginning { file, settings, disk, view }) = self.beginning.take() else { return };
        let services = {
            let site = site.clone();
            move || site.file().services.iter().map(|service| service.name.clone()).collect()
        };
        let identity = Identity {
            region: site.file().edge.region.clone(),
            release: env!("CARGO_PKG_VERSION").to_owned(),
            admin,
            services: Box::new(services),
        };
        let running = self.in_force.get();
        let (to_take, offers) = mpsc::channel(1);
        let agent = Agent::new(settings, disk, view, running, identity, to_take);
        let (leave, left) = oneshot::channel();
        let agent = tokio::spawn(agent.run(left));
        let taker = Taker { site: site.clone(), file, in_force: self.in_force.clone() };
        self.membership = Some(Membership { offers, taker, leave, agent });
    }

    /// Waits for a configuration that was published, and gives what puts it in force; for ever
    /// where this edge is alone.
    pub(super) async fn offered(&mut self) -> Box<dyn FnOnce() + Send> {
        let Some(membership) = &mut self.membership else { return pending().await };
        let Some(offer) = membership.offers.recv().await else { return pending().await };
        let taker = membership.taker.clone();
        Box::new(move || taker.take(offer))
    }

    /// Leaves in order; the store is waited for a few seconds at most.
    pub(super) async fn leave(self) {
        let Some(Membership { leave, agent, .. }) = self.membership else { return };
        let _ = leave.send(());
        let _ = agent.await;
    }
}

/// What the store has, where it answers.
fn fetched(settings: &Settings) -> Option<Published> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().ok()?;
    runtime.block_on(fetch_published(settings)).unwrap_or_else(|fault| {
        tracing::warn!(
            kind = fault.kind(),
            help = fault.help(),
            "cluster: {fault}; this edge begins with its own file"
        );
        None
    })
}

/// What is wrong, in a line.
fn told(errors: &FileErrors) -> String {
    let told = errors.errors().iter().filter(|it| !it.is_warning()).map(|error| {
        let (file, line, message) = (error.file(), error.line(), error.message());
        if line == 0 { message.to_owned() } else { format!("{file}:{line}: {message}") }
    });
    told.collect::<Vec<_>>().join("; ")
}

/// Puts in force what was published.
#[derive(Clone)]
struct Taker {
    site: Arc<LiveConfiguration>,
    file: PathBuf,
    in_force: InForce,
}

impl Taker {
    /// Puts it in force beside the file, and answers whether it is.
    fn take(&self, offer: Offer) {
        let Offer { published, answer } = offer;
        let load = || match outside::load_with(&self.file, Some(&published), Moment::Reload) {
            Ok(Loaded { fleet, names, .. }) => Ok((Arc::new(fleet), names)),
            Err(errors) => Err(told(&errors)),
        };
        let outcome = self.site.reload_with(load, || self.in_force.set(published.clone()));
        // Nobody waits for it where the process is ending.
        let _ = answer.send(outcome);
    }
}
