//! The meaning of a response of an object store that is not an object.
//!
//! Stores tell in XML what is wrong, in an element `Code` (S3 API reference, "Error responses";
//! Azure Storage, "Status and error codes").
//! Much of that is between the store and loadline: keys, signatures, regions, throttling. Clients
//! are told what it means for them, and nothing else of it.

use crate::decide::reason::Reason;

/// What is to be done about it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// The client gets this status, with a body of ours.
    Replace(u16),
    /// The request is sent once more with credentials that are read anew, and fails for this reason
    /// if that does not help.
    Renew(Reason),
    /// The request is sent once more if there are other credentials; the client gets this status if
    /// there are none, or if that does not help.
    RenewOr(u16),
    /// The request is sent once more, signed for the region that the response names, and fails for
    /// this reason if it names none.
    Region(Reason),
    /// The request fails.
    Fail(Reason),
}

/// Judges a response by its status, its `Code` and the region that it names, which are empty where
/// there are none. Of 503 the code tells whether the store asks for fewer requests or fails:
/// `ServiceUnavailable` of S3 is "unable to handle request".
#[must_use]
pub fn judge(status: u16, code: &str, region: &str) -> Verdict {
    match code {
        "" if status == 400 && !region.is_empty() => Verdict::Region(Reason::StoreRegion),
        "NoSuchBucket" | "InvalidBucketName" | "UserProjectMissing" | "ContainerNotFound" => {
            Verdict::Fail(Reason::StoreNoBucket)
        }
        "InvalidAccessKeyId" | "InvalidToken" | "InvalidSecurity" => {
            Verdict::Renew(Reason::StoreCredentials)
        }
        "ExpiredToken" | "TokenRefreshRequired" => Verdict::Renew(Reason::StoreTokenExpired),
        "SignatureDoesNotMatch" | "AuthenticationFailed" => Verdict::Renew(Reason::StoreSignature),
        "RequestTimeTooSkewed" | "RequestExpired" => Verdict::Fail(Reason::StoreClock),
        "AuthorizationHeaderMalformed" => Verdict::Region(Reason::StoreRegion),
        "PermanentRedirect" | "TemporaryRedirect" => Verdict::Fail(Reason::StoreRegion),
        "SlowDown" | "RequestLimitExceeded" | "TooManyRequests" | "ServerBusy" => {
            Verdict::Fail(Reason::StoreThrottled)
        }
        // A store whose keys may not be listed does not tell missing from forbidden.
        "AccessDenied"
        | "NoSuchKey"
        | "NoSuchVersion"
        | "KeyTooLongError"
        | "InvalidURI"
        | "BlobNotFound"
        | "InvalidUri"
        | "InvalidResourceName"
        | "OutOfRangeInput"
        // MinIO has no such name.
        | "XMinioInvalidObjectName"
        | "XMinioInvalidResourceName"
        | "XMinioObjectNamePrefixSlash"
        // It is in an archive, from where it has to be restored first.
        | "InvalidObjectState"
        | "BlobArchived" => Verdict::Replace(404),
        // A missing object has one of the names above: what is not found here may be anything.
        _ if matches!(status, 403 | 404) && !code.is_empty() => Verdict::Fail(Reason::StoreRefuses),
        // It is about this request, and the store is well.
        _ if status == 400 && !code.is_empty() => Verdict::Replace(400),
        _ => of_status(status),
    }
}

/// The same of a response to HEAD. A 503 without a `Code` is as good as one that asks for fewer
/// requests, which a healthy store may do.
#[must_use]
pub fn judge_head(status: u16, code: &str, region: &str) -> Verdict {
    match (status, code) {
        (503, "") => Verdict::Fail(Reason::StoreThrottled),
        _ => judge(status, code, region),
    }
}

const fn of_status(status: u16) -> Verdict {
    match status {
        429 => Verdict::Fail(Reason::StoreThrottled),
        301 | 302 | 307 | 308 => Verdict::Fail(Reason::StoreRegion),
        // A HEAD of which nobody says why it fails: a token has expired, or it is about the object.
        400 => Verdict::RenewOr(400),
        401 => Verdict::Renew(Reason::StoreRefuses),
        // A HEAD of what is missing where keys may not be listed, or may not be read: GET is told
        // AccessDenied for both. 405 is for what was deleted, with a marker where it was.
        403 | 405 => Verdict::Replace(404),
        // A head that is too long is the client's.
        404 | 412 | 414 | 416 | 431 | 500..=599 => Verdict::Replace(status),
        _ => Verdict::Fail(Reason::StoreRefuses),
    }
}

