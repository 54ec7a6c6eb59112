//! The rules of an HTTP cache that several clients share, as pure functions.
//!
//! RFC 9111 (caching), RFC 9110 (conditions, ranges), RFC 5861 (`stale-while-revalidate`,
//! `stale-if-error`), RFC 8246 (`immutable`), RFC 9211 (`Cache-Status`) and RFC 9213
//! (`CDN-Cache-Control`). Where an RFC leaves a choice, the careful one is taken: nothing is
//! stored or used that a server did not mean for everybody.
//!
//! # How a proxy drives them
//! The proxy owns the store, the sockets and the clock. `now` is a [`UnixTime`], by the wall clock:
//! what is stored survives the process, on disk. For each request:
//!
//! 1. **Which requests.** A method that is not `GET` or `HEAD`, or a `GET` with content, is
//!    forwarded ([`Forward::Method`], [`Forward::Bypass`]) and its response handed to step 6. From
//!    all others the fields for which [`changes_unkeyed`] holds are removed before anything reads
//!    them; what is forwarded is also what the rules see, but for such fields that the proxy has
//!    written itself ([`keyed_fields`]).
//! 2. **Look up.** [`primary_key`] finds the variants of a resource. Each was stored with its
//!    [`Vary`] (of its stored fields) and the [`Vary::secondary_key`] that the request which
//!    brought it had; a variant is selected if `vary.secondary_key(request)` equals it.
//! 3. **Decide.** [`decide`] with what was found, the request's [`Wishes`] and
//!    [`Situation::Available`].
//!    - [`Decision::Fresh`], [`Decision::Stale`]: step 4; with `revalidate`, and if there is
//!      headroom, a request of step 5 in the background, one for all clients.
//!    - [`Decision::Validate`], [`Decision::Fetch`]: a permit is asked for. If the groups are full,
//!      [`decide`] again with [`Situation::Full`]; what it then says to use is used, otherwise the
//!      request waits or is shed as without a cache. With a permit, step 5.
//!    - [`Decision::OnlyIfCached`] is a 504.
//!
//!    Requests for the same share a response that is coming in; those that come when its head is
//!    there only if [`may_join`].
//! 4. **Respond from the store.** [`Condition::of`] says whether 304 or 412 is enough (a 304 has
//!    the fields for which [`is_sent_with_304`] holds). Otherwise, for a `GET` whose stored status
//!    is 200 or 206 and if [`range_counts`], [`Wanted::of`] says which bytes: 200, 206 with
//!    [`ByteRange::content_range`], 206 framed by [`Multipart`], or 416 with
//!    [`unsatisfied_content_range`]. Of content in [`Slices`], which of them have the bytes: each
//!    is looked up and fetched by itself, with `Range`, and used if its [`strong_tag`] is that of
//!    the first. Of an [`Incomplete`] response only what it has ([`Incomplete::answer`]).
//!    The response has the stored fields (without those that [`is_for_the_cache`]), one `Age` of
//!    [`Metadata::age`] in whole seconds in place of any stored one, and [`CacheStatus`].
//! 5. **Ask the servers.** To validate, with [`validating_fields`]; to fetch what may be stored,
//!    without the client's conditions ([`is_condition`]) and, unless parts are wanted, without its
//!    `Range`, so that what comes can be stored and answers the next client too. Then, by the
//!    response:
//!    - none, or [`is_server_error`]: [`decide`] with [`Situation::Failed`];
//!      [`Decision::Fail`] passes the failure on.
//!    - 304 to a validation: if [`is_about`] what is stored, [`freshen`] it and respond as in
//!      step 4. If it is not, the stored response is dropped and the request sent again without
//!      conditions.
//!    - the response to a request for a slice: good if it [`brings`] that, of content as long as
//!      the first slice says.
//!    - a 206 to the client's own `Range`, asked for where the whole cannot be stored: joined with
//!      the [`Incomplete`] response that is stored, if it [`continues`] that.
//!    - anything else is passed to the client, whose own conditions and range are applied to a
//!      200 as in step 4, and
//! 6. **Store and forget.** The keys of [`invalidated_keys`] are dropped, or
//!    [`Metadata::invalidate`]d. [`may_store`] says whether the response is stored; if so,
//!    [`stored_fields`] of it (and a `Date` of its reception if it has none), with its [`tags`];
//!    the one client for whom it was fetched gets those that are [`withheld`] beside them. A
//!    response that is cut off before its end is not stored. The response to a `HEAD` changes the
//!    stored `GET`: [`effect_of_head`].
//!
//! Which responses stay when the store is full is decided by [`eviction`].
//!
//! A soft purge calls [`Metadata::mark_stale`]; a hard one drops what it names.
//!
//! [`UnixTime`]: crate::time::UnixTime

mod cache_status;
mod conditional;
mod date;
mod delta_seconds;
mod directives;
pub mod disk;
mod entity_tag;
pub mod eviction;
mod extents;
mod field;
mod freshness;
mod incomplete;
mod invalidation;
mod key;
mod message;
mod metadata;
mod range;
mod reuse;
mod settings;
mod slices;
mod status_code;
mod storage;
mod stored_fields;
mod tags;
mod targeted;
mod unkeyed;
mod validation;
mod vary;

pub use cache_status::{CacheStatus, Outcome};
pub use conditional::{Condition, is_condition, is_sent_with_304};
pub use date::{format_date, parse_date};
pub use delta_seconds::DeltaSeconds;
pub use directives::{RequestDirectives, ResponseDirectives, withheld_fields};
pub use entity_tag::{EntityTag, entity_tags};
pub use extents::{Extent, Extents, HUGE_PAGE};
pub use field::{Field, Fields, members};
pub use freshness::{Lifetime, date, generated};
pub use incomplete::{Incomplete, Kept, continues, is_shortened, strong_validator};
pub use invalidation::{invalidated_keys, is_safe};
pub use key::{key_of_url, primary_key};
pub use message::{Exchange, Request, Response};
pub use metadata::Metadata;
pub use range::{
    ByteRange, ContentRange, Multipart, PARTS_MAX, RangeSpec, SPECS_MAX, Wanted, parse_range,
    range_counts, unsatisfied_content_range,
};
pub use reuse::{Decision, Forward, Found, Situation, Wishes, decide, may_join};
pub use settings::{SetCookie, Settings};
pub use slices::{Slices, brings, pause_before, strong_tag};
pub use status_code::{is_heuristically_cacheable, is_server_error, is_understood};
pub use storage::{Refusal, may_store};
pub use stored_fields::{freshened_fields, stored_fields, withheld};
pub use tags::{TAG_LENGTH_MAX, TAGS_MAX, is_for_the_cache, tags};
pub use targeted::CDN_CACHE_CONTROL;
pub use unkeyed::{changes_unkeyed, keyed_fields};
pub use validation::{
    Effect, Freshened, effect_of_head, forbids_storing, freshen, has_validator, is_about,
    validating_fields,
};
pub use vary::Vary;
