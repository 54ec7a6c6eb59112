//! What a request asks of the cache: its key, and what its rule says.

use std::sync::Arc;

use loadline_core::{
    cache::{
        ByteRange, Field, Fields, Request, Response, Vary, changes_unkeyed, invalidated_keys,
        is_safe, keyed_fields, primary_key, strong_validator, validating_fields,
    },
    rules::{Caching, Routes, Rule},
};
use loadline_http1::{Framing, Method, RequestHead};
use smallvec::SmallVec;

use super::{
    answer::write,
    object::{Lines, Object, fields},
    store::Key,
    sweeps::Closed,
};
use crate::runtime::random::hash;

/// A request that the cache may answer.
#[derive(Clone, Debug)]
pub(crate) struct Wanted {
    /// Key of its URL.
    pub(crate) url: Key,
    /// What tells responses apart beside the URL: the service, the rule where it changes requests,
    /// the headers of the key, and those by which rule and listener tell servers who asks.
    pub(crate) variant: Arc<[u8]>,
    scheme: &'static str,
    authority: Vec<u8>,
    /// Path and query, without what makes no difference.
    target: Vec<u8>,
    routes: Routes,
    rank: usize,
    /// The method, if it is not for the cache but may invalidate what is stored.
    unsafe_method: Option<Vec<u8>>,
    /// The slice that alone is wanted.
    pub(crate) part: Option<SliceRange>,
    pub(crate) extent: Extent,
    /// The stored response to fall back on, if it passes the cache.
    pub(crate) stand_in: Option<StandIn>,
}

/// What was stored for a request that passes the cache, which is given to its client where servers
/// fail, and freshened by the response if it is a `HEAD`.
#[derive(Clone, Debug)]
pub(crate) struct StandIn {
    pub(crate) object: Arc<Object>,
    /// When it passed.
    pub(crate) since: Closed,
    /// A server failed, and its response was given up for this.
    pub(crate) is_due: bool,
}

/// How much of a response servers are asked for.
#[derive(Clone, Debug)]
pub(crate) enum Extent {
    /// All of it, or a slice.
    Whole,
    /// The client's own range, of what this tells apart.
    Own(Arc<[u8]>),
    /// What is behind the beginning of it that is stored.
    Rest(Arc<Object>),
}

/// A slice of a response.
#[derive(Clone, Debug)]
pub(crate) struct SliceRange {
    pub(crate) range: ByteRange,
    /// How long the response is, as its first slice says.
    pub(crate) complete: u64,
    /// What the response varies by, as its first slice says.
    pub(crate) vary: Vary,
}

