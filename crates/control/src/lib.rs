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

pub mod admin;
mod assemble;
mod describe;
pub mod discovery;
mod edit;
pub mod explain;
mod file;
mod masked;
mod outside;
mod reference;
mod resolve;
mod schema;
mod shorthand;
mod suggest;
mod value;

use std::path::{Path, PathBuf};

use loadline_core::fleet::Fleet;
use loadline_spanned::{FileError, FileErrors, Problems, Source};

use file::File;
use suggest::Configuration;

pub use describe::{counts, describe};
pub use edit::{EditError, edit_max_rate, write_max_rate};
pub use outside::{Fault, Moment};
pub use reference::reference;
pub use resolve::{LocalOnly, Resolve, SystemResolver};
pub use schema::schema;
pub use shorthand::{ShorthandError, Trust, shorthand};

/// A configuration that can be used.
#[derive(Clone, Debug)]
pub struct Loaded {
    /// What it says.
    pub fleet: Fleet,
    /// Where the administration listens, if anywhere.
    pub admin: Option<admin::Settings>,
    /// Who is asked for names, where groups are to be found out by them.
    pub names: discovery::NameServers,
    /// As whom it runs, where it tells its id and is told to make way.
    pub process: Process,
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

/// Reads the file at `path` and resolves host names with the resolver of the machine. Relative
/// paths in it count from its directory.
///
/// # Errors
/// Everything that is wrong with it, in the order of the file; or why it cannot be read.
pub fn load(path: &Path) -> Result<Loaded, FileErrors> {
    load_from(path, None)
}

/// As [`load`], as an edge in another region sees it.
///
/// # Errors
/// Everything that is wrong with it, in the order of the file; or why it cannot be read.
pub fn load_seen_from(path: &Path, region: &str) -> Result<Loaded, FileErrors> {
    load_from(path, Some(region))
}

fn load_from(path: &Path, region: Option<&str>) -> Result<Loaded, FileErrors> {
    let name = path.display().to_string();
    let text = loadline_spanned::load::<Configuration>(path, "name a file that can be read")?;
    let whole = std::path::absolute(path).unwrap_or_else(|_| path.to_owned());
    let base = whole.parent().unwrap_or(Path::new(""));
    parse_at((base, &name), &text, region, &SystemResolver)
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
    parse_at((Path::new(""), name), text, None, resolver)
}

/// As [`parse_with`]; relative paths count from `base`, and the edge is in the region `seen_from`
/// whatever the file says.
fn parse_at(
    (base, name): (&Path, &str),
    text: &str,
    seen_from: Option<&str>,
    resolver: &dyn Resolve,
) -> Result<Loaded, FileErrors> {
    let source = Source::new::<Configuration>(name, masked::masked(text));
    let mut problems = Problems::default();
    let file = loadline_spanned::read::<Configuration, File>(text, &mut problems);
    let Some(mut file) = file else { return Err(problems.into_errors(&source)) };
    assemble::share_routes(&mut file, &mut problems);
    let mentions = outside::settle(&mut file.value, base);
    let admin = assemble::admin(&file.value.admin, &mut problems);
    let process = assemble::process(&file.value.edge, &mut problems);
    let names = assemble::name_servers(&file.value.dns, &mut problems);
    let fleet = assemble::assemble(&file, seen_from, resolver, &mut problems);
    let warnings = problems.settle(&source)?;
    let outside = outside::Outside { mentions, base: base.to_owned(), source };
    Ok(Loaded { fleet, admin, names, process, warnings, outside })
}
