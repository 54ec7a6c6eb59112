//! Basic authentication (RFC 7617): the users of a rule, and the response to all others.
//!
//! Passwords are kept as hashes that are slow to compute. What is computed is said here - which
//! hash, for whom - and done elsewhere. For a name that nobody has a hash is computed as well, so
//! that the time of a response does not tell which names there are.

use alloc::{
    borrow::ToOwned as _, collections::BTreeMap, format, string::String, sync::Arc, vec::Vec,
};
use core::fmt;

use super::{DirectResponse, Template};

/// Who may ask for what a listener or a route has.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BasicAuth {
    /// What is protected, as browsers show it.
    pub realm: String,
    /// The hashes of passwords, by user.
    pub users: BTreeMap<String, PasswordHash>,
    /// Whether servers get the header `Authorization`.
    pub pass_authorization: bool,
}

/// The hash of a password in the modular crypt format, of a kind that is known and not too slow.
#[derive(Clone, PartialEq, Eq)]
pub struct PasswordHash {
    text: Arc<str>,
    scheme: HashScheme,
}

/// How a password was hashed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HashScheme {
    /// `$2y$`, `$2b$` or `$2a$`.
    Bcrypt,
    /// `$5$` or `$6$`.
    ShaCrypt,
}

/// What has to be computed before a user is known.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PasswordCheck {
    /// Hash that the password must match.
    pub hash: PasswordHash,
    /// Whether there is such a user; if not, nothing is right.
    pub is_known: bool,
}

/// Why a text is not the hash of a password.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum PasswordHashError {
    /// MD5, SHA-1 or crypt, of which passwords are guessed in no time.
    #[error("a hash that is quick to guess: use bcrypt (`htpasswd -B`) or `openssl passwd -6`")]
    Weak,
    /// Argon2, yescrypt, scrypt.
    #[error("this kind is not supported: use bcrypt (`htpasswd -B`) or `openssl passwd -6`")]
    Unsupported,
    /// No hash, a password maybe.
    #[error("this is no hash of a password: make one with `htpasswd -nB NAME`")]
    NoHash,
    /// It begins like a hash, and continues wrongly.
    #[error("this hash is damaged: it has another length or other characters")]
    Damaged,
    /// Each request would take seconds.
    #[error("this hash takes seconds to check: use a cost of 4 to 16, or 1000 to 5000000 rounds")]
    Slow,
}

impl BasicAuth {
    /// What is computed for somebody who says to be `user` and shows this password; none where
    /// there are no users at all, or where it is too long to be anybody's.
    #[must_use]
    pub fn check(&self, user: &str, password: &[u8]) -> Option<PasswordCheck> {
        if password.len() > PASSWORD_LENGTH_MAX {
            return None;
        }
        let known = self.users.get(user);
        let hash = known.or_else(|| self.users.values().next())?;
        Some(PasswordCheck { hash: hash.clone(), is_known: known.is_some() })
    }

    /// The response to whoever is not known.
    #[must_use]
    pub fn challenge(&self) -> DirectResponse {
        let quoted = self.realm.replace('\\', "\\\\").replace('"', "\\\"");
        let value = format!("Basic realm=\"{quoted}\", charset=\"UTF-8\"");
        let headers = [("WWW-Authenticate".to_owned(), Template::literal(&value))];
        let body = "Unauthorized\n".to_owned();
        DirectResponse { status: 401, headers: Vec::from(headers), body }
    }
}

impl PasswordHash {
    /// Reads a hash as `htpasswd` and `openssl passwd` write it.
    ///
    /// # Errors
    /// Why it cannot be used.
    pub fn parse(text: &str) -> Result<Self, PasswordHashError> {
        let mut parts = text.split('$');
        let (before, kind) = (parts.next().unwrap_or_default(), parts.next());
        let rest: Vec<&str> = parts.collect();
        let scheme = match (before, kind) {
            ("", Some("2a" | "2b" | "2y")) => bcrypt(&rest).map(|()| HashScheme::Bcrypt)?,
            ("", Some("5")) => sha_crypt(&rest, 43).map(|()| HashScheme::ShaCrypt)?,
            ("", Some("6")) => sha_crypt(&rest, 86).map(|()| HashScheme::ShaCrypt)?,
            ("", Some("apr1" | "1")) => return Err(PasswordHashError::Weak),
            ("", Some(_)) => return Err(PasswordHashError::Unsupported),
            (plain, None) if plain.starts_with("{SHA}") || plain.len() == DES_LENGTH => {
                return Err(PasswordHashError::Weak);
            }
            _ => return Err(PasswordHashError::NoHash),
        };
        Ok(Self { text: text.into(), scheme })
    }

    /// The text, as it was read.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.text
    }

    /// How it was made.
    #[must_use]
    pub const fn scheme(&self) -> HashScheme {
        self.scheme
    }
}

/// Hashes are for nobody to see: whoever has one may guess.
impl fmt::Debug for PasswordHash {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "PasswordHash({:?})", self.scheme)
    }
}

/// The cost, then 22 characters of salt and 31 of the hash.
fn bcrypt(parts: &[&str]) -> Result<(), PasswordHashError> {
    let [cost, text] = parts else { return Err(PasswordHashError::Damaged) };
    if cost.len() != 2 || text.len() != 53 || !text.bytes().all(is_of_hash) {
        return Err(PasswordHashError::Damaged);
    }
    let cost = cost.parse::<u32>().map_err(|_| PasswordHashError::Damaged)?;
    in_range(cost, 4, COST_MAX)
}