impl Wanted {
    /// What a request that came with this head, and goes on as `text`, asks of the cache by the
    /// rule at `rank`, or may make invalid there; none if neither. `who` is the header by which
    /// the listener tells servers who asks.
    pub(crate) fn of(
        (head, bytes): (&RequestHead, &[u8]),
        text: &[u8],
        (routes, rank): (&Routes, usize),
        (scheme, service): (&'static str, &Arc<[u8]>),
        who: Option<&String>,
    ) -> Option<Box<Self>> {
        let (_, rule) = routes.rules().get(rank)?;
        let caching = rule.cache.as_ref()?;
        let is_retrieval = is_for_cache(head);
        let method = head.method_text(bytes);
        if is_safe(method) && !is_retrieval {
            return None;
        }
        let mut target = Vec::new();
        caching.query.write(head.path(bytes), &mut target);
        let authority = head.host(bytes).unwrap_or_default().to_vec();
        let mut wanted = Self {
            url: Key::default(),
            variant: variant((rule, caching), service, text, who),
            scheme,
            authority,
            target,
            routes: routes.clone(),
            rank,
            unsafe_method: (!is_retrieval).then(|| method.to_vec()),
            part: None,
            extent: Extent::Whole,
            stand_in: None,
        };
        wanted.url = primary_key(&wanted.request(&[])).into();
        Some(Box::new(wanted))
    }

    /// A slice of what it asks for.
    pub(crate) fn slice(&self, part: SliceRange) -> Self {
        Self { variant: self.slice_variant(part.range), part: Some(part), ..self.clone() }
    }

    /// The part of it that the client's own range brings.
    pub(crate) fn own_range(&self) -> Self {
        let variant = [&self.variant, OWN_RANGE].concat().into();
        Self { variant, extent: Extent::Own(self.variant.clone()), ..self.clone() }
    }

    /// The whole of it, of which this beginning is stored.
    pub(crate) fn completing(&self, stored: &Arc<Object>) -> Self {
        Self { extent: Extent::Rest(stored.clone()), ..self.clone() }
    }

    /// The beginning that is stored, where the rest of it is asked for.
    pub(crate) const fn beginning(&self) -> Option<&Arc<Object>> {
        match &self.extent {
            Extent::Rest(stored) => Some(stored),
            Extent::Whole | Extent::Own(_) => None,
        }
    }

    /// What tells the whole response apart.
    pub(super) const fn whole_variant(&self) -> &Arc<[u8]> {
        match &self.extent {
            Extent::Own(variant) => variant,
            Extent::Whole | Extent::Rest(_) => &self.variant,
        }
    }

    /// Tells the slice with this range from the others.
    pub(crate) fn slice_variant(&self, range: ByteRange) -> Arc<[u8]> {
        let name = format!("\n{}-{}", range.first, range.last);
        [&self.variant, name.as_bytes()].concat().into()
    }

    /// Whether the cache may answer it.
    pub(crate) const fn is_retrieval(&self) -> bool {
        self.unsafe_method.is_none()
    }

    /// The URLs of which a response makes invalid what is stored.
    pub(crate) fn invalidated(&self, status: u16, fields: &[Field<'_>]) -> Vec<Vec<u8>> {
        let Some(method) = &self.unsafe_method else { return Vec::new() };
        let request = Request { method, ..self.request(&[]) };
        invalidated_keys(&request, &Response { status, fields: Fields(fields) })
    }

    /// What the rule says of the cache.
    pub(crate) fn caching(&self) -> &Caching {
        static DEFAULT: std::sync::LazyLock<Caching> = std::sync::LazyLock::new(Caching::default);
        self.rule().and_then(|rule| rule.cache.as_ref()).unwrap_or(&DEFAULT)
    }

    fn rule(&self) -> Option<&Rule> {
        self.routes.rules().get(self.rank).map(|(_, rule)| rule)
    }

    /// What servers get of the fields of a request for it: of those that change responses the ones
    /// that the rule writes, or has in its key.
    fn passed_on<'a>(&'a self, request: Fields<'a>) -> impl Iterator<Item = Field<'a>> {
        let (rule, keyed) = (self.rule(), &self.caching().headers);
        keyed_fields(request, move |name| {
            let is_keyed = keyed.iter().any(|other| name.eq_ignore_ascii_case(other.as_bytes()));
            if is_keyed { usize::MAX } else { rule.map_or(0, |rule| rule.request.count(name)) }
        })
    }

    /// The line that tells a client why its response is a server's, of a request that passes the
    /// cache; empty where clients are not told.
    pub(crate) fn passed_line(&self) -> &'static [u8] {
        match (self.caching().status, self.is_retrieval()) {
            (false, _) => b"",
            (true, true) => b"Cache-Status: loadline; fwd=miss\r\n",
            (true, false) => b"Cache-Status: loadline; fwd=method\r\n",
        }
    }

    /// The request as the rules of the cache see it, with these fields.
    pub(crate) fn request<'a>(&'a self, fields: &'a [Field<'a>]) -> Request<'a> {
        Request {
            method: b"GET",
            scheme: self.scheme.as_bytes(),
            authority: &self.authority,
            target: &self.target,
            fields: Fields(fields),
            has_content: false,
        }
    }
}

/// Whether the cache may answer a request with this head.
pub(crate) const fn is_for_cache(head: &RequestHead) -> bool {
    let is_bare = matches!(head.framing(), Framing::None | Framing::Length(0));
    matches!(head.method(), Method::Get | Method::Head) && is_bare && !head.upgrade()
}

/// The fields of a request that goes on as `text`, as the rules of the cache see them.
pub(crate) fn request_fields(text: &[u8]) -> Lines<'_> {
    let mut all = fields(text);
    all.retain(|field| !changes_unkeyed(field.name));
    all
}

