//! The proxy as the admin interface sees it, and the changes at run time.

use std::{
    fmt,
    ops::Range,
    pin::Pin,
    slice,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use loadline_core::{
    decide::{
        discovery::{Heard, Lists},
        overrides::{Override, OverrideError, Overrides},
    },
    fleet::{Fleet, Source},
    state::{CachedObject, Flow, Part, Purge, Purged, State},
    time::Duration,
};
use tokio::{sync::watch, time::timeout};

use crate::discovery::{self, Answer, Clock, NameServers};

/// A running proxy.
pub trait Engine: Send + Sync + 'static {
    /// What it does, to be told part by part.
    fn survey(&self) -> Box<dyn Survey>;

    /// Puts another file in force.
    ///
    /// # Errors
    /// What is wrong with it, for people; nothing has changed then.
    fn reload(&self, fleet: Arc<Fleet>) -> Result<(), String>;

    /// Puts a fleet in force that differs from the last in weights, scalers and capacities alone.
    fn amend(&self, fleet: Arc<Fleet>);

    /// Waits until requests are decided by what was put in force last.
    fn settled(&self) -> Pin<Box<dyn Future<Output = ()> + Send + '_>>;

    /// The flows of packet forwarding that are written down, in no order.
    ///
    /// # Errors
    /// Why they cannot be read, for people.
    fn flows(&self) -> Result<Vec<Flow>, String>;

    /// The responses that are stored, those that were used most first, so many at most.
    fn cached(&self, most: usize) -> Vec<CachedObject>;

    /// Takes out of the cache what `purge` names.
    fn purge(&self, purge: &Purge) -> Purged;
}

/// What a proxy does, by the services that it had when it was asked. Rates may be absent.
pub trait Survey: Send + Sync + 'static {
    /// All but the services.
    fn edge(&self) -> State;

    /// How many services there are.
    fn service_count(&self) -> usize;

    /// The place of this service in the file, if it is there.
    fn place(&self, service: &str) -> Option<usize>;

    /// This part of the services at these places in the file, and nothing else.
    fn services(&self, places: Range<usize>, part: Part) -> State;
}

/// A proxy with its file and with what was changed over it.
pub struct LiveConfiguration {
    engine: Box<dyn Engine>,
    load: Box<dyn Fn() -> Result<Intent, String> + Send + Sync>,
    clock: Clock,
    /// Held while files are read, so that the file read last is in force last.
    reading: Mutex<()>,
    kept: Mutex<Kept>,
    reloaded: watch::Sender<()>,
}

/// Why a change is not made.
#[derive(Debug, thiserror::Error)]
pub(crate) enum ChangeError {
    #[error(transparent)]
    Override(#[from] OverrideError),
    /// The change would be lost.
    #[error("an upgrade is under way: ask again in a moment")]
    HandedOver,
}

/// What the file says, and who is asked for names.
type Intent = (Arc<Fleet>, NameServers);

struct Kept {
    file: Arc<Fleet>,
    names: NameServers,
    lists: Lists,
    /// The fleet of the file and its lists.
    listed: Arc<Fleet>,
    overrides: Overrides,
    /// What follows from both.
    in_force: Arc<Fleet>,
    /// What was changed while the file is being read again.
    meanwhile: Option<Vec<Override>>,
    /// A process that is to follow has been given what holds.
    is_handed_over: bool,
}

impl Kept {
    /// Nothing is changed over this file with these lists yet.
    fn new((file, names): Intent, lists: Lists) -> Self {
        let listed = discovery::listed(&lists, &file);
        let (overrides, in_force) = (Overrides::default(), listed.clone());
        let (meanwhile, is_handed_over) = (None, false);
        Self { file, names, lists, listed, overrides, in_force, meanwhile, is_handed_over }
    }

    /// Takes in what all lists say.
    fn relist(&mut self) {
        self.listed = discovery::listed(&self.lists, &self.file);
        self.apply_all();
    }

