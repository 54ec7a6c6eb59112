//! Services by server name (SNI), for `tls-passthrough`.
//!
//! An exact name goes before a wildcard, a longer wildcard before a shorter one. `*.example.com`
//! stands for every name below `example.com`, at any depth, and not for `example.com` itself.

use alloc::{string::String, vec::Vec};

/// Services by server name.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ServerNames {
    /// In the order of the names, so that a search takes the logarithm of their number.
    names: Vec<(String, usize)>,
}

impl ServerNames {
    /// The services, as indices into [`Fleet::services`](super::Fleet::services), by names in
    /// lower case. Of two that are the same the first is kept.
    #[must_use]
    pub fn new(mut names: Vec<(String, usize)>) -> Self {
        names.sort_by(|a, b| a.0.cmp(&b.0));
        names.dedup_by(|later, kept| later.0 == kept.0);
        Self { names }
    }

    /// All names, in their order, with their services.
    pub fn iter(&self) -> impl Iterator<Item = (&str, usize)> {
        self.names.iter().map(|(name, service)| (name.as_str(), *service))
    }

    /// Whether there is none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.names.is_empty()
    }

    /// The services that are named, each as often as it is.
    pub fn services(&self) -> impl Iterator<Item = usize> {
        self.names.iter().map(|(_, service)| *service)
    }

    /// The service for `name`, in lower case.
    #[must_use]
    pub fn find(&self, name: &str) -> Option<usize> {
        self.at(None, name).or_else(|| {
            let dots = name.match_indices('.').filter(|(at, _)| *at > 0);
            dots.map(|(at, _)| &name[at..]).find_map(|rest| self.at(Some('*'), rest))
        })
    }

    /// The service of the name that is `first` with `rest` behind it.
    fn at(&self, first: Option<char>, rest: &str) -> Option<usize> {
        let wanted = || first.into_iter().chain(rest.chars());
        let found = self.names.binary_search_by(|(name, _)| name.chars().cmp(wanted()));
        found.ok().map(|index| self.names[index].1)
    }
}

#[cfg(test)]
mod tests {
    use alloc::borrow::ToOwned;

    use super::*;

    #[test]
    fn the_most_particular_name_decides() {
        let names = [("*.example.com", 1), ("www.example.com", 2), ("*.eu.example.com", 3)];
        let names = ServerNames::new(names.map(|(name, at)| (name.to_owned(), at)).to_vec());
        assert_eq!(names.find("www.example.com"), Some(2));
        assert_eq!(names.find("api.example.com"), Some(1));
        assert_eq!(names.find("a.b.example.com"), Some(1), "at any depth");
        assert_eq!(names.find("www.eu.example.com"), Some(3), "the longer wildcard");
        assert_eq!(names.find("example.com"), None);
        assert_eq!(names.find(".example.com"), None, "a label is never empty");
        assert_eq!(names.find("badexample.com"), None);
        assert_eq!(names.find(""), None);
        assert_eq!(ServerNames::default().find("www.example.com"), None);
    }

    #[test]
    fn of_two_same_names_the_first_counts() {
        let names =
            ServerNames::new([("a", 7), ("a", 8)].map(|(n, at)| (n.to_owned(), at)).to_vec());
        assert_eq!((names.find("a"), names.services().count()), (Some(7), 1));
    }
}
