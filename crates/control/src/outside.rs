//! What a configuration names outside of itself: files, sockets, places to write to, a user.
//!
//! Relative paths count from the directory of the configuration, wherever the process was started.
//! A check tries all of it, and so does a start before it binds anything, and a reload: what one
//! says the others say, at the place in the file.

mod trial;

use std::{
    collections::BTreeMap,
    net::SocketAddr,
    path::{Path, PathBuf},
};

use loadline_core::{fleet::LogTarget, rules::MapKind};
use loadline_spanned::{At, Complaint, FileErrors, Key, Named, Problems, Source, Span, Text};

use crate::{
    Loaded, assemble,
    file::{self, File},
    value::{
        acme::Email,
        address::AdminPlace,
        either::{TableOrFalse, TextOr},
        label::{FilePath, LogPlace, SuiteName},
        one_or_more::OneOrMore,
        store::StoreUrl,
        token::KeyPlace,
    },
};

use trial::PID_HELP;
pub use trial::has_other_content;

/// For what a configuration is read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Moment {
    /// To be checked. What may be otherwise where and when it is used is warned of.
    Check,
    /// To start with.
    Start,
    /// To go on with. What is a change needs a restart is not tried.
    Reload,
}

/// Something outside of the file that cannot be used, as another crate has found it.
#[derive(Clone, Debug)]
pub struct Fault {
    /// What the file says where it is named: the whole path of a file, or a word.
    pub about: String,
    /// What is wrong.
    pub message: String,
    /// What would be right.
    pub help: String,
    /// Whether it can be used all the same.
    pub is_warning: bool,
}

/// Where the process writes once it is `edge.user`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UserWrite<'a> {
    /// What the file says: the whole path.
    pub path: &'a str,
    /// What is written there, in words.
    pub what: &'static str,
    /// The directory in which files are made, or the nearest that is there.
    pub directory: &'a Path,
}

/// The places where a file names something outside of it.
#[derive(Clone, Debug)]
pub(crate) struct Outside {
    pub(crate) mentions: Vec<Mention>,
    pub(crate) base: PathBuf,
    pub(crate) source: Source,
}

/// A place that names something outside.
#[derive(Clone, Debug)]
pub(crate) struct Mention {
    what: What,
    /// The whole path, or the word.
    text: String,
    span: Span,
}

/// What a path is expected to be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum What {
    Certificate,
    Key,
    Authorities,
    Staple,
    Networks,
    /// Entries of a map, whose keys are compared so.
    Map(MapKind),
    Users,
    TokenKeys,
    Page,
    Token,
    Password,
    StateDirectory,
    AcmeDirectory,
    AccountKey,
    StandbyKey,
    Servers {
        may_be_empty: bool,
    },
    Directory,
    DiskCache,
    AccessLog,
    PidFile,
    Socket,
    /// No path, but an address to bind.
    Address,
    /// No path, but a word that somebody else knows the meaning of.
    Word,
}

impl Loaded {
    /// Tries what the file names outside of itself; what is wrong with it, and what others have
    /// found, gets its place in the file.
    ///
    /// # Errors
    /// Everything that cannot be used, in the order of the file.
    pub fn tried(mut self, moment: Moment, others: Vec<Fault>) -> Result<Self, FileErrors> {
        let Outside { mentions, base, source } = &self.outside;
        let mut problems = Problems::default();
        let mut blamed = Vec::new();
        // Many places may name one file.
        let mut usable: BTreeMap<&str, Vec<What>> = BTreeMap::new();
        for mention in mentions.iter().filter(|it| it.what.counts(moment)) {
            let usable_as = usable.entry(&mention.text).or_default();
            if usable_as.contains(&mention.what) {
                continue;
            }
            let tried = trial::attempt(mention.what, &mention.text, base);
            if let Err(complaint) = tried.and_then(|()| apart(mention, mentions)) {
                let (span, Complaint { message, help }) = (&mention.span, complaint);
                if mention.what == What::Address {
                    problems.warning(span, message, "here", help);
                    continue;
                }
                problems.error(span, message, "here", help);
                blamed.push(&mention.text);
            } else {
                usable_as.push(mention.what);
            }
        }
        for Fault { about, message, help, is_warning } in others {
            let place = mentions.iter().find(|it| it.text == about).map(|it| &it.span);
            match place {
                _ if blamed.contains(&&about) => {}
                Some(span) if is_warning => problems.warning(span, message, "here", help),
                Some(span) => problems.error(span, message, "here", help),
                None if is_warning => {}
                None => problems.unplaced(message, help),
            }
        }
        self.warnings.extend(problems.settle(source)?);
        self.warnings.sort_by_key(|it| (it.line(), it.column()));
        Ok(self)
    }
}

