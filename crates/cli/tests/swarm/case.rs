//! A case: a configuration and a traffic file, in parts that can be left out one by one.

use std::{
    fmt::Write as _,
    fs,
    path::{Path, PathBuf},
    sync::Arc,
};

use loadline_sim::{Scenario, Traffic};

/// A key and its value, as TOML has it.
pub(crate) type Key = (&'static str, String);

/// A table of one of the two files.
#[derive(Clone, Debug, Default)]
pub(crate) struct Table {
    /// Its head, with the brackets; none for the keys at the top of a file.
    pub(crate) head: String,
    pub(crate) keys: Vec<Key>,
    /// The tables that belong to it and come after it.
    pub(crate) parts: Vec<Table>,
}

/// What is simulated.
#[derive(Clone, Debug)]
pub(crate) struct Case {
    pub(crate) configuration: Table,
    pub(crate) traffic: Table,
}

impl Table {
    pub(crate) fn new(head: impl Into<String>, keys: Vec<Key>) -> Self {
        Self { head: head.into(), keys, parts: Vec::new() }
    }

    pub(crate) fn text(&self) -> String {
        let mut text = String::new();
        if !self.head.is_empty() {
            let _ = writeln!(text, "\n{}", self.head);
        }
        for (key, value) in &self.keys {
            let _ = writeln!(text, "{key} = {value}");
        }
        self.parts.iter().for_each(|part| text.push_str(&part.text()));
        text
    }

    /// This table without one of its keys or parts, at any depth, in turn; the largest first.
    pub(crate) fn smaller(&self) -> Vec<Self> {
        let mut all = Vec::new();
        for at in 0..self.parts.len() {
            let mut less = self.clone();
            less.parts.remove(at);
            all.push(less);
        }
        for (at, part) in self.parts.iter().enumerate() {
            for smaller in part.smaller() {
                let mut less = self.clone();
                less.parts[at] = smaller;
                all.push(less);
            }
        }
        for at in 0..self.keys.len() {
            let mut less = self.clone();
            less.keys.remove(at);
            all.push(less);
        }
        all
    }
}

impl Case {
    /// Writes both files, and gives their paths.
    pub(crate) fn write(&self, dir: &Path, name: &str) -> (PathBuf, PathBuf) {
        let (file, traffic) =
            (dir.join(format!("{name}.toml")), dir.join(format!("{name}.traffic.toml")));
        fs::create_dir_all(dir).unwrap();
        fs::write(&file, self.configuration.text()).unwrap();
        fs::write(&traffic, self.traffic.text()).unwrap();
        (file, traffic)
    }
}

/// Reads both files as `loadline sim` does.
pub(crate) fn read((file, traffic): (&Path, &Path)) -> Result<Scenario, String> {
    let own = loadline_control::load(file).map_err(|errors| format!("{errors:?}"))?;
    let traffic = Traffic::load(traffic, (&own.fleet, &own.regions), None);
    let mut traffic = traffic.map_err(|errors| format!("{errors:?}"))?;
    match &own.cluster {
        Some(cluster) => traffic.share(cluster.sharing()),
        None if traffic.needs_store() => return Err("a store that nobody has".to_owned()),
        None => {}
    }
    let mut edges = vec![Arc::new(own.fleet)];
    for region in traffic.regions.iter().skip(1) {
        let seen = loadline_control::load_seen_from(file, region);
        edges.push(Arc::new(seen.map_err(|errors| format!("{errors:?}"))?.fleet));
    }
    Ok(traffic.scenario(edges))
}
