//! The TLS configurations of a fleet, loaded from its files.
//!
//! They are loaded as a whole, before any of them is put in force: a file that cannot be used
//! refuses a start or a reload, and changes nothing.

use std::{
    collections::{BTreeMap, BTreeSet},
    io,
    net::SocketAddr,
    sync::Arc,
};

use loadline_core::{
    fleet::{Fleet, HttpVersion, Listener, ServerTls, Service, TlsTerms, acme::Acme},
    rules::Authentication,
    state::Certificate,
};
use rustls::{
    ClientConfig, ServerConfig,
    pki_types::{CertificateDer, PrivateKeyDer, ServerName},
};

use super::{
    config::{Certificates, SystemRoots, TlsError, for_clients, for_servers, has_suite},
    issued::Issued,
    ocsp::StapleFault,
    sessions::{Authorities, Basis, Origin, keep_sessions},
    stream::Tls,
    validity::Validity,
};
use crate::listener::handle::ListenerKey;

/// What TLS connections of a fleet are made with.
#[derive(Debug, Default)]
pub struct Keys {
    listeners: BTreeMap<ListenerKey, Arc<ServerConfig>>,
    /// What they are made of.
    bases: BTreeMap<ListenerKey, Basis>,
    /// By the name of a service.
    services: BTreeMap<String, Dialing>,
    /// By the file of a certificate.
    validities: BTreeMap<String, Validity>,
    /// By their files; the same as before a reload.
    issued: BTreeMap<String, Arc<Issued>>,
    /// Addresses of listeners whose suites go with none of their certificates.
    without_suite: Vec<SocketAddr>,
}

/// How connections to the servers of a service are made.
#[derive(Clone, Debug)]
pub(crate) struct Dialing {
    config: Arc<ClientConfig>,
    /// For all servers alike, where the service has one.
    name: Option<ServerName<'static>>,
    /// Names of servers written with a host name, otherwise.
    hosts: Arc<BTreeMap<SocketAddr, ServerName<'static>>>,
    /// Settings of these; the same after a reload that does not change them.
    settings: Arc<Settings>,
    /// What was read for them; none where that is not known.
    origin: Option<Arc<Origin>>,
}

/// What connections to the servers of a service are made by.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Settings {
    tls: ServerTls,
    /// What servers are offered by ALPN.
    protocols: &'static [&'static str],
    /// Who is trusted by the files of now; our own certificate may be renewed beside it.
    authorities: Option<Authorities>,
}

impl Keys {
    /// Reads every file that the fleet names.
    ///
    /// # Errors
    /// See [`TlsError`]; the first that is found.
    pub fn load(fleet: &Fleet) -> Result<Self, TlsError> {
        Self::default().reload(fleet)
    }

    /// The same after these: certificates that are issued stay as they are shown.
    ///
    /// # Errors
    /// See [`TlsError`]; the first that is found.
    pub(crate) fn reload(&self, fleet: &Fleet) -> Result<Self, TlsError> {
        Self::load_after(fleet, self).map_err(|mut faults| faults.swap_remove(0))
    }

    /// The same for whoever wants to know everything that is wrong.
    ///
    /// # Errors
    /// Of each listener and each service the first that is found; never none.
    pub fn load_all(fleet: &Fleet) -> Result<Self, Vec<TlsError>> {
        Self::load_after(fleet, &Self::default())
    }

    fn load_after(fleet: &Fleet, before: &Self) -> Result<Self, Vec<TlsError>> {
        let (mut keys, mut faults) = (Self::default(), Vec::new());
        let certificates = Certificates::default();
        for (listener, key) in fleet.listeners.iter().zip(ListenerKey::of(&fleet.listeners)) {
            let Some(tls) = &listener.tls else { continue };
            let issued = tls.acme.as_ref().map(|acme| keys.issued_for(acme, before));
            let basis = Basis::of(tls, alpn(listener));
            match for_clients(tls, alpn(listener), issued.unwrap_or_default(), &certificates) {
                Ok((mut config, validities)) => {
                    keys.resume(key, (&mut config, basis), before);
                    keys.listeners.insert(key, config);
                    keys.remember(validities);
                    if !has_suite(tls, &certificates) {
                        keys.without_suite.push(listener.bind);
                    }
                }
                Err(fault) => faults.push(fault),
            }
        }
        let (roots, nameless) = (SystemRoots::default(), without_http(fleet));
        for (index, service) in fleet.services.iter().enumerate() {
            let protocols: &[&str] = match service.http_version {
                HttpVersion::Http11 if nameless.contains(&index) => &[],
                HttpVersion::Http11 => &["http/1.1"],
                HttpVersion::Http2 => &["h2"],
            };
            let known = before.services.get(&service.name);
            match Dialing::of(service, protocols, (&roots, known)) {
                Ok(None) => {}
                Ok(Some((dialing, validity))) => {
                    keys.services.insert(service.name.clone(), dialing);
                    keys.remember(validity);
                }
                Err(fault) => faults.push(fault),
            }
        }
        if faults.is_empty() { Ok(keys) } else { Err(faults) }
    }

