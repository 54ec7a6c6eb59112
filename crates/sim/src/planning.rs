//! How many servers each group needs: the fewest with which an objective holds in every case.
//!
//! ```text
//! all groups grown alike until it holds --> each group in turn made smaller, by ever smaller
//! steps, as long as it holds --> proved by runs of other seeds, and with one server less
//! --> made smaller once more, by runs of all seeds, where one less is enough after all
//! ```
//! More servers are taken to be never worse in the search: what held with fewer is not tried with
//! more, and the other way round. Groups become smaller in turn and not one after the other, so
//! that what is to be spare is shared: of three regions, one of which may be lost, each keeps a
//! half of its load in reserve, which costs less than all of it in two.

mod cases;
mod resize;

use std::{num::NonZero, ops::Range};

use loadline_core::fleet::Group;
use loadline_measure::{
    objective::Objective,
    record::{LoadRecord, ObjectiveRecord, PlanRecord, PlannedCase, PlannedGroup, RunCount},
};

pub use cases::Loss;
use cases::{Case, cases};
use resize::{has_use, places, resized, sizes, takes_part, times, without_drained};
pub(crate) use resize::{in_use, limits};

use crate::{Scenario, Simulation, parallel};

/// What is asked.
#[derive(Clone, Debug)]
pub struct Question {
    /// The configuration and the traffic.
    pub scenario: Scenario,
    /// Losses to survive, each alone; a case without any loss is always included.
    pub losses: Vec<Loss>,
    /// What must hold.
    pub objective: Objective,
}

/// What was found.
#[derive(Clone, Debug)]
pub struct Plan {
    /// How many servers are needed where.
    pub record: PlanRecord,
    /// A run of each case with these servers, by its name.
    pub runs: Vec<(String, LoadRecord)>,
}

/// Servers of each group, by service.
type Sizes = Vec<Vec<u32>>;

/// Whether the objective holds with these.
type Verdict<'a> = fn(&mut Search<'a>, &Sizes) -> bool;

/// Finds the sizes, with runs on so many threads; `progress` is told each that is tried, with how
/// many servers it has in all.
pub fn plan(question: &Question, threads: NonZero<u16>, progress: &mut dyn FnMut(u32)) -> Plan {
    let scenario = without_drained(&question.scenario);
    let question = Question { scenario, ..question.clone() };
    let mut search = Search::new(&question, threads, progress);
    let now = search.now.clone();
    let held = search.grow(&now);
    let Some(mut sizes) = held else {
        let sizes = search.as_good_as_most(&now);
        return search.finish(&sizes, false);
    };
    search.trim(&mut sizes, Search::holds);
    let met = search.prove(&mut sizes);
    if met {
        search.shrink(&mut sizes);
    }
    search.finish(&sizes, met)
}

/// A search under way.
struct Search<'a> {
    question: &'a Question,
    cases: Vec<Case>,
    now: Sizes,
    /// What was tried, and whether it held in all cases.
    known: Vec<(Sizes, bool)>,
    /// The case that was breached last, which is tried first.
    worst: usize,
    simulated: u64,
    threads: NonZero<u16>,
    progress: &'a mut dyn FnMut(u32),
}

impl<'a> Search<'a> {
    fn new(
        question: &'a Question,
        threads: NonZero<u16>,
        progress: &'a mut dyn FnMut(u32),
    ) -> Self {
        let (now, cases) = (sizes(&question.scenario), cases(&question.scenario, &question.losses));
        Self { question, cases, now, known: Vec::new(), worst: 0, simulated: 0, threads, progress }
    }

    /// All groups larger by the same factor, the least with which the objective holds; none if it
    /// does not with [`MOST`] times as many.
    fn grow(&mut self, now: &Sizes) -> Option<Sizes> {
        let (mut low, mut high) = (0.0, 1.0);
        while !self.holds(&times(now, high)) {
            if high >= MOST {
                return None;
            }
            (low, high) = (high, high * 2.0);
        }
        for _ in 0..HALVINGS {
            if low > 0.0 {
                let middle = f64::midpoint(low, high);
                let held = self.holds(&times(now, middle));
                *(if held { &mut high } else { &mut low }) = middle;
            }
        }
        Some(times(now, high))
    }

