//! Tokens that a worker has verified lately: a client sends the same one with each request.
//!
//! What is remembered is a hash of the token with what was asked of it and the keys that there
//! were, so that another configuration or another set of keys is another question. A token that is
//! refused is not remembered: whoever has none that is right could push out those who have.

use std::{
    cell::RefCell,
    collections::{HashMap, VecDeque},
    rc::Rc,
    sync::{Arc, Weak},
};

use aws_lc_rs::digest::{SHA256, SHA256_OUTPUT_LEN, digest};
use loadline_core::jwt::{Claims, Jwt, KeySet, KeySource, KeyUrl, Refusal};

use super::{Away, FetchedKeys, Token, fetched::KeysOfUrl, now_s, signature};

/// The hash of a token, and where what is asked of it is.
type Question = ([u8; SHA256_OUTPUT_LEN], *const Jwt);

/// Tokens that were right, the latest ones.
#[derive(Debug, Default)]
pub(crate) struct Tokens {
    known: HashMap<Question, Known>,
    order: VecDeque<Question>,
    /// What the claims take, in bytes.
    size: usize,
    /// Where the keys of URLs are, so that no other worker is in the way.
    urls: HashMap<KeyUrl, Arc<KeysOfUrl>>,
}

/// What is known of a token at once.
#[derive(Debug)]
pub(crate) enum Verdict {
    /// The token is valid.
    Right(Rc<Claims>),
    /// Its key may have to be fetched; until then its claims are not verified.
    Pending(Pending, Rc<Claims>),
}

/// A token whose key may be fetched.
#[derive(Debug)]
pub(crate) struct Pending {
    pub(crate) jwt: Arc<Jwt>,
    keys: Arc<KeysOfUrl>,
    text: Vec<u8>,
}

/// A token that was right.
#[derive(Debug)]
struct Known {
    /// Keeps the address of the configuration from being reused.
    _jwt: Weak<Jwt>,
    keys: Weak<KeySet>,
    /// In seconds since 1970.
    until_s: i64,
    claims: Rc<Claims>,
}

impl Pending {
    /// Waits until the token can be verified.
    ///
    /// # Errors
    /// [`Away`] if its key cannot be fetched.
    pub(crate) async fn verify(
        &self,
        tokens: &RefCell<Tokens>,
        all: &FetchedKeys,
    ) -> Result<Result<Rc<Claims>, Refusal>, Away> {
        let Self { jwt, keys, text } = self;
        keys.verify(all, |keys| tokens.borrow_mut().check(text, (jwt, keys), now_s())).await
    }
}

impl Tokens {
    /// What is known of a token.
    ///
    /// # Errors
    /// Why it does not let its bearer in.
    pub(crate) fn ask(
        &mut self,
        text: &[u8],
        jwt: &Arc<Jwt>,
        fetched: &FetchedKeys,
    ) -> Result<Verdict, Refusal> {
        let url = match &jwt.keys {
            KeySource::File { keys, .. } => {
                return self.check(text, (jwt, keys), now_s()).map(Verdict::Right);
            }
            KeySource::Url(url) => url,
        };
        let keys = self.of_url(url, fetched);
        match keys.keys().map(|keys| self.check(text, (jwt, &keys), now_s())) {
            Some(Ok(claims)) => Ok(Verdict::Right(claims)),
            None | Some(Err(Refusal::UnknownKey)) => {
                let claims = Rc::new(Token::read(text)?.claims);
                let pending = Pending { jwt: jwt.clone(), keys, text: text.to_vec() };
                Ok(Verdict::Pending(pending, claims))
            }
            Some(Err(refusal)) => Err(refusal),
        }
    }

    fn of_url(&mut self, url: &KeyUrl, fetched: &FetchedKeys) -> Arc<KeysOfUrl> {
        if let Some(known) = self.urls.get(url) {
            return known.clone();
        }
        self.urls.entry(url.clone()).or_insert_with(|| fetched.of(url)).clone()
    }

    /// What a token says, if it lets its bearer in at `now_s`, in seconds since 1970.
    ///
    /// # Errors
    /// Why it does not.
    pub(super) fn check(
        &mut self,
        text: &[u8],
        (jwt, keys): (&Arc<Jwt>, &Arc<KeySet>),
        now_s: i64,
    ) -> Result<Rc<Claims>, Refusal> {
        let mut question = ([0; SHA256_OUTPUT_LEN], Arc::as_ptr(jwt));
        question.0.copy_from_slice(digest(&SHA256, text).as_ref());
        if let Some(known) = self.known.get(&question)
            && known.keys.as_ptr() == Arc::as_ptr(keys)
            && now_s < known.until_s
        {
            return Ok(known.claims.clone());
        }
        let token = verified(text, jwt, keys)?;
        jwt.judge(&token.claims, now_s)?;
        let claims = Rc::new(token.claims);
        let known = Known {
            _jwt: Arc::downgrade(jwt),
            keys: Arc::downgrade(keys),
            until_s: jwt.right_until_s(&claims),
            claims: claims.clone(),
        };
        self.remember(question, known);
        Ok(claims)
    }

