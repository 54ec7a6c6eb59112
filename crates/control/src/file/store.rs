//! Stores of objects in the file.

use loadline_spanned::{Key, Text};
use schemars::JsonSchema;
use serde::Deserialize;

use crate::value::{
    label::Name,
    store::{ErrorPage, IndexName, StoreEndpoint, StoreUrl},
    word::Word,
};

/// A store with settings besides its URL.
#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default, expecting = "a table")]
#[schemars(extend("required" = ["url"]))]
pub(crate) struct Store {
    /// Where the objects are: `file:///srv/www` is files below a directory of this machine,
    /// `s3://bucket/prefix` a bucket of Amazon S3 or of another store with its API,
    /// `gs://bucket/prefix` a bucket of Google Cloud Storage, `az://container/prefix` a container
    /// of Azure Blob Storage. Paths of requests continue it.
    pub(crate) url: Key<Text<StoreUrl>>,
    /// The name that is appended to a path which ends with a slash.
    #[schemars(extend("default" = "index.html"))]
    pub(crate) index: Key<Text<IndexName>>,
    /// The path of the object that clients get with a 404 where there is none at the path that
    /// they asked for. Default: a few words.
    #[schemars(extend("examples" = ["/404.html"]))]
    pub(crate) error_page: Key<Text<ErrorPage>>,
    /// Send `app.js.br`, `app.js.zst` or `app.js.gz` for `app.js` to clients that accept it, where
    /// it is no older; for files alone.
    #[schemars(extend("default" = false))]
    pub(crate) precompressed: Key<bool>,
    /// Where the store is reached. Default: Amazon's of the region, Google's, or that of the
    /// account at Azure.
    #[schemars(extend("examples" = ["https://minio.example.com"]))]
    pub(crate) endpoint: Key<Text<StoreEndpoint>>,
    /// The region of the bucket. Default: `us-east-1`; for `gs://` `auto`.
    #[schemars(extend("examples" = ["eu-central-1"]))]
    pub(crate) region: Key<Text<Name>>,
    /// The storage account of an `az://` store.
    #[schemars(extend("examples" = ["shop"]))]
    pub(crate) account: Key<Text<Name>>,
    /// Who asks for objects of a bucket.
    #[schemars(extend("default" = "default"))]
    pub(crate) credentials: Key<Text<Word<CredentialSource>>>,
    /// The profile of the shared credential files. Default: `AWS_PROFILE`, or `default`.
    #[schemars(extend("examples" = ["shop"]))]
    pub(crate) profile: Key<Text<Name>>,
}

/// Where the credentials for a store come from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum CredentialSource {
    Default,
    Anonymous,
}
