//! What an OCSP response says: of which certificate, how that is, and for how long.

use aws_lc_rs::digest::{SHA1_FOR_LEGACY_USE_ONLY, SHA256, digest};
use x509_parser::{
    asn1_rs::{Any, Class, Tag},
    prelude::{ASN1Time, FromDer as _, X509Certificate},
};

/// Why an OCSP response is of no use to the certificate that it is shown with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StapleFault {
    /// It is about another certificate.
    Foreign,
    /// It says that the certificate is revoked.
    Revoked,
    /// It says that the authority does not know the certificate.
    Unknown,
    /// Its time has not come.
    Early,
    /// Its time is over: it is not shown.
    Expired,
}

/// The response that goes with a certificate.
#[derive(Clone, Debug)]
pub(super) struct Staple {
    file: String,
    /// None where it cannot be read.
    about: Option<About>,
    /// Until when it is good, in seconds since 1970; none where it does not say so.
    until_s: Option<i64>,
}

impl Staple {
    /// The response of `file` as it goes with a certificate, both in DER.
    pub(super) fn of(file: &str, response: &[u8], certificate: &[u8]) -> Self {
        let about = about(response, certificate);
        Self { file: file.to_owned(), about, until_s: next_update_s(response) }
    }

    /// Its file, and why it is of no use at `now_s` seconds since 1970, if that is so.
    pub(super) fn fault(&self, now_s: i64) -> Option<(&str, StapleFault)> {
        let fault = match self.about {
            Some(About::Others) => StapleFault::Foreign,
            Some(About::It { status: Status::Revoked, .. }) => StapleFault::Revoked,
            Some(About::It { status: Status::Unknown, .. }) => StapleFault::Unknown,
            Some(About::It { since_s, .. }) if now_s < since_s => StapleFault::Early,
            _ if self.until_s.is_some_and(|until_s| now_s >= until_s) => StapleFault::Expired,
            _ => return None,
        };
        Some((&self.file, fault))
    }
}

/// What a response says about a certificate.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum About {
    /// Nothing: it is about others.
    Others,
    It {
        status: Status,
        /// Seconds since 1970.
        since_s: i64,
    },
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Status {
    Good,
    Revoked,
    Unknown,
}

/// None of what cannot be read.
fn about(response: &[u8], certificate: &[u8]) -> Option<About> {
    let (_, certificate) = X509Certificate::from_der(certificate).ok()?;
    let responses = responses(response)?;
    let named: Option<Vec<bool>> = responses.iter().map(|it| names(it, &certificate)).collect();
    match named?.iter().position(|it| *it) {
        None => Some(About::Others),
        Some(at) => about_it(responses[at]),
    }
}

/// Whether a SingleResponse is about this certificate. Its CertID has the algorithm of digests,
/// those of the issuer's name and key, and the serial number.
fn names(response: &[u8], certificate: &X509Certificate<'_>) -> Option<bool> {
    let (_, id) = Any::from_der(response).ok()?;
    let fields = elements(id.data)?;
    let [algorithm, issuer, _, serial] = &fields[..] else { return None };
    let name = certificate.issuer().as_raw();
    let is_issuer = match elements(algorithm.data)?.first()?.data {
        OF_SHA1 => digest(&SHA1_FOR_LEGACY_USE_ONLY, name).as_ref() == issuer.data,
        OF_SHA256 => digest(&SHA256, name).as_ref() == issuer.data,
        _ => true,
    };
    Some(is_issuer && serial.data == certificate.raw_serial())
}

/// What a SingleResponse says: of which certificate, its status, `thisUpdate`, and more.
fn about_it(response: &[u8]) -> Option<About> {
    let (rest, _) = Any::from_der(response).ok()?;
    let (rest, status) = Any::from_der(rest).ok()?;
    let (_, since) = ASN1Time::from_der(rest).ok()?;
    let status = match status.tag().0 {
        0 => Status::Good,
        1 => Status::Revoked,
        _ => Status::Unknown,
    };
    Some(About::It { status, since_s: since.timestamp() })
}

/// Until when a response in DER is good, in seconds since 1970: the earliest `nextUpdate` in it
/// (RFC 6960, section 4.2.1). None where it has none: newer information is always there then; nor
/// of what cannot be read.
pub(super) fn next_update_s(response: &[u8]) -> Option<i64> {
    responses(response)?.into_iter().filter_map(next_update_of_one).min()
}

/// That of a SingleResponse: of which certificate, its status, `thisUpdate`, and `nextUpdate [0]`.
fn next_update_of_one(response: &[u8]) -> Option<i64> {
    let fields = elements(response)?;
    let next = fields.get(3)?;
    let is_next = next.class() == Class::ContextSpecific && next.tag() == Tag(0);
    let (_, time) = ASN1Time::from_der(next.data).ok().filter(|_| is_next)?;
    Some(time.timestamp())
}

