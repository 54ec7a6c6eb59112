//! The plans of all services. Consecutive [`Plan`](crate::decide::plan::Plan)s share those that did
//! not change.
//!
//! They are kept in pages, so that a plan in which one service is another copies that page and the
//! list of pages: of 10,000 services about 200 pointers, not 10,000.

use alloc::{collections::BTreeSet, sync::Arc, vec::Vec};
use core::ops::Index;

use crate::decide::{
    ledger::{ServerId, ServerState},
    plan::ServicePlan,
};

/// In the order of the fleet's services.
#[derive(Clone, Debug, Default)]
pub struct ServicePlans {
    /// All but the last have [`PAGE`] plans.
    pages: Vec<Arc<[Arc<ServicePlan>]>>,
}

/// What only one of two lists has, wherever the rest stands in the other, as indices in ascending
/// order.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Exchanged {
    /// Into the list before.
    pub before: Vec<usize>,
    /// Into the list that follows it.
    pub now: Vec<usize>,
}

impl ServicePlans {
    /// How many there are.
    #[must_use]
    pub fn len(&self) -> usize {
        let last = self.pages.last().map_or(0, |page| page.len());
        self.pages.len().saturating_sub(1) * PAGE + last
    }

    /// Whether there is none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.pages.is_empty()
    }

    /// The one at this index, if there is one.
    #[must_use]
    pub fn get(&self, index: usize) -> Option<&Arc<ServicePlan>> {
        self.pages.get(index / PAGE)?.get(index % PAGE)
    }

    /// All of them.
    pub fn iter(&self) -> impl Iterator<Item = &Arc<ServicePlan>> {
        self.pages.iter().flat_map(|page| page.iter())
    }

    /// Puts a plan in the place of the one at this index.
    pub(crate) fn set(&mut self, index: usize, plan: Arc<ServicePlan>) {
        Arc::make_mut(&mut self.pages[index / PAGE])[index % PAGE] = plan;
    }

    /// The indices at which these are not the same plans as `before`, those that only one has
    /// included.
    pub fn changed_since<'a>(&'a self, before: &'a Self) -> impl Iterator<Item = usize> {
        let count = self.pages.len().max(before.pages.len());
        let pages = (0..count).map(|at| (at, self.pages.get(at), before.pages.get(at)));
        let is_same = |one: Option<&Arc<_>>, other: Option<&Arc<_>>| match (one, other) {
            (Some(one), Some(other)) => Arc::ptr_eq(one, other),
            _ => false,
        };
        let changed = pages.filter(move |(_, one, other)| !is_same(*one, *other));
        let places = changed.flat_map(|(at, ..)| at * PAGE..(at + 1) * PAGE);
        let end = self.len().max(before.len());
        places.take_while(move |place| *place < end).filter(move |place| {
            match (self.get(*place), before.get(*place)) {
                (Some(one), Some(other)) => !Arc::ptr_eq(one, other),
                _ => true,
            }
        })
    }

    /// The indices of the plans that only one of both has. Those behind a plan that was inserted
    /// have only moved.
    #[must_use]
    pub fn exchanged_since(&self, before: &Self) -> Exchanged {
        let was = |at| before.get(at).map(Arc::as_ptr);
        let is = |at| self.get(at).map(Arc::as_ptr);
        let changed = self.changed_since(before);
        Exchanged::between((before.len(), was), (self.len(), is), changed)
    }

    /// The servers that only one of both has: what is known by their numbers is of others. Visits
    /// the servers of services with another plan than before.
    #[must_use]
    pub fn other_servers_since(&self, before: &Self) -> BTreeSet<ServerId> {
        self.turnover(before, |_| true)
    }

    /// The same, and those that are given nothing any more since `before`: no connection to these
    /// is worth keeping. Of consecutive configurations it gives, one by one, what
    /// [`Plan::staying`](crate::decide::plan::Plan::staying) leaves out.
    #[must_use]
    pub fn leaving_since(&self, before: &Self) -> BTreeSet<ServerId> {
        self.turnover(before, |server| !server.is_leaving())
    }

    fn turnover(&self, before: &Self, stays: impl Fn(&ServerState) -> bool) -> BTreeSet<ServerId> {
        let Exchanged { before: was, now } = self.exchanged_since(before);
        let were: BTreeSet<ServerId> = servers(before, &was).map(ServerState::id).collect();
        let are = servers(self, &now).filter(|server| stays(server));
        let are: BTreeSet<ServerId> = are.map(ServerState::id).collect();
        were.symmetric_difference(&are).copied().collect()
    }
}

/// The servers of the services at these places.
fn servers<'a>(
    plans: &'a ServicePlans,
    places: &'a [usize],
) -> impl Iterator<Item = &'a ServerState> {
    let census = places.iter().flat_map(move |place| &plans[*place].census);
    census.flat_map(|group| &group.servers).map(|server| &*server.state)
}

impl Exchanged {
    /// Compares two lists, each given as its length and its elements. `changed` are the indices at
    /// which they may differ, in ascending order; those that only one of both has included.
    #[must_use]
    pub fn between<T: Copy + Ord>(
        (count_before, was): (usize, impl Fn(usize) -> Option<T>),
        (count, is): (usize, impl Fn(usize) -> Option<T>),
        changed: impl Iterator<Item = usize>,
    ) -> Self {
        let has_moved = |back: &usize| was(count_before - *back) == is(count - *back);
        let behind = match count_before == count {
            true => 0,
            false => (1..=count.min(count_before)).take_while(has_moved).count(),
        };
        let end = count.max(count_before) - behind;
        let places: Vec<usize> = changed.take_while(|place| *place < end).collect();
        let known = |count: usize, of: &dyn Fn(usize) -> Option<T>| -> Vec<(usize, T)> {
            let inside = places.iter().take_while(|place| **place < count - behind);
            inside.filter_map(|place| Some((*place, of(*place)?))).collect()
        };
        let (were, are) = (known(count_before, &was), known(count, &is));
        let only = |of: &[(usize, T)], others: &[(usize, T)]| -> Vec<usize> {
            let others: BTreeSet<T> = others.iter().map(|(_, it)| *it).collect();
            of.iter().filter(|(_, it)| !others.contains(it)).map(|(place, _)| *place).collect()
        };
        Self { before: only(&were, &are), now: only(&are, &were) }
    }
}

impl FromIterator<Arc<ServicePlan>> for ServicePlans {
    fn from_iter<T: IntoIterator<Item = Arc<ServicePlan>>>(plans: T) -> Self {
        let plans: Vec<_> = plans.into_iter().collect();
        Self { pages: plans.chunks(PAGE).map(Arc::from).collect() }
    }
}

impl Index<usize> for ServicePlans {
    type Output = ServicePlan;

    fn index(&self, index: usize) -> &ServicePlan {
        &self.pages[index / PAGE][index % PAGE]
    }
}

/// About the square root of the largest number of services that is expected.
const PAGE: usize = 64;
