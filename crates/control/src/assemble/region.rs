//! Regions: that of the edge, and the distances to the others.

use std::collections::{BTreeMap, BTreeSet};

use loadline_core::time::Duration;
use loadline_spanned::{At, Key, Named, Problems, Span, Text};

use crate::{
    file::{File, Region},
    suggest,
    value::{
        label::{NAME_RULE, Name, is_name},
        quantity::TimeOrOff,
    },
};

/// The regions of a file, seen from its edge.
pub(super) struct Regions {
    here: String,
    /// It is the one that the groups name, and no key of the edge: it may be a slip.
    is_of_groups: bool,
    /// Names the file introduces; none where it has no `[regions]`.
    known: BTreeSet<String>,
    /// By the two names in the order of the alphabet.
    distances: BTreeMap<(String, String), Duration>,
    /// The names cannot be judged: something of them could not be read.
    unsure: bool,
}

impl Regions {
    /// Reads `[edge] region`, `[regions]` and what the groups say.
    pub(super) fn new(root: &At<File>, seen_from: Option<&str>, problems: &mut Problems) -> Self {
        let file = &root.value;
        let is_told = seen_from.is_some() || file.edge.get().is_some_and(|it| it.region.given());
        let here = seen_from.map(str::to_owned).or_else(|| here(root, problems));
        let mut regions = Self {
            here: here.clone().unwrap_or_else(|| LOCAL.to_owned()),
            is_of_groups: !is_told && regions_of_groups(file).any(Key::given),
            known: BTreeSet::new(),
            distances: BTreeMap::new(),
            unsure: here.is_none(),
        };
        if let Some(table) = file.regions.at() {
            regions.unsure |= problems.is_damaged(&table.span);
            for (name, region) in table.value.iter() {
                regions.add(name, region, problems);
            }
            regions.check_distances(&table.value, problems);
        }
        if let Some(region) = file.edge.get().and_then(|edge| edge.region.at()) {
            regions.check_here(region, file, problems);
        }
        regions
    }

    /// The region of the edge.
    pub(super) fn here(&self) -> &str {
        &self.here
    }

    /// The round-trip time from here, where the file gives it; zero to the region itself.
    pub(super) fn distance(&self, to: &str) -> Option<Duration> {
        let given = self.distances.get(&pair(&self.here, to)).copied();
        if to == self.here { given.or(Some(Duration::ZERO)) } else { given }
    }

    /// The distance of a group, which has to be given unless health checks can measure it.
    pub(super) fn distance_of_group(
        &self,
        region: &str,
        place: &Span,
        measured: bool,
        problems: &mut Problems,
    ) -> Option<Duration> {
        if self.unsure {
            return None;
        }
        let strange = !self.known.is_empty() && !self.known.contains(region);
        if strange && (region != self.here || self.is_of_groups) {
            let help = self.known_regions(region, problems);
            problems.error(place, format!("unknown region `{region}`"), "this region", help);
            return None;
        }
        let distance = self.distance(region);
        if distance.is_none() && !measured {
            let here = &self.here;
            let message = format!("no distance from `{here}` to `{region}`");
            let help = format!(
                "give it: [regions.\"{region}\"] rtt = {{ \"{here}\" = \"110ms\" }}; or `rtt` in \
                 the group; or a `health` check of the service, which measures it"
            );
            problems.error(place, message, "how far is this?", help);
        }
        distance
    }

    fn add(&mut self, name: &At<String>, region: &At<Region>, problems: &mut Problems) {
        if !is_name(&name.value) {
            let message = format!("`{}` is not a name", name.value);
            problems.error(&name.span, message, "this region", NAME_RULE.to_owned());
        }
        self.known.insert(name.value.clone());
        self.unsure |= problems.is_damaged(&region.span);
        let Some(others) = region.value.rtt.at() else { return };
        self.unsure |= problems.is_damaged(&others.span);
        self.add_distances(&name.value, &others.value, problems);
    }

