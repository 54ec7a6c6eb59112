//! The route that decides, and why those before it did not.

use loadline_core::{
    fleet::{Fleet, Listener},
    jwt::{Jwt, TokenPlace},
    rules::{
        self, Action, Conditions, Field, HeaderEdits, Headers, KeyedVariables, LimitKey, Matched,
        PathChange, RateLimit, Redirect, Request, Rule,
    },
};

use super::{Authentication, Passed, Route};
use crate::describe::routes;

/// The routes that were asked before `matched`; all where none is for the request.
pub(super) fn passed<H: Headers + ?Sized>(
    listener: &Listener,
    matched: Option<Matched<'_>>,
    request: &Request<'_, H>,
) -> Vec<Passed> {
    let rules = listener.routes.rules();
    let before = matched.map_or(rules.len(), |it| it.rank);
    let numbered = (1..).zip(&rules[..before]);
    numbered
        .map(|(number, (_, rule))| Passed {
            number,
            conditions: routes::conditions(&rule.when),
            fails: fails(rule, request),
        })
        .collect()
}

/// The first condition that does not hold. A route all of whose conditions hold is a redirect to
/// where the client is already, as one is that does not change the path.
fn fails<H: Headers + ?Sized>(rule: &Rule, request: &Request<'_, H>) -> String {
    if let Some(one) = each(&rule.when).into_iter().find(|one| !one.hold(request)) {
        return format!("not {}", routes::conditions(&one));
    }
    match &rule.action {
        Action::Redirect(Redirect { location: Some(location), .. }) => {
            if location.maps().any(|map| map.value(request).is_empty()) {
                return format!("there is no value for {location}");
            }
            LEADS_BACK.to_owned()
        }
        Action::Redirect(Redirect { path: Some(PathChange::Map(map)), .. }) => {
            format!("there is no value for ${}", map.name())
        }
        Action::Redirect(Redirect { path: Some(PathChange::Regex { pattern, .. }), .. })
            if !pattern.matches(request.path) =>
        {
            format!("{} does not match the path, which would stay", pattern.as_str())
        }
        Action::Redirect(Redirect { path: Some(PathChange::Prefix { from, .. }), .. })
            if !rules::Path::Prefix(from.clone()).matches(request.path) =>
        {
            format!("the path is not below {from}, and would stay")
        }
        Action::Redirect(Redirect { path: Some(path @ PathChange::Prefix { to, .. }), .. })
            if path.has_moved(request.path) =>
        {
            format!("the path is below {to}/ already")
        }
        Action::Redirect(Redirect { host: None, path: None, .. }) => {
            format!("it leads to {}, by which the request came", request.scheme)
        }
        _ => LEADS_BACK.to_owned(),
    }
}

const LEADS_BACK: &str = "it leads to where the request came";

/// Each condition by itself, in the order of the file's keys.
fn each(when: &Conditions) -> Vec<Conditions> {
    let none = Conditions::default;
    let mut all = vec![
        Conditions { hosts: when.hosts.clone(), ..none() },
        Conditions { paths: when.paths.clone(), ..none() },
        Conditions { methods: when.methods.clone(), ..none() },
    ];
    let single = |field: &Field| vec![field.clone()];
    all.extend(when.headers.iter().map(|it| Conditions { headers: single(it), ..none() }));
    all.extend(when.query.iter().map(|it| Conditions { query: single(it), ..none() }));
    all.extend(when.cookies.iter().map(|it| Conditions { cookies: single(it), ..none() }));
    all.push(Conditions { sources: when.sources.clone(), ..none() });
    all
}

