//! Routes: patterns and actions of the file as rules, and what they mean together.

use std::collections::BTreeSet;

use loadline_core::{
    fleet::{Listener, UnderscoreHeaders},
    rules::{
        self, Action, Conditions, DirectResponse, Field, HeaderEdits, LimitKey, Map, PathChange,
        RateLimit, Redirect, Regex, Replacement, Routes, Rule, Share, Split, Template, is_framing,
    },
    units::Rate,
};
use loadline_spanned::{At, Key, Named, Problems, Span, Text, Textual};

use super::{
    authentication, cache::caching, cors::cors, listener::Services, maps::Maps, mirror::mirror,
    sources::Sources,
};
use crate::{
    file::{self, ListenerRoutes, Scheme},
    value::{
        label::{CookieName, HeaderName, Name, ParameterName},
        number::Whole,
        one_or_more::OneOrMore,
        pattern::{HeaderTemplate, NewPath, ValuePattern},
    },
};

/// The routes of a listener.
pub(super) fn routes(
    entry: &At<file::Listener>,
    listener: &Listener,
    services: &Services<'_>,
    problems: &mut Problems,
) -> Routes {
    let Some(given) = entry.value.routes.at() else { return Routes::default() };
    if !listener.protocol.is_http() {
        let help = "leave `routes` out, or say protocol = \"http\"".to_owned();
        let message = "`routes` on a listener that does not read HTTP".to_owned();
        problems.error(&given.span, message, "never used", help);
    }
    let list = given.value.list();
    for route in list {
        warn_of_headers(&route.value, listener, problems);
        warn_of_cookies(&route.value, problems);
    }
    warn_of_cors(list, problems);
    services.shared_routes.of(list, listener, || {
        let rules = list.iter().map(|route| rule(route, listener, services, problems));
        let not_found = listener.routes_only.then(|| not_found(listener));
        Routes::new(rules.chain(not_found).collect())
    })
}

/// Warns of routes that are never taken. `linted` has where the lists begin of which that has been
/// told: listeners may share them.
pub(super) fn warn_of_shadowed(
    entry: &At<file::Listener>,
    routes: &Routes,
    linted: &mut BTreeSet<usize>,
    problems: &mut Problems,
) {
    let list = entry.value.routes.get().map_or(&[][..], ListenerRoutes::list);
    if list.first().is_none_or(|route| !linted.insert(route.span.start)) {
        return;
    }
    for shadowed in routes.lint() {
        let Some(route) = list.get(shadowed.rule) else { continue };
        let by = shadowed.by + 1;
        let message = format!("this route is never taken: route {by} matches all that it matches");
        let help = format!("write it before route {by}, or let that one match less");
        problems.warning(&route.span, message, "never taken", help);
    }
}

/// Warns of headers that no request has when routes are asked: of a name with an underscore, which
/// is dropped or refused, and of a value with a space around it.
fn warn_of_headers(route: &file::Route, listener: &Listener, problems: &mut Problems) {
    let comes = listener.underscore_headers == UnderscoreHeaders::Keep;
    let is_padded = |value: &rules::Text| match value {
        rules::Text::Exact(text) => text.trim() != text,
        rules::Text::Prefix(text) => text.trim_start() != text,
        rules::Text::Regex(_) => false,
    };
    for (name, values) in route.header.get().into_iter().flat_map(Named::iter) {
        if !comes && name.value.contains('_') {
            let message = format!("no header with an underscore comes to routes: `{}`", name.value);
            let help = "say underscore_headers = \"keep\" in the listener, or write a hyphen";
            problems.warning(&name.span, message, "never there", help.to_owned());
        }
        let mut given = values.value.iter().filter_map(|value| value.0.as_ref());
        if given.any(is_padded) {
            let message = format!("`{}` with a space around its value", name.value);
            let help = "leave the space out: no header has one there".to_owned();
            problems.warning(&values.span, message, "never there", help);
        }
    }
}

/// Warns of cookies that no request has, since what ends a cookie is in the value.
fn warn_of_cookies(route: &file::Route, problems: &mut Problems) {
    let has_end = |value: &rules::Text| match value {
        rules::Text::Exact(text) => text.contains(';') || text.trim_ascii_end() != text,
        rules::Text::Prefix(text) => text.contains(';'),
        rules::Text::Regex(_) => false,
    };
    for (name, values) in route.cookie.get().into_iter().flat_map(Named::iter) {
        let mut given = values.value.iter().filter_map(|value| value.0.as_ref());
        if given.any(has_end) {
            let message = format!("`{}` with a value that no cookie has", name.value);
            let help = "leave `;` and spaces at its end out: they end a cookie".to_owned();
            problems.warning(&values.span, message, "never there", help);
        }
    }
}