    fn remember(&mut self, question: Question, known: Known) {
        self.size += known.claims.size();
        match self.known.insert(question, known) {
            Some(before) => self.size -= before.claims.size(),
            None => self.order.push_back(question),
        }
        while self.order.len() > TOKENS_MAX || self.size > SIZE_MAX {
            let Some(oldest) = self.order.pop_front() else { return };
            self.size -= self.known.remove(&oldest).map_or(0, |it| it.claims.size());
        }
    }
}

/// A token whose signature is right.
fn verified<'a>(text: &'a [u8], jwt: &Jwt, keys: &KeySet) -> Result<Token<'a>, Refusal> {
    let token = Token::read(text)?;
    let Token { signed, input, signature, .. } = &token;
    if !jwt.algorithms.contains(&signed.algorithm) {
        return Err(Refusal::Algorithm);
    }
    let is_by = |key| signature::is_by(key, signed.algorithm, input, signature);
    if keys.fitting(signed).any(is_by) {
        return Ok(token);
    }
    Err(if keys.lacks(signed) { Refusal::UnknownKey } else { Refusal::Signature })
}

/// Tokens that are remembered, of about 200 bytes each beside their claims.
const TOKENS_MAX: usize = 4_096;

/// What their claims may take, in bytes.
const SIZE_MAX: usize = 4 << 20;

#[cfg(test)]
mod tests {
    use loadline_core::jwt::{Key, Material};

    use super::*;
    use crate::http::jwt::tests::{hs256, jwt, secret};

    #[test]
    fn a_token_is_verified_once_for_a_configuration_and_a_set_of_keys_and_until_its_end() {
        let (jwt, keys) = (Arc::new(jwt()), Arc::new(KeySet::new(vec![secret()])));
        let mut tokens = Tokens::default();
        let text = hs256("{\"exp\":1000}");
        assert!(tokens.check(&text, (&jwt, &keys), 500).is_ok());
        // What was right stays so: nobody looks at the signature again.
        let question = *tokens.order.front().unwrap();
        let marked = Rc::new(Claims { iat: Some(7), ..Claims::default() });
        tokens.known.get_mut(&question).unwrap().claims = marked;
        let again = |tokens: &mut Tokens, keys: &Arc<KeySet>, jwt: &Arc<Jwt>, now_s| {
            tokens.check(&text, (jwt, keys), now_s).map(|claims| claims.iat)
        };
        assert_eq!(again(&mut tokens, &keys, &jwt, 1_059), Ok(Some(7)));
        assert_eq!(again(&mut tokens, &keys, &jwt, 1_060), Err(Refusal::Expired));
        let others = Arc::new(KeySet::new(vec![Key {
            material: Material::Secret(vec![7; 32]),
            ..secret()
        }]));
        assert_eq!(again(&mut tokens, &others, &jwt, 500), Err(Refusal::Signature));
        let alike = Arc::new(KeySet::clone(&keys));
        assert_eq!(again(&mut tokens, &alike, &jwt, 500), Ok(None));
        let stricter = Arc::new(Jwt { issuer: Some("x".to_owned()), ..Jwt::clone(&jwt) });
        assert_eq!(again(&mut tokens, &keys, &stricter, 500), Err(Refusal::Issuer));
    }

    #[test]
    fn what_is_remembered_has_an_end_in_number_and_in_size() {
        let (jwt, keys) = (Arc::new(jwt()), Arc::new(KeySet::new(vec![secret()])));
        let mut tokens = Tokens::default();
        let ask = |tokens: &mut Tokens, n: usize, padding: &str| {
            let text = hs256(&format!("{{\"exp\":1000,\"n\":{n},\"p\":\"{padding}\"}}"));
            assert!(tokens.check(&text, (&jwt, &keys), 0).is_ok());
        };
        (0..TOKENS_MAX + 5).for_each(|n| ask(&mut tokens, n, ""));
        assert_eq!((tokens.known.len(), tokens.order.len()), (TOKENS_MAX, TOKENS_MAX));
        let padding = "p".repeat(8_000);
        (0..600).for_each(|n| ask(&mut tokens, n, &padding));
        let summed: usize = tokens.known.values().map(|it| it.claims.size()).sum();
        assert!(tokens.size == summed && summed <= SIZE_MAX && tokens.known.len() > 400);
    }
}
