//! Finds rules that never match, since an earlier rule matches all their requests.
//!
//! What is told is certain. Not everything is told: rules that only several others together leave
//! nothing to, expressions that match no more than a different one, and in a long table rules that
//! are covered by none of the first ones with their host and path.

use alloc::{format, string::String, vec::Vec};

use super::{Action, Conditions, Host, Path, Table};

/// A rule that never decides.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Shadowed {
    /// Its place among the rules.
    pub rule: usize,
    /// The place of the earlier rule that matches all that it matches.
    pub by: usize,
}

/// The rules of a table that can never decide, in the order of the file. The table finds the
/// earlier rule too: a rule with a host and a path of its own is compared with few others, and any
/// with so few that ten thousand rules take no time to speak of.
#[must_use]
pub fn lint(table: &Table) -> Vec<Shadowed> {
    let ranked = table.rules();
    let most = COMPARISONS_MAX / ranked.len().max(1);
    let mut found: Vec<_> = (0..ranked.len())
        .filter_map(|rank| {
            let by = shadow(table, rank, most)?;
            Some(Shadowed { rule: ranked[rank].0, by: ranked[by].0 })
        })
        .collect();
    found.sort_unstable_by_key(|warning| warning.rule);
    found
}

/// The first rule that covers the one at `rank`. It has to be where the first host and the first
/// path of that rule lead, among the `most` first ones of each place on the way.
fn shadow(table: &Table, rank: usize, most: usize) -> Option<usize> {
    let conditions = &table.rules()[rank].1.when;
    let host = match conditions.hosts.first() {
        None => String::new(),
        Some(Host::Exact(name)) => name.clone(),
        Some(Host::Under(domain)) => format!("*.{domain}"),
    };
    let path = match conditions.paths.first() {
        None => "",
        Some(Path::Exact(path) | Path::Prefix(path)) => path,
        Some(Path::Regex(regex)) => regex.directory(),
    };
    let mut best = rank;
    table.walk(host.as_bytes(), path.as_bytes(), &mut |entries| {
        let earlier = entries.iter().take(most).take_while(|entry| entry.rank < best);
        let mut covering = earlier.filter(|entry| {
            let rule = table.rules_at(entry);
            rule.when.cover(conditions) && takes_all(&rule.action, conditions)
        });
        if let Some(entry) = covering.next() {
            best = entry.rank;
        }
    });
    (best < rank).then_some(best)
}

/// Whether the action is for every request that meets `conditions`: a redirect is not for one that
/// it leads to where it came.
fn takes_all(action: &Action, conditions: &Conditions) -> bool {
    match action {
        Action::Redirect(redirect) => redirect.always_leads_elsewhere(conditions),
        Action::Service(_) | Action::Respond(_) => true,
    }
}

/// A comparison takes some tens of nanoseconds. In a table of a thousand rules and less, all are
/// compared.
const COMPARISONS_MAX: usize = 1_000_000;
