//! Basic authentication: who may ask.

use loadline_spanned::{Key, Named, Text};
use schemars::JsonSchema;
use serde::Deserialize;

use crate::value::{
    label::FilePath,
    secret::{HashedPassword, Realm},
};

/// Basic authentication (RFC 7617). A request without the name and password of one of these users
/// gets 401 and reaches no server.
#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default, expecting = "a table")]
pub(crate) struct BasicAuth {
    /// The realm: the name of the protected area, which browsers show.
    #[schemars(extend("default" = "loadline"))]
    pub(crate) realm: Key<Text<Realm>>,
    /// Users by name, with their password hashes: bcrypt (`htpasswd -nB NAME`) or SHA-crypt
    /// (`openssl passwd -6`).
    #[schemars(extend("examples" = [{
        "alice": "$5$saltstring$5B8vYYiY.CVt1RlTTf8KbXBH3hsxY/GNooZaBBGWEc5"
    }]))]
    pub(crate) users: Key<Named<Text<HashedPassword>>>,
    /// A file with further users, `NAME:HASH` on each line, as `htpasswd -B` writes it; `#` begins
    /// a comment. A reload reads it again.
    #[schemars(extend("examples" = ["/etc/loadline/htpasswd"]))]
    pub(crate) users_file: Key<Text<FilePath>>,
    /// Whether the header `Authorization` is passed to servers. If not, `request_headers = { set =
    /// { X-User = "$user" } }` can tell them the user.
    #[schemars(extend("default" = false))]
    pub(crate) pass_authorization: Key<bool>,
}
