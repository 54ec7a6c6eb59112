//! The rules of a listener, compiled, with the copies that live as long as they do.

use alloc::{sync::Arc, vec::Vec};
use core::ptr;

use super::{
    Action, Authentication, Copies, Headers, Matched, Request, Rule, Shadowed, Share, Table, lint,
};

/// The rules of a listener.
#[derive(Clone, Debug, Default)]
pub struct Routes(Option<Arc<Compiled>>);

#[derive(Debug)]
struct Compiled {
    /// Several listeners may have it.
    table: Arc<Table>,
    /// In the order of the rules of the file; empty where none is mirrored.
    copies: Vec<Option<Arc<Copies>>>,
    has_caches: bool,
}

impl Routes {
    /// Compiles rules.
    #[must_use]
    pub fn new(rules: Vec<Rule>) -> Self {
        if rules.is_empty() {
            return Self::default();
        }
        let has_mirrors = rules.iter().any(|rule| rule.mirror.is_some());
        let mirrors = rules.iter().filter(|_| has_mirrors).map(|rule| rule.mirror.as_ref());
        let copies = mirrors.map(|mirror| mirror.map(Copies::new)).collect();
        let has_caches = rules.iter().any(|rule| rule.cache.is_some());
        let table = Arc::new(Table::compile(rules));
        Self(Some(Arc::new(Compiled { table, copies, has_caches })))
    }

    /// The same rules for another listener, in memory too. Each listener has copies under way of
    /// its own.
    #[must_use]
    pub fn for_another_listener(&self) -> Self {
        Self(self.0.as_ref().map(|compiled| {
            let copies = compiled.copies.iter();
            let anew = |copies: &Arc<Copies>| Copies::new(&copies.mirror);
            Arc::new(Compiled {
                table: compiled.table.clone(),
                copies: copies.map(|copies| copies.as_ref().map(anew)).collect(),
                has_caches: compiled.has_caches,
            })
        }))
    }

    /// Whether these are the same rules as `others`, not only equal ones.
    #[must_use]
    pub fn is_same_as(&self, others: &Self) -> bool {
        match (&self.0, &others.0) {
            (Some(one), Some(other)) => Arc::ptr_eq(one, other),
            (one, other) => one.is_none() && other.is_none(),
        }
    }

    /// Whether there are none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.0.is_none()
    }

    /// Whether any rule has its responses cached.
    #[must_use]
    pub fn has_caches(&self) -> bool {
        self.0.as_ref().is_some_and(|compiled| compiled.has_caches)
    }

    /// Whether the rule at this place has its responses cached, in the order in which they are
    /// asked.
    #[must_use]
    pub fn caches(&self, rank: usize) -> bool {
        self.has_caches() && self.rules().get(rank).is_some_and(|(_, rule)| rule.cache.is_some())
    }

    /// The rule that decides; see [`Table::find`].
    #[must_use]
    pub fn find<H: Headers + ?Sized>(&self, request: &Request<'_, H>) -> Option<Matched<'_>> {
        self.0.as_ref()?.table.find(request)
    }

    /// The copies of the requests of the rule at this place of the file, if it makes some.
    #[must_use]
    pub fn copies(&self, index: usize) -> Option<&Arc<Copies>> {
        self.0.as_ref()?.copies.get(index)?.as_ref()
    }

    /// The rules in the order in which they are asked, with their places in the file.
    #[must_use]
    pub fn rules(&self) -> &[(usize, Rule)] {
        self.0.as_ref().map_or(&[], |compiled| compiled.table.rules())
    }

    /// The rules that can never decide, in the order of the file.
    #[must_use]
    pub fn lint(&self) -> Vec<Shadowed> {
        self.0.as_ref().map_or_else(Vec::new, |compiled| lint(&compiled.table))
    }

    /// The services that rules send to or ask who may come in, each as often as they do.
    pub fn services(&self) -> impl Iterator<Item = usize> {
        let mirrors = self.rules().iter().filter_map(|(_, rule)| rule.mirror.as_ref());
        let shares = self.rules().iter().flat_map(|(_, rule)| match &rule.action {
            Action::Service(split) => split.shares(),
            Action::Redirect(_) | Action::Respond(_) => &[],
        });
        let asked = self.rules().iter().filter_map(|(_, rule)| rule.authentication.as_ref());
        shares
            .map(|share: &Share| share.service)
            .chain(mirrors.map(|mirror| mirror.service))
            .chain(asked.filter_map(Authentication::service))
    }
}

impl PartialEq for Routes {
    fn eq(&self, other: &Self) -> bool {
        ptr::eq(self.rules(), other.rules()) || self.rules() == other.rules()
    }
}

#[cfg(test)]
mod tests {
    use alloc::vec;

    use super::*;
    use crate::{
        rules::{Conditions, Mirror, Split},
        units::{Bytes, Ratio},
    };

    #[test]
    fn listeners_with_the_same_routes_have_them_once_in_memory_and_copies_of_their_own() {
        let mirror =
            Mirror { service: 1, share: Ratio::ONE, body_max: Bytes::new(10), in_flight_max: 1 };
        let rule = Rule::new(Conditions::default(), Action::Service(Split::all(0)));
        let one = Routes::new(vec![rule.clone(), Rule { mirror: Some(mirror), ..rule }]);
        let other = one.for_another_listener();
        assert!(ptr::eq(one.rules(), other.rules()));
        assert_eq!(one, other);
        assert!(other.copies(0).is_none());
        let (one, other) = (one.copies(1).unwrap(), other.copies(1).unwrap());
        let _first = one.enter().unwrap();
        assert!(one.enter().is_none());
        assert!(other.enter().is_some());
    }

    #[test]
    fn a_listener_without_routes_shares_none() {
        assert!(Routes::default().for_another_listener().is_empty());
    }
}
