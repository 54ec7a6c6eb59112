//! Changing one value of a configuration in place: comments, order and spacing stay.
//!
//! Found is the table `[[service.NAME.group]]` of a region. What comes out is read by the parser
//! of the configuration before anybody writes it, so an edit never breaks a file that was right.

use std::{
    fs, io,
    io::Write as _,
    net::{Ipv4Addr, SocketAddr},
    path::{Path, PathBuf},
};

use loadline_core::units::Rate;
use loadline_spanned::FileErrors;
use toml_edit::{DocumentMut, Item, Table, TableLike, value};

use crate::{Resolve, parse_with};

/// Why a configuration was left as it is.
#[derive(Debug, thiserror::Error)]
pub enum EditError {
    /// The file cannot be read.
    #[error("cannot read `{}`", path.display())]
    Read {
        /// Path of the configuration file.
        path: PathBuf,
        /// What the system said.
        source: io::Error,
    },
    /// It is not TOML.
    #[error("`{name}` is not TOML")]
    Syntax {
        /// What the file is called.
        name: String,
        /// Where it goes wrong.
        source: toml_edit::TomlError,
    },
    /// No group has this name.
    #[error("no group `{group}` in `{name}`; {}", listed(.groups))]
    Missing {
        /// What the file is called.
        name: String,
        /// The group that was asked for.
        group: String,
        /// The groups there are, as `service/region`.
        groups: Vec<String>,
    },
    /// Several groups have this name.
    #[error("`{group}` is more than one group of `{name}`; say which: {}", .groups.join(", "))]
    Ambiguous {
        /// What the file is called.
        name: String,
        /// The group that was asked for.
        group: String,
        /// Those it may mean, as `service/region`.
        groups: Vec<String>,
    },
    /// Several groups have even the same service and region.
    #[error(
        "`{name}` has {count} groups `{group}`, which cannot be told apart; set max_rate by hand"
    )]
    Twins {
        /// What the file is called.
        name: String,
        /// The group that was asked for.
        group: String,
        /// How many there are.
        count: usize,
    },
    /// The file is wrong with the new value; most likely it was before.
    #[error("`{name}` would not be right with the new value")]
    Wrong {
        /// What the file is called.
        name: String,
        /// What is wrong with it.
        source: FileErrors,
    },
    /// The file cannot be written.
    #[error("cannot write `{}`", path.display())]
    Write {
        /// Path of the configuration file.
        path: PathBuf,
        /// What the system said.
        source: io::Error,
    },
}

/// Sets `max_rate` of a group of the file at `path`, as [`edit_max_rate`] does. The file is
/// replaced in one step: whoever reads it sees the old one or the new one.
///
/// # Errors
/// [`EditError`]; the file is then as it was.
pub fn write_max_rate(path: &Path, group: &str, rate: Rate) -> Result<(), EditError> {
    let failed = |source| EditError::Read { path: path.to_owned(), source };
    // A link stays a link: what it leads to is replaced.
    let target = path.canonicalize().map_err(failed)?;
    let text = fs::read_to_string(&target).map_err(failed)?;
    let edited = edit_max_rate(&path.display().to_string(), &text, group, rate)?;
    let failed = |source| EditError::Write { path: path.to_owned(), source };
    replace(&target, &edited).map_err(failed)
}

/// `text`, the configuration called `name`, with `max_rate` of a group set to `rate`. The group is
/// given as its region, or as `service/region`.
///
/// # Errors
/// [`EditError`] where the group cannot be found or the result would not be a configuration.
pub fn edit_max_rate(name: &str, text: &str, group: &str, rate: Rate) -> Result<String, EditError> {
    let mut document: DocumentMut =
        text.parse().map_err(|source| EditError::Syntax { name: name.to_owned(), source })?;
    let place = find(name, &document, group)?;
    if let Some(table) = group_at(&mut document, &place) {
        set(table, "max_rate", &rate.to_string());
    }
    let edited = document.to_string();
    match parse_with(name, &edited, &AnyHost) {
        Ok(_) => Ok(edited),
        Err(source) => Err(EditError::Wrong { name: name.to_owned(), source }),
    }
}

/// Takes every host name as known: whether a name resolves is no matter of an edit.
struct AnyHost;

