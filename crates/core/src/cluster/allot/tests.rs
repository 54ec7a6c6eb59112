//! Allotments: small ones by hand, random ones by what must be true of all.

use alloc::{vec, vec::Vec};

use proptest::prelude::*;

use super::*;

const NO_FLOORS: Floors = Floors { each: Share::NONE, edges: 1 };

fn edge(session: i64, demand: u64, distances: &[u32]) -> EdgeDemand {
    let distances = distances.iter().copied().map(Some).collect();
    EdgeDemand { session: SessionId(session), demand: [0, demand * 1_000, 0], margin: 0, distances }
}

fn rate(per_sec: u64) -> GroupCapacity {
    GroupCapacity { rate: Some(per_sec * 1_000), places: None }
}

/// Requests per second, rounded to the nearest.
fn rates(shares: &[Vec<Share>], groups: &[GroupCapacity]) -> Vec<Vec<u64>> {
    let of = |(share, group): (&Share, &GroupCapacity)| {
        (share.of(group.rate.unwrap_or_default()) + 500) / 1_000
    };
    shares.iter().map(|row| row.iter().zip(groups).map(of).collect()).collect()
}

#[test]
fn each_is_served_near_and_only_the_excess_far() {
    let groups = [rate(100), rate(100)];
    let edges = [edge(1, 150, &[0, 50]), edge(2, 50, &[50, 0])];
    assert_eq!(rates(&allot(&edges, &groups, NO_FLOORS), &groups), [[100, 50], [0, 50]]);
}

#[test]
fn when_all_is_full_whoever_wants_little_gets_it_and_the_others_are_equal() {
    let groups = [rate(100)];
    let edges = [edge(1, 400, &[9]), edge(2, 10, &[1]), edge(3, 90, &[5])];
    assert_eq!(rates(&allot(&edges, &groups, NO_FLOORS), &groups), [[45], [10], [45]]);
}

#[test]
fn higher_classes_come_first_whichever_edge_they_come_in_at() {
    let groups = [rate(100)];
    let mut edges = [edge(1, 100, &[9]), edge(2, 100, &[1])];
    edges[0].demand = [80_000, 20_000, 0];
    assert_eq!(rates(&allot(&edges, &groups, NO_FLOORS), &groups), [[90], [10]]);
}

#[test]
fn half_of_what_is_left_goes_to_whoever_would_overflow_there_and_half_stays_free() {
    let groups = [rate(100), rate(100)];
    let edges = [edge(1, 100, &[0, 50]), edge(2, 20, &[50, 0])];
    let shares = rates(&allot(&edges, &groups, NO_FLOORS), &groups);
    // Of 80 that are left of the second, 40 in proportion of 100 to 20.
    assert_eq!(shares, [[100, 33], [0, 27]]);
}

#[test]
fn what_chance_needs_comes_before_what_stays_free_and_sends_nobody_farther() {
    let groups = [rate(100), rate(100)];
    let mut edges = [edge(1, 95, &[0, 50]), edge(2, 60, &[50, 0])];
    edges.iter_mut().for_each(|edge| edge.margin = 20_000);
    // 5 near and 15 far; of the 5 that are left of the second, 2.5 as 95 to 60.
    assert_eq!(rates(&allot(&edges, &groups, NO_FLOORS), &groups), [[100, 17], [0, 81]]);
    edges[1].demand = [0, 91_000, 0];
    // Of 14 that are left, each is given half, though both want more.
    assert_eq!(rates(&allot(&edges, &groups, NO_FLOORS), &groups), [[100, 2], [0, 98]]);
}

#[test]
fn floors_are_left_alone_and_used_first() {
    let groups = [rate(100)];
    let floors = Floors { each: Share::part(1, 10), edges: 3 };
    let edges = [edge(1, 200, &[0]), edge(2, 200, &[0])];
    assert_eq!(rates(&allot(&edges, &groups, floors), &groups), [[35], [35]]);
    let edges = [edge(1, 20, &[0]), edge(2, 5, &[0])];
    let shares = rates(&allot(&edges, &groups, floors), &groups);
    // 10 of the first and none of the second; of the 60 that are left, 30 as 20 to 5.
    assert_eq!(shares, [[34], [6]]);
}

#[test]
fn places_are_whole() {
    let groups = [GroupCapacity { rate: Some(100_000), places: Some(10) }];
    let edges = [edge(1, 100, &[0]), edge(2, 100, &[0]), edge(3, 100, &[0])];
    let shares = allot(&edges, &groups, NO_FLOORS);
    let places: Vec<u32> = shares.iter().map(|row| row[0].of_places(10)).collect();
    assert_eq!(places, [4, 3, 3]);
}

#[test]
fn what_nobody_knows_is_divided_as_it_is_wanted() {
    let groups = [GroupCapacity { rate: None, places: Some(8) }];
    let edges = [edge(1, 30, &[0]), edge(2, 10, &[0])];
    let shares = allot(&edges, &groups, NO_FLOORS);
    let places: Vec<u32> = shares.iter().map(|row| row[0].of_places(8)).collect();
    assert_eq!(places, [6, 2]);
}

