//! The edges and their store, as text.

use std::{
    fmt::Write as _,
    time::{SystemTime, UNIX_EPOCH},
};

use loadline_control::{
    acme::CertificateInfo,
    cluster::{EdgeEntry, EdgeInfo, Overview, SharedGroupInfo, SharedServiceInfo},
};

use crate::commands::size;

/// All that is known.
pub(super) fn page(it: &Overview) -> String {
    let mut text = format!(
        "store: {}, etcd {}, {}{}\n",
        it.endpoint,
        it.etcd,
        size(it.bytes as f64),
        if it.has_leader { "" } else { ", without a leader" },
    );
    for alarm in &it.alarms {
        let _ = writeln!(text, "alarm: {alarm}");
    }
    let current = it.current.map_or("none".to_owned(), |version| format!("version {version}"));
    let _ = writeln!(
        text,
        "cluster: {}, published: {current}, elected: {}\n",
        it.cluster.as_deref().unwrap_or("none yet"),
        elected(it),
    );
    let width = it.edges.iter().map(|edge| edge.name.len()).max().unwrap_or(0).max(4);
    let row = |name: &str, region: &str, release: &str, lease: &str, runs: &str| {
        format!("{name:<width$}  {region:<16} {release:>8} {lease:>6}  {runs}\n")
    };
    if !it.edges.is_empty() {
        text += &row("edge", "region", "loadline", "lease", "runs");
    }
    for EdgeInfo { name, member, lease_s } in &it.edges {
        let (lease, runs) = (format!("{lease_s}s"), runs(it, member));
        text += &row(name, &member.region, &member.release, &lease, &runs);
        if let Some(refused) = &member.refused {
            let _ = writeln!(text, "  refused version {}: {}", refused.version, refused.reason);
        }
    }
    if it.edges.is_empty() {
        text += "no edges\n";
    }
    text += &shared(&it.shared);
    text += &certificates(&it.certificates);
    text += "\n";
    for version in it.versions.iter().rev() {
        let mark = if it.current == Some(version.version) { "*" } else { " " };
        let _ = writeln!(
            text,
            "{mark} version {}, {}, published by {}",
            version.version,
            size(version.bytes as f64),
            version.by
        );
    }
    for value in &it.unreadable {
        let _ = writeln!(text, "unreadable: {value}");
    }
    text
}

/// Who divides the capacity that is shared.
fn elected(it: &Overview) -> &str {
    match &it.elected {
        Some(name) => name,
        None if it.shared.is_empty() => "none needed (no capacity is shared)",
        None => "nobody",
    }
}

/// Who may use how much.
fn shared(services: &[SharedServiceInfo]) -> String {
    let mut text = String::new();
    for SharedServiceInfo { name: service, demand, groups } in services {
        let demand = demand.iter().map(|(edge, demand)| format!("{edge} {demand:.0}/s"));
        let demand: Vec<String> = demand.collect();
        let _ = writeln!(text, "\n{service}: asked for {}", demand.join(", "));
        for SharedGroupInfo { name, shares, floors, free } in groups {
            let percent = |(name, part): (&str, f64)| format!("{name} {:.1} %", part * 100.0);
            let shares = shares.iter().map(|(edge, part)| percent((edge, *part)));
            let rest = [("free", *free), ("floors", *floors)].map(percent);
            let parts: Vec<String> = shares.chain(rest).collect();
            let _ = writeln!(text, "  {name}: {}", parts.join(", "));
        }
    }
    text
}

/// Certificates by ACME: who asked for them, and who does now.
fn certificates(all: &[CertificateInfo]) -> String {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_secs();
    let ago = |at_s: u64| duration(now.saturating_sub(at_s));
    let mut text = String::new();
    if !all.is_empty() {
        text += "\ncertificates by ACME\n";
    }
    for it in all {
        let by = it.issued_by.as_deref().unwrap_or("somebody");
        let issued = match it.issued_s {
            0 => "none yet".to_owned(),
            at_s => format!("issued {} ago by {by}", ago(at_s)),
        };
        let asking = it.asking.as_ref();
        let asking = asking.map(|it| format!(", {} asks since {}", it.edge, ago(it.since_s)));
        let _ = writeln!(text, "  {}: {issued}{}", it.name, asking.unwrap_or_default());
    }
    text
}

/// In the largest unit that it has one of.
fn duration(seconds: u64) -> String {
    match seconds {
        ..120 => format!("{seconds} s"),
        120..7200 => format!("{} min", seconds / 60),
        7200..172_800 => format!("{} h", seconds / 3600),
        _ => format!("{} days", seconds / 86_400),
    }
}

/// What became of a version.
pub(super) fn outcome(it: &Overview, version: u64) -> String {
    let superseded = it.superseded(version).map(|now| format!("superseded by version {now}"));
    let mut text = String::new();
    for EdgeInfo { name, member, .. } in &it.edges {
        let _ = match it.refusal_by(member, version) {
            _ if it.is_run_by(member, version) => writeln!(text, "{name}: runs it"),
            Some(refused) => writeln!(text, "{name}: refused it: {}", refused.reason),
            None => {
                let reason = superseded.as_deref().unwrap_or("has not answered");
                writeln!(text, "{name}: {reason}, {}", runs(it, member))
            }
        };
    }
    if it.edges.is_empty() {
        text += "no edges yet: whoever joins begins with it\n";
    }
    text
}

/// What an edge runs. Before the store lost its data another text may have had the number.
fn runs(it: &Overview, member: &EdgeEntry) -> String {
    match member.configuration {
        0 => "its own file".to_owned(),
        version if it.is_run_by(member, version) => format!("version {version}"),
        version => format!("another version {version}"),
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;

    #[test]
    fn a_cluster_that_shares_no_capacity_needs_no_elected_edge() {
        let told = |it: &Overview| page(it).lines().nth(1).unwrap_or_default().to_owned();
        let mut overview = Overview::default();
        assert!(told(&overview).ends_with("elected: none needed (no capacity is shared)"));
        let (demand, groups) = (BTreeMap::new(), Vec::new());
        overview.shared = vec![SharedServiceInfo { name: "web".into(), demand, groups }];
        assert!(told(&overview).ends_with("elected: nobody"));
        overview.elected = Some("edge-1".into());
        assert!(told(&overview).ends_with("elected: edge-1"));
    }
}
