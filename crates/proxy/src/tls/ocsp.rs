//! The validity of an OCSP response.

use x509_parser::{
    asn1_rs::{Any, Class, Tag},
    prelude::{ASN1Time, FromDer as _},
};

/// Until when a response in DER is good, in seconds since 1970: the earliest `nextUpdate` in it
/// (RFC 6960, section 4.2.1). None where it has none: newer information is always there then; nor
/// of what cannot be read.
pub(super) fn next_update_s(response: &[u8]) -> Option<i64> {
    let response = within(response)?;
    let bytes = within(response.get(1)?.data)?;
    let basic = within(bytes.get(1)?.data)?;
    let data = elements(basic.first()?.data)?;
    let is_list = |it: &&Any<'_>| it.class() == Class::Universal && it.tag() == Tag::Sequence;
    let responses = elements(data.iter().find(is_list)?.data)?;
    responses.iter().filter_map(next_update_of_one).min()
}

/// That of a SingleResponse: of which certificate, its status, `thisUpdate`, and `nextUpdate [0]`.
fn next_update_of_one(response: &Any<'_>) -> Option<i64> {
    let fields = elements(response.data)?;
    let next = fields.get(3)?;
    let is_next = next.class() == Class::ContextSpecific && next.tag() == Tag(0);
    let (_, time) = ASN1Time::from_der(next.data).ok().filter(|_| is_next)?;
    Some(time.timestamp())
}

/// What is in the one element that `bytes` begin with.
fn within(bytes: &[u8]) -> Option<Vec<Any<'_>>> {
    let (_, whole) = Any::from_der(bytes).ok()?;
    elements(whole.data)
}

/// Elements that follow each other.
fn elements(mut bytes: &[u8]) -> Option<Vec<Any<'_>>> {
    let mut found = Vec::new();
    while !bytes.is_empty() {
        let (rest, element) = Any::from_der(bytes).ok()?;
        found.push(element);
        bytes = rest;
    }
    Some(found)
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;

    /// An element with this tag around the others.
    fn element(tag: u8, parts: &[&[u8]]) -> Vec<u8> {
        let content = parts.concat();
        let [high, low] = u16::try_from(content.len()).unwrap().to_be_bytes();
        let length = match (high, low) {
            (0, 0..0x80) => &[low][..],
            (0, _) => &[0x81, low],
            _ => &[0x82, high, low],
        };
        [&[tag][..], length, &content].concat()
    }

    /// A response with one that is good until each of these, without a signature.
    pub(in crate::tls) fn good_until(times: &[Option<&str>]) -> Vec<u8> {
        let time = |text: &str| element(0x18, &[text.as_bytes()]);
        let one = |until: &Option<&str>| {
            let next = until.map(|until| element(0xa0, &[&time(until)])).unwrap_or_default();
            let extensions = element(0xa1, &[&element(0x30, &[])]);
            let this = time("20200101000000Z");
            element(0x30, &[&element(0x30, &[]), &[0x80, 0], &this, &next, &extensions])
        };
        let list = element(0x30, &[&times.iter().map(one).collect::<Vec<_>>().concat()]);
        let by_key = element(0xa2, &[&[0x04, 1, 7]]);
        let data = element(0x30, &[&by_key, &time("20200101000000Z"), &list]);
        let basic = element(0x30, &[&data, &element(0x30, &[]), &[0x03, 1, 0]]);
        let kind = [0x06, 9, 0x2b, 6, 1, 5, 5, 7, 0x30, 1, 1];
        let bytes = element(0x30, &[&kind, &element(0x04, &[&basic])]);
        element(0x30, &[&[0x0a, 1, 0], &element(0xa0, &[&bytes])])
    }

    #[test]
    fn a_response_is_good_until_the_first_of_its_next_updates() {
        let year_2000 = 946_684_800;
        let of = |times: &[Option<&str>]| next_update_s(&good_until(times));
        assert_eq!(of(&[Some("20000101000000Z")]), Some(year_2000));
        assert_eq!(of(&[None, Some("20300101000000Z"), Some("20000101000000Z")]), Some(year_2000));
        assert_eq!(of(&[None]), None, "newer information is always there");
        assert_eq!(next_update_s(&[0x30, 3, 0x0a, 1, 0]), None);
        let whole = good_until(&[Some("20000101000000Z")]);
        for length in 0..whole.len() {
            assert_eq!(next_update_s(&whole[..length]), None);
        }
    }
}
