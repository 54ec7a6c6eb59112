//! Certificates that an authority issues by ACME (RFC 8555), as the file says it.

use alloc::{borrow::ToOwned as _, format, string::String, sync::Arc, vec::Vec};

/// Certificates of a listener by ACME.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Acme {
    /// DNS names, each with a certificate of its own, in lower case, without wildcards. At least
    /// one.
    pub names: Vec<String>,
    /// Who issues them, and how names are proven.
    pub issuer: Arc<Issuer>,
}

/// A certificate authority with its settings. Equal issuers share one account.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Issuer {
    /// The URL of its directory.
    pub directory: String,
    /// Where it may write to; nowhere if omitted.
    pub email: Option<String>,
    /// File of authorities trusted for the directory instead of the system's.
    pub authorities: Option<String>,
    /// The account of the authority's customer, for one that wants one.
    pub external_account: Option<ExternalAccount>,
    /// How names are proven.
    pub challenge: Challenge,
    /// Directory of account key, certificates and orders under way.
    pub state_dir: String,
    /// Where account, orders and certificates are kept.
    pub storage: Storage,
}

/// Where account, orders under way and certificates are.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Storage {
    /// In the state directory of each edge alone.
    #[default]
    Disk,
    /// In the store of the cluster; the state directory has a copy of the certificates.
    Cluster,
}

/// An account that exists with the authority outside of ACME (RFC 8555, section 7.3.4).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ExternalAccount {
    /// The key identifier (`kid`) that the authority has given.
    pub kid: String,
    /// File whose first line is its HMAC key, base64url.
    pub key_file: String,
}

/// How a name is proven to the authority.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Challenge {
    /// By a request to port 80 of the name (RFC 8555, section 8.3).
    Http01,
    /// By a TLS handshake with port 443 of the name (RFC 8737).
    TlsAlpn01,
}

impl Issuer {
    /// Its name in file systems and stores, made of its directory: letters, digits, `.` and `-`.
    #[must_use]
    pub fn name(&self) -> String {
        let url = self.directory.split_once("://").map_or(&*self.directory, |(_, rest)| rest);
        let plain = |c: char| if c.is_ascii_alphanumeric() || c == '.' { c } else { '-' };
        let name: String = url.chars().map(plain).collect();
        name.trim_matches(['-', '.']).to_owned()
    }

    /// Where everything is that is known of this authority: a folder of its own for each.
    #[must_use]
    pub fn folder(&self) -> String {
        format!("{}/{}", self.state_dir, self.name())
    }

    /// What an attempt to get a certificate depends on beside the name: where two issuers differ in
    /// it, one may succeed where the other has failed.
    #[must_use]
    pub fn settings(&self) -> String {
        let Self { directory, email, authorities, external_account, challenge, .. } = self;
        format!("{directory:?} {email:?} {authorities:?} {external_account:?} {challenge:?}")
    }

    /// The file of the key and the certificate for `name`.
    #[must_use]
    pub fn certificate(&self, name: &str) -> String {
        format!("{}/{name}.pem", self.folder())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_authority_has_a_folder_of_its_own_whatever_its_url() {
        let of = |directory: &str| Issuer {
            directory: directory.to_owned(),
            email: None,
            authorities: None,
            external_account: None,
            challenge: Challenge::Http01,
            state_dir: "/s".to_owned(),
            storage: Storage::Disk,
        };
        let folder = |directory| of(directory).folder();
        assert_eq!(folder("https://ca.test:14000/dir"), "/s/ca.test-14000-dir");
        assert_eq!(folder("https://../../etc/"), "/s/etc");
        assert_eq!(of("https://ca.test/").certificate("a.test"), "/s/ca.test/a.test.pem");
    }
}
