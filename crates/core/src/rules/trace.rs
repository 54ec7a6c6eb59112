//! Trace context (W3C Recommendation "Trace Context", level 1, of 2021-11-23): which trace a
//! request belongs to, and whether its spans are told.
//!
//! `traceparent: 00-<trace, 32 hex>-<span of whoever asks, 16 hex>-<flags, 2 hex>`, all lower case.
//! One of a later version is read as if it were of this one (4.3); what cannot be read begins a
//! trace anew. Of the flags `sampled` is known, and `random` of level 2, which goes with the id.
//!
//! A request with a parent is sampled if its parent is. Without one a share `f` of all traces is,
//! by the id alone, so that everybody decides alike: where the last 8 bytes of the id, less their
//! lowest bit, are below `f x 2^63`. Source: `ParentBased` and `TraceIdRatioBased` of the
//! OpenTelemetry specification, the latter as its Go and Rust libraries have it.

use core::fmt;

use crate::units::Ratio;

/// The id of a trace, never 0. Displayed as 32 hex digits.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct TraceId(u128);

/// The id of a span in its trace, never 0. Displayed as 16 hex digits.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct SpanId(u64);

/// The context of a span, as it is passed on to servers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TraceContext {
    /// The trace that the request belongs to.
    pub trace: TraceId,
    /// The span within that trace.
    pub span: SpanId,
    flags: u8,
}

/// Which traces that begin here are sampled.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Sampler {
    below: u64,
}

impl TraceContext {
    /// Reads the value of a `traceparent`; none where it is not valid.
    #[must_use]
    pub fn parse(text: &[u8]) -> Option<Self> {
        let (text, rest) = text.split_at_checked(LENGTH)?;
        let dashes = [2, 35, 52].map(|at| text[at]);
        let version = hex(&text[..2])?;
        let ends = if version == 0 { rest.is_empty() } else { rest.first().is_none_or(is_dash) };
        if version == VERSION_FORBIDDEN || !dashes.iter().all(is_dash) || !ends {
            return None;
        }
        let trace = hex(&text[3..35])?;
        let span = u64::try_from(hex(&text[36..52])?).ok()?;
        let flags = u8::try_from(hex(&text[53..])?).ok()? & (SAMPLED | RANDOM);
        let is_valid = trace != 0 && span != 0;
        is_valid.then_some(Self { trace: TraceId(trace), span: SpanId(span), flags })
    }

    /// The span of a request: a child of `parent`, or the first of a trace, sampled as `sampler`
    /// says. `draws` are 192 random bits.
    #[must_use]
    pub fn begin(parent: Option<&Self>, sampler: Sampler, draws: [u64; 3]) -> Self {
        if let Some(parent) = parent {
            return parent.child(draws[0]);
        }
        let trace = (u128::from(draws[1]) << 64) | u128::from(draws[2]);
        let trace = TraceId(trace.max(1));
        let flags = if sampler.samples(trace) { SAMPLED } else { 0 };
        Self { trace, span: SpanId(draws[0].max(1)), flags }
    }

    /// A span below this one. `draw` are 64 random bits.
    #[must_use]
    pub fn child(&self, draw: u64) -> Self {
        Self { span: SpanId(draw.max(1)), ..*self }
    }

    /// Whether the trace is told.
    #[must_use]
    pub const fn is_sampled(&self) -> bool {
        self.flags & SAMPLED != 0
    }

    /// The flags, as they go with a span.
    #[must_use]
    pub const fn flags(&self) -> u8 {
        self.flags
    }
}

impl TraceId {
    /// As it goes over the wire.
    #[must_use]
    pub const fn bytes(self) -> [u8; 16] {
        self.0.to_be_bytes()
    }
}

impl SpanId {
    /// As it goes over the wire.
    #[must_use]
    pub const fn bytes(self) -> [u8; 8] {
        self.0.to_be_bytes()
    }
}

