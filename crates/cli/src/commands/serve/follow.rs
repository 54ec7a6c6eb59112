//! Follows the configuration and the files that it names, by looking at them once a second. Lists
//! of servers are always followed, the others where that is asked for.
//!
//! Where a configuration could not be put in force, what it names is followed as well: a file that
//! was missing may come a moment later.
//!
//! A file has changed when its device, inode, time or size has. What differs must look the same
//! twice before it is told, so that nobody reads a file that is still being written; one that is
//! missing is on its way to being replaced, and only a list, or a file of an included folder, that
//! stays missing has changed.
//!
//! A reload forgets what was changed at run time. So before it everything that it would read is
//! compared with what was read last: where files were replaced by the same content, as by tools
//! that write them anew each time, none is needed.

use std::{
    collections::{BTreeMap, BTreeSet},
    fs,
    hash::{DefaultHasher, Hasher as _},
    os::unix::fs::MetadataExt as _,
    path::{Path, PathBuf},
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use loadline_control::included;
use loadline_core::fleet::{Certificate, Fleet, ListPlace};

use super::cluster::InForce;

/// What is known of the files.
#[derive(Debug)]
pub(super) struct Follower {
    /// None where lists of servers alone are followed.
    configuration: Option<PathBuf>,
    /// What the configuration included when it was last read, and the folders of that.
    included: Vec<PathBuf>,
    /// What the configuration names, where it was read last and could not be put in force.
    awaited: BTreeSet<PathBuf>,
    /// As they were when they were last read.
    read: Marks,
    /// As they were at the last look.
    seen: Marks,
}

/// Which file has changed. With each the ones before it are read again, too.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Changed {
    /// Lists of servers, alone.
    Lists,
    /// One that the configuration names, alone.
    Named,
    /// The configuration itself.
    Configuration,
    /// Whatever it is: somebody asks for a reload.
    Anything,
}

/// How files are; none for one that is missing.
pub(super) type Marks = BTreeMap<PathBuf, Option<Mark>>;

/// What tells one content of a file from another without reading it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Mark {
    device: u64,
    inode: u64,
    /// Seconds, and nanoseconds of the second.
    modified: (i64, i64),
    size: u64,
}

impl Follower {
    /// Follows a configuration that is about to be read; lists of servers alone where there is
    /// none.
    pub(super) fn new(configuration: Option<&Path>) -> Self {
        let configuration = configuration.map(Path::to_owned);
        let included = configuration.as_deref().map(included).unwrap_or_default();
        let seen = marks(configuration.iter().chain(&included).cloned());
        Self { configuration, included, awaited: BTreeSet::new(), read: seen.clone(), seen }
    }

    /// What looks at all that the configuration names, which is about to be read; nothing where
    /// that is not followed.
    pub(super) fn names(&self, in_force: &InForce) -> Named {
        let (configuration, in_force) = (self.configuration.clone(), in_force.clone());
        let named = Named { configuration, in_force, read: Mutex::default() };
        named.read().contents = named.contents();
        named
    }

    /// Follows what the configuration names from now on; nothing of one that is in force. Where
    /// none was read, it goes on as before.
    pub(super) fn wait_for(&mut self, named: Option<Marks>) {
        let Some(named) = named else { return };
        self.awaited = named.keys().cloned().collect();
        for (path, mark) in named {
            self.read.entry(path).or_insert(mark);
        }
    }

    /// Looks at the configuration and at what it names now. What is in force and is named for the
    /// first time has just been read.
    pub(super) fn look(&mut self, fleet: &Fleet) -> Option<Changed> {
        let lists = lists(fleet);
        let named = self.configuration.as_ref().map(|_| named(fleet)).unwrap_or_default();
        for path in named.iter().chain(&lists) {
            self.awaited.remove(path);
        }
        let mut now = marks(named);
        now.extend(lists.iter().map(|path| (path.clone(), mark(path))));
        for (path, mark) in now.iter().filter(|(_, mark)| mark.is_some()) {
            self.read.entry(path.clone()).or_insert(*mark);
        }
        now.extend(self.awaited.iter().map(|path| (path.clone(), mark(path))));
        let listed = self.listed();
        let gone = self.included.iter().filter(|path| !listed.contains(path));
        now.extend(gone.map(|path| (path.clone(), None)));
        now.extend(marks(self.configuration.iter().chain(&listed).cloned()));
        let is_settled = self.seen == now;
        self.seen = now;
        if !is_settled {
            return None;
        }
        let differs =
            |(path, mark): &(&PathBuf, &Option<Mark>)| self.read.get(*path) != Some(*mark);
        let changed: Vec<&PathBuf> = self.seen.iter().filter(differs).map(|it| it.0).collect();
        let what = match changed.as_slice() {
            [] => return None,
            some if some.iter().any(|it| listed.contains(it) || self.is_configuration(it)) => {
                Changed::Configuration
            }
            some if some.iter().all(|it| lists.contains(it)) => Changed::Lists,
            _ => Changed::Named,
        };
        self.read = self.seen.clone();
        if what == Changed::Configuration {
            self.included = self.configuration.as_deref().map(included).unwrap_or_default();
            self.read.extend(marks(self.included.iter().cloned()));
            self.seen = self.read.clone();
        }
        Some(what)
    }

