//! Whether a run can be trusted, and whether it met its objective.

use loadline_measure::record::{AgentRecord, LoadModel, LoadRecord};
use loadline_report::millis;

use super::{line, wrapped};

/// How the generator did, and what makes the run invalid.
pub(super) fn validity(page: &mut String, record: &LoadRecord) {
    let generator = &record.generator;
    let sent = match record.model {
        LoadModel::Open { .. } => {
            format!("{:.1} % of the rate sent, ", generator.sent_share * 100.0)
        }
        LoadModel::Closed { .. } => String::new(),
    };
    let (cpu, lag) = (generator.cpu_share * 100.0, millis(record.lag.p99));
    let verdict = if record.is_valid() { "valid" } else { "INVALID" };
    line(page, format_args!("Run     {verdict}: {sent}lag p99 {lag}, CPU {cpu:.0} % of a core"));
    for agent in record.agents.iter().take(MOST_AGENTS) {
        agent_line(page, agent);
    }
    if let Some(more) = record.agents.len().checked_sub(MOST_AGENTS).filter(|more| *more > 0) {
        line(page, format_args!("  and {more} agents more, in the record"));
    }
    for fault in &generator.faults {
        wrapped(page, "  - ", &fault.what);
        wrapped(page, "    change: ", &fault.advice);
    }
}

/// What an agent sent, how late it was, and how far its beginning may have been from the others'.
fn agent_line(page: &mut String, agent: &AgentRecord) {
    let AgentRecord { name, sent, lag, clock_error, .. } = agent;
    let told = match agent.lost {
        Some(_) => "lost".to_owned(),
        None => format!(
            "{sent} sent, lag p99 {}, CPU {:.0} %, begun within {}",
            millis(lag.p99),
            agent.cpu_share * 100.0,
            millis(*clock_error)
        ),
    };
    wrapped(page, &format!("  {name:<20} "), &told);
}

/// Agents that the page has lines for.
const MOST_AGENTS: usize = 8;

/// The criteria of the objective, one by one.
pub(super) fn objective(page: &mut String, record: &LoadRecord) {
    let Some(objective) = &record.objective else { return };
    line(page, format_args!("Objective"));
    for criterion in &objective.criteria {
        let verdict = match criterion.met {
            true => "met",
            false if record.shows_nothing() => "unknown",
            false => "BREACHED",
        };
        let comma = if criterion.confidence.is_empty() { "" } else { "; " };
        let start = format!("  {verdict:<10}{:<17} ", criterion.text);
        let text = format!("{}{comma}{}", criterion.measured, criterion.confidence);
        wrapped(page, &start, &text);
    }
    page.push('\n');
}