    /// Warns of a region without a distance to this one that names a similar region.
    fn check_distances(&self, table: &Named<Region>, problems: &mut Problems) {
        if self.unsure {
            return;
        }
        let without = table.iter().filter(|(name, _)| self.distance(&name.value).is_none());
        for (name, region) in without {
            let rtt = region.value.rtt.get().into_iter().flat_map(Named::iter);
            let typed: Vec<&At<String>> = rtt.map(|(other, _)| other).collect();
            let names: Vec<&str> = typed.iter().map(|it| it.value.as_str()).collect();
            let nearest = loadline_spanned::nearest(&self.here, &names);
            let Some(place) = typed.iter().find(|it| Some(it.value.as_str()) == nearest) else {
                continue;
            };
            let message = format!("no distance from `{}` to `{}`", self.here, name.value);
            let help = format!("did you mean `{}`, the region of the edge?", self.here);
            problems.warning(&place.span, message, "this region", help);
        }
    }

    fn add_distances(&mut self, from: &str, to: &Named<TimeOrOff>, problems: &mut Problems) {
        for (other, rtt) in to.iter() {
            let rtt_given = rtt.value.0.0;
            self.known.insert(other.value.clone());
            let before = self.distances.insert(pair(from, &other.value), rtt_given);
            if let Some(before) = before.filter(|before| *before != rtt_given) {
                let other = &other.value;
                let message = format!("`{from}` and `{other}` are {before} apart elsewhere");
                let help = "give a distance once; it holds both ways".to_owned();
                problems.error(&rtt.span, message, "another distance", help);
            }
        }
    }

    /// The region of the edge is one that `[regions]` or a group names.
    fn check_here(&mut self, region: &At<Text<Name>>, file: &File, problems: &mut Problems) {
        let name = &region.value.0.0;
        let mut of_groups = regions_of_groups(file).filter_map(Key::get);
        let named = self.known.contains(name) || of_groups.any(|region| region.0.0 == *name);
        if self.known.is_empty() || named || self.unsure {
            return;
        }
        let help = self.known_regions(name, problems);
        problems.error(&region.span, format!("unknown region `{name}`"), "this region", help);
        self.unsure = true;
    }

    fn known_regions(&self, typed: &str, problems: &Problems) -> String {
        let mut names: Vec<&str> = self.known.iter().map(String::as_str).collect();
        if !self.known.contains(&self.here) && typed != self.here {
            names.push(&self.here);
        }
        suggest::known_among(problems, typed, &names)
    }
}

/// The regions that `[regions]` names, in the order of the alphabet.
pub(crate) fn names(file: &File) -> Vec<String> {
    let mut names = BTreeSet::new();
    for (name, region) in file.regions.get().into_iter().flat_map(Named::iter) {
        names.insert(name.value.clone());
        let others = region.value.rtt.get().into_iter().flat_map(Named::iter);
        names.extend(others.map(|(other, _)| other.value.clone()));
    }
    names.into_iter().collect()
}

/// The region of the edge: its own key, or the one region of all groups. None if neither is
/// certain.
fn here(root: &At<File>, problems: &mut Problems) -> Option<String> {
    let file = &root.value;
    if let Some(region) = file.edge.get().and_then(|edge| edge.region.get()) {
        return Some(region.0.0.clone());
    }
    let edge_is_damaged = file.edge.at().is_some_and(|edge| problems.is_damaged(&edge.span));
    if edge_is_damaged || problems.is_damaged(&root.span) {
        return None;
    }
    let named: BTreeMap<&str, &At<Text<Name>>> = regions_of_groups(file)
        .filter_map(Key::at)
        .map(|region| (region.value.0.0.as_str(), region))
        .collect();
    let mut named: Vec<_> = named.into_iter().collect();
    named.sort_by_key(|(_, at)| at.span.start);
    let [(first, _), (second, place), ..] = named.as_slice() else {
        return Some(named.first().map_or(LOCAL, |(name, _)| name).to_owned());
    };
    let message = format!("groups are in `{first}` and in `{second}`: which is near?");
    let help = format!("say where this process is: [edge] region = \"{first}\"");
    problems.error(&place.span, message, "the second region", help);
    None
}

fn regions_of_groups(file: &File) -> impl Iterator<Item = &Key<Text<Name>>> {
    let services = file.service.get().into_iter().flat_map(Named::iter);
    let groups = services.filter_map(|(_, service)| service.value.group.get()).flatten();
    groups.map(|group| &group.value.region)
}

fn pair(a: &str, b: &str) -> (String, String) {
    let (first, second) = if a <= b { (a, b) } else { (b, a) };
    (first.to_owned(), second.to_owned())
}

/// The name of the only region where nobody named it.
const LOCAL: &str = "local";