impl Sampler {
    /// Samples this share of the traces.
    #[must_use]
    pub fn of(share: Ratio) -> Self {
        let millionths = u128::from(share.as_ppm().min(Ratio::ONE.as_ppm()));
        let below = (millionths << 63) / u128::from(Ratio::ONE.as_ppm());
        Self { below: u64::try_from(below).unwrap_or(u64::MAX) }
    }

    /// Whether it samples this trace.
    #[must_use]
    pub const fn samples(self, trace: TraceId) -> bool {
        (trace.0 as u64) >> 1 < self.below
    }
}

/// The value of a `traceparent`.
impl fmt::Display for TraceContext {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "00-{}-{}-{:02x}", self.trace, self.span, self.flags)
    }
}

impl fmt::Display for TraceId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:032x}", self.0)
    }
}

impl fmt::Display for SpanId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:016x}", self.0)
    }
}

/// The number that lower-case hex digits are, 32 at most.
fn hex(digits: &[u8]) -> Option<u128> {
    digits.iter().try_fold(0, |number, digit| {
        let value = match digit {
            b'0'..=b'9' => digit - b'0',
            b'a'..=b'f' => digit - b'a' + 10,
            _ => return None,
        };
        Some(number << 4 | u128::from(value))
    })
}

const fn is_dash(byte: &u8) -> bool {
    *byte == b'-'
}

/// Of a value of version 00.
const LENGTH: usize = 55;

/// No version has it (W3C Trace Context, 3.2.2.1).
const VERSION_FORBIDDEN: u128 = 0xff;

const SAMPLED: u8 = 1;

