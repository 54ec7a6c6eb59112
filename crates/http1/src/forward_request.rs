//! The head of a request as it goes to a server.
//!
//! Always HTTP/1.1, in origin form, with exactly one Host (that of an absolute target, if there is
//! one), without the fields that end at this hop, with those that tell about the client.

use std::net::IpAddr;

use crate::client_lines::{ClientLines, ForwardRules, value_of};
use crate::connection::options;
use crate::fields::{Field, Known};
use crate::forward::{FRAMING, HOP_BY_HOP, Runs, is_named, next_line, write_framing, write_line};
use crate::head::offered;
use crate::method::Method;
use crate::request::RequestHead;
use crate::target::TargetForm;

/// What differs from one request to the next.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RequestOptions<'a> {
    /// The connection is going to be tunnelled if the server agrees: keep Upgrade.
    pub upgrade: bool,
    /// The proxy answers `100 Continue` itself: leave Expect out.
    pub drop_expect: bool,
    /// Ask the server to close the connection after its response.
    pub close: bool,
    /// The Host of an HTTP/1.0 request that has none.
    pub host_if_absent: &'a [u8],
    /// Whether to believe what the client says about those before it. If so, X-Forwarded-For and
    /// Forwarded get one more member and the others stay; if not, X-Real-IP and all that begin with
    /// X-Forwarded- are replaced or left out, as Forwarded is. Via is always extended.
    pub trust_client: bool,
    /// The client, and the scheme that it came by, as they are known of one that is trusted: the
    /// fields that it has not sent say so, too.
    pub client: Option<(IpAddr, &'a str)>,
    /// Whether X-Forwarded-Proto and Forwarded of a client that is trusted are written anew, by
    /// what is known of the client alone: others get the response as well.
    pub anew: bool,
}

impl Default for RequestOptions<'_> {
    fn default() -> Self {
        Self {
            upgrade: false,
            drop_expect: false,
            close: false,
            host_if_absent: b"localhost",
            trust_client: false,
            client: None,
            anew: false,
        }
    }
}

/// Appends the head to send to `out`; `buf` is the buffer that `head` was parsed from.
pub fn write_request(
    out: &mut Vec<u8>,
    buf: &[u8],
    head: &RequestHead,
    client: &ClientLines,
    options: RequestOptions<'_>,
) {
    let section = &head.section;
    let forwarding = Forwarding { buf, head, client, options };
    let from = forwarding.start_line(out);
    let mut runs = Runs::new(out, buf, from);
    let touched = forwarding.touched();
    if section.fields.has_any(touched) || section.connection.others > 0 {
        forwarding.fields(&mut runs, touched);
    }
    let out = runs.finish(head.head_len() - 2);
    forwarding.added_lines(out, touched);
    out.extend_from_slice(b"\r\n");
}

/// The arguments of [`write_request`], which every step needs.
struct Forwarding<'a> {
    buf: &'a [u8],
    head: &'a RequestHead,
    client: &'a ClientLines,
    options: RequestOptions<'a>,
}

/// The fields that tell about the client and the way to it.
const CLIENT_FIELDS: u32 = Known::XForwardedFor.bit()
    | Known::XForwardedProto.bit()
    | Known::XForwardedHost.bit()
    | Known::XForwardedOther.bit()
    | Known::Forwarded.bit();

/// Those of them that tell the client's scheme, or the host that it asked for.
const ANEW: u32 = Known::XForwardedProto.bit() | Known::Forwarded.bit();