    /// Has a listener go on with its configuration of before, if nothing that it is made of is
    /// another, or with its sessions, if they are still good.
    fn resume(
        &mut self,
        key: ListenerKey,
        (config, basis): (&mut Arc<ServerConfig>, Option<Basis>),
        before: &Self,
    ) {
        let Some(basis) = basis else { return };
        if let Some((was, known)) = before.bases.get(&key).zip(before.listeners.get(&key)) {
            if *was == basis {
                config.clone_from(known);
            } else if basis.has_sessions_of(was) {
                keep_sessions(config, known);
            }
        }
        self.bases.insert(key, basis);
    }

    /// The certificates of these names, read again. One that cannot be used is no error: another
    /// will be issued.
    fn issued_for(&mut self, acme: &Acme, before: &Self) -> BTreeMap<String, Arc<Issued>> {
        let mut named = BTreeMap::new();
        for name in &acme.names {
            let file = acme.issuer.certificate(name);
            let known = self.issued.get(&file).or_else(|| before.issued.get(&file)).cloned();
            let issued = known.unwrap_or_else(|| Arc::new(Issued::new(file.clone())));
            if let Err(error) = issued.load() {
                tracing::warn!("{error}");
            }
            self.issued.insert(file, issued.clone());
            named.insert(name.clone(), issued);
        }
        named
    }

    /// Shows the certificate that an authority issued into this file. Of a file that no listener
    /// names nothing is shown.
    ///
    /// # Errors
    /// See [`TlsError`]; nothing has changed then.
    pub(crate) fn show_issued(&self, file: &str) -> Result<(), TlsError> {
        self.issued.get(file).map_or(Ok(()), |it| it.load())
    }

    /// Shows this to an authority that verifies the name whose certificate goes into `file`;
    /// nothing any more if omitted.
    ///
    /// # Errors
    /// [`TlsError::Key`] where the key cannot be used.
    pub(crate) fn validate_with(
        &self,
        file: &str,
        pair: Option<(CertificateDer<'static>, PrivateKeyDer<'static>)>,
    ) -> Result<(), TlsError> {
        self.issued.get(file).map_or(Ok(()), |it| it.validate_with(pair))
    }

    fn remember(&mut self, validities: impl IntoIterator<Item = Validity>) {
        for mut validity in validities {
            let known = self.validities.remove(&validity.file);
            // A chain may be used at several places, and have a response at one.
            validity.staple = validity.staple.or(known.and_then(|it| it.staple));
            self.validities.insert(validity.file.clone(), validity);
        }
    }

    /// The certificates, with the days they have left at `now_s` seconds since 1970.
    #[must_use]
    pub fn certificates(&self, now_s: i64) -> Vec<Certificate> {
        let issued = self.issued.values().filter_map(|it| it.validity());
        self.validities.values().cloned().chain(issued).map(|it| it.at(now_s)).collect()
    }

    /// The files of OCSP responses that are of no use at `now_s` seconds since 1970, and why.
    pub fn staple_faults(&self, now_s: i64) -> impl Iterator<Item = (&str, StapleFault)> {
        self.validities.values().filter_map(move |it| it.staple_fault(now_s))
    }

    /// The addresses of listeners whose suites go with none of their certificates: no client can
    /// agree with them.
    pub fn without_suite(&self) -> impl Iterator<Item = SocketAddr> {
        self.without_suite.iter().copied()
    }

    /// These, and those of `before` that `fleet` alone needs.
    pub(crate) fn beside(mut self, before: &Self, fleet: &Fleet) -> Self {
        let listeners = fleet.listeners.iter().zip(ListenerKey::of(&fleet.listeners));
        for (_, key) in listeners.filter(|(listener, _)| listener.tls.is_some()) {
            if let Some(config) = before.listeners.get(&key) {
                self.listeners.entry(key).or_insert_with(|| config.clone());
            }
        }
        for service in fleet.services.iter().filter(|service| service.tls.is_some()) {
            if let Some(dialing) = before.services.get(&service.name) {
                self.services.entry(service.name.clone()).or_insert_with(|| dialing.clone());
            }
        }
        self
    }

