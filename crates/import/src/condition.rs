//! What a request has to be for a rule, and what two such conditions mean together.

use std::net::IpAddr;

use regex::bytes::Regex;

use crate::{
    expression::escape,
    fragment::{Fragment, leading},
};

/// Conditions as a route has them: all have to hold, of a list one is enough.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct When {
    pub(crate) hosts: Option<Vec<Host>>,
    pub(crate) paths: Option<Vec<Path>>,
    pub(crate) methods: Option<Vec<String>>,
    pub(crate) sources: Option<Vec<Network>>,
    pub(crate) fields: Vec<Field>,
}

/// A host in lower case.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Host {
    Exact(String),
    /// All names below this domain.
    Under(String),
}

/// A path, decoded and without its query.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Path {
    Exact(String),
    /// All that begin with this text, in the middle of a segment too.
    Begins(String),
    /// All of which the expression finds a part.
    Regex(String),
}

/// Where a field is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Place {
    Header,
    Query,
    Cookie,
}

/// A field that has to be there, with one of these values.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Field {
    pub(crate) place: Place,
    pub(crate) name: String,
    pub(crate) values: Vec<Value>,
}

/// A value of a field.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Value {
    Any,
    Exact(String),
    Begins(String),
    /// All of it matches.
    Regex(String),
}

/// A range of addresses.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Network {
    address: IpAddr,
    length: u32,
}

/// What two patterns have in common.
enum Meet<T> {
    Some(T),
    None,
    /// No pattern says it.
    Unknown,
}

impl<T> Meet<T> {
    /// This, or what is known by other means.
    fn or_else(self, other: impl FnOnce() -> Self) -> Self {
        match self {
            Self::Unknown => other(),
            known => known,
        }
    }
}

impl When {
    /// One path or one of several.
    pub(crate) fn path(paths: Vec<Path>) -> Self {
        Self { paths: Some(paths), ..Self::default() }
    }

    /// One host or one of several.
    pub(crate) fn host(hosts: Vec<Host>) -> Self {
        Self { hosts: Some(hosts), ..Self::default() }
    }

    /// A field with one of these values.
    pub(crate) fn field(place: Place, name: &str, values: Vec<Value>) -> Self {
        let field = Field { place, name: name.to_owned(), values };
        Self { fields: vec![field], ..Self::default() }
    }

    /// Whether it holds for every request.
    pub(crate) fn is_always(&self) -> bool {
        *self == Self::default()
    }

    /// The same of a path that has this before it.
    ///
    /// # Errors
    /// What of it a route cannot say.
    pub(crate) fn below(&self, prefix: &str) -> Result<Self, String> {
        let below = |path: &Path| match path {
            Path::Exact(path) => Ok(Path::Exact(format!("{prefix}{path}"))),
            Path::Begins(start) => Ok(Path::Begins(format!("{prefix}{start}"))),
            Path::Regex(regex) => match regex.strip_prefix('^').filter(|it| !it.contains('|')) {
                Some(rest) => Ok(Path::Regex(format!("^{}{rest}", escape(prefix)))),
                None => Err(format!("the expression is one of a path without `{prefix}`")),
            },
        };
        let paths = self.paths.iter().flatten().map(below).collect::<Result<Vec<_>, String>>()?;
        Ok(Self { paths: self.paths.as_ref().map(|_| paths), ..self.clone() })
    }

    /// One or the other, where they differ in hosts or in paths alone.
    pub(crate) fn or(&self, other: &Self) -> Option<Self> {
        let mut either = self.clone();
        if let (Some(hosts), Some(more)) = (&mut either.hosts, &other.hosts)
            && self.hosts != other.hosts
        {
            hosts.extend(more.iter().cloned());
            return (Self { hosts: other.hosts.clone(), ..self.clone() } == *other)
                .then_some(either);
        }
        if let (Some(paths), Some(more)) = (&mut either.paths, &other.paths) {
            paths.extend(more.iter().cloned());
            return (Self { paths: other.paths.clone(), ..self.clone() } == *other)
                .then_some(either);
        }
        None
    }

    /// Whether it holds wherever the other does, as far as that can be told.
    pub(crate) fn covers(&self, other: &Self) -> bool {
        let has = |field: &Field| {
            let mut fields = other.fields.clone();
            matches!(add_field(&mut fields, field), Ok(true)) && fields == other.fields
        };
        within(other.hosts.as_ref(), self.hosts.as_ref(), meet_hosts)
            && within(other.paths.as_ref(), self.paths.as_ref(), meet_paths)
            && within(other.methods.as_ref(), self.methods.as_ref(), meet_equal)
            && within(other.sources.as_ref(), self.sources.as_ref(), meet_networks)
            && self.fields.iter().all(has)
    }