/// Warns of CORS to which no preflight comes, neither to the route nor to another one for it.
fn warn_of_cors(list: &[At<file::Route>], problems: &mut Problems) {
    let with_cors = || list.iter().map(|route| &route.value).filter(|route| route.cors.given());
    let has_preflights = with_cors().any(|route| {
        let methods = route.method.get();
        methods.is_none_or(|all| all.iter().any(|method| method.0 == "OPTIONS"))
    });
    for route in with_cors().filter(|_| !has_preflights) {
        if let Some(methods) = route.method.at() {
            let message = "a route with `cors` that does not match OPTIONS".to_owned();
            let help = "add \"OPTIONS\" to `method`: browsers ask so first".to_owned();
            problems.warning(&methods.span, message, "no preflight", help);
        }
    }
}

/// The last rule: 404 for requests that match none, from those who may ask the listener.
fn not_found(listener: &Listener) -> Rule {
    let response = DirectResponse { status: 404, headers: Vec::new(), body: String::new() };
    let rule = Rule::new(Conditions::default(), Action::Respond(response));
    Rule { priority: i32::MIN, authentication: listener.authentication.clone(), ..rule }
}

fn rule(
    entry: &At<file::Route>,
    listener: &Listener,
    services: &Services<'_>,
    problems: &mut Problems,
) -> Rule {
    let route = &entry.value;
    let action = action(entry, services, problems);
    if !matches!(action, Action::Service(_)) {
        refuse_unused(route, problems);
    }
    let maps = &services.maps;
    let request = edits(&route.request_headers, (maps, true), problems);
    let of_listener = listener.authentication.as_ref();
    let authentication = authentication::of_route(route, of_listener, services, problems);
    authentication::refuse_cached_user(route, (&request, authentication.as_ref()), problems);
    let path = route.rewrite.at().and_then(|change| path_change(change, maps, problems));
    refuse_cached_map(route, path.as_ref(), problems);
    let mut cache = caching(&route.cache, problems);
    if let (Some(caching), Some(authentication)) = (&mut cache, &authentication) {
        caching.settings.authorized = authentication.shows_token(&request);
    }
    Rule {
        priority: route.priority.get().and_then(|it| i32::try_from(it.0).ok()).unwrap_or(0),
        when: conditions(route, &services.sources, problems),
        limit: route.limit.at().map(|limit| rate_limit(limit, problems)),
        max_body: route.max_body.get().map(|size| size.0.0),
        authentication,
        class: route.class.get().map(|word| word.0.0),
        action,
        mirror: route.mirror.at().map(|given| mirror(given, services, problems)),
        cache,
        cors: route.cors.at().map(|given| cors(given, problems)),
        path,
        request,
        answer: edits(&route.answer_headers, (maps, false), problems),
    }
}

/// Refuses a cache on a route whose map rewrites the path differently for different clients.
fn refuse_cached_map(route: &file::Route, path: Option<&PathChange>, problems: &mut Problems) {
    let (Some(PathChange::Map(map)), Some(cache)) = (path, route.cache.at()) else { return };
    if map.of().tells_clients_apart() {
        let message = format!("the path is by `{}`, and others get what is cached", map.of());
        let help = "leave `cache` or `rewrite` out of this route".to_owned();
        problems.error(&cache.span, message, "cached for everybody", help);
    }
}

/// What is changed on the way to a server and back makes no sense where no server is asked.
fn refuse_unused(route: &file::Route, problems: &mut Problems) {
    let places = [
        route.class.at().map(|it| &it.span),
        route.mirror.at().map(|it| &it.span),
        route.cache.at().map(|it| &it.span),
        route.cors.at().map(|it| &it.span),
        route.rewrite.at().map(|it| &it.span),
        route.request_headers.at().map(|it| &it.span),
        route.answer_headers.at().map(|it| &it.span),
    ];
    for span in places.into_iter().flatten() {
        let message = "this is for a route with `service` or `split`".to_owned();
        let help = "leave it out: no server is asked".to_owned();
        problems.error(span, message, "never used", help);
    }
}

