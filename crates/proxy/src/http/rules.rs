//! Applies the rules of a listener to a request: the action, and changes of the request.
//!
//! Everything is decided while the head is at hand. A request that a rule answers goes through its
//! exchange like any other, so that it is counted and logged, but never to a server.

use std::{
    hash::{BuildHasher, RandomState},
    io::Write as _,
    rc::Rc,
    sync::{Arc, LazyLock},
};

use loadline_core::{
    fleet::{Class, Service},
    jwt::{Claims, Jwt},
    rules::{
        self, Action, Asked, Authentication, BasicAuth, ClientKey, Copies, Cors, DirectResponse,
        HeaderEdits, Headers, KeyedVariables, LimitKey, Matched, PathChange, Routes, Rule,
        Template, Variable, Variables, any_cookie, normal,
    },
    time::Duration,
};
use loadline_http1::{Fields, Forwarded, RequestHead};

use crate::{
    cache::is_for_cache,
    http::{
        basic_auth, forward_auth,
        jwt::{self, Pending, Verdict},
        reply::Reply,
        request::From,
        request_id::RequestId,
    },
    runtime::{
        view::{ListenerContext, ServiceContext},
        worker::Worker,
    },
    tls::ClientTls,
};

/// What is to be done with a request.
#[derive(Debug, Default)]
pub(crate) struct Routed {
    /// Index among the services of the plan.
    pub(crate) service: usize,
    /// Whether no service was asked for: `service` is used only to count it.
    pub(crate) has_no_service: bool,
    /// The response, where no server is asked.
    pub(crate) reply: Option<Box<Reply>>,
    /// What has to be right before anything is done.
    pub(crate) check: Option<Check>,
    /// Who is asking, or says to be where [`Routed::check`] has to be right; empty for anybody.
    pub(crate) user: Vec<u8>,
    /// Headers that servers do not get from clients.
    pub(crate) hidden: Vec<String>,
    /// Its path, if it may be an authority's of whose token another edge was told.
    pub(crate) challenge: Option<Box<[u8]>>,
    /// The rule, where it has something to change.
    pub(crate) changes: Option<Changes>,
    /// The lines of CORS for a response of our own; empty where it has none.
    pub(crate) cors: Box<[u8]>,
    /// How much it matters, where the rule says so.
    pub(crate) class: Option<Class>,
    /// Where a copy of it goes.
    pub(crate) copies: Option<Arc<Copies>>,
    /// The place of the rule in the order in which rules are asked.
    pub(crate) rank: Option<usize>,
}

/// A check that takes time.
#[derive(Debug)]
pub(crate) enum Check {
    /// A password, whose hash is slow to compute.
    Password(Box<basic_auth::Check>),
    /// A token, whose key may have to be fetched.
    Token(Box<Pending>),
    /// What a service says.
    Service(Box<forward_auth::Check>),
}

/// What a rule changes of a request and of its response.
#[derive(Debug)]
pub(crate) struct Changes {
    routes: Routes,
    /// Its place in the order in which rules are asked.
    rank: usize,
    /// What a map makes of the path.
    path: Option<PathChange>,
    /// Its changes of the headers of the request and of the response, where they have variables.
    filled_in: [Option<Box<HeaderEdits>>; 2],
}

/// A request whose head is at hand, in the form in which rules see it.
struct Seen<'a> {
    head: &'a RequestHead,
    bytes: &'a [u8],
    host: &'a [u8],
    raw_path: &'a [u8],
    path: &'a [u8],
    query: &'a [u8],
    from: From<'a>,
    id: &'a RequestId<'a>,
    /// The user as claimed, where authentication is required.
    user: Vec<u8>,
    /// What a token says that is right, or may be.
    claims: Option<Rc<Claims>>,
}

