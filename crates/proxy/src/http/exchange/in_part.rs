//! Answers from a stored part of a response, or sends the range of a request to servers because the
//! whole cannot be stored.

use std::sync::Arc;

use loadline_core::cache::{
    Decision, Fields, Forward, Found, Situation, Wishes, decide, parse_range, range_counts,
};
use loadline_http1::Method;

use super::{
    Exchange,
    cached::{Need, Step, fetch_key},
    stored::Given,
};
use crate::cache::{Key, Object, Store, Wanted, What, unix_now, wants_another};

/// A request for which no whole response is stored.
pub(super) struct InPart<'a> {
    pub(super) wanted: &'a Wanted,
    pub(super) fields: Fields<'a>,
    pub(super) wishes: &'a Wishes,
    /// The key of the whole.
    pub(super) key: &'a Key,
    /// The whole cannot be stored, as is known since a moment ago.
    pub(super) is_passed: bool,
}

impl Exchange<'_> {
    /// What is done with it; none if nothing but what is done without such parts.
    pub(super) fn step_in_part(&self, store: &Store, asked: &InPart<'_>) -> Option<Step> {
        let InPart { wanted, fields, wishes, is_passed, .. } = *asked;
        let has_range = fields.has("range");
        let now = self.worker.shared.clock.now();
        if self.request.method != Method::Get
            || wanted.caching().slice > 0
            || is_passed && !has_range
            || wishes.directives.no_store
        {
            return None;
        }
        let own = wanted.own_range();
        if wishes.authorized && store.passes_authorized(&own, now) {
            return None;
        }
        let found = store.look(&own.url, &own.variant, fields);
        let stored = match found.what {
            Some(What::Object(object)) => Some(object),
            Some(What::Unstorable(until)) if now < until => return None,
            _ => None,
        };
        if has_range {
            self.step_of_range(store, asked, own, (found.key, stored.as_ref()))
        } else {
            self.step_of_rest(store, asked, &stored?)
        }
    }

    /// The same of a request for a range: it is answered by the part that is stored, or servers are
    /// asked for just that range where the whole is known not to be stored. Where the whole would
    /// be, it is fetched, and the part stands in for it where servers fail.
    fn step_of_range(
        &self,
        store: &Store,
        asked: &InPart<'_>,
        own: Wanted,
        (key, stored): (Key, Option<&Arc<Object>>),
    ) -> Option<Step> {
        let InPart { wanted, fields, wishes, key: whole, is_passed } = *asked;
        let (now, settings) = (unix_now(), &wanted.caching().settings);
        let known = stored.map_or(Found::Nothing, |it| Found::Response(&it.metadata));
        let decision = |situation| decide(known, wishes, situation, now, settings);
        let is_used = |situation| {
            matches!(decision(situation), Decision::Fresh | Decision::Stale { revalidate: false })
        };
        let available = decision(Situation::Available);
        let is_fresh = available == Decision::Fresh;
        let enough = stored.filter(|it| has_all(it, fields)).cloned();
        if let Some(object) = enough.as_ref().filter(|_| is_used(Situation::Available)) {
            if wants_another(&object.response, fields, object.metadata.received) {
                return Some(Step::without(wishes));
            }
            // What is given counts as used.
            store.find(&own.url, &own.variant, fields);
            return Some(Step::Give(object.clone(), Given::hit(&object.metadata, now), false));
        }
        let is_known = stored.filter(|_| is_fresh);
        if wishes.directives.only_if_cached
            || available == Decision::Fetch(Forward::Bypass)
            || !(is_passed || stored.is_some())
            || !asks_for_one(fields)
            || stored.is_none() && has_condition(fields)
            || is_known.is_some_and(|it| !may_be_joined(it, fields))
        {
            return None;
        }
        let why = match available {
            Decision::Fetch(why) | Decision::Validate(why) => why,
            Decision::Stale { .. } => Forward::Stale,
            Decision::Fresh | Decision::OnlyIfCached | Decision::Fail => Forward::Partial,
        };
        let is_too_long = |it: &Arc<Object>| {
            it.part().is_some_and(|part| part.complete > store.longest_arriving())
        };
        let (key, asked) = match is_passed || stored.is_some_and(is_too_long) {
            true => (range_key(&fetch_key(key, fields), fields), Some(Box::new(own))),
            false => (fetch_key(whole.clone(), fields), None),
        };
        if store.passes(&key, self.worker.shared.clock.now()) {
            return Some(Step::Pass(enough));
        }
        Some(Step::Fetch(Need {
            key,
            why,
            may_be_full: enough.is_some() && is_used(Situation::Full),
            stored: enough,
            validates: false,
            place: None,
            asked,
        }))
    }

    /// The same of a request for all, of which the beginning is stored: servers are asked for the
    /// rest.
    fn step_of_rest(
        &self,
        store: &Store,
        asked: &InPart<'_>,
        stored: &Arc<Object>,
    ) -> Option<Step> {
        let InPart { wanted, fields, wishes, key, .. } = *asked;
        let part = stored.part().filter(|part| part.complete <= store.longest())?;
        part.rest()?;
        let (now, settings) = (unix_now(), &wanted.caching().settings);
        let known = Found::Response(&stored.metadata);
        let decision = decide(known, wishes, Situation::Available, now, settings);
        let is_good = decision == Decision::Fresh && !wishes.directives.only_if_cached;
        if !is_good || wants_another(&stored.response, fields, stored.metadata.received) {
            return None;
        }
        Some(Step::Fetch(Need {
            key: fetch_key(key.clone(), fields),
            why: Forward::Partial,
            stored: None,
            validates: false,
            may_be_full: false,
            place: None,
            asked: Some(Box::new(wanted.completing(stored))),
        }))
    }
}

/// Whether a part that is stored has all that a request wants of it.
fn has_all(stored: &Object, request: Fields<'_>) -> bool {
    let (own, received) = (stored.response.fields(), stored.metadata.received);
    let answer = stored.part().and_then(|part| part.answer(request, Fields(&own), received));
    answer.is_some()
}

/// Whether a request wants one range: then the response may be joined with others.
fn asks_for_one(request: Fields<'_>) -> bool {
    request.single("range").and_then(parse_range).is_some_and(|specs| specs.len() == 1)
}

/// Whether it asks for a response only under a condition, which a server decides as well.
fn has_condition(request: Fields<'_>) -> bool {
    CONDITIONS.iter().any(|name| request.has(name))
}

/// Whether what a request for one range brings is of the same content as what is stored and fresh,
/// as far as is known before it is sent.
fn may_be_joined(stored: &Object, request: Fields<'_>) -> bool {
    let own = stored.response.fields();
    let exists = stored.part().is_some_and(|part| {
        let specs = request.single("range").and_then(parse_range).unwrap_or_default();
        specs.iter().any(|spec| spec.within(part.complete).is_some())
    });
    exists && range_counts(request, Fields(&own), stored.metadata.received)
}

/// The key by which a fetch for a range is joined, by those who want the same.
fn range_key(key: &Key, request: Fields<'_>) -> Key {
    let value = |name| request.first(name).unwrap_or_default();
    [key, &b"\0"[..], value("range"), b"\0", value("if-range")].concat().into()
}

/// Preconditions (RFC 9110, 13.1) but `If-Range`, without which a range may change.
const CONDITIONS: [&str; 4] =
    ["if-match", "if-none-match", "if-modified-since", "if-unmodified-since"];
