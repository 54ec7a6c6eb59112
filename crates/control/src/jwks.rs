//! Keys that verify tokens: JWK Sets (RFC 7517), in files and where their issuers publish them.
//!
//! ```text
//! URLs of the fleet --due, or a key is wanted--> fetch, 5 s at most --> [`Front`]: in force now
//!        ^                                         |
//!     reload                                failed: those before stay in force
//! ```
//! When a URL is asked is decided by [`loadline_core::jwt::Refresh`]. None of it carries traffic.
//!
//! A key that verifies nothing here is passed over, as section 5 of the RFC wants it. A set without
//! any other is an error, which says why of each of them; a URL whose set is empty has withdrawn
//! its keys.

mod agent;
mod view;

use std::{fs, path::Path, pin::Pin, sync::Arc};

use base64::prelude::{BASE64_URL_SAFE_NO_PAD, Engine as _};
use loadline_core::jwt::{Algorithm, Curve, KEYS_MAX, Key, KeySet, KeyUrl, Material, Unusable};
use serde_json::{Map, Value};

use crate::admin::LiveConfiguration;
use agent::Agent;
pub use view::View;

/// What verifies tokens with the keys of URLs.
pub trait Front: Send + Sync + 'static {
    /// How many have asked so far for a key of this URL that is not known.
    fn asked(&self, url: &KeyUrl) -> u64;

    /// Verifies with this from now on.
    fn tell(&self, url: &KeyUrl, known: Known);

    /// Waits until somebody asks who has not been waited for yet.
    fn wait_for_asks(&self) -> Pin<Box<dyn Future<Output = ()> + Send + '_>>;
}

/// What is known of the keys of a URL.
#[derive(Clone, Debug)]
pub struct Known {
    /// The latest ones, if there ever were any.
    pub keys: Option<Arc<KeySet>>,
    /// Whether the URL did not give them when it was asked last.
    pub is_away: bool,
    /// How many of those who asked for a key have their answer with this.
    pub answered: u64,
}

/// Asks the URLs that `site` names for their keys. What asks ends with the last of them, and begins
/// anew after a reload that has one. `view` shows what comes of it.
pub async fn follow(site: Arc<LiveConfiguration>, front: Arc<dyn Front>, view: View) {
    let mut reloads = site.reloads();
    loop {
        Agent::new(front.clone(), view.clone()).run(&site, &mut reloads).await;
        // The sender is part of the site.
        if reloads.changed().await.is_err() {
            return;
        }
    }
}

/// Whether a set may have secrets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Secrets {
    Allowed,
    /// Whoever can fetch them could sign.
    Refused,
}

/// The keys in a file, which may be secrets.
///
/// # Errors
/// Why there is none, for people.
pub(crate) fn read(path: &Path) -> Result<KeySet, String> {
    let text = fs::read(path).map_err(|error| error.to_string())?;
    parse(&text, Secrets::Allowed)
}

/// The keys of a set, or the only one.
fn parse(text: &[u8], secrets: Secrets) -> Result<KeySet, String> {
    if text.trim_ascii_start().starts_with(b"-----BEGIN") {
        return Err("this is PEM, and not JSON".to_owned());
    }
    let read: Value = serde_json::from_slice(text).map_err(|error| format!("no JSON: {error}"))?;
    let list = match &read {
        Value::Object(one) if one.contains_key("kty") => std::slice::from_ref(&read),
        _ => read["keys"].as_array().ok_or("neither `keys` nor `kty` is in it")?.as_slice(),
    };
    // An issuer may have none any more; a file that has none is a mistake.
    if list.is_empty() && secrets == Secrets::Refused {
        return Ok(KeySet::default());
    }
    if list.len() > KEYS_MAX {
        return Err(format!("{} keys, of which a token would be tried with each", list.len()));
    }
    let (mut keys, mut faults) = (Vec::new(), Vec::new());
    for (number, given) in (1..).zip(list) {
        match key(given, secrets) {
            Ok(key) => keys.push(key),
            Err(why) => faults.push(format!("key {number}: {why}")),
        }
    }
    if keys.is_empty() {
        faults.insert(0, "no key that verifies tokens".to_owned());
        return Err(faults.join("; "));
    }
    Ok(KeySet::new(keys))
}

