//! Requests by which a certificate authority verifies that a name leads here (http-01 of RFC 8555).
//!
//! They come before any rule: a name whose requests are all redirected or want a password can be
//! verified too. A token that is not known is no such request, so that servers may have their own.

use std::{
    collections::BTreeMap,
    sync::{
        Mutex, MutexGuard, OnceLock, PoisonError,
        atomic::{AtomicBool, Ordering::Relaxed},
    },
    time::Duration,
};

use tokio::{
    sync::{mpsc, oneshot},
    time::timeout,
};

use crate::http::reply::Reply;

/// The challenges that are answered at present.
#[derive(Debug, Default)]
pub(crate) struct Challenges {
    /// Most of the time there are none.
    any: AtomicBool,
    /// Key authorizations by their tokens.
    answers: Mutex<BTreeMap<String, String>>,
    /// Looks up tokens unknown to this edge, where other edges make them.
    lookups: OnceLock<mpsc::Sender<oneshot::Sender<()>>>,
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

    /// Has unknown tokens looked up by whoever hears of it.
    pub(crate) fn look_up_by(&self, lookups: mpsc::Sender<oneshot::Sender<()>>) {
        // There is one who does for as long as the process runs.
        let _ = self.lookups.set(lookups);
    }

    /// Whether a request for this path without an answer may be an authority's whose token another
    /// edge was told.
    pub(crate) fn may_be_known(&self, path: &[u8]) -> bool {
        path.starts_with(PREFIX) && self.lookups.get().is_some()
    }

    /// The response to a request for this path when the others were asked; none if none of them
    /// knows it, or too many wait for that.
    pub(crate) async fn look_up(&self, path: &[u8]) -> Option<Reply> {
        let (done, found) = oneshot::channel();
        self.lookups.get()?.try_send(done).ok()?;
        let _ = timeout(LOOKUP_TIME, found).await;
        self.answer(path)
    }

    fn answers(&self) -> MutexGuard<'_, BTreeMap<String, String>> {
        self.answers.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

const PREFIX: &[u8] = b"/.well-known/acme-challenge/";

/// Authorities wait for ten seconds. A store that is well answers within milliseconds.
const LOOKUP_TIME: Duration = Duration::from_secs(2);

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

    #[tokio::test]
    async fn a_token_of_another_edge_is_looked_up_once() {
        let challenges = Challenges::default();
        let path = b"/.well-known/acme-challenge/token";
        assert!(!challenges.may_be_known(path), "this edge is alone");
        let (lookups, mut asked) = mpsc::channel(1);
        challenges.look_up_by(lookups);
        assert!(challenges.may_be_known(path) && !challenges.may_be_known(b"/"));
        let (reply, ()) = tokio::join!(challenges.look_up(path), async {
            let asker = asked.recv().await.unwrap();
            challenges.answer_with("token", Some("token.thumbprint"));
            asker.send(()).unwrap();
        });
        assert_eq!(reply.map(|reply| reply.status), Some(200));
        let (reply, ()) =
            tokio::join!(challenges.look_up(b"/.well-known/acme-challenge/x"), async {
                drop(asked.recv().await);
            });
        assert!(reply.is_none(), "the store is away");
        drop(asked);
        assert!(challenges.look_up(b"/.well-known/acme-challenge/x").await.is_none());
    }
}