    /// What the configuration includes now: files in a folder appear and go. As before while it is
    /// missing itself, and where it includes nothing.
    fn listed(&self) -> Vec<PathBuf> {
        match &self.configuration {
            Some(path) if path.is_dir() || (path.exists() && !self.included.is_empty()) => {
                included(path)
            }
            _ => self.included.clone(),
        }
    }

    fn is_configuration(&self, path: &PathBuf) -> bool {
        self.configuration.as_ref() == Some(path)
            || self.included.contains(path)
            || self.awaited.contains(path)
    }
}

/// A configuration with all that it names, and what that said when it was read last.
pub(super) struct Named {
    /// None where it is not followed.
    configuration: Option<PathBuf>,
    in_force: InForce,
    read: Mutex<Read>,
}

/// What was read last and is in force.
#[derive(Default)]
struct Read {
    contents: Contents,
    /// What it has made; none until somebody has begun with it.
    fleet: Option<Arc<Fleet>>,
}

/// What files say, as a digest; none for what is missing, or cannot be read.
pub(super) type Contents = BTreeMap<PathBuf, Option<u64>>;

impl Named {
    /// How what it names is now.
    pub(super) fn marks(&self) -> Marks {
        self.files().into_iter().map(|path| (path.clone(), mark(&path))).collect()
    }

    /// What it says now, with all that it includes and names.
    pub(super) fn contents(&self) -> Contents {
        let included = self.configuration.as_deref().map(included).unwrap_or_default();
        let files = self.configuration.iter().cloned().chain(included).chain(self.files());
        files.map(|path| (path.clone(), digest(&path))).collect()
    }

    /// Takes note that what was read at first has made this.
    pub(super) fn has_begun(&self, fleet: Arc<Fleet>) {
        self.read().fleet = Some(fleet);
    }

    /// Takes note that this is in force, and has made the fleet.
    pub(super) fn has_read(&self, contents: Contents, fleet: Arc<Fleet>) {
        *self.read() = Read { contents, fleet: Some(fleet) };
    }

    /// What the files say that are read again beside the `fleet` in force, where those of `what`
    /// have changed; nothing where the configuration is not followed.
    pub(super) fn renewable(&self, what: Changed, fleet: &Fleet) -> Contents {
        if self.configuration.is_none() {
            return Contents::new();
        }
        let others = if what == Changed::Lists { Vec::new() } else { named(fleet) };
        let files = lists(fleet).into_iter().chain(others);
        files.map(|path| (path.clone(), digest(&path))).collect()
    }

    /// Takes note that this has been read again alone and is in force.
    pub(super) fn has_renewed(&self, contents: Contents) {
        self.read().contents.extend(contents);
    }

    /// Which file says something else now than when it was read last: lists of the `fleet` in force
    /// where none does, which costs nothing. The configuration where somebody else has read it.
    pub(super) fn changed(&self, now: &Contents, fleet: &Arc<Fleet>) -> Changed {
        let read = self.read();
        if read.fleet.as_ref().is_some_and(|it| !Arc::ptr_eq(it, fleet)) {
            return Changed::Configuration;
        }
        let before = &read.contents;
        let paths: BTreeSet<&PathBuf> = before.keys().chain(now.keys()).collect();
        let differ = || paths.iter().filter(|path| before.get(**path) != now.get(**path));
        let (lists, named) = (lists(fleet), named(fleet));
        if differ().all(|path| lists.contains(path)) {
            return Changed::Lists;
        }
        let alone = differ().all(|path| lists.contains(path) || named.contains(path));
        if alone { Changed::Named } else { Changed::Configuration }
    }