/// Decides by the rules of `listener_context`; its own service gets what none of them is for, if it
/// has one.
pub(crate) fn route(
    worker: &Worker,
    listener_context: &ListenerContext,
    (head, bytes): (&RequestHead, &[u8]),
    (from, id): (From<'_>, &RequestId<'_>),
) -> Routed {
    let (service, has_no_service) = (listener_context.service, listener_context.routes_only);
    let unruled = Routed { service, has_no_service, ..Routed::default() };
    let challenges = &worker.shared.challenges;
    if let Some(reply) = challenges.answer(head.path(bytes)) {
        return Routed { reply: Some(Box::new(reply)), ..unruled };
    }
    let challenge = Some(head.path(bytes)).filter(|path| challenges.may_be_known(path));
    let unruled = Routed { challenge: challenge.map(Into::into), ..unruled };
    let ListenerContext { routes, authentication, .. } = listener_context;
    if routes.is_empty() && authentication.is_none() {
        return unruled;
    }
    let (raw_path, query) = split_query(head.path(bytes));
    let raw_path = if raw_path.is_empty() { b"/" } else { raw_path };
    let (mut host, mut path) = (Vec::new(), Vec::new());
    let mut seen = Seen {
        head,
        bytes,
        host: normal::host(head.host(bytes).unwrap_or_default(), &mut host),
        raw_path,
        path: normal::path(raw_path, &mut path),
        query,
        from,
        id,
        user: Vec::new(),
        claims: None,
    };
    let matched = routes.find(&seen.request());
    let cors = matched.and_then(|matched| matched.rule.cors.as_ref());
    let shared = cors.map(|cors| cors.edits(seen.header("origin")));
    let lines = shared.as_ref().map(|edits| seen.cors_lines(edits)).unwrap_or_default();
    let rank = matched.map(|matched| matched.rank);
    let ruled = Routed { rank, cors: lines, ..unruled };
    if let Some(matched) = matched
        && let Err(wait) = seen.take(listener_context, matched, worker)
    {
        return Routed { reply: Some(Box::new(Reply::limited(wait))), ..ruled };
    }
    // Browsers send preflights without any user.
    if let Some(response) = cors.and_then(|cors| seen.preflight(cors)) {
        let reply = Some(Box::new(Reply::fixed(&response, &seen)));
        return Routed { reply, cors: Box::default(), ..ruled };
    }
    let own = matched.map_or(authentication, |matched| &matched.rule.authentication).as_ref();
    let check = match own.map(|own| seen.authenticate(own, worker)) {
        Some(Err(refusal)) => return Routed { reply: Some(refusal), ..ruled },
        Some(Ok(check)) => check,
        None => None,
    };
    let hidden = own.map(Authentication::hidden_headers).unwrap_or_default();
    let ruled = Routed { check, hidden, ..ruled };
    let routed = match matched {
        Some(matched) => act(worker, listener_context, (matched, &seen, shared), ruled),
        None if has_no_service => {
            let response = DirectResponse { status: 404, headers: Vec::new(), body: String::new() };
            Routed { reply: Some(Box::new(Reply::fixed(&response, &seen))), ..ruled }
        }
        None => ruled,
    };
    Routed { user: seen.user, ..routed }
}

/// What the action of a rule makes of a request.
fn act(
    worker: &Worker,
    listener_context: &ListenerContext,
    (matched, seen, shared): (Matched<'_>, &Seen<'_>, Option<HeaderEdits>),
    ruled: Routed,
) -> Routed {
    match &matched.rule.action {
        Action::Redirect(redirect) => {
            let reply = Reply::redirect(redirect, &seen.asked(), seen);
            Routed { reply: Some(Box::new(reply)), ..ruled }
        }
        Action::Respond(answer) => {
            Routed { reply: Some(Box::new(Reply::fixed(answer, seen))), ..ruled }
        }
        Action::Service(split) => {
            let service = match split.shares() {
                [only] => only.service,
                _ => split.choose(worker.random.draw()),
            };
            let changes = Changes::of(&listener_context.routes, matched, (seen, shared));
            let copies = copies(worker, &listener_context.routes, matched);
            let class = matched.rule.class;
            Routed { service, has_no_service: false, changes, class, copies, ..ruled }
        }
    }
}

/// Where a copy of the request goes, if the rule has one made of it.
fn copies(worker: &Worker, routes: &Routes, matched: Matched<'_>) -> Option<Arc<Copies>> {
    let mirror = matched.rule.mirror.as_ref()?;
    let copies = routes.copies(matched.index)?;
    mirror.takes(worker.random.draw()).then(|| copies.clone())
}