impl Loaded {
    /// Whether a place of the file says `text`, of what is outside of it.
    #[must_use]
    pub fn mentions(&self, text: &str) -> bool {
        self.outside.mentions.iter().any(|it| it.text == text)
    }

    /// Where the process writes once it is `edge.user`. The access log is open by then, and is
    /// given to that user.
    pub fn user_writes(&self) -> impl Iterator<Item = UserWrite<'_>> {
        let mentions = self.outside.mentions.iter();
        mentions.filter_map(|Mention { what, text, .. }| {
            let path = Path::new(text);
            let (what, directory) = match what {
                What::PidFile => ("the process id", path.parent()?),
                What::AcmeDirectory => ("certificates", trial::there(path)),
                What::StateDirectory => ("the published configuration", trial::there(path)),
                What::DiskCache => ("the cache", trial::there(path)),
                _ => return None,
            };
            Some(UserWrite { path: text, what, directory })
        })
    }
}

impl What {
    fn counts(self, moment: Moment) -> bool {
        let at_start = [
            Self::Token,
            Self::Password,
            Self::StateDirectory,
            Self::StandbyKey,
            Self::AccessLog,
            Self::PidFile,
            Self::Socket,
        ];
        match moment {
            Moment::Check => true,
            // Whether it can be bound is known at once.
            Moment::Start => self != Self::Address,
            Moment::Reload => self != Self::Address && !at_start.contains(&self),
        }
    }
}

/// The file with the process id takes the place of what is there: no socket, no log.
fn apart(mention: &Mention, all: &[Mention]) -> Result<(), Complaint> {
    if mention.what != What::PidFile {
        return Ok(());
    }
    let is_other = |it: &&Mention| {
        matches!(it.what, What::AccessLog | What::Socket)
            && Path::new(&it.text) == Path::new(&mention.text)
    };
    let Some(other) = all.iter().find(is_other) else { return Ok(()) };
    let other = if other.what == What::Socket { "a socket" } else { "the access log" };
    let message = format!("`{}` is the path of {other}, too", mention.text);
    Err(Complaint::new(message, PID_HELP))
}

/// Lets every relative path of the file begin at `base`, and tells where the file speaks of what is
/// outside of it.
pub(crate) fn settle(file: &mut File, base: &Path) -> Vec<Mention> {
    let mut mentions = Vec::new();
    each(file, &mut |what, path, span| {
        *path = base.join(&*path).to_string_lossy().into_owned();
        mentions.push(Mention { what, text: path.clone(), span: span.clone() });
    });
    words(file, &mut |text, span| {
        mentions.push(Mention { what: What::Word, text, span: span.clone() });
    });
    addresses(file, &mut |address, span| {
        let text = address.to_string();
        mentions.push(Mention { what: What::Address, text, span: span.clone() });
    });
    mentions
}

/// The paths that a reload reads.
pub(crate) fn paths(file: &mut File, base: &Path) -> Vec<PathBuf> {
    let is_read = |it: &Mention| it.what.counts(Moment::Reload) && it.what != What::Word;
    let mentions = settle(file, base).into_iter();
    mentions.filter(is_read).map(|it| PathBuf::from(it.text)).collect()
}

/// Visits the addresses that are bound.
fn addresses(file: &File, visit: &mut dyn FnMut(SocketAddr, &Span)) {
    if let Some(At { value: Text(AdminPlace::Address(address)), span }) =
        file.admin.get().and_then(|admin| admin.bind.at())
    {
        visit(*address, span);
    }
    let listeners = file.listener.get().into_iter().flatten().map(|it| &it.value);
    for listener in listeners.filter(|it| !it.forward.given()) {
        if let Some(At { value, span }) = listener.bind.at() {
            value.each(span).for_each(|(bind, span)| visit(bind.0, span));
        }
    }
}

