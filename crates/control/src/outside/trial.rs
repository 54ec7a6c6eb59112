//! Tries what is at a path, without changing anything there.

use std::{
    fs,
    io::{self, Read as _},
    net::{SocketAddr, TcpListener},
    path::{Path, PathBuf},
};

use rustix::{
    fs::{Access, access},
    thread::{CapabilitySet, capabilities},
};

use super::What;
use loadline_spanned::Complaint;

use crate::{
    acme, admin,
    assemble::{basic_auth, maps, pages, sources},
    discovery, jwks, tls,
    value::secret::HASH_HELP,
};

/// Tries it; relative paths counted from `base`.
///
/// # Errors
/// Why it cannot be used.
pub(super) fn attempt(what: What, path: &str, base: &Path) -> Result<(), Complaint> {
    let at = Path::new(path);
    match what {
        What::Certificate => readable("certificate", at, base),
        What::Key => readable("key", at, base),
        What::Authorities => readable("authorities", at, base).and_then(|()| {
            let wrong = |why| {
                Complaint::new(format!("the file of authorities `{path}` {why}"), AUTHORITIES_HELP)
            };
            tls::authorities(at).map(drop).map_err(wrong)
        }),
        What::Staple => readable("OCSP response", at, base),
        What::Networks => readable("list of networks", at, base).and_then(|()| {
            let wrong = |why| Complaint::new(format!("the list `{path}`: {why}"), NETWORKS_HELP);
            sources::read(at).map(drop).map_err(wrong)
        }),
        What::Map(kind) => readable("map", at, base).and_then(|()| {
            let wrong = |why| Complaint::new(format!("the map `{path}`: {why}"), MAP_HELP);
            maps::check(at, kind).map_err(wrong)
        }),
        What::Page => readable("page", at, base).and_then(|()| {
            let wrong = |why| Complaint::new(format!("the page `{path}`: {why}"), PAGE_HELP);
            pages::read(at).map(drop).map_err(wrong)
        }),
        What::Users => readable("list of users", at, base).and_then(|()| {
            let wrong = |why| Complaint::new(format!("the list `{path}`: {why}"), HASH_HELP);
            basic_auth::read(at).map(drop).map_err(wrong)
        }),
        What::TokenKeys => readable("keys of tokens", at, base).and_then(|()| {
            let wrong = |why| Complaint::new(format!("the keys `{path}`: {why}"), KEYS_HELP);
            jwks::read(at).map(drop).map_err(wrong)
        }),
        What::StandbyKey => readable("key of the standby", at, base),
        What::Token => readable("token", at, base).and_then(|()| {
            let wrong = |error: admin::AdminError| Complaint::new(error.to_string(), TOKEN_HELP);
            admin::read_token(at).map(drop).map_err(wrong)
        }),
        What::Servers { may_be_empty } => readable("list of servers", at, base).and_then(|()| {
            let wrong = |why| Complaint::new(format!("the list `{path}`: {why}"), LIST_HELP);
            discovery::check(at, may_be_empty).map_err(wrong)
        }),
        What::Directory => enterable(at),
        What::Password => readable("password", at, base),
        What::DiskCache => own_directory("cache", at),
        // What it is in is made with it.
        What::AcmeDirectory => own_directory("certificates", there(at)),
        What::AccountKey => readable("key of the account", at, base).and_then(|()| {
            acme::account_key(at).map(drop).map_err(|error| {
                Complaint::new(error.to_string(), "write the key alone, as the authority gives it")
            })
        }),
        What::StateDirectory => own_directory("published configuration", at),
        What::AccessLog => writable("access log", at),
        What::PidFile => replaceable("process id", at),
        What::Socket => socket(at),
        What::Address => path.parse().map_or(Ok(()), bindable),
        What::Word => Ok(()),
    }
}

