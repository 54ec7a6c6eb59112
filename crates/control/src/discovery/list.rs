//! A list of servers in a file: TOML, or JSON where the name of the file ends so.
//!
//! ```text
//! servers = ["10.0.0.1:80", { address = "10.0.0.2:80", weight = 2, priority = 10 }]
//! ```
//! Both are read into one tree, so that an error says the same in both: which entry, what is wrong
//! with it, and what would be right.

use std::{
    collections::BTreeSet, fs::OpenOptions, io::Read as _, net::SocketAddr,
    os::unix::fs::OpenOptionsExt as _, path::Path,
};

use loadline_core::{decide::discovery::Listed, fleet::Group};
use rustix::fs::OFlags;
use serde_json::{Map, Value};

/// Reads the list at `path`.
///
/// # Errors
/// What is wrong with it, for people.
pub(super) fn read(path: &Path) -> Result<Vec<Listed>, String> {
    let text = text(path)?;
    let is_json = path.extension().is_some_and(|it| it.eq_ignore_ascii_case("json"));
    parse(&text, is_json)
}

/// What the file has. A pipe of this name must not keep anybody waiting for its other end.
fn text(path: &Path) -> Result<String, String> {
    let told = |error| format!("cannot be read: {error}");
    let nonblocking = OFlags::NONBLOCK.bits().cast_signed();
    let file = OpenOptions::new().read(true).custom_flags(nonblocking).open(path);
    let mut file = file.map_err(told)?;
    if !file.metadata().map_err(told)?.is_file() {
        return Err("cannot be read: it is not a regular file".to_owned());
    }
    let mut text = String::new();
    file.read_to_string(&mut text).map_err(told)?;
    Ok(text)
}

fn parse(text: &str, is_json: bool) -> Result<Vec<Listed>, String> {
    let tree: Value = if is_json {
        serde_json::from_str(text).map_err(|error| format!("not JSON: {error}"))?
    } else {
        toml::from_str(text).map_err(|error| format!("not TOML: {}", one_line(&error)))?
    };
    let keys = tree.as_object().ok_or("write a table with the key `servers`")?;
    only(keys, &["servers"])?;
    let entries = keys.get("servers").ok_or("the key `servers` is missing")?;
    let entries = entries.as_array().ok_or("`servers` has to be a list")?;
    ensure_fits(entries.len())?;
    let mut known = BTreeSet::new();
    let listed = entries.iter().enumerate().map(|(index, entry)| {
        let server = listed(entry).map_err(|error| format!("server {}: {error}", index + 1))?;
        if !known.insert(server.address) {
            return Err(format!("{} is there twice; a larger share is `weight`", server.address));
        }
        Ok(server)
    });
    listed.collect()
}

/// Refuses a list of so many servers, where they are too many.
pub(super) fn ensure_fits(servers: usize) -> Result<(), String> {
    if servers > SERVERS_MAX {
        return Err(format!("{servers} servers, of which {SERVERS_MAX} are the most"));
    }
    Ok(())
}

fn listed(entry: &Value) -> Result<Listed, String> {
    let Value::Object(keys) = entry else { return address(entry).map(Listed::at) };
    only(keys, &["address", "weight", "priority"])?;
    let place = keys.get("address").ok_or("a table without `address`")?;
    let mut server = Listed::at(address(place)?);
    if let Some(weight) = keys.get("weight") {
        let fits = weight.as_u64().filter(|it| *it <= 1000).ok_or("a `weight` is 0 to 1000")?;
        server.weight = fits as u32;
    }
    if let Some(priority) = keys.get("priority") {
        let fits = priority.as_u64().and_then(|it| u16::try_from(it).ok());
        server.priority = fits.ok_or("a `priority` is 0 to 65535")?;
    }
    Ok(server)
}

