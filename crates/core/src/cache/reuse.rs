//! What is done with a request, given what is stored for it: RFC 9111 section 4, RFC 5861,
//! RFC 8246.

use super::{directives::RequestDirectives, field::Fields, metadata::Metadata, settings::Settings};
use crate::time::{Duration, UnixTime};

/// What the store has for a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Found<'a> {
    /// Nothing for its primary key.
    Nothing,
    /// Responses for its primary key, none for its secondary key.
    OtherVariants,
    /// A response that it selects.
    Response(&'a Metadata),
}

/// How the servers are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Situation {
    /// Nothing is known against asking them.
    Available,
    /// Their groups have no capacity left for this request now.
    Full,
    /// They were asked and failed: no response, or one of [`is_server_error`].
    ///
    /// [`is_server_error`]: super::is_server_error
    Failed,
}

/// What is done.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Decision {
    /// The stored response is used; it is fresh.
    Fresh,
    /// The stored response is used; it is stale.
    Stale {
        /// Whether it is validated meanwhile, given headroom.
        revalidate: bool,
    },
    /// The servers are asked whether the stored response is still right, with
    /// [`validating_fields`](super::validating_fields).
    Validate(Forward),
    /// The servers are asked for a response.
    Fetch(Forward),
    /// 504: the client wants nothing that is not stored.
    OnlyIfCached,
    /// The failure is the response: RFC 9111 section 4.2.4 wants nothing stale instead.
    Fail,
}

/// Why a request is forwarded: the `fwd` parameter of RFC 9211 section 2.2.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Forward {
    /// The cache is not used for the request.
    Bypass,
    /// Its method is forwarded always.
    Method,
    /// Nothing is stored for its URI.
    UriMiss,
    /// No stored response matches its selecting fields.
    VaryMiss,
    /// A part that it wants is not stored.
    Partial,
    /// What is stored is fresh, but the client wants it newer.
    Request,
    /// What is stored is stale.
    Stale,
}

/// What of a request counts for using stored responses.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Wishes {
    /// What its `Cache-Control` or `Pragma` asks for.
    pub directives: RequestDirectives,
    /// Whether it shows who is asking: [`Settings::is_authorized`].
    pub authorized: bool,
}

impl Wishes {
    /// Reads the fields of a request.
    #[must_use]
    pub fn of(fields: Fields<'_>, settings: &Settings) -> Self {
        let authorized = settings.is_authorized(fields);
        Self { directives: RequestDirectives::of(fields), authorized }
    }
}

/// Decides what is done with a `GET` or `HEAD`.
///
/// It is asked again as more is known: first with [`Situation::Available`]; with
/// [`Situation::Full`] if the request would have to wait for capacity; with
/// [`Situation::Failed`] after the servers failed. With `Full` it forwards where nothing stored
/// may be used, and the request then waits or is shed as any other.
#[must_use]
pub fn decide(
    found: Found<'_>,
    wishes: &Wishes,
    situation: Situation,
    now: UnixTime,
    settings: &Settings,
) -> Decision {
    let asked = Asked::of(&wishes.directives, settings);
    let forward = match found {
        Found::Nothing => Decision::Fetch(Forward::UriMiss),
        Found::OtherVariants => Decision::Fetch(Forward::VaryMiss),
        // Without the word of its server, what is for everybody may differ from what is for
        // somebody who is known.
        Found::Response(stored) if wishes.authorized && !stored.for_authorized => {
            Decision::Fetch(Forward::Bypass)
        }
        Found::Response(stored) => match use_stored(stored, &asked, situation, now, settings) {
            Ok(used) => return used,
            Err(why) if stored.has_validator => Decision::Validate(why),
            Err(why) => Decision::Fetch(why),
        },
    };
    if wishes.directives.only_if_cached {
        Decision::OnlyIfCached
    } else if situation == Situation::Failed {
        Decision::Fail
    } else {
        forward
    }
}

