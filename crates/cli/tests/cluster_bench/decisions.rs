//! How long a request takes at an edge that shares, beside one that shares nothing.

use std::{
    thread::sleep,
    time::{Duration, Instant},
};

use crate::{
    CLIENTS, GROUPS, PERIOD, RATE, clients::Clients, edge::Edge, etcd::Etcd, judge, number, rtts,
    sharing, site, traffic::Server,
};

#[test]
fn a_request_takes_no_longer_at_an_edge_that_shares() {
    let etcd = Etcd::start();
    let servers: Vec<Server> = (0..GROUPS).map(|_| Server::start(Duration::ZERO)).collect();
    let edges = sharing(&etcd, &servers);
    let alone = {
        let servers: Vec<Server> = (0..GROUPS).map(|_| Server::start(Duration::ZERO)).collect();
        let edge = Edge::at(&[], "alone", "", &(site(&servers) + &rtts(0)));
        let cluster = "[cluster]\netcd = []\nname = \"alone\"\nlease = \"2s\"\n\
                       state_dir = \"state\"\n";
        edge.edit(cluster, "");
        edge.start()
    };
    let clients: Vec<Clients> =
        edges.iter().chain([&alone]).map(|edge| Clients::begin(&edge.traffic, CLIENTS)).collect();
    let ask = |nth: usize, rate: u32| clients[nth].change(rate * 1_000 / CLIENTS);
    // What the others want moves, so that shares do.
    let (compared, others) = ([0, 3], [1, 2]);
    compared.into_iter().for_each(|nth| ask(nth, RATE / 2));
    let rounds = number("SECONDS", 60).div_ceil(PERIOD.as_secs()).max(3) as usize;
    let ratios = |quantile: f64, begun: Instant| {
        let took = compared.map(|nth| clients[nth].took(begun, quantile).as_secs_f64());
        took[0] / took[1]
    };
    let mut rounds: Vec<[f64; 2]> = (0..rounds)
        .map(|round| {
            ask(others[round % 2], RATE / 3);
            ask(others[(round + 1) % 2], RATE * 2);
            sleep(Duration::from_secs(1));
            let begun = Instant::now();
            sleep(PERIOD);
            [0.5, 0.99].map(|quantile| ratios(quantile, begun))
        })
        .collect();
    let verdicts = ["median", "p99"].iter().enumerate().map(|(at, what)| {
        rounds.sort_by(|one, other| one[at].total_cmp(&other[at]));
        let spread = [rounds[0], rounds[rounds.len() - 1]].map(|it| it[at]);
        println!("{what} of each round, to an edge alone: {:.2} to {:.2}", spread[0], spread[1]);
        judge(&format!("{what} of a request, to an edge alone"), rounds[rounds.len() / 2][at], 1.1)
    });
    assert!(verdicts.collect::<Vec<_>>().into_iter().all(|passed| passed));
}
