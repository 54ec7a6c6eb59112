//! Which claims let their bearer in, and which key fits a token.

use alloc::vec;

use super::*;

fn jwt() -> Jwt {
    Jwt {
        realm: "the \"api\"".to_owned(),
        keys: KeySource::File { path: "jwks.json".to_owned(), keys: Arc::default() },
        issuer: Some("https://issuer".to_owned()),
        audiences: vec!["api".to_owned(), "web".to_owned()],
        algorithms: Algorithm::ALL.into(),
        leeway: Duration::from_secs(60),
        requires_exp: true,
        claims: vec![RequiredClaim {
            name: "realm_access.roles".to_owned(),
            values: vec!["admin".to_owned(), "root".to_owned()],
        }],
        place: TokenPlace::Authorization,
        pass_authorization: true,
    }
}

fn claims(all: &[(&str, &[&str])]) -> Claims {
    let texts = |values: &[&str]| values.iter().map(|it| (*it).to_owned()).collect();
    let all = all.iter().map(|(name, values)| ((*name).to_owned(), texts(values))).collect();
    Claims { exp: Some(1_000), all, ..Claims::default() }
}

fn right() -> Claims {
    claims(&[
        ("iss", &["https://issuer"]),
        ("aud", &["other", "web"]),
        ("realm_access.roles", &["user", "admin"]),
    ])
}

#[test]
fn a_token_counts_until_its_end_and_the_leeway_beyond_it() {
    let jwt = jwt();
    assert_eq!(jwt.judge(&right(), 1_059), Ok(()));
    assert_eq!(jwt.judge(&right(), 1_060), Err(Refusal::Expired));
    assert_eq!(jwt.right_until_s(&right()), 1_060);
    let endless = Claims { exp: None, ..right() };
    assert_eq!(jwt.judge(&endless, 0), Err(Refusal::NoExp));
    assert_eq!(Jwt { requires_exp: false, ..jwt }.judge(&endless, 9_999), Ok(()));
}

#[test]
fn a_token_of_the_future_counts_from_the_leeway_before_it() {
    let jwt = jwt();
    for of_future in
        [Claims { nbf: Some(560), ..right() }, Claims { iat: Some(560), nbf: Some(0), ..right() }]
    {
        assert_eq!(jwt.judge(&of_future, 499), Err(Refusal::NotYet));
        assert_eq!(jwt.judge(&of_future, 500), Ok(()));
    }
    let odd = Claims { exp: Some(i64::MAX), nbf: Some(i64::MIN), iat: Some(i64::MIN), ..right() };
    assert_eq!(jwt.judge(&odd, 500), Ok(()));
    assert_eq!(jwt.judge(&Claims { exp: Some(i64::MIN), ..right() }, 500), Err(Refusal::Expired));
}

#[test]
fn issuer_and_audience_have_to_be_right_and_what_else_is_required_comes_last() {
    let jwt = jwt();
    let without = |name: &str| {
        let mut claims = right();
        claims.all.retain(|claim| claim.0 != name);
        claims
    };
    let with = |name: &str, values: &[&str]| {
        let mut claims = without(name);
        claims.all.extend(self::claims(&[(name, values)]).all);
        claims
    };
    for (claims, expected) in [
        (without("iss"), Refusal::Issuer),
        (with("iss", &["https://issuer/"]), Refusal::Issuer),
        (with("iss", &["https://issuer", "https://other"]), Refusal::Issuer),
        (without("aud"), Refusal::Audience),
        (with("aud", &["apis"]), Refusal::Audience),
        (without("realm_access.roles"), Refusal::Claims),
        (with("realm_access.roles", &["user", "admins"]), Refusal::Claims),
    ] {
        assert_eq!(jwt.judge(&claims, 0), Err(expected), "{claims:?}");
    }
    let open = Jwt { issuer: None, audiences: vec![], claims: vec![], ..jwt };
    assert_eq!(open.judge(&claims(&[]), 0), Ok(()));
}

#[test]
fn a_scope_is_a_list_of_words() {
    let values = vec!["read".to_owned()];
    let scope = RequiredClaim { name: "scope".to_owned(), values };
    assert!(scope.is_met_by(&claims(&[("scope", &["write read"])])));
    assert!(scope.is_met_by(&claims(&[("scope", &["write", "read"])])));
    assert!(!scope.is_met_by(&claims(&[("scope", &["readers write"])])));
    let role = RequiredClaim { name: "role".to_owned(), ..scope };
    assert!(!role.is_met_by(&claims(&[("role", &["write read"])])));
}

