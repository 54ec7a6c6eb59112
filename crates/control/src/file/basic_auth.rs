//! Basic authentication: who may ask.

use loadline_spanned::{Key, Named, Text};
use schemars::JsonSchema;
use serde::Deserialize;

use crate::value::{
    label::FilePath,
    secret::{HashedPassword, Realm},
};

/// Basic authentication (RFC 7617). A request without a user of these and the right password gets
/// 401, and costs no server anything.
#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default, expecting = "a table")]
pub(crate) struct BasicAuth {
    /// The name of what is protected, as browsers show it.
    #[schemars(extend("default" = "loadline"))]
    pub(crate) realm: Key<Text<Realm>>,
    /// Users by name, with the hashes of their passwords: bcrypt (`htpasswd -nB NAME`) or SHA-crypt
    /// (`openssl passwd -6`).
    #[schemars(extend("examples" = [{
        "alice": "$5$saltstring$5B8vYYiY.CVt1RlTTf8KbXBH3hsxY/GNooZaBBGWEc5"
    }]))]
    pub(crate) users: Key<Named<Text<HashedPassword>>>,
    /// A file with further users, `NAME:HASH` a line, as `htpasswd -B` writes it; `#` begins a
    /// comment. It is read again at a reload.
    #[schemars(extend("examples" = ["/etc/loadline/htpasswd"]))]
    pub(crate) users_file: Key<Text<FilePath>>,
    /// Whether servers get the header `Authorization`. If not, they can be told the user by
    /// `request_headers = { set = { X-User = "$user" } }`.
    #[schemars(extend("default" = false))]
    pub(crate) pass_authorization: Key<bool>,
}