impl Routed {
    /// Has nothing done about a request that is to be refused.
    pub(crate) fn refuse(&mut self) {
        (self.reply, self.challenge, self.copies) = (None, None, None);
        if self.check.take().is_some() {
            self.user.clear();
        }
    }

    /// Answers with the maintenance page, unless the service lets the client in. A client who would
    /// see more has to authenticate first.
    pub(crate) fn stop_in_maintenance(
        &mut self,
        service: &Service,
        from: From<'_>,
        (head, bytes): (&RequestHead, &[u8]),
    ) {
        let Some(maintenance) = &service.maintenance else { return };
        if self.reply.is_none() && maintenance.stops(from.address.ip()) {
            let accept = head.fields().get(bytes, "accept").unwrap_or_default();
            self.reply = Some(Box::new(Reply::maintenance(maintenance, accept)));
            self.copies = None;
        }
    }

    /// Changes the head of the request, with which `text` ends, on its way to a server.
    pub(crate) fn change(&mut self, head: (&RequestHead, &[u8]), text: &mut Vec<u8>) {
        self.count_forward(head, text);
        let remove = self.hidden.clone();
        change_fields(text, &HeaderEdits { remove, ..HeaderEdits::default() });
        if let Some(changes) = &self.changes {
            changes.of_request(text);
        }
    }

    /// The path as it came, where the rule puts another prefix in the place of its own on the way
    /// to a service with a store.
    pub(crate) fn asked_path(
        &self,
        service_context: &ServiceContext,
        (head, bytes): (&RequestHead, &[u8]),
    ) -> Option<Box<[u8]>> {
        let rule = self.changes.as_ref().filter(|_| service_context.has_store())?.rule();
        let path = split_query(head.path(bytes)).0;
        let is_moved = matches!(rule.path, Some(PathChange::Prefix { .. })) && !path.is_empty();
        is_moved.then(|| path.into())
    }

    /// The trailers that servers do not get from clients: those whose headers they do not get.
    pub(crate) fn hidden_trailers(&self, subject_header: Option<&String>) -> Vec<String> {
        let edits = self.changes.iter().map(|changes| &changes.rule().request);
        let changed = edits.flat_map(HeaderEdits::dropped);
        subject_header.into_iter().chain(&self.hidden).chain(changed).cloned().collect()
    }
}

