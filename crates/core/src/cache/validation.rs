//! Validating what is stored: RFC 9111 section 4.3.

use alloc::vec::Vec;

use super::{
    conditional::is_condition,
    directives::RequestDirectives,
    entity_tag::EntityTag,
    field::{Field, Fields},
    message::{Exchange, Response},
    metadata::Metadata,
    settings::Settings,
    storage::{Refusal, may_keep},
    stored_fields::freshened_fields,
    vary::Vary,
};

/// Whether a stored response can be validated: it has an entity tag or a date of its last change.
#[must_use]
pub fn has_validator(stored: Fields<'_>) -> bool {
    stored.has("etag") || stored.has("last-modified")
}

/// The fields of the request that validates a stored response: those of the client without its own
/// conditions and without its `Range`, and `If-None-Match` and `If-Modified-Since` of what is
/// stored.
#[must_use]
pub fn validating_fields<'a>(request: Fields<'a>, stored: Fields<'a>) -> Vec<Field<'a>> {
    let dropped = |field: &Field<'a>| is_condition(field.name) || field.is("range");
    let tag = stored.single("etag").map(|tag| Field::new(b"If-None-Match", tag));
    let date = stored.single("last-modified").map(|date| Field::new(b"If-Modified-Since", date));
    request.iter().filter(|field| !dropped(field)).chain(tag).chain(date).collect()
}

/// What a response to a validating request, or to `HEAD`, does to a stored response.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Effect {
    /// It freshens the stored response: [`freshen`].
    Freshen,
    /// It shows that the stored response is outdated, which is not used again.
    Outdated,
    /// It says nothing about the stored response.
    Nothing,
}

/// Whether a 304 is about this stored response (RFC 9111 section 4.3.4): it has its entity tag,
/// or, without one, its date of the last change, or neither. If it has another one, the request
/// is sent again without conditions.
#[must_use]
pub fn is_about(not_modified: Fields<'_>, stored: Fields<'_>) -> bool {
    if let Some(new) = not_modified.single("etag").map(EntityTag::parse) {
        let old = stored.single("etag").map(EntityTag::parse);
        return old.is_some_and(|old| new.equals_weakly(&old));
    }
    let new = not_modified.single("last-modified");
    new.is_none() || new == stored.single("last-modified")
}

/// What the response to a `HEAD` does to the stored response to a `GET`: RFC 9111 section 4.3.5. If
/// it names other fields in `Vary`, it is not known for which requests the stored one is.
#[must_use]
pub fn effect_of_head(head: &Response<'_>, status: u16, stored: Fields<'_>) -> Effect {
    if head.status != status || status != 200 {
        return Effect::Nothing;
    }
    let agrees = |name: &str| {
        let new = head.fields.single(name);
        new.is_none() || new == stored.single(name)
    };
    let is_as_long = !stored.has("content-length") || agrees("content-length");
    let varies_alike = !head.fields.has("vary") || Vary::of(head.fields) == Vary::of(stored);
    let same = is_as_long && varies_alike && agrees("etag") && agrees("last-modified");
    if same { Effect::Freshen } else { Effect::Outdated }
}

/// Whether a response to a `HEAD` with these fields that may not freshen what is stored, for this
/// reason, also says that nobody may have that any more: not where only its own request is why.
#[must_use]
pub fn forbids_storing(refusal: Refusal, request: Fields<'_>) -> bool {
    match refusal {
        Refusal::Private => true,
        Refusal::NoStore => !RequestDirectives::of(request).no_store,
        _ => false,
    }
}

/// A stored response after a newer one freshened it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Freshened<'a> {
    /// Header fields, the newer ones in place of the stored.
    pub fields: Vec<Field<'a>>,
    /// Its age and how long it stays fresh, as the newer one has them.
    pub metadata: Metadata,
}

/// Freshens a stored response by a 304 or the response to a `HEAD`: `exchange` is the newer one,
/// `status` and `stored` are of the stored one.
///
/// # Errors
/// Why what is stored may not be kept: the newer one says so.
pub fn freshen<'a>(
    stored: Fields<'a>,
    status: u16,
    exchange: &Exchange<'a>,
    settings: &Settings,
) -> Result<Freshened<'a>, Refusal> {
    let mut fields = freshened_fields(stored, exchange.response.fields);
    // The date of the old one is no date of the newer one.
    if !exchange.response.fields.has("date") {
        fields.retain(|field| !field.is("date"));
    }
    let response = Response { status, fields: Fields(&fields) };
    let exchange = Exchange { response, ..*exchange };
    let metadata = may_keep(&exchange, settings)?;
    Ok(Freshened { fields, metadata })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cache::field::tests::lines;

    fn effect(head: &[&str], stored: &[&str]) -> Effect {
        let (head, stored) = (lines(head), lines(stored));
        effect_of_head(&Response { status: 200, fields: Fields(&head) }, 200, Fields(&stored))
    }

    #[test]
    fn a_head_with_a_validator_that_the_stored_response_lacks_is_of_another() {
        let (tag, date) = ("ETag: \"b\"", "Last-Modified: Tue, 24 Nov 2026 11:00:00 GMT");
        for validator in [tag, date] {
            assert_eq!(effect(&[validator], &["Content-Length: 5"]), Effect::Outdated);
            assert_eq!(effect(&[validator], &[validator]), Effect::Freshen);
            assert_eq!(effect(&[], &[validator]), Effect::Freshen, "it says nothing of it");
        }
        assert_eq!(effect(&[tag, date], &[tag]), Effect::Outdated);
    }

    #[test]
    fn a_head_that_names_other_fields_in_vary_has_the_stored_response_validated() {
        let (one, both) = ("Vary: Accept-Encoding", "Vary: accept-language, Accept-Encoding");
        for (head, stored) in [(both, one), (one, both), ("Vary: *", one)] {
            assert_eq!(effect(&[head], &[stored]), Effect::Outdated, "{head}, {stored}");
        }
        assert_eq!(effect(&[one], &[]), Effect::Outdated);
        assert_eq!(effect(&[], &[one]), Effect::Freshen, "it says nothing of it");
        let same = "Vary: Accept-Encoding, Accept-Language";
        assert_eq!(effect(&[same], &[both]), Effect::Freshen);
    }

    #[test]
    fn a_head_takes_back_what_its_server_does_not_want_stored_but_not_for_what_its_client_says() {
        let own = lines(&["Cache-Control: no-store"]);
        assert!(forbids_storing(Refusal::Private, Fields(&[])));
        assert!(forbids_storing(Refusal::NoStore, Fields(&[])));
        assert!(!forbids_storing(Refusal::NoStore, Fields(&own)));
        assert!(!forbids_storing(Refusal::Authorization, Fields(&[])));
    }

    #[test]
    fn a_length_counts_where_both_tell_it() {
        let length = "Content-Length: 5";
        assert_eq!(effect(&[length], &[]), Effect::Freshen);
        assert_eq!(effect(&[], &[length]), Effect::Freshen);
        assert_eq!(effect(&[length], &["Content-Length: 6"]), Effect::Outdated);
    }
}