fn address(value: &Value) -> Result<SocketAddr, String> {
    let text = value.as_str().ok_or_else(|| format!("`{value}` is not a text"))?;
    let address = text.parse().ok().filter(|it: &SocketAddr| it.port() > 0);
    let address = address
        .ok_or_else(|| format!("`{text}` is not an address with a port, like 10.0.0.1:80"))?;
    of_server(address)
}

/// That address, if it can be that of one server.
pub(super) fn of_server(address: SocketAddr) -> Result<SocketAddr, String> {
    let ip = address.ip();
    let is_of_one = !ip.is_unspecified() && !ip.is_multicast() && address.port() > 0;
    is_of_one.then_some(address).ok_or_else(|| format!("`{address}` is no address of a server"))
}

fn only(keys: &Map<String, Value>, known: &[&str]) -> Result<(), String> {
    let strange = keys.keys().find(|key| !known.contains(&key.as_str()));
    let told = |key| format!("unknown key `{key}`; there are `{}`", known.join("`, `"));
    strange.map_or(Ok(()), |key| Err(told(key)))
}

/// The place and the message, without the picture of the line.
fn one_line(error: &toml::de::Error) -> String {
    let text = error.to_string();
    let place = text.lines().next().unwrap_or_default();
    format!("{}: {}", place.trim_start_matches("TOML parse error "), error.message())
}

/// More than one machine can check, and as many as fit the plan.
const SERVERS_MAX: usize = 10_000;

const _: () = assert!(SERVERS_MAX <= Group::SERVERS_MAX as usize);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn toml_and_json_say_the_same() {
        let toml = "servers = [\"10.0.0.1:80\", { address = \"[::1]:81\", weight = 2 }]";
        let json = r#"{"servers": ["10.0.0.1:80", {"address": "[::1]:81", "weight": 2}]}"#;
        let listed = parse(toml, false).unwrap();
        assert_eq!(listed, parse(json, true).unwrap());
        assert_eq!((listed.len(), listed[1].weight, listed[1].priority), (2, 2, 0));
    }

    #[test]
    fn a_list_that_is_a_pipe_is_refused_rather_than_waited_for() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("web.toml");
        let mode = rustix::fs::Mode::RUSR;
        rustix::fs::mkfifoat(rustix::fs::CWD, &path, mode).unwrap();
        let (told, read) = std::sync::mpsc::channel();
        std::thread::spawn(move || told.send(super::read(&path)));
        let error = read.recv_timeout(std::time::Duration::from_secs(5)).unwrap().unwrap_err();
        assert_eq!(error, "cannot be read: it is not a regular file");
    }

    #[test]
    fn what_is_wrong_is_told_with_its_place() {
        let cases = [
            ("servers = [\"10.0.0.1\"]", "server 1: `10.0.0.1` is not an address with a port"),
            ("servers = [\"10.0.0.1:80\", \"10.0.0.1:80\"]", "10.0.0.1:80 is there twice"),
            ("servers = [\"0.0.0.0:80\"]", "server 1: `0.0.0.0:80` is no address of a server"),
            ("servers = [\"[ff02::1]:80\"]", "`[ff02::1]:80` is no address of a server"),
            ("servers = [{ weight = 2 }]", "without `address`"),
            ("servers = [{ address = \"10.0.0.1:80\", wieght = 2 }]", "unknown key `wieght`"),
            ("servers = [{ address = \"10.0.0.1:80\", weight = -1 }]", "0 to 1000"),
            ("servers = [{ address = \"10.0.0.1:80\", priority = 70000 }]", "0 to 65535"),
            ("server = []", "unknown key `server`"),
            ("servers = \"10.0.0.1:80\"", "has to be a list"),
            ("servers = [\n1,\n=", "not TOML: at line 3"),
            ("", "`servers` is missing"),
        ];
        for (text, told) in cases {
            let error = parse(text, false).unwrap_err();
            assert!(error.contains(told), "{text}: {error}");
        }
        assert!(parse("{", true).unwrap_err().contains("line 1"));
    }
}
