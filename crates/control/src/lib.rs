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
mod error;
mod file;
mod masked;
mod outside;
mod place;
mod read;
mod reference;
mod resolve;
mod schema;
mod shorthand;
mod suggest;
mod value;

use std::{
    fs,
    path::{Path, PathBuf},
    sync::Arc,
};

use loadline_core::fleet::Fleet;
use miette::NamedSource;

pub use describe::{counts, describe};
pub use edit::{EditError, edit_max_rate, write_max_rate};
pub use error::{ConfigError, ConfigErrors};
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
    pub warnings: Vec<ConfigError>,
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
pub fn load(path: &Path) -> Result<Loaded, ConfigErrors> {
    let name = path.display().to_string();
    let unreadable = |message: String, help: &str| {
        ConfigErrors::new(&name, vec![ConfigError::unplaced(message, help.to_owned())])
    };
    let bytes = fs::read(path).map_err(|error| {
        unreadable(format!("cannot read `{name}`: {error}"), "name a file that can be read")
    })?;
    let text = String::from_utf8(bytes).map_err(|error| {
        let valid = &error.as_bytes()[..error.utf8_error().valid_up_to()];
        let line = valid.iter().filter(|byte| **byte == b'\n').count() + 1;
        unreadable(format!("line {line} of `{name}` is not UTF-8"), "save the file as UTF-8")
    })?;
    let whole = std::path::absolute(path).unwrap_or_else(|_| path.to_owned());
    let base = whole.parent().unwrap_or(Path::new(""));
    parse_at(base, &name, &text, &SystemResolver)
}

/// Reads `text`, which errors call `name`, and resolves host names with the resolver of the
/// machine.
///
/// # Errors
/// Everything that is wrong with it, in the order of the file.
pub fn parse(name: &str, text: &str) -> Result<Loaded, ConfigErrors> {
    parse_with(name, text, &SystemResolver)
}

/// As [`parse`], with another resolver of host names.
///
/// # Errors
/// Everything that is wrong with it, in the order of the file.
pub fn parse_with(name: &str, text: &str, resolver: &dyn Resolve) -> Result<Loaded, ConfigErrors> {
    parse_at(Path::new(""), name, text, resolver)
}

/// As [`parse_with`]; relative paths count from `base`.
fn parse_at(
    base: &Path,
    name: &str,
    text: &str,
    resolver: &dyn Resolve,
) -> Result<Loaded, ConfigErrors> {
    let mut problems = error::Problems::default();
    let fleet = read::read(text, &mut problems).map(|mut file| {
        let mentions = outside::settle(&mut file.value, base);
        let admin = assemble::admin(&file.value.admin, &mut problems);
        let process = assemble::process(&file.value.edge, &mut problems);
        let names = assemble::name_servers(&file.value.dns, &mut problems);
        (assemble::assemble(&file, resolver, &mut problems), admin, names, process, mentions)
    });
    let failed = problems.failed();
    let source = Arc::new(NamedSource::new(name, masked::masked(text)).with_language("TOML"));
    let found = problems.placed(&source);
    match fleet {
        Some((fleet, admin, names, process, mentions)) if !failed => {
            let (base, name) = (base.to_owned(), name.to_owned());
            let outside = outside::Outside { mentions, base, name, text: source };
            Ok(Loaded { fleet, admin, names, process, warnings: found, outside })
        }
        _ => {
            let errors = found.into_iter().filter(|found| !found.is_warning()).collect();
            Err(ConfigErrors::new(name, errors))
        }
    }
}