    /// Takes in that these lists are others now.
    fn relist_again(&mut self, sources: &[Source]) {
        let (listed, places) = self.lists.applied_again(sources, &self.listed);
        self.listed = Arc::new(listed);
        if self.overrides.is_empty() {
            self.in_force = self.listed.clone();
            return;
        }
        let listed = self.listed.clone();
        places.into_iter().for_each(|at| self.apply(&listed.services[at].name));
    }

    /// Makes every change anew.
    fn apply_all(&mut self) {
        let is_as_listed = self.overrides.is_empty();
        let changed = || Arc::new(self.overrides.applied_to(&self.listed));
        self.in_force = if is_as_listed { self.listed.clone() } else { changed() };
    }

    /// Makes the changes of one service anew.
    fn apply(&mut self, service: &str) {
        let is_as_listed = self.overrides.is_empty();
        let changed = || self.overrides.applied_to_service(service, &self.listed, &self.in_force);
        self.in_force = if is_as_listed { self.listed.clone() } else { Arc::new(changed()) };
    }
}

impl LiveConfiguration {
    /// A proxy that runs with `file` and `lists`. `load` reads the file again, or says what is
    /// wrong with it.
    pub fn new(
        engine: impl Engine,
        (intent, lists): (Intent, Lists),
        load: impl Fn() -> Result<Intent, String> + Send + Sync + 'static,
    ) -> Self {
        Self {
            engine: Box::new(engine),
            load: Box::new(load),
            clock: Clock::start(),
            reading: Mutex::default(),
            kept: Mutex::new(Kept::new(intent, lists)),
            reloaded: watch::Sender::default(),
        }
    }

    /// Reads the file and its lists again, puts them in force and forgets what was changed over
    /// them before this began. Who comes while another does so waits, for as long as new names are
    /// asked for.
    ///
    /// # Errors
    /// What is wrong with one of them; nothing has changed then.
    pub fn reload(&self) -> Result<(), String> {
        self.reload_with(|| (self.load)(), || ())
    }

    /// As [`LiveConfiguration::reload`], with what this `load` reads. Before anybody reads again,
    /// `done` is called where it is in force.
    ///
    /// # Errors
    /// What is wrong with it; nothing has changed then.
    pub fn reload_with(
        &self,
        load: impl FnOnce() -> Result<Intent, String>,
        done: impl FnOnce(),
    ) -> Result<(), String> {
        let _turn = lock(&self.reading);
        if self.is_handed_over() {
            return Err(ChangeError::HandedOver.to_string());
        }
        self.kept().meanwhile = Some(Vec::new());
        let read = self.read(load);
        let mut kept = self.kept();
        let meanwhile = kept.meanwhile.take();
        if kept.is_handed_over {
            return Err(ChangeError::HandedOver.to_string());
        }
        let mut next = read?;
        next.lists.catch_up(&kept.lists);
        if next.names.servers != kept.names.servers {
            next.lists.ask_anew();
        }
        next.relist();
        // Whoever made them has been told that they hold.
        for change in meanwhile.iter().flatten() {
            keep(&mut next.overrides, &next.listed, change);
        }
        next.apply_all();
        self.engine.reload(next.in_force.clone())?;
        *kept = next;
        self.reloaded.send_replace(());
        done();
        Ok(())
    }

    /// What `load` reads, with its lists. Nobody is held up while names that are new are asked for.
    /// Listeners that are as they were go on with their routes.
    fn read(&self, load: impl FnOnce() -> Result<Intent, String>) -> Result<Kept, String> {
        let (file, names) = load()?;
        let (before, known) = {
            let kept = self.kept();
            (kept.lists.clone(), kept.file.listeners.clone())
        };
        let mut file = Arc::unwrap_or_clone(file);
        file.listeners = file.listeners.in_common_with(&known);
        let file = Arc::new(file);
        let lists = discovery::begin_again(before, &file, &names, self.clock.now());
        Ok(Kept::new((file, names), lists.map_err(|error| error.to_string())?))
    }

    /// The names to ask for now, and whom.
    pub(crate) fn names_due(&self) -> (Vec<Source>, NameServers) {
        let mut kept = self.kept();
        (kept.lists.due(self.clock.now()), kept.names.clone())
    }

