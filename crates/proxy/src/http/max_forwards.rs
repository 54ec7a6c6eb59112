//! `Max-Forwards` of OPTIONS and TRACE (RFC 9110, 7.6.2).

use loadline_core::rules::{HeaderEdits, Template};
use loadline_http1::{Known, Method, RequestHead};

use crate::http::{
    reply::Reply,
    rules::{Routed, change_fields},
};

impl Routed {
    /// Counts this proxy in `text`, the head for the server. A request that may go no further is
    /// answered here.
    pub(crate) fn count_forward(
        &mut self,
        (head, bytes): (&RequestHead, &[u8]),
        text: &mut Vec<u8>,
    ) {
        let Some(left) = head.fields().get_known(bytes, Known::MaxForwards) else { return };
        let is_counted = matches!(head.method(), Method::Options | Method::Trace);
        let Some(left) = number(left).filter(|_| is_counted) else { return };
        match left.checked_sub(1) {
            Some(left) => {
                let value = Template::literal(&left.to_string());
                let set = vec![("Max-Forwards".to_owned(), value)];
                change_fields(text, &HeaderEdits { set, ..HeaderEdits::default() });
            }
            None if self.reply.is_none() => {
                self.reply = Some(Box::new(Reply::of_proxy(head.method())));
                self.copies = None;
            }
            None => {}
        }
    }
}

fn number(text: &[u8]) -> Option<u64> {
    let is_number = text.iter().all(u8::is_ascii_digit);
    std::str::from_utf8(text).ok()?.parse().ok().filter(|_| is_number)
}
