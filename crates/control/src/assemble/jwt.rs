//! JWT: conditions for tokens, and the keys in a file.

use std::{net::IpAddr, path::Path, sync::Arc};

use loadline_core::{
    jwt::{Jwt, KeySource, KeyUrl, RequiredClaim, TokenPlace},
    rules::is_framing,
};
use loadline_spanned::{At, Named, Problems, Span, Text};

use super::{authentication::REALM, set};
use crate::{
    file, jwks,
    value::{
        one_or_more::OneOrMore,
        token::{ClaimText, KeyPlace},
    },
};

/// What the file says of them.
pub(super) fn jwt((file, span): (&file::Jwt, &Span), problems: &mut Problems) -> Jwt {
    let texts = |given: &OneOrMore<ClaimText>| given.iter().map(|it| it.0.clone()).collect();
    let claims = file.claims.get().into_iter().flat_map(Named::iter);
    let claims = claims.map(|(name, values)| RequiredClaim {
        name: name.value.clone(),
        values: texts(&values.value),
    });
    let realm = file.realm.get().map_or_else(|| REALM.to_owned(), |realm| realm.0.0.clone());
    let mut jwt = Jwt {
        issuer: file.issuer.get().map(|issuer| issuer.0.0.clone()),
        audiences: file.audience.get().map(texts).unwrap_or_default(),
        claims: claims.collect(),
        place: place(file, problems),
        ..Jwt::new(realm, keys(file, span, problems))
    };
    if let Some(given) = file.algorithms.get() {
        jwt.algorithms = given.iter().map(|word| word.0).collect();
    }
    set(&file.leeway, |time| &time.0.0, &mut jwt.leeway);
    set(&file.require_exp, |on| on, &mut jwt.requires_exp);
    set(&file.pass_authorization, |on| on, &mut jwt.pass_authorization);
    refuse_unfit(file, &jwt, problems);
    jwt
}

fn keys(file: &file::Jwt, span: &Span, problems: &mut Problems) -> KeySource {
    let path = match file.keys.at() {
        Some(At { value: Text(KeyPlace::Url(url)), span }) => {
            warn_of_clear(url, span, problems);
            let authorities = file.ca.get().map(|path| path.0.0.clone());
            return KeySource::Url(KeyUrl { url: url.clone(), authorities });
        }
        Some(At { value: Text(KeyPlace::File(path)), .. }) => path.clone(),
        None => {
            let help = "say which: keys = \"/etc/loadline/jwks.json\", or a URL".to_owned();
            problems.absent(span, span, "`jwt` without `keys`".to_owned(), help);
            String::new()
        }
    };
    if let Some(ca) = file.ca.at() {
        let help = "leave it out, or name a URL by https".to_owned();
        problems.error(&ca.span, "`ca` is for keys at a URL".to_owned(), "never used", help);
    }
    // What tries it (`outside`) says what is wrong with it; nobody comes in then.
    let keys = jwks::read(Path::new(&path)).unwrap_or_default();
    KeySource::File { path, keys: Arc::new(keys) }
}

fn warn_of_clear(url: &str, span: &Span, problems: &mut Problems) {
    let uri: Option<http::Uri> = url.parse().ok();
    let host = uri.as_ref().and_then(http::Uri::host).unwrap_or_default().trim_matches(['[', ']']);
    let is_own = host == "localhost" || host.parse().is_ok_and(|ip: IpAddr| ip.is_loopback());
    if url.starts_with("http:") && !is_own {
        let message = "whoever is on the way to these keys can sign tokens".to_owned();
        problems.warning(span, message, "in clear", "fetch them by https".to_owned());
    }
}

fn place(file: &file::Jwt, problems: &mut Problems) -> TokenPlace {
    match (file.header.at(), file.cookie.at()) {
        (None, None) => TokenPlace::Authorization,
        (Some(header), None) => {
            let name = &header.value.0.0;
            if is_framing(name) || name.eq_ignore_ascii_case("host") {
                let message = format!("`{name}` is not for tokens");
                let help = "take another header: header = \"X-Token\"".to_owned();
                problems.error(&header.span, message, "has a meaning of its own", help);
            }
            TokenPlace::Header(name.clone())
        }
        (header, Some(cookie)) => {
            if header.is_some() {
                let message = "a token in a header and in a cookie".to_owned();
                let help = "leave one of them out".to_owned();
                problems.error(&cookie.span, message, "not both", help);
            }
            if let Some(pass) = file.pass_authorization.at() {
                let message = "`pass_authorization` is about a header".to_owned();
                let help = "leave it out: servers get every cookie".to_owned();
                problems.error(&pass.span, message, "never used", help);
            }
            TokenPlace::Cookie(cookie.value.0.0.clone())
        }
    }
}

/// Refuses algorithms for which there is no key.
fn refuse_unfit(file: &file::Jwt, jwt: &Jwt, problems: &mut Problems) {
    let KeySource::File { path, keys } = &jwt.keys else { return };
    let fits = keys.keys().iter().any(|key| jwt.algorithms.iter().any(|it| key.fits(*it)));
    if let (false, false, Some(at)) = (fits, keys.is_empty(), file.algorithms.at()) {
        let message = format!("no key of `{path}` is for one of these algorithms");
        let help = "leave `algorithms` out, or name those with which tokens are signed".to_owned();
        problems.error(&at.span, message, "no token would be right", help);
    }
}
