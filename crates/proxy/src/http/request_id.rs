//! The id of a request, in logs and for servers.

use std::cell::OnceCell;

use loadline_http1::RequestHead;

use crate::{cache::unix_now, runtime::random::Random};

/// The id of a request, made when it is first asked for: that of a trusted proxy, or 32 hexadecimal
/// digits, of which the first half is the time in milliseconds and the others are random.
#[derive(Debug)]
pub(crate) struct RequestId<'a> {
    random: &'a Random,
    /// The head, if what it says is trusted.
    trusted: Option<(&'a RequestHead, &'a [u8])>,
    text: OnceCell<Vec<u8>>,
}

impl<'a> RequestId<'a> {
    /// The id of a request with this head; `is_trusted` if its peer is.
    pub(crate) fn new(
        random: &'a Random,
        head: (&'a RequestHead, &'a [u8]),
        is_trusted: bool,
    ) -> Self {
        Self { random, trusted: is_trusted.then_some(head), text: OnceCell::new() }
    }

    /// The id.
    pub(crate) fn text(&self) -> &[u8] {
        self.text.get_or_init(|| match self.given() {
            Some(given) => given.to_vec(),
            None => self.made(),
        })
    }

    fn given(&self) -> Option<&'a [u8]> {
        let (head, bytes) = self.trusted?;
        let given = head.fields().get(bytes, "x-request-id")?;
        let is_id = (1..=LENGTH_MAX).contains(&given.len());
        (is_id && given.iter().all(u8::is_ascii_graphic)).then_some(given)
    }

    fn made(&self) -> Vec<u8> {
        format!("{:016x}{:016x}", unix_now().as_millis(), self.random.draw()).into_bytes()
    }
}

/// Longer ids of others are replaced.
const LENGTH_MAX: usize = 128;

#[cfg(test)]
mod tests {
    use loadline_http1::HeadLimits;

    use super::*;

    fn id(given: &str, is_trusted: bool) -> Vec<u8> {
        let text = format!("GET / HTTP/1.1\r\nHost: a\r\nX-Request-Id: {given}\r\n\r\n");
        let mut head = RequestHead::new(HeadLimits { bytes: 4096, fields: 8 });
        head.parse(text.as_bytes()).expect("a head");
        RequestId::new(&Random::new(), (&head, text.as_bytes()), is_trusted).text().to_vec()
    }

    #[test]
    fn the_id_of_a_trusted_proxy_is_kept_and_every_other_is_made_anew() {
        assert_eq!(id("abc-1", true), b"abc-1");
        for (given, is_trusted) in [("abc-1", false), ("", true), ("a b", true)] {
            let made = id(given, is_trusted);
            assert!(made.len() == 32 && made.iter().all(u8::is_ascii_hexdigit), "{given}");
        }
        assert_eq!(id(&"x".repeat(129), true).len(), 32);
        assert_ne!(id("", false), id("", false));
    }
}