    /// How long it is until the next name is due; [`Duration::MAX`] where none will be.
    pub(crate) fn next_name_due(&self) -> Duration {
        let due = self.kept().lists.next_due();
        due.map_or(Duration::MAX, |due| due.since(self.clock.now()))
    }

    /// Tells of each reload from now on: names may be due that were not.
    pub(crate) fn reloads(&self) -> watch::Receiver<()> {
        self.reloaded.subscribe()
    }

    /// Takes a response about a name in that those of `asked` have given, and puts what it changes
    /// in force. Where a reload has named others since, these are asked, and nobody else is heard.
    pub(crate) fn found(&self, source: &Source, answer: Answer, asked: &NameServers) {
        let kept = &mut *self.kept();
        if asked.servers != kept.names.servers {
            return;
        }
        let (lists, terms) = (&mut kept.lists, &kept.names.terms);
        if discovery::answered(lists, self.clock.now(), source, answer, terms) {
            kept.relist_again(slice::from_ref(source));
            self.engine.amend(kept.in_force.clone());
        }
    }

    /// Reads the lists of servers again that are files. What one of them says is put in force as a
    /// whole, or nothing of it.
    pub fn relist(&self) {
        let _turn = lock(&self.reading);
        let sources = self.kept().lists.sources().cloned().collect();
        // Nobody is held up while a disk is slow.
        let answers = discovery::read_files(sources);
        let mut kept = self.kept();
        let changed = discovery::reread(&mut kept.lists, answers, self.clock.now());
        if !changed.is_empty() {
            kept.relist_again(&changed);
            self.engine.amend(kept.in_force.clone());
        }
    }

    /// What has been heard of names, for a process that is to follow.
    #[must_use]
    pub fn heard(&self) -> Vec<Heard> {
        self.kept().lists.heard()
    }

    /// Reads the files again that the configuration names, certificates and the like, and leaves
    /// everything else as it is.
    ///
    /// # Errors
    /// Which one cannot be used; nothing has changed then.
    pub fn renew(&self) -> Result<(), String> {
        let _turn = lock(&self.reading);
        let kept = self.kept();
        self.engine.reload(kept.in_force.clone())
    }

    /// Repeats the changes made in the previous process. A change to something no longer in the
    /// file is dropped; one to something no longer listed is kept, since that may come back.
    pub fn restore(&self, changes: &[Override]) {
        if changes.is_empty() {
            return;
        }
        let kept = &mut *self.kept();
        for change in changes {
            keep(&mut kept.overrides, &kept.listed, change);
        }
        kept.apply_all();
        self.engine.amend(kept.in_force.clone());
    }

    /// What the file says.
    #[must_use]
    pub fn file(&self) -> Arc<Fleet> {
        self.kept().file.clone()
    }

    pub(crate) fn flows(&self) -> Result<Vec<Flow>, String> {
        self.engine.flows()
    }

    pub(crate) fn cached(&self, most: usize) -> Vec<CachedObject> {
        self.engine.cached(most)
    }

    pub(crate) fn purge(&self, purge: &Purge) -> Purged {
        self.engine.purge(purge)
    }

    /// The edge, with this part of all services.
    pub(crate) fn state(&self, part: Part) -> State {
        let survey = self.survey();
        let edge = survey.edge();
        let State { services, .. } = self.services(&*survey, 0..survey.service_count(), part);
        State { services, ..edge }
    }

    /// All of one service, alone in a state; none where it is not there.
    pub(crate) fn service(&self, name: &str) -> Option<State> {
        let survey = self.survey();
        let place = survey.place(name)?;
        Some(self.services(&*survey, place..place + 1, Part::Whole))
    }

    pub(crate) fn survey(&self) -> Box<dyn Survey> {
        self.engine.survey()
    }

    /// This part of the services at these places, with what is known of their lists.
    pub(crate) fn services(&self, survey: &dyn Survey, places: Range<usize>, part: Part) -> State {
        let mut state = survey.services(places, part);
        let kept = self.kept();
        kept.lists.tell(self.clock.now(), &kept.file, &mut state);
        state
    }