    /// All groups larger by the same factor, the least of doubled ones with which the objective
    /// holds in as many runs of other seeds as with [`MOST`] times as many.
    fn as_good_as_most(&mut self, now: &Sizes) -> Sizes {
        let most = self.proved(&times(now, MOST));
        let mut factor = 1.0;
        while factor < MOST && self.proved(&times(now, factor)) < most {
            factor *= 2.0;
        }
        times(now, factor)
    }

    /// Makes each group smaller in turn, until none can be by a single server.
    fn trim(&mut self, sizes: &mut Sizes, holds: Verdict<'a>) {
        let mut part = 4;
        loop {
            let mut smaller = false;
            for (service, group) in places(sizes) {
                let step = (sizes[service][group] / part).max(1);
                smaller |= self.try_less(sizes, (service, group), step, holds);
            }
            let largest = sizes.iter().flatten().max().copied().unwrap_or(0);
            match (smaller, part > largest) {
                (true, _) => {}
                (false, false) => part *= 2,
                (false, true) => return,
            }
        }
    }

    fn try_less(
        &mut self,
        sizes: &mut Sizes,
        (service, group): (usize, usize),
        step: u32,
        holds: Verdict<'a>,
    ) -> bool {
        if sizes[service][group] <= step {
            return false;
        }
        sizes[service][group] -= step;
        let held = holds(self, sizes);
        if !held {
            sizes[service][group] += step;
        }
        held
    }

    /// Adds servers where runs of other seeds need them, until all of those hold: twice as many
    /// each time that more of them do not. Where many bring nothing, chance decides and not the
    /// servers: what was added in vain is taken back. Whether all hold.
    fn prove(&mut self, sizes: &mut Sizes) -> bool {
        let (before, all) = (sizes.clone(), self.cases.len() as u32 * PROOFS);
        let enough = (before.iter().flatten().sum::<u32>() / 4).max(IN_VAIN);
        let (mut held, mut best) = (self.proved(sizes), before.clone());
        let (mut step, mut in_vain) = (1, 0);
        while held < all && in_vain < enough {
            let Some((more_held, more)) = self.larger(sizes, step) else { break };
            *sizes = more;
            if more_held > held {
                (held, in_vain) = (more_held, 0);
                best.clone_from(sizes);
                continue;
            }
            in_vain += step;
            step *= 2;
        }
        *sizes = best;
        self.take_back(sizes, &before, held);
        held == all
    }

    /// So many servers more in the group with which most runs of other seeds hold.
    fn larger(&mut self, sizes: &Sizes, step: u32) -> Option<(u32, Sizes)> {
        let mut larger = |place: &(usize, usize)| {
            let mut more = sizes.clone();
            more[place.0][place.1] = (more[place.0][place.1] + step).min(Group::SERVERS_MAX);
            (self.proved(&more), more)
        };
        let tried: Vec<_> = places(sizes).iter().map(&mut larger).collect();
        // Of those that are as good the first, which is the nearest.
        tried.into_iter().rev().max_by_key(|(held, _)| *held)
    }

    /// Takes back of what was added what as many runs of other seeds hold without.
    fn take_back(&mut self, sizes: &mut Sizes, before: &Sizes, held: u32) {
        for (service, group) in places(sizes) {
            let (mut low, mut high) = (before[service][group], sizes[service][group]);
            while low < high {
                let middle = low.midpoint(high);
                sizes[service][group] = middle;
                match self.proved(sizes) >= held {
                    true => high = middle,
                    false => low = middle + 1,
                }
            }
            sizes[service][group] = high;
        }
    }

    /// Makes groups smaller that can do with one server less by the proof: by chance the search may
    /// have taken too few for too many. Each size is judged by its own runs here.
    fn shrink(&mut self, sizes: &mut Sizes) {
        if !places(sizes).into_iter().any(|place| self.can_do_with_less(sizes, place)) {
            return;
        }
        self.trim(sizes, Self::holds_with_all_seeds);
        for place in places(sizes) {
            if self.can_do_with_less(sizes, place) {
                self.bisect(sizes, place);
            }
        }
    }