/// Rounds that may be left out, the salt, the hash of this length.
fn sha_crypt(parts: &[&str], length: usize) -> Result<(), PasswordHashError> {
    let (rounds, salt, hash) = match parts {
        [salt, hash] => (None, salt, hash),
        [rounds, salt, hash] => {
            let rounds = rounds.strip_prefix("rounds=").and_then(|it| it.parse::<u32>().ok());
            (Some(rounds.ok_or(PasswordHashError::Damaged)?), salt, hash)
        }
        _ => return Err(PasswordHashError::Damaged),
    };
    let fits = hash.len() == length && hash.bytes().all(is_of_hash);
    if !fits || salt.is_empty() || salt.len() > 16 || !salt.bytes().all(is_of_hash) {
        return Err(PasswordHashError::Damaged);
    }
    rounds.map_or(Ok(()), |rounds| in_range(rounds, 1_000, ROUNDS_MAX))
}

fn in_range(cost: u32, min: u32, max: u32) -> Result<(), PasswordHashError> {
    if cost > max {
        return Err(PasswordHashError::Slow);
    }
    if cost < min { Err(PasswordHashError::Damaged) } else { Ok(()) }
}

const fn is_of_hash(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || matches!(byte, b'.' | b'/')
}

/// Four seconds on a machine of 2026; `htpasswd` takes 5, people mostly 10 to 12.
const COST_MAX: u32 = 16;

/// Some seconds; the default is 5,000.
const ROUNDS_MAX: u32 = 5_000_000;

/// As long as `crypt` takes them (`CRYPT_MAX_PASSPHRASE_SIZE` of libxcrypt). The time of SHA-crypt
/// grows with the square of the length: 11,000 bytes take half a second.
const PASSWORD_LENGTH_MAX: usize = 512;

/// Length of the old DES hashes of crypt.
const DES_LENGTH: usize = 13;

#[cfg(test)]
mod tests {
    use super::*;

    const BCRYPT: &str = "$2y$05$c4WoMPo3SXsafkva.HHa6uXQZWr7oboPiC2bT/r7q1BB8I2s0BRqC";
    const SHA_256: &str = "$5$saltstring$5B8vYYiY.CVt1RlTTf8KbXBH3hsxY/GNooZaBBGWEc5";

    fn auth(users: &[(&str, &str)]) -> BasicAuth {
        let hash = |text| PasswordHash::parse(text).expect("a hash");
        let users = users.iter().map(|(name, text)| ((*name).to_owned(), hash(text))).collect();
        BasicAuth { realm: "the \"staff\"".to_owned(), users, pass_authorization: false }
    }

    #[test]
    fn hashes_are_known_by_what_they_begin_with_and_damaged_ones_by_their_length() {
        use PasswordHashError::{Damaged, NoHash, Slow, Unsupported, Weak};
        let long = |begin: &str, length| format!("{begin}{}", "a".repeat(length));
        for (text, expected) in [
            (BCRYPT.to_owned(), Ok(HashScheme::Bcrypt)),
            (BCRYPT.replace("2y", "2b"), Ok(HashScheme::Bcrypt)),
            (SHA_256.to_owned(), Ok(HashScheme::ShaCrypt)),
            (long("$6$salt$", 86), Ok(HashScheme::ShaCrypt)),
            (long("$6$rounds=656000$salt$", 86), Ok(HashScheme::ShaCrypt)),
            (long("$6$rounds=5000001$salt$", 86), Err(Slow)),
            (long("$6$rounds=10$salt$", 86), Err(Damaged)),
            (long("$6$a-b$", 86), Err(Damaged)),
            (long("$6$salt$", 85), Err(Damaged)),
            (BCRYPT.replace("$05$", "$17$"), Err(Slow)),
            (BCRYPT.replace("$05$", "$5$"), Err(Damaged)),
            (BCRYPT[..59].to_owned(), Err(Damaged)),
            ("$apr1$r31.....$HqJZimcKQFAMYayBlzkrA/".to_owned(), Err(Weak)),
            ("{SHA}VBPuJHI7uixaa6LQGWx4s+5GKNE=".to_owned(), Err(Weak)),
            ("rqXexS6ZhobKA".to_owned(), Err(Weak)),
            ("$argon2id$v=19$m=19456,t=2,p=1$a$b".to_owned(), Err(Unsupported)),
            ("secret".to_owned(), Err(NoHash)),
            (String::new(), Err(NoHash)),
        ] {
            assert_eq!(PasswordHash::parse(&text).map(|it| it.scheme()), expected, "{text}");
        }
    }

    #[test]
    fn a_name_that_nobody_has_costs_a_hash_as_well_and_is_never_right() {
        let auth = auth(&[("alice", BCRYPT), ("bob", SHA_256)]);
        let check = |user| auth.check(user, b"x").expect("users");
        assert!(check("bob").is_known && check("bob").hash.as_str() == SHA_256);
        assert!(!check("eve").is_known && check("eve").hash.as_str() == BCRYPT);
        assert_eq!(self::auth(&[]).check("eve", b"x"), None);
    }

    #[test]
    fn a_long_password_is_wrong_at_once_since_its_check_would_hold_up_all_others() {
        let auth = auth(&[("bob", SHA_256)]);
        for user in ["bob", "eve"] {
            assert!(auth.check(user, &[b'x'; 512]).is_some());
            assert_eq!(auth.check(user, &[b'x'; 513]), None);
        }
    }

    #[test]
    fn a_challenge_names_the_realm_and_no_text_shows_a_hash() {
        let auth = auth(&[("alice", BCRYPT)]);
        let response = auth.challenge();
        assert_eq!(response.status, 401);
        let value = format!("{}", response.headers[0].1);
        assert_eq!(value, "Basic realm=\"the \\\"staff\\\"\", charset=\"UTF-8\"");
        assert!(!format!("{auth:?}").contains(&BCRYPT[10..]));
    }
}
