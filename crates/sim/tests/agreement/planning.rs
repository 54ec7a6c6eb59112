//! How many servers are needed, where that can be worked out.

use std::{num::NonZero, sync::Arc};

use loadline_core::{
    fleet::{Capacity, Fleet, Group, HealthCheck, Probe},
    time::Duration,
    units::Rate,
};
use loadline_sim::{
    Arrivals, Scenario, ServiceTime,
    planning::{Loss, Question, plan},
    scenario::ServerModel,
};

use crate::fleets::one_server;

/// Clients that ask for 600/s, and three regions of servers that may be given 20/s each.
fn three_regions() -> Scenario {
    let model = ServerModel {
        time: ServiceTime::Constant(Duration::from_millis(10)),
        ..ServerModel::default()
    };
    let mut scenario = one_server(model, Rate::per_sec(600), 18_000, 1);
    let mut fleet = Fleet::clone(&scenario.edges[0]);
    let service = &mut fleet.services[0];
    let template = service.groups[0].clone();
    let group = |number: u16| {
        let mut server = template.servers[0].clone();
        server.address.set_port(1_000 + number);
        let capacity = Capacity { max_rate: Some(Rate::per_sec(20)), ..Capacity::UNLIMITED };
        let name = if number == 0 { template.name.clone() } else { format!("far{number}") };
        Group {
            region: name.clone(),
            name,
            rtt: Some(Duration::from_millis(u64::from(number) * 50)),
            capacity,
            servers: vec![server],
            ..template.clone()
        }
    };
    service.groups = (0..3).map(group).collect();
    service.health = Some(HealthCheck {
        probe: Probe::Tcp,
        interval: Duration::from_secs(1),
        fast_interval: Duration::from_secs(1),
        timeout: Duration::from_millis(500),
        rise: 2,
        fall: 3,
        lenient: false,
    });
    scenario.edges = vec![Arc::new(fleet)];
    scenario
}

#[test]
fn three_regions_share_the_reserve_for_the_loss_of_one() {
    let scenario = three_regions();
    let losses = Loss::of_regions(&scenario.edges[0]);
    let objective = "errors<1%".parse().unwrap();
    let found =
        plan(&Question { scenario, losses, objective }, NonZero::<u16>::MIN, &mut |_| {}).record;
    let servers: Vec<u32> = found.groups.iter().map(|group| group.servers).collect();
    // 600/s at 20/s each are 30 servers in any two regions: 45 in all, and a little for chance.
    let sum: u32 = servers.iter().sum();
    assert!(found.met && (44..=50).contains(&sum), "{servers:?}");
    assert!(servers.iter().all(|servers| servers.abs_diff(15) <= 3), "{servers:?}");
}

#[test]
fn what_no_server_can_do_is_not_planned() {
    let scenario = three_regions();
    let objective = "p99<5ms".parse().unwrap();
    let found = plan(
        &Question { scenario, losses: Vec::new(), objective },
        NonZero::<u16>::MIN,
        &mut |_| {},
    )
    .record;
    assert!(!found.met);
}

/// Forty requests within four seconds, which are over before a loss is noticed.
#[test]
fn a_list_that_ends_before_a_loss_is_noticed_is_planned_for_it() {
    let mut scenario = three_regions();
    let times = (0..40).map(|n| Duration::from_millis(100 * n));
    scenario.sources[0].arrivals = Arrivals::Listed(times.collect());
    (scenario.lasts, scenario.warm_up) = (Duration::from_secs(4), Duration::ZERO);
    let losses = Loss::of_regions(&scenario.edges[0]);
    let objective = "errors<1%".parse().unwrap();
    let found =
        plan(&Question { scenario, losses, objective }, NonZero::<u16>::MIN, &mut |_| {}).record;
    assert!(found.met, "{found:?}");
    let counted = found.cases.iter().map(|case| case.outcomes.total());
    assert_eq!(counted.collect::<Vec<_>>(), [40; 4]);
}