    fn files(&self) -> Vec<PathBuf> {
        let Some(configuration) = &self.configuration else { return Vec::new() };
        loadline_control::named(configuration, self.in_force.get().as_ref())
    }

    fn read(&self) -> MutexGuard<'_, Read> {
        self.read.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Of a folder, or whatever else is no file, only whether it is there.
fn digest(path: &Path) -> Option<u64> {
    let mut hasher = DefaultHasher::new();
    if fs::metadata(path).ok()?.is_file() {
        hasher.write(&fs::read(path).ok()?);
    }
    Some(hasher.finish())
}

/// Of the files that are there.
fn marks(paths: impl IntoIterator<Item = PathBuf>) -> Marks {
    let marks = paths.into_iter().map(|path| {
        let mark = mark(&path);
        (path, mark)
    });
    marks.filter(|(_, mark)| mark.is_some()).collect()
}

/// Of a folder only whether it is there: files in it come and go.
fn mark(path: &Path) -> Option<Mark> {
    let data = fs::metadata(path).ok()?;
    let (modified, size) = match data.is_dir() {
        true => ((0, 0), 0),
        false => ((data.mtime(), data.mtime_nsec()), data.size()),
    };
    Some(Mark { device: data.dev(), inode: data.ino(), modified, size })
}

/// Lists of servers.
fn lists(fleet: &Fleet) -> Vec<PathBuf> {
    let groups = fleet.services.iter().flat_map(|service| &service.groups);
    let sources = groups.filter_map(|group| group.discovery.as_ref()).map(|it| &it.source.place);
    let path = |place: &ListPlace| match place {
        ListPlace::File(path) => Some(PathBuf::from(path)),
        ListPlace::Addresses { .. } | ListPlace::Services { .. } => None,
    };
    sources.filter_map(path).collect()
}

/// Certificates, keys and authorities.
fn named(fleet: &Fleet) -> Vec<PathBuf> {
    let listeners = fleet.listeners.iter().filter_map(|listener| listener.tls.as_ref());
    let of_listeners = listeners.flat_map(|tls| {
        let authorities = tls.clients.as_ref().map(|clients| &clients.authorities);
        tls.certificates.iter().flat_map(files).chain(authorities)
    });
    let services = fleet.services.iter().filter_map(|service| service.tls.as_ref());
    let of_services =
        services.flat_map(|tls| tls.certificate.iter().flat_map(files).chain(&tls.authorities));
    of_listeners.chain(of_services).map(PathBuf::from).collect()
}

fn files(certificate: &Certificate) -> impl Iterator<Item = &String> {
    [&certificate.chain, &certificate.key].into_iter().chain(&certificate.staple)
}

#[cfg(test)]
mod tests {
    use loadline_control::LocalOnly;

    use super::*;

    /// A configuration that names a certificate, both there.
    fn site() -> (tempfile::TempDir, PathBuf, Fleet) {
        let directory = tempfile::tempdir().unwrap();
        let (file, chain) = (directory.path().join("a.toml"), directory.path().join("a.pem"));
        let text = format!(
            "[[listener]]\nbind = \"127.0.0.1:0\"\nprotocol = \"https\"\nservice = \"web\"\n\
             tls = {{ certificates = [{chain:?}] }}\n[service.web]\n[[service.web.group]]\n\
             servers = [\"127.0.0.1:1\"]\n"
        );
        fs::write(&file, &text).unwrap();
        fs::write(chain, "1").unwrap();
        let loaded = loadline_control::parse_with("a", &text, &LocalOnly).unwrap();
        (directory, file, loaded.fleet)
    }

    /// A list of servers, and a file that follows it.
    fn listed() -> (tempfile::TempDir, PathBuf, Fleet) {
        let directory = tempfile::tempdir().unwrap();
        let list = directory.path().join("web.toml");
        let text = format!(
            "[[listener]]\nbind = \"127.0.0.1:0\"\nservice = \"web\"\n[service.web]\n\
             [[service.web.group]]\ndiscover = {{ file = {list:?} }}\n"
        );
        fs::write(&list, "1").unwrap();
        let fleet = loadline_control::parse_with("a", &text, &LocalOnly).unwrap().fleet;
        (directory, list, fleet)
    }