#[test]
fn nothing_comes_of_nothing() {
    assert!(allot(&[], &[rate(1)], NO_FLOORS).is_empty());
    assert_eq!(allot(&[edge(1, 5, &[])], &[], NO_FLOORS), [vec![]]);
    let groups = [rate(0), GroupCapacity { rate: None, places: Some(0) }];
    let shares = allot(&[edge(1, 5, &[1, 1])], &groups, NO_FLOORS);
    assert_eq!(shares[0][1], Share::NONE);
}

#[test]
fn equal_edges_share_a_group_of_unknown_capacity_equally_however_little_they_ask_for() {
    let groups = [GroupCapacity { rate: None, places: None }];
    for floor in [0, 20] {
        let floors = Floors { each: Share::part(floor, 1_000), edges: 2 };
        let edges = [1, 2].map(|at| EdgeDemand { margin: 1, ..edge(at, 0, &[0]) });
        let shares = allot(&edges, &groups, floors);
        assert!(shares[0][0] > Share::NONE, "{shares:?}");
        assert_eq!(shares[0], shares[1]);
    }
}

#[test]
fn a_small_group_that_nobody_asks_for_leaves_each_edge_something_of_it() {
    let twelve_a_minute = GroupCapacity { rate: Some(200), places: None };
    let twelve_places = GroupCapacity { rate: None, places: Some(12) };
    let floors = Floors { each: Share::part(1, 100), edges: 10 };
    for group in [twelve_a_minute, twelve_places] {
        let shares = allot(&[edge(1, 0, &[1]), edge(2, 0, &[1])], &[group], floors);
        assert!(shares.iter().all(|row| row[0] > Share::part(1, 5)), "{group:?}: {shares:?}");
    }
}

#[test]
fn a_group_that_is_given_nothing_keeps_nobody_from_what_is_left_of_the_next() {
    let edges = [edge(1, 0, &[1, 9]), edge(2, 0, &[1, 9])];
    let shares = allot(&edges, &[rate(0), rate(100)], NO_FLOORS);
    assert_eq!([shares[0][1], shares[1][1]], [Share::part(1, 4); 2]);
}

fn fleets(edges: usize) -> impl Strategy<Value = (Vec<EdgeDemand>, Vec<GroupCapacity>, Floors)> {
    let group =
        (prop::option::weighted(0.9, 0_u64..2_000_000), prop::option::weighted(0.3, 0_u32..40));
    let groups = prop::collection::vec(group, 1..7);
    groups.prop_flat_map(move |groups| {
        let count = groups.len();
        let distances = prop::collection::vec(prop::option::weighted(0.9, 0_u32..6), count);
        let demand = prop::array::uniform3(prop_oneof![Just(0), 0_u64..300_000, 0_u64..4]);
        let edges = prop::collection::vec(
            (demand, prop_oneof![4 => 0_u64..20_000, 1 => 0_u64..4], distances),
            1..=edges,
        );
        let groups = groups.into_iter().map(|(rate, places)| GroupCapacity { rate, places });
        (edges, Just(groups.collect::<Vec<_>>()), 0_u64..5).prop_map(|(edges, groups, floor)| {
            let floors = Floors { each: Share::part(floor, 1_000), edges: edges.len() as u32 };
            let edges = edges.into_iter().enumerate().map(|(at, (demand, margin, distances))| {
                EdgeDemand { session: SessionId(at as i64 * 7), demand, margin, distances }
            });
            (edges.collect(), groups, floors)
        })
    })
}

/// Whether it follows from the shares that nobody is refused what another could have been spared.
fn check(edges: &[EdgeDemand], groups: &[GroupCapacity], floors: Floors) {
    let shares = allot(edges, groups, floors);
    let pool = Share::WHOLE.parts() - floors.sum().parts();
    for group in 0..groups.len() {
        let sum: u64 = shares.iter().map(|row| row[group].parts()).sum();
        assert!(sum <= pool, "{sum} of {pool} of group {group}");
        if let Some(places) = groups[group].places {
            let given = shares.iter().map(|row| (row[group] + floors.each).of_places(places));
            assert!(given.sum::<u32>() <= places);
        }
    }
    let mut reversed = edges.to_vec();
    reversed.reverse();
    let mut again = allot(&reversed, groups, floors);
    again.reverse();
    assert_eq!(shares, again, "whatever the order");
}