    /// Both together; none where no request is both.
    ///
    /// # Errors
    /// What of it a route cannot say.
    pub(crate) fn and(&self, other: &Self) -> Result<Option<Self>, String> {
        let Some(hosts) = both(self.hosts.as_ref(), other.hosts.as_ref(), meet_hosts, "hosts")?
        else {
            return Ok(None);
        };
        let Some(paths) = both(self.paths.as_ref(), other.paths.as_ref(), meet_paths, "paths")?
        else {
            return Ok(None);
        };
        let methods = both(self.methods.as_ref(), other.methods.as_ref(), meet_equal, "methods")?;
        let Some(methods) = methods else { return Ok(None) };
        let sources =
            both(self.sources.as_ref(), other.sources.as_ref(), meet_networks, "addresses");
        let Some(sources) = sources? else { return Ok(None) };
        let mut fields = self.fields.clone();
        for field in &other.fields {
            if !add_field(&mut fields, field)? {
                return Ok(None);
            }
        }
        Ok(Some(Self { hosts, paths, methods, sources, fields }))
    }
}

/// What of two lists is in both; `None` where they have nothing in common. Within, `None` is where
/// neither says anything.
fn both<T: Clone + PartialEq>(
    one: Option<&Vec<T>>,
    other: Option<&Vec<T>>,
    meet: fn(&T, &T) -> Meet<T>,
    what: &str,
) -> Result<Option<Option<Vec<T>>>, String> {
    let (one, other) = match (one, other) {
        (Some(one), Some(other)) => (one, other),
        (given, None) | (None, given) => return Ok(Some(given.cloned())),
    };
    if one == other {
        return Ok(Some(Some(one.clone())));
    }
    let (mut common, mut unknown) = (Vec::new(), Vec::new());
    for pair in one.iter().flat_map(|one| other.iter().map(move |other| (one, other))) {
        match meet(pair.0, pair.1) {
            Meet::Some(found) if !common.contains(&found) => common.push(found),
            Meet::Some(_) | Meet::None => {}
            Meet::Unknown => unknown.push(pair),
        }
    }
    // What two have in common is in each of them.
    let is_taken = |all: &T| common.iter().any(|it| is_within(all, it, meet));
    if unknown.iter().any(|&(one, other)| !is_taken(one) && !is_taken(other)) {
        return Err(format!("a route cannot ask for two patterns of {what} at once"));
    }
    Ok((!common.is_empty()).then_some(Some(common)))
}

/// Whether all that one pattern takes the other one takes.
fn is_within<T: PartialEq>(one: &T, other: &T, meet: fn(&T, &T) -> Meet<T>) -> bool {
    matches!(meet(other, one), Meet::Some(found) if found == *one)
}

/// Whether each pattern of a list is one of those that the other list takes.
fn within<T: PartialEq>(
    list: Option<&Vec<T>>,
    other: Option<&Vec<T>>,
    meet: fn(&T, &T) -> Meet<T>,
) -> bool {
    let Some(other) = other else { return true };
    let is_taken = |one: &T| other.iter().any(|it| is_within(one, it, meet));
    list.is_some_and(|list| list.iter().all(is_taken))
}

fn meet_equal(one: &String, other: &String) -> Meet<String> {
    if one == other { Meet::Some(one.clone()) } else { Meet::None }
}

fn meet_hosts(one: &Host, other: &Host) -> Meet<Host> {
    use Host::{Exact, Under};
    match (one, other) {
        (Exact(name), Under(domain)) | (Under(domain), Exact(name)) => {
            let is_below =
                name.strip_suffix(domain.as_str()).is_some_and(|rest| rest.ends_with('.'));
            if is_below { Meet::Some(Exact(name.clone())) } else { Meet::None }
        }
        (Under(a), Under(b)) if a.ends_with(&format!(".{b}")) => Meet::Some(one.clone()),
        (Under(a), Under(b)) if b.ends_with(&format!(".{a}")) => Meet::Some(other.clone()),
        _ if one == other => Meet::Some(one.clone()),
        _ => Meet::None,
    }
}