    #[test]
    fn a_change_is_told_once_when_it_has_looked_the_same_twice() {
        let (_directory, file, fleet) = site();
        let mut follower = Follower::new(Some(&file));
        assert_eq!((follower.look(&fleet), follower.look(&fleet)), (None, None));
        fs::write(&file, "half").unwrap();
        assert_eq!(follower.look(&fleet), None, "it may still be written");
        fs::write(&file, "half and half").unwrap();
        assert_eq!(follower.look(&fleet), None, "as it was");
        assert_eq!(follower.look(&fleet), Some(Changed::Configuration));
        assert_eq!(follower.look(&fleet), None);
    }

    /// Has the file include a folder with one file.
    fn include_folder(directory: &tempfile::TempDir, file: &Path) -> PathBuf {
        let text = fs::read_to_string(file).unwrap();
        fs::write(file, format!("include = [\"more\"]\n{text}")).unwrap();
        let more = directory.path().join("more");
        fs::create_dir(&more).unwrap();
        fs::write(more.join("a.toml"), "# 1").unwrap();
        more
    }

    #[test]
    fn files_that_are_replaced_by_the_same_content_have_not_changed() {
        let (directory, file, fleet) = site();
        let (more, fleet) = (include_folder(&directory, &file), Arc::new(fleet));
        let names = Follower::new(Some(&file)).names(&InForce::default());
        let changed = || names.changed(&names.contents(), &fleet);
        for path in [&file, &more.join("a.toml"), &directory.path().join("a.pem")] {
            let text = fs::read(path).unwrap();
            fs::write(directory.path().join("next"), &text).unwrap();
            fs::rename(directory.path().join("next"), path).unwrap();
            assert_eq!(changed(), Changed::Lists, "of which none has changed: {}", path.display());
            fs::write(path, [&text[..], b"\n"].concat()).unwrap();
            assert!(changed() > Changed::Lists, "{}", path.display());
            fs::write(path, text).unwrap();
        }
        fs::write(more.join("b.toml"), "").unwrap();
        assert_eq!(changed(), Changed::Configuration);
        names.has_read(names.contents(), fleet.clone());
        assert_eq!(changed(), Changed::Lists);
        let other = Arc::new((*fleet).clone());
        let changed = names.changed(&names.contents(), &other);
        assert_eq!(changed, Changed::Configuration, "somebody else has reloaded meanwhile");
    }

    #[test]
    fn beside_a_configuration_that_says_the_same_a_certificate_is_renewed_and_a_list_read_again() {
        let (directory, file, of_site) = site();
        let of_site = Arc::new(of_site);
        let names = Follower::new(Some(&file)).names(&InForce::default());
        fs::write(directory.path().join("a.pem"), "2").unwrap();
        assert_eq!(names.changed(&names.contents(), &of_site), Changed::Named);
        let (_directory, list, fleet) = listed();
        let file = list.with_file_name("a.toml");
        let text = format!("[[service.web.group]]\ndiscover = {{ file = {list:?} }}\n");
        fs::write(&file, text).unwrap();
        let names = Follower::new(Some(&file)).names(&InForce::default());
        fs::write(&list, "22").unwrap();
        assert_eq!(names.changed(&names.contents(), &Arc::new(fleet)), Changed::Lists);
        assert_eq!(names.changed(&names.contents(), &of_site), Changed::Configuration);
    }

    #[test]
    fn a_certificate_that_was_renewed_alone_is_not_read_again_with_a_configuration_that_is_touched()
    {
        let (directory, file, fleet) = site();
        let (text, fleet) = (fs::read_to_string(&file).unwrap(), Arc::new(fleet));
        let names = Follower::new(Some(&file)).names(&InForce::default());
        let changed = || names.changed(&names.contents(), &fleet);
        fs::write(directory.path().join("a.pem"), "2").unwrap();
        names.has_renewed(names.renewable(Changed::Lists, &fleet));
        assert_eq!(changed(), Changed::Named, "lists alone have been read");
        names.has_renewed(names.renewable(Changed::Named, &fleet));
        assert_eq!(changed(), Changed::Lists, "of which none has changed");
        fs::write(&file, format!("{text}# more\n")).unwrap();
        names.has_renewed(names.renewable(Changed::Named, &fleet));
        assert_eq!(changed(), Changed::Configuration, "that has not been read");
    }

    #[test]
    fn a_page_that_is_replaced_together_with_a_configuration_that_says_the_same_has_that_read() {
        let (directory, file, fleet) = site();
        let (page, text) = (directory.path().join("page.html"), fs::read_to_string(&file).unwrap());
        let service = format!("[service.web]\nmaintenance = {{ page = {page:?} }}\n");
        fs::write(&file, text.replace("[service.web]\n", &service)).unwrap();
        fs::write(&page, "1").unwrap();
        let names = Follower::new(Some(&file)).names(&InForce::default());
        fs::write(&page, "2").unwrap();
        assert_eq!(names.changed(&names.contents(), &Arc::new(fleet)), Changed::Configuration);
    }

