//! A request as the exchange needs it: the head to send, the body to come, what the client asked
//! for.
//!
//! Everything is taken from the head at once, so that neither the head's table nor the client's
//! bytes are kept while a server thinks.

use std::{net::SocketAddr, rc::Rc, sync::Arc};

use loadline_core::{
    compress::Offer,
    decide::ledger::ServerId,
    fleet::{Class, HashKey, HttpVersion, Service},
    rules::{Copies, HeaderEdits},
    time::Instant,
};
use loadline_http1::{
    BodyReader, ClientLines, Framing, Method, ParseError, RequestHead, RequestOptions, Version,
    write_request,
};

use crate::{
    cache::{Fetch, StandIn, Wanted},
    http::{
        compress, forward_auth,
        mirror::{Copy, CopyGuard},
        reply::Reply,
        request_id::RequestId,
        rules::{self, Changes, Check, Routed},
        sticky::Session,
    },
    io::buffer::Buffer,
    runtime::{
        random::hash,
        view::{ListenerContext, ServiceContext, View},
        worker::Worker,
    },
    telemetry::{
        access_log::{Asked, Log},
        spans::{Spans, Trace},
    },
    tls::ClientTls,
    upstream::private::PrivateConnection,
};

/// A request that is to be answered.
#[derive(Debug)]
pub(crate) struct Request {
    /// The head for the server, and the part of the body that came with the client's.
    pub(crate) text: Vec<u8>,
    /// The body beyond [`Request::text`].
    pub(crate) body: BodyReader,
    pub(crate) method: Method,
    pub(crate) version: Version,
    /// Whether the client wants to use the connection again.
    pub(crate) keep_alive: bool,
    /// Whether the client asks for another protocol.
    pub(crate) upgrade: bool,
    /// Whether its credentials are for the connection to the server.
    pub(crate) authenticates_connection: bool,
    /// The connection to a server that is its client's own.
    pub(crate) private: Option<Box<PrivateConnection>>,
    /// Whether [`Request::text`] has the whole request, so that it can be sent again.
    pub(crate) is_whole: bool,
    /// Whether so little is missing of its body that it is waited for, to be sent again.
    pub(crate) is_short: bool,
    /// Whether its client sends the body when it is asked to (`Expect: 100-continue`): until then
    /// the request can be sent again.
    pub(crate) expects_continue: bool,
    /// Index among the services of the plan.
    pub(crate) service: usize,
    /// Whether no service was asked for: `service` is used only to count it.
    pub(crate) has_no_service: bool,
    /// The response, where a rule gives it.
    pub(crate) reply: Option<Box<Reply>>,
    /// What is wrong with what came of it, where it is to be refused.
    pub(crate) refused: Option<ParseError>,
    /// What has to be right before anything is done.
    pub(crate) check: Option<Check>,
    /// Its path, if it may be an authority's of whose token another edge was told.
    pub(crate) challenge: Option<Box<[u8]>>,
    /// Its path as it came, for a store that sends its client on: where a rule puts another prefix
    /// in the place of its own.
    pub(crate) asked_path: Option<Box<[u8]>>,
    /// What a rule changes of the response.
    pub(crate) changes: Option<Changes>,
    /// The lines of CORS for a response of our own; empty where it has none.
    pub(crate) cors: Box<[u8]>,
    /// Whether the response may be compressed, where the service has that.
    pub(crate) offer: Offer,
    /// How much it matters, where a rule says so.
    pub(crate) class: Option<Class>,
    /// The copy of it that is being made.
    pub(crate) copy: Option<Box<Copy>>,
    /// Whether it is a mirrored copy.
    pub(crate) is_copy: bool,
    /// The server that its session is with.
    pub(crate) session: Session,
    /// What a consistent hash goes by.
    pub(crate) key: u64,
    /// Address of the client.
    pub(crate) client: SocketAddr,
    /// When its head was complete, and what it waited for since was there.
    pub(crate) received: Instant,
    /// Its fields for the access log.
    pub(crate) asked: Option<Box<Asked>>,
    /// The types that its client likes, where that decides which page it gets.
    pub(crate) accept: Vec<u8>,
    /// Its place in a trace.
    pub(crate) trace: Option<Box<Trace>>,
    /// The client's TLS handshake.
    pub(crate) tls: Option<Rc<ClientTls>>,
    /// The request to the cache, where it may be answered from there.
    pub(crate) wanted: Option<Box<Wanted>>,
    /// Whether its route has a cache, whose tags are not for clients.
    pub(crate) hides_tags: bool,
    /// The fetch that it serves, if it is the cache's own.
    pub(crate) fetch: Option<Rc<Fetch>>,
}