#[test]
fn claims_in_a_header_have_commas_between_them_and_end_no_line() {
    let claims = claims(&[("roles", &["a", "b"]), ("odd", &["a\r\nX-Admin: 1"])]);
    let written = |name: &str| {
        let mut out = Vec::new();
        claims.write(name, &mut out);
        String::from_utf8(out).expect("text")
    };
    assert_eq!(
        (written("roles"), written("odd"), written("none")),
        ("a,b".into(), "".into(), "".into())
    );
}

#[test]
fn a_challenge_says_what_is_wrong_and_nothing_of_what_would_be_right() {
    let told = |refusal| {
        let response = jwt().challenge(refusal);
        (response.status, format!("{}", response.headers[0].1))
    };
    let realm = "Bearer realm=\"the \\\"api\\\"\"";
    assert_eq!(told(Refusal::Missing), (401, realm.to_owned()));
    let expired =
        format!("{realm}, error=\"invalid_token\", error_description=\"the token has expired\"");
    assert_eq!(told(Refusal::Expired), (401, expired));
    let (status, text) = told(Refusal::Claims);
    assert!(status == 403 && text.contains("error=\"insufficient_scope\""), "{text}");
    assert!(!text.contains("admin"), "{text}");
}

#[test]
fn a_key_fits_the_algorithms_of_its_kind_alone() {
    let key = |material| Key { id: None, algorithm: None, material };
    let names = |key: &Key| {
        let fitting = Algorithm::ALL.into_iter().filter(|it| key.fits(*it));
        fitting.map(Algorithm::name).collect::<Vec<_>>().join(" ")
    };
    let rsa = key(Material::Rsa { n: vec![1; 256], e: vec![1, 0, 1] });
    assert_eq!(names(&rsa), "RS256 RS384 RS512 PS256 PS384 PS512");
    assert_eq!(names(&Key { algorithm: Some(Algorithm::Ps256), ..rsa.clone() }), "PS256");
    assert_eq!(names(&Key { algorithm: Some(Algorithm::Hs256), ..rsa }), "");
    for (curve, expected) in
        [(Curve::P256, "ES256"), (Curve::P384, "ES384"), (Curve::P521, "ES512")]
    {
        assert_eq!(names(&key(Material::Ec { curve, point: vec![] })), expected);
    }
    assert_eq!(names(&key(Material::Ed25519(vec![0; 32]))), "EdDSA");
    for (length, expected) in
        [(31, ""), (32, "HS256"), (48, "HS256 HS384"), (64, "HS256 HS384 HS512")]
    {
        assert_eq!(names(&key(Material::Secret(vec![0; length]))), expected);
    }
}

#[test]
fn the_key_with_the_id_of_a_token_is_taken_and_without_an_id_all_that_fit() {
    let key = |id: Option<&str>, byte| Key {
        id: id.map(str::to_owned),
        algorithm: None,
        material: Material::Ed25519(vec![byte; 32]),
    };
    let set = KeySet::new(vec![key(Some("a"), 1), key(Some("b"), 2), key(None, 3)]);
    let fitting = |id: Option<&str>, algorithm| {
        let signed = Signed { algorithm, key_id: id.map(str::to_owned) };
        let bytes = set.fitting(&signed).map(|key| match &key.material {
            Material::Ed25519(bytes) => bytes[0],
            other => panic!("{other:?}"),
        });
        (bytes.collect::<Vec<u8>>(), set.lacks(&signed))
    };
    assert_eq!(fitting(Some("b"), Algorithm::EdDsa), (vec![2, 3], false));
    assert_eq!(fitting(Some("c"), Algorithm::EdDsa), (vec![3], true));
    assert_eq!(fitting(None, Algorithm::EdDsa), (vec![1, 2, 3], false));
    assert_eq!(fitting(Some("b"), Algorithm::Rs256), (vec![], false));
}

#[test]
fn algorithms_have_the_names_of_the_standard_and_none_is_none() {
    for algorithm in Algorithm::ALL {
        assert_eq!(Algorithm::of(algorithm.name()), Some(algorithm));
    }
    assert_eq!(Algorithm::of("Ed25519"), Some(Algorithm::EdDsa));
    for name in ["none", "None", "NONE", "", "rs256", "RS1"] {
        assert_eq!(Algorithm::of(name), None, "{name}");
    }
    let secret = Material::Secret(b"guess me".to_vec());
    assert!(!format!("{secret:?}").contains("guess") && !format!("{secret:?}").contains("103"));
}
