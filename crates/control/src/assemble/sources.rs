//! The networks of clients that a route is for: those in the configuration and those in a file.

use std::path::Path;

use loadline_core::rules::{Network, Networks, PatternError};

use super::read_text;
use crate::file;

/// The networks; none where the route is for every client. A file that cannot be read has none:
/// what tries it (`outside`) says so.
pub(super) fn sources(route: &file::Route) -> Option<Networks> {
    if !route.source.given() && !route.source_file.given() {
        return None;
    }
    let written = route.source.get().into_iter().flat_map(|all| all.iter().map(|it| it.0));
    let listed = route.source_file.get().map(|path| read(Path::new(&path.0.0)));
    Some(written.chain(listed.and_then(Result::ok).into_iter().flatten()).collect())
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
}