fn conditions(route: &file::Route, sources: &Sources, problems: &mut Problems) -> Conditions {
    let hosts = route.host.get().map(|all| all.iter().map(|it| it.0.clone()).collect());
    let paths = route.path.get().map(|all| all.iter().map(|it| it.0.clone()).collect());
    let methods = route.method.get().map(|all| all.iter().map(|it| it.0.clone()).collect());
    for (name, _) in route.header.get().into_iter().flat_map(Named::iter) {
        check_name::<HeaderName>(name, problems);
    }
    for (name, _) in route.query.get().into_iter().flat_map(Named::iter) {
        check_name::<ParameterName>(name, problems);
    }
    for (name, _) in route.cookie.get().into_iter().flat_map(Named::iter) {
        check_name::<CookieName>(name, problems);
    }
    Conditions {
        hosts: hosts.unwrap_or_default(),
        paths: paths.unwrap_or_default(),
        methods: methods.unwrap_or_default(),
        headers: fields(&route.header),
        query: fields(&route.query),
        cookies: fields(&route.cookie),
        sources: sources.of(route),
    }
}

fn fields(given: &Key<Named<OneOrMore<ValuePattern>>>) -> Vec<Field> {
    let named = given.get().into_iter().flat_map(Named::iter);
    named
        .map(|(name, patterns)| {
            // A star among the values makes the others superfluous: any will do.
            let values: Option<Vec<_>> =
                patterns.value.iter().map(|pattern| pattern.0.clone()).collect();
            Field { name: name.value.clone(), values: values.unwrap_or_default() }
        })
        .collect()
}

fn action(entry: &At<file::Route>, services: &Services<'_>, problems: &mut Problems) -> Action {
    let route = &entry.value;
    let given = [
        route.service.given(),
        route.split.given(),
        route.redirect.given(),
        route.answer.given(),
        route.deny.given(),
    ];
    let count = given.iter().filter(|given| **given).count();
    if count != 1 {
        let message = match count {
            0 => "a route without an action".to_owned(),
            _ => format!("a route with {count} actions"),
        };
        let help = "say one of `service`, `split`, `redirect`, `answer` and `deny`".to_owned();
        problems.absent(&entry.span, &entry.span, message, help);
    }
    let answer =
        |status, body: &str| DirectResponse { status, headers: Vec::new(), body: body.to_owned() };
    if let Some(name) = route.service.at() {
        return Action::Service(Split::all(services.find(&name.value.0.0, &name.span, problems)));
    }
    if let Some(split) = route.split.at() {
        return Action::Service(shares(split, services, problems));
    }
    if let Some(given) = route.redirect.at() {
        return Action::Redirect(redirect(given, &services.maps, problems));
    }
    if let Some(given) = route.answer.get() {
        let status = given.status.get().map_or(200, |status| status_of(status.0));
        let body = given.body.get().map_or("", |body| body.0.0.as_str());
        warn_of_twice(&given.headers, problems);
        let headers = header_fields(&given.headers, &services.maps, problems);
        return Action::Respond(DirectResponse { headers, ..answer(status, body) });
    }
    Action::Respond(answer(route.deny.get().map_or(403, |status| status_of(status.0)), ""))
}

fn status_of(number: u32) -> u16 {
    u16::try_from(number).unwrap_or(500)
}

fn shares(
    given: &At<Named<Whole<0, 1000>>>,
    services: &Services<'_>,
    problems: &mut Problems,
) -> Split {
    let shares = given.value.iter().map(|(name, weight)| Share {
        service: services.find(&name.value, &name.span, problems),
        weight: weight.value.0,
    });
    Split::by_weight(shares.collect()).unwrap_or_else(|| {
        let message = "a split in which nobody has a weight".to_owned();
        let help = "give at least one service a weight above zero".to_owned();
        problems.absent(&given.span, &given.span, message, help);
        Split::all(0)
    })
}

fn redirect(given: &At<file::Redirect>, maps: &Maps, problems: &mut Problems) -> Redirect {
    let file = &given.value;
    let status = file.status.get().map_or(302, |status| status_of(status.0));
    if let (304..=306, Some(at)) = (status, file.status.at()) {
        let message = format!("{status} is no redirect");
        let help = "write 301, 302, 303, 307 or 308".to_owned();
        problems.error(&at.span, message, "this status", help);
    }
    let path = file.rewrite.at().and_then(|change| path_change(change, maps, problems));
    if let (Some(PathChange::Map(map)), Some(at)) = (&path, file.rewrite.at()) {
        check_known(map, &at.span, problems);
    }
    let has_parts = file.scheme.given() || file.host.given() || file.rewrite.given();
    let location = file.location.at().map(|at| location(at, has_parts, maps, problems));
    if !has_parts && location.is_none() {
        let message = "a redirect to where the request came".to_owned();
        let help = "say another `scheme`, `host` or path (`rewrite`), or a `location`".to_owned();
        problems.absent(&given.span, &given.span, message, help);
    }
    let scheme = file.scheme.get().map(|scheme| match scheme.0.0 {
        Scheme::Http => "http".to_owned(),
        Scheme::Https => "https".to_owned(),
    });
    Redirect { status, scheme, host: file.host.get().map(|host| host.0.0.clone()), path, location }
}