fn meet_paths(one: &Path, other: &Path) -> Meet<Path> {
    use Path::{Begins, Exact, Regex as Expression};
    match (one, other) {
        _ if one == other => Meet::Some(one.clone()),
        (Exact(_), Exact(_)) => Meet::None,
        (Exact(path), Begins(prefix)) | (Begins(prefix), Exact(path)) => {
            if path.starts_with(prefix.as_str()) {
                Meet::Some(Exact(path.clone()))
            } else {
                Meet::None
            }
        }
        (Begins(a), Begins(b)) if a.starts_with(b.as_str()) => Meet::Some(one.clone()),
        (Begins(a), Begins(b)) if b.starts_with(a.as_str()) => Meet::Some(other.clone()),
        (Begins(_), Begins(_)) => Meet::None,
        (Exact(path), Expression(regex)) | (Expression(regex), Exact(path)) => match compile(regex)
        {
            Ok(regex) if regex.is_match(path.as_bytes()) => Meet::Some(Exact(path.clone())),
            Ok(_) => Meet::None,
            Err(_) => Meet::Unknown,
        },
        (Expression(_), rest) | (rest, Expression(_)) if *rest == Begins("/".to_owned()) => {
            let expression = if *rest == *one { other } else { one };
            Meet::Some(expression.clone())
        }
        (Expression(regex), Begins(prefix)) | (Begins(prefix), Expression(regex)) => {
            meet_literal(regex, prefix).or_else(|| meet_fragments(one, other))
        }
        (Expression(a), Expression(b)) => {
            let by_text = match (literal(a), literal(b)) {
                ((prefix, true), _) => meet_literal(b, &prefix),
                (_, (prefix, true)) => meet_literal(a, &prefix),
                _ => Meet::Unknown,
            };
            by_text.or_else(|| meet_fragments(one, other))
        }
    }
}

/// Two patterns that are each a text at a place, or of which one is found behind the other.
fn meet_fragments(one: &Path, other: &Path) -> Meet<Path> {
    match (Fragment::of(one), Fragment::of(other)) {
        (Some(a), Some(b)) if a.implies(&b) => Meet::Some(one.clone()),
        (Some(a), Some(b)) if b.implies(&a) => Meet::Some(other.clone()),
        (Some(a), Some(b)) if a.excludes(&b) => Meet::None,
        (a, b) => {
            let behind = |start: Option<Fragment>, found: &Path| match found {
                Path::Regex(regex) => start.and_then(|it| it.before(regex)),
                _ => None,
            };
            let both = behind(a, other).or_else(|| behind(b, one));
            both.map_or(Meet::Unknown, |regex| Meet::Some(Path::Regex(regex)))
        }
    }
}

/// An expression and a prefix, by what the expression begins with.
fn meet_literal(regex: &str, prefix: &str) -> Meet<Path> {
    let (start, _) = literal(regex);
    if start.starts_with(prefix) {
        Meet::Some(Path::Regex(regex.to_owned()))
    } else if !prefix.starts_with(&start) {
        Meet::None
    } else {
        Meet::Unknown
    }
}

/// The text with which all that an expression finds has to begin, and whether that is all it asks.
fn literal(regex: &str) -> (String, bool) {
    let Some(rest) = regex.strip_prefix('^').filter(|rest| !has_alternatives(rest)) else {
        return (String::new(), false);
    };
    let (text, behind) = leading(rest);
    (text, behind.is_empty())
}

/// Whether an expression is several, of which one is enough; those within groups do not count.
pub(crate) fn has_alternatives(regex: &str) -> bool {
    let (mut groups, mut classes) = (0_u32, 0_u32);
    let mut chars = regex.chars().peekable();
    while let Some(c) = chars.next() {
        match c {
            '\\' => {
                chars.next();
            }
            '[' => {
                classes += 1;
                // Where it comes first, it does not end the class.
                chars.next_if_eq(&'^');
                chars.next_if_eq(&']');
            }
            ']' => classes = classes.saturating_sub(1),
            _ if classes > 0 => {}
            '(' => groups += 1,
            ')' => groups = groups.saturating_sub(1),
            '|' if groups == 0 => return true,
            _ => {}
        }
    }
    false
}

fn meet_networks(one: &Network, other: &Network) -> Meet<Network> {
    if one.has(other) {
        Meet::Some(other.clone())
    } else if other.has(one) {
        Meet::Some(one.clone())
    } else {
        Meet::None
    }
}

/// Adds a field to others; false where no request has both.
fn add_field(fields: &mut Vec<Field>, field: &Field) -> Result<bool, String> {
    let same =
        |it: &&mut Field| it.place == field.place && it.name.eq_ignore_ascii_case(&field.name);
    let Some(there) = fields.iter_mut().find(same) else {
        fields.push(field.clone());
        return Ok(true);
    };
    if there.values.contains(&Value::Any) {
        there.values.clone_from(&field.values);
        return Ok(true);
    }
    if field.values.contains(&Value::Any) || there.values == field.values {
        return Ok(true);
    }
    let are_exact = |it: &Field| it.values.iter().all(|value| matches!(value, Value::Exact(_)));
    if !(are_exact(there) && are_exact(field)) {
        return Err(format!("a route cannot ask for two patterns of `{}` at once", field.name));
    }
    there.values.retain(|value| field.values.contains(value));
    Ok(!there.values.is_empty())
}

