//! Where the objects of a store are, as a URL, and the name of the one that stands for a directory.

use loadline_spanned::{Complaint, Textual};
use schemars::{Schema, json_schema};

use super::label::file_path;

/// A place where objects are.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum StoreUrl {
    /// Files below a directory.
    Files(String),
}

impl Textual for StoreUrl {
    fn expected() -> String {
        "a URL like \"file:///srv/www\"".to_owned()
    }

    fn read(text: &str) -> Result<Self, Complaint> {
        let wrong = |help: &str| Complaint::new(format!("`{text}` is not a store"), help);
        if text.starts_with('/') {
            return Err(wrong(&format!("write \"file://{text}\"")));
        }
        if text.starts_with("http://") || text.starts_with("https://") {
            return Err(wrong("a server of HTTP is one of `servers`: servers = [\"10.0.0.1:80\"]"));
        }
        let Some(path) = text.strip_prefix("file://") else {
            return Err(wrong("write \"file:///srv/www\""));
        };
        if !path.starts_with('/') {
            return Err(wrong("write the whole path behind two slashes: \"file:///srv/www\""));
        }
        Ok(Self::Files(file_path(path)?))
    }

    fn schema() -> Schema {
        json_schema!({
            "type": "string",
            "title": "the URL of a store",
            "pattern": "^file:///.*$",
            "examples": ["file:///srv/www"],
        })
    }
}

/// The name of the object that is asked for where a path ends with a slash.
#[derive(Clone, Debug)]
pub(crate) struct IndexName(pub(crate) String);

impl Textual for IndexName {
    fn expected() -> String {
        "a name like \"index.html\"".to_owned()
    }

    fn read(text: &str) -> Result<Self, Complaint> {
        let fits = |c: char| !c.is_control() && c != '/';
        if !text.is_empty() && text.chars().all(fits) && text != "." && text != ".." {
            return Ok(Self(text.to_owned()));
        }
        let help = "write the name of a file, without slashes: \"index.html\"";
        Err(Complaint::new(format!("`{text}` is not the name of an index"), help))
    }

    fn schema() -> Schema {
        json_schema!({ "type": "string", "title": "a file name", "pattern": "^[^/]+$" })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_directory_is_named_by_its_whole_path() {
        let files = StoreUrl::Files("/srv/my www".to_owned());
        assert_eq!(StoreUrl::read("file:///srv/my www").ok(), Some(files));
        for (text, words) in [
            ("/srv/www", "write \"file:///srv/www\""),
            ("file://srv/www", "behind two slashes"),
            ("https://example.com/", "`servers`"),
            ("ftp://example.com/", "file:///srv/www"),
            ("file:///srv/${HOME}", "variable"),
        ] {
            let Complaint { message, help } = StoreUrl::read(text).unwrap_err();
            assert!(format!("{message} {help}").contains(words), "{text}: {message}, {help}");
        }
    }

    #[test]
    fn an_index_is_one_name() {
        assert!(IndexName::read("default.htm").is_ok());
        for wrong in ["", "a/b", "..", "a\n"] {
            assert!(IndexName::read(wrong).is_err(), "{wrong:?}");
        }
    }
}
