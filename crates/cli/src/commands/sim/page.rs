//! The result of a simulation as a page for a terminal.

use std::fmt::Write as _;

use loadline_measure::record::LoadRecord;
use loadline_report::simulation_tables;
use loadline_sim::Traffic;

use crate::commands::bench;

/// The page of a load test, and below it where requests went.
pub(super) fn write(traffic: &Traffic, record: &LoadRecord) -> String {
    let mut page = bench::page::write(record);
    for table in simulation_tables(record) {
        let _ = write!(page, "\n{}\n{table}", table.caption);
    }
    let simulated = record.simulation.as_ref();
    let (seed, events) = simulated.map_or((0, 0), |it| (it.seed, it.events));
    let edges = traffic.regions.join(", ");
    let _ = writeln!(page, "\nseed {seed}, {events} events, edges in {edges}");
    if let Some(writes) = simulated.and_then(|it| it.store_writes) {
        let _ = writeln!(page, "the edges share all limits: {writes} writes to their store");
    }
    page
}
