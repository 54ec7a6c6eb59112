//! Secrets in the file. What is wrong with one is told without repeating it.

use loadline_core::fleet::Secret;
use loadline_spanned::{Complaint, Textual};
use schemars::{Schema, json_schema};

/// The key of sticky sessions.
#[derive(Clone, Debug)]
pub(crate) struct SessionKey(pub(crate) Secret);

impl Textual for SessionKey {
    fn expected() -> String {
        format!("a secret of {KEY_LENGTH_MIN} characters or more")
    }

    fn read(text: &str) -> Result<Self, Complaint> {
        if text.len() < KEY_LENGTH_MIN {
            let message = format!("a key of {} characters can be guessed", text.len());
            return Err(Complaint::new(message, KEY_HELP));
        }
        Ok(Self(Secret::new(text.to_owned())))
    }

    fn schema() -> Schema {
        json_schema!({ "type": "string", "title": "a secret", "minLength": KEY_LENGTH_MIN })
    }
}

/// What to do for a key.
pub(crate) const KEY_HELP: &str = "make one: openssl rand -hex 16";

/// As many hexadecimal digits are 64 bits, far beyond guessing one by one over a network.
const KEY_LENGTH_MIN: usize = 16;