/// The client's side of a request that is read.
#[derive(Debug, Clone, Copy)]
pub(crate) struct From<'a> {
    /// The client, who may be behind other proxies.
    pub(crate) address: SocketAddr,
    /// The scheme that it came by.
    pub(crate) scheme: &'static str,
    /// Who has the connection.
    pub(crate) peer: &'a SocketAddr,
    /// About the peer, as they were when the connection began.
    pub(crate) lines: &'a ClientLines,
    pub(crate) tls: Option<&'a Rc<ClientTls>>,
    /// Whether what is said of the client is trusted.
    pub(crate) is_trusted: bool,
}

impl Request {
    /// What is stored for it, where it passes the cache.
    pub(crate) fn stand_in(&self) -> Option<&StandIn> {
        self.wanted.as_ref()?.stand_in.as_ref()
    }

    /// The same, to change it.
    pub(crate) fn stand_in_mut(&mut self) -> Option<&mut StandIn> {
        self.wanted.as_mut()?.stand_in.as_mut()
    }

    /// Takes a request whose head is complete out of `buffer`, which keeps what follows it. Where
    /// the part of the body that came with the head breaks a rule, nothing does.
    pub(crate) fn take(
        worker: &Worker,
        (view, listener_context): (&Rc<View>, &ListenerContext),
        head: &RequestHead,
        buffer: &mut Buffer,
        from: From<'_>,
    ) -> Box<Self> {
        let bytes = buffer.filled();
        let id = RequestId::new(&worker.random, (head, bytes), from.is_trusted);
        let mut routed = rules::route(worker, listener_context, (head, bytes), (from, &id));
        let cached = routed.rank.filter(|rank| listener_context.routes.caches(*rank));
        let mut text = server_head(worker, listener_context, (head, bytes), (from, cached));
        if let Some(Check::Service(check)) = &mut routed.check {
            prepare(check, view, (head, bytes), (&text, from));
        }
        routed.change((head, bytes), &mut text);
        let service = &view.plan.fleet.services[routed.service];
        routed.stop_in_maintenance(service, from, (head, bytes));
        let ask = |compression| compress::head::ask(compression, head, bytes, &mut text);
        let offer = service.compression.as_ref().map_or_else(Offer::default, ask);
        let trace = worker.shared.spans.as_ref().map(|spans| {
            let seen = (from.scheme, routed.rank);
            trace(worker, spans, listener_context, (head, bytes), (seen, &mut text))
        });
        let wanted = cached.and_then(|rank| {
            let asked = (rank, routed.service, from.scheme);
            wanted((view, listener_context), (head, bytes), &text, asked)
        });
        let begun = begin_body(listener_context, (head, bytes), &routed, &mut text);
        let refused = begun.as_ref().err().copied();
        if refused.is_some() {
            routed.refuse();
        }
        let (body, used) = begun.unwrap_or_else(|_| (head.body(), bytes.len()));
        let mut request = Box::new(Self {
            is_whole: body.is_finished() && refused.is_none(),
            is_short: is_short(head, &body, service.http_version),
            expects_continue: head.expects_continue(),
            text,
            body,
            method: head.method(),
            version: head.version(),
            keep_alive: head.keep_alive(),
            upgrade: head.upgrade(),
            authenticates_connection: head.authenticates_connection(),
            private: None,
            service: routed.service,
            has_no_service: routed.has_no_service,
            asked_path: routed.asked_path(&view.services[routed.service], (head, bytes)),
            asked: asked(worker, (head, bytes), (from.scheme, &id, &routed.user)),
            reply: routed.reply,
            refused,
            check: routed.check,
            challenge: routed.challenge,
            changes: routed.changes,
            cors: routed.cors,
            offer,
            class: routed.class,
            copy: None,
            is_copy: false,
            session: session(&view.services[routed.service], head, bytes),
            key: key(&view.services[routed.service], head, bytes, from.address),
            client: from.address,
            received: worker.shared.clock.now(),
            accept: accept(listener_context, service, (head, bytes)),
            trace,
            tls: from.tls.cloned(),
            wanted: wanted.filter(|_| refused.is_none()),
            hides_tags: cached.is_some(),
            fetch: None,
        });
        if let Some(copies) = routed.copies {
            let seen = (head, &bytes[..used]);
            request.copy = request.copy(&copies, (worker, view), seen, (from, &id));
        }
        buffer.consume(used);
        request
    }

