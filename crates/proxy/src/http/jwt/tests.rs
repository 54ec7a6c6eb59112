//! Tokens and signatures of the RFCs, and tokens that want to be what they are not.

use std::sync::Arc;

use aws_lc_rs::{
    hmac,
    rand::SystemRandom,
    rsa::KeySize,
    signature::{
        ECDSA_P384_SHA384_FIXED_SIGNING, EcdsaKeyPair, KeyPair as _, RSA_PSS_SHA256, RsaKeyPair,
    },
};
use loadline_core::jwt::{Curve, Key, KeySet, KeySource, Material};

use super::*;

const SECRET: &[u8] = b"a secret of thirty-two characters";

/// Of RFC 7515, A.3.
const X: &str = "f83OJ3D2xF1Bg8vub9tLe1gHMzV76e8Tus9uPHvRVEU";
const Y: &str = "x_FEzRu9m36HLN_tue659LNpXW6pCyStikYjKIWI5a0";
const ES256: &str = "\
    eyJhbGciOiJFUzI1NiJ9.eyJpc3MiOiJqb2UiLA0KICJleHAiOjEzMDA4MTkzODAsDQogImh0dHA6Ly9leGFtcGx\
    lLmNvbS9pc19yb290Ijp0cnVlfQ.DtEhU3ljbEg8L38VWAfUAqOyKAM6-Xx-F4GawxaepmXFCgfTjDxw5djxLa8I\
    SlSApmWQxfKTUJqPP3-Kg6NU1Q";

/// What is signed in RFC 7520.
const FRODO: &str = "\
    SXTigJlzIGEgZGFuZ2Vyb3VzIGJ1c2luZXNzLCBGcm9kbywgZ29pbmcgb3V0IHlvdXIgZG9vci4gWW91IHN0ZXAg\
    b250byB0aGUgcm9hZCwgYW5kIGlmIHlvdSBkb24ndCBrZWVwIHlvdXIgZmVldCwgdGhlcmXigJlzIG5vIGtub3dp\
    bmcgd2hlcmUgeW91IG1pZ2h0IGJlIHN3ZXB0IG9mZiB0by4";

pub(super) fn jwt() -> Jwt {
    let keys = KeySource::File { path: "jwks.json".to_owned(), keys: Arc::default() };
    Jwt::new("api".to_owned(), keys)
}

fn key(material: Material) -> Key {
    Key { id: None, algorithm: None, material }
}

pub(super) fn secret() -> Key {
    key(Material::Secret(SECRET.to_vec()))
}

fn bytes(text: &str) -> Vec<u8> {
    BASE64_URL_SAFE_NO_PAD.decode(text).unwrap()
}

fn ec(curve: Curve, x: &str, y: &str) -> Key {
    key(Material::Ec { curve, point: [vec![4], bytes(x), bytes(y)].concat() })
}

fn token(header: &str, payload: &str, sign: impl Fn(&[u8]) -> Vec<u8>) -> Vec<u8> {
    let [header, payload] = [header, payload].map(|part| BASE64_URL_SAFE_NO_PAD.encode(part));
    let input = format!("{header}.{payload}");
    let signature = BASE64_URL_SAFE_NO_PAD.encode(sign(input.as_bytes()));
    format!("{input}.{signature}").into_bytes()
}

fn hmac_by(secret: &[u8]) -> impl Fn(&[u8]) -> Vec<u8> {
    let key = hmac::Key::new(hmac::HMAC_SHA256, secret);
    move |input| hmac::sign(&key, input).as_ref().to_vec()
}

pub(super) fn hs256(payload: &str) -> Vec<u8> {
    token("{\"alg\":\"HS256\"}", payload, hmac_by(SECRET))
}

fn checked(text: &[u8], keys: Vec<Key>, now_s: i64) -> Result<Claims, Refusal> {
    let keys = Arc::new(KeySet::new(keys));
    let checked = Tokens::default().check(text, (&Arc::new(jwt()), &keys), now_s);
    checked.map(|claims| Claims::clone(&claims))
}

