//! Where the objects of a store are, as a URL, and the name of the one that stands for a directory.

use std::net::IpAddr;

use loadline_spanned::{Complaint, Textual};

use super::{address::Place, label::file_path};

/// A place where objects are.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum StoreUrl {
    /// Files below a directory.
    Files(String),
    /// Objects of a bucket, below a prefix that is empty or begins with a slash.
    Bucket {
        /// Whose it is.
        provider: Provider,
        name: String,
        /// What goes before the paths of objects.
        prefix: String,
    },
}

/// Whose API and defaults a bucket has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Provider {
    Amazon,
    Google,
    Azure,
}

impl Textual for StoreUrl {
    const EXPECTED: &'static str = "a URL like \"file:///srv/www\" or \"s3://bucket\"";
    const TITLE: &'static str = "the URL of a store";
    const PATTERN: Option<&'static str> = Some("^(file:///|s3://|gs://|az://).*$");
    const EXAMPLES: &'static [&'static str] = &["file:///srv/www", "s3://bucket/prefix"];

    fn read(text: &str) -> Result<Self, Complaint> {
        let wrong = |help: &str| Complaint::new(format!("`{text}` is not a store"), help);
        if text.starts_with('/') {
            return Err(wrong(&format!("write \"file://{text}\"")));
        }
        if text.starts_with("http://") || text.starts_with("https://") {
            return Err(wrong("a server of HTTP is one of `servers`: servers = [\"10.0.0.1:80\"]"));
        }
        for (scheme, provider) in PROVIDERS {
            if let Some(rest) = text.strip_prefix(scheme) {
                return bucket(rest, provider).ok_or_else(|| wrong(BUCKET_HELP));
            }
        }
        let Some(path) = text.strip_prefix("file://") else {
            return Err(wrong("write \"file:///srv/www\" or \"s3://bucket/prefix\""));
        };
        if !path.starts_with('/') {
            return Err(wrong("write the whole path behind two slashes: \"file:///srv/www\""));
        }
        Ok(Self::Files(file_path(path)?))
    }
}

/// A bucket and a prefix; none where they cannot be.
fn bucket(text: &str, provider: Provider) -> Option<StoreUrl> {
    let (name, prefix) = text.split_at(text.find('/').unwrap_or(text.len()));
    let fits = |byte: u8| byte.is_ascii_alphanumeric() || b"-._".contains(&byte);
    let is_name =
        (1..=255).contains(&name.len()) && name.bytes().all(fits) && !name.starts_with('.');
    let prefix = prefix.trim_end_matches('/');
    let odd = |part: &str| part == "." || part == "..";
    let is_prefix = !prefix.split('/').any(odd) && prefix.chars().all(|c| !c.is_control());
    let (name, prefix) = (name.to_owned(), prefix.to_owned());
    (is_name && is_prefix).then_some(StoreUrl::Bucket { provider, name, prefix })
}

const PROVIDERS: [(&str, Provider); 3] =
    [("s3://", Provider::Amazon), ("gs://", Provider::Google), ("az://", Provider::Azure)];

const BUCKET_HELP: &str =
    "write the name of a bucket, and a prefix if need be: \"s3://bucket/site\"";

/// Where a store is reached.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct StoreEndpoint {
    /// Over TLS.
    pub(crate) is_secure: bool,
    /// Host and port.
    pub(crate) place: Place,
}

impl StoreEndpoint {
    /// Host and port as a Host header names them.
    pub(crate) fn authority(&self) -> String {
        let usual = if self.is_secure { 443 } else { 80 };
        match &self.place {
            Place::Address(address) if address.port() != usual => address.to_string(),
            Place::Address(address) => match address.ip() {
                IpAddr::V4(ip) => ip.to_string(),
                IpAddr::V6(ip) => format!("[{ip}]"),
            },
            Place::Name(host, port) if *port == usual => host.clone(),
            Place::Name(host, port) => format!("{host}:{port}"),
        }
    }
}

impl Textual for StoreEndpoint {
    const EXPECTED: &'static str = "a URL like \"https://minio.example.com\"";
    const TITLE: &'static str = "the endpoint of a store";
    const PATTERN: Option<&'static str> = Some("^https?://[^/]+/?$");
    const EXAMPLES: &'static [&'static str] = &["http://127.0.0.1:9000"];

    fn read(text: &str) -> Result<Self, Complaint> {
        let wrong = || {
            let help = "write scheme, host and port alone: \"http://127.0.0.1:9000\"";
            Complaint::new(format!("`{text}` is not the endpoint of a store"), help)
        };
        let (is_secure, rest) = match (text.strip_prefix("https://"), text.strip_prefix("http://"))
        {
            (Some(rest), _) => (true, rest),
            (_, Some(rest)) => (false, rest),
            _ => return Err(wrong()),
        };
        let rest = rest.strip_suffix('/').unwrap_or(rest);
        let usual = if is_secure { 443 } else { 80 };
        let place = Place::read(rest).or_else(|_| Place::read(&format!("{rest}:{usual}")));
        place.map(|place| Self { is_secure, place }).map_err(|_| wrong())
    }
}

