//! The token that a leader and its agents share, and the proofs that they know it.
//!
//! The token itself is never sent: each side answers the other's random number with an HMAC of both
//! numbers, and every message after that carries an HMAC under a key that is made of them, with its
//! direction and its number. So nobody without the token starts load or changes a message, and a
//! recorded conversation is worth nothing. What is sent can be read on the way.

use std::{fmt, fs, io, path::Path};

use aws_lc_rs::{hmac, rand};

/// The secret shared by a leader and its agents.
pub struct Token(hmac::Key);

/// Why a file has no token.
#[derive(Debug, thiserror::Error)]
pub enum TokenError {
    /// It cannot be read.
    #[error("cannot read the token in `{path}`")]
    Read {
        /// Path of the token file.
        path: String,
        /// What the system said.
        source: io::Error,
    },
    /// Its first line can be guessed.
    #[error(
        "the first line of `{path}` is no token: it needs {LENGTH_MIN} characters or more, as \
         `openssl rand -hex 16` writes them"
    )]
    Short {
        /// Path of the token file.
        path: String,
    },
}

impl Token {
    /// The first line of a file.
    ///
    /// # Errors
    /// [`TokenError`] where there is none, or one that can be guessed.
    pub fn read(path: &Path) -> Result<Self, TokenError> {
        let name = || path.display().to_string();
        let text =
            fs::read_to_string(path).map_err(|source| TokenError::Read { path: name(), source })?;
        let token = text.lines().next().unwrap_or_default().trim();
        if token.len() < LENGTH_MIN {
            return Err(TokenError::Short { path: name() });
        }
        Ok(Self(hmac::Key::new(hmac::HMAC_SHA256, token.as_bytes())))
    }
}

impl fmt::Debug for Token {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Token")
    }
}

/// The side that proves the token.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Side {
    Leader,
    Agent,
}

impl Side {
    const fn label(self) -> &'static [u8] {
        match self {
            Self::Leader => b"leader",
            Self::Agent => b"agent",
        }
    }

    pub(super) const fn other(self) -> Self {
        match self {
            Self::Leader => Self::Agent,
            Self::Agent => Self::Leader,
        }
    }
}

/// The random numbers of both sides.
#[derive(Clone, Copy)]
pub(super) struct Nonces {
    pub(super) leader: [u8; 32],
    pub(super) agent: [u8; 32],
}

/// A number that was never used.
///
/// # Errors
/// Where the system has no random numbers.
pub(super) fn nonce() -> io::Result<[u8; 32]> {
    let mut nonce = [0; 32];
    rand::fill(&mut nonce).map_err(|_| io::Error::other("the system has no random numbers"))?;
    Ok(nonce)
}

impl Token {
    /// Proof of knowing the token, over both nonces.
    pub(super) fn proof(&self, side: Side, nonces: &Nonces) -> [u8; 32] {
        bytes(tag(&self.0, [side.label(), &nonces.leader, &nonces.agent]))
    }

    /// Whether this is the proof; the time it takes tells nothing.
    pub(super) fn is_proven_by(&self, side: Side, nonces: &Nonces, proof: [u8; 32]) -> bool {
        let message = [side.label(), &nonces.leader, &nonces.agent].concat();
        hmac::verify(&self.0, &message, &proof).is_ok()
    }

    /// The key of what one side says in this conversation.
    pub(super) fn seal(&self, side: Side, nonces: &Nonces) -> Seal {
        let key = tag(&self.0, [b"session".as_slice(), &nonces.leader, &nonces.agent]);
        Seal { key: hmac::Key::new(hmac::HMAC_SHA256, key.as_ref()), side, number: 0 }
    }
}

/// Seals the messages of one side, one after another.
pub(super) struct Seal {
    key: hmac::Key,
    side: Side,
    number: u64,
}

impl Seal {
    /// The seal of the next message.
    pub(super) fn next(&mut self, message: &[u8]) -> [u8; 32] {
        self.number += 1;
        bytes(tag(&self.key, [self.side.label(), &self.number.to_be_bytes(), message]))
    }

    /// Whether this is the seal of the next message.
    pub(super) fn holds(&mut self, message: &[u8], seal: [u8; 32]) -> bool {
        self.number += 1;
        let sealed = [self.side.label(), &self.number.to_be_bytes(), message].concat();
        hmac::verify(&self.key, &sealed, &seal).is_ok()
    }
}

fn tag(key: &hmac::Key, parts: [&[u8]; 3]) -> hmac::Tag {
    let mut context = hmac::Context::with_key(key);
    for part in parts {
        context.update(part);
    }
    context.sign()
}

/// SHA-256 has 32 bytes.
fn bytes(tag: hmac::Tag) -> [u8; 32] {
    let mut bytes = [0; 32];
    bytes.copy_from_slice(tag.as_ref());
    bytes
}

/// 64 bits in hexadecimal: more than can be tried over a network.
const LENGTH_MIN: usize = 16;

#[cfg(test)]
mod tests {
    use super::*;

    fn token(text: &str) -> Result<Token, TokenError> {
        let file = tempfile::NamedTempFile::new().unwrap();
        fs::write(file.path(), text).unwrap();
        Token::read(file.path())
    }

    #[test]
    fn a_token_that_can_be_guessed_is_refused() {
        for text in ["", "secret\n0123456789abcdef\n", "   0123456789abcde \n"] {
            assert!(matches!(token(text), Err(TokenError::Short { .. })), "{text:?}");
        }
        let missing = Token::read(Path::new("/nonexistent/token")).unwrap_err();
        assert!(missing.to_string().contains("/nonexistent/token"));
        assert_eq!(format!("{:?}", token("0123456789abcdef").unwrap()), "Token");
    }

    #[test]
    fn a_proof_is_of_one_token_one_side_and_one_conversation() {
        let [one, other] = ["0123456789abcdef", "fedcba9876543210"].map(|t| token(t).unwrap());
        let nonces = Nonces { leader: [1; 32], agent: [2; 32] };
        let proof = one.proof(Side::Leader, &nonces);
        assert!(one.is_proven_by(Side::Leader, &nonces, proof));
        assert!(!one.is_proven_by(Side::Agent, &nonces, proof));
        assert!(!other.is_proven_by(Side::Leader, &nonces, proof));
        let later = Nonces { agent: [3; 32], ..nonces };
        assert!(!one.is_proven_by(Side::Leader, &later, proof));
    }

    #[test]
    fn a_message_that_was_changed_repeated_or_sent_back_has_no_seal() {
        let token = token("0123456789abcdef").unwrap();
        let nonces = Nonces { leader: [1; 32], agent: [2; 32] };
        let (mut writes, mut reads) =
            (token.seal(Side::Leader, &nonces), token.seal(Side::Leader, &nonces));
        let seal = writes.next(b"begin");
        assert!(reads.holds(b"begin", seal));
        assert!(!reads.holds(b"begin", seal), "said once more");
        let seal = token.seal(Side::Leader, &nonces).next(b"stop");
        assert!(!token.seal(Side::Leader, &nonces).holds(b"step", seal));
        assert!(!token.seal(Side::Agent, &nonces).holds(b"stop", seal));
    }
}