impl Network {
    /// An address, or one with the length of its prefix or an IPv4 mask.
    pub(crate) fn parse(text: &str) -> Option<Self> {
        let (address, length) = text.split_once('/').map_or((text, None), |(a, l)| (a, Some(l)));
        let address: IpAddr = address.parse().ok()?;
        let most = if address.is_ipv4() { 32 } else { 128 };
        let length = match length {
            None => most,
            Some(length) => match length.parse::<std::net::Ipv4Addr>() {
                Ok(mask) => mask.to_bits().leading_ones(),
                Err(_) => length.parse().ok()?,
            },
        };
        (length <= most).then(|| Self { address: masked(address, length), length })
    }

    fn has(&self, other: &Self) -> bool {
        self.address.is_ipv4() == other.address.is_ipv4()
            && self.length <= other.length
            && masked(other.address, self.length) == self.address
    }

    /// As a file writes it.
    pub(crate) fn text(&self) -> String {
        let most = if self.address.is_ipv4() { 32 } else { 128 };
        if self.length == most {
            return self.address.to_string();
        }
        format!("{}/{}", self.address, self.length)
    }
}

/// The address with no bits after the first `length`.
fn masked(address: IpAddr, length: u32) -> IpAddr {
    match address {
        IpAddr::V4(it) => {
            let mask = u32::MAX.checked_shl(32 - length.min(32)).unwrap_or(0);
            IpAddr::V4((it.to_bits() & mask).into())
        }
        IpAddr::V6(it) => {
            let mask = u128::MAX.checked_shl(128 - length.min(128)).unwrap_or(0);
            IpAddr::V6((it.to_bits() & mask).into())
        }
    }
}