/// Visits users, groups, the words of TLS, and services as `service.NAME`.
fn words(file: &File, visit: &mut dyn FnMut(String, &Span)) {
    if let Some(edge) = file.edge.get() {
        for At { value, span } in [&edge.user, &edge.group].into_iter().filter_map(Key::at) {
            visit(value.0.0.clone(), span);
        }
    }
    for (name, _) in file.service.get().into_iter().flat_map(Named::iter) {
        visit(format!("service.{}", name.value), &name.span);
    }
    let mut suites = |given: &Key<Vec<Text<SuiteName>>>| {
        if let Some(At { value, span }) = given.at() {
            value.iter().for_each(|suite| visit(suite.0.0.clone(), span));
        }
    };
    for listener in file.listener.get().into_iter().flatten() {
        listener.value.tls.get().into_iter().for_each(|tls| suites(&tls.suites));
    }
    let services = file.service.get().into_iter().flat_map(Named::iter);
    let tls: Vec<_> = services.filter_map(|(_, service)| service.value.tls.get()).collect();
    tls.iter().for_each(|tls| suites(&tls.suites));
    for At { value, span } in tls.iter().filter_map(|tls| tls.name.at()) {
        visit(value.0.0.clone(), span);
    }
}

/// What is done with a path.
type Visit<'a> = &'a mut dyn FnMut(What, &mut String, &Span);

/// Visits every path of the file.
fn each(file: &mut File, visit: Visit<'_>) {
    if let Some(edge) = file.edge.get_mut() {
        of_edge(edge, visit);
    }
    if let Some(admin) = file.admin.get_mut() {
        if let Some(At { value: Text(AdminPlace::Socket(path)), span }) = admin.bind.at_mut() {
            visit(What::Socket, path, span);
        }
        one(&mut admin.token_file, What::Token, visit);
    }
    if let Some(cluster) = file.cluster.get_mut() {
        one(&mut cluster.ca, What::Authorities, visit);
        if let Some(At { value, span }) = cluster.certificate.at_mut() {
            client_certificate(value, span, visit);
        }
        one(&mut cluster.password_file, What::Password, visit);
        one(&mut cluster.state_dir, What::StateDirectory, visit);
    }
    if let Some(disk) = file.cache.get_mut().and_then(|cache| cache.disk.get_mut()) {
        one(&mut disk.path, What::DiskCache, visit);
    }
    if let Some(standby) = file.l4.get_mut().and_then(|l4| l4.standby.get_mut()) {
        one(&mut standby.key_file, What::StandbyKey, visit);
    }
    for listener in file.listener.get_mut().into_iter().flatten() {
        if let Some(tls) = listener.value.tls.get_mut() {
            for At { value, span } in tls.certificates.get_mut().into_iter().flatten() {
                certificate(value, span, visit);
            }
            one(&mut tls.client_authorities, What::Authorities, visit);
            if let Some(At { value, span }) = tls.acme.at_mut() {
                of_acme(value, span, visit);
            }
        }
        pages(&mut listener.value.error_pages, visit);
        if let Some(auth) = listener.value.basic_auth.get_mut() {
            one(&mut auth.users_file, What::Users, visit);
        }
        if let Some(jwt) = listener.value.jwt.get_mut() {
            of_jwt(jwt, visit);
        }
        if let Some(file::ListenerRoutes::List(list)) = listener.value.routes.get_mut() {
            of_routes(list, visit);
        }
    }
    for list in file.routes.get_mut().into_iter().flat_map(Named::values_mut) {
        of_routes(&mut list.value, visit);
    }
    for map in file.maps.get_mut().into_iter().flat_map(Named::values_mut) {
        let kind = map.value.kind.get().map(|word| word.0.0).unwrap_or_default();
        one(&mut map.value.file, What::Map(kind), visit);
    }
    for service in file.service.get_mut().into_iter().flat_map(Named::values_mut) {
        of_service(&mut service.value, visit);
    }
}

fn of_edge(edge: &mut file::Edge, visit: Visit<'_>) {
    let to = match edge.access_log.at_mut() {
        Some(At { value: TextOr::Text(to), span }) => Some((to, span)),
        Some(At { value: TextOr::Table(table), .. }) => {
            table.to.at_mut().map(|to| (&mut to.value.0, &mut to.span))
        }
        None => None,
    };
    if let Some((LogPlace(LogTarget::File(path)), span)) = to {
        visit(What::AccessLog, path, span);
    }
    one(&mut edge.control, What::Socket, visit);
    one(&mut edge.pid_file, What::PidFile, visit);
}

