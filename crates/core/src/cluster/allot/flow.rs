//! The transport of least distance: successive shortest paths with potentials.
//!
//! Nodes are locations, groups and one end behind all groups that have room. What has been sent may
//! be sent elsewhere later, along an arc back with the distance taken off. Potentials `p` keep
//! `distance + p(from) - p(to)` at zero or more on every arc, so that Dijkstra's search finds the
//! shortest way; it stops at the end, and each node's potential grows by how far it was, by the
//! distance of the end at most. (Edmonds and Karp, 1972; Tomizawa, 1971.)

use alloc::{collections::BinaryHeap, vec, vec::Vec};
use core::cmp::Reverse;

/// Flow from locations to groups.
#[derive(Clone, Debug)]
pub(super) struct Flow {
    /// By location and group.
    distances: Vec<Vec<Option<u32>>>,
    sent: Vec<Vec<u64>>,
    /// By group.
    left: Vec<u64>,
    /// Of locations, then groups, then the end.
    potentials: Vec<i64>,
}

/// A search for the shortest way.
struct Search {
    /// By node.
    distances: Vec<i64>,
    from: Vec<usize>,
    open: BinaryHeap<Reverse<(i64, usize)>>,
}

impl Search {
    fn reach(&mut self, node: usize, distance: i64, from: usize) {
        if distance < self.distances[node] {
            self.distances[node] = distance;
            self.from[node] = from;
            self.open.push(Reverse((distance, node)));
        }
    }
}

impl Flow {
    pub(super) fn new(distances: Vec<Vec<Option<u32>>>, capacities: Vec<u64>) -> Self {
        let (locations, groups) = (distances.len(), capacities.len());
        let sent = vec![vec![0; groups]; locations];
        Self { distances, sent, left: capacities, potentials: vec![0; locations + groups + 1] }
    }

    /// What is left, of which nothing has been sent.
    pub(super) fn rest(&self) -> Self {
        Self::new(self.distances.clone(), self.left.clone())
    }

    pub(super) fn groups(&self) -> usize {
        self.left.len()
    }

    /// What is left of all groups.
    pub(super) fn left(&self) -> u64 {
        self.left.iter().fold(0, |sum: u64, left| sum.saturating_add(*left))
    }

    pub(super) fn sent(&self, location: usize, group: usize) -> u64 {
        self.sent[location][group]
    }

    /// Sends so much from a location, or as much as can be; how much that was.
    pub(super) fn send(&mut self, location: usize, amount: u64) -> u64 {
        let mut rest = amount;
        while rest > 0 {
            let Some(way) = self.shortest(location) else { break };
            rest -= self.push(&way, rest);
        }
        amount - rest
    }

    /// The nodes of the shortest way from a location to a group with room.
    fn shortest(&mut self, location: usize) -> Option<Vec<usize>> {
        let nodes = self.potentials.len();
        let end = nodes - 1;
        let mut search = Search {
            distances: vec![i64::MAX; nodes],
            from: vec![end; nodes],
            open: BinaryHeap::new(),
        };
        search.reach(location, 0, end);
        while let Some(Reverse((distance, node))) = search.open.pop() {
            if node == end {
                return Some(self.settle(&search, location));
            }
            if distance == search.distances[node] {
                self.expand(node, distance, &mut search);
            }
        }
        None
    }

    /// Reaches what is next to a node.
    fn expand(&self, node: usize, distance: i64, search: &mut Search) {
        let locations = self.sent.len();
        let potential = distance + self.potentials[node];
        if let Some(distances) = self.distances.get(node) {
            for (group, far) in distances.iter().enumerate() {
                let Some(far) = far else { continue };
                let to = locations + group;
                search.reach(to, potential + i64::from(*far) - self.potentials[to], node);
            }
            return;
        }
        let (group, end) = (node - locations, self.potentials.len() - 1);
        if self.left[group] > 0 {
            search.reach(end, potential - self.potentials[end], node);
        }
        for location in 0..locations {
            if self.sent[location][group] > 0 {
                let far = self.distances[location][group].map_or(0, i64::from);
                search.reach(location, potential - far - self.potentials[location], node);
            }
        }
    }