/// Whether demand is unmet though something in reach is not given.
fn check_work(edges: &[EdgeDemand], groups: &[GroupCapacity]) {
    let shares = allot(edges, groups, NO_FLOORS);
    for (edge, row) in edges.iter().zip(&shares) {
        let reached = |group: &usize| edge.distances[*group].is_some();
        let rate = |group: usize| groups[group].rate.unwrap_or_default();
        let given: u64 =
            (0..groups.len()).filter(reached).map(|group| row[group].of(rate(group))).sum();
        if given + 10 * ROUNDING >= edge.demand.iter().sum() {
            continue;
        }
        for group in (0..groups.len()).filter(reached) {
            let used: u64 = shares.iter().map(|row| row[group].of(rate(group))).sum();
            assert!(used + 10 * ROUNDING >= rate(group), "{used} of group {group}");
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(256))]

    #[test]
    fn sums_hold_and_the_order_of_edges_does_not_matter((edges, groups, floors) in fleets(12)) {
        check(&edges, &groups, floors);
    }

    #[test]
    fn nobody_is_refused_while_something_in_reach_is_unused((edges, mut groups, _) in fleets(12)) {
        for group in &mut groups {
            *group = GroupCapacity { rate: Some(group.rate.unwrap_or(50_000)), places: None };
        }
        check_work(&edges, &groups);
    }

    #[test]
    fn equal_edges_are_given_the_same((edges, groups, floors) in fleets(4), copies in 2_usize..5) {
        let same = |at: usize| EdgeDemand { session: SessionId(at as i64), ..edges[0].clone() };
        let mut all: Vec<EdgeDemand> = (0..copies).map(|at| same(1_000 + at)).collect();
        all.extend_from_slice(&edges[1..]);
        let floors = Floors { edges: all.len() as u32, ..floors };
        let shares = allot(&all, &groups, floors);
        for (group, capacity) in groups.iter().enumerate() {
            let equal = shares[..copies].iter().map(|row| row[group].parts());
            let (least, most) = (equal.clone().min(), equal.max());
            let crumb = capacity.rate.map_or(0, |rate| 4 * Share::WHOLE.parts() / rate.max(1));
            let place = capacity.places.map_or(0, |it| Share::WHOLE.parts() / u64::from(it.max(1)));
            let differ = most.unwrap_or(0) - least.unwrap_or(0);
            prop_assert!(differ <= crumb + place + 4, "{differ} of group {group}: {shares:?}");
        }
    }
}

/// Whether half of what floors leave of a group is given where nobody asks for anything, or as much
/// of it as whole places allow.
fn check_at_rest(distances: &[u32], group: GroupCapacity, floor: u64) {
    let edges: Vec<EdgeDemand> =
        (0..).zip(distances).map(|(at, distance)| edge(at, 0, &[*distance])).collect();
    let count = edges.len() as u64;
    let floors = Floors { each: Share::part(floor, 1_000), edges: count as u32 };
    let shares: Vec<Share> = allot(&edges, &[group], floors).iter().map(|row| row[0]).collect();
    let pool = Share::WHOLE.saturating_sub(floors.sum()).parts();
    let sum: u64 = shares.iter().map(|share| share.parts()).sum();
    assert!(sum <= pool, "{sum} of {pool}");
    let Some(places) = group.places else {
        assert!(sum + count + 1 >= pool / 2, "{sum} of {pool}");
        return;
    };
    let given = |share: &Share| (*share + floors.each).of_places(places);
    let all: u32 = shares.iter().map(given).sum();
    assert!(all <= places, "{all} of {places} places");
    let fits = |share: &Share| {
        let next = Share::part(u64::from(given(share)) + 1, places.into());
        // Parts of places are rounded.
        sum + next.saturating_sub(floors.each).saturating_sub(*share).parts() + 2 <= pool
    };
    let half = Share::from_parts(pool / 2).of_places(places);
    assert!(all >= half || !shares.iter().any(fits), "{all} of {places} places: {shares:?}");
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(256))]

    #[test]
    fn at_rest_half_is_given_whether_a_group_is_small_or_large(
        distances in prop::collection::vec(0_u32..3, 1..12),
        rate in prop::option::of(prop_oneof![1_u64..1_000, 1_u64..10_000_000]),
        places in prop::option::of(prop_oneof![1_u32..30, 1_u32..10_000]),
        floor in 0_u64..50,
    ) {
        check_at_rest(&distances, GroupCapacity { rate, places }, floor);
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(12))]

    #[test]
    fn sums_hold_for_two_hundred_edges((edges, groups, floors) in fleets(200)) {
        check(&edges, &groups, floors);
    }
}

/// 200 edges at distances that are all different, and 500 groups that are nearly all wanted.
#[test]
fn the_largest_fleet_is_done_in_time() {
    let distance = |edge: u32, group: u32| 1 + (edge * 7_919 + group * 104_729) % 2_003;
    let edges: Vec<EdgeDemand> = (0..200)
        .map(|at| {
            let distances: Vec<u32> = (0..500).map(|group| distance(at, group)).collect();
            edge(at.into(), 200 + u64::from(at % 7) * 10, &distances)
        })
        .collect();
    let groups: Vec<GroupCapacity> = (0..500).map(|at| rate(80 + at % 40)).collect();
    let began = std::time::Instant::now();
    let shares = allot(&edges, &groups, Floors { each: Share::part(1, 10_000), edges: 200 });
    let took = began.elapsed();
    assert_eq!(shares.len(), 200);
    assert!(took.as_secs() < 10, "{took:?}");
    std::eprintln!("200 edges, 500 groups: {took:?}");
}