/// The text of the first element of this name; empty where there is none.
#[must_use]
pub fn element<'a>(body: &'a [u8], name: &str) -> &'a str {
    let find = |text: &[u8], word: &[u8]| text.windows(word.len()).position(|it| it == word);
    let after = |at: usize| body.get(at + name.len() + 2..);
    let mut from = 0;
    while let Some(at) = body.get(from..).and_then(|rest| find(rest, name.as_bytes())) {
        let at = from + at;
        let opens = at > 0 && body[at - 1] == b'<' && body.get(at + name.len()) == Some(&b'>');
        if opens {
            let text = after(at - 1).unwrap_or_default();
            let end = text.iter().position(|byte| *byte == b'<').unwrap_or(0);
            return core::str::from_utf8(&text[..end]).unwrap_or_default();
        }
        from = at + name.len();
    }
    ""
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::decide::ending::{Ending, Fault};

    #[test]
    fn what_is_missing_is_no_fault_of_the_store() {
        for (status, code, told) in [
            (404, "NoSuchKey", 404),
            (404, "", 404),
            (403, "AccessDenied", 404),
            (403, "", 404),
            (400, "KeyTooLongError", 404),
            (404, "BlobNotFound", 404),
            (400, "OutOfRangeInput", 404),
            (400, "XMinioInvalidObjectName", 404),
            (400, "XMinioInvalidResourceName", 404),
            (400, "XMinioObjectNamePrefixSlash", 404),
            (403, "InvalidObjectState", 404),
            (409, "BlobArchived", 404),
            (414, "", 414),
            (431, "", 431),
            (412, "ConditionNotMet", 412),
            (405, "MethodNotAllowed", 404),
            (412, "PreconditionFailed", 412),
            (416, "InvalidRange", 416),
            (500, "InternalError", 500),
        ] {
            assert_eq!(judge(status, code, ""), Verdict::Replace(told), "{status} {code}");
        }
    }

    #[test]
    fn a_request_that_is_bad_for_one_object_says_nothing_of_the_store() {
        // An object that is encrypted with a key that its reader has to send.
        for code in ["InvalidRequest", "InvalidArgument", "SomethingNew"] {
            assert_eq!(judge(400, code, ""), Verdict::Replace(400), "{code}");
        }
        // As HEAD is told of it, and of a token that has expired.
        assert_eq!(judge(400, "", ""), Verdict::RenewOr(400));
    }

    #[test]
    fn credentials_are_read_anew_before_a_request_fails_for_them() {
        for (status, code, reason) in [
            (400, "ExpiredToken", Reason::StoreTokenExpired),
            (403, "InvalidAccessKeyId", Reason::StoreCredentials),
            (403, "SignatureDoesNotMatch", Reason::StoreSignature),
            (403, "AuthenticationFailed", Reason::StoreSignature),
            (401, "", Reason::StoreRefuses),
        ] {
            assert_eq!(judge(status, code, ""), Verdict::Renew(reason), "{status} {code}");
            assert_eq!(reason.ending(), Ending::StoreRefused);
        }
    }

    #[test]
    fn a_store_that_asks_for_less_is_full_and_not_broken() {
        for (status, code) in
            [(503, "SlowDown"), (503, "ServerBusy"), (429, ""), (400, "ServerBusy")]
        {
            assert_eq!(judge(status, code, ""), Verdict::Fail(Reason::StoreThrottled));
            assert_eq!(judge_head(status, code, ""), Verdict::Fail(Reason::StoreThrottled));
        }
        let ending = Reason::StoreThrottled.ending();
        assert_eq!((ending.fault(), ending.status()), (Fault::Capacity, Some(503)));
    }

    #[test]
    fn a_503_that_does_not_ask_for_less_is_an_error_as_any_other() {
        for code in ["", "ServiceUnavailable", "XMinioServerNotInitialized", "SlowDownRead"] {
            assert_eq!(judge(503, code, ""), Verdict::Replace(503), "{code}");
            // HEAD has no body that could say so.
            let of_head = match code {
                "" => Verdict::Fail(Reason::StoreThrottled),
                _ => Verdict::Replace(503),
            };
            assert_eq!(judge_head(503, code, ""), of_head, "{code}");
        }
        assert_eq!(judge_head(403, "", ""), Verdict::Replace(404));
    }

    #[test]
    fn another_region_is_learnt_where_the_store_names_it() {
        let judge = |status, code| judge(status, code, "eu-central-1");
        for code in ["AuthorizationHeaderMalformed", ""] {
            assert_eq!(judge(400, code), Verdict::Region(Reason::StoreRegion), "{code}");
        }
        for code in ["PermanentRedirect", ""] {
            assert_eq!(judge(301, code), Verdict::Fail(Reason::StoreRegion), "{code}");
        }
        // An unknown key, as versitygw tells it.
        let refused = Verdict::Fail(Reason::StoreRefuses);
        assert_eq!(judge(404, "XAdminUserNotFound"), refused);
        assert_eq!(judge(404, "NoSuchBucket"), Verdict::Fail(Reason::StoreNoBucket));
    }

    #[test]
    fn an_element_is_found_in_a_document_and_in_none_that_is_broken() {
        let body = b"<?xml version=\"1.0\"?>\n<Error><ErrorCode>x</ErrorCode><Code>SlowDown</Code>\
            <Region>eu-central-1</Region><Code>Second</Code></Error>";
        assert_eq!(element(body, "Code"), "SlowDown");
        assert_eq!(element(body, "Region"), "eu-central-1");
        for broken in [&b""[..], b"Code", b"<Code", b"<Code>", b"<Code>x", b"<Code>\xff</Code>"] {
            assert_eq!(element(broken, "Code"), "", "{broken:?}");
        }
        assert_eq!(element(b"Code>", "Code"), "");
    }
}