impl Seen<'_> {
    fn request(&self) -> rules::Request<'_, Self> {
        rules::Request {
            authority: self.authority(),
            host: self.host,
            path: self.path,
            query: self.query,
            method: self.head.method_text(self.bytes),
            source: self.from.address.ip(),
            scheme: self.from.scheme,
            headers: self,
        }
    }

    /// Host and port as they came.
    fn authority(&self) -> &[u8] {
        self.head.host(self.bytes).unwrap_or_default()
    }

    fn asked(&self) -> Asked<'_> {
        Asked {
            scheme: self.from.scheme,
            authority: self.authority(),
            host: self.host,
            raw_path: self.raw_path,
            path: self.path,
            query: self.query,
        }
    }

    /// The check to make before the user is known, if one is needed; or the response to a user who
    /// is refused.
    fn authenticate(
        &mut self,
        authentication: &Authentication,
        worker: &Worker,
    ) -> Result<Option<Check>, Box<Reply>> {
        match authentication {
            Authentication::Basic(auth) => self.check(auth).map(|it| Some(Check::Password(it))),
            Authentication::Jwt(jwt) => self.verify(jwt, worker),
            Authentication::Forward(auth) => {
                let method = self.head.method_text(self.bytes);
                let check = forward_auth::Check::new(auth, method, self.head.path(self.bytes));
                Ok(Some(Check::Service(Box::new(check))))
            }
        }
    }

    /// Verifies the token, or gives the check to wait for; or the response to a token that is
    /// refused.
    fn verify(&mut self, jwt: &Arc<Jwt>, worker: &Worker) -> Result<Option<Check>, Box<Reply>> {
        let mut tokens = worker.tokens.borrow_mut();
        let verdict = jwt::shown(jwt, self.head.fields().iter(self.bytes))
            .and_then(|token| tokens.ask(token, jwt, &worker.shared.fetched_keys))
            .map_err(|refusal| Box::new(Reply::refused(jwt, refusal)))?;
        let (check, claims) = match verdict {
            Verdict::Right(claims) => (None, claims),
            Verdict::Pending(pending, claims) => (Some(Check::Token(Box::new(pending))), claims),
        };
        claims.write("sub", &mut self.user);
        self.claims = Some(claims);
        Ok(check)
    }

    /// The check of the user's password; or the response to a request without one.
    fn check(&mut self, auth: &BasicAuth) -> Result<Box<basic_auth::Check>, Box<Reply>> {
        let refusal = Reply::unauthorized(auth);
        let fields = self.head.fields().iter(self.bytes);
        let values = fields.filter(|field| field.0.eq_ignore_ascii_case(b"authorization"));
        match basic_auth::shown(auth, values.map(|field| field.1)) {
            Some(shown) => {
                self.user.clone_from(&shown.user);
                Ok(Box::new(basic_auth::Check { shown, refusal }))
            }
            None => Err(Box::new(refusal)),
        }
    }

    /// The response to the request if it is a preflight of CORS.
    fn preflight(&self, cors: &Cors) -> Option<DirectResponse> {
        let origin =
            self.header("origin").filter(|_| self.head.method_text(self.bytes) == b"OPTIONS")?;
        self.header("access-control-request-method")?;
        let asked = self.header("access-control-request-headers").unwrap_or_default();
        Some(cors.preflight(origin, asked))
    }

    /// What these changes add to a response of our own. A page of the same origin may leave it in a
    /// browser's cache for one of another.
    fn cors_lines(&self, edits: &HeaderEdits) -> Box<[u8]> {
        let mut lines = Vec::with_capacity(128);
        let fields = edits.fields();
        fields.for_each(|(name, value)| write_template(&mut lines, name, value, self));
        lines.into()
    }

    fn header(&self, name: &str) -> Option<&[u8]> {
        self.head.fields().get(self.bytes, name)
    }

    /// Takes the request out of the budget of its key, if the rule has a limit.
    fn take(
        &self,
        listener_context: &ListenerContext,
        matched: Matched<'_>,
        worker: &Worker,
    ) -> Result<(), Duration> {
        let limiter = listener_context.limiters.get(matched.index).and_then(Option::as_ref);
        let (Some(limiter), Some(limit)) = (limiter, &matched.rule.limit) else { return Ok(()) };
        limiter.take(self.limit_key(&limit.by), worker.shared.clock.now())
    }

    fn limit_key(&self, by: &LimitKey) -> u64 {
        let mut key = None;
        let mut keep = |value: &[u8]| {
            key = Some(SECRET.hash_one(value));
            true
        };
        let found = match by {
            LimitKey::Client => false,
            LimitKey::Header(name) => self.any(name, &mut keep),
            LimitKey::Cookie(name) => any_cookie(self, name, &mut keep),
        };
        match key {
            Some(key) if found => key,
            _ => SECRET.hash_one(ClientKey::of(self.from.address.ip())),
        }
    }
}

impl Variables for Seen<'_> {
    fn write(&self, variable: Variable, out: &mut Vec<u8>) {
        let tls = self.from.tls.map(|tls| &**tls);
        let of_tls = |value: fn(&ClientTls) -> &str| tls.map_or("", value).as_bytes();
        let value = match variable {
            Variable::ClientAddress => {
                return write(out, self.from.address.ip().to_canonical());
            }
            Variable::ClientPort => return write(out, self.from.address.port()),
            Variable::ClientCertificate => of_tls(|tls| &tls.subject),
            Variable::Host => self.host,
            Variable::Method => self.head.method_text(self.bytes),
            Variable::Path => self.raw_path,
            Variable::NormalPath => self.path,
            Variable::Query => self.query,
            Variable::RequestId => self.id.text(),
            Variable::Scheme => self.from.scheme.as_bytes(),
            Variable::ServerName => of_tls(|tls| &tls.name),
            Variable::TlsCipher => of_tls(|tls| tls.cipher),
            Variable::TlsVersion => of_tls(|tls| tls.version),
            Variable::User => &self.user,
        };
        out.extend_from_slice(value);
    }

    fn write_claim(&self, name: &str, out: &mut Vec<u8>) {
        self.claims.iter().for_each(|claims| claims.write(name, out));
    }
}