    /// Takes the distances that were found into the potentials; the way back from the end.
    fn settle(&mut self, search: &Search, location: usize) -> Vec<usize> {
        let end = self.potentials.len() - 1;
        let found = search.distances[end];
        let nodes = self.potentials.iter_mut().zip(&search.distances);
        nodes.for_each(|(potential, distance)| *potential += (*distance).min(found));
        let mut way = Vec::new();
        let mut node = search.from[end];
        while node != location {
            way.push(node);
            node = search.from[node];
        }
        way.push(location);
        way.reverse();
        way
    }

    /// Sends as much of `rest` along a way as fits; how much that was.
    fn push(&mut self, way: &[usize], rest: u64) -> u64 {
        let locations = self.sent.len();
        let last = way[way.len() - 1] - locations;
        let back = |pair: &[usize]| (pair[0] >= locations).then(|| (pair[1], pair[0] - locations));
        let backs = way.windows(2).filter_map(back);
        let tightest = backs.map(|(location, group)| self.sent[location][group]).min();
        let amount = rest.min(self.left[last]).min(tightest.unwrap_or(u64::MAX));
        for pair in way.windows(2) {
            match back(pair) {
                Some((location, group)) => self.sent[location][group] -= amount,
                None => self.sent[pair[0]][pair[1] - locations] += amount,
            }
        }
        self.left[last] -= amount;
        amount
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn all_sent(distances: &[Vec<Option<u32>>], capacities: &[u64], wanted: &[u64]) -> Flow {
        let mut flow = Flow::new(distances.to_vec(), capacities.to_vec());
        for (location, wanted) in wanted.iter().enumerate() {
            let sent = flow.send(location, *wanted);
            assert!(sent <= *wanted);
        }
        flow
    }

    #[test]
    fn who_has_a_good_second_choice_makes_room() {
        let distances = [vec![Some(5), Some(10)], vec![Some(10), Some(100)]];
        let flow = all_sent(&distances, &[7, 7], &[7, 7]);
        assert_eq!(flow.sent, [[0, 7], [7, 0]], "20 in all, not 105");
    }

    /// Whether anything could be sent elsewhere so that the sum of distances became less: a cycle
    /// of negative length among what is left (Bellman and Ford).
    fn could_be_shorter(flow: &Flow) -> bool {
        let (locations, groups) = (flow.sent.len(), flow.left.len());
        let end = locations + groups;
        let mut arcs = Vec::new();
        for location in 0..locations {
            for group in 0..groups {
                let Some(far) = flow.distances[location][group].map(i64::from) else { continue };
                arcs.push((location, locations + group, far));
                if flow.sent[location][group] > 0 {
                    arcs.push((locations + group, location, -far));
                }
            }
        }
        for group in 0..groups {
            if flow.left[group] > 0 {
                arcs.push((locations + group, end, 0));
            }
            if flow.sent.iter().any(|sent| sent[group] > 0) {
                arcs.push((end, locations + group, 0));
            }
        }
        let mut distances = vec![0_i64; end + 1];
        for _ in 0..=end {
            let mut changed = false;
            for (from, to, far) in &arcs {
                if distances[*from] + far < distances[*to] {
                    distances[*to] = distances[*from] + far;
                    changed = true;
                }
            }
            if !changed {
                return false;
            }
        }
        true
    }

    proptest! {
        #[test]
        fn nothing_shorter_is_possible_and_nobody_is_left_out(
            distances in prop::collection::vec(
                prop::collection::vec(prop::option::weighted(0.8, 0_u32..20), 4), 1..6),
            capacities in prop::collection::vec(0_u64..50, 4),
            wanted in prop::collection::vec(0_u64..60, 6),
        ) {
            let wanted = &wanted[..distances.len()];
            let flow = all_sent(&distances, &capacities, wanted);
            prop_assert!(!could_be_shorter(&flow));
            for (group, capacity) in capacities.iter().enumerate() {
                let used: u64 = flow.sent.iter().map(|sent| sent[group]).sum();
                prop_assert_eq!(used + flow.left[group], *capacity);
            }
            for (location, wanted) in wanted.iter().enumerate() {
                let sent: u64 = flow.sent[location].iter().sum();
                let reached = |group: &usize| distances[location][*group].is_some();
                let room = (0..4).filter(reached).any(|group| flow.left[group] > 0);
                prop_assert!(sent == *wanted || !room);
            }
        }
    }
}