/// What the route does.
pub(super) fn route<H: Headers + ?Sized>(
    listener: &Listener,
    matched: Matched<'_>,
    (request, raw_path): (&Request<'_, H>, &[u8]),
    fleet: &Fleet,
) -> Route {
    let rule = matched.rule;
    let mut path = Vec::new();
    let keyed = KeyedVariables::of(rule, request, is_for_cache(request));
    let changes = rule.path.as_ref().is_some_and(|change| {
        let mapped = change.filled_in(&keyed);
        mapped.as_ref().unwrap_or(change).write_raw(raw_path, request.path, &mut path)
    });
    Route {
        number: matched.rank + 1,
        of: listener.routes.rules().len(),
        conditions: routes::conditions(&rule.when),
        limit: rule.limit.as_ref().map(limit),
        class: rule.class.map(|class| format!("{class:?}").to_lowercase()),
        path: changes.then(|| String::from_utf8_lossy(&path).into_owned()),
        request_headers: edits(&rule.request),
        response_headers: edits(&rule.answer),
        is_cached: rule.cache.is_some(),
        mirror: rule.mirror.as_ref().map(|mirror| {
            format!("{} of the requests to {}", mirror.share, fleet.services[mirror.service].name)
        }),
    }
}

/// Whether a cache may answer: the request brings nothing, and stays HTTP.
fn is_for_cache<H: Headers + ?Sized>(request: &Request<'_, H>) -> bool {
    let has = |name: &str| request.headers.any(name, &mut |_| true);
    let has_length = request.headers.any("content-length", &mut |length| length != b"0");
    let is_bare = !has_length && !has("transfer-encoding") && !has("upgrade");
    matches!(request.method, b"GET" | b"HEAD") && is_bare
}

/// Who is let in by the route, or by the listener where there is none.
pub(super) fn authentication(
    listener: &Listener,
    matched: Option<Matched<'_>>,
    fleet: &Fleet,
) -> Option<Authentication> {
    let own = matched.map_or(&listener.authentication, |it| &it.rule.authentication);
    Some(match own.as_ref()? {
        rules::Authentication::Basic(auth) => {
            let (users, realm) = (auth.users.len(), &auth.realm);
            let who = format!("one of {users} users of {realm}; 401 for others");
            Authentication { by: "basic auth", who }
        }
        rules::Authentication::Jwt(jwt) => Authentication { by: "jwt", who: token(jwt) },
        rules::Authentication::Forward(auth) => {
            let service = &fleet.services[auth.service].name;
            let who = format!("whom {service} lets in with 2xx, asked for {}", auth.path);
            Authentication { by: "forward auth", who }
        }
    })
}

fn token(jwt: &Jwt) -> String {
    let place = match &jwt.place {
        TokenPlace::Authorization => "Authorization: Bearer".to_owned(),
        TokenPlace::Header(name) => format!("the header {name}"),
        TokenPlace::Cookie(name) => format!("the cookie {name}"),
    };
    let mut text = format!("a token in {place}, signed by a key of {}", jwt.keys.place());
    if let Some(issuer) = &jwt.issuer {
        text.push_str(&format!(", of {issuer}"));
    }
    if !jwt.audiences.is_empty() {
        text.push_str(&format!(", for {}", jwt.audiences.join(" or ")));
    }
    text.push_str("; 401 for others");
    for claim in &jwt.claims {
        let values = claim.values.join(" or ");
        text.push_str(&format!("; 403 unless {} is {values}", claim.name));
    }
    text
}

fn limit(limit: &RateLimit) -> String {
    let by = match &limit.by {
        LimitKey::Client => "client address".to_owned(),
        LimitKey::Header(name) => format!("value of the header {name}"),
        LimitKey::Cookie(name) => format!("value of the cookie {name}"),
    };
    format!("{} for each {by}, {} at once; 429 beyond", limit.rate, limit.burst)
}

fn edits(edits: &HeaderEdits) -> Vec<String> {
    let removed = edits.remove.iter().map(|name| format!("remove {name}"));
    let set = edits.set.iter().map(|(name, value)| format!("set {name}: {value}"));
    let added = edits.add.iter().map(|(name, value)| format!("add {name}: {value}"));
    removed.chain(set).chain(added).collect()
}