/// An address of this machine with a port that this process may have. It may be taken: what is
/// checked may be running.
fn bindable(address: SocketAddr) -> Result<(), Complaint> {
    let (ip, port) = (address.ip(), address.port());
    let bound = TcpListener::bind((ip, 0));
    if bound.is_err_and(|error| error.kind() == io::ErrorKind::AddrNotAvailable) {
        let help = "`ip address` lists those that there are";
        return Err(Complaint::new(format!("{ip} is not an address of this machine"), help));
    }
    let first = fs::read_to_string("/proc/sys/net/ipv4/ip_unprivileged_port_start");
    let first: u16 = first.ok().and_then(|text| text.trim().parse().ok()).unwrap_or(1024);
    let may =
        capabilities(None).is_ok_and(|it| it.effective.contains(CapabilitySet::NET_BIND_SERVICE));
    if (1..first).contains(&port) && !may {
        let message = format!("ports below {first} are for root (or CAP_NET_BIND_SERVICE)");
        return Err(Complaint::new(message, "start as root, or by systemd socket activation"));
    }
    Ok(())
}

fn readable(what: &str, path: &Path, base: &Path) -> Result<(), Complaint> {
    fs::read(path).map(drop).map_err(|error| {
        let message = format!("cannot read the {what} `{}`: {error}", path.display());
        let help = match error.kind() {
            io::ErrorKind::NotFound => format!("relative paths count from {}", base.display()),
            io::ErrorKind::IsADirectory => "name a file in this directory".to_owned(),
            _ => "whoever runs loadline has to be able to read it".to_owned(),
        };
        Complaint::new(message, help)
    })
}

/// A directory whose files can be opened.
fn enterable(path: &Path) -> Result<(), Complaint> {
    let wrong = |why: &dyn std::fmt::Display, help: &str| {
        Complaint::new(format!("cannot use the directory `{}`: {why}", path.display()), help)
    };
    let found = fs::metadata(path).map_err(|error| wrong(&error, "name one that there is"))?;
    if !found.is_dir() {
        return Err(wrong(&"it is no directory", "name the directory in which the files are"));
    }
    let may = access(path, Access::EXEC_OK);
    may.map_err(|error| wrong(&error, "whoever runs loadline has to be able to enter it"))
}

/// The path, or the nearest that it is in which is there.
pub(super) fn there(path: &Path) -> &Path {
    path.ancestors().find(|it| it.exists()).unwrap_or(path)
}

/// A directory for files of our own, or room to make it.
fn own_directory(what: &str, path: &Path) -> Result<(), Complaint> {
    let wrong = |why: &dyn std::fmt::Display, help: &str| {
        let message = format!("cannot keep the {what} in `{}`: {why}", path.display());
        Complaint::new(message, help)
    };
    match fs::metadata(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => room(what, path),
        Err(error) => Err(wrong(&error, "whoever runs loadline has to be able to enter it")),
        Ok(found) if !found.is_dir() => {
            Err(wrong(&"it is no directory", "name a directory of its own"))
        }
        Ok(_) => access(path, Access::READ_OK | Access::WRITE_OK | Access::EXEC_OK)
            .map_err(|error| wrong(&error, "whoever runs loadline has to be able to write there")),
    }
}

/// A file that is appended to, or made.
fn writable(what: &str, path: &Path) -> Result<(), Complaint> {
    if path.exists() { appendable(what, path) } else { room(what, path) }
}

fn appendable(what: &str, path: &Path) -> Result<(), Complaint> {
    let wrong = |why: &dyn std::fmt::Display, help: &str| {
        Complaint::new(format!("cannot write the {what} to `{}`: {why}", path.display()), help)
    };
    if path.is_dir() {
        return Err(wrong(&"it is a directory", "name a file in it"));
    }
    let may = access(path, Access::WRITE_OK);
    may.map_err(|error| wrong(&error, "whoever runs loadline has to be able to write it"))
}

/// A file that is replaced by another.
fn replaceable(what: &str, path: &Path) -> Result<(), Complaint> {
    if path.is_dir() {
        return appendable(what, path);
    }
    if has_other_content(path) {
        let message = format!("`{}` is there and has no process id in it", path.display());
        return Err(Complaint::new(message, PID_HELP));
    }
    room(what, path)
}