    /// Changes something until the next reload.
    pub(crate) fn change(&self, change: Override) -> Result<(), ChangeError> {
        let kept = &mut *self.kept();
        if kept.is_handed_over {
            return Err(ChangeError::HandedOver);
        }
        kept.overrides.set(&kept.listed, change.clone())?;
        kept.apply(&change.service);
        if let Some(meanwhile) = &mut kept.meanwhile {
            meanwhile.push(change);
        }
        self.engine.amend(kept.in_force.clone());
        Ok(())
    }

    /// Waits until requests are decided by what was changed or reloaded, a second at most: then it
    /// comes a moment later.
    pub(crate) async fn settled(&self) {
        let _ = timeout(SETTLING_MAX, self.engine.settled()).await;
    }

    /// The changes in force.
    #[must_use]
    pub fn changes(&self) -> Vec<Override> {
        self.kept().overrides.iter().cloned().collect()
    }

    /// The changes in force, for a process that is to follow. None is made here any more, and
    /// nothing read again, until [`LiveConfiguration::take_back`]: it would be lost.
    #[must_use]
    pub fn hand_over(&self) -> Vec<Override> {
        self.kept().is_handed_over = true;
        self.changes()
    }

    /// Takes changes again, where no process follows.
    pub fn take_back(&self) {
        self.kept().is_handed_over = false;
    }

    pub(crate) fn is_handed_over(&self) -> bool {
        self.kept().is_handed_over
    }

    fn kept(&self) -> MutexGuard<'_, Kept> {
        lock(&self.kept)
    }
}

