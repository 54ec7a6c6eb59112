//! How somebody who asks shows who it is.

use alloc::{string::String, sync::Arc, vec::Vec};

use super::{BasicAuth, ForwardAuth};
use crate::jwt::Jwt;

/// How somebody who asks has to show who it is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Authentication {
    /// By a name and a password.
    Basic(Arc<BasicAuth>),
    /// By a token.
    Jwt(Arc<Jwt>),
    /// By whatever a service wants to see.
    Forward(Arc<ForwardAuth>),
}

impl Authentication {
    /// The headers that servers do not get from clients: what was for loadline, and what only a
    /// service that lets the client in may say.
    #[must_use]
    pub fn hidden_headers(&self) -> Vec<String> {
        let own = match self {
            Self::Basic(auth) => (!auth.pass_authorization).then_some("Authorization"),
            Self::Jwt(jwt) => jwt.header().filter(|_| !jwt.pass_authorization),
            Self::Forward(auth) => return auth.copy_headers.clone(),
        };
        own.into_iter().map(Into::into).collect()
    }

    /// Index of the service that is asked.
    #[must_use]
    pub fn service(&self) -> Option<usize> {
        match self {
            Self::Basic(_) | Self::Jwt(_) => None,
            Self::Forward(auth) => Some(auth.service),
        }
    }
}
