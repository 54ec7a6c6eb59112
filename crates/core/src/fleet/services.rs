//! The services of a fleet. Fleets have those in common in which they do not differ, so that a
//! change of one service copies that one, and what is the same is known without a comparison.

use alloc::{sync::Arc, vec::Vec};
use core::{
    iter::Map,
    ops::{Index, IndexMut},
    slice,
};

use super::Service;

/// In the order of the file. What changes one of them copies it first if another fleet has it too.
#[derive(Clone, Debug, Default)]
pub struct Services(Vec<Arc<Service>>);

impl Services {
    /// No services.
    pub const NONE: Self = Self(Vec::new());

    /// How many there are.
    #[must_use]
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// Whether there is none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// The one at this index, if there is one.
    #[must_use]
    pub fn get(&self, index: usize) -> Option<&Service> {
        self.0.get(index).map(|service| &**service)
    }

    /// All of them.
    #[must_use]
    pub fn iter(&self) -> <&Self as IntoIterator>::IntoIter {
        self.into_iter()
    }

    /// All of them, to change each.
    pub fn iter_mut(&mut self) -> impl Iterator<Item = &mut Service> {
        self.0.iter_mut().map(Arc::make_mut)
    }

    /// Adds one behind the others.
    pub fn push(&mut self, service: Service) {
        self.0.push(Arc::new(service));
    }

    /// Puts the service of `others` at this index in the place of the one here.
    pub(crate) fn restore(&mut self, index: usize, others: &Self) {
        self.0[index] = others.0[index].clone();
    }

    /// The index of the service of this name.
    #[must_use]
    pub fn position(&self, name: &str) -> Option<usize> {
        self.iter().position(|service| service.name == name)
    }

    /// Whether the service at this index is the same as that one of `others`, which it mostly is in
    /// memory too.
    pub(crate) fn is_same(&self, index: usize, (others, at): (&Self, usize)) -> bool {
        is_same(&self.0[index], &others.0[at])
    }

    /// Whether `others` have the same names in the same order.
    pub(crate) fn have_names_of(&self, others: &Self) -> bool {
        let mut pairs = self.0.iter().zip(&others.0);
        let is_same = |(one, other): (&Arc<Service>, &Arc<Service>)| {
            Arc::ptr_eq(one, other) || one.name == other.name
        };
        self.len() == others.len() && pairs.all(is_same)
    }

    /// Whether both have the service at this index in common, not only an equal one.
    #[must_use]
    pub fn share(&self, index: usize, others: &Self) -> bool {
        let pair = self.0.get(index).zip(others.0.get(index));
        pair.is_some_and(|(one, other)| Arc::ptr_eq(one, other))
    }
}

fn is_same(one: &Arc<Service>, other: &Arc<Service>) -> bool {
    Arc::ptr_eq(one, other) || one == other
}

impl PartialEq for Services {
    fn eq(&self, other: &Self) -> bool {
        let mut pairs = self.0.iter().zip(&other.0);
        self.len() == other.len() && pairs.all(|(one, other)| is_same(one, other))
    }
}

impl Index<usize> for Services {
    type Output = Service;

    fn index(&self, index: usize) -> &Service {
        &self.0[index]
    }
}

impl IndexMut<usize> for Services {
    fn index_mut(&mut self, index: usize) -> &mut Service {
        Arc::make_mut(&mut self.0[index])
    }
}

impl From<Vec<Service>> for Services {
    fn from(services: Vec<Service>) -> Self {
        services.into_iter().collect()
    }
}

impl FromIterator<Service> for Services {
    fn from_iter<T: IntoIterator<Item = Service>>(services: T) -> Self {
        Self(services.into_iter().map(Arc::new).collect())
    }
}

impl<'a> IntoIterator for &'a Services {
    type Item = &'a Service;
    type IntoIter = Map<slice::Iter<'a, Arc<Service>>, fn(&Arc<Service>) -> &Service>;

    fn into_iter(self) -> Self::IntoIter {
        self.0.iter().map(|service| service)
    }
}
