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
    quantity::{PERCENT, PositiveRate, Share, Size, Time},
    word::Word,
};

/// A route: all of its conditions have to match, of a list in a condition one value. Its action is
/// one of `service`, `split`, `redirect`, `answer` and `deny`.
#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default, expecting = "a table")]
pub(crate) struct Route {
    /// Routes with a higher priority are matched first; equal ones in the order of the file.
    #[schemars(extend("default" = 0))]
    pub(crate) priority: Key<Whole<0, 1_000_000>>,
    /// The host of the request, without its port.
    pub(crate) host: Key<OneOrMore<HostPattern>>,
    /// The path, decoded and without `.` and `..`. With `/` at its end it is that path, also
    /// without the slash, and all below it; without, that path alone. An expression has to match
    /// all of it.
    pub(crate) path: Key<OneOrMore<PathPattern>>,
    /// The method.
    pub(crate) method: Key<OneOrMore<MethodName>>,
    /// Headers by name, all of which have to be there.
    pub(crate) header: Key<Named<OneOrMore<ValuePattern>>>,
    /// Query parameters by name, all of which have to be there.
    pub(crate) query: Key<Named<OneOrMore<ValuePattern>>>,
    /// Cookies by name, all of which have to be there.
    pub(crate) cookie: Key<Named<OneOrMore<ValuePattern>>>,
    /// The address of the client.
    pub(crate) source: Key<OneOrMore<NetworkRange>>,
    /// A file with further addresses and networks of `source`, one a line; `#` begins a comment. It
    /// is read again at a reload. With an empty file the route matches nobody.
    pub(crate) source_file: Key<Text<FilePath>>,
    /// The service that gets the request.
    pub(crate) service: Key<Text<Name>>,
    /// Services that share the requests, with their weights.
    #[schemars(extend("examples" = [{ "web": 95, "canary": 5 }]))]
    pub(crate) split: Key<Named<Whole<0, 1000>>>,
    /// Sends copies to another service as well, whose responses are discarded. No client waits for
    /// a copy or sees its failure. The Host header is unchanged.
    pub(crate) mirror: Key<TextOr<Name, Mirror>>,
    /// Stores responses and answers from memory: `true` for the defaults, or a table.
    #[schemars(extend("default" = false))]
    pub(crate) cache: Key<TableOrSwitch<RouteCache>>,
    /// CORS: which pages of other origins may read responses. Preflights are answered here; the
    /// route has to match `OPTIONS`. CORS headers of servers are replaced. Responses of loadline's
    /// own (401, 429, 502, 503) have them too; those to requests of no route (400, 404, 431) have
    /// none.
    pub(crate) cors: Key<Cors>,
    /// Redirects the client. Parts of the URL that are not given stay as requested.
    pub(crate) redirect: Key<Redirect>,
    /// Sends a fixed response.
    pub(crate) answer: Key<FixedAnswer>,
    /// Denies the request with this status.
    pub(crate) deny: Key<Whole<400, 599>>,
    /// Priority class of these requests, where not all can be served. Default: the class of the
    /// service.
    pub(crate) class: Key<Text<Word<Class>>>,
    /// Rate limit; requests above it get 429.
    pub(crate) limit: Key<Limit>,
    /// Maximum size of a request body. A longer one gets 413. Default: that of the listener.
    pub(crate) max_body: Key<Size<0, { 1 << 50 }>>,
    /// Basic authentication: who may ask. `false` lets everybody in. Default: that of the listener.
    pub(crate) basic_auth: Key<TableOrFalse<BasicAuth>>,
    /// Tokens of JWT: which bearers may ask, instead of `basic_auth`. `false` lets everybody in.
    /// Default: that of the listener.
    pub(crate) jwt: Key<TableOrFalse<Jwt>>,
    /// Forward authentication: a service says who may ask, instead of `basic_auth` and `jwt`.
    /// `false` lets everybody in. Default: that of the listener.
    pub(crate) forward_auth: Key<TableOrFalse<ForwardAuth>>,
    /// Changes the path on the way to a server. The query stays.
    pub(crate) rewrite: Key<PathChange>,
    /// Changes the headers of the request on the way to a server.
    pub(crate) request_headers: Key<HeaderEdits>,
    /// Changes the headers of a server's response.
    pub(crate) answer_headers: Key<HeaderEdits>,
}

/// Which requests are copied, for which service.
#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default, expecting = "a table")]
#[schemars(extend("required" = ["service"]))]
pub(crate) struct Mirror {
    /// The service that gets the copies.
    pub(crate) service: Key<Text<Name>>,
    /// The part of the requests that is copied, drawn at random.
    #[schemars(extend("default" = "100%"))]
    pub(crate) share: Key<Share<0, { 100 * PERCENT }>>,
    /// Maximum size of a copied body. Requests with a larger one are not copied, and counted.
    #[schemars(extend("default" = "64KiB"))]
    pub(crate) body: Key<Size<0, { 16 << 20 }>>,
    /// Maximum number of copies in flight; further ones are not made.
    #[schemars(extend("default" = 100))]
    pub(crate) in_flight: Key<Whole<1, 100_000>>,
}

