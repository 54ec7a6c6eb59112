//! What a worker knows of each service, most of which one view has in common with the one before:
//! in pages, as their plans are ([`loadline_core::decide::service_plans`]).

use std::{collections::HashMap, ops::Index, rc::Rc, sync::Arc};

use loadline_core::decide::{
    plan::ServicePlan,
    service_plans::{Exchanged, ServicePlans},
};

use super::view::ServiceContext;

/// In the order of the services of a plan.
#[derive(Clone, Debug)]
pub(crate) struct ServiceContexts {
    /// All but the last have [`PAGE`] contexts.
    pages: Vec<Rc<[Rc<ServiceContext>]>>,
}

impl ServiceContexts {
    /// How many there are.
    pub(crate) fn len(&self) -> usize {
        let last = self.pages.last().map_or(0, |page| page.len());
        self.pages.len().saturating_sub(1) * PAGE + last
    }

    /// The one at this index, if there is one.
    pub(crate) fn get(&self, index: usize) -> Option<&Rc<ServiceContext>> {
        self.pages.get(index / PAGE)?.get(index % PAGE)
    }

    /// All of them.
    #[cfg(test)]
    pub(crate) fn iter(&self) -> impl Iterator<Item = &Rc<ServiceContext>> {
        self.pages.iter().flat_map(|page| page.iter())
    }

    /// Puts a context in the place of the one at this index.
    pub(super) fn set(&mut self, index: usize, service_context: Rc<ServiceContext>) {
        Rc::make_mut(&mut self.pages[index / PAGE])[index % PAGE] = service_context;
    }

    /// The contexts for `plans`, which follow the plans `before` of these. A context goes with its
    /// plan, wherever in the file its service is now, if it `stays`, which `all_stay` says of every
    /// one. Others are made.
    pub(super) fn followed_by(
        &self,
        (before, plans): (&ServicePlans, &ServicePlans),
        all_stay: bool,
        stays: impl Fn(&ServiceContext, usize) -> bool,
        mut make: impl FnMut(usize, &Arc<ServicePlan>) -> Rc<ServiceContext>,
    ) -> Self {
        let changed: Vec<usize> = plans.changed_since(before).collect();
        let were = changed.iter().filter_map(|at| self.get(*at));
        let moved: HashMap<_, _> = were.map(|it| (Arc::as_ptr(&it.plan), it)).collect();
        let mut next = |index: usize, plan: &Arc<ServicePlan>| {
            let here = self.get(index).filter(|it| Arc::ptr_eq(&it.plan, plan));
            let known = here.or_else(|| moved.get(&Arc::as_ptr(plan)).copied());
            let known = known.filter(|it| all_stay || stays(it, index)).cloned();
            known.unwrap_or_else(|| make(index, plan))
        };
        if self.len() != plans.len() {
            return plans.iter().enumerate().map(|(index, plan)| next(index, plan)).collect();
        }
        let mut contexts = self.clone();
        let places = if all_stay { changed } else { (0..self.len()).collect() };
        for index in places {
            let Some(plan) = plans.get(index) else { continue };
            let context = next(index, plan);
            if !Rc::ptr_eq(&context, &contexts[index]) {
                contexts.set(index, context);
            }
        }
        contexts
    }

    /// The indices of those that only one of both has.
    pub(super) fn exchanged_since(&self, before: &Self) -> Exchanged {
        let was = |at| before.get(at).map(Rc::as_ptr);
        let is = |at| self.get(at).map(Rc::as_ptr);
        let changed = self.changed_since(before).chain(self.len()..before.len());
        Exchanged::between((before.len(), was), (self.len(), is), changed)
    }

    /// The indices of those that are not the same as `before`.
    fn changed_since<'a>(&'a self, before: &'a Self) -> impl Iterator<Item = usize> {
        let pages = self.pages.iter().enumerate().filter(move |(at, page)| {
            before.pages.get(*at).is_none_or(|before| !Rc::ptr_eq(page, before))
        });
        let places = pages.flat_map(|(at, page)| (at * PAGE..).take(page.len()));
        places.filter(move |place| match (self.get(*place), before.get(*place)) {
            (Some(one), Some(other)) => !Rc::ptr_eq(one, other),
            _ => true,
        })
    }
}

impl FromIterator<Rc<ServiceContext>> for ServiceContexts {
    fn from_iter<T: IntoIterator<Item = Rc<ServiceContext>>>(service_contexts: T) -> Self {
        let all: Vec<_> = service_contexts.into_iter().collect();
        Self { pages: all.chunks(PAGE).map(Rc::from).collect() }
    }
}

impl Index<usize> for ServiceContexts {
    type Output = Rc<ServiceContext>;

    fn index(&self, index: usize) -> &Rc<ServiceContext> {
        &self.pages[index / PAGE][index % PAGE]
    }
}

/// As many as plans have in a page.
const PAGE: usize = 64;
