//! TLS: which files, what is asked of the other side.

use loadline_core::fleet::{
    Certificate, ClientCheck, Listener, ListenerTls, Protocol, ServerTls, TlsTerms, TlsVersion,
};
use loadline_spanned::{At, Key, Problems, Span, Text};

use super::hsts::hsts;
use crate::{
    file,
    value::{
        either::TextOr,
        label::{FilePath, SuiteName},
        word::Word,
    },
};

/// TLS towards clients, which `protocol` wants or does not.
pub(super) fn listener(
    entry: &At<file::Listener>,
    protocol: Protocol,
    problems: &mut Problems,
) -> Option<ListenerTls> {
    let given = entry.value.tls.at();
    match (protocol.ends_tls(), given) {
        (true, Some(given)) => {
            let tls = towards_clients(given, protocol, problems);
            Some(ListenerTls { hsts: hsts(entry, &given.value, protocol, problems), ..tls })
        }
        (true, None) => {
            let word = if protocol == Protocol::Https { "https" } else { "tls" };
            let message = format!("`{word}` without a certificate");
            let help = "add one: tls = { certificates = [\"site.pem\"] }".to_owned();
            let place = entry.value.protocol.place_or(&entry.span);
            problems.absent(&entry.span, &place, message, help);
            None
        }
        (false, Some(given)) => {
            let message = "`tls` on a listener that ends no TLS".to_owned();
            let help = "say protocol = \"https\" or \"tls\", or leave `tls` out".to_owned();
            problems.error(&given.span, message, "never used", help);
            None
        }
        (false, None) => None,
    }
}

fn towards_clients(
    given: &At<file::ListenerTls>,
    protocol: Protocol,
    problems: &mut Problems,
) -> ListenerTls {
    let file = &given.value;
    let certificates: Vec<Certificate> = file
        .certificates
        .get()
        .into_iter()
        .flatten()
        .map(|at| certificate(&at.value, &at.span, problems))
        .collect();
    if certificates.is_empty() && !file.acme.given() {
        let message = "TLS without a certificate".to_owned();
        let help = "add one: certificates = [\"site.pem\"], or acme = \"you@example.com\"";
        let place = file.certificates.place_or(&given.span);
        if !problems.is_damaged(&place) {
            problems.absent(&given.span, &place, message, help.to_owned());
        }
    }
    if let (Some(required), None) = (file.client_required.at(), file.client_authorities.at()) {
        let message = "`client_required` without `client_authorities`".to_owned();
        let help = "name the file of those who sign clients' certificates".to_owned();
        problems.error(&required.span, message, "never used", help);
    }
    let subject_header = subject_header(file, protocol, problems);
    let required = file.client_required.get().copied().unwrap_or(true);
    let clients = file.client_authorities.get().map(|path| path.0.0.clone());
    ListenerTls {
        certificates,
        acme: None,
        clients: clients.map(|authorities| ClientCheck { authorities, required, subject_header }),
        resumption: file.resumption.get().copied().unwrap_or(true),
        early_data: file.early_data.get().copied().unwrap_or(false),
        hsts: None,
        terms: terms(&file.min_version, &file.suites, problems),
    }
}

/// Refuses settings that early data is not possible with.
pub(super) fn refuse_early_data(
    given: &file::Listener,
    listener: &Listener,
    problems: &mut Problems,
) {
    let Some(file) = given.tls.get().filter(|_| listener.tls.is_some()) else { return };
    let Some(early) = file.early_data.at().filter(|at| at.value) else { return };
    let without = "`early_data` on a listener without HTTP/3";
    let (message, help) = if listener.protocol != Protocol::Https {
        (without, "say protocol = \"https\"")
    } else if !listener.serves_http3() {
        (
            without,
            "leave it out, or `http3`, `http_version` and `accept_proxy`, which exclude HTTP/3",
        )
    } else if file.client_authorities.at().is_some() {
        ("`early_data` with `client_authorities`", "who a client is, is known after the handshake")
    } else if file.resumption.get() == Some(&false) {
        ("`early_data` without `resumption`", "only a client that resumes its session can send any")
    } else {
        return;
    };
    problems.error(&early.span, message.to_owned(), "not possible", help.to_owned());
}