/// A redirect. The route does not match what came where its parts lead, so they make no loop; only
/// what a `regex` or a `map` makes of a path may match again. With `prefix = "/"` and
/// `to = "/docs/"` what is below `/docs` stays, unless it is led to another host.
#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default, expecting = "a table")]
pub(crate) struct Redirect {
    /// 301, 302, 303, 307 or 308.
    #[schemars(extend("default" = 302))]
    pub(crate) status: Key<Whole<301, 308>>,
    /// The scheme. Requests came by the one that `trusted_proxies` report for clients behind them.
    pub(crate) scheme: Key<Text<Word<Scheme>>>,
    /// The host, with a port if need be.
    pub(crate) host: Key<Text<Host>>,
    /// Changes the path.
    pub(crate) rewrite: Key<PathChange>,
    /// All of where to, with variables, instead of the parts. Where a map in it has no value the
    /// route does not match.
    #[schemars(extend("examples" = ["https://example.com$path"]))]
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
    /// Headers by name. `Content-Type` is plain text if omitted.
    pub(crate) headers: Key<Named<Text<HeaderTemplate>>>,
    /// The body. It is left out with 204, 205 and 304, which have none.
    pub(crate) body: Key<Text<Body>>,
}

/// Cross-origin resource sharing, as browsers understand it (the Fetch standard).
#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default, expecting = "a table")]
#[schemars(extend("required" = ["origins"]))]
pub(crate) struct Cors {
    /// Origins of these pages.
    pub(crate) origins: Key<OneOrMore<OriginPattern>>,
    /// Methods that they may use beside GET, HEAD and POST.
    #[schemars(extend("examples" = [["PUT", "DELETE"]]))]
    pub(crate) methods: Key<OneOrMore<MethodName>>,
    /// Headers that they may send beside the simple ones. Default: all that they ask for.
    #[schemars(extend("examples" = [["X-Token"]]))]
    pub(crate) headers: Key<OneOrMore<HeaderName>>,
    /// Headers of responses that they may read beside the simple ones.
    #[schemars(extend("examples" = [["X-Total"]]))]
    pub(crate) exposed: Key<OneOrMore<HeaderName>>,
    /// Whether they may send cookies and read what comes then.
    #[schemars(extend("default" = false))]
    pub(crate) credentials: Key<bool>,
    /// How long browsers remember the response to a preflight, in whole seconds.
    #[schemars(extend("default" = "5s"))]
    pub(crate) max_age: Key<Time>,
}

/// A rate limit for each client address, or for each value of a header or a cookie.
#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default, expecting = "a table")]
#[schemars(extend("required" = ["rate"]))]
pub(crate) struct Limit {
    /// Requests per second of each client.
    pub(crate) rate: Key<PositiveRate>,
    /// Requests of a client that may come at once.
    #[schemars(extend("default" = 1))]
    pub(crate) burst: Key<Whole<1, 1_000_000>>,
    /// The header whose values have a limit each.
    pub(crate) header: Key<Text<HeaderName>>,
    /// The cookie whose values have a limit each; not together with `header`.
    pub(crate) cookie: Key<Text<Name>>,
    /// Maximum number of clients remembered at a time; 8 bytes each.
    #[schemars(extend("default" = 65536))]
    pub(crate) keys: Key<Whole<8, 16_777_216>>,
}

/// A change of a path: `path`, or `prefix` and `to`, or `regex` and `to`, or `map`.
#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default, expecting = "a table")]
pub(crate) struct PathChange {
    /// The new path.
    pub(crate) path: Key<Text<NewPath>>,
    /// The prefix that is replaced, up to the border of a segment. The rest of the path stays as it
    /// came, `%2F` too, unless it has `.` or `..`, or begins with `//`.
    pub(crate) prefix: Key<Text<PathPrefix>>,
    /// The expression of which the first match is replaced, in the path as routes see it: decoded,
    /// `%2F` too, and without `.`, `..` and empty segments.
    pub(crate) regex: Key<Text<Expression>>,
    /// The replacement; `$1` stands for a group of the expression, `${1}` where a letter, a digit
    /// or `_` follows, `$$` for a dollar sign.
    pub(crate) to: Key<Text<NewPath>>,
    /// The map whose value is the new path; where it has none the path stays, and a redirect that
    /// changes the path alone does not match.
    pub(crate) map: Key<Text<Name>>,
}

/// Changes of header fields, in this order: `remove`, `set`, `add`. Values may have variables:
/// `"$scheme://$host$path"`.
#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default, expecting = "a table")]
pub(crate) struct HeaderEdits {
    /// Names of headers to remove.
    pub(crate) remove: Key<OneOrMore<HeaderName>>,
    /// Headers to set, which replace all of their name.
    pub(crate) set: Key<Named<Text<HeaderTemplate>>>,
    /// Headers to add to those of their name.
    pub(crate) add: Key<Named<Text<HeaderTemplate>>>,
}