    fn can_do_with_less(&mut self, sizes: &Sizes, (service, group): (usize, usize)) -> bool {
        let mut fewer = sizes.clone();
        fewer[service][group] -= 1;
        fewer[service][group] > 0 && self.all_hold(&fewer, SEEDS..SEEDS + u64::from(PROOFS))
    }

    /// Makes a group smaller, past a size that does not hold by chance.
    fn bisect(&mut self, sizes: &mut Sizes, (service, group): (usize, usize)) {
        let (mut low, mut high) = (0, sizes[service][group]);
        while low + 1 < high {
            let middle = low.midpoint(high);
            sizes[service][group] = middle;
            let held = self.holds_with_all_seeds(sizes);
            *(if held { &mut high } else { &mut low }) = middle;
        }
        sizes[service][group] = high;
    }

    /// In how many runs of other seeds the objective holds.
    fn proved(&mut self, sizes: &Sizes) -> u32 {
        (0..self.cases.len()).map(|case| self.held(sizes, case).runs).sum()
    }

    fn held(&mut self, sizes: &Sizes, case: usize) -> RunCount {
        let runs: Vec<_> = (SEEDS..SEEDS + u64::from(PROOFS)).map(|seed| (case, seed)).collect();
        let held = self.run_until(sizes, &runs, |_| false);
        RunCount {
            runs: held.iter().filter(|(_, judged)| judged.is_met()).count() as u32,
            of: PROOFS,
        }
    }

    /// Whether the objective holds in all cases.
    fn holds(&mut self, sizes: &Sizes) -> bool {
        if let Some(known) = self.concluded(sizes) {
            return known;
        }
        let held = self.all_hold(sizes, 0..SEEDS);
        self.known.push((sizes.clone(), held));
        held
    }

    /// Whether it does with the seeds of the search and of the proof.
    fn holds_with_all_seeds(&mut self, sizes: &Sizes) -> bool {
        if self.known.iter().any(|(known, held)| known == sizes && !held) {
            return false;
        }
        let held = self.all_hold(sizes, 0..SEEDS + u64::from(PROOFS));
        self.known.push((sizes.clone(), held));
        held
    }

    /// Whether it does with these seeds.
    fn all_hold(&mut self, sizes: &Sizes, seeds: Range<u64>) -> bool {
        (self.progress)(sizes.iter().flatten().sum());
        let (cases, worst) = (self.cases.len(), self.worst);
        let in_turn = (0..cases).map(|case| (case + worst) % cases);
        let runs: Vec<_> =
            in_turn.flat_map(|case| seeds.clone().map(move |seed| (case, seed))).collect();
        let judged = self.run_until(sizes, &runs, |judged| !judged.is_met());
        let held = judged.iter().all(|(_, judged)| judged.is_met());
        if !held {
            self.worst = runs[judged.len() - 1].0;
        }
        held
    }

    /// The verdict that follows from sizes tried before, if any.
    fn concluded(&self, sizes: &Sizes) -> Option<bool> {
        let fits = |few: &Sizes, many: &Sizes| {
            few.iter().flatten().zip(many.iter().flatten()).all(|(few, many)| few <= many)
        };
        let follows = |(known, held): &&(Sizes, bool)| match held {
            true => fits(known, sizes),
            false => fits(sizes, known),
        };
        self.known.iter().find(follows).map(|(_, held)| *held)
    }

