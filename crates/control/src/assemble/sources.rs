//! The networks of clients that a route is for: those in the configuration and those in a file.

use std::{cell::RefCell, collections::BTreeMap, path::Path};

use loadline_core::rules::{Network, Networks, PatternError};

use super::read_text;
use crate::file;

/// The networks of files by their paths: each file is read once for all routes that name it.
#[derive(Default)]
pub(super) struct Sources(RefCell<BTreeMap<String, Networks>>);

impl Sources {
    /// The networks; none where the route is for every client.
    pub(super) fn of(&self, route: &file::Route) -> Option<Networks> {
        if !route.source.given() && !route.source_file.given() {
            return None;
        }
        let written = route.source.get().into_iter().flat_map(|all| all.iter().map(|it| it.0));
        Some(match route.source_file.get().map(|path| self.listed(&path.0.0)) {
            Some(listed) if !route.source.given() => listed,
            Some(listed) => written.chain(listed.listed().iter().copied()).collect(),
            None => written.collect(),
        })
    }

    /// The networks in a file. One that cannot be read has none: what tries it (`outside`) says so.
    fn listed(&self, path: &str) -> Networks {
        let mut known = self.0.borrow_mut();
        let new = || read(Path::new(path)).unwrap_or_default().into_iter().collect();
        known.entry(path.to_owned()).or_insert_with(new).clone()
    }
}

/// The networks in a file, one a line.
///
/// # Errors
/// What is wrong with it, with the line.
pub(crate) fn read(path: &Path) -> Result<Vec<Network>, String> {
    let text = read_text(path)?;
    let lines = text.lines().enumerate().map(|(index, line)| {
        let network = line.split('#').next().unwrap_or_default().trim();
        let wrong = |error: PatternError| {
            format!("line {}: `{network}` is not a network; {error}", index + 1)
        };
        (!network.is_empty()).then(|| network.parse::<Network>().map_err(wrong))
    });
    lines.flatten().collect()
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    #[test]
    fn a_list_has_a_network_a_line_and_an_error_names_the_line() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("blocked.txt");
        fs::write(&path, "# bots\n\n192.0.2.0/24 # a scanner\n  2001:db8::1\n").unwrap();
        let listed: Vec<String> = read(&path).unwrap().iter().map(ToString::to_string).collect();
        assert_eq!(listed, ["192.0.2.0/24", "2001:db8::1/128"]);
        fs::write(&path, "\u{feff}192.0.2.0/24\n").unwrap();
        assert_eq!(read(&path).unwrap().len(), 1, "the mark of an editor is no part of it");
        fs::write(&path, "192.0.2.0/24\n192.0.2.1/24\n").unwrap();
        let told = read(&path).unwrap_err();
        let expected = "line 2: `192.0.2.1/24` is not a network; the network is 192.0.2.0/24";
        assert_eq!(told, expected);
        assert!(read(&folder.path().join("none")).is_err());
    }

    #[test]
    fn a_list_that_many_routes_name_is_read_once() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("blocked.txt");
        fs::write(&path, "192.0.2.0/24\n").unwrap();
        let (path, sources) = (path.to_str().unwrap(), Sources::default());
        let first = sources.listed(path);
        fs::remove_file(path).unwrap();
        assert_eq!(sources.listed(path), first);
        assert_eq!(first.listed().len(), 1);
        assert!(Sources::default().listed(path).listed().is_empty(), "another load reads it again");
    }
}