/// Makes a change again that was made over another fleet, and tells the log.
fn keep(overrides: &mut Overrides, listed: &Fleet, change: &Override) {
    let of_store = change.of_store(listed);
    let told = of_store.unwrap_or_else(|| change.to_string()).replace('\n', " ");
    match overrides.restore(listed, change.clone()) {
        Ok(()) => tracing::info!(change = %told, "change kept"),
        Err(error) => tracing::warn!(change = %told, %error, "change not kept"),
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl fmt::Debug for LiveConfiguration {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("LiveConfiguration").finish_non_exhaustive()
    }
}

/// Whoever changes something is not kept longer by an engine that is busy.
const SETTLING_MAX: std::time::Duration = std::time::Duration::from_secs(1);

#[cfg(test)]
pub(crate) mod tests {
    use std::{
        net::UdpSocket,
        sync::{
            atomic::{AtomicU32, Ordering::SeqCst},
            mpsc,
        },
        thread,
    };

    use loadline_core::{
        decide::{
            discovery::Listed,
            overrides::{Mode, Setting},
        },
        fleet::Service,
        state,
        units::Ratio,
    };

    use super::*;

    /// A proxy that remembers what was last put in force, and how many services it has told of.
    #[derive(Clone, Default)]
    struct Remembers {
        fleet: Arc<Mutex<Option<Arc<Fleet>>>>,
        told: Arc<AtomicU32>,
    }

    impl Remembers {
        fn in_force(&self) -> Arc<Fleet> {
            lock(&self.fleet).clone().unwrap()
        }
    }

    impl Survey for Remembers {
        fn edge(&self) -> State {
            State::default()
        }

        fn service_count(&self) -> usize {
            self.in_force().services.len()
        }

        fn place(&self, service: &str) -> Option<usize> {
            self.in_force().services.position(service)
        }

        fn services(&self, places: Range<usize>, _: Part) -> State {
            let services = places.map(|place| {
                self.told.fetch_add(1, SeqCst);
                let name = self.in_force().services[place].name.clone();
                state::Service { name, ..state::Service::default() }
            });
            State { services: services.collect(), ..State::default() }
        }
    }

    impl Engine for Remembers {
        fn survey(&self) -> Box<dyn Survey> {
            Box::new(self.clone())
        }

        fn reload(&self, fleet: Arc<Fleet>) -> Result<(), String> {
            self.amend(fleet);
            Ok(())
        }

        fn amend(&self, fleet: Arc<Fleet>) {
            *lock(&self.fleet) = Some(fleet);
        }

        fn settled(&self) -> Pin<Box<dyn Future<Output = ()> + Send + '_>> {
            Box::pin(std::future::ready(()))
        }

        fn flows(&self) -> Result<Vec<Flow>, String> {
            Ok(Vec::new())
        }

        fn cached(&self, _: usize) -> Vec<CachedObject> {
            Vec::new()
        }

        fn purge(&self, _: &Purge) -> Purged {
            Purged::default()
        }
    }

    /// A file with a group for each of these lines.
    fn file(groups: &[&str]) -> Fleet {
        let group = |line| format!("[[service.web.group]]\n{line}\n");
        let groups: String = groups.iter().map(group).collect();
        let text = format!(
            "[[listener]]\nbind = \"127.0.0.1:0\"\nservice = \"web\"\n[service.web]\n{groups}"
        );
        crate::parse_with("a", &text, &crate::LocalOnly).unwrap().fleet
    }

    #[test]
    fn of_two_reloads_at_once_the_file_that_was_read_last_is_in_force_last() {
        let engine = Remembers::default();
        let reads = AtomicU32::new(0);
        let (ended, second_ended) = mpsc::channel();
        let (has_read, read) = mpsc::channel();
        let second_ended = Mutex::new(second_ended);
        let load = move || {
            let version = reads.fetch_add(1, SeqCst);
            if version == 0 {
                has_read.send(()).unwrap();
                // The second reload ends meanwhile, unless it has to wait.
                let _ = lock(&second_ended).recv_timeout(std::time::Duration::from_millis(500));
            }
            let mut file = file(&[SERVER]);
            file.edge.threads = version + 1;
            Ok((Arc::new(file), NameServers::default()))
        };
        let begun = ((Arc::new(file(&[SERVER])), NameServers::default()), Lists::default());
        let site = LiveConfiguration::new(engine.clone(), begun, load);
        thread::scope(|scope| {
            scope.spawn(|| site.reload().unwrap());
            read.recv().unwrap();
            site.reload().unwrap();
            let _ = ended.send(());
        });
        assert_eq!(engine.in_force().edge.threads, 2);
        assert_eq!(site.file().edge.threads, 2);
    }

    #[test]
    fn what_a_name_is_found_to_be_while_a_reload_asks_for_another_is_not_lost() {
        let engine = Remembers::default();
        let name_server = UdpSocket::bind("127.0.0.1:0").unwrap();
        let names = NameServers {
            servers: vec![name_server.local_addr().unwrap()],
            start_wait: Duration::from_millis(700),
            ..NameServers::default()
        };
        let known = Arc::new(file(&[KNOWN]));
        let source = source(&known);
        let (asked, after) = (names.clone(), (Arc::new(file(&[KNOWN, NEW])), names.clone()));
        let load = move || Ok(after.clone());
        let site = asking(names, &engine, &known, load);
        let answer = |last| answer(last, None);
        site.found(&source, answer(1), &asked);
        thread::scope(|scope| {
            let reloading = scope.spawn(|| site.reload());
            // It asks for the new name, which nobody answers.
            name_server.recv(&mut [0; 512]).unwrap();
            site.found(&source, answer(2), &asked);
            reloading.join().unwrap().unwrap();
        });
        let fleet = engine.in_force();
        assert_eq!(fleet.services[0].groups.len(), 2);
        assert_eq!(fleet.services[0].groups[0].servers[0].address, ([10, 0, 0, 2], 80).into());
    }

    #[test]
    fn other_name_servers_are_asked_at_once_and_a_late_answer_of_those_before_is_not_heard() {
        let engine = Remembers::default();
        let names = |last| NameServers {
            servers: vec![([127, 0, 0, last], 53).into()],
            ..NameServers::default()
        };
        let known = Arc::new(file(&[KNOWN]));
        let source = source(&known);
        let after = (known.clone(), names(2));
        let load = move || Ok(after.clone());
        let site = asking(names(1), &engine, &known, load);
        let answer = |last| answer(last, Some(Duration::from_secs(60)));
        site.found(&source, answer(1), &names(1));
        assert!(site.next_name_due() > Duration::from_secs(30));
        site.reload().unwrap();
        assert_eq!(site.names_due(), (vec![source.clone()], names(2)));
        site.found(&source, answer(2), &names(2));
        site.found(&source, answer(1), &names(1));
        let servers = &engine.in_force().services[0].groups[0].servers;
        assert_eq!(servers[0].address, ([10, 0, 0, 2], 80).into());
    }

    /// A site of this file, whose lists have not been read, and what reads it again.
    fn site(
        engine: &Remembers,
        file: &Arc<Fleet>,
        load: impl Fn() -> Result<Intent, String> + Send + Sync + 'static,
    ) -> LiveConfiguration {
        asking(NameServers::default(), engine, file, load)
    }

    /// The same, which asks these name servers.
    fn asking(
        names: NameServers,
        engine: &Remembers,
        file: &Arc<Fleet>,
        load: impl Fn() -> Result<Intent, String> + Send + Sync + 'static,
    ) -> LiveConfiguration {
        let mut lists = Lists::default();
        lists.follow(file);
        LiveConfiguration::new(engine.clone(), ((file.clone(), names), lists), load)
    }

    /// A site of one service, and how many services it has told of.
    pub(crate) fn counted() -> (LiveConfiguration, Arc<AtomicU32>) {
        let engine = Remembers::default();
        let file = Arc::new(file(&[SERVER]));
        engine.amend(file.clone());
        (site(&engine, &file, || Err(String::new())), engine.told)
    }

    /// What the first group of a file is found by.
    fn source(file: &Fleet) -> Source {
        file.services[0].groups[0].discovery.as_ref().unwrap().source.clone()
    }

    fn answer(last: u8, ttl: Option<Duration>) -> Answer {
        Answer { servers: Ok(vec![Listed::at(([10, 0, 0, last], 80).into())]), ttl }
    }

    fn change(setting: Setting) -> Override {
        Override { service: "web".into(), group: "near".into(), setting }
    }

    #[test]
    fn a_change_that_is_made_while_a_reload_reads_is_kept_and_one_from_before_it_forgotten() {
        let engine = Remembers::default();
        let file = Arc::new(file(&["name = \"near\"\nservers = [\"127.0.0.1:1\"]"]));
        let (has_begun, begun) = mpsc::channel();
        let (go_on, changed) = mpsc::channel();
        let (changed, read) = (Mutex::new(changed), file.clone());
        let load = move || {
            has_begun.send(()).unwrap();
            lock(&changed).recv_timeout(std::time::Duration::from_secs(5)).unwrap();
            Ok((read.clone(), NameServers::default()))
        };
        let site = site(&engine, &file, load);
        let address = file.services[0].groups[0].servers[0].address;
        site.change(change(Setting::Scaler(Ratio::percent(50)))).unwrap();
        thread::scope(|scope| {
            let reloading = scope.spawn(|| site.reload());
            begun.recv().unwrap();
            site.change(change(Setting::Mode(address, Mode::Drain))).unwrap();
            go_on.send(()).unwrap();
            reloading.join().unwrap().unwrap();
        });
        let group = &engine.in_force().services[0].groups[0];
        assert_eq!((group.servers[0].weight, group.scaler), (0, Ratio::ONE));
        assert_eq!(site.changes(), [change(Setting::Mode(address, Mode::Drain))]);
    }

    #[test]
    fn a_change_or_a_reload_during_an_upgrade_is_refused_rather_than_lost() {
        let engine = Remembers::default();
        let file = Arc::new(file(&["name = \"near\"\nservers = [\"127.0.0.1:1\"]"]));
        let read = file.clone();
        let site = site(&engine, &file, move || Ok((read.clone(), NameServers::default())));
        let half = change(Setting::Scaler(Ratio::percent(50)));
        site.change(half.clone()).unwrap();
        assert_eq!(site.hand_over(), [half]);
        let refused = "an upgrade is under way: ask again in a moment";
        let quarter = change(Setting::Scaler(Ratio::percent(25)));
        assert_eq!(site.change(quarter.clone()).unwrap_err().to_string(), refused);
        assert_eq!(site.reload().unwrap_err(), refused);
        site.take_back();
        site.change(quarter.clone()).unwrap();
        assert_eq!(site.changes(), [quarter]);
        site.reload().unwrap();
    }

    #[test]
    fn a_file_that_is_read_again_with_one_service_changed_has_its_listeners_as_they_were() {
        let engine = Remembers::default();
        let before = Arc::new(file(&[SERVER]));
        let again = || {
            Ok((
                Arc::new(file(&[SERVER, "name = \"far\"\nservers = [\"127.0.0.1:2\"]"])),
                NameServers::default(),
            ))
        };
        let site = site(&engine, &before, again);
        site.reload().unwrap();
        assert_eq!(engine.in_force().services[0].groups.len(), 2);
        assert!(engine.in_force().listeners.share(&before.listeners));
    }

    #[test]
    fn a_name_of_a_drained_service_is_found_again_and_other_services_stay_as_they_are() {
        let engine = Remembers::default();
        let mut file = file(&["name = \"near\"\ndiscover = { dns = \"known.test:80\" }"]);
        let other = file.services[0].clone();
        file.services.push(Service { name: "api".into(), ..other });
        file.services[1].groups[0].discovery = None;
        let file = Arc::new(file);
        let source = file.services[0].groups[0].discovery.as_ref().unwrap().source.clone();
        let site = site(&engine, &file, || Err(String::new()));
        let address = ([10, 0, 0, 1], 80).into();
        let listed = |last| Listed::at(([10, 0, 0, last], 80).into());
        let answer = |servers| Answer { servers: Ok(servers), ttl: None };
        site.found(&source, answer(vec![listed(1)]), &NameServers::default());
        site.change(change(Setting::Mode(address, Mode::Drain))).unwrap();
        let before = engine.in_force();
        site.found(&source, answer(vec![listed(1), listed(2)]), &NameServers::default());
        let after = engine.in_force();
        let servers = &after.services[0].groups[0].servers;
        assert_eq!(servers.iter().map(|it| it.weight).collect::<Vec<_>>(), [0, 1]);
        assert!(after.services.share(1, &before.services));
        assert!(!after.services.share(0, &before.services));
    }

    #[test]
    fn one_service_is_told_of_without_a_look_at_all_others() {
        let engine = Remembers::default();
        let mut fleet = file(&[SERVER]);
        let web = fleet.services[0].clone();
        for n in 0..999 {
            fleet.services.push(Service { name: format!("s{n}"), ..web.clone() });
        }
        let fleet = Arc::new(fleet);
        let site = site(&engine, &fleet, || Err(String::new()));
        engine.amend(fleet);
        let told = site.service("s500").unwrap();
        assert_eq!(told.services.iter().map(|it| &*it.name).collect::<Vec<_>>(), ["s500"]);
        assert!(site.service("nobody").is_none());
        assert_eq!(engine.told.load(SeqCst), 1);
    }

    #[test]
    fn a_server_that_was_drained_stays_so_when_its_name_is_known_after_an_upgrade() {
        let engine = Remembers::default();
        let file = Arc::new(file(&["name = \"near\"\ndiscover = { dns = \"known.test:80\" }"]));
        let source = file.services[0].groups[0].discovery.as_ref().unwrap().source.clone();
        let site = site(&engine, &file, || Err(String::new()));
        let address = ([10, 0, 0, 1], 80).into();
        site.restore(&[change(Setting::Mode(address, Mode::Drain))]);
        let answer = Answer { servers: Ok(vec![Listed::at(address)]), ttl: None };
        site.found(&source, answer, &NameServers::default());
        assert_eq!(engine.in_force().services[0].groups[0].servers[0].weight, 0);
    }

    const SERVER: &str = "servers = [\"127.0.0.1:1\"]";
    const KNOWN: &str = "name = \"known\"\ndiscover = { dns = \"known.test:80\" }";
    const NEW: &str = "name = \"new\"\ndiscover = { dns = \"new.test:80\" }";
}