#[test]
fn the_tokens_of_rfc_7515_let_joe_in_until_they_end() {
    let hs256 = "eyJ0eXAiOiJKV1QiLA0KICJhbGciOiJIUzI1NiJ9.eyJpc3MiOiJqb2UiLA0KICJleHAiOjEzMDA4MTkzO\
        DAsDQogImh0dHA6Ly9leGFtcGxlLmNvbS9pc19yb290Ijp0cnVlfQ.dBjftJeZ4CVP-mB92K27uhbUJU1p1r_wW1gFW\
        FOEjXk";
    let secret = bytes(
        "AyM1SysPpbyDfgZld3umj1qzKObwVMkoqQ-EstJQLr_T-1qS0gZH75aKtMN3Yj0iPS4hcgUuTwjAzZr1Z9CAow",
    );
    for (text, key) in [(hs256, key(Material::Secret(secret))), (ES256, ec(Curve::P256, X, Y))] {
        let claims = checked(text.as_bytes(), vec![key.clone()], 1_300_819_379).unwrap();
        assert_eq!(claims.values("iss"), ["joe"]);
        assert_eq!(claims.values("http://example.com/is_root"), ["true"]);
        let late = checked(text.as_bytes(), vec![key.clone()], 1_300_819_440);
        assert_eq!(late, Err(Refusal::Expired));
        let changed =
            text.replacen("joe", "eve", 1).replacen("eyJpc3MiOiJqb2Ui", "eyJpc3MiOiJldmUi", 1);
        let changed = checked(changed.as_bytes(), vec![key], 1_300_819_379);
        assert_eq!(changed, Err(Refusal::Signature));
    }
}

#[test]
fn the_signatures_of_rfc_7520_and_rfc_8037_are_right_and_one_byte_makes_them_wrong() {
    let bilbo = |algorithm: &str| {
        let header =
            format!("{{\"alg\":\"{algorithm}\",\"kid\":\"bilbo.baggins@hobbiton.example\"}}");
        format!("{}.{FRODO}", BASE64_URL_SAFE_NO_PAD.encode(header))
    };
    let shared = "{\"alg\":\"HS256\",\"kid\":\"018c0ae5-4d9b-471b-bfd6-eef314bc7037\"}";
    let rsa = || key(Material::Rsa { n: bytes(RSA_N), e: vec![1, 0, 1] });
    let ed25519 = "11qYAYKxCrfVS_7TyWQHOg7hcvPapiMlrwIaaPcHURo";
    for (algorithm, key, input, signature) in [
        (Algorithm::Rs256, rsa(), bilbo("RS256"), RS256),
        (Algorithm::Ps384, rsa(), bilbo("PS384"), PS384),
        (Algorithm::Es512, ec(Curve::P521, P521_X, P521_Y), bilbo("ES512"), ES512),
        (
            Algorithm::Hs256,
            key(Material::Secret(bytes("hJtXIZ2uSN5kbQfbtTNWbpdmhkV8FJG-Onbc6mxCcYg"))),
            format!("{}.{FRODO}", BASE64_URL_SAFE_NO_PAD.encode(shared)),
            "s0h6KThzkfBBBkLspW1h84VsJZFTsPPqMDA7g1Md7p0",
        ),
        (
            Algorithm::EdDsa,
            key(Material::Ed25519(bytes(ed25519))),
            "eyJhbGciOiJFZERTQSJ9.RXhhbXBsZSBvZiBFZDI1NTE5IHNpZ25pbmc".to_owned(),
            ED25519,
        ),
    ] {
        let mut signature = bytes(signature);
        assert!(signature::is_by(&key, algorithm, input.as_bytes(), &signature), "{algorithm:?}");
        signature[7] ^= 1;
        assert!(!signature::is_by(&key, algorithm, input.as_bytes(), &signature), "{algorithm:?}");
        assert!(!signature::is_by(&key, algorithm, input.as_bytes(), b""), "{algorithm:?}");
    }
}

