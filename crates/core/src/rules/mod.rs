//! Content rules: the action and the changes of a request, by its host, path, headers and client.
//!
//! A [`Rule`] has [`Conditions`], all of which must hold, and says what to do then. The first rule
//! that matches decides: the highest [`Rule::priority`] first, equal ones in the order of the file.
//!
//! [`Table`] finds that rule without looking at all of them. Hosts are a map, domains of wildcards
//! another, and for each there is a tree of path segments; a regular expression hangs in the tree
//! where its literal beginning leads. With `n` rules, `l` labels in the host and `s` segments in
//! the path that is `O((l + s) log n)` comparisons, plus one test for each rule that shares both
//! host and path with the request and comes before the one that matches. Only rules that differ in
//! nothing but their other conditions (method, header, query, cookie, source) are tried one by
//! one.
//!
//! Rules see a request in its normal form ([`normal`]), so that `/%61dmin` and `/x/../admin` do
//! not get around a rule for `/admin`. [`lint`] tells of rules that can never decide.

mod action;
mod authentication;
mod basic_auth;
mod caching;
mod connections;
mod cors;
mod covers;
mod forward_auth;
mod framing;
mod limit;
mod limiters;
mod lint;
mod map;
mod mirror;
mod networks;
pub mod normal;
mod pattern;
mod redirect;
mod reference;
mod replacement;
mod routes;
mod table;
mod template;

use alloc::{
    string::{String, ToString as _},
    vec::Vec,
};
use core::net::IpAddr;

use crate::{fleet::Class, units::Bytes};

pub use action::{Action, DirectResponse, HeaderEdits, PathChange, Share, Split};
pub use authentication::Authentication;
pub use basic_auth::{BasicAuth, HashScheme, PasswordCheck, PasswordHash, PasswordHashError};
pub use caching::{Caching, KeyedVariables, QueryKey};
pub use connections::{ClientKey, ConnectionsPerClient};
pub use cors::{Cors, Origin, OriginError};
pub use forward_auth::{AskedAbout, ForwardAuth};
pub use framing::is_framing;
pub use limit::{LimitKey, Limiter, RateLimit};
pub(crate) use limiters::Limiters;
pub use limiters::RouteLimiters;
pub use lint::{Shadowed, lint};
pub use map::{Map, MapError, MapKind};
pub use mirror::{Copies, CopyPlace, CopyResult, Mirror};
pub use networks::Networks;
pub use pattern::{
    Field, Host, Network, PATH_LENGTH_MAX, Path, PatternError, REGEX_SIZE_MAX, Regex, Text,
    any_cookie,
};
pub use redirect::{Asked, Redirect};
pub use replacement::{Replacement, UnknownGroup};
pub use routes::Routes;
pub use table::{Matched, Table};
pub use template::{CLAIM, Template, UnknownVariable, Variable, Variables};

/// What is done with the requests that meet some conditions.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Rule {
    /// The higher, the earlier it is asked; equal ones in the order of the file.
    pub priority: i32,
    /// Which requests it is for.
    pub when: Conditions,
    /// How many of them are let through.
    pub limit: Option<RateLimit>,
    /// How long a body may be; as the listener says if omitted.
    pub max_body: Option<Bytes>,
    /// Who may ask; everybody if omitted.
    pub authentication: Option<Authentication>,
    /// How much those matter where not all can be served; as the service says if omitted.
    pub class: Option<Class>,
    /// What is done with those.
    pub action: Action,
    /// Where copies of them go, for [`Action::Service`].
    pub mirror: Option<Mirror>,
    /// How responses are cached, for [`Action::Service`]; not at all if omitted.
    pub cache: Option<Caching>,
    /// Which pages of other origins may read responses; as the server says if omitted.
    pub cors: Option<Cors>,
    /// How the path is changed on the way to a server.
    pub path: Option<PathChange>,
    /// How the headers of the request are changed on the way to a server.
    pub request: HeaderEdits,
    /// How the headers of the response are changed on the way to the client.
    pub answer: HeaderEdits,
}