/// An expression as loadline compiles it.
///
/// # Errors
/// Why it is none: look-around and references back are for other engines.
pub(crate) fn compile(expression: &str) -> Result<Regex, String> {
    let mut builder = regex::bytes::RegexBuilder::new(expression);
    builder.unicode(false).dot_matches_new_line(true);
    builder.build().map_err(|error| {
        let text = error.to_string();
        let last = text.lines().last().unwrap_or_default().trim().trim_start_matches("error: ");
        format!("the expression is not one of loadline's: {last}")
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn begins(text: &str) -> When {
        When::path(vec![Path::Begins(text.to_owned())])
    }

    #[test]
    fn of_two_conditions_the_narrower_stays() {
        let both = begins("/a/").and(&begins("/a/b")).unwrap_or_default();
        assert_eq!(both, Some(begins("/a/b")));
        assert_eq!(begins("/a/").and(&begins("/b")), Ok(None));
        let below = When::host(vec![Host::Under("example.com".to_owned())]);
        let exact = When::host(vec![Host::Exact("a.example.com".to_owned())]);
        assert_eq!(below.and(&exact), Ok(Some(exact.clone())));
        assert_eq!(begins("/").and(&exact).map(|it| it.is_some()), Ok(true));
    }

    #[test]
    fn a_condition_covers_what_each_of_its_patterns_takes() {
        let paths = |all: &[&str]| {
            When::path(all.iter().map(|it| Path::Begins((*it).to_owned())).collect())
        };
        assert!(paths(&["/a/b", "/a"]).covers(&begins("/a")));
        assert!(paths(&["/a", "/b"]).covers(&paths(&["/b/c", "/a"])));
        assert!(!paths(&["/a/b", "/b"]).covers(&begins("/a")));
        assert!(When::default().covers(&begins("/a")) && !begins("/a").covers(&When::default()));
        let field = |value| When::field(Place::Header, "X", vec![value]);
        let one = Value::Exact("1".to_owned());
        assert!(field(Value::Any).covers(&field(one.clone())));
        assert!(!field(one).covers(&field(Value::Any)));
    }

    #[test]
    fn what_a_route_cannot_say_is_an_error_and_no_guess() {
        let numbers = When::path(vec![Path::Regex("[0-9]$".to_owned())]);
        assert!(numbers.and(&begins("/static/")).is_err());
        let exact = When::path(vec![Path::Exact("/a.1".to_owned())]);
        assert_eq!(numbers.and(&exact), Ok(Some(exact.clone())));
    }

    #[test]
    fn an_expression_and_a_prefix_are_one_expression_behind_it() {
        let regex = |text: &str| When::path(vec![Path::Regex(text.to_owned())]);
        let both = regex("^/static/.*(?:\\.png$)");
        assert_eq!(regex("\\.png$").and(&begins("/static/")), Ok(Some(both.clone())));
        assert_eq!(regex("^/static/").and(&regex("\\.png$")), Ok(Some(both.clone())));
        assert_eq!(both.and(&begins("/static/")), Ok(Some(both.clone())));
        assert_eq!(regex("(?i)^/admin").and(&begins("/static/")), Ok(None));
        assert_eq!(regex("(?i)^/admin").and(&begins("/Admin/x")), Ok(Some(begins("/Admin/x"))));
        let dotted = begins("/a.b/");
        let behind = regex("^/a\\.b/.*(?:\\.png$)");
        assert_eq!(regex("\\.png$").and(&dotted), Ok(Some(behind.clone())));
        assert_eq!(behind.and(&dotted), Ok(Some(behind.clone())));
    }

    #[test]
    fn a_list_of_endings_that_is_asked_for_twice_is_that_list() {
        let ends = |all: &[&str]| {
            When::path(all.iter().map(|it| Path::Regex(format!("\\{it}$"))).collect())
        };
        let images = ends(&[".jpg", ".png"]);
        assert_eq!(images.and(&images), Ok(Some(images.clone())));
        assert_eq!(images.and(&ends(&[".png", ".gif"])), Ok(Some(ends(&[".png"]))));
        assert_eq!(images.and(&ends(&[".css"])), Ok(None));
    }

    #[test]
    fn two_patterns_of_which_another_takes_one_do_no_harm() {
        let list =
            |all: &[&str]| When::path(all.iter().map(|it| Path::Regex((*it).to_owned())).collect());
        // What has both is within the first, which is in both lists.
        let both = list(&["[0-9]", "[a-c]"]).and(&list(&["[0-9]", "[x-z]"]));
        assert!(both.is_err(), "`[a-c]` and `[x-z]` may be in one path");
        let both = list(&["[0-9]", "[a-c]"]).and(&list(&["[0-9]"]));
        assert_eq!(both, Ok(Some(list(&["[0-9]"]))));
    }

    #[test]
    fn an_expression_below_a_prefix_stays_as_it_is() {
        let regex = |text: &str| When::path(vec![Path::Regex(text.to_owned())]);
        let blog = regex("^/blog/([0-9]+)/(.*)$");
        assert_eq!(blog.and(&begins("/blog/")), Ok(Some(blog.clone())));
        assert_eq!(regex("^/blog/").and(&blog), Ok(Some(blog.clone())));
        assert_eq!(blog.and(&begins("/shop/")), Ok(None));
        assert!(regex("^/blogs?/x").and(&begins("/blogs/")).is_err());
        assert_eq!(regex("^/v1(/|$)").and(&regex("^/v2/")), Ok(None));
        assert!(regex("^/v1/|^/v2/").and(&begins("/v2/")).is_err());
        assert!(regex("^/v1[](]|^/v2/").and(&begins("/v2/")).is_err());
    }

    #[test]
    fn paths_below_a_prefix_have_it_before_them() {
        let regex = |text: &str| When::path(vec![Path::Regex(text.to_owned())]);
        assert_eq!(begins("/a/").below("/x.y"), Ok(begins("/x.y/a/")));
        assert_eq!(regex("^/a/[0-9]+$").below("/x.y"), Ok(regex("^/x\\.y/a/[0-9]+$")));
        assert!(regex("\\.php$").below("/x").is_err() && regex("^/a|^/b").below("/x").is_err());
        assert_eq!(When::default().below("/x"), Ok(When::default()));
    }

    #[test]
    fn networks_meet_in_the_smaller() {
        let network = |text| Network::parse(text).map(|it| it.text());
        assert_eq!(network("10.1.2.3/8").as_deref(), Some("10.0.0.0/8"));
        assert_eq!(network("10.0.0.0/255.255.0.0").as_deref(), Some("10.0.0.0/16"));
        assert_eq!(network("2001:db8::1").as_deref(), Some("2001:db8::1"));
        assert_eq!(network("0.0.0.0/0").as_deref(), Some("0.0.0.0/0"));
        assert_eq!(network("10.0.0.0/33"), None);
        let has = |wide, near| Network::parse(wide)?.has(&Network::parse(near)?).then_some(());
        assert!(has("10.0.0.0/8", "10.1.0.0/16").is_some());
        assert!(has("10.1.0.0/16", "10.0.0.0/8").is_none());
    }
}