/// What is in each SingleResponse of a response.
fn responses(response: &[u8]) -> Option<Vec<&[u8]>> {
    let response = within(response)?;
    let bytes = within(response.get(1)?.data)?;
    let basic = within(bytes.get(1)?.data)?;
    let data = elements(basic.first()?.data)?;
    let is_list = |it: &&Any<'_>| it.class() == Class::Universal && it.tag() == Tag::Sequence;
    let list = elements(data.iter().find(is_list)?.data)?;
    Some(list.iter().map(|it| it.data).collect())
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

/// SHA-1 and SHA-256 as object identifiers.
const OF_SHA1: &[u8] = &[0x2b, 0x0e, 0x03, 0x02, 0x1a];
const OF_SHA256: &[u8] = &[0x60, 0x86, 0x48, 0x01, 0x65, 0x03, 0x04, 0x02, 0x01];

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

    fn time(text: &str) -> Vec<u8> {
        element(0x18, &[text.as_bytes()])
    }

    /// A response with one that is good until each of these, without a signature.
    pub(in crate::tls) fn good_until(times: &[Option<&str>]) -> Vec<u8> {
        let one = |until: &Option<&str>| {
            let next = until.map(|until| element(0xa0, &[&time(until)])).unwrap_or_default();
            let extensions = element(0xa1, &[&element(0x30, &[])]);
            let this = time("20200101000000Z");
            element(0x30, &[&element(0x30, &[]), &[0x80, 0], &this, &next, &extensions])
        };
        of(&times.iter().map(one).collect::<Vec<_>>())
    }

    /// A response with these SingleResponses, without a signature.
    fn of(responses: &[Vec<u8>]) -> Vec<u8> {
        let list = element(0x30, &[&responses.concat()]);
        let by_key = element(0xa2, &[&[0x04, 1, 7]]);
        let data = element(0x30, &[&by_key, &time("20200101000000Z"), &list]);
        let basic = element(0x30, &[&data, &element(0x30, &[]), &[0x03, 1, 0]]);
        let kind = [0x06, 9, 0x2b, 6, 1, 5, 5, 7, 0x30, 1, 1];
        let bytes = element(0x30, &[&kind, &element(0x04, &[&basic])]);
        element(0x30, &[&[0x0a, 1, 0], &element(0xa0, &[&bytes])])
    }

    /// A certificate with this serial number, signed by itself.
    fn certificate(serial: u8) -> Vec<u8> {
        let mut params = rcgen::CertificateParams::new(["a.test".to_owned()]).unwrap();
        params.serial_number = Some(vec![serial].into());
        let key = rcgen::KeyPair::generate().unwrap();
        params.self_signed(&key).unwrap().der().to_vec()
    }

    /// What is said of the certificate with a serial number and of this issuer, the digest of whose
    /// name is by SHA-1 or, where it is longer, SHA-256.
    fn single((issuer, serial): (&[u8], u8), status: &[u8], since: &str) -> Vec<u8> {
        let oid = if issuer.len() == 20 { OF_SHA1 } else { OF_SHA256 };
        let algorithm = element(0x30, &[&element(0x06, &[oid]), &[0x05, 0]]);
        let (name, key) = (element(0x04, &[issuer]), element(0x04, &[&[7; 20]]));
        let id = element(0x30, &[&algorithm, &name, &key, &[0x02, 1, serial]]);
        let next = element(0xa0, &[&time("20400101000000Z")]);
        element(0x30, &[&id, status, &time(since), &next])
    }

    #[test]
    fn a_response_that_is_of_no_use_to_its_certificate_is_told() {
        use StapleFault::{Early, Expired, Foreign, Revoked, Unknown};
        let (own, year_2030, year_2050) = (certificate(5), 1_893_456_000, 2_524_608_000);
        let parsed = X509Certificate::from_der(&own).unwrap().1;
        let name = parsed.issuer().as_raw();
        let sha1 = digest(&SHA1_FOR_LEGACY_USE_ONLY, name);
        let sha256 = digest(&SHA256, name);
        let (good, unknown) = (&[0x80, 0][..], &[0x82, 0][..]);
        let revoked = element(0xa1, &[&time("20200101000000Z")]);
        let fault = |responses: &[Vec<u8>], now_s| {
            let staple = Staple::of("a.ocsp", &of(responses), &own);
            staple.fault(now_s).map(|(_, fault)| fault)
        };
        let (long, late) = ("20200101000000Z", "20350101000000Z");
        for issuer in [sha1.as_ref(), sha256.as_ref()] {
            let of_own = |status: &[u8], since| single((issuer, 5), status, since);
            let of_next = single((issuer, 6), good, long);
            assert_eq!(fault(&[of_own(good, long)], year_2030), None);
            assert_eq!(fault(&[of_next.clone(), of_own(good, long)], year_2030), None);
            assert_eq!(fault(&[of_next], year_2030), Some(Foreign));
            assert_eq!(fault(&[of_own(&revoked, long)], year_2030), Some(Revoked));
            assert_eq!(fault(&[of_own(unknown, long)], year_2030), Some(Unknown));
            assert_eq!(fault(&[of_own(good, late)], year_2030), Some(Early));
            assert_eq!(fault(&[of_own(good, long)], year_2050), Some(Expired));
        }
        let of_others = single((&[7; 20], 5), good, long);
        assert_eq!(fault(&[of_others], year_2030), Some(Foreign), "the number of another issuer");
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
