//! What is in the store: names of keys, and their values as plain data.

use serde::{Deserialize, Serialize, de::DeserializeOwned};

/// Which cluster this is.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Marker {
    /// What the operator calls it, or what the first edge drew.
    pub id: String,
}

/// An edge, as it tells of itself.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct EdgeEntry {
    /// Drawn once for each state directory: two edges of one name differ in it.
    pub instance: String,
    /// Where it is.
    pub region: String,
    /// The version of loadline.
    pub release: String,
    /// Where its admin interface listens, if it has one.
    pub admin: Option<String>,
    /// The version of the published configuration that it runs; 0 where it runs none.
    pub configuration: u64,
    /// The digest of its text; none where it runs none, or where the edge is of a release that does
    /// not say so.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub digest: Option<String>,
    /// A version that this edge refused.
    pub refused: Option<Refusal>,
    /// The names of its services.
    pub services: Vec<String>,
}

/// Why an edge goes on with what it had.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Refusal {
    /// Number of the version that it refused.
    pub version: u64,
    /// The digest of its text; none where nobody can read it, or where the edge is of a release
    /// that does not say so.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub digest: Option<String>,
    /// What is wrong with it, for people.
    pub reason: String,
}

/// A version of the configuration.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Version {
    /// TOML.
    pub text: String,
    /// Seconds since 1970, by the clock of who published it; for people.
    pub at_s: u64,
    /// Whose machine that was; for people.
    pub by: String,
    /// The names of the services that an edge has with it.
    pub services: Vec<String>,
    /// The version that was in force before; none where none was, or where a release published it
    /// that did not say so.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub replaces: Option<u64>,
}

/// Names of keys.
#[derive(Clone, Debug)]
pub(super) struct Keys {
    pub(super) prefix: String,
}

impl Keys {
    pub(super) fn marker(&self) -> String {
        format!("{}cluster", self.prefix)
    }

    /// What the keys of members begin with.
    pub(super) fn members(&self) -> String {
        format!("{}members/", self.prefix)
    }

    pub(super) fn member(&self, name: &str) -> String {
        self.members() + name
    }

    pub(super) fn current(&self) -> String {
        format!("{}configuration/current", self.prefix)
    }

    /// What the keys of versions begin with.
    pub(super) fn versions(&self) -> String {
        format!("{}configuration/versions/", self.prefix)
    }

    /// Versions are in the order of their numbers.
    pub(super) fn version(&self, number: u64) -> String {
        format!("{}{number:010}", self.versions())
    }
}

/// A value that is not what it should be.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the key `{key}` holds something that is not {what}: {why}")]
pub struct ValueError {
    /// The key in the store.
    pub key: String,
    /// What it should be.
    pub what: &'static str,
    /// What is wrong with it.
    pub why: String,
}

pub(super) fn read<T: DeserializeOwned>(
    what: &'static str,
    key: &str,
    value: &[u8],
) -> Result<T, ValueError> {
    serde_json::from_slice(value).map_err(|error| ValueError {
        key: key.to_owned(),
        what,
        why: error.to_string(),
    })
}

/// As JSON, which none of these values can fail to be.
pub(crate) fn written(value: &impl Serialize) -> Vec<u8> {
    serde_json::to_vec(value).unwrap_or_default()
}
