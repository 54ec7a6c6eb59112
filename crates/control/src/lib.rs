//! Configuration: one TOML file, parsed into a [`Fleet`], with errors that point into the file.
//!
//! ```text
//! text --read--> file types --assemble--> Fleet
//!                    |
//!                    +--schema--> JSON Schema --reference--> docs/configuration.md
//! ```
//! The file types are not the fleet: they know keys and ranges, `assemble` knows what keys mean
//! together, and the rest of loadline sees neither.
#![forbid(unsafe_code)]

pub mod acme;
pub mod admin;
mod assemble;
pub mod cluster;
mod describe;
pub mod discovery;
mod edit;
pub mod explain;
mod file;
mod https;
mod include;
pub mod jwks;
mod masked;
mod outside;
mod page;
mod private_file;
mod reference;
mod resolve;
mod schema;
mod shorthand;
mod suggest;
mod tls;
mod value;

use std::{
    env::{self, VarError},
    path::{Path, PathBuf},
};

use loadline_core::fleet::Fleet;
use loadline_spanned::{At, FileError, FileErrors, Problems, Source};

use cluster::Published;
use file::File;
use include::Part;
use suggest::Configuration;

pub use describe::{counts, describe};
pub use edit::{EditError, edit_max_rate, write_max_rate};
pub use include::included;
pub use outside::{Fault, Moment, UserWrite, has_other_content};
pub use page::Page;
pub use reference::reference;
pub use resolve::{LocalOnly, Resolve, SystemResolver};
pub use schema::schema;
pub use shorthand::{ShorthandError, Trust, shorthand};

/// A configuration that can be used.
#[derive(Clone, Debug)]
pub struct Loaded {
    /// The fleet of the configuration.
    pub fleet: Fleet,
    /// The regions that `[regions]` names, in the order of the alphabet.
    pub regions: Vec<String>,
    /// Where the administration listens, if anywhere.
    pub admin: Option<admin::Settings>,
    /// Name servers, for groups that are discovered by name.
    pub names: discovery::NameServers,
    /// User, group, control socket and PID file of the process.
    pub process: Process,
    /// The store of the cluster of edges; none where this edge is alone.
    pub cluster: Option<cluster::Settings>,
    /// What in it works but is hardly meant, in the order of the file.
    pub warnings: Vec<FileError>,
    outside: outside::Outside,
}

/// The process itself, as the file says it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Process {
    /// The user to go on as once everything is bound; the present one if omitted.
    pub user: Option<String>,
    /// The group; that of the user if omitted.
    pub group: Option<String>,
    /// The socket for `loadline upgrade`; none if omitted.
    pub control: Option<PathBuf>,
    /// The file for the id of the process; none if omitted.
    pub pid_file: Option<PathBuf>,
}

/// Reads the file at `path` and those that it includes, or those of the folder at `path`, and
/// resolves host names with the resolver of the machine. Relative paths count from the directory of
/// the first.
///
/// # Errors
/// Everything that is wrong with it, in the order of the file; or why it cannot be read.
pub fn load(path: &Path) -> Result<Loaded, FileErrors> {
    load_from(path, None, None)
}

/// As [`load`], with what was published to all edges of a cluster beside it.
///
/// # Errors
/// Everything that is wrong with either, in their order; or why the file cannot be read.
pub fn load_with(path: &Path, published: Option<&Published>) -> Result<Loaded, FileErrors> {
    load_from(path, None, published)
}

/// Where the store of a cluster is, by the file at `path`; none where it names none. What the file
/// lacks otherwise does not matter: it may be published.
///
/// # Errors
/// What is wrong with the table `[cluster]`, or why the file cannot be read.
pub fn load_cluster(path: &Path) -> Result<Option<cluster::Settings>, FileErrors> {
    let (parts, base) = (include::parts(path)?, base_of(path));
    let (file, source, mut problems) = read_parts(&parts);
    let Some(mut file) = file else { return Err(problems.into_errors(&source)) };
    let _ = outside::settle(&mut file.value, &base);
    let settings = assemble::cluster(&file.value.cluster, &mut problems);
    problems.settle(&source)?;
    Ok(settings)
}