/// Whether there is something else at `path` than a file with a process id, or an empty one.
#[must_use]
pub fn has_other_content(path: &Path) -> bool {
    let Ok(found) = fs::metadata(path) else { return false };
    if !found.is_file() {
        return true;
    }
    let mut text = String::new();
    let read = fs::File::open(path).and_then(|file| file.take(PID_MAX).read_to_string(&mut text));
    let text = text.trim();
    read.is_err() || !(text.is_empty() || text.parse::<u32>().is_ok())
}

/// A Unix socket, which replaces one that is there.
fn socket(path: &Path) -> Result<(), Complaint> {
    let is_other = path.is_dir() || path.is_file();
    if is_other {
        let message = format!("`{}` is there and is no socket", path.display());
        return Err(Complaint::new(message, "use a path that does not exist yet"));
    }
    if path.as_os_str().len() > SOCKET_PATH_MAX {
        let message = format!("a path of a socket over {SOCKET_PATH_MAX} bytes long");
        return Err(Complaint::new(message, "use a shorter one: /run/loadline/control.sock"));
    }
    // Its directory need not be writable: a socket may be passed on by the process before.
    directory("socket", path).map(drop)
}

/// A directory in which a file can be made.
fn room(what: &str, path: &Path) -> Result<(), Complaint> {
    let directory = directory(what, path)?;
    access(&directory, Access::WRITE_OK | Access::EXEC_OK).map_err(|error| {
        let message = format!("cannot make the {what} in `{}`: {error}", directory.display());
        Complaint::new(message, "whoever runs loadline has to be able to write there")
    })
}

/// The directory of a path.
fn directory(what: &str, path: &Path) -> Result<PathBuf, Complaint> {
    let parent = path.parent().filter(|it| *it != Path::new("")).unwrap_or(Path::new("."));
    if parent.is_dir() {
        return Ok(parent.to_owned());
    }
    let (path, parent) = (path.display(), parent.display());
    let message = format!("cannot make the {what} `{path}`: there is no directory `{parent}`");
    Err(Complaint::new(message, format!("make it: mkdir -p {parent}")))
}

/// What fits into an address of the kernel with its last zero.
const SOCKET_PATH_MAX: usize = 107;

/// No process id is as long with its line end.
const PID_MAX: u64 = 32;

/// Where a process id may be written.
pub(super) const PID_HELP: &str = "use a path of its own: \"/run/loadline/loadline.pid\"";
const AUTHORITIES_HELP: &str = "name a file of CA certificates in PEM";
const TOKEN_HELP: &str = "make one: openssl rand -hex 16";
const PAGE_HELP: &str = "name a file of HTML, JSON, text or XML: \"busy.html\"";
const MAP_HELP: &str = "write a key, a space and its value on each line, each key once";
const NETWORKS_HELP: &str = "write an address or a network a line: 192.0.2.0/24";

const KEYS_HELP: &str =
    "name a JWK Set as its issuer publishes it: { \"keys\": [{ \"kty\": ... }] }";
const LIST_HELP: &str = "write servers = [\"10.0.0.1:80\"], or { \"servers\": [...] } in JSON";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn places_to_write_to_are_tried_without_leaving_anything() {
        let folder = tempfile::tempdir().unwrap();
        let place = |name: &str| folder.path().join(name);
        for what in [What::AccessLog, What::PidFile, What::Socket] {
            let attempt = |name: &str| attempt(what, place(name).to_str().unwrap(), folder.path());
            assert!(attempt("new").is_ok());
            let told = attempt("no/new").unwrap_err();
            assert!(told.message.contains("there is no directory"), "{told:?}");
            assert!(attempt("").is_err(), "a directory");
        }
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 0);
        let long = "x".repeat(SOCKET_PATH_MAX);
        let told = attempt(What::Socket, place(&long).to_str().unwrap(), folder.path());
        assert!(told.unwrap_err().message.contains("over 107 bytes long"));
        fs::write(place("file"), "").unwrap();
        assert!(attempt(What::Socket, place("file").to_str().unwrap(), folder.path()).is_err());
        assert!(attempt(What::AccessLog, place("file").to_str().unwrap(), folder.path()).is_ok());
    }
}