    /// Runs these cases with these seeds, in this order, up to the first that is `last`.
    fn run_until(
        &mut self,
        sizes: &Sizes,
        runs: &[(usize, u64)],
        last: impl Fn(&ObjectiveRecord) -> bool,
    ) -> Vec<(LoadRecord, ObjectiveRecord)> {
        let (cases, now, objective) = (&self.cases, &self.now, &self.question.objective);
        let run = |at: usize| {
            let (case, seed) = runs[at];
            let mut scenario = resized(&cases[case].scenario, now, sizes);
            scenario.seed = scenario.seed.wrapping_add(seed);
            let record = Simulation::new(scenario).run();
            let judged = objective.judge(&record);
            (record, judged)
        };
        let all = parallel::map_until(self.threads, runs.len(), run, |(_, judged)| last(judged));
        self.simulated += all.iter().map(|(record, _)| record.planned).sum::<u64>();
        all
    }

    fn finish(mut self, sizes: &Sizes, met: bool) -> Plan {
        let tried = self.known.len() as u64;
        let (mut cases, mut runs) = (Vec::new(), Vec::new());
        let first: Vec<_> = (0..self.cases.len()).map(|case| (case, 0)).collect();
        for (index, (record, judged)) in
            self.run_until(sizes, &first, |_| false).into_iter().enumerate()
        {
            let name = self.cases[index].name.clone();
            cases.push(PlannedCase {
                name: name.clone(),
                held: self.held(sizes, index),
                response: record.response.clone(),
                outcomes: record.outcomes,
                measured: judged.criteria.iter().map(|it| it.measured.clone()).collect(),
            });
            runs.push((name, LoadRecord { objective: Some(judged), ..record }));
        }
        let groups = places(sizes);
        let groups = groups.iter().map(|place| self.planned(sizes, *place, &runs, met)).collect();
        let objective = self.question.objective.to_string();
        let simulated = self.simulated;
        Plan { record: PlanRecord { objective, met, groups, cases, tried, simulated }, runs }
    }

    fn planned(
        &mut self,
        sizes: &Sizes,
        (service, group): (usize, usize),
        runs: &[(String, LoadRecord)],
        met: bool,
    ) -> PlannedGroup {
        let scenario = resized(&self.question.scenario, &self.now, sizes);
        let of = &scenario.edges[0].services[service];
        let servers = sizes[service][group];
        let (load_per_s, load_in) = most_given(runs, &of.name, &of.groups[group].name);
        let mut fewer = sizes.clone();
        fewer[service][group] = servers - 1;
        let breached = |held: u32| RunCount { runs: PROOFS - held, of: PROOFS };
        // In the case in which it is breached most.
        let fewest = |search: &mut Self| {
            let cases = 0..search.cases.len();
            cases.map(|case| search.held(&fewer, case).runs).min().unwrap_or(PROOFS)
        };
        let (max_rate_per_s, max_in_flight) = limits(&of.groups[group]);
        PlannedGroup {
            service: of.name.clone(),
            name: of.groups[group].name.clone(),
            region: of.groups[group].region.clone(),
            servers_now: self.now[service][group],
            servers,
            max_rate_per_s,
            max_in_flight,
            load_per_s,
            load_in,
            breached_with_one_less: (met && servers > 1).then(|| breached(fewest(self))),
        }
    }
}

/// The most that a group is given in any case, in requests per second, and the case.
fn most_given(runs: &[(String, LoadRecord)], service: &str, group: &str) -> (f64, String) {
    let given = runs.iter().filter_map(|(case, run)| {
        let groups = &run.simulation.as_ref()?.groups;
        let found = groups.iter().find(|it| it.service == service && it.name == group)?;
        Some((found.requests as f64 / run.elapsed.as_secs_f64(), case))
    });
    let most = given.max_by(|(one, _), (other, _)| one.total_cmp(other));
    most.map_or((0.0, String::new()), |(rate, case)| (rate, case.clone()))
}

/// What does not hold with so many times the servers, no number of servers helps.
const MOST: f64 = 64.0;

/// Leaves an eighth of the factor to the steps of each group.
const HALVINGS: u32 = 3;

/// Runs of each case while sizes are searched.
const SEEDS: u64 = 2;

/// Runs of each case that prove what was found.
const PROOFS: u32 = 5;

/// What other seeds need is a server or two more; where so many, and a quarter of all, bring
/// nothing, more would not either.
const IN_VAIN: u32 = 15;
