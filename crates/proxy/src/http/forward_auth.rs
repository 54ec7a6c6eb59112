//! Forward authentication: asks a service whether a request may pass.
//!
//! What asks is an exchange like any other, with its permit, its queue and its retries; its client
//! is memory. Whoever waits for it drops it when it leaves.

use std::{rc::Rc, sync::Arc};

use loadline_core::{
    decide::ending::Ending,
    rules::{AskedAbout, ForwardAuth},
};
use loadline_http1::{Method, ResponseHead, Status};

use crate::{
    http::{
        exchange::Exchange,
        request::{From, Request},
        rules,
    },
    http2::ANY,
    io::{peer::Peer, socket::Socket},
    listener::handle::ListenerHandle,
    runtime::{
        timer::Timer,
        view::{ListenerContext, View},
        worker::Worker,
    },
};

/// A service to be asked before anything is done.
#[derive(Debug)]
pub(crate) struct Check {
    pub(crate) auth: Arc<ForwardAuth>,
    /// Method of the request in question.
    method: Vec<u8>,
    target: Vec<u8>,
    /// The head that asks.
    text: Vec<u8>,
    key: u64,
}

/// The response of the service.
#[derive(Debug)]
pub(crate) struct Response {
    head: ResponseHead,
    bytes: Vec<u8>,
    pub(crate) body: Vec<u8>,
}

/// Where and for whom a service is asked.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Asking<'a> {
    pub(crate) worker: &'a Rc<Worker>,
    pub(crate) listener: &'a Arc<ListenerHandle>,
    pub(crate) listener_context: &'a ListenerContext,
    pub(crate) view: &'a Rc<View>,
}

impl Check {
    /// About a request with this method and this target.
    pub(crate) fn new(auth: &Arc<ForwardAuth>, method: &[u8], target: &[u8]) -> Self {
        let (method, target) = (method.to_vec(), target.to_vec());
        Self { auth: auth.clone(), method, target, text: Vec::new(), key: 0 }
    }

    /// Asks with the fields of `head`, the text that is for a server, by this hash, and about a
    /// request that came `from` somebody for this host.
    pub(crate) fn prepare(
        &mut self,
        head: &[u8],
        key: u64,
        (from, host): (From<'_>, Option<&[u8]>),
    ) {
        let fields = head.iter().position(|byte| *byte == b'\n').map_or(head.len(), |at| at + 1);
        let line = format!("GET {} HTTP/1.1\r\n", self.auth.path);
        self.text = [line.as_bytes(), &head[fields..]].concat();
        let about = AskedAbout {
            method: &self.method,
            target: &self.target,
            host,
            scheme: from.scheme,
            client: from.address.ip(),
        };
        let edits = ForwardAuth::asking(&about, |name| has_field(&head[fields..], name));
        rules::change_fields(&mut self.text, &edits);
        self.key = key;
    }

    /// What the service says of `asked`; none where it says nothing.
    pub(crate) async fn ask(self, asked: &Request, asking: Asking<'_>) -> Option<Response> {
        let Asking { worker, listener, listener_context, view } = asking;
        let request = Request {
            service: self.auth.service,
            key: self.key,
            received: worker.shared.clock.now(),
            ..asked.on_behalf(self.text)
        };
        let timer = Timer::here(&worker.timers).await;
        let mut client = Peer::new(Socket::taking());
        let at = (worker, listener, view, listener_context);
        let mut exchange = Exchange::new(at, (&mut client, &timer), Box::new(request));
        exchange.run_unless_cut().await;
        let is_complete = exchange.record.ending == Some(Ending::Complete);
        drop(exchange);
        if is_complete { Response::read(client.socket.taken()) } else { None }
    }
}

/// Whether these lines have a field of this name.
fn has_field(lines: &[u8], name: &str) -> bool {
    let mut names = lines.split(|byte| *byte == b'\n').map(rules::field_name);
    names.any(|own| own.eq_ignore_ascii_case(name.as_bytes()))
}

impl Response {
    /// Takes what a client has got apart; none if it is not whole.
    fn read(mut bytes: Vec<u8>) -> Option<Self> {
        let mut head = ResponseHead::new(ANY);
        loop {
            let Ok(Status::Complete(length)) = head.parse(&bytes, Method::Get) else { return None };
            if !head.is_interim() {
                break;
            }
            bytes.drain(..length);
        }
        let mut body = Vec::new();
        let coded = &bytes[head.head_len()..];
        let keep = |piece: &[u8]| body.extend_from_slice(piece);
        head.body().feed_data(coded, keep).ok()?;
        Some(Self { head, bytes, body })
    }

    pub(crate) const fn status(&self) -> u16 {
        self.head.status()
    }

    /// Its fields, by name and value.
    pub(crate) fn fields(&self) -> impl Iterator<Item = (&[u8], &[u8])> {
        self.head.fields().iter(&self.bytes)
    }
}

#[cfg(test)]
mod tests {
    use std::net::SocketAddr;

    use loadline_http1::{ClientLines, ForwardRules};

    use super::*;

    #[test]
    fn a_head_that_asks_has_the_fields_of_the_request_and_no_body() {
        let auth = Arc::new(ForwardAuth { path: "/verify?a".to_owned(), ..ForwardAuth::new(0) });
        let mut check = Check::new(&auth, b"PUT", b"/x?y");
        let head = b"PUT /x?y HTTP/1.1\r\nHost: h\r\nContent-Length: 3\r\nCookie: a=b\r\n\r\n";
        let address: SocketAddr = "192.0.2.7:81".parse().unwrap();
        let lines = ClientLines::new(ForwardRules::default(), [192, 0, 2, 7].into(), "https");
        let (peer, lines) = (&address, &lines);
        let from = From { address, scheme: "https", peer, lines, tls: None, is_trusted: false };
        check.prepare(head, 7, (from, Some(b"h")));
        let expected = "GET /verify?a HTTP/1.1\r\nHost: h\r\nCookie: a=b\r\n\
                        X-Forwarded-Method: PUT\r\nX-Forwarded-Uri: /x?y\r\n\
                        X-Forwarded-Host: h\r\nX-Forwarded-Proto: https\r\n\
                        X-Forwarded-For: 192.0.2.7\r\n\r\n";
        assert_eq!((String::from_utf8(check.text).unwrap().as_str(), check.key), (expected, 7));
    }

    #[test]
    fn a_response_is_read_behind_interim_ones_and_out_of_chunks() {
        let text = "HTTP/1.1 103 Early Hints\r\nLink: x\r\n\r\n\
                    HTTP/1.1 401 No\r\nTransfer-Encoding: chunked\r\nA: b\r\n\r\n\
                    3\r\nabc\r\n2\r\nde\r\n0\r\n\r\n";
        let response = Response::read(text.into()).unwrap();
        assert_eq!((response.status(), &*response.body), (401, &b"abcde"[..]));
        assert!(response.fields().any(|field| field == (b"A", b"b")));
        assert!(Response::read("HTTP/1.1 200 OK\r\nA".into()).is_none());
    }
}
