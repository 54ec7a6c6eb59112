//! The kinds of authentication of a rule: basic, JWT, forward.

use alloc::{string::String, sync::Arc, vec::Vec};

use super::{BasicAuth, ForwardAuth, HeaderEdits};
use crate::jwt::{Jwt, TokenPlace};

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

    /// Whether servers see a token elsewhere than in `Authorization`, where requests are changed
    /// like this on the way to them.
    #[must_use]
    pub fn shows_token(&self, request: &HeaderEdits) -> bool {
        let Self::Jwt(jwt) = self else { return false };
        match &jwt.place {
            TokenPlace::Authorization => false,
            TokenPlace::Header(name) => jwt.pass_authorization && !request.drops(name.as_bytes()),
            TokenPlace::Cookie(_) => !request.drops(b"cookie"),
        }
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
