//! The listeners of a fleet. Fleets have them in common as long as none is another, so that a
//! change of a service copies none, and that none is another is known without a comparison.

use alloc::{
    collections::{BTreeMap, VecDeque},
    sync::Arc,
    vec::Vec,
};
use core::{
    net::SocketAddr,
    ops::{Deref, DerefMut},
    slice,
};

use super::Listener;

/// In the order of the file. What changes one of them copies all first if another fleet has them
/// too.
#[derive(Clone, Debug, Default)]
pub struct Listeners(Arc<[Listener]>);

impl Listeners {
    /// Adds one behind the others.
    pub fn push(&mut self, listener: Listener) {
        self.0 = self.0.iter().cloned().chain([listener]).collect();
    }

    /// Whether both are the same in memory, not only equal.
    #[must_use]
    pub fn share(&self, others: &Self) -> bool {
        Arc::ptr_eq(&self.0, &others.0)
    }

    /// The same, in memory too where they are equal to `before`: all of them, or the routes of
    /// those that are. Listeners with the same address are known by their order.
    #[must_use]
    pub fn in_common_with(mut self, before: &Self) -> Self {
        if self == *before {
            return before.clone();
        }
        let mut known: BTreeMap<SocketAddr, VecDeque<&Listener>> = BTreeMap::new();
        before.iter().for_each(|it| known.entry(it.bind).or_default().push_back(it));
        for listener in self.iter_mut() {
            let before = known.get_mut(&listener.bind).and_then(VecDeque::pop_front);
            if let Some(before) = before.filter(|before| *listener == **before) {
                listener.clone_from(before);
            }
        }
        self
    }
}

impl PartialEq for Listeners {
    fn eq(&self, other: &Self) -> bool {
        self.share(other) || self.0 == other.0
    }
}

impl Deref for Listeners {
    type Target = [Listener];

    fn deref(&self) -> &[Listener] {
        &self.0
    }
}

impl DerefMut for Listeners {
    fn deref_mut(&mut self) -> &mut [Listener] {
        Arc::make_mut(&mut self.0)
    }
}

impl From<Vec<Listener>> for Listeners {
    fn from(listeners: Vec<Listener>) -> Self {
        Self(listeners.into())
    }
}

impl<'a> IntoIterator for &'a Listeners {
    type Item = &'a Listener;
    type IntoIter = slice::Iter<'a, Listener>;

    fn into_iter(self) -> Self::IntoIter {
        self.0.iter()
    }
}

#[cfg(test)]
mod tests {
    use alloc::vec;

    use super::*;
    use crate::rules::{Action, Conditions, Routes, Rule, Split};

    /// A listener with a route to the service at this index.
    fn listener(port: u16, to: usize) -> Listener {
        let rule = Rule::new(Conditions::default(), Action::Service(Split::all(to)));
        let bind = ([127, 0, 0, 1], port).into();
        Listener { routes: Routes::new(vec![rule]), ..Listener::new(bind, 0) }
    }

    #[test]
    fn listeners_that_are_read_again_as_they_were_have_the_routes_of_before() {
        let before = Listeners::from(vec![listener(1, 0), listener(2, 0)]);
        let again = Listeners::from(vec![listener(1, 0), listener(2, 0)]);
        assert!(!again.share(&before) && !again[0].routes.is_same_as(&before[0].routes));
        assert!(again.in_common_with(&before).share(&before));
        let other = Listeners::from(vec![listener(1, 0), listener(2, 1)]);
        let other = other.in_common_with(&before);
        assert!(other[0].routes.is_same_as(&before[0].routes));
        assert!(!other[1].routes.is_same_as(&before[1].routes));
        assert_eq!(other[1], listener(2, 1));
    }

    #[test]
    fn listeners_behind_one_that_is_inserted_have_the_routes_of_before() {
        let before = Listeners::from(vec![listener(1, 0), listener(2, 0), listener(2, 0)]);
        let again = [1, 3, 2, 2].map(|port| listener(port, 0)).to_vec();
        let again = Listeners::from(again).in_common_with(&before);
        for (now, was) in [(0, 0), (2, 1), (3, 2)] {
            assert!(again[now].routes.is_same_as(&before[was].routes), "{now}");
        }
        assert!(!again[1].routes.is_same_as(&before[1].routes));
    }
}