fn key(given: &Value, secrets: Secrets) -> Result<Key, Unusable> {
    let given = given.as_object().ok_or(Unusable::Kind)?;
    let text = |name: &str| given.get(name).and_then(Value::as_str);
    let may_verify = match given.get("key_ops") {
        Some(operations) => {
            operations.as_array().is_some_and(|all| all.iter().any(|it| it == "verify"))
        }
        None => true,
    };
    if !may_verify || text("use").is_some_and(|it| it != "sig") {
        return Err(Unusable::Use);
    }
    let algorithm = match given.get("alg") {
        Some(name) => {
            let algorithm = name.as_str().and_then(Algorithm::of);
            Some(algorithm.ok_or(Unusable::Algorithm)?)
        }
        None => None,
    };
    if text("kty") == Some("oct") && secrets == Secrets::Refused {
        return Err(Unusable::Published);
    }
    let id = text("kid").map(str::to_owned);
    let key = Key { id, algorithm, material: material(given)? };
    let fits = Algorithm::ALL.into_iter().any(|algorithm| key.fits(algorithm));
    fits.then_some(key).ok_or(Unusable::Algorithm)
}

fn material(given: &Map<String, Value>) -> Result<Material, Unusable> {
    let text = |name: &str| given.get(name).and_then(Value::as_str);
    let bytes = |name: &'static str| {
        let bytes = text(name).and_then(|it| BASE64_URL_SAFE_NO_PAD.decode(it).ok());
        bytes.filter(|bytes| !bytes.is_empty()).ok_or(Unusable::Damaged(name))
    };
    match (text("kty"), text("crv")) {
        (Some("RSA"), _) => rsa(&bytes("n")?, &bytes("e")?),
        (Some("EC"), Some("P-256")) => ec(Curve::P256, 32, [bytes("x")?, bytes("y")?]),
        (Some("EC"), Some("P-384")) => ec(Curve::P384, 48, [bytes("x")?, bytes("y")?]),
        (Some("EC"), Some("P-521")) => ec(Curve::P521, 66, [bytes("x")?, bytes("y")?]),
        (Some("OKP"), Some("Ed25519")) => {
            let key = bytes("x")?;
            let fits = key.len() == 32;
            fits.then_some(Material::Ed25519(key)).ok_or(Unusable::Damaged("x"))
        }
        (Some("oct"), _) => {
            let secret = bytes("k")?;
            let length = secret.len();
            (length >= 32).then_some(Material::Secret(secret)).ok_or(Unusable::Short(length))
        }
        _ => Err(Unusable::Kind),
    }
}

fn rsa(n: &[u8], e: &[u8]) -> Result<Material, Unusable> {
    let number = |bytes: &[u8], name: &'static str| {
        let start = bytes.iter().position(|byte| *byte != 0);
        start.map(|start| bytes[start..].to_vec()).ok_or(Unusable::Damaged(name))
    };
    let (n, e) = (number(n, "n")?, number(e, "e")?);
    let bits = n.len() * 8 - n[0].leading_zeros() as usize;
    let fits = (2_048..=8_192).contains(&bits);
    fits.then_some(Material::Rsa { n, e }).ok_or(Unusable::Length(bits))
}

