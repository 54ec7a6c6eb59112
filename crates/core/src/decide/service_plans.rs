//! The plans of all services. Consecutive [`Plan`](crate::decide::plan::Plan)s share those that did
//! not change.
//!
//! They are kept in pages, so that a plan in which one service is another copies that page and the
//! list of pages: of 10,000 services about 200 pointers, not 10,000.

use alloc::{sync::Arc, vec::Vec};
use core::ops::Index;

use crate::decide::plan::ServicePlan;

/// In the order of the fleet's services.
#[derive(Clone, Debug, Default)]
pub struct ServicePlans {
    /// All but the last have [`PAGE`] plans.
    pages: Vec<Arc<[Arc<ServicePlan>]>>,
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
