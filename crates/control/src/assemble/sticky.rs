//! Sticky sessions: by cookie or by hash, and what goes with which.

use loadline_core::{
    fleet::{Cookie, HashKey, PolicyKind, SameSite, Secret, Sticky, forwarding::Affinity},
    time::Duration,
};
use loadline_spanned::{At, Key, Problems};

use super::set;
use crate::{file, value::secret::KEY_HELP};

/// What keeps the sessions of a service with this policy on one server.
pub(super) fn sticky(
    given: &Key<file::Sticky>,
    policy: PolicyKind,
    problems: &mut Problems,
) -> Option<Sticky> {
    let given = given.at()?;
    let table = &given.value;
    let ways = [table.cookie.given(), table.hash.given(), table.header.given()];
    if ways.iter().filter(|given| **given).count() != 1 {
        let message = "sessions go by one of `cookie`, `hash` and `header`".to_owned();
        let help = "write { cookie = \"lb\", key = \"...\" }, { hash = \"client-address\" } or \
                    { header = \"X-User\" }";
        problems.absent(&given.span, &given.span, message, help.to_owned());
        return None;
    }
    if let Some(name) = table.cookie.get() {
        return Some(Sticky::Cookie(cookie(&name.0.0, given, problems)));
    }
    refuse_of_cookie(table, problems);
    if policy.hashes() {
        let message = format!("the policy `{}` hashes already", policy.name());
        let help = "leave `sticky` out, or take another policy".to_owned();
        problems.warning(&given.span, message, "superfluous", help);
    }
    let header = || table.header.get().map(|name| HashKey::Header(name.0.0.clone()));
    let key = table.hash.get().map(|word| word.0.0.clone()).or_else(header);
    key.map(Sticky::Hash)
}

/// What stays with a server where packets are forwarded.
pub(super) fn affinity(
    given: &Key<file::Sticky>,
    sticky: Option<&Sticky>,
    problems: &mut Problems,
) -> Affinity {
    let time = given.get().and_then(|table| table.time.at());
    if sticky == Some(&Sticky::Hash(HashKey::ClientAddress)) {
        return Affinity::Client(time.map_or(Duration::ZERO, |time| time.value.0.0));
    }
    if let Some(time) = time {
        let message = "this is for clients that stay by their address".to_owned();
        let help = "leave it out, or write hash = \"client-address\"".to_owned();
        problems.error(&time.span, message, "never used", help);
    }
    Affinity::Connection
}

fn cookie(name: &str, given: &At<file::Sticky>, problems: &mut Problems) -> Cookie {
    let table = &given.value;
    if !table.key.given() {
        let message = "a cookie without `key`".to_owned();
        problems.absent(&given.span, &given.span, message, KEY_HELP.to_owned());
    }
    let mut cookie = Cookie {
        name: name.to_owned(),
        key: table.key.get().map_or(Secret::new(String::new()), |key| key.0.0.clone()),
        ttl: table.ttl.get().map(|time| time.0.0),
        path: table.path.get().map_or("/".to_owned(), |path| path.0.0.clone()),
        secure: false,
        same_site: SameSite::Lax,
    };
    set(&table.secure, |secure| secure, &mut cookie.secure);
    set(&table.same_site, |word| &word.0.0, &mut cookie.same_site);
    if let Some(path) = table.path.at().filter(|_| cookie.path.contains(';')) {
        let message = "the path of a cookie ends at `;`".to_owned();
        problems.error(&path.span, message, "this path", "leave the `;` out".to_owned());
    }
    if let (SameSite::None, false, Some(at)) =
        (cookie.same_site, cookie.secure, table.same_site.at())
    {
        let message = "browsers refuse `same_site = \"none\"` without `secure`".to_owned();
        problems.warning(&at.span, message, "no effect", "add secure = true".to_owned());
    }
    cookie
}

fn refuse_of_cookie(table: &file::Sticky, problems: &mut Problems) {
    let places = [
        table.key.at().map(|it| &it.span),
        table.ttl.at().map(|it| &it.span),
        table.path.at().map(|it| &it.span),
        table.secure.at().map(|it| &it.span),
        table.same_site.at().map(|it| &it.span),
    ];
    for span in places.into_iter().flatten() {
        let message = "this is for sessions by `cookie`".to_owned();
        let help = "leave it out: nothing is told to the client".to_owned();
        problems.error(span, message, "never used", help);
    }
}