/// What has no variables is written without any.
pub(super) struct NoVariables;

impl Variables for NoVariables {
    fn write(&self, _: Variable, _: &mut Vec<u8>) {}
}

impl Headers for Seen<'_> {
    fn any(&self, name: &str, test: &mut dyn FnMut(&[u8]) -> bool) -> bool {
        let fields: &Fields = self.head.fields();
        let mut named =
            fields.iter(self.bytes).filter(|field| field.0.eq_ignore_ascii_case(name.as_bytes()));
        named.any(|field| test(field.1))
    }
}

impl Changes {
    /// Those of a rule, with what CORS makes of the response, if it has any.
    fn of(
        routes: &Routes,
        matched: Matched<'_>,
        (seen, shared): (&Seen<'_>, Option<HeaderEdits>),
    ) -> Option<Self> {
        let Rule { path, request, answer, .. } = matched.rule;
        if path.is_none() && request.is_empty() && answer.is_empty() && shared.is_none() {
            return None;
        }
        // What servers are told of the query here goes to others too, with the response to it.
        let keyed = KeyedVariables::of(matched.rule, seen, is_for_cache(seen.head));
        let mut filled_in =
            [request.filled_in(&keyed), answer.filled_in(seen)].map(|edits| edits.map(Box::new));
        if let Some(shared) = shared {
            let edits = filled_in[1].get_or_insert_with(|| Box::new(answer.clone()));
            edits.extend(shared);
        }
        let path = path.as_ref().and_then(|path| path.filled_in(&keyed));
        Some(Self { routes: routes.clone(), rank: matched.rank, path, filled_in })
    }

    fn rule(&self) -> &Rule {
        &self.routes.rules()[self.rank].1
    }

    /// Changes the head of a request, as it is written to a server.
    fn of_request(&self, text: &mut Vec<u8>) {
        let rule = self.rule();
        if let Some(change) = self.path.as_ref().or(rule.path.as_ref()) {
            change_path(text, change);
        }
        change_fields(text, self.filled_in[0].as_deref().unwrap_or(&rule.request));
    }

    /// Changes the head of a response: `head` as the server wrote it, `text` as it is to be sent,
    /// if that is not the same.
    pub(crate) fn of_answer(
        &self,
        forwarded: Forwarded,
        head: &[u8],
        text: &mut Vec<u8>,
    ) -> Forwarded {
        let edits = self.filled_in[1].as_deref().unwrap_or(&self.rule().answer);
        if edits.is_empty() {
            return forwarded;
        }
        if forwarded == Forwarded::Unchanged {
            text.extend_from_slice(head);
        }
        change_fields(text, edits);
        Forwarded::Rewritten
    }
}

/// Changes the path in the request line with which `text` begins. The query stays, and so does `*`,
/// which is no path.
fn change_path(text: &mut Vec<u8>, change: &PathChange) {
    let mut words = text.splitn(3, |byte| *byte == b' ');
    let (Some(method), Some(target)) = (words.next(), words.next()) else { return };
    let (raw, _) = split_query(target);
    let (start, end) = (method.len() + 1, method.len() + 1 + raw.len());
    let (mut scratch, mut changed) = (Vec::new(), Vec::new());
    let path = normal::path(raw, &mut scratch);
    if path.starts_with(b"/") && change.write_raw(raw, path, &mut changed) {
        text.splice(start..end, changed);
    }
}

/// Changes the fields of a head that ends with `text`.
pub(super) fn change_fields(text: &mut Vec<u8>, edits: &HeaderEdits) {
    if edits.is_empty() {
        return;
    }
    let old = std::mem::take(text);
    let without_end = old.strip_suffix(b"\r\n").unwrap_or(&old);
    for (index, line) in without_end.split_inclusive(|byte| *byte == b'\n').enumerate() {
        if index == 0 || !edits.drops(field_name(line)) {
            text.extend_from_slice(line);
        }
    }
    edits.fields().for_each(|(name, value)| write_template(text, name, value, &NoVariables));
    text.extend_from_slice(b"\r\n");
}

/// Tells a server the subject of a client's certificate in this header, of which nothing that the
/// client has sent stays. `text` ends with the head.
#[cold]
pub(crate) fn hand_on_subject(text: &mut Vec<u8>, header: &str, subject: &str) {
    let mut edits = HeaderEdits::default();
    if subject.is_empty() {
        edits.remove.push(header.to_owned());
    } else {
        edits.set.push((header.to_owned(), Template::literal(subject)));
    }
    change_fields(text, &edits);
}

/// The name of the field on this line.
pub(crate) fn field_name(line: &[u8]) -> &[u8] {
    line.split(|byte| *byte == b':').next().unwrap_or_default()
}

pub(super) fn write_field(out: &mut Vec<u8>, name: &str, value: &str) {
    write(out, format_args!("{name}: {value}\r\n"));
}

pub(super) fn write_template(
    out: &mut Vec<u8>,
    name: &str,
    value: &Template,
    variables: &dyn Variables,
) {
    write(out, format_args!("{name}: "));
    value.write(variables, out);
    out.extend_from_slice(b"\r\n");
}

fn write(out: &mut Vec<u8>, what: impl std::fmt::Display) {
    write!(out, "{what}").expect("a vector takes all that is written");
}

/// Path and query of a target; the query is empty where there is none.
fn split_query(target: &[u8]) -> (&[u8], &[u8]) {
    match target.iter().position(|byte| *byte == b'?') {
        Some(at) => (&target[..at], &target[at + 1..]),
        None => (target, b""),
    }
}

/// What keys of limits are hashed with, so that nobody can choose keys that fall together.
static SECRET: LazyLock<RandomState> = LazyLock::new(RandomState::new);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields_are_dropped_replaced_and_added_in_any_case() {
        let field = |name: &str, value: &str| (name.to_owned(), Template::literal(value));
        let edits = HeaderEdits {
            remove: vec!["X-Secret".to_owned()],
            set: vec![field("Server", "loadline")],
            add: vec![field("Via", "a")],
        };
        let head = "HTTP/1.1 200 OK\r\nserver: x\r\nVia: b\r\nx-secret: 1\r\nServer: y\r\n\r\n";
        let mut text = head.as_bytes().to_vec();
        change_fields(&mut text, &edits);
        let expected = "HTTP/1.1 200 OK\r\nVia: b\r\nServer: loadline\r\nVia: a\r\n\r\n";
        assert_eq!(String::from_utf8(text).unwrap(), expected);
    }

