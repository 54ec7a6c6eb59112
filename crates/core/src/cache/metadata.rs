//! What the rules keep of a stored response, so that using it again reads no header field.

use serde::{Deserialize, Serialize};

use super::{
    delta_seconds::DeltaSeconds,
    directives::ResponseDirectives,
    freshness::{Lifetime, generated},
    message::Exchange,
    validation::has_validator,
};
use crate::time::{Duration, UnixTime};

/// What is known of a stored response beside its fields and content.
///
/// It is made by [`may_store`](super::may_store), replaced by [`freshen`](super::freshen), and
/// changed by [`Self::invalidate`] and [`Self::mark_stale`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Metadata {
    /// The status code.
    pub status: u16,
    /// When it was generated, as nearly as its head tells: its age counts from here.
    pub generated: UnixTime,
    /// When it was received or last validated.
    pub received: UnixTime,
    /// How long it stays fresh from when it was generated, or was marked stale.
    pub lifetime: Duration,
    /// How long after `lifetime` it may be used while it is validated.
    pub stale_while_revalidate: Option<DeltaSeconds>,
    /// How long after `lifetime` it may be used if its server fails.
    pub stale_if_error: Option<DeltaSeconds>,
    /// Whether it may be used stale; if not, the two above do not count.
    pub may_be_stale: bool,
    /// It may not be used without successful validation: `no-cache`, or invalidated.
    pub needs_validation: bool,
    /// Something of it can be named in a conditional request.
    pub has_validator: bool,
    /// It does not change while it is fresh.
    pub immutable: bool,
    /// It may be used for requests with `Authorization`.
    pub for_authorized: bool,
}

impl Metadata {
    pub(super) fn of(
        exchange: &Exchange<'_>,
        directives: &ResponseDirectives,
        lifetime: Lifetime,
    ) -> Self {
        Self {
            status: exchange.response.status,
            generated: generated(exchange),
            received: exchange.received,
            lifetime: lifetime.span(),
            stale_while_revalidate: directives.stale_while_revalidate.map(Into::into),
            stale_if_error: directives.stale_if_error.map(Into::into),
            may_be_stale: !directives.forbids_stale(),
            needs_validation: directives.no_cache,
            has_validator: has_validator(exchange.response.fields),
            immutable: directives.immutable,
            for_authorized: directives.allows_authorized(),
        }
    }

    /// Its current age: what `Age` says, in whole seconds, when it is used.
    #[must_use]
    pub fn age(&self, now: UnixTime) -> Duration {
        now.since(self.generated)
    }

    /// Whether it is fresh: RFC 9111 section 4.2.
    #[must_use]
    pub fn is_fresh(&self, now: UnixTime) -> bool {
        self.lifetime > self.age(now)
    }

    /// For how long it has been stale; zero while it is fresh.
    #[must_use]
    pub fn staleness(&self, now: UnixTime) -> Duration {
        self.age(now).saturating_sub(self.lifetime)
    }

    /// The remaining lifetime in whole seconds, negative if it is stale: `ttl` of RFC 9211.
    #[must_use]
    pub fn ttl(&self, now: UnixTime) -> i64 {
        let secs = |span: Duration| i64::try_from(span.as_nanos() / NANOS_PER_SEC).unwrap_or(0);
        secs(self.lifetime) - secs(self.age(now))
    }

    /// Demands validation before the next use: what RFC 9111 section 4.4 means by invalid. For
    /// responses that were changed by a request, and a hard purge that keeps the content.
    pub fn invalidate(&mut self) {
        self.needs_validation = true;
    }

    /// Ends its lifetime now, as a soft purge does: it may be used stale as it allows, counted
    /// from now.
    pub fn mark_stale(&mut self, now: UnixTime) {
        self.lifetime = self.lifetime.min(self.age(now));
    }

    /// Whether it can be used again at all: fresh, after validation, or stale by its own word.
    pub(super) fn is_of_use(&self, now: UnixTime) -> bool {
        let own_word = |span: Option<DeltaSeconds>| span.is_some_and(|span| span.as_secs() > 0);
        let stale = own_word(self.stale_while_revalidate) || own_word(self.stale_if_error);
        let unvalidated = self.is_fresh(now) || (self.may_be_stale && stale);
        self.has_validator || (unvalidated && !self.needs_validation)
    }
}

const NANOS_PER_SEC: u64 = 1_000_000_000;