    /// Goes over the connection that is its client's own, if there is one. What is said there is
    /// for nobody else: the cache has no part in it.
    pub(crate) fn go_over(&mut self, private: Option<Box<PrivateConnection>>) {
        self.private = private;
        if self.private.is_some() || self.authenticates_connection {
            self.wanted = self.wanted.take().filter(|wanted| !wanted.is_retrieval());
        }
    }

    /// The server that it is to go to whatever the policy says: that of the connection that is its
    /// client's own, or that of its session.
    pub(crate) fn stick(&self) -> Option<ServerId> {
        self.private.as_ref().map(|private| private.server()).or(self.session.server())
    }

    /// A request of our own that is made for this one: a GET of the same client for the same
    /// service, with this head and no body. No rule, log or span sees it.
    pub(crate) fn on_behalf(&self, text: Vec<u8>) -> Self {
        Self {
            text,
            body: BodyReader::new(Framing::None),
            method: Method::Get,
            version: Version::Http11,
            keep_alive: true,
            upgrade: false,
            private: None,
            is_whole: true,
            is_short: false,
            expects_continue: false,
            reply: None,
            refused: None,
            check: None,
            challenge: None,
            asked_path: None,
            changes: None,
            cors: Box::default(),
            offer: Offer::default(),
            class: None,
            copy: None,
            is_copy: false,
            session: Session::New,
            asked: None,
            accept: Vec::new(),
            trace: None,
            tls: self.tls.clone(),
            wanted: None,
            hides_tags: false,
            fetch: None,
            ..*self
        }
    }

    /// Begins a copy, where one may be made; `bytes` are what came of the request so far. What
    /// becomes another protocol cannot be copied.
    #[cold]
    fn copy(
        &self,
        copies: &Arc<Copies>,
        (worker, view): (&Worker, &Rc<View>),
        (head, bytes): (&RequestHead, &[u8]),
        (from, id): (From<'_>, &RequestId<'_>),
    ) -> Option<Box<Copy>> {
        if self.upgrade {
            return None;
        }
        let early = bytes.len() - head.head_len();
        let length = match head.framing() {
            Framing::Length(length) => length,
            _ => early as u64,
        };
        let fate = CopyGuard::of(copies, view, length)?;
        let service = copies.mirror.service;
        let mut text = worker.buffers.take_text();
        text.extend_from_slice(&self.text);
        let request = Self {
            method: self.method,
            version: self.version,
            is_copy: true,
            service,
            session: session(&view.services[service], head, bytes),
            key: key(&view.services[service], head, bytes, from.address),
            asked: asked(
                worker,
                (head, bytes),
                (from.scheme, id, self.asked.as_ref().map_or(b"", |asked| asked.user())),
            ),
            trace: self.trace.as_ref().map(|trace| trace.of_copy()),
            ..self.on_behalf(text)
        };
        let room = usize::try_from(copies.mirror.body_max.get()).unwrap_or(usize::MAX);
        Some(Copy::new(request, view, room.saturating_sub(early), fate))
    }

