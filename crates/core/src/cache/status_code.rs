//! What caching knows about status codes.

/// Whether the status code is final and its specification known to this cache: RFC 9110
/// section 15 and the codes of RFC 2295, 4918, 5842, 6585, 7538, 7725, 8297 and 8470.
#[must_use]
pub fn is_understood(status: u16) -> bool {
    matches!(
        status,
        200..=208
            | 226
            | 300..=305
            | 307
            | 308
            | 400..=417
            | 421..=426
            | 428
            | 429
            | 431
            | 451
            | 500..=508
            | 511
    )
}

/// Whether a response with this status code and no lifetime may get one: RFC 9110 section 15.1.
#[must_use]
pub fn is_heuristically_cacheable(status: u16) -> bool {
    matches!(status, 200 | 203 | 204 | 206 | 300 | 301 | 308 | 404 | 405 | 410 | 414 | 501)
}

/// Whether a response with this status code is an error for which RFC 5861 section 4 allows a
/// stale one instead.
#[must_use]
pub fn is_server_error(status: u16) -> bool {
    matches!(status, 500 | 502 | 503 | 504)
}