impl Resolve for AnyHost {
    fn resolve(&self, _host: &str, port: u16) -> io::Result<SocketAddr> {
        Ok((Ipv4Addr::LOCALHOST, port).into())
    }
}

/// A group by its place: the service's name and the index in its list.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Place {
    service: String,
    index: usize,
    region: String,
}

impl Place {
    fn name(&self) -> String {
        format!("{}/{}", self.service, self.region)
    }
}

fn find(name: &str, document: &DocumentMut, group: &str) -> Result<Place, EditError> {
    let places = places(document);
    let (name, group) = (name.to_owned(), group.to_owned());
    let means = |place: &&Place| place.name() == group || place.region == group;
    let meant: Vec<&Place> = places.iter().filter(means).collect();
    match meant.as_slice() {
        [place] => Ok((*place).clone()),
        [] => {
            let groups = places.iter().map(Place::name).collect();
            Err(EditError::Missing { name, group, groups })
        }
        [first, rest @ ..] if rest.iter().all(|other| other.name() == first.name()) => {
            Err(EditError::Twins { name, group, count: meant.len() })
        }
        several => {
            let groups = several.iter().map(|place| place.name()).collect();
            Err(EditError::Ambiguous { name, group, groups })
        }
    }
}

/// Every group of the document; one that names no region is in the region of the edge.
fn places(document: &DocumentMut) -> Vec<Place> {
    let region =
        |table: &dyn TableLike| table.get("region").and_then(Item::as_str).map(ToOwned::to_owned);
    let edge = document.get("edge").and_then(Item::as_table_like).and_then(region);
    let here = edge.unwrap_or_else(|| NO_REGION.to_owned());
    let mut places = Vec::new();
    let services = document.get("service").and_then(Item::as_table_like);
    for (service, item) in services.into_iter().flat_map(TableLike::iter) {
        let groups = item.as_table_like().and_then(|table| table.get("group"));
        for (index, group) in groups.into_iter().flat_map(tables).enumerate() {
            let region = region(group).unwrap_or_else(|| here.clone());
            places.push(Place { service: service.to_owned(), index, region });
        }
    }
    places
}

/// The tables of a list, whichever way it is written.
fn tables(item: &Item) -> Vec<&dyn TableLike> {
    if let Some(tables) = item.as_array_of_tables() {
        return tables.iter().map(|table| table as &dyn TableLike).collect();
    }
    let inline = item.as_array().into_iter().flatten();
    inline
        .filter_map(|entry| entry.as_inline_table().map(|table| table as &dyn TableLike))
        .collect()
}

fn group_at<'a>(document: &'a mut DocumentMut, place: &Place) -> Option<&'a mut dyn TableLike> {
    let service = document.get_mut("service")?.as_table_like_mut()?.get_mut(&place.service)?;
    let groups = service.as_table_like_mut()?.get_mut("group")?;
    if groups.is_array_of_tables() {
        let table: &mut Table = groups.as_array_of_tables_mut()?.get_mut(place.index)?;
        return Some(table);
    }
    let inline = groups.as_array_mut()?.get_mut(place.index)?.as_inline_table_mut()?;
    Some(inline)
}

/// Sets a key to a text; what stands round the key and its old value, a comment above all, stays.
fn set(table: &mut dyn TableLike, key: &str, text: &str) {
    let mut new = value(text);
    let old = table.get(key).and_then(Item::as_value).map(|old| old.decor().clone());
    if let (Some(decor), Some(new)) = (old, new.as_value_mut()) {
        *new.decor_mut() = decor;
    }
    match table.get_mut(key) {
        Some(item) => *item = new,
        None => {
            table.insert(key, new);
        }
    }
}

/// Writes beside the file and renames, with the permissions it had.
fn replace(path: &Path, text: &str) -> io::Result<()> {
    let mut name = path.file_name().unwrap_or_default().to_owned();
    name.push(format!(".{}.new", std::process::id()));
    let beside = path.with_file_name(name);
    let written = (|| {
        let mut file = fs::OpenOptions::new().write(true).create_new(true).open(&beside)?;
        file.set_permissions(fs::metadata(path)?.permissions())?;
        file.write_all(text.as_bytes())?;
        file.sync_all()?;
        fs::rename(&beside, path)
    })();
    if written.is_err() {
        // The error told is why it could not be written, not that nothing was there to remove.
        let _ = fs::remove_file(&beside);
    }
    written
}

