//! What is done with an order: one that was just begun, or one that a process before this left.
//!
//! ```text
//! pending --authorize--> ready --finalize--> processing --wait--> valid --download--> done
//!    |                                                                                 ^
//!    +--> invalid --discard                        (the certificate is held already) --+
//! ```

/// What an authority says of an order (RFC 8555, section 7.1.6).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OrderStatus {
    /// Names are still to be proven.
    Pending,
    /// All names are proven.
    Ready,
    /// The certificate is being made.
    Processing,
    /// The certificate is there.
    Valid,
    /// The order failed.
    Invalid,
}

/// What to do next with an order.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OrderStep {
    /// Prove the names.
    Authorize,
    /// Send the request for the certificate.
    Finalize,
    /// Look again later.
    Wait,
    /// Fetch the certificate.
    Download,
    /// Forget it; the next attempt begins another.
    Discard,
}

impl OrderStatus {
    /// The next step, whoever did the ones before: an order is resumed where it stands.
    #[must_use]
    pub const fn step(self) -> OrderStep {
        match self {
            Self::Pending => OrderStep::Authorize,
            Self::Ready => OrderStep::Finalize,
            Self::Processing => OrderStep::Wait,
            Self::Valid => OrderStep::Download,
            Self::Invalid => OrderStep::Discard,
        }
    }
}

/// Why an attempt came to nothing, as far as it matters for the next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Failure {
    /// The authority does not answer, or is in trouble: nothing is known of the order.
    Away,
    /// The nonce was refused: the same request may be sent again at once with another.
    Nonce,
    /// Too much was asked for.
    RateLimited,
    /// The authority does not know the account.
    NoAccount,
    /// The authority refuses the order, or a proof for it.
    Refused,
}

impl Failure {
    /// That of a problem document (RFC 7807) with this status of HTTP and type.
    #[must_use]
    pub fn of_problem(status: Option<u16>, kind: &str) -> Self {
        match kind.strip_prefix("urn:ietf:params:acme:error:") {
            Some("badNonce") => Self::Nonce,
            Some("rateLimited") => Self::RateLimited,
            Some("accountDoesNotExist") => Self::NoAccount,
            Some("serverInternal") => Self::Away,
            _ => match status {
                Some(429) => Self::RateLimited,
                Some(500..) => Self::Away,
                _ => Self::Refused,
            },
        }
    }

    /// Whether the next attempt resumes the order. A refused one is never resumed: it would be
    /// refused for ever.
    #[must_use]
    pub const fn keeps_order(self) -> bool {
        matches!(self, Self::Away | Self::Nonce | Self::RateLimited)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// An authority that does with an order what it is told to, and says nothing in between.
    fn after(status: OrderStatus, step: OrderStep) -> OrderStatus {
        match (status, step) {
            (OrderStatus::Pending, OrderStep::Authorize) => OrderStatus::Ready,
            (OrderStatus::Ready, OrderStep::Finalize) => OrderStatus::Processing,
            (OrderStatus::Processing, OrderStep::Wait) => OrderStatus::Valid,
            (status, _) => status,
        }
    }

    #[test]
    fn an_order_ends_with_its_certificate_wherever_it_is_resumed() {
        for begun in
            [OrderStatus::Pending, OrderStatus::Ready, OrderStatus::Processing, OrderStatus::Valid]
        {
            let mut status = begun;
            for _ in 0..3 {
                status = after(status, status.step());
            }
            assert_eq!(status.step(), OrderStep::Download, "from {begun:?}");
        }
        assert_eq!(OrderStatus::Invalid.step(), OrderStep::Discard);
    }

    #[test]
    fn problems_are_told_apart_by_what_they_mean_for_the_next_attempt() {
        let of = |status, name| {
            Failure::of_problem(status, &std::format!("urn:ietf:params:acme:error:{name}"))
        };
        assert_eq!(of(Some(400), "badNonce"), Failure::Nonce);
        assert_eq!(of(Some(429), "rateLimited"), Failure::RateLimited);
        assert_eq!(of(Some(400), "accountDoesNotExist"), Failure::NoAccount);
        assert_eq!(of(Some(500), "serverInternal"), Failure::Away);
        assert_eq!(of(Some(403), "unauthorized"), Failure::Refused);
        assert_eq!(Failure::of_problem(Some(503), ""), Failure::Away);
        assert_eq!(Failure::of_problem(Some(404), "about:blank"), Failure::Refused);
        assert_eq!(Failure::of_problem(None, ""), Failure::Refused);
    }

    proptest! {
        #[test]
        fn what_is_no_answer_about_an_order_keeps_it(status in 500..600_u16, kind in ".*") {
            let is_acme = kind.starts_with("urn:ietf:params:acme:error:");
            prop_assert!(is_acme || Failure::of_problem(Some(status), &kind).keeps_order());
        }
    }
}
