//! Routes in the file: conditions, and what is done with the requests that meet them.

use loadline_core::fleet::Class;
use loadline_spanned::{Key, Named, Text};
use schemars::JsonSchema;
use serde::Deserialize;

use super::{BasicAuth, ForwardAuth, Jwt, RouteCache};
use crate::value::{
    either::{TableOrFalse, TableOrSwitch, TextOr},
    label::{FilePath, HeaderName, Host, Name},
    number::Whole,
    one_or_more::OneOrMore,
    pattern::{
        Body, Expression, HeaderTemplate, HostPattern, MethodName, NetworkRange, NewPath,
        OriginPattern, PathPattern, PathPrefix, ValuePattern,
    },
    quantity::{PERCENT, PositiveRate, Seconds, Share, Size},
    word::Word,
};

/// A route: conditions and one action. Every condition has to match; of a list in a condition one
/// value is enough. The action is one of `service`, `split`, `redirect`, `answer` and `deny`.
#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default, expecting = "a table")]
pub(crate) struct Route {
    /// Routes with a higher priority are matched first; equal ones in the order of the file.
    #[schemars(extend("default" = 0))]
    pub(crate) priority: Key<Whole<0, 1_000_000>>,
    /// Condition: the host of the request, without its port.
    pub(crate) host: Key<OneOrMore<HostPattern>>,
    /// Condition: the path of the request, decoded and without `.` and `..`. `/api/` matches `/api`
    /// and all below it, `/api` that path alone. A regular expression has to match the whole path.
    pub(crate) path: Key<OneOrMore<PathPattern>>,
    /// Condition: the method.
    pub(crate) method: Key<OneOrMore<MethodName>>,
    /// Condition: headers by name, all of which have to be present and match.
    pub(crate) header: Key<Named<OneOrMore<ValuePattern>>>,
    /// Condition: query parameters by name, all of which have to be present and match.
    #[schemars(extend("propertyNames" = {}))]
    pub(crate) query: Key<Named<OneOrMore<ValuePattern>>>,
    /// Condition: cookies by name, all of which have to be present and match.
    #[schemars(extend("propertyNames" = { "pattern": "^[^=;\\x00-\\x20\\x7f]+$" }))]
    pub(crate) cookie: Key<Named<OneOrMore<ValuePattern>>>,
    /// Condition: the address of the client.
    pub(crate) source: Key<OneOrMore<NetworkRange>>,
    /// A file with further addresses and networks of `source`, one on each line; `#` begins a
    /// comment. A reload reads it again. With an empty file, and no `source`, the route matches no
    /// client.
    pub(crate) source_file: Key<Text<FilePath>>,
    /// Action: the service that gets the request.
    pub(crate) service: Key<Text<Name>>,
    /// Action: services that share the requests, with their weights.
    #[schemars(extend("examples" = [{ "web": 95, "canary": 5 }]))]
    pub(crate) split: Key<Named<Whole<0, 1000>>>,
    /// Mirroring: copies of the requests go to another service too, whose responses are discarded.
    /// No client waits for a copy or sees it fail. The Host header is unchanged.
    pub(crate) mirror: Key<TextOr<Name, Mirror>>,
    /// Caching of responses: `true` for the defaults, or a table.
    #[schemars(extend("default" = false))]
    pub(crate) cache: Key<TableOrSwitch<RouteCache>>,
    /// CORS: pages of which other origins may read responses. loadline answers preflight requests,
    /// so the route has to match `OPTIONS`. CORS headers of servers are replaced. Errors of
    /// loadline itself (401, 429, 502, 503) have CORS headers too, but not those without a route
    /// (400, 404, 431).
    pub(crate) cors: Key<Cors>,
    /// Action: redirects the client. Parts of the URL that are not given stay as requested.
    pub(crate) redirect: Key<Redirect>,
    /// Action: sends a fixed response.
    pub(crate) answer: Key<FixedAnswer>,
    /// Action: denies the request with this status.
    pub(crate) deny: Key<Whole<400, 599>>,
    /// Priority class of these requests, when not all can be served. Default: the class of the
    /// service.
    pub(crate) class: Key<Text<Word<Class>>>,
    /// Rate limit of each client; requests above it get 429.
    pub(crate) limit: Key<Limit>,
    /// Maximum size of a request body. A larger one gets 413. Default: that of the listener.
    pub(crate) max_body: Key<Size<0, { 1 << 50 }>>,
    /// Basic authentication; `false` switches it off. Default: that of the listener.
    pub(crate) basic_auth: Key<TableOrFalse<BasicAuth>>,
    /// JWT authentication, instead of `basic_auth`; `false` switches it off. Default: that of the
    /// listener.
    pub(crate) jwt: Key<TableOrFalse<Jwt>>,
    /// Forward authentication by a service, instead of `basic_auth` and `jwt`; `false` switches it
    /// off. Default: that of the listener.
    pub(crate) forward_auth: Key<TableOrFalse<ForwardAuth>>,
    /// Changes the path of the request on its way to a server. The query stays.
    pub(crate) rewrite: Key<PathChange>,
    /// Changes headers of the request on its way to a server.
    pub(crate) request_headers: Key<HeaderEdits>,
    /// Changes headers of a server's response on its way to the client.
    pub(crate) answer_headers: Key<HeaderEdits>,
}