/// All of where a redirect leads to.
fn location(
    given: &At<Text<HeaderTemplate>>,
    has_parts: bool,
    maps: &Maps,
    problems: &mut Problems,
) -> Template {
    if has_parts {
        let message = "`location` is all of where to".to_owned();
        let help = "leave out `scheme`, `host` and `rewrite`, or `location`".to_owned();
        problems.error(&given.span, message, "beside parts of it", help);
    }
    if given.value.0.0.is_empty() {
        let help = "write a URL: \"https://www.example.com/\"".to_owned();
        problems.error(&given.span, "an empty `location`".to_owned(), "leads nowhere", help);
    }
    let template = maps.template(given, problems);
    template.maps().for_each(|map| check_known(map, &given.span, problems));
    template
}

/// Whether a map has a value decides about a redirect, so it has to be looked up by what is known
/// while routes are compared.
fn check_known(map: &Map, span: &Span, problems: &mut Problems) {
    if let Some(name) = map.of().unknown_to_routes() {
        let message = format!("a map that decides about a route is `of` `${name}`");
        let help = "routes know $client_address, $host, $method, $path, $query and $scheme";
        problems.error(span, message, "not known yet", help.to_owned());
    }
}

fn rate_limit(given: &At<file::Limit>, problems: &mut Problems) -> RateLimit {
    let file = &given.value;
    if !file.rate.given() {
        let help = "say how many: rate = \"10/s\"".to_owned();
        problems.absent(&given.span, &given.span, "a limit without `rate`".to_owned(), help);
    }
    if let (Some(_), Some(cookie)) = (file.header.at(), file.cookie.at()) {
        let message = "a limit by a header and by a cookie".to_owned();
        let help = "leave one of them out".to_owned();
        problems.error(&cookie.span, message, "never used", help);
    }
    let header = file.header.get().map(|name| LimitKey::Header(name.0.0.clone()));
    let cookie = || file.cookie.get().map(|name| LimitKey::Cookie(name.0.0.clone()));
    RateLimit {
        rate: file.rate.get().map_or(Rate::per_sec(1), |rate| rate.0.0),
        burst: file.burst.get().map_or(1, |burst| burst.0),
        by: header.or_else(cookie).unwrap_or(LimitKey::Client),
        keys: file.keys.get().map_or(LIMIT_KEYS, |keys| keys.0),
    }
}

fn path_change(
    given: &At<file::PathChange>,
    maps: &Maps,
    problems: &mut Problems,
) -> Option<PathChange> {
    let file = &given.value;
    let path = file.path.get().map(|path| path.0.0.clone());
    let prefix = file.prefix.get().map(|prefix| prefix.0.0.clone());
    let regex = file.regex.get().map(|regex| regex.0.0.clone());
    match (file.map.at(), path, prefix, regex, file.to.at()) {
        (Some(map), None, None, None, None) => path_map(map, maps, problems),
        (None, Some(path), None, None, None) => Some(PathChange::Whole(path)),
        (None, None, Some(from), None, Some(to)) => {
            let to = to.value.0.0.trim_end_matches('/').to_owned();
            Some(PathChange::Prefix { from, to })
        }
        (None, None, None, Some(pattern), Some(to)) => replacement(pattern, to, problems),
        _ => {
            let message = "this does not say what becomes of the path".to_owned();
            let help = "write { path = \"/new\" }, { prefix = \"/old/\", to = \"/new/\" }, \
                        { regex = \"^/old/(.*)\", to = \"/new/$1\" } or { map = \"NAME\" }";
            problems.absent(&given.span, &given.span, message, help.to_owned());
            None
        }
    }
}

