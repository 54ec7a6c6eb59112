//! Routes in words, in the order in which they are asked: what each is for and what it does.

use loadline_core::{
    fleet::{Fleet, Listener},
    rules::{Action, Authentication, Conditions, Field, Host, Networks, Path, Rule, Text},
    units::Ratio,
};

/// A line for each route of a listener.
pub(super) fn describe(listener: &Listener, fleet: &Fleet) -> Vec<String> {
    let rules = listener.routes.rules().iter();
    rules
        .enumerate()
        .map(|(rank, (_, rule))| {
            let when = conditions(&rule.when);
            format!("  {}. {when}: {}", rank + 1, action(rule, fleet))
        })
        .collect()
}

/// What a route is for.
pub(crate) fn conditions(when: &Conditions) -> String {
    let all = [
        list("", &when.methods),
        list("host ", &when.hosts.iter().map(host).collect::<Vec<_>>()),
        list("path ", &when.paths.iter().map(path).collect::<Vec<_>>()),
        fields("header", &when.headers),
        fields("query", &when.query),
        fields("cookie", &when.cookies),
        when.sources.as_ref().map(sources),
    ];
    let given: Vec<String> = all.into_iter().flatten().collect();
    if given.is_empty() { "any request".to_owned() } else { given.join(", ") }
}

/// Networks, of many the first ones.
fn sources(networks: &Networks) -> String {
    let listed = networks.listed();
    let told: Vec<String> = listed.iter().take(SOURCES_TOLD).map(ToString::to_string).collect();
    match listed.len().saturating_sub(SOURCES_TOLD) {
        0 if told.is_empty() => "from nobody".to_owned(),
        0 => format!("from {}", told.join(" or ")),
        more => format!("from {} or {more} more networks", told.join(" or ")),
    }
}

fn list(what: &str, items: &[String]) -> Option<String> {
    (!items.is_empty()).then(|| format!("{what}{}", items.join(" or ")))
}

fn host(host: &Host) -> String {
    match host {
        Host::Exact(name) => name.clone(),
        Host::Under(domain) => format!("*.{domain}"),
    }
}

fn path(path: &Path) -> String {
    match path {
        Path::Exact(path) => path.clone(),
        Path::Prefix(path) => format!("{path}/"),
        Path::Regex(regex) => format!("~{}", regex.as_str()),
    }
}

fn fields(what: &str, fields: &[Field]) -> Option<String> {
    let value = |text: &Text| match text {
        Text::Exact(text) => text.clone(),
        Text::Prefix(text) => format!("{text}*"),
        Text::Regex(regex) => format!("~{}", regex.as_str()),
    };
    let one = |field: &Field| match list("", &field.values.iter().map(value).collect::<Vec<_>>()) {
        Some(values) => format!("{what} {} = {values}", field.name),
        None => format!("{what} {}", field.name),
    };
    let all: Vec<String> = fields.iter().map(one).collect();
    (!all.is_empty()).then(|| all.join(", "))
}

fn action(rule: &Rule, fleet: &Fleet) -> String {
    let name = |index: usize| fleet.services.get(index).map_or("?", |it| it.name.as_str());
    let action = match &rule.action {
        Action::Service(split) => match split.shares() {
            [only] => name(only.service).to_owned(),
            shares => {
                let share = |it: &loadline_core::rules::Share| {
                    format!("{} ({})", name(it.service), it.weight)
                };
                shares.iter().map(share).collect::<Vec<_>>().join(", ")
            }
        },
        Action::Redirect(redirect) => format!("redirect {}", redirect.status),
        Action::Respond(answer) => format!("answer {}", answer.status),
    };
    let limit = rule.limit.as_ref().map(|it| format!(", {} each", it.rate)).unwrap_or_default();
    let mirror = rule.mirror.as_ref().map(|it| match it.share {
        Ratio::ONE => format!(", copied to {}", name(it.service)),
        share => format!(", {share} copied to {}", name(it.service)),
    });
    let cached = if rule.cache.is_some() { ", cached" } else { "" };
    let auth = match &rule.authentication {
        None => "",
        Some(Authentication::Basic(_)) => ", basic auth",
        Some(Authentication::Jwt(_)) => ", jwt",
        Some(Authentication::Forward(_)) => ", forward auth",
    };
    format!("{action}{limit}{auth}{cached}{}", mirror.unwrap_or_default())
}

/// As many as fit in a line.
const SOURCES_TOLD: usize = 4;
