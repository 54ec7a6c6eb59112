//! What an object of 1 kB takes in memory once it is cached.
//!
//! A thousand objects warm a cache up; then it is given many more, each fetched twice, since
//! Traffic Server keeps in memory what was asked for again. By how much its memory has grown, over
//! the objects, is what each takes. That they are there is shown by asking for some of them when
//! their server is gone.

use std::thread;
use std::time::Duration;

use anyhow::Result;
use serde_json::json;

use super::client::Client;
use super::server::Cache;
use crate::cost;
use crate::peers::Workshop;
use crate::process::free_ports;
use crate::run::Section;
use crate::verdict::{Target, Verdict};

/// Measures every cache, one after another.
pub(super) fn measure(caches: &[Cache], workshop: &Workshop, section: &mut Section) -> Result<()> {
    println!("\ncache, memory: {OBJECTS} objects of 1 kB\n{COLUMNS}");
    let mut rows = Vec::new();
    for cache in caches {
        let row = grow(*cache, workshop)?;
        let (each, megabytes) = (row.each(), |bytes| bytes as f64 / 1e6);
        println!(
            "{:9}{each:>12.0}{:>12.1}{:>12.1}{:>12}",
            cache.name(),
            megabytes(row.before),
            megabytes(row.after),
            row.there
        );
        rows.push((*cache, row));
    }
    judge(&rows).into_iter().for_each(|verdict| section.judge(verdict));
    let figures = rows.iter().map(|(cache, row)| {
        json!({ "proxy": cache.name(), "before": row.before, "after": row.after,
                "objects": OBJECTS, "of_sample_there": row.there })
    });
    section.record(NAME, figures.collect());
    Ok(())
}

/// The memory of one cache in bytes.
struct Row {
    before: u64,
    after: u64,
    /// How many of a sample were answered without their server.
    there: u32,
}

impl Row {
    fn each(&self) -> f64 {
        self.after.saturating_sub(self.before) as f64 / f64::from(OBJECTS)
    }
}

/// Of nobody who has lost objects, since what is not there takes nothing.
fn judge(rows: &[(Cache, Row)]) -> Option<Verdict> {
    let (_, ours) = rows.iter().find(|(cache, _)| *cache == Cache::Loadline)?;
    let whole = rows.iter().filter(|(cache, row)| *cache != Cache::Loadline && row.there == SAMPLE);
    let least = whole.min_by(|a, b| a.1.each().total_cmp(&b.1.each()));
    let Some((peer, theirs)) = least else {
        let flaw = Some("no peer has kept all objects".to_owned());
        return Some(Verdict::new(LABEL, f64::NAN, Target::AtMost(AT_MOST)).flaw(flaw));
    };
    let lost = (ours.there < SAMPLE).then(|| format!("{} of {SAMPLE} were there", ours.there));
    let name = format!("{LABEL}, to {}", peer.name());
    Some(Verdict::new(name, ours.each() / theirs.each(), Target::AtMost(AT_MOST)).flaw(lost))
}

fn grow(cache: Cache, workshop: &Workshop) -> Result<Row> {
    let servers: [u16; 4] = free_ports()?;
    let backend = cost::start_backend_with(&["--cacheable"], &servers, &workshop.directory)?;
    let running = cache.start(workshop, servers[0])?;
    let port = running.contender.port;
    fetch_all(port, OBJECTS..OBJECTS + WARM)?;
    thread::sleep(REST);
    let before = running.memory()?;
    for _ in 0..2 {
        fetch_all(port, 0..OBJECTS)?;
    }
    thread::sleep(REST);
    let after = running.memory()?;
    drop(backend);
    let sample = (0..SAMPLE).map(|index| index * (OBJECTS / SAMPLE));
    let there = sample.filter(|object| fetch_one(port, *object).is_ok()).count() as u32;
    Ok(Row { before, after, there })
}

/// Fetches objects over a few connections at a time.
fn fetch_all(port: u16, objects: std::ops::Range<u32>) -> Result<()> {
    thread::scope(|scope| {
        let threads: Vec<_> = (0..AT_A_TIME)
            .map(|first| {
                let objects = objects.clone().skip(first).step_by(AT_A_TIME);
                scope.spawn(move || {
                    let mut client = Client::connect(port)?;
                    objects.into_iter().try_for_each(|object| client.fetch(object.into()))
                })
            })
            .collect();
        threads.into_iter().try_for_each(|one| one.join().expect("a client does not panic"))
    })
}

fn fetch_one(port: u16, object: u32) -> Result<()> {
    Client::connect(port)?.fetch(object.into())
}

pub(super) const NAME: &str = "cache, memory";
const LABEL: &str = "cache, memory of an object of 1 kB";
const AT_MOST: f64 = 0.80;
const COLUMNS: &str = "            B/object   MB before    MB after  of a sample";
const OBJECTS: u32 = 100_000;
const WARM: u32 = 1_000;
const SAMPLE: u32 = 1_000;
const AT_A_TIME: usize = 8;
/// After which a cache has done what it does when objects come.
const REST: Duration = Duration::from_secs(2);

#[cfg(test)]
mod tests {
    use super::*;

    fn row(each: u64, there: u32) -> Row {
        Row { before: 1_000, after: 1_000 + each * u64::from(OBJECTS), there }
    }

    #[test]
    fn a_peer_that_has_lost_objects_is_not_the_measure() {
        let rows = [
            (Cache::Loadline, row(1_500, SAMPLE)),
            (Cache::Varnish, row(3_000, SAMPLE)),
            (Cache::TrafficServer, row(100, 3)),
        ];
        let said = judge(&rows).unwrap().to_string();
        assert_eq!(said, "PASS cache, memory of an object of 1 kB, to varnish 0.50 (<= 0.80)");
    }

    #[test]
    fn whoever_has_lost_objects_fails_and_so_does_who_is_alone() {
        let lost = [(Cache::Loadline, row(1, 999)), (Cache::Nginx, row(3_000, SAMPLE))];
        assert!(judge(&lost).unwrap().failed());
        assert!(judge(&lost[..1]).unwrap().failed());
        assert!(judge(&lost[1..]).is_none());
    }
}
