//! Whether one condition holds wherever another does. A yes is certain, a no is not: regular
//! expressions are not compared.

use super::{Conditions, Field, Host, Networks, Path, Text, pattern::is_under};

impl Conditions {
    /// Whether these hold of every request of which `other` hold.
    pub(super) fn cover(&self, other: &Self) -> bool {
        let everywhere = self.paths.iter().any(|path| *path == Path::Prefix("".into()));
        each_in(&self.hosts, &other.hosts, Host::covers)
            && (everywhere || each_in(&self.paths, &other.paths, Path::covers))
            && each_in(&self.methods, &other.methods, |own, other| own == other)
            && covers_sources(self.sources.as_ref(), other.sources.as_ref())
            && implied(&self.headers, &other.headers, str::eq_ignore_ascii_case)
            && implied(&self.query, &other.query, |a, b| a == b)
            && implied(&self.cookies, &other.cookies, |a, b| a == b)
    }
}

/// The same of sets of networks, where none allows anybody.
fn covers_sources(own: Option<&Networks>, other: Option<&Networks>) -> bool {
    own.is_none_or(|own| other.map_or(own.has_all(), |other| own.cover(other)))
}

/// Whether `own` allows all that `other` allows, where an empty list allows anything.
fn each_in<T>(own: &[T], other: &[T], covers: impl Fn(&T, &T) -> bool) -> bool {
    let in_own = |other: &T| own.iter().any(|own| covers(own, other));
    own.is_empty() || !other.is_empty() && other.iter().all(in_own)
}

/// Whether each of `own` follows from one of `other`.
fn implied(own: &[Field], other: &[Field], same: impl Fn(&str, &str) -> bool) -> bool {
    own.iter().all(|own| {
        let mut named = other.iter().filter(|other| same(&own.name, &other.name));
        named.any(|other| each_in(&own.values, &other.values, Text::covers))
    })
}

impl Host {
    fn covers(&self, other: &Self) -> bool {
        match (self, other) {
            (own, Self::Exact(name)) => own.matches(name.as_bytes()),
            (Self::Exact(_), Self::Under(_)) => false,
            (Self::Under(own), Self::Under(domain)) => {
                let rest = domain.strip_suffix(own.as_str());
                rest.is_some_and(|rest| rest.is_empty() || rest.ends_with('.'))
            }
        }
    }
}

impl Path {
    fn covers(&self, other: &Self) -> bool {
        match (self, other) {
            (own, Self::Exact(path)) => own.matches(path.as_bytes()),
            (Self::Prefix(own), Self::Prefix(prefix)) => is_under(prefix.as_bytes(), own),
            (Self::Prefix(own), Self::Regex(regex)) => is_under(regex.directory().as_bytes(), own),
            (Self::Regex(own), Self::Regex(regex)) => own == regex,
            (Self::Exact(_) | Self::Regex(_), _) => false,
        }
    }
}

impl Text {
    fn covers(&self, other: &Self) -> bool {
        match (self, other) {
            (own, Self::Exact(text)) => own.matches(text.as_bytes()),
            (Self::Prefix(own), Self::Prefix(prefix)) => prefix.starts_with(own.as_str()),
            (Self::Regex(own), Self::Regex(regex)) => own == regex,
            _ => false,
        }
    }
}