    #[test]
    fn a_path_changes_in_its_line_and_the_query_stays() {
        let change = PathChange::Prefix { from: "/api".to_owned(), to: "/v2".to_owned() };
        for (line, expected) in [
            ("GET /api/x?y=/api HTTP/1.1\r\n", "GET /v2/x?y=/api HTTP/1.1\r\n"),
            ("GET /api/a%2Fb HTTP/1.1\r\n", "GET /v2/a%2Fb HTTP/1.1\r\n"),
            ("GET /%61pi//x HTTP/1.1\r\n", "GET /v2/x HTTP/1.1\r\n"),
            ("GET /apis HTTP/1.1\r\n", "GET /apis HTTP/1.1\r\n"),
            ("OPTIONS * HTTP/1.1\r\n", "OPTIONS * HTTP/1.1\r\n"),
        ] {
            let mut text = line.as_bytes().to_vec();
            change_path(&mut text, &change);
            assert_eq!(String::from_utf8(text).unwrap(), expected);
        }
    }

    #[test]
    fn options_of_the_whole_server_has_no_path_to_change() {
        let prefix = PathChange::Prefix { from: String::new(), to: "/app".to_owned() };
        for change in [prefix, PathChange::Whole("/app".to_owned())] {
            let mut text = b"OPTIONS * HTTP/1.1\r\n".to_vec();
            change_path(&mut text, &change);
            assert_eq!(text, b"OPTIONS * HTTP/1.1\r\n");
        }
    }
}