/// A map of which each value is a path.
fn path_map(given: &At<Text<Name>>, maps: &Maps, problems: &mut Problems) -> Option<PathChange> {
    let map = maps.find(given, problems)?;
    let wrong = map.find_value(|value| NewPath::fault(value).is_some());
    if let Some((value, help)) = wrong.and_then(|value| Some((value, NewPath::fault(value)?))) {
        let message = format!("the map `{}` has `{value}`, which is not a path", map.name());
        problems.error(&given.span, message, "this map", help.to_owned());
    }
    Some(PathChange::Map(map))
}

/// A replacement with groups that the expression has.
fn replacement(
    pattern: Regex,
    given: &At<Text<NewPath>>,
    problems: &mut Problems,
) -> Option<PathChange> {
    match Replacement::read(&given.value.0.0, &pattern) {
        Ok(to) => Some(PathChange::Regex { pattern, to }),
        Err(unknown) => {
            let name = &unknown.0;
            let help = match name.find(|c: char| !c.is_ascii_digit()) {
                Some(end @ 1..) => format!(
                    "write `${{{}}}{}`: letters, digits and `_` are of the name",
                    &name[..end],
                    &name[end..]
                ),
                _ => "put what it should have into parentheses; `$$` is a dollar sign".to_owned(),
            };
            problems.error(&given.span, unknown.to_string(), "here", help);
            None
        }
    }
}

fn edits(
    given: &Key<file::HeaderEdits>,
    (maps, to_server): (&Maps, bool),
    problems: &mut Problems,
) -> HeaderEdits {
    let Some(given) = given.at() else { return HeaderEdits::default() };
    let file = &given.value;
    let mut remove = Vec::new();
    if let Some(At { value, span }) = file.remove.at() {
        for (name, span) in value.each(span) {
            refuse_framing(&name.0, span, false, problems);
            remove.push(name.0.clone());
        }
    }
    warn_of_twice(&file.set, problems);
    let named = |key: &Key<Named<Text<HeaderTemplate>>>, may_host, problems: &mut Problems| {
        for (name, _) in key.get().into_iter().flat_map(Named::iter) {
            refuse_framing(&name.value, &name.span, may_host, problems);
        }
        header_fields(key, maps, problems)
    };
    HeaderEdits {
        set: named(&file.set, to_server, problems),
        add: named(&file.add, false, problems),
        remove,
    }
}

/// Warns of a header that is set twice, its name in another case.
fn warn_of_twice(set: &Key<Named<Text<HeaderTemplate>>>, problems: &mut Problems) {
    let mut seen = BTreeSet::new();
    for (name, _) in set.get().into_iter().flat_map(Named::iter) {
        if !seen.insert(name.value.to_ascii_lowercase()) {
            let message = format!("`{}` is set above, in another case", name.value);
            let help = "leave one of them out: names of headers are the same in any case";
            problems.warning(&name.span, message, "once more", help.to_owned());
        }
    }
}

fn header_fields(
    given: &Key<Named<Text<HeaderTemplate>>>,
    maps: &Maps,
    problems: &mut Problems,
) -> Vec<(String, Template)> {
    let mut fields = Vec::new();
    for (name, value) in given.get().into_iter().flat_map(Named::iter) {
        check_name::<HeaderName>(name, problems);
        refuse_framing(&name.value, &name.span, true, problems);
        let template = maps.template(value, problems);
        let text = &value.value.0.0;
        let is_no_host = |c: char| c.is_whitespace() || "/\\@?#".contains(c);
        if name.value.eq_ignore_ascii_case("host")
            && template.is_literal()
            && text.contains(is_no_host)
        {
            let help = "write a host, and a port where there is one: \"example.com:8080\"";
            problems.error(&value.span, format!("`{text}` is no host"), "here", help.to_owned());
        }
        fields.push((name.value.clone(), template));
    }
    fields
}

fn check_name<T: Textual>(name: &At<String>, problems: &mut Problems) {
    if let Err(complaint) = T::read(&name.value) {
        problems.error(&name.span, complaint.message, "this name", complaint.help);
    }
}

/// Fields by which both sides agree on where a message ends are not for routes to touch.
fn refuse_framing(name: &str, span: &Span, may_host: bool, problems: &mut Problems) {
    if is_framing(name) || name.eq_ignore_ascii_case("host") && !may_host {
        let message = format!("`{name}` is not for routes to change");
        let help = "messages would end where nobody expects it; leave it out".to_owned();
        problems.error(span, message, "this header", help);
    }
}

/// Half a megabyte, for more clients than are over their rate at a time.
const LIMIT_KEYS: u32 = 65_536;
