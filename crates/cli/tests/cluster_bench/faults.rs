//! What faults of the store and of edges cost: each in turn, then at random.

use std::{
    thread::sleep,
    time::{Duration, Instant},
};

use crate::{
    BURST, CLIENTS, GROUPS, RATE, RTTS_MS, TO_MEMBERS_MS,
    clients::Clients,
    edge::Edge,
    etcd::free_port,
    judge,
    members::Members,
    number,
    relay::{Cut, relay},
    rtts, site,
    traffic::Server,
};

#[test]
fn faults_give_no_group_more_than_its_capacity() {
    let worst = run("floor");
    let most = f64::from(RATE + BURST) + RTTS_MS.len() as f64;
    let verdicts = [
        judge("floor: most requests in any second at a group", worst.busiest as f64, most),
        worst.judged("floor"),
    ];
    assert!(verdicts.into_iter().all(|passed| passed));
}

#[test]
fn faults_refuse_nobody_where_edges_keep_their_shares() {
    let worst = run("keep");
    // What the edges that are away had, once more.
    let most = f64::from(2 * (RATE + BURST)) + RTTS_MS.len() as f64;
    let verdicts = [
        judge("keep: most requests in any second at a group", worst.busiest as f64, most),
        judge("keep: refused by edges that run, %", worst.counts.refused_percent(), 1.0),
        worst.judged("keep"),
    ];
    assert!(verdicts.into_iter().all(|passed| passed));
}

/// Each fault in turn, then at random (`SEED`), for `FAULT_SECONDS`.
fn run(when_away: &str) -> Worst {
    let mut random = number("SEED", 1);
    let mut cluster = Cluster::start(when_away);
    let (begun, before_all) = (Instant::now(), cluster.counts());
    let seconds = Duration::from_secs(number("FAULT_SECONDS", 180));
    let mut worst = Worst::default();
    let in_turn = Fault::ALL.into_iter();
    let at_random = std::iter::repeat_with(move || {
        random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        Fault::ALL[(random >> 33) as usize % Fault::ALL.len()]
    });
    for fault in in_turn.chain(at_random).take_while(|_| begun.elapsed() < seconds) {
        let before = cluster.counts();
        let converged = cluster.suffer(fault);
        sleep(QUIET);
        let after = cluster.counts();
        let refused = after.since(before).refused_percent();
        println!("{when_away}, {fault:?}: converged after {converged:.2?}, {refused:.1} % refused");
        worst.late.push(converged);
    }
    worst.counts = cluster.counts().since(before_all);
    worst.lost = cluster.lost;
    worst.busiest =
        cluster.servers.iter().map(|server| server.busiest_second(begun)).max().unwrap_or(0);
    worst
}

/// What a run came to.
#[derive(Default)]
struct Worst {
    /// From the end of each event to the last that is as it should be, less the lease of one lost.
    late: Vec<Duration>,
    counts: Counts,
    /// Requests of clients whose edge was killed.
    lost: usize,
    busiest: usize,
}

impl Worst {
    /// What is the same whatever edges do without their store.
    fn judged(&self, when_away: &str) -> bool {
        let late = self.late.iter().max().copied().unwrap_or_default().as_secs_f64();
        println!("{when_away}: {} requests, {} lost with their edge", self.counts.asked, self.lost);
        let failed = (self.counts.failed - self.lost) as f64;
        let verdicts = [
            judge(&format!("{when_away}: requests that failed at edges that run"), failed, 0.0),
            judge(&format!("{when_away}: seconds from an event to the last edge"), late, 2.0),
        ];
        verdicts.into_iter().all(|passed| passed)
    }
}

#[derive(Clone, Copy, Debug)]
enum Fault {
    StoreAway,
    LeaderKilled,
    EdgeKilled,
    ElectedKilled,
    RegionCut,
}

impl Fault {
    const ALL: [Self; 5] = [
        Self::StoreAway,
        Self::LeaderKilled,
        Self::EdgeKilled,
        Self::ElectedKilled,
        Self::RegionCut,
    ];
}

/// Of all clients.
#[derive(Clone, Copy, Default)]
struct Counts {
    asked: usize,
    refused: usize,
    failed: usize,
}

impl Counts {
    fn since(self, before: Self) -> Self {
        Self {
            asked: self.asked - before.asked,
            refused: self.refused - before.refused,
            failed: self.failed - before.failed,
        }
    }

    fn refused_percent(self) -> f64 {
        100.0 * self.refused as f64 / self.asked.max(1) as f64
    }
}

/// Three edges with their clients, their store, and the ways between them.
struct Cluster {
    members: Members,
    servers: Vec<Server>,
    edges: Vec<Edge>,
    cuts: Vec<Cut>,
    demands: Vec<Clients>,
    lost: usize,
}