/// The path of the object that is told with a 404.
#[derive(Clone, Debug)]
pub(crate) struct ErrorPage(pub(crate) String);

impl Textual for ErrorPage {
    const EXPECTED: &'static str = "a path like \"/404.html\"";
    const TITLE: &'static str = "the path of an object";
    const PATTERN: Option<&'static str> = Some("^/[^?#]*[^/?#]$");
    const EXAMPLES: &'static [&'static str] = &["/404.html"];

    fn read(text: &str) -> Result<Self, Complaint> {
        let fits = |byte: u8| byte.is_ascii_graphic() && byte != b'?' && byte != b'#';
        let is_path = text.starts_with('/') && !text.ends_with('/') && text.bytes().all(fits);
        // No store has an object with such a segment, or with such a byte.
        let plain = text.to_ascii_lowercase().replace("%2e", ".").replace("%2f", "/");
        let is_odd = plain.split('/').any(|part| part == "." || part == "..");
        if is_path && !is_odd && !plain.contains("%00") {
            return Ok(Self(text.to_owned()));
        }
        let help = "write the path of an object as a URL has it: \"/404.html\"";
        Err(Complaint::new(format!("`{text}` is not the path of an object"), help))
    }
}

/// The name of the object that is asked for where a path ends with a slash.
#[derive(Clone, Debug)]
pub(crate) struct IndexName(pub(crate) String);

impl Textual for IndexName {
    const EXPECTED: &'static str = "a name like \"index.html\"";
    const TITLE: &'static str = "a file name";
    const PATTERN: Option<&'static str> = Some("^[^/]+$");

    fn read(text: &str) -> Result<Self, Complaint> {
        let fits = |c: char| !c.is_control() && c != '/';
        if !text.is_empty() && text.chars().all(fits) && text != "." && text != ".." {
            return Ok(Self(text.to_owned()));
        }
        let help = "write the name of a file, without slashes: \"index.html\"";
        Err(Complaint::new(format!("`{text}` is not the name of an index"), help))
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
    fn a_bucket_has_a_name_and_perhaps_a_prefix() {
        let read = |text: &str| StoreUrl::read(text).ok();
        let bucket = |provider, name: &str, prefix: &str| {
            let (name, prefix) = (name.to_owned(), prefix.to_owned());
            Some(StoreUrl::Bucket { provider, name, prefix })
        };
        assert_eq!(read("s3://shop"), bucket(Provider::Amazon, "shop", ""));
        assert_eq!(read("s3://shop/"), bucket(Provider::Amazon, "shop", ""));
        assert_eq!(read("gs://my.shop/a b/c/"), bucket(Provider::Google, "my.shop", "/a b/c"));
        assert_eq!(read("az://web/a"), bucket(Provider::Azure, "web", "/a"));
        for wrong in ["s3://", "s3:///key", "s3://a b", "s3://b/../c", "oss://bucket"] {
            assert_eq!(read(wrong), None, "{wrong}");
        }
    }

    #[test]
    fn an_endpoint_is_a_host_with_the_usual_port_or_another() {
        let authority = |text: &str| StoreEndpoint::read(text).map(|it| it.authority()).ok();
        for (text, expected) in [
            ("https://minio.example.com", Some("minio.example.com")),
            ("https://minio.example.com:443/", Some("minio.example.com")),
            ("http://127.0.0.1:9000", Some("127.0.0.1:9000")),
            ("http://[::1]:80", Some("[::1]")),
            ("http://minio:9000/bucket", None),
            ("minio:9000", None),
        ] {
            assert_eq!(authority(text).as_deref(), expected, "{text}");
        }
    }

    #[test]
    fn an_error_page_is_the_path_of_an_object() {
        assert!(ErrorPage::read("/errors/not%20found.html").is_ok());
        assert!(ErrorPage::read("/..errors/404..html").is_ok());
        let odd = ["/../x", "/a/./x", "/a/%2e%2E/x", "/a%2F..%2fx", "/a%00"];
        for wrong in ["404.html", "/", "/errors/", "/a?b", "/a b", ""].into_iter().chain(odd) {
            assert!(ErrorPage::read(wrong).is_err(), "{wrong}");
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
