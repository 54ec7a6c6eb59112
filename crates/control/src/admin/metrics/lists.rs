//! Metrics of lists of servers that are kept elsewhere.

use loadline_core::state::{Discovery, State};

use super::{Samples, groups};

/// Samples of the lists of servers that are followed, by the groups they are for.
pub(super) fn lists<T>(
    state: &State,
    samples: &mut Samples<'_, T>,
    value: impl Fn(&Discovery) -> Option<T>,
) {
    groups(state, samples, |group| group.discovery.as_ref().and_then(&value));
}

/// What became of the answers about them.
pub(super) fn list_updates(state: &State, samples: &mut Samples<'_, u64>) {
    for service in &state.services {
        for group in &service.groups {
            let Some(list) = &group.discovery else { continue };
            let counts =
                [("taken", list.taken), ("refused", list.refused), ("failed", list.failed)];
            for (result, count) in counts {
                samples.add(&[&service.name, &group.name, result], count);
            }
        }
    }
}