impl Cluster {
    fn start(when_away: &str) -> Self {
        let members = Members::start();
        let servers: Vec<Server> = (0..GROUPS).map(|_| Server::start(Duration::ZERO)).collect();
        let web = site(&servers);
        let cuts: Vec<Cut> = RTTS_MS.iter().map(|_| Cut::default()).collect();
        let edge = |(nth, cut): (usize, &Cut)| {
            let ways = members.addresses().zip(TO_MEMBERS_MS[nth]);
            let ways = ways.map(|(member, rtt)| relay(member, Duration::from_millis(rtt), cut));
            let urls: Vec<String> = ways.map(|way| format!("http://{way}")).collect();
            let cluster = format!("floor = \"1%\"\nmax_edges = 3\nwhen_away = {when_away:?}");
            let edge =
                Edge::at(&urls, &format!("edge-{nth}"), &cluster, &(web.clone() + &rtts(nth)));
            // Clients find it where it was; and the lease is that of everybody.
            edge.edit("lease = \"2s\"\n", "");
            edge.edit("127.0.0.1:0\"\nservice", &format!("127.0.0.1:{}\"\nservice", free_port()));
            edge.start()
        };
        let edges: Vec<Edge> = cuts.iter().enumerate().map(edge).collect();
        let demands: Vec<Clients> =
            edges.iter().map(|edge| Clients::begin(&edge.traffic, CLIENTS)).collect();
        let cluster = Self { members, servers, edges, cuts, demands, lost: 0 };
        let each = LOAD * f64::from(RATE * GROUPS) / RTTS_MS.len() as f64;
        for demand in &cluster.demands {
            demand.change((each * 1e3 / f64::from(CLIENTS)) as u32);
        }
        cluster.until_agreed(&ALL);
        sleep(QUIET);
        cluster
    }

    fn counts(&self) -> Counts {
        self.counts_of(&ALL)
    }

    /// Of the clients of these edges.
    fn counts_of(&self, edges: &[usize]) -> Counts {
        let demands = || edges.iter().map(|nth| &self.demands[*nth]);
        let failed = demands().map(|it| it.failed() as usize).sum();
        let counts = demands().map(Clients::counts);
        let (given, others) = counts.fold((0, 0), |sum, it| (sum.0 + it.0, sum.1 + it.1));
        Counts { asked: given + others, refused: others - failed, failed }
    }

    /// How long after the event all were as they should be, at most.
    fn suffer(&mut self, fault: Fault) -> Duration {
        match fault {
            Fault::StoreAway => {
                self.members.kill_all();
                sleep(AWAY);
                self.members.begin_all();
                self.until_agreed(&ALL)
            }
            Fault::LeaderKilled => {
                let leader = self.members.until_led();
                self.members.kill(leader);
                self.members.until_led();
                let converged = self.until_agreed(&ALL);
                self.members.begin(leader);
                converged
            }
            Fault::EdgeKilled => self.kill(false),
            Fault::ElectedKilled => self.kill(true),
            Fault::RegionCut => {
                self.cuts[0].cut();
                let without = self.until_agreed(&[1, 2]).saturating_sub(LEASE);
                sleep(DOWN);
                self.cuts[0].join();
                without.max(self.until_agreed(&ALL))
            }
        }
    }

    fn kill(&mut self, elected: bool) -> Duration {
        let is_elected = |edge: &Edge| edge.cluster()["sharing"]["elected"] == true;
        let nth = self.edges.iter().position(|it| is_elected(it) == elected).unwrap();
        let others: Vec<usize> = (0..self.edges.len()).filter(|other| *other != nth).collect();
        let failed = self.demands[nth].failed();
        self.edges[nth].kill();
        let without = self.until_agreed(&others).saturating_sub(LEASE);
        self.edges[nth].begin();
        let lost = self.demands[nth].failed() - failed;
        self.lost += lost as usize;
        without.max(self.until_agreed(&ALL))
    }

    /// Waits until these edges, and no others, share, one of them elected, and refuse nobody; how
    /// long that took.
    fn until_agreed(&self, edges: &[usize]) -> Duration {
        let begun = Instant::now();
        loop {
            let told: Vec<_> =
                edges.iter().map(|nth| self.edges[*nth].cluster()["sharing"].take()).collect();
            let shares =
                |it: &serde_json::Value| it["leased"] == true && it["edges"] == edges.len();
            let elected = told.iter().filter(|it| it["elected"] == true).count();
            let agreed = begun.elapsed();
            if told.iter().all(shares) && elected == 1 && self.refuse_nobody(edges) {
                return agreed;
            }
            assert!(agreed < PATIENCE, "{told:?}");
        }
    }

    /// Whether in the next moment all but what is within chance is given.
    fn refuse_nobody(&self, edges: &[usize]) -> bool {
        let before = self.counts_of(edges);
        sleep(MOMENT);
        self.counts_of(edges).since(before).refused_percent() <= 1.0
    }
}

/// Every edge.
const ALL: [usize; RTTS_MS.len()] = [0, 1, 2];

/// What clients want of all there is: what is left does without an edge.
const LOAD: f64 = 0.6;

/// How long the store is away, and how long a region that is cut off stays so.
const AWAY: Duration = Duration::from_secs(60);
const DOWN: Duration = Duration::from_secs(10);

/// For so long nobody may be refused before edges are as they should be.
const MOMENT: Duration = Duration::from_millis(250);

/// After an event, until the next.
const QUIET: Duration = Duration::from_secs(5);

/// Of an edge, if nothing is written; etcd looks for those that have ended twice a second.
const LEASE: Duration = Duration::from_millis(10_500);

const PATIENCE: Duration = Duration::from_secs(60);