    #[test]
    fn an_included_file_that_changes_or_appears_is_a_change_of_the_configuration() {
        let (directory, file, fleet) = site();
        let more = include_folder(&directory, &file);
        let mut follower = Follower::new(Some(&file));
        assert_eq!((follower.look(&fleet), follower.look(&fleet)), (None, None));
        fs::write(more.join("a.toml"), "# 22").unwrap();
        assert_eq!(follower.look(&fleet), None);
        assert_eq!(follower.look(&fleet), Some(Changed::Configuration));
        fs::write(more.join("b.toml"), "# 1").unwrap();
        assert_eq!(follower.look(&fleet), None);
        assert_eq!(follower.look(&fleet), Some(Changed::Configuration));
        fs::write(more.join("b.toml"), "# 22").unwrap();
        assert_eq!(follower.look(&fleet), None);
        assert_eq!(follower.look(&fleet), Some(Changed::Configuration));
        assert_eq!(follower.look(&fleet), None);
    }

    #[test]
    fn a_file_that_is_not_included_comes_and_goes_in_a_folder_without_a_reload() {
        let (directory, file, fleet) = site();
        let more = include_folder(&directory, &file);
        for (configuration, folder) in [(&file, &more), (&more, &more)] {
            let mut follower = Follower::new(Some(configuration));
            assert_eq!((follower.look(&fleet), follower.look(&fleet)), (None, None));
            for name in [".a.toml.swp", "4913", "a.toml~"] {
                fs::write(folder.join(name), "").unwrap();
                assert_eq!((follower.look(&fleet), follower.look(&fleet)), (None, None), "{name}");
                fs::remove_file(folder.join(name)).unwrap();
                assert_eq!((follower.look(&fleet), follower.look(&fleet)), (None, None), "{name}");
            }
        }
    }

    #[test]
    fn a_file_that_appears_in_a_folder_or_goes_is_a_change_of_the_configuration() {
        let (directory, file, fleet) = site();
        let text = fs::read_to_string(&file).unwrap();
        fs::write(&file, format!("include = [\"more/*.toml\"]\n{text}")).unwrap();
        let more = directory.path().join("more");
        fs::create_dir(&more).unwrap();
        fs::write(more.join("a.toml"), "# 1").unwrap();
        for configuration in [&file, &more] {
            let mut follower = Follower::new(Some(configuration));
            assert_eq!((follower.look(&fleet), follower.look(&fleet)), (None, None));
            fs::write(more.join("b.toml"), "# 1").unwrap();
            assert_eq!(follower.look(&fleet), None, "it may still be written");
            assert_eq!(follower.look(&fleet), Some(Changed::Configuration));
            assert_eq!((follower.look(&fleet), follower.look(&fleet)), (None, None));
            fs::remove_file(more.join("b.toml")).unwrap();
            assert_eq!(follower.look(&fleet), None, "it may be on its way to being replaced");
            assert_eq!(follower.look(&fleet), Some(Changed::Configuration));
            assert_eq!((follower.look(&fleet), follower.look(&fleet)), (None, None));
        }
    }

    #[test]
    fn a_file_that_comes_after_the_configuration_that_names_it_has_that_read_again() {
        let (directory, file, fleet) = site();
        let mut follower = Follower::new(Some(&file));
        assert_eq!((follower.look(&fleet), follower.look(&fleet)), (None, None));
        let users = directory.path().join("users");
        let text = fs::read_to_string(&file).unwrap();
        let auth = format!("basic_auth = {{ users_file = {users:?} }}\n[service.web]");
        fs::write(&file, text.replace("[service.web]", &auth)).unwrap();
        let names = follower.names(&InForce::default());
        assert_eq!(follower.look(&fleet), None);
        assert_eq!(follower.look(&fleet), Some(Changed::Configuration));
        let named = names.marks();
        assert_eq!(named.get(&users), Some(&None));
        // It comes while the configuration is read, which has missed it.
        fs::write(&users, "a:b").unwrap();
        follower.wait_for(Some(named));
        assert_eq!(follower.look(&fleet), None);
        assert_eq!(follower.look(&fleet), Some(Changed::Configuration));
        assert_eq!((follower.look(&fleet), follower.look(&fleet)), (None, None));
        fs::write(&users, "a:c\nd:e").unwrap();
        assert_eq!(follower.look(&fleet), None);
        assert_eq!(follower.look(&fleet), Some(Changed::Configuration), "it was wrong still");
        follower.wait_for(Some(Marks::new()));
        fs::write(&users, "a").unwrap();
        assert_eq!((follower.look(&fleet), follower.look(&fleet)), (None, None), "it is in force");
    }