fn listed(groups: &[String]) -> String {
    if groups.is_empty() {
        "it has no groups".to_owned()
    } else {
        format!("it has {}", groups.join(", "))
    }
}

/// What the region of all groups is called where the file names none.
const NO_REGION: &str = "local";

#[cfg(test)]
mod tests {
    use super::*;

    const TWO_REGIONS: &str = include_str!("../../../examples/two-regions.toml");

    fn edited(text: &str, group: &str) -> Result<String, String> {
        edit_max_rate("a.toml", text, group, Rate::per_sec(72)).map_err(|error| error.to_string())
    }

    #[test]
    fn one_line_changes_and_no_other() {
        let after = edited(TWO_REGIONS, "us-central1").unwrap();
        let lines = TWO_REGIONS.lines().zip(after.lines());
        let changed: Vec<_> = lines.filter(|(old, new)| old != new).collect();
        assert_eq!(changed, [("max_rate = \"100/s\"", "max_rate = \"72/s\"")]);
        assert_eq!(TWO_REGIONS.lines().count(), after.lines().count());
        assert_eq!(edited(TWO_REGIONS, "web/us-central1"), Ok(after));
    }

    #[test]
    fn comments_and_spacing_stay_and_a_key_that_was_not_there_comes() {
        let text = "\
[[listener]]
bind = \":8080\"
service = \"web\" # one of one

[[service.web.group]] # the only one
max_rate   =   \"5/s\"   # guessed in 2019
servers = [ \"app.internal:80\", ] # here
";
        let after = edited(text, "local").unwrap();
        assert_eq!(after, text.replace("\"5/s\"", "\"72/s\""));
        let bare = text.replace("max_rate   =   \"5/s\"   # guessed in 2019\n", "");
        let after = edited(&bare, "web/local").unwrap();
        assert_eq!(after, format!("{bare}max_rate = \"72/s\"\n"));
    }

    #[test]
    fn groups_written_in_one_line_are_groups_too() {
        let text = "\
listener = [{ bind = \":8080\", service = \"web\" }]
[service.web]
group = [{ max_rate = \"5/s\", servers = [\"127.0.0.1:80\"] }]
";
        assert_eq!(edited(text, "local"), Ok(text.replace("5/s", "72/s")));
    }

    #[test]
    fn a_group_that_cannot_be_meant_is_told_with_those_that_can() {
        let missing = edited(TWO_REGIONS, "asia").unwrap_err();
        assert!(missing.contains("it has web/europe-west3, web/us-central1"), "{missing}");
        let second = TWO_REGIONS.to_owned()
            + "\n[[service.api.group]]\nregion = \"us-central1\"\nservers = [\"10.2.0.1:80\"]\n";
        let several = edited(&second, "us-central1").unwrap_err();
        assert!(several.contains("web/us-central1, api/us-central1"), "{several}");
        assert!(edited("a = [", "web").unwrap_err().contains("not TOML"));
        assert!(edited("", "web").unwrap_err().contains("no groups"));
    }

    #[test]
    fn a_file_that_would_be_wrong_is_not_made() {
        let wrong = TWO_REGIONS.replace("service = \"web\"", "service = \"wob\"");
        let error = edited(&wrong, "us-central1").unwrap_err();
        assert!(error.contains("would not be right"), "{error}");
    }

    #[test]
    fn a_file_is_replaced_whole_with_its_permissions_through_its_link() {
        use std::os::unix::fs::PermissionsExt as _;
        let folder = tempfile::tempdir().unwrap();
        let (file, link) = (folder.path().join("a.toml"), folder.path().join("link.toml"));
        fs::write(&file, TWO_REGIONS).unwrap();
        fs::set_permissions(&file, fs::Permissions::from_mode(0o640)).unwrap();
        std::os::unix::fs::symlink(&file, &link).unwrap();
        write_max_rate(&link, "us-central1", Rate::per_sec(72)).unwrap();
        assert!(fs::read_to_string(&file).unwrap().contains("max_rate = \"72/s\""));
        assert_eq!(fs::metadata(&file).unwrap().permissions().mode() & 0o777, 0o640);
        assert!(fs::symlink_metadata(&link).unwrap().is_symlink());
        assert!(write_max_rate(&link, "nowhere", Rate::per_sec(1)).is_err());
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 2, "nothing is left behind");
    }
}
