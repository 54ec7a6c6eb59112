//! Requests by which a certificate authority verifies that a name leads here (http-01 of RFC 8555).
//!
//! They come before any rule: a name whose requests are all redirected or want a password can be
//! verified too. A token that is not known is no such request, so that servers may have their own.

use std::{
    collections::BTreeMap,
    sync::{
        Mutex, MutexGuard, PoisonError,
        atomic::{AtomicBool, Ordering::Relaxed},
    },
};

use crate::http::reply::Reply;

/// What is answered now.
#[derive(Debug, Default)]
pub(crate) struct Challenges {
    /// Most of the time there are none.
    any: AtomicBool,
    /// Key authorizations by their tokens.
    answers: Mutex<BTreeMap<String, String>>,
}

impl Challenges {
    /// Answers requests for `token` with this; not any more if omitted.
    pub(crate) fn answer_with(&self, token: &str, key_authorization: Option<&str>) {
        let mut answers = self.answers();
        match key_authorization {
            Some(text) => answers.insert(token.to_owned(), text.to_owned()),
            None => answers.remove(token),
        };
        self.any.store(!answers.is_empty(), Relaxed);
    }

    /// The response to a request for this path, if it is one of an authority.
    pub(crate) fn answer(&self, path: &[u8]) -> Option<Reply> {
        if !self.any.load(Relaxed) {
            return None;
        }
        let token = std::str::from_utf8(path.strip_prefix(PREFIX)?).ok()?;
        self.answers().get(token).map(|text| Reply::proof(text))
    }

    fn answers(&self) -> MutexGuard<'_, BTreeMap<String, String>> {
        self.answers.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

const PREFIX: &[u8] = b"/.well-known/acme-challenge/";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_token_is_answered_while_it_is_asked_for_and_no_other_path_is() {
        let challenges = Challenges::default();
        let path = b"/.well-known/acme-challenge/token";
        assert!(challenges.answer(path).is_none());
        challenges.answer_with("token", Some("token.thumbprint"));
        assert_eq!(challenges.answer(path).map(|reply| reply.status), Some(200));
        for other in [&b"/"[..], b"/.well-known/acme-challenge/", b"/.well-known/acme-challenge/x"]
        {
            assert!(challenges.answer(other).is_none());
        }
        challenges.answer_with("token", None);
        assert!(challenges.answer(path).is_none());
    }
}
