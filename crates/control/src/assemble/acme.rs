//! Certificates by ACME: for which names, by whom, and how those are verified.

use std::{collections::BTreeSet, sync::Arc};

use loadline_core::{
    fleet::{
        Listener, Protocol,
        acme::{Acme, Challenge, ExternalAccount, Issuer, Storage},
    },
    rules::{Host, Routes},
};
use loadline_spanned::{At, Problems, Span};

use crate::{
    file::{self, File, Spoken},
    value::{either::TextOr, one_or_more::OneOrMore},
};

/// What the file says of certificates by ACME for a listener with these routes.
pub(super) fn acme(
    entry: &At<file::Listener>,
    (protocol, routes): (Protocol, &Routes),
    file: &File,
    problems: &mut Problems,
) -> Option<Acme> {
    let given = entry.value.tls.get()?.acme.at()?;
    let nothing_else = file::Acme::default();
    let (email, table) = match &given.value {
        TextOr::Text(email) => (Some(email.0.clone()), &nothing_else),
        TextOr::Table(table) => (table.email.get().map(|email| email.0.0.clone()), table),
    };
    let storage = storage(table, file, problems);
    let issuer = Issuer { email, storage, ..issuer(table, takes_http(file), problems) };
    refuse_challenge(table, &given.span, (protocol, &issuer), file, problems);
    warn_of_port(table, &given.span, file, problems);
    let names = names(table, &given.span, routes, problems);
    Some(Acme { names, issuer: Arc::new(issuer) })
}

fn issuer(table: &file::Acme, takes_http: bool, problems: &mut Problems) -> Issuer {
    let staging = table.staging.get() == Some(&true);
    if let (true, Some(directory)) = (staging, table.directory.at()) {
        let message = "`directory` and `staging`: each names an authority".to_owned();
        let help = "leave one out: `staging` is that of Let's Encrypt".to_owned();
        problems.error(&directory.span, message, "not both", help);
    }
    let directory = match table.directory.get() {
        Some(url) => url.0.0.clone(),
        None if staging => STAGING.to_owned(),
        None => LETS_ENCRYPT.to_owned(),
    };
    let otherwise = if takes_http { Challenge::Http01 } else { Challenge::TlsAlpn01 };
    let state_dir = table.state_dir.get().map(|path| path.0.0.clone());
    Issuer {
        directory,
        email: None,
        authorities: table.ca.get().map(|path| path.0.0.clone()),
        external_account: external_account(table, problems),
        challenge: table.challenge.get().map_or(otherwise, |word| word.0.0),
        state_dir: state_dir.unwrap_or_else(|| STATE_DIR.to_owned()),
        storage: Storage::default(),
    }
}

/// Who has the certificates.
fn storage(table: &file::Acme, file: &File, problems: &mut Problems) -> Storage {
    let is_in_cluster = file.cluster.given();
    let otherwise = if is_in_cluster { Storage::Cluster } else { Storage::Disk };
    let Some(At { value, span }) = table.storage.at() else { return otherwise };
    if value.0.0 == Storage::Cluster && !is_in_cluster {
        let message = "`storage = \"cluster\"` of an edge that is alone".to_owned();
        let help = "add [cluster] etcd = [\"https://10.0.0.1:2379\"], or say storage = \"disk\"";
        problems.error(span, message, "no store", help.to_owned());
        return otherwise;
    }
    value.0.0
}

fn external_account(table: &file::Acme, problems: &mut Problems) -> Option<ExternalAccount> {
    let given = table.external_account.at()?;
    let file::ExternalAccount { kid, key_file } = &given.value;
    let (Some(kid), Some(key_file)) = (kid.get(), key_file.get()) else {
        let message = "an external account needs both `kid` and `key_file`".to_owned();
        let help = "write { kid = \"...\", key_file = \"/etc/loadline/acme.key\" }".to_owned();
        problems.absent(&given.span, &given.span, message, help);
        return None;
    };
    Some(ExternalAccount { kid: kid.0.0.clone(), key_file: key_file.0.0.clone() })
}

/// Refuses a challenge that no listener of the file can answer.
fn refuse_challenge(
    table: &file::Acme,
    span: &Span,
    (protocol, issuer): (Protocol, &Issuer),
    file: &File,
    problems: &mut Problems,
) {
    let span = table.challenge.place_or(span);
    if issuer.challenge == Challenge::Http01 && !takes_http(file) {
        let message = "`http-01` without a listener that takes HTTP in clear".to_owned();
        let help = "add one: [[listener]] bind = \":80\", or say challenge = \"tls-alpn-01\"";
        problems.error(&span, message, "nobody would answer", help.to_owned());
    }
    if issuer.challenge == Challenge::TlsAlpn01 && protocol != Protocol::Https {
        let message = "`tls-alpn-01` on a listener without HTTP".to_owned();
        let help = "add a listener for HTTP in clear, bind = \":80\", and say challenge = \
                    \"http-01\"";
        problems.error(&span, message, "not possible", help.to_owned());
    }
}