/// The last 7 bytes of the id are random (level 2, 3.2.2.5.2).
const RANDOM: u8 = 2;

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::{string::ToString, vec::Vec};

    /// The example of the Recommendation, 3.2.3.
    const EXAMPLE: &str = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01";

    fn parsed(text: &str) -> Option<TraceContext> {
        TraceContext::parse(text.as_bytes())
    }

    #[test]
    fn the_example_of_the_recommendation_is_read_and_written() {
        let context = parsed(EXAMPLE).unwrap();
        assert_eq!(context.trace.to_string(), "4bf92f3577b34da6a3ce929d0e0e4736");
        assert_eq!(context.trace.bytes()[..4], [0x4b, 0xf9, 0x2f, 0x35]);
        assert_eq!(context.span.to_string(), "00f067aa0ba902b7");
        assert_eq!(context.span.bytes()[..3], [0, 0xf0, 0x67]);
        assert!(context.is_sampled());
        assert_eq!(context.to_string(), EXAMPLE);
    }

    /// The cases of the test suite of the Recommendation (github.com/w3c/trace-context, test.py),
    /// by the names they have there.
    #[test]
    fn the_vectors_of_the_w3c_are_read_as_it_says() {
        let (trace, span) = ("12345678901234567890123456789012", "1234567890123456");
        let with = |version: &str, rest: &str| std::format!("{version}-{trace}-{span}-{rest}");
        for valid in [
            with("00", "00"),
            with("00", "01"),
            with("00", "ff"),  // trace_flags_known_bits_only, here masked
            with("cc", "01"),  // version_0xcc
            with("cc", "01-"), // version_0xcc
            with("cc", "01-what-the-future-will-be-like"),
        ] {
            assert_eq!(parsed(&valid).unwrap().trace.to_string(), trace, "{valid}");
        }
        for wrong in [
            with("00", "01."),                                // version_0x00
            with("00", "01-what-the-future-will-be-like"),    // version_0x00
            with("cc", "01.what-the-future-will-be-like"),    // version_0xcc
            with("ff", "01"),                                 // version_0xff
            with(".0", "01"),                                 // version_illegal_characters
            with("0.", "01"),                                 // version_illegal_characters
            with("000", "01"),                                // version_too_long
            with("0000", "01"),                               // version_too_long
            with("0", "01"),                                  // version_too_short
            with("00", ".0"),                                 // trace_flags_illegal_characters
            with("00", "0."),                                 // trace_flags_illegal_characters
            with("00", "001"),                                // trace_flags_too_long
            with("00", "1"),                                  // trace_flags_too_short
            with("00", "0A"),                                 // hex digits are in lower case
            std::format!("00-{}-{span}-01", "0".repeat(32)),  // trace_id_all_zero
            std::format!("00-.{}-{span}-01", &trace[1..]),    // trace_id_illegal_characters
            std::format!("00-{trace}3-{span}-01"),            // trace_id_too_long
            std::format!("00-{}-{span}-01", &trace[1..]),     // trace_id_too_short
            std::format!("00-{trace}-{}-01", "0".repeat(16)), // parent_id_all_zero
            std::format!("00-{trace}-.{}-01", &span[1..]),    // parent_id_illegal_characters
            std::format!("00-{trace}-{span}7-01"),            // parent_id_too_long
            std::format!("00-{trace}-{}-01", &span[1..]),     // parent_id_too_short
            EXAMPLE.to_uppercase(),
            EXAMPLE.replace('-', "_"),
            std::string::String::new(),
        ] {
            assert_eq!(parsed(&wrong), None, "{wrong}");
        }
    }

    #[test]
    fn of_the_flags_those_go_on_that_are_known() {
        let flags = |text: &str| parsed(&EXAMPLE.replace("-01", text)).unwrap().flags();
        assert_eq!([flags("-00"), flags("-01"), flags("-03"), flags("-fc")], [0, 1, 3, 0]);
    }

    #[test]
    fn a_child_has_the_trace_and_the_decision_of_its_parent() {
        for flags in ["-00", "-01", "-03"] {
            let parent = parsed(&EXAMPLE.replace("-01", flags)).unwrap();
            for share in [Ratio::ZERO, Ratio::ONE] {
                let own = TraceContext::begin(Some(&parent), Sampler::of(share), [7, 8, 9]);
                assert_eq!((own.trace, own.flags()), (parent.trace, parent.flags()));
                assert_eq!(own.span, SpanId(7));
            }
        }
    }

    #[test]
    fn no_id_is_zero_whatever_is_drawn() {
        let root = TraceContext::begin(None, Sampler::of(Ratio::ONE), [0; 3]);
        assert_eq!(parsed(&root.to_string()), Some(root));
        assert!(root.is_sampled());
        assert_ne!(root.child(0).span, SpanId(0));
    }

    #[test]
    fn the_share_of_the_traces_is_sampled_by_their_ids_alone() {
        let apart = u128::from(u64::MAX / 1000);
        let ids: Vec<TraceId> = (0..1000).map(|n| TraceId((1 << 64) | (n * apart))).collect();
        for percent in [0, 1, 10, 50, 100] {
            let sampler = Sampler::of(Ratio::percent(percent));
            let sampled = ids.iter().filter(|&&id| sampler.samples(id)).count();
            assert!(sampled.abs_diff(10 * percent as usize) <= 2, "{sampled} of {percent}%");
        }
        let half = Sampler::of(Ratio::percent(50));
        assert!(half.samples(TraceId(u128::MAX << 64 | 0x7fff_ffff_ffff_ffff)));
        assert!(!half.samples(TraceId(0x8000_0000_0000_0000)));
    }

    proptest! {
        #[test]
        fn anything_is_read_without_harm_and_what_is_valid_stays_the_same(
            text in "[0-9a-f]{2}-[0-9a-f]{32}-[0-9a-f]{16}-0[0-3]-?|[ -~]{0,60}"
        ) {
            if let Some(context) = parsed(&text) {
                prop_assert_eq!(&context.to_string()[3..], &text[3..55]);
                prop_assert_eq!(parsed(&context.to_string()), Some(context));
            }
        }
    }
}
