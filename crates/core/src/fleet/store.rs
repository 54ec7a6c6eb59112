//! Stores that answer instead of servers: a directory of this machine, or a bucket of an object
//! store.

use alloc::{
    string::{String, ToString as _},
    sync::Arc,
};
use core::net::{IpAddr, Ipv4Addr, SocketAddr};

use super::Server;

/// A place where objects are, each with a path.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Store {
    /// Where the objects are.
    pub place: StorePlace,
    /// What is asked for where a path ends with a slash.
    pub index: String,
    /// The path of the object that is told with a 404; a few words if omitted.
    pub error_page: Option<String>,
    /// Whether a file is sent compressed where one of the same name with `.br`, `.zst` or `.gz` is
    /// beside it, which is no older. Files alone have that.
    pub precompressed: bool,
}

/// Where objects are.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum StorePlace {
    /// Files below this directory.
    Files(String),
    /// Objects of a bucket.
    Bucket(Bucket),
}

/// A bucket of an object store that speaks the API of S3, or a container of Azure Blob Storage.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Bucket {
    /// Host and port of the store, as a Host header names them.
    pub authority: String,
    /// Whether it is reached over TLS.
    pub is_secure: bool,
    /// The path that goes before those of objects, as it is sent: that of the bucket and a prefix.
    pub base: String,
    /// The region for which requests are signed, until the store names another.
    pub region: String,
    /// The account of Azure Blob Storage; none where the store speaks the API of S3.
    pub account: Option<String>,
    /// Credentials for the store.
    pub access: Access,
}

/// How a store is accessed.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub enum Access {
    /// As anybody: requests are not signed.
    #[default]
    Anonymous,
    /// With the credentials that are found in the environment, in files or of the instance.
    Found {
        /// The profile of the files, where it is not the default one.
        profile: Option<String>,
    },
    /// As an account of Azure Storage, with what the environment has: its key, a shared access
    /// signature, a workload identity or the identity of the machine.
    Azure {
        /// Name of the storage account.
        account: String,
    },
}

impl Bucket {
    /// The path of a key as it is sent: what a canonical request leaves as it is, and nothing else,
    /// stays as it is (S3 API reference, "Create a canonical request").
    #[must_use]
    pub fn encoded(key: &[u8]) -> String {
        let mut path = String::with_capacity(key.len());
        for byte in key {
            if byte.is_ascii_alphanumeric() || b"/-._~".contains(byte) {
                path.push(char::from(*byte));
            } else {
                let digit = |nibble: u8| char::from(b"0123456789ABCDEF"[usize::from(nibble)]);
                path.extend(['%', digit(byte >> 4), digit(byte & 15)]);
            }
        }
        path
    }
}

impl StorePlace {
    /// The bucket, where it is one.
    #[must_use]
    pub const fn bucket(&self) -> Option<&Bucket> {
        match self {
            Self::Bucket(bucket) => Some(bucket),
            Self::Files(_) => None,
        }
    }
}

impl Store {
    /// The store at `place`, with the documented defaults.
    #[must_use]
    pub fn at(place: StorePlace) -> Self {
        let index = INDEX.to_string();
        Self { place, index, error_page: None, precompressed: false }
    }
}

impl Server {
    /// The server that stands for files of this machine. Nothing is ever sent to its address.
    #[must_use]
    pub fn of_files(store: Store) -> Self {
        let nowhere = SocketAddr::new(IpAddr::V4(Ipv4Addr::UNSPECIFIED), 0);
        Self { store: Some(Arc::new(store)), ..Self::at(nowhere) }
    }
}

/// What web servers commonly look for in a directory.
const INDEX: &str = "index.html";