/// The socket of the process that runs with the file at `path`, for `loadline upgrade`; none where
/// the file names none. What it lacks otherwise does not matter: it may be published, or known to
/// the process alone.
///
/// # Errors
/// What is wrong with the file where it names none, or why it cannot be read.
pub fn load_control(path: &Path) -> Result<Option<PathBuf>, FileErrors> {
    let (parts, base) = (include::parts(path)?, base_of(path));
    let (file, source, problems) = read_parts(&parts);
    let Some(mut file) = file else { return Err(problems.into_errors(&source)) };
    let _ = outside::settle(&mut file.value, &base);
    match file.value.edge.get().and_then(|edge| edge.control.get()) {
        Some(control) => Ok(Some(control.0.0.clone().into())),
        None => problems.settle(&source).map(|_| None),
    }
}

/// The files and folders that the configuration at `path` names, with what was published beside it,
/// and that a reload reads; none where it cannot be read.
#[must_use]
pub fn named(path: &Path, published: Option<&Published>) -> Vec<PathBuf> {
    let Ok(mut parts) = include::parts(path) else { return Vec::new() };
    parts.extend(published.map(Published::part));
    let (Some(mut file), ..) = read_parts(&parts) else { return Vec::new() };
    outside::paths(&mut file.value, &base_of(path))
}

/// As [`load`], as an edge in another region sees it.
///
/// # Errors
/// Everything that is wrong with it, in the order of the file; or why it cannot be read.
pub fn load_seen_from(path: &Path, region: &str) -> Result<Loaded, FileErrors> {
    load_from(path, Some(region), None)
}

fn load_from(
    path: &Path,
    region: Option<&str>,
    published: Option<&Published>,
) -> Result<Loaded, FileErrors> {
    let mut parts = include::parts(path)?;
    parts.extend(published.map(Published::part));
    parse_at(&base_of(path), &parts, region, &SystemResolver)
}

/// Where relative paths of the configuration at `path` count from.
fn base_of(path: &Path) -> PathBuf {
    let whole = std::path::absolute(path).unwrap_or_else(|_| path.to_owned());
    if whole.is_dir() { whole } else { whole.parent().unwrap_or(Path::new("")).to_owned() }
}

/// Reads `text`, which errors call `name`, and resolves host names with the resolver of the
/// machine.
///
/// # Errors
/// Everything that is wrong with it, in the order of the file.
pub fn parse(name: &str, text: &str) -> Result<Loaded, FileErrors> {
    parse_with(name, text, &SystemResolver)
}

/// As [`parse`], with another resolver of host names.
///
/// # Errors
/// Everything that is wrong with it, in the order of the file.
pub fn parse_with(name: &str, text: &str, resolver: &dyn Resolve) -> Result<Loaded, FileErrors> {
    let part = Part { name: name.to_owned(), text: text.to_owned(), is_published: false };
    parse_at(Path::new(""), &[part], None, resolver)
}

/// As [`parse_with`]; relative paths count from `base`, and the edge is in the region `seen_from`
/// whatever the file says.
fn parse_at(
    base: &Path,
    parts: &[Part],
    seen_from: Option<&str>,
    resolver: &dyn Resolve,
) -> Result<Loaded, FileErrors> {
    let (file, source, mut problems) = read_parts(parts);
    include::refuse_own_tables(parts, &mut problems);
    let Some(mut file) = file else { return Err(problems.into_errors(&source)) };
    let mentions = outside::settle(&mut file.value, base);
    assemble::share_routes(&mut file, &mut problems);
    let process = assemble::process(&file.value.edge, &mut problems);
    let cluster = assemble::cluster(&file.value.cluster, &mut problems);
    let names = assemble::name_servers(&file.value.dns, &mut problems);
    let fleet = assemble::assemble(&file, seen_from, resolver, &mut problems);
    let regions = assemble::regions(&file.value);
    let beside = (&*fleet.listeners, process.control.as_deref());
    let admin = assemble::admin(&file.value.admin, beside, &mut problems);
    let warnings = problems.settle(&source)?;
    let outside = outside::Outside { mentions, base: base.to_owned(), source };
    Ok(Loaded { fleet, regions, admin, names, process, cluster, warnings, outside })
}

/// Reads the texts of one configuration; nothing where they are not TOML.
fn read_parts(parts: &[Part]) -> (Option<At<File>>, Source, Problems) {
    let texts: Vec<&str> = parts.iter().map(|part| part.text.as_str()).collect();
    let mut problems = Problems::default();
    let file =
        loadline_spanned::read_parts::<Configuration, File>(&texts, &environment, &mut problems);
    let shown = parts.iter().map(|part| (part.name.clone(), masked::masked(&part.text)));
    (file, Source::of_parts::<Configuration>(shown.collect()), problems)
}

fn environment(name: &str) -> Result<String, VarError> {
    env::var(name)
}