/// Warns of a challenge that nobody chose, whose requests come to a port without a listener.
fn warn_of_port(table: &file::Acme, span: &Span, file: &File, problems: &mut Problems) {
    let binds = in_clear(file).filter_map(|listener| listener.bind.get());
    let is_on_80 = binds.flat_map(OneOrMore::iter).any(|bind| bind.0.port() == 80);
    if table.challenge.given() || !takes_http(file) || is_on_80 {
        return;
    }
    let message = "`http-01` without a listener for HTTP on port 80";
    let help = "add one: [[listener]] bind = \":80\"; or say challenge = \"http-01\" if port 80 is \
                forwarded here, or \"tls-alpn-01\"";
    problems.warning(span, message, "the authority asks at port 80", help);
}

/// Whether a listener takes HTTP in clear.
fn takes_http(file: &File) -> bool {
    in_clear(file).next().is_some()
}

/// The listeners that take HTTP in clear.
fn in_clear(file: &File) -> impl Iterator<Item = &file::Listener> {
    let listeners = file.listener.get().into_iter().flatten().map(|listener| &listener.value);
    listeners.filter(|listener| {
        let protocol = listener.protocol.get().map(|word| word.0.0);
        let is_http = protocol.is_none_or(|it| it == Spoken::Proxied(Protocol::Http));
        is_http && !listener.forward.given()
    })
}

/// The names, each once, in the order of the file.
fn names(table: &file::Acme, span: &Span, routes: &Routes, problems: &mut Problems) -> Vec<String> {
    let mut names = Vec::new();
    for At { value, span } in table.names.get().into_iter().flatten() {
        match refusal(&value.0.0) {
            Some((message, help)) => problems.error(span, message, "not possible", help),
            None => names.push(value.0.0.clone()),
        }
    }
    if !table.names.given() {
        let hosts = routes.rules().iter().flat_map(|(_, rule)| &rule.when.hosts);
        names.extend(hosts.filter_map(|host| match host {
            Host::Exact(name) if refusal(name).is_none() => Some(name.clone()),
            Host::Exact(_) | Host::Under(_) => None,
        }));
    }
    if names.is_empty() && !problems.failed() {
        let message = "`acme` without a name to get a certificate for".to_owned();
        let help = "name them, acme = { names = [\"www.example.com\"] }, or let routes name hosts";
        problems.absent(span, span, message, help.to_owned());
    }
    let mut seen = BTreeSet::new();
    names.retain(|name| seen.insert(name.clone()));
    names
}

/// Why no authority issues a certificate for `name`, or none that can be had without its DNS; and
/// what would be right.
fn refusal(name: &str) -> Option<(String, &'static str)> {
    let is_address = name.trim_matches(['[', ']']).parse::<std::net::IpAddr>().is_ok();
    if name.contains('*') {
        let help = "name each host, or have a certificate with a wildcard from elsewhere in \
                    `certificates`";
        Some((format!("`{name}` is a wildcard, which needs a challenge by DNS"), help))
    } else if is_address {
        Some((format!("`{name}` is an address"), "write a DNS name: \"www.example.com\""))
    } else if !name.contains('.') || name.contains(['_', ':']) {
        let help = "write a whole DNS name: \"www.example.com\"";
        Some((format!("`{name}` is no name for which certificates are issued"), help))
    } else {
        None
    }
}

/// Refuses two accounts with one authority in one directory. `issuers` has those of the listeners
/// above, each once.
pub(super) fn refuse_two_accounts(
    issuers: &mut Vec<Arc<Issuer>>,
    new: &Listener,
    span: &Span,
    problems: &mut Problems,
) {
    let acme = new.tls.as_ref().and_then(|tls| tls.acme.as_ref());
    let Some(own) = acme.map(|acme| &acme.issuer) else { return };
    // The store of a cluster has one account with each authority.
    let is_one = |other: &Issuer| match (other.storage, own.storage) {
        (Storage::Cluster, Storage::Cluster) => other.name() == own.name(),
        _ => other.folder() == own.folder(),
    };
    if issuers.iter().any(|other| other != own && is_one(other)) {
        let message = "an authority that is told something else by another listener".to_owned();
        let help = "say the same at both, but for `names`, or give each a `state_dir` of its own";
        problems.error(span, message, "unlike one above", help.to_owned());
    }
    if !issuers.contains(own) {
        issuers.push(Arc::clone(own));
    }
}

/// What issues where nothing else is said.
const LETS_ENCRYPT: &str = "https://acme-v02.api.letsencrypt.org/directory";
const STAGING: &str = "https://acme-staging-v02.api.letsencrypt.org/directory";
/// Where account and certificates are where nothing else is said.
pub(crate) const STATE_DIR: &str = "/var/lib/loadline/acme";