/// Mirroring of requests to another service.
#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default, expecting = "a table")]
#[schemars(extend("required" = ["service"]))]
pub(crate) struct Mirror {
    /// The service that gets the copies.
    pub(crate) service: Key<Text<Name>>,
    /// Share of requests that are copied, drawn at random.
    #[schemars(extend("default" = "100%"))]
    pub(crate) share: Key<Share<0, { 100 * PERCENT }>>,
    /// Maximum size of a request body that is copied, as it comes: the sizes of chunks count.
    /// Requests with a larger one are not copied, but counted.
    #[schemars(extend("default" = "64KiB"))]
    pub(crate) body: Key<Size<0, { 16 << 20 }>>,
    /// Maximum number of copies in flight; beyond it no copies are made.
    #[schemars(extend("default" = 100))]
    pub(crate) in_flight: Key<Whole<1, 100_000>>,
}

/// A redirect. A request that is already at the target does not match the route, so there is no
/// loop, except where a `regex`, a `map` or a `location` with `$path` or `$query` changes a URL
/// again and again. With status 303 a `location` may be the URL that was asked for, by another
/// method than GET or HEAD: its client goes on by GET. With `prefix = "/"` and `to = "/docs/"`
/// requests below `/docs` are not redirected, unless the host changes.
#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default, expecting = "a table")]
pub(crate) struct Redirect {
    /// Status code: 301, 302, 303, 307 or 308.
    #[schemars(extend("default" = 302))]
    pub(crate) status: Key<Whole<301, 308>>,
    /// The new scheme. The scheme of a request is the one that `trusted_proxies` report, if it came
    /// through one.
    pub(crate) scheme: Key<Text<Word<Scheme>>>,
    /// The new host, with a port if needed.
    pub(crate) host: Key<Text<Host>>,
    /// Changes the path.
    pub(crate) rewrite: Key<PathChange>,
    /// The whole URL to redirect to, with variables, instead of `scheme`, `host` and `rewrite`. If
    /// a map in it has no value, the route does not match.
    #[schemars(extend("examples" = ["https://example.com$path"], "minLength" = 1))]
    pub(crate) location: Key<Text<HeaderTemplate>>,
}

/// A scheme of URLs.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Scheme {
    Http,
    Https,
}

/// A fixed response.
#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default, expecting = "a table")]
pub(crate) struct FixedAnswer {
    /// The status.
    #[schemars(extend("default" = 200))]
    pub(crate) status: Key<Whole<200, 599>>,
    /// Headers by name. Default for `Content-Type`: plain text.
    pub(crate) headers: Key<Named<Text<HeaderTemplate>>>,
    /// The body. It is left out with the status 204, 205 or 304.
    pub(crate) body: Key<Text<Body>>,
}