fn ec(curve: Curve, length: usize, [x, y]: [Vec<u8>; 2]) -> Result<Material, Unusable> {
    for (coordinate, name) in [(&x, "x"), (&y, "y")] {
        if coordinate.len() != length {
            return Err(Unusable::Damaged(name));
        }
    }
    Ok(Material::Ec { curve, point: [&[4], &*x, &*y].concat() })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Of RFC 7515, appendix A.3.
    const EC: &str = r#""kty": "EC", "crv": "P-256",
        "x": "f83OJ3D2xF1Bg8vub9tLe1gHMzV76e8Tus9uPHvRVEU",
        "y": "x_FEzRu9m36HLN_tue659LNpXW6pCyStikYjKIWI5a0""#;

    fn parse(text: &[u8]) -> Result<KeySet, String> {
        super::parse(text, Secrets::Allowed)
    }

    fn one(members: &str) -> Result<KeySet, String> {
        parse(format!("{{ \"keys\": [{{ {members} }}] }}").as_bytes())
    }

    #[test]
    fn keys_that_verify_nothing_are_passed_over_and_one_alone_needs_no_set() {
        let set = format!(
            "{{ \"keys\": [{{ {EC}, \"use\": \"enc\" }}, {{ \"kty\": \"new\" }}, {{ {EC}, \
             \"kid\": \"a\", \"use\": \"sig\", \"key_ops\": [\"verify\"], \"alg\": \"ES256\" }}] }}"
        );
        let set = parse(set.as_bytes()).unwrap();
        let [key] = set.keys() else { panic!("{set:?}") };
        assert_eq!((key.id.as_deref(), key.algorithm), (Some("a"), Some(Algorithm::Es256)));
        assert_eq!(parse(format!("{{ {EC} }}").as_bytes()).unwrap().keys().len(), 1);
    }

    #[test]
    fn a_set_without_a_key_that_verifies_says_why_and_shows_no_secret() {
        let short = "ab".repeat(20);
        for (members, why) in [
            (format!("{EC}, \"use\": \"enc\""), "not for signatures"),
            (format!("{EC}, \"key_ops\": [\"sign\"]"), "not for signatures"),
            (format!("{EC}, \"alg\": \"RS256\""), "not for this kind of key"),
            (format!("{EC}, \"alg\": \"none\""), "`alg` is not known"),
            (format!("{EC}, \"alg\": 256"), "`alg` is not known"),
            (EC.replace("f83O", "f8"), "`x` is missing or damaged"),
            (EC.replace("P-256", "P-384"), "`x` is missing or damaged"),
            (EC.replace("P-256", "secp256k1"), "is none of"),
            (EC.replace("\"EC\"", "\"RSA\""), "`n` is missing or damaged"),
            ("\"kty\": \"RSA\", \"n\": \"AQAB\", \"e\": \"AQAB\"".to_owned(), "RSA of 17 bits"),
            (format!("\"kty\": \"oct\", \"k\": \"{short}\""), "30 bytes can be guessed"),
            ("\"kty\": \"oct\", \"k\": \"a+b=\"".to_owned(), "`k` is missing or damaged"),
        ] {
            let told = one(&members).unwrap_err();
            assert!(told.starts_with("no key that verifies tokens; key 1: "), "{told}");
            assert!(told.contains(why) && !told.contains(&short), "{members}: {told}");
        }
        let pem = "-----BEGIN PUBLIC KEY-----\nMFkw";
        for (text, why) in [
            ("", "no JSON: EOF"),
            ("[]", "neither `keys` nor `kty`"),
            ("{ \"keys\": [] }", "no key that verifies tokens"),
            (pem, "this is PEM"),
        ] {
            let told = parse(text.as_bytes()).unwrap_err();
            assert!(told.starts_with(why), "{text}: {told}");
        }
        let published = super::parse(b"{ \"keys\": [] }", Secrets::Refused);
        assert!(published.unwrap().is_empty(), "all are withdrawn");
        let unusable = super::parse(b"{ \"keys\": [{}] }", Secrets::Refused);
        assert!(unusable.unwrap_err().starts_with("no key that verifies tokens"));
        let secret = format!("{{ \"kty\": \"oct\", \"k\": \"{}\" }}", "A".repeat(43));
        assert!(parse(secret.as_bytes()).is_ok());
        let told = super::parse(secret.as_bytes(), Secrets::Refused).unwrap_err();
        assert!(told.contains("a secret that can be fetched"), "{told}");
        let many = vec![format!("{{ {EC} }}"); KEYS_MAX + 1].join(",");
        assert!(parse(format!("{{ \"keys\": [{many}] }}").as_bytes()).unwrap_err().contains("65"));
    }
}
