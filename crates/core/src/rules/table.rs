//! The rules of a listener, compiled, so that a request is compared with few of them.
//!
//! A rule is entered under each of its hosts and there under each of its paths. What is found on
//! the way from the root of the tree to the request's path are lists in the order of priority; in
//! each the first rule of which the other conditions hold is taken, and the first of these wins.

use alloc::{boxed::Box, collections::BTreeMap, vec::Vec};

use super::{Action, Headers, Host, Path, Request, Rule, pattern::ends_with_label};

/// Rules that can be found fast.
#[derive(Clone, Debug, Default)]
pub struct Table {
    /// In the order of priority, with their places in the file.
    rules: Vec<(usize, Rule)>,
    hosts: BTreeMap<Box<[u8]>, Node>,
    /// Of the hosts below each domain.
    domains: BTreeMap<Box<[u8]>, Node>,
    /// The most labels of a domain.
    labels: usize,
    /// Of rules for any host.
    anywhere: Node,
}

/// A rule that matches.
#[derive(Clone, Copy, Debug)]
pub struct Matched<'a> {
    /// Its place among the rules that were compiled.
    pub index: usize,
    /// Its place in the order of evaluation, that of [`Table::rules`].
    pub rank: usize,
    /// The rule.
    pub rule: &'a Rule,
}

/// A segment of paths.
#[derive(Clone, Debug, Default)]
struct Node {
    segments: BTreeMap<Box<[u8]>, Node>,
    /// Rules for the path that ends at this segment.
    here: Vec<Entry>,
    /// Rules for that path and all below it.
    below: Vec<Entry>,
}

/// A rule under one of its hosts and paths.
#[derive(Clone, Copy, Debug)]
pub(super) struct Entry {
    /// Its place in the order of priority.
    pub(super) rank: usize,
    /// Index of its path that is an expression still to be tried.
    regex: Option<usize>,
}

impl Table {
    /// Compiles rules.
    #[must_use]
    pub fn compile(rules: Vec<Rule>) -> Self {
        let mut rules: Vec<_> = rules.into_iter().enumerate().collect();
        rules.sort_by_key(|(_, rule)| core::cmp::Reverse(rule.priority));
        let mut table = Self::default();
        for (rank, (_, rule)) in rules.iter().enumerate() {
            for host in &rule.when.hosts {
                table.node(host).enter(rank, &rule.when.paths);
            }
            if rule.when.hosts.is_empty() {
                table.anywhere.enter(rank, &rule.when.paths);
            }
        }
        Self { rules, ..table }
    }

    /// The first rule of which all conditions hold. Allocates nothing, unless an expression is to
    /// be matched with a query parameter that is percent-encoded, or a map or a redirect decides.
    #[must_use]
    pub fn find<H: Headers + ?Sized>(&self, request: &Request<'_, H>) -> Option<Matched<'_>> {
        let mut best = self.rules.len();
        self.walk(request.host, request.path, &mut |entries| {
            let better = entries.iter().take_while(|entry| entry.rank < best);
            let mut matching = better.filter(|entry| self.holds(entry, request));
            if let Some(entry) = matching.next() {
                best = entry.rank;
            }
        });
        self.rules.get(best).map(|(index, rule)| Matched { index: *index, rank: best, rule })
    }

    /// The rules in the order of priority, with their places in the file.
    #[must_use]
    pub fn rules(&self) -> &[(usize, Rule)] {
        &self.rules
    }

    /// Shows all rules whose host and path may be these.
    pub(super) fn walk(&self, host: &[u8], path: &[u8], see: &mut impl FnMut(&[Entry])) {
        if let Some(node) = self.hosts.get(host) {
            node.walk(path, see);
        }
        let dots = host.iter().enumerate().rev().filter(|(_, byte)| **byte == b'.');
        for (dot, _) in dots.take(self.labels) {
            if !ends_with_label(&host[..=dot]) {
                continue;
            }
            if let Some(node) = self.domains.get(&host[dot + 1..]) {
                node.walk(path, see);
            }
        }
        self.anywhere.walk(path, see);
    }

    fn holds<H: Headers + ?Sized>(&self, entry: &Entry, request: &Request<'_, H>) -> bool {
        let rule = self.rules_at(entry);
        let conditions = &rule.when;
        conditions.others_hold(request)
            && entry.regex.is_none_or(|at| conditions.paths[at].matches(request.path))
            && match &rule.action {
                Action::Redirect(redirect) => redirect.leads_elsewhere(request),
                Action::Service(_) | Action::Respond(_) => true,
            }
    }

    pub(super) fn rules_at(&self, entry: &Entry) -> &Rule {
        &self.rules[entry.rank].1
    }

    fn node(&mut self, host: &Host) -> &mut Node {
        match host {
            Host::Exact(name) => self.hosts.entry(name.as_bytes().into()).or_default(),
            Host::Under(domain) => {
                self.labels = self.labels.max(domain.split('.').count());
                self.domains.entry(domain.as_bytes().into()).or_default()
            }
        }
    }
}

impl Node {
    fn enter(&mut self, rank: usize, paths: &[Path]) {
        if paths.is_empty() {
            self.below.push(Entry { rank, regex: None });
        }
        for (at, path) in paths.iter().enumerate() {
            match path {
                Path::Exact(path) => self.at(path).here.push(Entry { rank, regex: None }),
                Path::Prefix(path) => self.at(path).below.push(Entry { rank, regex: None }),
                Path::Regex(regex) => {
                    let entry = Entry { rank, regex: Some(at) };
                    self.at(regex.directory()).below.push(entry);
                }
            }
        }
    }

    /// The node of a path, made where it is missing.
    fn at(&mut self, path: &str) -> &mut Self {
        let Some(path) = path.strip_prefix('/') else { return self };
        let segments = path.as_bytes().split(|byte| *byte == b'/');
        segments.fold(self, |node, segment| node.segments.entry(segment.into()).or_default())
    }

    fn walk(&self, path: &[u8], see: &mut impl FnMut(&[Entry])) {
        see(&self.below);
        let Some(path) = path.strip_prefix(b"/") else { return };
        let mut node = self;
        for segment in path.split(|byte| *byte == b'/') {
            let Some(next) = node.segments.get(segment) else { return };
            node = next;
            see(&node.below);
        }
        see(&node.here);
    }
}
