//! This edge's part in a cluster of edges: with what it starts, and how a configuration that was
//! published comes into force.

use std::{
    collections::{BTreeMap, BTreeSet},
    future::{Future, pending},
    net::SocketAddr,
    path::{Path, PathBuf},
    pin::Pin,
    sync::{Arc, Mutex, PoisonError},
};

use loadline_control::{
    Loaded, Moment,
    admin::LiveConfiguration,
    cluster::{
        Agent, Checking, Disk, HealthView, Identity, Offer, Published, Settings, Shared,
        SharedHealth, Sharing, View, fetch_published,
    },
};
use loadline_core::{
    cluster::Share,
    decide::plan::Plan,
    fleet::Service,
    health::shared::{Duty, Verdict},
    time::Instant,
};
use loadline_proxy::runtime::{Handle, SharedChecks};
use loadline_spanned::FileErrors;
use tokio::{
    sync::{mpsc, oneshot},
    task::JoinHandle,
};

use crate::commands::{check, outside};

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
    agent: Part,
    sharing: Part,
    health: Option<Part>,
}

/// Something that is done until it is told to leave.
pub(super) struct Part {
    leave: oneshot::Sender<()>,
    done: JoinHandle<()>,
}

impl Part {
    fn begin<F: Future<Output = ()> + Send + 'static>(
        part: impl FnOnce(oneshot::Receiver<()>) -> F,
    ) -> Self {
        let (leave, left) = oneshot::channel();
        Self { leave, done: tokio::spawn(part(left)) }
    }

    /// Leaves in order; the store is waited for a few seconds at most.
    async fn leave(self) {
        let _ = self.leave.send(());
        let _ = self.done.await;
    }
}

impl Cluster {
    /// What the file says of a cluster, with what was published last as this edge knows it.
    ///
    /// # Errors
    /// What is wrong with the table.
    pub(super) fn of(file: Option<&Path>) -> Result<Self, FileErrors> {
        let mut cluster = Self::default();
        let Some(file) = file else { return Ok(cluster) };
        let settings = loadline_control::load_cluster(file).map_err(outside::name_program)?;
        let Some(settings) = settings else { return Ok(cluster) };
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

    /// Where the store is, before this edge joins; none where it is alone.
    pub(super) fn store(&self) -> Option<(Settings, View)> {
        let beginning = self.beginning.as_ref()?;
        Some((beginning.settings.clone(), beginning.view.clone()))
    }

    /// What this edge may use of groups with a limit before it has a share of them; none where it
    /// is alone.
    pub(super) fn floor(&self) -> Option<Share> {
        self.beginning.as_ref().map(|beginning| beginning.settings.sharing().floor())
    }

    /// Begins to be one of them.
    pub(super) fn join(
        &mut self,
        site: &Arc<LiveConfiguration>,
        proxy: Handle,
        admin: Option<String>,
    ) {
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
        let health = settings
            .share_health
            .then(|| share_health(settings.clone(), view.clone(), &identity.region, proxy.clone()));
        let sharing = Sharing::new(settings.clone(), view.clone(), SharedProxy(proxy));
        let agent = Agent::new(settings, disk, view, running, identity, to_take);
        let (agent, sharing) =
            (Part::begin(|left| agent.run(left)), Part::begin(|left| sharing.run(left)));
        let taker = Taker { site: site.clone(), file, in_force: self.in_force.clone() };
        self.membership = Some(Membership { offers, taker, agent, sharing, health });
    }

    /// Waits for a configuration that was published, and gives what puts it in force; for ever
    /// where this edge is alone.
    pub(super) async fn offered(&mut self) -> Box<dyn FnOnce() + Send> {
        let Some(membership) = &mut self.membership else { return pending().await };
        let Some(offer) = membership.offers.recv().await else { return pending().await };
        let taker = membership.taker.clone();
        Box::new(move || taker.take(offer))
    }

    /// Leaves in order, while `drained` lets requests under way end: the others see at once that it
    /// goes, and what it uses of the groups is theirs when nothing is in use any more.
    pub(super) async fn leave<T>(self, drained: impl Future<Output = T>) -> T {
        let Some(membership) = self.membership else { return drained.await };
        let Membership { agent, sharing, health, .. } = membership;
        let leaving = tokio::spawn(async {
            agent.leave().await;
            if let Some(health) = health {
                health.leave().await;
            }
        });
        let drained = drained.await;
        sharing.leave().await;
        let _ = leaving.await;
        drained
    }
}

/// The proxy whose groups are shared.
struct SharedProxy(Handle);

impl Shared for SharedProxy {
    fn now(&self) -> Instant {
        self.0.now()
    }

    fn plan(&self) -> Arc<Plan> {
        self.0.plan()
    }

    fn share(&self, service: &str, group: &str, share: Share) {
        self.0.share(service, group, share);
    }

    fn until(&self, until: Option<Instant>) {
        self.0.shares_until(until);
    }

    fn settled(&self) -> Pin<Box<dyn Future<Output = ()> + Send + '_>> {
        Box::pin(self.0.settled())
    }
}

/// Divides the checks of servers among the edges of the region.
fn share_health(settings: Settings, view: View, region: &str, proxy: Handle) -> Part {
    let shown = HealthView::new(&settings);
    proxy.share_checks(Arc::new(SharedHealthOf(shown.clone())));
    let health = SharedHealth::new(settings, view, region, shown, CheckedProxy(proxy));
    Part::begin(|left| health.run(left))
}

/// What other edges have found, for the proxy.
#[derive(Debug)]
struct SharedHealthOf(HealthView);

impl SharedChecks for SharedHealthOf {
    fn duty(&self, service: &str, server: SocketAddr) -> Duty {
        self.0.duty(service, server)
    }

    fn checked(&self, service: &str, server: SocketAddr, verdict: Verdict) {
        self.0.checked(service, server, verdict);
    }
}

/// The proxy whose servers are checked.
struct CheckedProxy(Handle);

impl Checking for CheckedProxy {
    fn servers(&self) -> BTreeMap<String, BTreeSet<SocketAddr>> {
        let plan = self.0.plan();
        let addresses = |service: &Service| {
            let servers = service.groups.iter().flat_map(|group| &group.servers);
            servers.map(|server| server.address).collect()
        };
        let services = plan.fleet.services.iter();
        services.map(|service| (service.name.clone(), addresses(service))).collect()
    }

    fn recheck(&self, service: &str, servers: &BTreeSet<SocketAddr>) {
        self.0.recheck(service, servers);
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
            Err(errors) => Err(check::on_one_line(errors.errors())),
        };
        let outcome = self.site.reload_with(load, || self.in_force.set(published.clone()));
        // Nobody waits for it where the process is ending.
        let _ = answer.send(outcome);
    }
}
