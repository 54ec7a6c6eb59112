//! Whether a response may be stored: RFC 9111 section 3.

use super::{
    directives::{RequestDirectives, ResponseDirectives},
    field::Fields,
    freshness::Lifetime,
    invalidation::resolve,
    key::primary_key,
    message::{Exchange, Response},
    metadata::Metadata,
    range::ContentRange,
    settings::{SetCookie, Settings},
    status_code::is_understood,
    tags::are_too_many,
    unkeyed::changes_unkeyed,
    vary::Vary,
};

/// Decides whether a response may be stored and used for later requests.
///
/// The response to a `GET` is. So is the response to a `POST` that has a lifetime and is, by its
/// `Content-Location`, what a `GET` would get (RFC 9110 section 9.3.3); it is stored as that,
/// after the `POST` invalidated what was there. A response to `HEAD` has no content: it changes
/// what is stored, see [`effect_of_head`](super::effect_of_head).
///
/// # Errors
/// The first reason against it.
pub fn may_store(exchange: &Exchange<'_>, settings: &Settings) -> Result<Metadata, Refusal> {
    let Exchange { request, response, .. } = *exchange;
    if response.status == 206 && !request.fields.has("range") {
        return Err(Refusal::Partial);
    }
    match request.method {
        b"GET" => {}
        b"POST" if is_what_get_would_get(exchange) => {}
        _ => return Err(Refusal::Method),
    }
    may_keep(exchange, settings)
}

/// The same for a response that is stored already and was freshened.
pub(super) fn may_keep(exchange: &Exchange<'_>, settings: &Settings) -> Result<Metadata, Refusal> {
    let Exchange { request, response, .. } = *exchange;
    let directives = ResponseDirectives::of(response.fields, settings.targets);
    check_request(exchange, &directives, settings)?;
    check_directives(&response, &directives)?;
    check_consistency(response.status, response.fields)?;
    if are_too_many(response.fields) {
        return Err(Refusal::Tags);
    }
    let lifetime = Lifetime::of(exchange, &directives, settings);
    let explicit = matches!(lifetime, Lifetime::Explicit(_));
    if lifetime == Lifetime::Unknown {
        return Err(Refusal::Status);
    }
    if request.method == b"POST" && !explicit {
        return Err(Refusal::Method);
    }
    if sets_cookie(response.fields) && !(explicit && settings.set_cookie == SetCookie::WithLifetime)
    {
        return Err(Refusal::SetCookie);
    }
    let metadata = Metadata::of(exchange, &directives, lifetime);
    if metadata.is_of_use(exchange.received) { Ok(metadata) } else { Err(Refusal::NoLifetime) }
}

/// Why a response is not stored.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Refusal {
    /// Responses to the method are not used again.
    #[error("method")]
    Method,
    /// The request has content, which is no part of the key.
    #[error("request-content")]
    RequestContent,
    /// The request has a field that changes the response and is no part of the key.
    #[error("unkeyed-field")]
    Unkeyed,
    /// The status code is not final, not known where it must be, or may not be stored without a
    /// lifetime.
    #[error("status")]
    Status,
    /// The request or the response says `no-store`.
    #[error("no-store")]
    NoStore,
    /// The response says `private`.
    #[error("private")]
    Private,
    /// The request has `Authorization`, or the like, and the response does not allow it.
    #[error("authorization")]
    Authorization,
    /// The response sets a cookie: [`SetCookie`].
    #[error("set-cookie")]
    SetCookie,
    /// The response says `Vary: *`.
    #[error("vary")]
    Vary,
    /// It has more tags than are kept, or longer ones.
    #[error("tags")]
    Tags,
    /// A part whose place is not known or that nobody asked for.
    #[error("partial")]
    Partial,
    /// Two lines of the response contradict each other.
    #[error("contradiction")]
    Contradiction,
    /// It would never be used: it has no lifetime and no validator.
    #[error("no-lifetime")]
    NoLifetime,
}

fn check_request(
    exchange: &Exchange<'_>,
    directives: &ResponseDirectives,
    settings: &Settings,
) -> Result<(), Refusal> {
    let request = exchange.request;
    if request.is_retrieval() && request.has_content {
        return Err(Refusal::RequestContent);
    }
    if RequestDirectives::of(request.fields).no_store {
        return Err(Refusal::NoStore);
    }
    if request.fields.iter().any(|field| changes_unkeyed(field.name)) {
        return Err(Refusal::Unkeyed);
    }
    if settings.is_authorized(request.fields) && !directives.allows_authorized() {
        return Err(Refusal::Authorization);
    }
    Ok(())
}

fn check_directives(
    response: &Response<'_>,
    directives: &ResponseDirectives,
) -> Result<(), Refusal> {
    let understood = is_understood(response.status);
    if response.status < 200 || response.status == 304 {
        return Err(Refusal::Status);
    }
    if directives.must_understand && !understood {
        return Err(Refusal::Status);
    }
    if directives.no_store && !directives.must_understand {
        return Err(Refusal::NoStore);
    }
    if directives.private {
        return Err(Refusal::Private);
    }
    if Vary::of(response.fields) == Vary::Everything {
        return Err(Refusal::Vary);
    }
    if response.status == 206 && ContentRange::of(response.fields).is_none() {
        return Err(Refusal::Partial);
    }
    Ok(())
}

fn is_what_get_would_get(exchange: &Exchange<'_>) -> bool {
    let Exchange { request, response, .. } = exchange;
    let location = response.fields.single("content-location");
    let location = location.and_then(|location| resolve(request, location));
    location.is_some_and(|key| key == primary_key(request))
}

/// Refuses a response with contradicting fields, which would be repeated to others.
fn check_consistency(status: u16, fields: Fields<'_>) -> Result<(), Refusal> {
    let contradicts = ONCE.iter().any(|name| fields.contradicts(name));
    if contradicts || (status == 206 && ContentRange::contradicts_length(fields)) {
        return Err(Refusal::Contradiction);
    }
    Ok(())
}

fn sets_cookie(fields: Fields<'_>) -> bool {
    let is_cookie = |name: &[u8]| {
        name.eq_ignore_ascii_case(b"set-cookie") || name.eq_ignore_ascii_case(b"set-cookie2")
    };
    super::stored_fields(fields).any(|field| is_cookie(field.name))
}

/// Fields that say what the content is, of which there may be one.
const ONCE: [&str; 6] =
    ["content-type", "content-range", "content-location", "content-length", "location", "etag"];