/// Whether a request may wait for the rest of a response whose head has come, beside those who
/// asked before that: only if it may be used without asking its server (RFC 9111 section 4). Ages
/// are told in whole seconds, so in its first one what has no lifetime counts as new: many who ask
/// for it have a fetch a second then, not one after each head.
#[must_use]
pub fn may_join(coming: &Metadata, wishes: &Wishes, now: UnixTime, settings: &Settings) -> bool {
    let coming = Metadata { lifetime: coming.lifetime.max(Duration::from_secs(1)), ..*coming };
    let found = Found::Response(&coming);
    let decision = decide(found, wishes, Situation::Available, now, settings);
    matches!(decision, Decision::Fresh | Decision::Stale { .. })
}

/// Directives of the client, where they count.
struct Asked {
    max_age: Option<Duration>,
    min_fresh: Duration,
    max_stale: Duration,
    stale_if_error: Duration,
    no_cache: bool,
}

impl Asked {
    fn of(directives: &RequestDirectives, settings: &Settings) -> Self {
        let counts = settings.request_directives;
        let span = |wish: Option<Duration>| wish.filter(|_| counts);
        Self {
            max_age: span(directives.max_age),
            min_fresh: span(directives.min_fresh).unwrap_or_default(),
            max_stale: span(directives.max_stale).unwrap_or_default(),
            stale_if_error: span(directives.stale_if_error).unwrap_or_default(),
            no_cache: directives.no_cache && counts,
        }
    }

    /// Whether a response of this age is young enough. `max-age=0` is a reload, which an immutable
    /// response that is fresh does not need: RFC 8246 section 2.
    fn accepts_age(&self, age: Duration, immutable_and_fresh: bool) -> bool {
        self.max_age.is_none_or(|max_age| match max_age {
            Duration::ZERO => immutable_and_fresh,
            max_age => age <= max_age,
        })
    }
}