#[test]
fn a_token_by_ps256_or_es384_is_right_for_its_key_and_its_algorithm_alone() {
    let random = SystemRandom::new();
    let rsa = RsaKeyPair::generate(KeySize::Rsa2048).unwrap();
    let rsa_key = key(Material::Rsa {
        n: rsa.public_key().modulus().big_endian_without_leading_zero().to_vec(),
        e: rsa.public_key().exponent().big_endian_without_leading_zero().to_vec(),
    });
    let ecdsa = EcdsaKeyPair::generate(&ECDSA_P384_SHA384_FIXED_SIGNING).unwrap();
    let point = ecdsa.public_key().as_ref().to_vec();
    let keys =
        || vec![rsa_key.clone(), key(Material::Ec { curve: Curve::P384, point: point.clone() })];
    let by_rsa = |input: &[u8]| {
        let mut signature = vec![0; rsa.public_modulus_len()];
        rsa.sign(&RSA_PSS_SHA256, &random, input, &mut signature).unwrap();
        signature
    };
    let by_ecdsa = |input: &[u8]| ecdsa.sign(&random, input).unwrap().as_ref().to_vec();
    assert!(checked(&token("{\"alg\":\"PS256\"}", "{\"exp\":9}", by_rsa), keys(), 0).is_ok());
    assert!(checked(&token("{\"alg\":\"ES384\"}", "{\"exp\":9}", by_ecdsa), keys(), 0).is_ok());
    for name in ["RS256", "PS384"] {
        let header = format!("{{\"alg\":\"{name}\"}}");
        let told = checked(&token(&header, "{\"exp\":9}", by_rsa), keys(), 0);
        assert_eq!(told, Err(Refusal::Signature), "{name}");
    }
    let told = checked(&token("{\"alg\":\"ES256\"}", "{\"exp\":9}", by_ecdsa), keys(), 0);
    assert_eq!(told, Err(Refusal::Signature));
}

#[test]
fn a_public_key_is_no_secret_and_none_is_no_algorithm() {
    let keys =
        || vec![ec(Curve::P256, X, Y), key(Material::Rsa { n: bytes(RSA_N), e: vec![1, 0, 1] })];
    for public in [[vec![4], bytes(X), bytes(Y)].concat(), bytes(RSA_N), RSA_N.as_bytes().to_vec()]
    {
        let forged = token("{\"alg\":\"HS256\"}", "{\"exp\":9}", hmac_by(&public));
        assert_eq!(checked(&forged, keys(), 0), Err(Refusal::Signature));
    }
    for name in ["none", "None", "nOnE", ""] {
        let forged = token(&format!("{{\"alg\":\"{name}\"}}"), "{\"exp\":9}", |_| Vec::new());
        assert_eq!(checked(&forged, keys(), 0), Err(Refusal::Algorithm), "{name}");
    }
    // ECDSA whose numbers are zero (CVE-2022-21449).
    let forged = token("{\"alg\":\"ES256\"}", "{\"exp\":9}", |_| vec![0; 64]);
    assert_eq!(checked(&forged, keys(), 0), Err(Refusal::Signature));
}

#[test]
fn the_key_that_a_token_names_is_looked_for_and_without_a_name_all_that_fit_are_tried() {
    let named = |id: &str, secret: &[u8]| Key {
        id: Some(id.to_owned()),
        ..key(Material::Secret(secret.to_vec()))
    };
    let keys = || vec![named("a", &[1; 32]), named("b", SECRET)];
    let with = |kid: &str| {
        token(&format!("{{\"alg\":\"HS256\",\"kid\":{kid}}}"), "{\"exp\":9}", hmac_by(SECRET))
    };
    assert!(checked(&with("\"b\""), keys(), 0).is_ok());
    assert_eq!(checked(&with("\"a\""), keys(), 0), Err(Refusal::Signature));
    assert_eq!(checked(&with("\"c\""), keys(), 0), Err(Refusal::UnknownKey));
    assert_eq!(checked(&with("7"), keys(), 0), Err(Refusal::Malformed));
    assert!(checked(&hs256("{\"exp\":9}"), keys(), 0).is_ok());
    let other = Key { algorithm: Some(Algorithm::Hs512), ..named("b", SECRET) };
    assert_eq!(checked(&with("\"b\""), vec![other], 0), Err(Refusal::Signature));
}

