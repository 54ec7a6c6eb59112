//! How somebody who asks shows who it is.

use alloc::sync::Arc;

use super::BasicAuth;
use crate::jwt::Jwt;

/// How somebody who asks has to show who it is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Authentication {
    /// By a name and a password.
    Basic(Arc<BasicAuth>),
    /// By a token.
    Jwt(Arc<Jwt>),
}

impl Authentication {
    /// The header that was for loadline, and that servers do not get.
    #[must_use]
    pub fn hidden_header(&self) -> Option<&str> {
        match self {
            Self::Basic(auth) => (!auth.pass_authorization).then_some("Authorization"),
            Self::Jwt(jwt) => jwt.header().filter(|_| !jwt.pass_authorization),
        }
    }
}
