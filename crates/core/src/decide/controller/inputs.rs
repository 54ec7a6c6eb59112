//! Pending inputs of the controller: a queue bounded by the number of their topics.
//!
//! There is one of each kind for each server at most, and one configuration, so that
//! `len <= 3 + 6 * servers + groups` however fast inputs come and however late the controller hears
//! them. What comes while the same has not been heard takes its place in the queue: a configuration
//! is whole, a later count of failures counts the earlier ones as well, that there are errors or
//! limits is said once. A server has no two checks under way, unless they were switched off and on
//! meanwhile: then the later result counts.

use alloc::{
    collections::{BTreeMap, VecDeque},
    string::String,
};

use super::Input;
use crate::decide::ledger::ServerId;

/// A queue of inputs.
#[derive(Debug, Default)]
pub struct Inputs {
    /// Topics of the waiting inputs, in the order in which the controller hears them.
    order: VecDeque<Topic>,
    waiting: BTreeMap<Topic, Input>,
}

/// What an input is about: the later of two with the same says it all.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Topic {
    Time,
    Configuration,
    Check(ServerId),
    Recheck(ServerId),
    Failures(ServerId),
    Errors(ServerId),
    Limit(ServerId),
    Silence(ServerId),
    Share(String, String),
    SharesUntil,
}

impl Inputs {
    /// Takes in an input.
    pub fn push(&mut self, input: Input) {
        let topic = Topic::of(&input);
        if self.waiting.insert(topic.clone(), input).is_none() {
            self.order.push_back(topic);
        }
    }

    /// The next input, if there is one.
    pub fn pop(&mut self) -> Option<Input> {
        let topic = self.order.pop_front()?;
        self.waiting.remove(&topic)
    }

    /// How many there are.
    #[must_use]
    pub fn len(&self) -> usize {
        self.order.len()
    }

    /// Whether there are none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.order.is_empty()
    }
}

impl Topic {
    fn of(input: &Input) -> Self {
        match input {
            Input::Tick => Self::Time,
            Input::Reload(_) => Self::Configuration,
            Input::Checked { server, .. } | Input::Reported { server, .. } => Self::Check(*server),
            Input::Recheck { server } => Self::Recheck(*server),
            Input::Failing { server, .. } => Self::Failures(*server),
            Input::Errs { server } => Self::Errors(*server),
            Input::Limit { server } => Self::Limit(*server),
            Input::Silent { server, .. } => Self::Silence(*server),
            Input::SharesUntil(_) => Self::SharesUntil,
            Input::Share { service, group, .. } => Self::Share(service.clone(), group.clone()),
        }
    }
}

#[cfg(test)]
mod tests {
    use alloc::{string::ToString, sync::Arc, vec::Vec};

    use proptest::prelude::*;

    use super::*;
    use crate::{
        decide::reason::Reason,
        fleet::{Edge, Fleet},
    };

    const SERVERS: u32 = 20;

    /// The `count`th input, of this kind.
    fn input(kind: u32, server: u32, count: u32) -> Input {
        let server = ServerId(server);
        let reason = Reason::ConnectionRefused;
        match kind {
            0 => Input::Tick,
            1 => {
                let edge = Edge::within(&count.to_string());
                Input::Reload(Arc::new(Fleet::of(edge, Vec::new(), Vec::new())))
            }
            2 => Input::Checked { server, passed: Err(count.to_string()) },
            3 => Input::Failing { server, errors_in_a_row: count, reason },
            4 => Input::Errs { server },
            5 => Input::Limit { server },
            _ => Input::Silent { server, suspicions: count },
        }
    }

    /// The number that `input` wrote into it, where its kind carries one.
    fn count(input: &Input) -> Option<u32> {
        match input {
            Input::Reload(fleet) => fleet.edge.region.parse().ok(),
            Input::Checked { passed, .. } => passed.as_ref().err()?.parse().ok(),
            Input::Failing { errors_in_a_row: count, .. }
            | Input::Silent { suspicions: count, .. } => Some(*count),
            Input::Tick
            | Input::Errs { .. }
            | Input::Reported { .. }
            | Input::Recheck { .. }
            | Input::Limit { .. }
            | Input::Share { .. }
            | Input::SharesUntil(_) => None,
        }
    }

    #[test]
    fn what_is_not_heard_does_not_grow_beyond_what_it_is_about() {
        let mut inputs = Inputs::default();
        for n in 0..1_000_000 {
            inputs.push(input(n % 7, n / 7 % SERVERS, n));
        }
        assert_eq!(inputs.len() as u32, 2 + 5 * SERVERS);
        while inputs.pop().is_some() {}
        assert!(inputs.is_empty() && inputs.waiting.is_empty());
    }

    proptest! {
        /// Whatever was pushed is heard, or something later about the same, in the order in which
        /// each of them came to be waited for.
        #[test]
        fn no_input_is_lost(
            steps in prop::collection::vec(prop::option::of((0u32..7, 0u32..3)), 1..200),
        ) {
            let mut inputs = Inputs::default();
            let mut expected: Vec<(Topic, Option<u32>)> = Vec::new();
            let hear = |inputs: &mut Inputs| inputs.pop().map(|it| (Topic::of(&it), count(&it)));
            for (step, n) in steps.into_iter().zip(0..) {
                let Some((kind, server)) = step else {
                    let next = (!expected.is_empty()).then(|| expected.remove(0));
                    prop_assert_eq!(hear(&mut inputs), next);
                    continue;
                };
                let input = input(kind, server, n);
                let (topic, count) = (Topic::of(&input), count(&input));
                inputs.push(input);
                match expected.iter_mut().find(|it| it.0 == topic) {
                    Some(waiting) => waiting.1 = count,
                    None => expected.push((topic, count)),
                }
                prop_assert_eq!(inputs.len(), expected.len());
            }
            for next in expected {
                prop_assert_eq!(hear(&mut inputs), Some(next));
            }
            prop_assert!(inputs.is_empty());
        }
    }
}