#[test]
fn what_is_no_token_is_told_as_such() {
    let signed = |header: &str, payload: &str| token(header, payload, hmac_by(SECRET));
    let whole = hs256("{\"exp\":9}");
    let long = "x".repeat(TOKEN_MAX);
    for (text, expected) in [
        (b"".to_vec(), Refusal::Malformed),
        (b"..".to_vec(), Refusal::Malformed),
        (b"a.b".to_vec(), Refusal::Malformed),
        ([&*whole, b".x.y"].concat(), Refusal::Malformed),
        ([&*whole, b"="].concat(), Refusal::Malformed),
        (hs256("[1]"), Refusal::Malformed),
        (hs256("{\"exp\":\"9\"}"), Refusal::Malformed),
        (hs256("{\"exp\":9"), Refusal::Malformed),
        (hs256(&format!("{}{}", "[".repeat(9_000), "]".repeat(9_000))), Refusal::TooLong),
        (hs256(&format!("{{\"exp\":9,\"a\":{}}}", "[".repeat(5_000))), Refusal::Malformed),
        (hs256(&format!("{{\"exp\":9,\"a\":\"{long}\"}}")), Refusal::TooLong),
        (signed("{\"typ\":\"JWT\"}", "{}"), Refusal::Malformed),
        (signed("{\"alg\":\"HS256\",\"crit\":[\"exp\"]}", "{\"exp\":9}"), Refusal::Critical),
        (signed("{\"alg\":\"HS256\",\"crit\":[\"b64\"],\"b64\":false}", "{}"), Refusal::Critical),
    ] {
        let told = checked(&text, vec![secret()], 0);
        assert_eq!(told, Err(expected), "{}", String::from_utf8_lossy(&text[..text.len().min(99)]));
    }
}

#[test]
fn claims_are_texts_with_dots_into_objects_and_dates_may_have_fractions() {
    let payload = r#"{"exp": 9.7, "nbf": -1, "iat": 1e300, "n": 5, "yes": true, "no": null,
        "roles": ["a", 2, null, ["x"]], "a": {"b": {"c": "d"}}, "line": "x\r\ny"}"#;
    let payload = serde_json::from_str(payload).unwrap();
    let claims = claims(&payload).unwrap();
    assert_eq!((claims.exp, claims.nbf, claims.iat), (Some(9), Some(-1), Some(i64::MAX)));
    for (name, values) in [
        ("n", &["5"][..]),
        ("yes", &["true"]),
        ("no", &[]),
        ("roles", &["a", "2"]),
        ("a.b.c", &["d"]),
        ("a", &[]),
    ] {
        assert_eq!(claims.values(name), values, "{name}");
    }
}

#[test]
fn a_token_is_taken_of_its_one_place() {
    let shown = |place: TokenPlace, fields: &[(&str, &str)]| {
        let jwt = Jwt { place, ..jwt() };
        let fields = fields.iter().map(|(name, value)| (name.as_bytes(), value.as_bytes()));
        shown(&jwt, fields).map(|token| String::from_utf8(token.to_vec()).unwrap())
    };
    let of = |text: &str| Ok(text.to_owned());
    let place = || TokenPlace::Authorization;
    assert_eq!(shown(place(), &[("authorization", "Bearer  a.b.c ")]), of("a.b.c"));
    assert_eq!(shown(place(), &[("Authorization", "bEARER a")]), of("a"));
    for other in ["Basic eDp5", "Bearera", "Bearer", "Bearer "] {
        assert_eq!(shown(place(), &[("Authorization", other)]), Err(Refusal::Missing), "{other}");
    }
    assert_eq!(shown(place(), &[]), Err(Refusal::Missing));
    let two = [("Authorization", "Bearer a"), ("Authorization", "Basic eDp5")];
    assert_eq!(shown(place(), &two), Err(Refusal::Several));
    let header = || TokenPlace::Header("X-Token".to_owned());
    assert_eq!(shown(header(), &[("x-token", "a.b.c"), two[0]]), of("a.b.c"));
    assert_eq!(shown(header(), &[("x-token", "Bearer a.b.c")]), of("a.b.c"));
    let cookie = || TokenPlace::Cookie("s".to_owned());
    assert_eq!(
        shown(cookie(), &[("Cookie", "ss=x; s=a.b.c; S=y"), ("cookie", "t=z")]),
        of("a.b.c")
    );
    assert_eq!(shown(cookie(), &[("Cookie", "s=a; s=b")]), Err(Refusal::Several));
    assert_eq!(shown(cookie(), &[("Cookie", "s=a"), ("Cookie", "s=b")]), Err(Refusal::Several));
    assert_eq!(shown(cookie(), &[two[0]]), Err(Refusal::Missing));
}