/// The header for the subject of clients' certificates.
fn subject_header(
    file: &file::ListenerTls,
    protocol: Protocol,
    problems: &mut Problems,
) -> Option<String> {
    let given = file.client_subject_header.at()?;
    let name = &given.value.0.0;
    let (message, help) = if file.client_authorities.at().is_none() {
        let message = "`client_subject_header` without `client_authorities`";
        (message, "name the file of those who sign clients' certificates")
    } else if protocol != Protocol::Https {
        ("`client_subject_header` on a listener without HTTP", "say protocol = \"https\"")
    } else if HEADERS_OF_OTHERS.iter().any(|it| it.eq_ignore_ascii_case(name)) {
        let message = "`client_subject_header` names a header with a meaning of its own";
        (message, "take another: client_subject_header = \"X-Client-Subject\"")
    } else {
        return Some(name.clone());
    };
    problems.error(&given.span, message.to_owned(), "not possible", help.to_owned());
    None
}

/// What frames a message, routes it, or concerns the connection.
const HEADERS_OF_OTHERS: &[&str] = &[
    "Connection", "Content-Length", "Expect", "Host", "TE", "Trailer", "Transfer-Encoding",
    "Upgrade", "Via",
];

/// TLS towards servers.
pub(super) fn service(given: &Key<file::ServerTls>, problems: &mut Problems) -> Option<ServerTls> {
    let file = given.get()?;
    let certificate = file.certificate.at();
    let certificate = certificate.map(|at| client_certificate(&at.value, &at.span, problems));
    if let (Some(false), Some(authorities)) = (file.verify.get(), file.authorities.at()) {
        let message = "`authorities` with verify = false".to_owned();
        let help = "leave one of them out: whom to trust is asked where servers are verified";
        problems.warning(&authorities.span, message, "no effect", help.to_owned());
    }
    Some(ServerTls {
        authorities: file.authorities.get().map(|path| path.0.0.clone()),
        verify: file.verify.get().copied().unwrap_or(true),
        name: file.name.get().map(|name| name.0.0.clone()),
        certificate,
        terms: terms(&file.min_version, &file.suites, problems),
    })
}

/// A certificate that clients are shown.
fn certificate(
    given: &TextOr<FilePath, file::Certificate>,
    span: &Span,
    problems: &mut Problems,
) -> Certificate {
    match given {
        TextOr::Text(path) => in_one_file(path),
        TextOr::Table(table) => {
            let files = (&table.chain, &table.key);
            let staple = table.ocsp.get().map(|path| path.0.0.clone());
            Certificate { staple, ..in_files(files, span, problems) }
        }
    }
}

/// A certificate that servers are shown.
pub(super) fn client_certificate(
    given: &TextOr<FilePath, file::ClientCertificate>,
    span: &Span,
    problems: &mut Problems,
) -> Certificate {
    match given {
        TextOr::Text(path) => in_one_file(path),
        TextOr::Table(table) => in_files((&table.chain, &table.key), span, problems),
    }
}

fn in_one_file(path: &FilePath) -> Certificate {
    Certificate { chain: path.0.clone(), key: path.0.clone(), staple: None }
}

fn in_files(
    (chain, key): (&Key<Text<FilePath>>, &Key<Text<FilePath>>),
    span: &Span,
    problems: &mut Problems,
) -> Certificate {
    if !chain.given() {
        let help = "name its file: chain = \"site.pem\"".to_owned();
        problems.absent(span, span, "a certificate without `chain`".to_owned(), help);
    }
    let path = |key: &Key<Text<FilePath>>| key.get().map(|path| path.0.0.clone());
    let chain = path(chain).unwrap_or_default();
    Certificate { key: path(key).unwrap_or_else(|| chain.clone()), staple: None, chain }
}

fn terms(
    min_version: &Key<Text<Word<TlsVersion>>>,
    suites: &Key<Vec<Text<SuiteName>>>,
    problems: &mut Problems,
) -> TlsTerms {
    let min_version = min_version.get().map_or(TlsVersion::default(), |word| word.0.0);
    let given = suites.at().filter(|it| !it.value.is_empty() && !problems.is_damaged(&it.span));
    if let Some(At { value, span }) = given.filter(|_| min_version == TlsVersion::V13)
        && !value.iter().any(|suite| suite.0.0.starts_with(OF_TLS13))
    {
        let message = "min_version = \"1.3\" with `suites` of TLS 1.2 alone".to_owned();
        let help = "add one of TLS 1.3, as \"TLS13_AES_128_GCM_SHA256\", or leave `suites` out";
        problems.error(span, message, "none of TLS 1.3", help);
    }
    let suites = suites.get().into_iter().flatten().map(|suite| suite.0.0.clone()).collect();
    TlsTerms { min_version, suites }
}

/// How the names of suites of TLS 1.3 begin.
const OF_TLS13: &str = "TLS13_";