/// Cross-origin resource sharing (CORS, the Fetch standard).
#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default, expecting = "a table")]
#[schemars(extend("required" = ["origins"]))]
pub(crate) struct Cors {
    /// Allowed origins: those of pages that may read responses.
    pub(crate) origins: Key<OneOrMore<OriginPattern>>,
    /// Methods that these pages may use besides GET, HEAD and POST.
    #[schemars(extend("examples" = [["PUT", "DELETE"]]))]
    pub(crate) methods: Key<OneOrMore<MethodName>>,
    /// Request headers that these pages may send besides the CORS-safelisted ones. Default: all
    /// that a preflight asks for.
    #[schemars(extend("examples" = [["X-Token"]]))]
    pub(crate) headers: Key<OneOrMore<HeaderName>>,
    /// Response headers that these pages may read besides the CORS-safelisted ones.
    #[schemars(extend("examples" = [["X-Total"]]))]
    pub(crate) exposed: Key<OneOrMore<HeaderName>>,
    /// Whether these pages may send cookies and read the responses
    /// (`Access-Control-Allow-Credentials`).
    #[schemars(extend("default" = false))]
    pub(crate) credentials: Key<bool>,
    /// How long browsers remember the response to a preflight (`Access-Control-Max-Age`), in whole
    /// seconds.
    #[schemars(extend("default" = "5s"))]
    pub(crate) max_age: Key<Seconds>,
}

/// A rate limit for each client address, or for each value of a header or a cookie.
#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default, expecting = "a table")]
#[schemars(extend("required" = ["rate"]))]
pub(crate) struct Limit {
    /// Maximum rate of requests of each client.
    pub(crate) rate: Key<PositiveRate>,
    /// Requests of a client that may come at once.
    #[schemars(extend("default" = 1))]
    pub(crate) burst: Key<Whole<1, 1_000_000>>,
    /// The header whose values have a limit each, instead of client addresses.
    pub(crate) header: Key<Text<HeaderName>>,
    /// The cookie whose values have a limit each, instead of client addresses. Not with `header`.
    pub(crate) cookie: Key<Text<Name>>,
    /// Maximum number of clients that are remembered at a time, for each address in `bind`; up to 8
    /// bytes each, taken as clients come.
    #[schemars(extend("default" = 65536))]
    pub(crate) keys: Key<Whole<8, 16_777_216>>,
}

/// A change of a path: `path`, or `prefix` and `to`, or `regex` and `to`, or `map`.
#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default, expecting = "a table")]
pub(crate) struct PathChange {
    /// The new path.
    pub(crate) path: Key<Text<NewPath>>,
    /// The prefix that is replaced, of whole segments. The rest of the path stays as it came, `%2F`
    /// too, unless it has `.` or `..`, or begins with `//`.
    pub(crate) prefix: Key<Text<PathPrefix>>,
    /// The regular expression whose first match is replaced, in the path as routes see it: decoded,
    /// `%2F` too, and without `.`, `..` and empty segments.
    pub(crate) regex: Key<Text<Expression>>,
    /// The replacement; `$1` stands for a group of the expression, `${1}` where a letter, a digit
    /// or `_` follows, `$$` for a dollar sign.
    pub(crate) to: Key<Text<NewPath>>,
    /// The map whose value is the new path. If it has no value the path stays, and a redirect that
    /// changes only the path does not match.
    pub(crate) map: Key<Text<Name>>,
}

/// Changes of header fields, in this order: `remove`, `set`, `add`. Values may have variables:
/// `"$scheme://$host$path"`.
#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default, expecting = "a table")]
pub(crate) struct HeaderEdits {
    /// Names of headers to remove.
    pub(crate) remove: Key<OneOrMore<HeaderName>>,
    /// Headers to set; they replace all headers of the same name.
    pub(crate) set: Key<Named<Text<HeaderTemplate>>>,
    /// Headers to add, besides those of the same name.
    pub(crate) add: Key<Named<Text<HeaderTemplate>>>,
}
