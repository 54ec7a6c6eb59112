//! Which policy is best for some traffic, and why.

use loadline_measure::record::{RankedPolicy, RankingRecord};

use super::{part, picture, text};
use crate::{
    figures::{digits, percent_to_tenths},
    page::{Block, Section},
    plot::{PlotError, ranks::Ranks},
    table::{Align, Table},
};

pub(super) fn section(name: &str, ranking: &RankingRecord) -> Result<Section, PlotError> {
    let blocks = vec![
        text(ranking.reason.clone()),
        picture(ranks(ranking).draw()?),
        Block::Table(ranking_table(ranking)),
    ];
    Ok(part(format!("{name}: policies"), blocks))
}

/// The policies in their order, with what was measured of each.
#[must_use]
pub fn ranking_table(ranking: &RankingRecord) -> Table {
    let headings = [
        "policy", "place", "p50 ms", "p99 ms", "± ms", "times the first", "failed", "found busy",
        "to slow", "busiest", "met",
    ];
    let judged = ranking.objective.is_some();
    let shown = headings.len() - usize::from(!judged);
    let caption = format!("Policies on the same requests, means of {} seeds", ranking.seeds);
    let mut table = Table::new(&caption, &headings[..shown]);
    table.columns[5].align = Align::Left;
    for (place, policy) in (1..).zip(&ranking.policies) {
        let configured = ranking.configured.contains(&policy.policy);
        let name = format!("{}{}", policy.policy, if configured { " *" } else { "" });
        let number = |value: Option<f64>| value.map_or("-".to_owned(), digits);
        let reach = policy.p99_interval.map(|it| (it.high - it.low) / 2.0);
        let met = policy.met.map_or(String::new(), |met| format!("{}/{}", met.runs, met.of));
        let cells = [
            name,
            place.to_string(),
            number(policy.p50_ms),
            number(policy.p99_ms),
            number(reach),
            times(policy, place == 1),
            percent_to_tenths(policy.failed),
            percent_to_tenths(policy.found_busy),
            percent_to_tenths(policy.to_slow),
            format!("{:.2}", policy.imbalance),
            met,
        ];
        table.push(cells.into_iter().take(shown).map(Into::into));
    }
    table
}

fn times(policy: &RankedPolicy, is_first: bool) -> String {
    match policy.times_the_first {
        _ if is_first => "1".to_owned(),
        Some(times) => format!("{:.2} to {:.2}", times.low, times.high),
        None => "-".to_owned(),
    }
}

fn ranks(ranking: &RankingRecord) -> Ranks {
    let bar = |policy: &RankedPolicy| Some((policy.p99_ms?, policy.p99_interval?));
    Ranks {
        title: "p99 by policy, with 95 % confidence".to_owned(),
        description: ranking.reason.clone(),
        quantity: "p99, ms".to_owned(),
        each: "policy, by its place in the table".to_owned(),
        bars: ranking.policies.iter().map(bar).collect(),
        alike: ranking.alike as usize,
    }
}