    #[test]
    fn what_is_in_force_is_renewed_though_the_configuration_beside_it_is_wrong() {
        let (directory, file, fleet) = site();
        let chain = directory.path().join("a.pem");
        let mut follower = Follower::new(Some(&file));
        assert_eq!((follower.look(&fleet), follower.look(&fleet)), (None, None));
        follower.wait_for(Some([(chain.clone(), mark(&chain))].into()));
        fs::write(&chain, "22").unwrap();
        assert_eq!(follower.look(&fleet), None);
        assert_eq!(follower.look(&fleet), Some(Changed::Named));
    }

    #[test]
    fn an_included_file_that_was_missing_is_a_change_of_the_configuration() {
        let (directory, file, fleet) = site();
        let text = fs::read_to_string(&file).unwrap();
        let mut follower = Follower::new(Some(&file));
        fs::write(&file, format!("include = [\"more.toml\"]\n{text}")).unwrap();
        assert_eq!(follower.look(&fleet), None);
        assert_eq!(follower.look(&fleet), Some(Changed::Configuration));
        fs::write(directory.path().join("more.toml"), "# 1").unwrap();
        assert_eq!(follower.look(&fleet), None);
        assert_eq!(follower.look(&fleet), Some(Changed::Configuration));
        assert_eq!(follower.look(&fleet), None);
    }

    #[test]
    fn a_folder_that_comes_to_be_is_a_change_of_the_configuration_that_includes_it() {
        let (directory, file, fleet) = site();
        let text = fs::read_to_string(&file).unwrap();
        fs::write(&file, format!("include = [\"more/*.toml\"]\n{text}")).unwrap();
        let mut follower = Follower::new(Some(&file));
        assert_eq!((follower.look(&fleet), follower.look(&fleet)), (None, None));
        fs::create_dir(directory.path().join("more")).unwrap();
        assert_eq!(follower.look(&fleet), None);
        assert_eq!(follower.look(&fleet), Some(Changed::Configuration));
        assert_eq!(follower.look(&fleet), None);
    }

    #[test]
    fn a_certificate_that_is_replaced_is_told_apart_and_one_that_is_missing_is_waited_for() {
        let (directory, file, fleet) = site();
        let (chain, next) = (directory.path().join("a.pem"), directory.path().join("next"));
        let mut follower = Follower::new(Some(&file));
        assert_eq!((follower.look(&fleet), follower.look(&fleet)), (None, None));
        // The new one is there before the old one goes, so that it cannot get its inode.
        fs::write(&next, "2").unwrap();
        fs::remove_file(&chain).unwrap();
        assert_eq!((follower.look(&fleet), follower.look(&fleet)), (None, None));
        fs::rename(&next, &chain).unwrap();
        assert_eq!(follower.look(&fleet), None);
        assert_eq!(follower.look(&fleet), Some(Changed::Named));
    }

    #[test]
    fn a_list_of_servers_is_followed_though_nothing_else_is() {
        let (_directory, list, fleet) = listed();
        let mut follower = Follower::new(None);
        assert_eq!((follower.look(&fleet), follower.look(&fleet)), (None, None));
        fs::write(&list, "22").unwrap();
        assert_eq!(follower.look(&fleet), None);
        assert_eq!(follower.look(&fleet), Some(Changed::Lists));
    }

    #[test]
    fn a_list_of_servers_that_is_removed_is_told_and_so_is_one_that_comes_back() {
        let (_directory, list, fleet) = listed();
        let mut follower = Follower::new(None);
        assert_eq!((follower.look(&fleet), follower.look(&fleet)), (None, None));
        fs::remove_file(&list).unwrap();
        assert_eq!(follower.look(&fleet), None, "it may be on its way to being replaced");
        assert_eq!(follower.look(&fleet), Some(Changed::Lists));
        assert_eq!(follower.look(&fleet), None, "told once");
        fs::write(&list, "1").unwrap();
        assert_eq!(follower.look(&fleet), None);
        assert_eq!(follower.look(&fleet), Some(Changed::Lists));
    }
}
