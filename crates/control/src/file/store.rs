//! Stores of objects in the file.

use loadline_spanned::{Key, Text};
use schemars::JsonSchema;
use serde::Deserialize;

use crate::value::{
    label::Name,
    store::{ErrorPage, IndexName, StoreEndpoint, StoreUrl},
    word::Word,
};

/// An object store with settings besides its URL.
#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default, expecting = "a table")]
#[schemars(extend("required" = ["url"]))]
pub(crate) struct Store {
    /// URL of the store, to which paths of requests are appended: `file:///srv/www` for a directory
    /// of this machine, `s3://bucket/prefix` for Amazon S3 or another store with its API,
    /// `gs://bucket/prefix` for Google Cloud Storage, `az://container/prefix` for Azure Blob
    /// Storage.
    pub(crate) url: Key<Text<StoreUrl>>,
    /// Index file: the name that is appended to a path which ends with a slash.
    #[schemars(extend("default" = "index.html"))]
    pub(crate) index: Key<Text<IndexName>>,
    /// The path of the object that clients get with a 404. Default: a line of text.
    #[schemars(extend("examples" = ["/404.html"]))]
    pub(crate) error_page: Key<Text<ErrorPage>>,
    /// Whether `app.js.br`, `app.js.zst` or `app.js.gz` is sent for `app.js` to clients that accept
    /// it, if it is no older than `app.js`. Only with `file://`.
    #[schemars(extend("default" = false))]
    pub(crate) precompressed: Key<bool>,
    /// URL of the store's API. Default: Amazon's of the region, Google's, or that of the account at
    /// Azure.
    #[schemars(extend("examples" = ["https://minio.example.com"]))]
    pub(crate) endpoint: Key<Text<StoreEndpoint>>,
    /// The region of the bucket. Default: `us-east-1`; for `gs://` `auto`.
    #[schemars(extend("examples" = ["eu-central-1"]))]
    pub(crate) region: Key<Text<Name>>,
    /// The storage account of an `az://` store.
    #[schemars(extend("examples" = ["shop"]))]
    pub(crate) account: Key<Text<Name>>,
    /// Source of the credentials for requests to a bucket.
    #[schemars(extend("default" = "default"))]
    pub(crate) credentials: Key<Text<Word<CredentialSource>>>,
    /// The profile in the AWS shared credential files. Default: `AWS_PROFILE`, or `default`.
    #[schemars(extend("examples" = ["shop"]))]
    pub(crate) profile: Key<Text<Name>>,
}

/// Where the credentials for a store come from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum CredentialSource {
    Default,
    Anonymous,
}