/// Appends the head of the request that brings a whole response: that of the client, as it goes on
/// in `text`, without its conditions, its range, what it says itself that changes responses and is
/// not part of the key, and the parameters that make no difference. Where something is `stored`, it
/// asks whether that is still right; of a slice, for its range; of a part, for the client's own
/// range, or for what is behind the beginning that is stored.
pub(crate) fn write_fetch(
    text: &[u8],
    wanted: &Wanted,
    stored: Option<&[Field<'_>]>,
    out: &mut Vec<u8>,
) {
    write_request_line(b"GET", text, wanted, out);
    let all = fields(text);
    let own: Lines<'_> = wanted.passed_on(Fields(&all)).collect();
    for field in validating_fields(Fields(&own), Fields(stored.unwrap_or_default())) {
        write(out, field.name, field.value);
    }
    if let Some(SliceRange { range: ByteRange { first, last }, .. }) = wanted.part {
        write(out, b"Range", format!("bytes={first}-{last}").as_bytes());
    }
    write_extent(Fields(&own), wanted, out);
    out.extend_from_slice(b"\r\n");
}

/// Appends the fields that ask for less than the whole.
fn write_extent(own: Fields<'_>, wanted: &Wanted, out: &mut Vec<u8>) {
    match &wanted.extent {
        Extent::Whole => {}
        Extent::Own(_) => {
            let asks = own.iter().filter(|field| field.is("range") || field.is("if-range"));
            asks.for_each(|field| write(out, field.name, field.value));
        }
        Extent::Rest(stored) => {
            let fields = stored.response.fields();
            let validator = strong_validator(Fields(&fields), stored.metadata.received);
            let rest = stored.part().and_then(|part| part.rest());
            if let (Some(rest), Some(validator)) = (rest, validator) {
                write(out, b"Range", format!("bytes={}-", rest.first).as_bytes());
                write(out, b"If-Range", validator);
            }
        }
    }
}

/// Appends the head of a request that passes the cache: that of the client, as it goes on in
/// `text`, without what it says itself that changes responses and is not part of the key, and the
/// parameters that make no difference. Its response may change what is stored, or one like it may
/// be stored later.
pub(crate) fn write_passed(text: &[u8], wanted: &Wanted, out: &mut Vec<u8>) {
    let method = text.split(|byte| *byte == b' ').next().unwrap_or_default();
    write_request_line(method, text, wanted, out);
    let all = fields(text);
    wanted.passed_on(Fields(&all)).for_each(|field| write(out, field.name, field.value));
    out.extend_from_slice(b"\r\n");
}

/// Appends the first line of a head that goes on as `text`.
fn write_request_line(method: &[u8], text: &[u8], wanted: &Wanted, out: &mut Vec<u8>) {
    let line = text.split(|byte| *byte == b'\n').next().unwrap_or_default();
    let target = line.split(|byte| *byte == b' ').nth(1).unwrap_or(b"/");
    out.extend_from_slice(method);
    out.push(b' ');
    wanted.caching().query.write(target, out);
    out.extend_from_slice(b" HTTP/1.1\r\n");
}

/// Tells the part of a response that a client's own range brought from the whole.
const OWN_RANGE: &[u8] = b"\nrange";

fn variant(
    (rule, caching): (&Rule, &Caching),
    service: &Arc<[u8]>,
    text: &[u8],
    who: Option<&String>,
) -> Arc<[u8]> {
    let changes_nothing = rule.path.is_none() && rule.request.is_empty();
    if changes_nothing && caching.headers.is_empty() && who.is_none() {
        return service.clone();
    }
    let mut variant = service.to_vec();
    if !changes_nothing {
        let changes = format!("{:?}{:?}", rule.path, rule.request);
        variant.extend_from_slice(&hash(changes.as_bytes()).to_be_bytes());
    }
    let of_clients = rule.request.fields().filter(|(_, value)| value.tells_clients_apart());
    let names: SmallVec<[&String; 4]> =
        caching.headers.iter().chain(of_clients.map(|(name, _)| name)).chain(who).collect();
    if !names.is_empty() {
        let fields = fields(text);
        for name in names {
            // Without it the value of one header would select what was stored for another's.
            variant.push(b'\n');
            variant.extend_from_slice(name.to_ascii_lowercase().as_bytes());
            variant.push(b':');
            for value in Fields(&fields).all(name) {
                variant.extend_from_slice(value);
                variant.push(b',');
            }
        }
    }
    variant.into()
}