/// What must hold of a request; a condition that is empty holds of any.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Conditions {
    /// The host is one of these.
    pub hosts: Vec<Host>,
    /// The path is one of these.
    pub paths: Vec<Path>,
    /// The method is one of these, in the same case.
    pub methods: Vec<String>,
    /// Each of these header fields is there. Names match in any case.
    pub headers: Vec<Field>,
    /// Each of these query parameters is there, percent-decoded.
    pub query: Vec<Field>,
    /// Each of these cookies is there.
    pub cookies: Vec<Field>,
    /// The client is in one of these; an empty set has nobody.
    pub sources: Option<Networks>,
}

/// What rules can see of a request, borrowed from its head.
#[derive(Debug)]
pub struct Request<'a, H: ?Sized> {
    /// Host and port as they came: those of the target where it has them, not of the field.
    pub authority: &'a [u8],
    /// As [`normal::host`] gives it.
    pub host: &'a [u8],
    /// As [`normal::path`] gives it.
    pub path: &'a [u8],
    /// As it came, without the question mark.
    pub query: &'a [u8],
    /// The method, in the case in which it came.
    pub method: &'a [u8],
    /// Address of the client.
    pub source: IpAddr,
    /// The scheme, `http` or `https`.
    pub scheme: &'a str,
    /// The header fields.
    pub headers: &'a H,
}

/// Header fields that can be searched.
pub trait Headers {
    /// Whether `test` holds of the value of any field of this name, whatever its case.
    fn any(&self, name: &str, test: &mut dyn FnMut(&[u8]) -> bool) -> bool;
}

/// The variables that routes use to decide, and no others.
impl<H: ?Sized> Variables for Request<'_, H> {
    fn write(&self, variable: Variable, out: &mut Vec<u8>) {
        let address;
        out.extend_from_slice(match variable {
            Variable::ClientAddress => {
                address = self.source.to_canonical().to_string();
                address.as_bytes()
            }
            Variable::Host => self.host,
            Variable::Method => self.method,
            Variable::Path | Variable::NormalPath => self.path,
            Variable::Query => self.query,
            Variable::Scheme => self.scheme.as_bytes(),
            _ => b"",
        });
    }
}

impl Headers for [(&str, &str)] {
    fn any(&self, name: &str, test: &mut dyn FnMut(&[u8]) -> bool) -> bool {
        let mut named = self.iter().filter(|field| field.0.eq_ignore_ascii_case(name));
        named.any(|field| test(field.1.as_bytes()))
    }
}

impl Rule {
    /// A rule that does this with such requests, and changes nothing.
    #[must_use]
    pub fn new(when: Conditions, action: Action) -> Self {
        Self {
            priority: 0,
            when,
            limit: None,
            max_body: None,
            authentication: None,
            class: None,
            action,
            mirror: None,
            cache: None,
            cors: None,
            path: None,
            request: HeaderEdits::default(),
            answer: HeaderEdits::default(),
        }
    }
}

impl Conditions {
    /// Whether all of them hold.
    #[must_use]
    pub fn hold<H: Headers + ?Sized>(&self, request: &Request<'_, H>) -> bool {
        one_of(&self.hosts, |host| host.matches(request.host))
            && one_of(&self.paths, |path| path.matches(request.path))
            && self.others_hold(request)
    }

    /// Whether all hold that are about neither host nor path.
    fn others_hold<H: Headers + ?Sized>(&self, request: &Request<'_, H>) -> bool {
        let headers = request.headers;
        one_of(&self.methods, |method| method.as_bytes() == request.method)
            && self.sources.as_ref().is_none_or(|networks| networks.contains(request.source))
            && self.headers.iter().all(|field| field.in_headers(headers))
            && self.query.iter().all(|field| field.in_query(request.query))
            && self.cookies.iter().all(|field| field.in_cookies(headers))
    }
}

/// Whether a list says nothing or one of its items holds.
fn one_of<T>(list: &[T], holds: impl Fn(&T) -> bool) -> bool {
    list.is_empty() || list.iter().any(holds)
}

pub mod client;
#[cfg(test)]
mod tests;
pub mod trace;