    /// For connections that come in at a listener; none where they are in clear, though a listener
    /// of this key had TLS before.
    pub(crate) fn listener(
        &self,
        listener: &Listener,
        key: ListenerKey,
    ) -> Option<Arc<ServerConfig>> {
        listener.tls.as_ref().and_then(|_| self.listeners.get(&key).cloned())
    }

    /// A digest of the authorities of clients' certificates at a listener; none where clients are
    /// asked for none.
    pub(crate) fn client_authorities(&self, key: ListenerKey) -> Option<&[u8]> {
        self.bases.get(&key)?.authorities()
    }

    /// Whether this is how connections to the servers of a service are made.
    pub(crate) fn service_is(&self, name: &str, dialing: Option<&Dialing>) -> bool {
        let known = self.services.get(name).zip(dialing);
        known.is_some_and(|(known, dialing)| known.is_same_as(dialing))
    }

    /// For connections to the servers of a service; none where they are in clear, though a service
    /// of this name had TLS before.
    pub(crate) fn service(&self, service: &Service) -> Option<Dialing> {
        service.tls.as_ref().and_then(|_| self.services.get(&service.name).cloned())
    }
}

/// Protocols offered to clients by ALPN; none where loadline does not parse the protocol.
const fn alpn(listener: &Listener) -> &'static [&'static str] {
    match listener.http_version {
        _ if !listener.protocol.is_http() => &[],
        None => &["h2", "http/1.1", "http/1.0"],
        Some(HttpVersion::Http11) => &["http/1.1", "http/1.0"],
        Some(HttpVersion::Http2) => &["h2"],
    }
}

/// Indices of services that only connections of unparsed protocols reach: their servers may speak
/// anything, and refuse an offer of HTTP (RFC 7301, section 3.2).
fn without_http(fleet: &Fleet) -> BTreeSet<usize> {
    let is_http = |it: &&Listener| it.protocol.is_http();
    let http = fleet.listeners.iter().filter(is_http).flat_map(|it| {
        let asked = it.authentication.as_ref().and_then(Authentication::service);
        let own = (!it.routes_only).then_some(it.service);
        it.routes.services().chain(asked).chain(own)
    });
    let http: BTreeSet<usize> = http.collect();
    let others = fleet.listeners.iter().filter(|it| !is_http(it));
    let named = others.flat_map(|it| it.names.services().chain([it.service]));
    named.filter(|index| !http.contains(index)).collect()
}