const RSA_N: &str = "\
    n4EPtAOCc9AlkeQHPzHStgAbgs7bTZLwUBZdR8_KuKPEHLd4rHVTeT-O-XV2jRojdNhxJWTDvNd7nqQ0VEiZQHz_\
    AJmSCpMaJMRBSFKrKb2wqVwGU_NsYOYL-QtiWN2lbzcEe6XC0dApr5ydQLrHqkHHig3RBordaZ6Aj-oBHqFEHYpP\
    e7Tpe-OfVfHd1E6cS6M1FZcD1NNLYD5lFHpPI9bTwJlsde3uhGqC0ZCuEHg8lhzwOHrtIQbS0FVbb9k3-tVTU4fg\
    _3L_vniUFAKwuCLqKnS2BYwdq_mzSnbLY7h_qixoR7jig3__kRhuaxwUkRz5iaiQkqgc5gHdrNP5zw";

const RS256: &str = "\
    MRjdkly7_-oTPTS3AXP41iQIGKa80A0ZmTuV5MEaHoxnW2e5CZ5NlKtainoFmKZopdHM1O2U4mwzJdQx996ivp83\
    xuglII7PNDi84wnB-BDkoBwA78185hX-Es4JIwmDLJK3lfWRa-XtL0RnltuYv746iYTh_qHRD68BNt1uSNCrUCTJ\
    Dt5aAE6x8wW1Kt9eRo4QPocSadnHXFxnt8Is9UzpERV0ePPQdLuW3IS_de3xyIrDaLGdjluPxUAhb6L2aXic1U12\
    podGU0KLUQSE_oI-ZnmKJ3F4uOZDnd6QZWJushZ41Axf_fcIe8u9ipH84ogoree7vjbU5y18kDquDg";

const PS384: &str = "\
    cu22eBqkYDKgIlTpzDXGvaFfz6WGoz7fUDcfT0kkOy42miAh2qyBzk1xEsnk2IpN6-tPid6VrklHkqsGqDqHCdP6\
    O8TTB5dDDItllVo6_1OLPpcbUrhiUSMxbbXUvdvWXzg-UD8biiReQFlfz28zGWVsdiNAUf8ZnyPEgVFn442ZdNqi\
    VJRmBqrYRXe8P_ijQ7p8Vdz0TTrxUeT3lm8d9shnr2lfJT8ImUjvAA2Xez2Mlp8cBE5awDzT0qI0n6uiP1aCN_2_\
    jLAeQTlqRHtfa64QQSUmFAAjVKPbByi7xho0uTOcbH510a6GYmJUAfmWjwZ6oD4ifKo8DYM-X72Eaw";

const P521_X: &str =
    "AHKZLLOsCOzz5cY97ewNUajB957y-C-U88c3v13nmGZx6sYl_oJXu9A5RkTKqjqvjyekWF-7ytDyRXYgCF5cj0Kt";
const P521_Y: &str =
    "AdymlHvOiLxXkEhayXQnNCvDX4h9htZaCJN34kfmC6pV5OhQHiraVySsUdaQkAgDPrwQrJmbnX9cwlGfP-HqHZR1";

const ES512: &str = "\
    AE_R_YZCChjn4791jSQCrdPZCNYqHXCTZH0-JZGYNlaAjP2kqaluUIIUnC9qvbu9Plon7KRTzoNEuT4Va2cmL1eJ\
    AQy3mtPBu_u_sDDyYjnAMDxXPn7XrT0lw-kvAD890jl8e2puQens_IEKBpHABlsbEPX6sFY8OcGDqoRuBomu9xQ2";

const ED25519: &str = "\
    hgyY0il_MGCjP0JzlnLWG1PPOt7-09PGcvMg3AIbQR6dWbhijcNR4ki4iylGjg5BhVsPt9g7sVvpAr_MuM0KAg";