fn of_acme(acme: &mut TextOr<Email, file::Acme>, span: &Span, visit: Visit<'_>) {
    let mut usual = assemble::STATE_DIR.to_owned();
    let TextOr::Table(acme) = acme else {
        return visit(What::AcmeDirectory, &mut usual, span);
    };
    one(&mut acme.ca, What::Authorities, visit);
    if let Some(account) = acme.external_account.get_mut() {
        one(&mut account.key_file, What::AccountKey, visit);
    }
    match acme.state_dir.at_mut() {
        Some(At { value, span }) => visit(What::AcmeDirectory, &mut value.0.0, span),
        None => visit(What::AcmeDirectory, &mut usual, span),
    }
}

fn of_routes(list: &mut file::RouteList, visit: Visit<'_>) {
    for route in list.each_mut() {
        one(&mut route.value.source_file, What::Networks, visit);
        if let Some(TableOrFalse::Table(auth)) = route.value.basic_auth.get_mut() {
            one(&mut auth.users_file, What::Users, visit);
        }
        if let Some(TableOrFalse::Table(jwt)) = route.value.jwt.get_mut() {
            of_jwt(jwt, visit);
        }
    }
}

fn of_jwt(jwt: &mut file::Jwt, visit: Visit<'_>) {
    if let Some(At { value: Text(KeyPlace::File(path)), span }) = jwt.keys.at_mut() {
        visit(What::TokenKeys, path, span);
    }
    one(&mut jwt.ca, What::Authorities, visit);
}

fn of_service(service: &mut file::Service, visit: Visit<'_>) {
    pages(&mut service.error_pages, visit);
    if let Some(At { value, span }) = service.maintenance.get_mut().and_then(|it| it.page.at_mut())
    {
        value.each_mut(span).for_each(|(path, span)| visit(What::Page, &mut path.0, span));
    }
    if let Some(tls) = service.tls.get_mut() {
        one(&mut tls.authorities, What::Authorities, visit);
        if let Some(At { value, span }) = tls.certificate.at_mut() {
            client_certificate(value, span, visit);
        }
    }
    for group in service.group.get_mut().into_iter().flatten() {
        if let Some(discover) = group.value.discover.get_mut() {
            let may_be_empty = discover.allow_empty.get().copied().unwrap_or(false);
            one(&mut discover.file, What::Servers { may_be_empty }, visit);
        }
        if let Some((StoreUrl::Files(path), span)) = url_of_store(&mut group.value) {
            visit(What::Directory, path, span);
        }
    }
}

/// The URL of the store of a group, and where it is.
fn url_of_store(group: &mut file::Group) -> Option<(&mut StoreUrl, &Span)> {
    match group.store.at_mut()? {
        At { value: TextOr::Text(url), span } => Some((url, span)),
        At { value: TextOr::Table(table), .. } => {
            table.url.at_mut().map(|url| (&mut url.value.0, &url.span))
        }
    }
}

fn pages(given: &mut Key<Named<OneOrMore<FilePath>>>, visit: Visit<'_>) {
    for At { value, span } in given.get_mut().into_iter().flat_map(Named::values_mut) {
        value.each_mut(span).for_each(|(path, span)| visit(What::Page, &mut path.0, span));
    }
}

fn certificate(given: &mut TextOr<FilePath, file::Certificate>, span: &Span, visit: Visit<'_>) {
    match given {
        TextOr::Text(path) => visit(What::Certificate, &mut path.0, span),
        TextOr::Table(table) => {
            one(&mut table.chain, What::Certificate, visit);
            one(&mut table.key, What::Key, visit);
            one(&mut table.ocsp, What::Staple, visit);
        }
    }
}

fn client_certificate(
    given: &mut TextOr<FilePath, file::ClientCertificate>,
    span: &Span,
    visit: Visit<'_>,
) {
    match given {
        TextOr::Text(path) => visit(What::Certificate, &mut path.0, span),
        TextOr::Table(table) => {
            one(&mut table.chain, What::Certificate, visit);
            one(&mut table.key, What::Key, visit);
        }
    }
}

fn one(key: &mut Key<Text<FilePath>>, what: What, visit: Visit<'_>) {
    if let Some(At { value, span }) = key.at_mut() {
        visit(what, &mut value.0.0, span);
    }
}