impl Dialing {
    fn of(
        service: &Service,
        protocols: &'static [&'static str],
        (roots, before): (&SystemRoots, Option<&Self>),
    ) -> Result<Option<(Self, Option<Validity>)>, TlsError> {
        let Some(tls) = &service.tls else { return Ok(None) };
        let named = |name: &str| {
            ServerName::try_from(name.to_owned()).map_err(|_| TlsError::Name {
                service: service.name.clone(),
                name: name.to_owned(),
            })
        };
        let name = tls.name.as_deref().map(named).transpose()?;
        let mut hosts = BTreeMap::new();
        for server in service.groups.iter().flat_map(|group| &group.servers) {
            let (None, Some(host)) = (&name, &server.host) else { continue };
            // The root's dot is no part of the name in a hello (RFC 6066, section 3).
            let host = named(host.trim_end_matches('.'))?;
            if let Some(other) = hosts.insert(server.address, host.clone())
                && other != host
            {
                let names = [other, host].map(|name| name.to_str().into_owned());
                return Err(TlsError::TwoNames { service: service.name.clone(), names });
            }
        }
        let origin = Origin::of(tls, roots).map(Arc::new);
        let (config, validity) = for_servers(tls, protocols, roots)?;
        let authorities = origin.as_ref().and_then(|it| it.authorities.clone());
        let settings = Settings { tls: tls.clone(), protocols, authorities };
        let known = before.map(|it| &it.settings).filter(|known| ***known == settings);
        let settings = known.cloned().unwrap_or_else(|| Arc::new(settings));
        let dialing = Self { config, name, hosts: Arc::new(hosts), settings, origin };
        let known = before.filter(|known| known.is_made_as(&dialing));
        Ok(Some((known.cloned().unwrap_or(dialing), validity)))
    }

    /// Begins TLS with the server at `address`.
    ///
    /// # Errors
    /// What rustls finds wrong with the configuration.
    pub(crate) fn begin(&self, address: SocketAddr) -> io::Result<Box<Tls>> {
        let (config, name) = self.to(address);
        let tls = Tls::client(config, name).map_err(io::Error::other)?;
        Ok(tls.made_by(&self.settings))
    }

    /// Whether both are the same in memory.
    fn is_same_as(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.config, &other.config) && Arc::ptr_eq(&self.hosts, &other.hosts)
    }

    /// Whether both are made of the same settings, files and names.
    fn is_made_as(&self, other: &Self) -> bool {
        let origins = self.origin.as_ref().zip(other.origin.as_ref());
        Arc::ptr_eq(&self.settings, &other.settings)
            && origins.is_some_and(|(one, other)| one == other)
            && self.hosts == other.hosts
    }

    /// Whether a connection was made by the same settings.
    pub(crate) fn has_made(&self, tls: &Tls) -> bool {
        tls.settings().is_some_and(|made_by| Arc::ptr_eq(made_by, &self.settings))
    }

    /// Whether connections are made alike, be it in clear.
    pub(crate) fn are_alike(one: Option<&Self>, other: Option<&Self>) -> bool {
        let settings = |it: Option<&Self>| it.map(|it| Arc::as_ptr(&it.settings));
        settings(one) == settings(other)
    }

    /// For any server whose certificate this machine trusts.
    pub(crate) fn verified() -> Result<Self, TlsError> {
        let roots = SystemRoots::default();
        let (config, _) = for_servers(&ServerTls::default(), &["http/1.1"], &roots)?;
        Ok(Self::unnamed(config))
    }

    /// By this configuration alone, to servers known by their addresses.
    fn unnamed(config: Arc<ClientConfig>) -> Self {
        let (hosts, settings) = (Arc::default(), Arc::default());
        Self { config, name: None, hosts, settings, origin: None }
    }

    /// The configuration alone.
    pub(crate) fn config(&self) -> Arc<ClientConfig> {
        self.config.clone()
    }

    /// Without any that is verified.
    pub(crate) fn unverified() -> Result<Self, TlsError> {
        let tls = ServerTls {
            authorities: None,
            verify: false,
            name: None,
            certificate: None,
            terms: TlsTerms::default(),
        };
        let (config, _) = for_servers(&tls, &[], &SystemRoots::default())?;
        Ok(Self::unnamed(config))
    }

    /// The configuration, and the name that the server at `address` has to prove.
    pub(crate) fn to(&self, address: SocketAddr) -> (Arc<ClientConfig>, ServerName<'static>) {
        let name = self.name.as_ref().or_else(|| self.hosts.get(&address)).cloned();
        let name = name.unwrap_or_else(|| ServerName::IpAddress(address.ip().into()));
        (self.config.clone(), name)
    }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use loadline_core::fleet::{Certificate, Edge};

    use super::*;

    #[test]
    fn a_connection_outlasts_our_own_certificate_but_not_the_authorities_that_it_was_made_by() {
        let folder = tempfile::tempdir().unwrap();
        let place = |name: &str| folder.path().join(name).to_str().unwrap().to_owned();
        let renew = |name: &str| {
            let own = rcgen::generate_simple_self_signed(["a.test".to_owned()]).unwrap();
            fs::write(place(name), own.cert.pem() + &own.signing_key.serialize_pem()).unwrap();
        };
        renew("ca.pem");
        renew("own.pem");
        let (chain, key) = (place("own.pem"), place("own.pem"));
        let certificate = Some(Certificate { chain, key, staple: None });
        let authorities = Some(place("ca.pem"));
        let tls = ServerTls { authorities, certificate, ..ServerTls::default() };
        let service = Service { tls: Some(tls), ..Service::named("web") };
        let fleet = Fleet::of(Edge::within("here"), vec![], vec![service]);
        let dialing = |keys: &Keys| keys.service(&fleet.services[0]).unwrap();

        let keys = Keys::load(&fleet).unwrap();
        let first = dialing(&keys);
        let made = first.begin(SocketAddr::from(([127, 0, 0, 1], 443))).unwrap();
        renew("own.pem");
        let keys = keys.reload(&fleet).unwrap();
        let renewed = dialing(&keys);
        assert!(!renewed.is_same_as(&first), "the new certificate is shown");
        assert!(renewed.has_made(&made) && Dialing::are_alike(Some(&first), Some(&renewed)));
        renew("ca.pem");
        let other = dialing(&keys.reload(&fleet).unwrap());
        assert!(!other.has_made(&made), "the authority of before vouches for it");
        assert!(!Dialing::are_alike(Some(&renewed), Some(&other)));
    }
}