    /// Changes the head that is for the server, and that of its copy.
    pub(crate) fn change_head(&mut self, edits: &HeaderEdits) {
        let copy = self.copy.as_mut().map(|copy| copy.text());
        for text in [&mut self.text].into_iter().chain(copy) {
            let end = text.windows(4).position(|bytes| bytes == b"\r\n\r\n");
            let body = text.split_off(end.map_or(text.len(), |at| at + 4));
            rules::change_fields(text, edits);
            text.extend_from_slice(&body);
        }
    }

    /// Whether it is a copy whose response nobody waits for, not even the cache.
    pub(crate) const fn is_mirrored(&self) -> bool {
        self.is_copy && self.fetch.is_none()
    }

    /// Whether it may be sent again although a server may have seen it (RFC 9110, 9.2.2), as long
    /// as nothing of the body has been read that is not at hand any more.
    pub(crate) fn is_repeatable(&self) -> bool {
        let is_at_hand = self.is_whole || self.is_short || self.expects_continue;
        is_at_hand && self.method.is_idempotent()
    }
}

/// The head as a server gets it, before rules change it.
fn server_head(
    worker: &Worker,
    listener_context: &ListenerContext,
    (head, bytes): (&RequestHead, &[u8]),
    (from, cached): (From<'_>, Option<usize>),
) -> Vec<u8> {
    let mut text = worker.buffers.take_text();
    let (upgrade, trust_client) = (head.upgrade(), from.is_trusted);
    let client = trust_client.then_some((from.address.ip(), from.scheme));
    let options = RequestOptions {
        upgrade,
        trust_client,
        client,
        anew: cached.is_some(),
        ..RequestOptions::default()
    };
    write_head(&mut text, bytes, head, listener_context, (from.lines, from.peer), options);
    if let Some(header) = &listener_context.subject_header {
        let subject = from.tls.map_or("", |tls| &tls.subject);
        rules::hand_on_subject(&mut text, header, subject);
    }
    text
}

/// Writes the head with the lines about the client that the listener wants by now.
///
/// It has a comparison that whoever calls it need not have: the profile by which packages are
/// optimised holds for a function as long as its branches stay.
#[inline(never)]
fn write_head(
    text: &mut Vec<u8>,
    bytes: &[u8],
    head: &RequestHead,
    listener_context: &ListenerContext,
    (lines, peer): (&ClientLines, &SocketAddr),
    options: RequestOptions<'_>,
) {
    let rules = listener_context.rules;
    if lines.rules() == rules {
        return write_request(text, bytes, head, lines, options);
    }
    // The connection is older than the last change of these.
    let lines = lines.by(rules, peer.ip(), listener_context.scheme());
    write_request(text, bytes, head, &lines, options);
}

/// Makes the question to the service that is asked whether the request is let in.
fn prepare(
    check: &mut forward_auth::Check,
    view: &View,
    (head, bytes): (&RequestHead, &[u8]),
    (text, from): (&[u8], From<'_>),
) {
    let key = key(&view.services[check.auth.service], head, bytes, from.address);
    check.prepare(text, key, (from, head.host(bytes)));
}

/// Reads the body of a request that the rule at `rank` decided; an error if it is too long.
fn body(
    listener_context: &ListenerContext,
    head: &RequestHead,
    rank: Option<usize>,
) -> Result<BodyReader, ParseError> {
    match listener_context.max_body(rank) {
        Some(max) => head.body().limited(max),
        None => Ok(head.body()),
    }
}

/// Appends what came of the body with the head to `text`: what reads the rest, and how long the
/// part of the message is that has come.
fn begin_body(
    listener_context: &ListenerContext,
    (head, bytes): (&RequestHead, &[u8]),
    routed: &Routed,
    text: &mut Vec<u8>,
) -> Result<(BodyReader, usize), ParseError> {
    let mut body = body(listener_context, head, routed.rank)?;
    if head.framing() == Framing::Chunked {
        let hidden = routed.hidden_trailers(listener_context.subject_header.as_ref());
        body = body.without_trailers(hidden);
    }
    let early = &bytes[head.head_len()..];
    let progress = body.feed(early)?;
    text.extend_from_slice(&early[..progress.passed]);
    if progress.has_trailers() {
        body.write_trailers(text);
    }
    Ok((body, head.head_len() + progress.consumed))
}

/// Whether what is missing of the body of a request is short that may be sent again: an idempotent
/// one, and any to servers of HTTP/2, which say of some that they have not been processed (RFC
/// 9113, 8.7). Who waits for `100 Continue` sends nothing before.
fn is_short(head: &RequestHead, body: &BodyReader, servers: HttpVersion) -> bool {
    let is_counted = matches!(head.framing(), Framing::Length(_)) && !head.expects_continue();
    let is_missing = (1..=SHORT_BODY).contains(&body.payload_ahead());
    let is_repeatable = head.method().is_idempotent() || servers == HttpVersion::Http2;
    is_counted && is_missing && is_repeatable
}

/// The types that a client likes, where there is a choice.
fn accept(
    listener_context: &ListenerContext,
    service: &Service,
    (head, bytes): (&RequestHead, &[u8]),
) -> Vec<u8> {
    if !listener_context.error_pages.has_choice() && !service.error_pages.has_choice() {
        return Vec::new();
    }
    head.fields().get(bytes, "accept").unwrap_or_default().to_vec()
}

/// What the access log tells of a head, where there is one.
fn asked(
    worker: &Worker,
    from: (&RequestHead, &[u8]),
    told: (&'static str, &RequestId<'_>, &[u8]),
) -> Option<Box<Asked>> {
    worker.shared.log.as_ref().map(|log| asked_by(worker, log, from, told))
}

#[cold]
fn asked_by(
    worker: &Worker,
    log: &Log,
    (head, bytes): (&RequestHead, &[u8]),
    told: (&'static str, &RequestId<'_>, &[u8]),
) -> Box<Asked> {
    let mut asked = worker.log.take_asked();
    asked.take(&log.settings, head, bytes, told);
    asked
}

/// The trace of a request that the rule at `rank` decided, written into the head for its server.
#[cold]
fn trace(
    worker: &Worker,
    spans: &Spans,
    listener_context: &ListenerContext,
    from: (&RequestHead, &[u8]),
    ((scheme, rank), text): ((&'static str, Option<usize>), &mut Vec<u8>),
) -> Box<Trace> {
    let rule =
        rank.and_then(|rank| listener_context.routes.rules().get(rank)).map(|(_, rule)| rule);
    Trace::begin(spans, &worker.random, from, (scheme, rule), text)
}

/// What the request asks of the cache of the rule at `rank`.
fn wanted(
    (view, listener_context): (&Rc<View>, &ListenerContext),
    from: (&RequestHead, &[u8]),
    text: &[u8],
    (rank, service, scheme): (usize, usize, &'static str),
) -> Option<Box<Wanted>> {
    let service = &view.services[service].name;
    let who = listener_context.subject_header.as_ref();
    Wanted::of(from, text, (&listener_context.routes, rank), (scheme, service), who)
}

/// What the request says of its session.
fn session(service_context: &ServiceContext, head: &RequestHead, bytes: &[u8]) -> Session {
    service_context.sessions.as_ref().map_or(Session::New, |sessions| sessions.find(head, bytes))
}

/// The hash of what the service hashes; 0 where it hashes nothing.
fn key(
    service_context: &ServiceContext,
    head: &RequestHead,
    bytes: &[u8],
    client: SocketAddr,
) -> u64 {
    let of_client = || match client.ip().to_canonical() {
        std::net::IpAddr::V4(address) => hash(&address.octets()),
        std::net::IpAddr::V6(address) => hash(&address.octets()),
    };
    match &service_context.hash {
        None => 0,
        Some(HashKey::ClientAddress) => of_client(),
        Some(HashKey::Path) => hash(head.path(bytes)),
        Some(HashKey::Header(name)) => head.fields().get(bytes, name).map_or_else(of_client, hash),
    }
}

/// As much as nginx holds of a body in memory.
const SHORT_BODY: u64 = 16 << 10;
