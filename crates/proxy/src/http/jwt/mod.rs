//! JSON Web Tokens (RFC 7519): the token of a request, taken apart.

mod fetched;
mod signature;
mod tokens;

use std::time::{SystemTime, UNIX_EPOCH};

use base64::prelude::{BASE64_URL_SAFE_NO_PAD, Engine as _};
use loadline_core::jwt::{Algorithm, Claims, Jwt, Refusal, Signed, TOKEN_MAX, TokenPlace};
use serde_json::{Map, Value};

pub(crate) use fetched::{Away, FetchedKeys};
pub(crate) use tokens::{Pending, Tokens, Verdict};

/// A token that nobody has verified yet.
#[derive(Debug)]
struct Token<'a> {
    signed: Signed,
    claims: Claims,
    /// The signed part.
    input: &'a [u8],
    signature: Vec<u8>,
}

/// The token among the fields of a request.
///
/// # Errors
/// [`Refusal::Missing`] or [`Refusal::Several`].
pub(crate) fn shown<'a>(
    jwt: &Jwt,
    fields: impl Iterator<Item = (&'a [u8], &'a [u8])>,
) -> Result<&'a [u8], Refusal> {
    let (field, cookie) = match &jwt.place {
        TokenPlace::Authorization => ("authorization", None),
        TokenPlace::Header(name) => (name.as_str(), None),
        TokenPlace::Cookie(name) => ("cookie", Some(name.as_bytes())),
    };
    let named = fields.filter(|it| it.0.eq_ignore_ascii_case(field.as_bytes()));
    let parts = named.flat_map(|it| it.1.split(|byte| cookie.is_some() && *byte == b';'));
    let mut values = parts.filter_map(|part| match cookie {
        None => Some(part),
        Some(name) => part.trim_ascii().strip_prefix(name)?.strip_prefix(b"="),
    });
    let value = match (values.next(), values.next()) {
        (Some(value), None) => value.trim_ascii(),
        (None, _) => return Err(Refusal::Missing),
        (Some(_), Some(_)) => return Err(Refusal::Several),
    };
    match (bearer(value), &jwt.place) {
        (Some(token), TokenPlace::Authorization | TokenPlace::Header(_)) => Ok(token),
        // A password, say.
        (None, TokenPlace::Authorization) => Err(Refusal::Missing),
        _ => Ok(value),
    }
}

/// What is behind the word `Bearer`.
fn bearer(value: &[u8]) -> Option<&[u8]> {
    let (scheme, rest) = value.split_at_checked(6)?;
    let is_one = scheme.eq_ignore_ascii_case(b"bearer") && rest.first() == Some(&b' ');
    is_one.then(|| rest.trim_ascii())
}

impl<'a> Token<'a> {
    /// Takes a token apart.
    fn read(text: &'a [u8]) -> Result<Self, Refusal> {
        if text.len() > TOKEN_MAX {
            return Err(Refusal::TooLong);
        }
        let mut dots = text.iter().enumerate().filter(|it| *it.1 == b'.').map(|it| it.0);
        let (Some(first), Some(second), None) = (dots.next(), dots.next(), dots.next()) else {
            return Err(Refusal::Malformed);
        };
        let signed = signed(&object(&text[..first])?)?;
        let claims = claims(&object(&text[first + 1..second])?)?;
        let signature = decoded(&text[second + 1..])?;
        Ok(Self { signed, claims, input: &text[..second], signature })
    }
}

fn decoded(part: &[u8]) -> Result<Vec<u8>, Refusal> {
    BASE64_URL_SAFE_NO_PAD.decode(part).map_err(|_| Refusal::Malformed)
}

fn object(part: &[u8]) -> Result<Map<String, Value>, Refusal> {
    serde_json::from_slice(&decoded(part)?).map_err(|_| Refusal::Malformed)
}

fn signed(header: &Map<String, Value>) -> Result<Signed, Refusal> {
    if header.contains_key("crit") {
        return Err(Refusal::Critical);
    }
    let text = |name: &str| match header.get(name) {
        None => Ok(None),
        Some(Value::String(text)) => Ok(Some(text)),
        Some(_) => Err(Refusal::Malformed),
    };
    let algorithm = text("alg")?.ok_or(Refusal::Malformed)?;
    let algorithm = Algorithm::of(algorithm).ok_or(Refusal::Algorithm)?;
    Ok(Signed { algorithm, key_id: text("kid")?.cloned() })
}

fn claims(payload: &Map<String, Value>) -> Result<Claims, Refusal> {
    let date = |name: &str| match payload.get(name) {
        None => Ok(None),
        Some(value) => seconds(value).map(Some).ok_or(Refusal::Malformed),
    };
    let (exp, nbf, iat) = (date("exp")?, date("nbf")?, date("iat")?);
    let mut all = Vec::with_capacity(payload.len());
    flatten("", payload, NESTED_MAX, &mut all);
    Ok(Claims { exp, nbf, iat, all })
}

/// A NumericDate, which may have a fraction.
fn seconds(value: &Value) -> Option<i64> {
    #[expect(clippy::cast_possible_truncation, reason = "what is too large becomes the largest")]
    let of_fraction = || value.as_f64().map(|seconds| seconds.floor() as i64);
    value.as_i64().or_else(of_fraction)
}

/// The claims of an object, whose own names come after `before`.
fn flatten(
    before: &str,
    object: &Map<String, Value>,
    depth: usize,
    all: &mut Vec<(String, Vec<String>)>,
) {
    for (name, value) in object {
        let name = format!("{before}{name}");
        match value {
            Value::Object(inner) if depth > 0 => {
                flatten(&format!("{name}."), inner, depth - 1, all);
            }
            Value::Array(items) => all.push((name, items.iter().filter_map(text).collect())),
            _ => all.extend(text(value).map(|text| (name, vec![text]))),
        }
    }
}

fn text(value: &Value) -> Option<String> {
    match value {
        Value::String(text) => Some(text.clone()),
        Value::Number(number) => Some(number.to_string()),
        Value::Bool(is_true) => Some(is_true.to_string()),
        Value::Null | Value::Array(_) | Value::Object(_) => None,
    }
}

/// Seconds since 1970.
fn now_s() -> i64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    i64::try_from(since.as_secs()).unwrap_or(i64::MAX)
}

/// Objects in objects whose claims are known.
const NESTED_MAX: usize = 4;

#[cfg(test)]
mod tests;