/// How a stored response is used, or why it is not.
fn use_stored(
    stored: &Metadata,
    asked: &Asked,
    situation: Situation,
    now: UnixTime,
    settings: &Settings,
) -> Result<Decision, Forward> {
    let (age, staleness) = (stored.age(now), stored.staleness(now));
    let fresh = stored.is_fresh(now);
    if stored.needs_validation {
        return Err(Forward::Stale);
    }
    let young = !asked.no_cache && asked.accepts_age(age, stored.immutable && fresh);
    let left = stored.lifetime.saturating_sub(age);
    if fresh {
        // What a client wants newer is advice; where servers cannot be asked it does not count.
        let cannot_ask = situation != Situation::Available;
        let wanted = young && left >= asked.min_fresh;
        return if wanted || cannot_ask { Ok(Decision::Fresh) } else { Err(Forward::Request) };
    }
    if !stored.may_be_stale {
        return Err(Forward::Stale);
    }
    let wanted = young && asked.min_fresh == Duration::ZERO;
    if wanted && asked.max_stale > Duration::ZERO && staleness <= asked.max_stale {
        return Ok(Decision::Stale { revalidate: false });
    }
    let meanwhile = stored.stale_while_revalidate.filter(|_| settings.stale_while_revalidate);
    if wanted && meanwhile.is_some_and(|window| staleness <= window.into()) {
        return Ok(Decision::Stale { revalidate: situation == Situation::Available });
    }
    let instead = match situation {
        Situation::Available => None,
        Situation::Full => settings.stale_if_full,
        Situation::Failed => settings.stale_if_error,
    };
    let own = stored.stale_if_error.map(Duration::from);
    let window = |default| own.unwrap_or(default).max(asked.stale_if_error);
    if instead.is_some_and(|default| staleness <= window(default)) {
        return Ok(Decision::Stale { revalidate: false });
    }
    Err(Forward::Stale)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cache::{
        Refusal,
        field::{Field, tests::lines},
        may_store,
        message::tests::{NOW, exchange},
    };

    /// What is done with a request for a response of this age in seconds.
    fn decide_in(situation: Situation, response: &[&str], age: u64, request: &[&str]) -> Decision {
        let (response, request) = (lines(response), lines(request));
        let mut exchange = exchange(200, &response);
        exchange.requested = exchange.received;
        let stored = may_store(&exchange, &Settings::default()).unwrap();
        let wishes = Wishes::of(Fields(&request), &Settings::default());
        let now = NOW + Duration::from_secs(age);
        decide(Found::Response(&stored), &wishes, situation, now, &Settings::default())
    }

    fn available(response: &str, age: u64, request: &str) -> Decision {
        let response = std::format!("Cache-Control: {response}");
        let request = std::format!("Cache-Control: {request}");
        decide_in(Situation::Available, &[&response, "ETag: \"a\""], age, &[&request])
    }

    fn in_need(situation: Situation, response: &str, age: u64) -> Decision {
        let response = std::format!("Cache-Control: {response}");
        decide_in(situation, &[&response, "ETag: \"a\""], age, &[])
    }

    const STALE: Decision = Decision::Stale { revalidate: false };
    const VALIDATE: Decision = Decision::Validate(Forward::Stale);
    const ON_REQUEST: Decision = Decision::Validate(Forward::Request);

    #[test]
    fn a_response_is_used_while_it_is_fresh() {
        assert_eq!(available("max-age=10", 9, ""), Decision::Fresh);
        assert_eq!(available("max-age=10", 10, ""), VALIDATE);
        assert_eq!(available("max-age=10, no-cache", 0, ""), VALIDATE);
        let alone = decide_in(Situation::Available, &["Cache-Control: max-age=1"], 2, &[]);
        assert_eq!(alone, Decision::Fetch(Forward::Stale));
    }

    #[test]
    fn what_is_coming_is_joined_where_it_may_be_used_without_asking_and_for_a_second_anyway() {
        let joins = |response: &str, millis: u64, request: &str| {
            let response =
                [Field::new(b"Cache-Control", response.as_bytes()), Field::new(b"ETag", b"\"a\"")];
            let request = [Field::new(b"Cache-Control", request.as_bytes())];
            let mut exchange = exchange(200, &response);
            exchange.requested = exchange.received;
            let coming = may_store(&exchange, &Settings::default()).unwrap();
            let wishes = Wishes::of(Fields(&request), &Settings::default());
            may_join(&coming, &wishes, NOW + Duration::from_millis(millis), &Settings::default())
        };
        assert!(joins("max-age=10", 9_000, "") && !joins("max-age=10", 10_000, ""));
        assert!(joins("max-age=0", 900, "") && !joins("max-age=0", 1_000, ""));
        assert!(joins("max-age=1, stale-while-revalidate=5", 4_000, ""));
        assert!(!joins("no-cache", 0, "") && !joins("max-age=10, no-cache", 0, ""));
        for wish in ["no-cache", "max-age=0", "min-fresh=20"] {
            assert!(!joins("max-age=10", 0, wish), "{wish}");
        }
    }

    #[test]
    fn a_client_may_want_it_newer() {
        for (wish, expected) in [
            ("no-cache", ON_REQUEST),
            ("max-age=0", ON_REQUEST),
            ("max-age=4", ON_REQUEST),
            ("max-age=5", Decision::Fresh),
            ("min-fresh=6", ON_REQUEST),
            ("min-fresh=5", Decision::Fresh),
            ("max-age=3, max-stale=100", ON_REQUEST),
            ("only-if-cached, max-age=0", Decision::OnlyIfCached),
            ("no-store", Decision::Fresh),
        ] {
            assert_eq!(available("max-age=10", 5, wish), expected, "{wish}");
        }
        let pragma = decide_in(
            Situation::Available,
            &["Cache-Control: max-age=9"],
            1,
            &["Pragma: no-cache"],
        );
        assert_eq!(pragma, Decision::Fetch(Forward::Request));
    }

    #[test]
    fn a_reload_does_not_validate_what_is_immutable() {
        assert_eq!(available("max-age=10, immutable", 5, "max-age=0"), Decision::Fresh);
        assert_eq!(available("max-age=10, immutable", 5, "no-cache"), ON_REQUEST);
        assert_eq!(available("max-age=10, immutable", 15, "max-age=0"), VALIDATE);
    }

    #[test]
    fn a_client_may_take_it_stale_unless_its_server_forbids() {
        assert_eq!(available("max-age=10", 15, "max-stale=5"), STALE);
        assert_eq!(available("max-age=10", 15, "max-stale"), STALE);
        assert_eq!(available("max-age=10", 16, "max-stale=5"), VALIDATE);
        assert_eq!(available("max-age=10", 15, "max-stale, max-age=12"), VALIDATE);
        for forbids in ["must-revalidate", "proxy-revalidate", "s-maxage=10", "no-cache"] {
            let response = std::format!("max-age=10, {forbids}");
            assert_eq!(available(&response, 15, "max-stale"), VALIDATE, "{forbids}");
        }
    }

    #[test]
    fn while_it_is_validated_it_is_used_stale_for_as_long_as_it_says() {
        let meanwhile = Decision::Stale { revalidate: true };
        assert_eq!(available("max-age=10, stale-while-revalidate=5", 15, ""), meanwhile);
        assert_eq!(available("max-age=10, stale-while-revalidate=5", 16, ""), VALIDATE);
        for response in [
            "s-maxage=10, stale-while-revalidate=5",
            "max-age=10, stale-while-revalidate=5, must-revalidate",
            "max-age=10, stale-while-revalidate=5, proxy-revalidate",
        ] {
            assert_eq!(available(response, 12, ""), VALIDATE, "{response}");
        }
        let wish = available("max-age=10, stale-while-revalidate=5", 12, "max-age=11");
        assert_eq!(wish, VALIDATE);
    }

    #[test]
    fn where_servers_fail_or_are_full_it_is_used_stale() {
        for situation in [Situation::Failed, Situation::Full] {
            let otherwise = if situation == Situation::Failed { Decision::Fail } else { VALIDATE };
            assert_eq!(in_need(situation, "max-age=10, stale-if-error=5", 15), STALE);
            assert_eq!(in_need(situation, "max-age=10, stale-if-error=5", 16), otherwise);
            assert_eq!(in_need(situation, "max-age=10", 3_610), STALE);
            assert_eq!(in_need(situation, "max-age=10", 3_611), otherwise);
            for forbids in ["must-revalidate", "proxy-revalidate", "s-maxage=10", "no-cache"] {
                let response = std::format!("max-age=10, stale-if-error=100, {forbids}");
                assert_eq!(in_need(situation, &response, 20), otherwise, "{forbids}");
            }
        }
    }

    #[test]
    fn where_servers_cannot_be_asked_a_fresh_response_is_good_enough() {
        let fields = ["Cache-Control: max-age=10"];
        for situation in [Situation::Failed, Situation::Full] {
            let decision = decide_in(situation, &fields, 5, &["Cache-Control: no-cache"]);
            assert_eq!(decision, Decision::Fresh);
        }
    }

    #[test]
    fn settings_may_forbid_what_is_stale_and_ignore_what_clients_want() {
        let settings = Settings {
            stale_if_error: None,
            stale_if_full: None,
            stale_while_revalidate: false,
            request_directives: false,
            ..Settings::default()
        };
        let text = b"max-age=10, stale-while-revalidate=50, stale-if-error=50";
        let fields = [Field::new(b"cache-control", text)];
        let stored = may_store(&exchange(200, &fields), &settings).unwrap();
        let wish = [Field::new(b"cache-control", b"no-cache, max-stale=100")];
        let decide = |situation, age| {
            let now = NOW + Duration::from_secs(age);
            let wishes = Wishes::of(Fields(&wish), &settings);
            decide(Found::Response(&stored), &wishes, situation, now, &settings)
        };
        assert_eq!(decide(Situation::Available, 5), Decision::Fresh);
        assert_eq!(decide(Situation::Available, 15), Decision::Fetch(Forward::Stale));
        assert_eq!(decide(Situation::Full, 15), Decision::Fetch(Forward::Stale));
        assert_eq!(decide(Situation::Failed, 15), Decision::Fail);
    }

    #[test]
    fn what_was_changed_is_validated_and_what_was_purged_softly_is_stale() {
        let fields = [Field::new(b"cache-control", b"max-age=10, stale-while-revalidate=5")];
        let stored = may_store(&exchange(200, &fields), &Settings::default()).unwrap();
        let decide = |stored: &Metadata, situation, age| {
            let now = NOW + Duration::from_secs(age);
            decide(
                Found::Response(stored),
                &Wishes::default(),
                situation,
                now,
                &Settings::default(),
            )
        };
        let mut changed = stored;
        changed.invalidate();
        assert_eq!(decide(&changed, Situation::Available, 1), Decision::Fetch(Forward::Stale));
        assert_eq!(decide(&changed, Situation::Full, 1), Decision::Fetch(Forward::Stale));
        let mut purged = stored;
        purged.mark_stale(NOW + Duration::from_secs(2));
        let meanwhile = Decision::Stale { revalidate: true };
        assert_eq!(decide(&purged, Situation::Available, 2), meanwhile);
        assert_eq!(decide(&purged, Situation::Available, 8), Decision::Fetch(Forward::Stale));
    }

    #[test]
    fn who_is_known_gets_only_what_its_server_gives_to_all() {
        let response = |value: &str| {
            decide_in(Situation::Available, &[value], 1, &["Authorization: Basic eA=="])
        };
        assert_eq!(response("Cache-Control: max-age=10"), Decision::Fetch(Forward::Bypass));
        for value in ["public", "must-revalidate", "s-maxage=10"] {
            let field = std::format!("Cache-Control: max-age=10, {value}");
            assert_eq!(response(&field), Decision::Fresh, "{value}");
        }
    }

    #[test]
    fn a_token_elsewhere_than_in_authorization_tells_who_is_known_as_well() {
        let settings = Settings { authorized: true, ..Settings::default() };
        let wishes = Wishes::of(Fields(&[]), &settings);
        for (value, is_for_all) in [("max-age=10", false), ("max-age=10, public", true)] {
            let fields = [Field::new(b"cache-control", value.as_bytes())];
            let exchange = exchange(200, &fields);
            let refused = may_store(&exchange, &settings).err();
            assert_eq!(refused, (!is_for_all).then_some(Refusal::Authorization), "{value}");
            let stored = may_store(&exchange, &Settings::default()).unwrap();
            let found = Found::Response(&stored);
            let decision = decide(found, &wishes, Situation::Available, NOW, &settings);
            assert_eq!(decision == Decision::Fresh, is_for_all, "{value}: {decision:?}");
        }
    }

    #[test]
    fn what_is_not_stored_is_fetched_unless_only_that_is_wanted() {
        let decide = |found, wishes: &Wishes, situation| {
            decide(found, wishes, situation, NOW, &Settings::default())
        };
        let plain = Wishes::default();
        let miss = decide(Found::Nothing, &plain, Situation::Available);
        assert_eq!(miss, Decision::Fetch(Forward::UriMiss));
        let other = decide(Found::OtherVariants, &plain, Situation::Full);
        assert_eq!(other, Decision::Fetch(Forward::VaryMiss));
        assert_eq!(decide(Found::Nothing, &plain, Situation::Failed), Decision::Fail);
        let only = [Field::new(b"cache-control", b"only-if-cached")];
        let only = Wishes::of(Fields(&only), &Settings::default());
        assert_eq!(decide(Found::Nothing, &only, Situation::Available), Decision::OnlyIfCached);
    }
}
