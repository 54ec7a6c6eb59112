//! What a configuration names outside of itself: files, sockets, places to write to.
//!
//! Relative paths count from the directory of the configuration, wherever the process was started.

use std::path::Path;

use loadline_core::fleet::LogTarget;

use crate::{
    file::{self, File},
    place::{At, Key, Named, Span},
    value::{
        address::AdminPlace,
        either::TextOr,
        label::{FilePath, LogPlace},
        text::Text,
    },
};

/// What is at a path.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum What {
    Certificate,
    Key,
    Authorities,
    Staple,
    Token,
    StandbyKey,
    Servers,
    AccessLog,
    PidFile,
    Socket,
}

/// Lets every relative path of the file begin at `base`.
pub(crate) fn settle(file: &mut File, base: &Path) {
    each(file, &mut |_, path, _| *path = base.join(&*path).to_string_lossy().into_owned());
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
    if let Some(standby) = file.l4.get_mut().and_then(|l4| l4.standby.get_mut()) {
        one(&mut standby.key_file, What::StandbyKey, visit);
    }
    for listener in file.listener.get_mut().into_iter().flatten() {
        if let Some(tls) = listener.value.tls.get_mut() {
            for At { value, span } in tls.certificates.get_mut().into_iter().flatten() {
                certificate(value, span, visit);
            }
            one(&mut tls.client_authorities, What::Authorities, visit);
        }
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

fn of_service(service: &mut file::Service, visit: Visit<'_>) {
    if let Some(tls) = service.tls.get_mut() {
        one(&mut tls.authorities, What::Authorities, visit);
        if let Some(At { value, span }) = tls.certificate.at_mut() {
            certificate(value, span, visit);
        }
    }
    for group in service.group.get_mut().into_iter().flatten() {
        if let Some(discover) = group.value.discover.get_mut() {
            one(&mut discover.file, What::Servers, visit);
        }
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

fn one(key: &mut Key<Text<FilePath>>, what: What, visit: Visit<'_>) {
    if let Some(At { value, span }) = key.at_mut() {
        visit(what, &mut value.0.0, span);
    }
}