impl Forwarding<'_> {
    /// Writes the request line, and Host where it is not the client's. Returns where the copy of
    /// the head goes on: the request line itself is part of the first run if it may stay.
    fn start_line(&self, out: &mut Vec<u8>) -> usize {
        let (buf, head) = (self.buf, self.head);
        let absolute = head.target_form() == TargetForm::Absolute;
        let host_missing = head.section.host.is_none() && !absolute;
        if !absolute && !host_missing && head.is_http11(buf) {
            return head.start();
        }
        out.extend_from_slice(head.method_text(buf));
        out.push(b' ');
        self.write_target(out, absolute);
        out.extend_from_slice(b" HTTP/1.1\r\n");
        if absolute || host_missing {
            let host = head.host(buf).unwrap_or(self.options.host_if_absent);
            write_line(out, b"Host: ", host);
        }
        let line_end = head.target.whole.end as usize + b" HTTP/1.1\r\n".len();
        line_end.min(head.head_len() - 2)
    }

    fn write_target(&self, out: &mut Vec<u8>, absolute: bool) {
        let path = self.head.path(self.buf);
        let no_path = self.head.target.path.is_empty();
        if absolute && no_path && self.head.method() == Method::Options {
            out.push(b'*');
            return;
        }
        if absolute && path.first() == Some(&b'?') {
            out.push(b'/');
        }
        out.extend_from_slice(path);
    }

    /// The set of fields that do not simply stay.
    fn touched(&self) -> u32 {
        let rules = self.client.rules();
        let mut touched = HOP_BY_HOP;
        if !self.options.trust_client {
            touched |= CLIENT_FIELDS;
        }
        if self.options.anew {
            touched |= ANEW;
        }
        if rules.x_forwarded {
            touched |= Known::XForwardedFor.bit();
        }
        if rules.forwarded {
            touched |= Known::Forwarded.bit();
        }
        if self.head.target_form() == TargetForm::Absolute {
            touched |= Known::Host.bit();
        }
        if self.options.drop_expect {
            touched |= Known::Expect.bit();
        }
        if self.head.section.framing.unusual {
            touched |= FRAMING;
        }
        touched
    }

    fn fields(&self, runs: &mut Runs<'_>, touched: u32) {
        let fields = self.head.fields().as_slice();
        for (index, field) in fields.iter().enumerate() {
            let stays =
                touched & field.known.bit() == 0 && !is_named(&self.head.section, self.buf, field);
            if stays {
                continue;
            }
            let next = next_line(fields, index, self.head.head_len());
            match self.addition(fields, index) {
                Addition::Leave => {}
                Addition::Drop => runs.leave_out(field.name.start, next),
                Addition::Append(member) => {
                    runs.leave_out(field.value.end, next);
                    if !field.value.is_empty() {
                        runs.out.extend_from_slice(b", ");
                    }
                    runs.out.extend_from_slice(member);
                    runs.out.extend_from_slice(b"\r\n");
                }
                Addition::Replace(value) => {
                    runs.leave_out(field.value.start, next);
                    runs.out.extend_from_slice(&value);
                    runs.out.extend_from_slice(b"\r\n");
                }
            }
        }
    }

    /// What happens to a field that is touched.
    fn addition(&self, fields: &[Field], index: usize) -> Addition<'_> {
        let field = &fields[index];
        let line = match field.known {
            Known::XForwardedFor => self.client.for_line(),
            Known::Forwarded => self.client.forwarded_line(),
            Known::Upgrade if self.options.upgrade => return offer(field.value.of(self.buf)),
            _ => return Addition::Drop,
        };
        if !self.options.trust_client || self.is_anew(field.known) {
            return Addition::Drop;
        }
        if fields[index + 1..].iter().any(|later| later.known == field.known) {
            return Addition::Leave;
        }
        Addition::Append(value_of(line))
    }

    fn is_anew(&self, known: Known) -> bool {
        self.options.anew && ANEW & known.bit() != 0
    }

    fn added_lines(&self, out: &mut Vec<u8>, touched: u32) {
        let section = &self.head.section;
        // TE goes no further than to the next server, which Connection says (RFC 9110, 10.1.4).
        let lines: &[u8] = match (self.options.upgrade, self.options.close, section.te_trailers) {
            (true, _, false) => b"Connection: upgrade\r\n",
            (true, _, true) => b"Connection: upgrade, TE\r\nTE: trailers\r\n",
            (false, true, false) => b"Connection: close\r\n",
            (false, true, true) => b"Connection: close, TE\r\nTE: trailers\r\n",
            (false, false, true) => b"Connection: TE\r\nTE: trailers\r\n",
            (false, false, false) => b"",
        };
        out.extend_from_slice(lines);
        if touched & FRAMING != 0 {
            write_framing(out, section);
        }
        self.client_lines(out);
    }

    /// Adds the lines about the client that the request does not carry on from before.
    fn client_lines(&self, out: &mut Vec<u8>) {
        let (trusts, fields) = (self.options.trust_client, self.head.fields());
        let came = |known: Known| trusts && fields.has(known);
        let kept = |known: Known| came(known) && !self.is_anew(known);
        if self.client.rules().x_forwarded_host
            && !kept(Known::XForwardedHost)
            && let Some(host) = self.head.host(self.buf)
        {
            write_line(out, b"X-Forwarded-Host: ", host);
        }
        let is_http10 = self.head.version().is_http10();
        if !is_http10 && (!trusts || !fields.has_any(CLIENT_FIELDS)) {
            out.extend_from_slice(self.client.all());
            return;
        }
        for (known, line) in [
            (Known::XForwardedFor, self.client.for_line()),
            (Known::XForwardedProto, self.client.proto_line()),
            (Known::Forwarded, self.client.forwarded_line()),
        ] {
            match self.options.client {
                _ if kept(known) || (line.is_empty() && !came(known)) => {}
                Some(client) => self.told_line(out, known, client),
                None => out.extend_from_slice(line),
            }
        }
        out.extend_from_slice(self.client.via_line(is_http10));
    }

    /// Adds a line that the proxy in front has not sent, or that is written anew: the client that
    /// it names, and then its own address (RFC 7239, 7.4).
    #[cold]
    fn told_line(&self, out: &mut Vec<u8>, known: Known, (address, scheme): (IpAddr, &str)) {
        let rules = ForwardRules { x_forwarded: true, forwarded: true, ..self.client.rules() };
        let told = ClientLines::new(rules, address, scheme);
        let (line, own) = match known {
            Known::XForwardedFor => (told.for_line(), self.client.for_line()),
            Known::Forwarded => (told.forwarded_line(), self.client.forwarded_line()),
            _ => return out.extend_from_slice(told.proto_line()),
        };
        let [node, own_node] = [line, own].map(|line| line.split(|byte| *byte == b';').next());
        if node == own_node || own.is_empty() {
            return out.extend_from_slice(line);
        }
        out.extend_from_slice(line.strip_suffix(b"\r\n").unwrap_or(line));
        write_line(out, b", ", value_of(own));
    }
}

/// What becomes of an Upgrade field: its offer of h2c goes no further.
fn offer(value: &[u8]) -> Addition<'static> {
    let protocols: Vec<&[u8]> = offered(value).collect();
    match protocols.len() {
        0 => Addition::Drop,
        count if count == options(value).count() => Addition::Leave,
        _ => Addition::Replace(protocols.join(&b", "[..])),
    }
}

/// What becomes of a touched field.
enum Addition<'a> {
    /// The field stays.
    Leave,
    /// The field is left out.
    Drop,
    /// The field gets one more list member.
    Append(&'a [u8]),
    /// The field gets another value.
    Replace(Vec<u8>),
}
