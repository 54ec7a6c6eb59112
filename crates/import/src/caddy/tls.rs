//! `tls` of Caddy: certificates of files, and what is said beside them.

use super::{Import, bind::Place, lex::Directive, site::reason};
use crate::{
    model::{PROTECTED, Table},
    write::{inline, text},
};

/// TLS of a site with a certificate of files.
#[derive(Clone, Debug)]
pub(super) struct Tls {
    at: usize,
    /// The certificate as the file writes it.
    pub(super) certificate: String,
    /// What its listener has to say for it.
    keys: Vec<(String, String)>,
}

/// TLS of a site; none where it asks for a certificate by itself.
pub(super) fn of_site(import: &mut Import<'_>, site: &Directive, table: &mut Table) -> Option<Tls> {
    let directive = site.block().iter().find(|it| it.name() == "tls")?;
    let args = directive.args();
    let [chain, key] = args.as_slice() else {
        table.remark(import.lines.lost(import.files, directive.at(), ACME));
        for inner in directive.block() {
            let why = if inner.name() == "client_auth" { CLIENTS } else { ACME };
            table.remark(import.lines.lost(import.files, inner.at(), why));
            import.lose_within(inner, why, table);
        }
        return None;
    };
    let pair = [("chain".to_owned(), text(chain)), ("key".to_owned(), text(key))];
    let mut tls = Tls { at: directive.at(), certificate: inline(&pair), keys: Vec::new() };
    for inner in directive.block() {
        let read = match inner.name() {
            "client_auth" => clients(inner),
            "protocols" => versions(&inner.args()),
            name => Err(reason(name)),
        };
        match read {
            Ok(keys) => tls.keys.extend(keys),
            Err(why) => {
                table.remark(import.lines.lost(import.files, inner.at(), why));
                import.lose_within(inner, why, table);
            }
        }
    }
    Some(tls)
}

/// Where certificates by themselves are asked for.
pub(super) const ACME: &str = "say at each listener how it gets certificates: tls = { acme = ... }";

const CLIENTS: &str = "THIS PROTECTED SOMETHING: the imported file verifies no clients by it; \
                       `tls.client_authorities` of the listener is one file of CA certificates, \
                       and `tls.client_required` says whether a client has to have one";

/// Who has to have a certificate.
fn clients(directive: &Directive) -> Result<Vec<(String, String)>, &'static str> {
    let mut mode = "require_and_verify";
    let mut files: Vec<&str> = Vec::new();
    for line in directive.block() {
        match (line.name(), line.args().as_slice()) {
            ("mode", [name]) => mode = *name,
            ("trusted_ca_cert_file", [file]) => files.push(*file),
            ("trust_pool", ["file", more @ ..]) => {
                files.extend(more);
                let lines = line.block().iter().filter(|it| it.name() == "pem_file");
                files.extend(lines.flat_map(Directive::args));
            }
            _ => return Err(CLIENTS),
        }
    }
    let [file] = files.as_slice() else { return Err(CLIENTS) };
    let mut keys = vec![(AUTHORITIES.to_owned(), text(file))];
    match mode {
        "require_and_verify" => {}
        "verify_if_given" => keys.push((REQUIRED.to_owned(), "false".to_owned())),
        _ => return Err(CLIENTS),
    }
    Ok(keys)
}

/// The least version, which may have the highest behind it.
fn versions(names: &[&str]) -> Result<Vec<(String, String)>, &'static str> {
    match names {
        ["tls1.3"] | ["tls1.3", "tls1.3"] => Ok(vec![("tls.min_version".to_owned(), text("1.3"))]),
        ["tls1.2"] | ["tls1.2", "tls1.3"] => Ok(Vec::new()),
        _ => Err("TLS 1.2 and 1.3 are spoken; tls.min_version = \"1.3\" leaves 1.2 out"),
    }
}

/// Sets at a listener what all of its sites say, and tells where they differ.
pub(super) fn settle(import: &Import<'_>, place: &Place, table: &mut Table) {
    let here = import.tls.iter().filter(|(other, _)| other == place);
    let sites: Vec<&Tls> = here.map(|(_, tls)| tls).collect();
    let Some(first) = sites.first() else { return };
    let is_common = |pair: &&(String, String)| sites.iter().all(|site| site.keys.contains(pair));
    let verifies = first.keys.iter().filter(is_common).any(|(key, _)| key == AUTHORITIES);
    // Who has to have a certificate is nothing where none is verified.
    let has_effect = |pair: &&(String, String)| verifies || pair.0 != REQUIRED;
    for (key, value) in first.keys.iter().filter(is_common).filter(has_effect) {
        table.set(key, value.as_str());
    }
    for site in &sites {
        for (key, _) in site.keys.iter().filter(|pair| !is_common(pair)).filter(has_effect) {
            let why = match key.as_str() {
                AUTHORITIES => format!("{PROTECTED}: all sites of a port {CLIENTS_ALIKE}"),
                REQUIRED => format!("all sites of a port {CLIENTS_ALIKE}: each has to have one"),
                _ => "all sites of a port have one least version of TLS".to_owned(),
            };
            table.remark(import.lines.differs(import.files, site.at, &why));
        }
    }
}

/// The certificates of clients at the listener: by whom they are signed, and who has to have one.
const AUTHORITIES: &str = "tls.client_authorities";
const REQUIRED: &str = "tls.client_required";

const CLIENTS_ALIKE: &str = "verify certificates of clients alike, or none does";
