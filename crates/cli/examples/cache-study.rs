//! Writes what was measured of caches into the page of the study, with its pictures:
//! `make cache-study`.
//!
//! `cache-study PAGE BENCH EVICTION`: the page, what `loadline-bench run --json` wrote, and what
//! `cargo bench --bench eviction -- --json` wrote. Exits with 1 if a verdict is not good.
#![expect(clippy::print_stdout, reason = "the verdicts are for whoever runs it")]

use std::{env, fs, path::Path, process::ExitCode};

use anyhow::{Context as _, Result};
use loadline_measure::record::StudyVerdict;
use loadline_report::{Bars, Cell, Group, Picture, Table, Tone, digits};
use serde_json::Value;

fn main() -> Result<ExitCode> {
    let [page, bench, eviction] = env::args()
        .skip(1)
        .collect::<Vec<_>>()
        .try_into()
        .ok()
        .context("usage: cache-study PAGE BENCH EVICTION")?;
    let page = Path::new(&page);
    let (bench, eviction) = (read(&bench)?, read(&eviction)?);
    let verdicts = [of_bench(&bench)?, of_evictions(&eviction)?].concat();
    let mut text = String::from("\n");
    for verdict in &verdicts {
        println!("{verdict}");
        text += &format!("- {verdict}\n");
    }
    for (number, part) in (1..).zip([
        evictions(&eviction)?,
        popularity(&bench["figures"]["cache"]["cache, popularity"])?,
        herd(&bench["figures"]["cache"]["cache, herd"])?,
        slow_object(&bench["figures"]["cache"]["cache, slow object"])?,
        server_down(&bench["figures"]["cache"]["cache, server down"])?,
    ]) {
        text += &part.markdown(number, page)?;
    }
    write(page, &text)?;
    Ok(ExitCode::from(u8::from(verdicts.iter().any(|verdict| !verdict.pass))))
}

fn read(path: &str) -> Result<Value> {
    let text = fs::read_to_string(path).with_context(|| format!("read {path}"))?;
    serde_json::from_str(&text).with_context(|| format!("read {path}"))
}

/// A section of the page.
struct Part {
    heading: &'static str,
    table: Table,
    picture: Option<Picture>,
}

impl Part {
    /// As Markdown; its picture goes to a file beside the page.
    fn markdown(&self, number: usize, page: &Path) -> Result<String> {
        let cells = |cells: Vec<&str>| format!("| {} |\n", cells.join(" | "));
        let mut text = format!("\n### {}\n{}\n\n", self.heading, self.table.caption);
        text += &cells(self.table.columns.iter().map(|column| &*column.heading).collect());
        text += &format!("|---{}|\n", "|--:".repeat(self.table.columns.len() - 1));
        for row in &self.table.rows {
            text += &cells(row.iter().map(Cell::text).collect());
        }
        if let Some(picture) = &self.picture {
            let name = format!("cache-{number}.svg");
            fs::write(page.with_file_name(&name), picture.svg()).context("write a picture")?;
            text += &format!("\n![{}]({name})\n", picture.title);
        }
        Ok(text)
    }
}

/// The verdicts of the caches that ran.
fn of_bench(bench: &Value) -> Result<Vec<StudyVerdict>> {
    let verdict = |verdict: &Value| {
        let text = |name: &str| verdict[name].as_str().unwrap_or_default();
        let flaw = verdict["flaw"].as_str().map(|flaw| format!("; {flaw}")).unwrap_or_default();
        let measured = digits(verdict["measured"].as_f64().unwrap_or(f64::NAN));
        let target = format!("{}{}{flaw}", text("target"), text("unit"));
        let pass = verdict["failed"] == false;
        StudyVerdict::new(text("name"), format!("{measured}{}", text("unit")), target, pass)
    };
    Ok(rows(&bench["verdicts"])?.iter().map(verdict).collect())
}

/// Ours beside the best that knows neither the future nor every request that ever was.
fn of_evictions(eviction: &Value) -> Result<Vec<StudyVerdict>> {
    let mut verdicts = Vec::new();
    for row in rows(&eviction["rows"])? {
        let name = row["name"].as_str().unwrap_or_default();
        let least = match name {
            "zipf 1.0 5 %" => 0.99,
            "zipf 1.0 5 % scans" => 0.98,
            _ => continue,
        };
        let hits = |eviction: &str| row["hits"][eviction].as_f64().unwrap_or(f64::NAN);
        let best = KNOWN[1..].iter().map(|it| hits(it)).fold(0.0, f64::max);
        let ratio = hits(KNOWN[0]) / best;
        let (name, target) =
            (format!("{name}, hits over the best eviction's"), format!(">= {least}"));
        verdicts.push(StudyVerdict::new(name, format!("{ratio:.3}"), target, ratio >= least));
    }
    anyhow::ensure!(verdicts.len() == 2, "the cells that are judged are not there");
    Ok(verdicts)
}

fn evictions(eviction: &Value) -> Result<Part> {
    let all = [&KNOWN[..], &["optimum"]].concat();
    let (objects, requests) = (&eviction["objects"], &eviction["requests"]);
    let caption = format!(
        "Simulated: hit ratio in % of {requests} requests for {objects} objects, by eviction, \
         exponent of Zipf's law and room in % of the objects. The optimum knows the future."
    );
    let headings: Vec<&str> = [""].into_iter().chain(all.iter().copied()).collect();
    let mut table = Table::new(caption, &headings);
    let mut groups = Vec::new();
    for row in rows(&eviction["rows"])? {
        let name = row["name"].as_str().unwrap_or_default();
        let values: Vec<_> = all.iter().map(|it| percent(&row["hits"][it])).collect();
        table.push(named(name, &values));
        if let Some(exponent) = name.strip_prefix("zipf ").and_then(|it| it.strip_suffix(" 5 %")) {
            groups.push(Group { name: exponent.to_owned(), values });
        }
    }
    let picture =
        bars("Simulated hits, room for 5 % of the objects", "Zipf's exponent", &all, groups);
    Ok(Part { heading: "Which objects stay", table, picture: Some(picture?) })
}

fn popularity(figures: &Value) -> Result<Part> {
    let caches = names(figures)?;
    let headings: Vec<&str> = [""].into_iter().chain(caches.iter().map(|it| &**it)).collect();
    let caption = "Requests through each cache: hit ratio in %; what is missing to 100 is what \
                   their server is asked. 20,000 objects of 32 kB, room for 5 % of them, 60,000 \
                   requests of which the second half counts; with scan, every tenth is for an \
                   object that nobody asks for again.";
    let mut table = Table::new(caption, &headings);
    let mut groups = Vec::new();
    for case in ["Zipf 0.7", "Zipf 0.9", "Zipf 1.0", "Zipf 1.1", "with scan"] {
        let hits = rows(figures)?.iter().map(|row| percent(&row["hits"][case]));
        let values: Vec<_> = hits.collect();
        table.push(named(case, &values));
        groups.push(Group { name: case.to_owned(), values });
    }
    let picture =
        bars("Hits of the caches, room for 5 % of the objects", "requests", &headings[1..], groups);
    Ok(Part { heading: "Hits of real requests", table, picture: Some(picture?) })
}

fn herd(figures: &Value) -> Result<Part> {
    let clients = &rows(figures)?.first().context("no cache was measured")?["clients"];
    let mut table = Table::new(
        format!(
            "{clients} clients ask for one object of 10 kB just after it has expired; its server \
             takes half a second."
        ),
        &["", "requests to the server", "without a response", "last response after, s"],
    );
    for row in rows(figures)? {
        let columns = ["requests_to_the_server", "failed", "last_s"];
        table.push(told(row, &columns));
    }
    Ok(Part { heading: "Thousands who ask for what has expired", table, picture: None })
}

fn slow_object(figures: &Value) -> Result<Part> {
    let first = rows(figures)?.first().context("no cache was measured")?;
    let caption = format!(
        "{} clients ask for one missing object of {} MB, which its server sends within 5 s; {} \
         of them, the first among these, read 1 kB a second and are still reading when the others \
         are done. Memory is by how much the cache grew at most, its files included; the kernel's \
         is that of all TCP connections, on both sides.",
        first["clients"],
        first["length"].as_f64().unwrap_or(f64::NAN) / 1e6,
        first["slow"],
    );
    let mut table = Table::new(
        caption,
        &[
            "", "requests to the server", "fast ones failed", "slow ones cut",
            "half have begun after, s", "last fast one after, s", "memory, MB", "kernel, MB",
        ],
    );
    for row in rows(figures)? {
        let columns = ["requests_to_the_server", "failed", "cut", "first_byte_s", "last_s"];
        let memory = ["memory", "tcp"].map(|name| row[name].as_f64().map(|bytes| bytes / 1e6));
        let memory = memory.map(|it| Cell::Text(it.map_or_else(String::new, digits)));
        table.push(told(row, &columns).into_iter().chain(memory));
    }
    Ok(Part { heading: "Thousands who ask for what comes slowly", table, picture: None })
}

fn server_down(figures: &Value) -> Result<Part> {
    let mut table = Table::new(
        "A hundred objects with `max-age=2, stale-if-error=300`, asked for 100 times a second; \
         their server goes for a minute and comes back. Answered with a 200, in %.",
        &["", "before", "meanwhile", "after", "what else clients got meanwhile"],
    );
    let mut groups = Vec::new();
    for row in rows(figures)? {
        let shares = ["before", "during", "after"].map(|phase| percent(&row[phase]));
        let others = row["others_during"].as_str().unwrap_or_default().to_owned();
        let name = row["proxy"].as_str().unwrap_or_default();
        table.push(named(name, &shares).into_iter().chain([Cell::Text(others)]));
        groups.push(Group { name: name.to_owned(), values: shares.to_vec() });
    }
    let phases = ["before", "meanwhile", "after"];
    let picture = bars("Answered while the server is down", "caches", &phases, groups);
    Ok(Part { heading: "The server is down for a minute", table, picture: Some(picture?) })
}

fn bars(title: &str, each: &str, parts: &[&str], groups: Vec<Group>) -> Result<Picture> {
    let value = |value: &Option<f64>| value.map_or_else(|| "-".to_owned(), |it| format!("{it:.1}"));
    let sentence = |group: &Group| {
        let values = parts.iter().zip(&group.values);
        let values = values.map(|(part, it)| format!("{part} {}", value(it)));
        format!("{}: {}.", group.name, values.collect::<Vec<_>>().join(", "))
    };
    let bars = Bars {
        title: title.to_owned(),
        description: groups.iter().map(sentence).collect::<Vec<_>>().join(" "),
        quantity: "% of the requests".to_owned(),
        each: each.to_owned(),
        parts: parts.iter().enumerate().map(|(at, it)| ((*it).to_owned(), Tone::Run(at))).collect(),
        groups,
    };
    bars.draw().context("draw a picture")
}

fn named(name: &str, percents: &[Option<f64>]) -> Vec<Cell> {
    let figure = |it: &Option<f64>| it.map_or_else(String::new, |it| format!("{it:.1}"));
    let figures = percents.iter().map(|it| Cell::Text(figure(it)));
    [Cell::Text(name.to_owned())].into_iter().chain(figures).collect()
}

/// The name of a cache, and these figures of it.
fn told(row: &Value, columns: &[&str]) -> Vec<Cell> {
    let figure = |name: &&str| match &row[name] {
        Value::Number(number) if number.is_u64() => number.to_string(),
        other => other.as_f64().map_or_else(String::new, digits),
    };
    let name = row["proxy"].as_str().unwrap_or_default().to_owned();
    [name].into_iter().chain(columns.iter().map(figure)).map(Cell::Text).collect()
}

fn percent(ratio: &Value) -> Option<f64> {
    ratio.as_f64().map(|ratio| 100.0 * ratio)
}

fn names(figures: &Value) -> Result<Vec<String>> {
    let name = |row: &Value| row["proxy"].as_str().unwrap_or_default().to_owned();
    Ok(rows(figures)?.iter().map(name).collect())
}

fn rows(value: &Value) -> Result<&Vec<Value>> {
    value.as_array().context("a part of the study was not measured")
}

/// Writes the part of the page that is between the two marks.
fn write(page: &Path, text: &str) -> Result<()> {
    let old = fs::read_to_string(page).context("read the page")?;
    let (before, rest) = old.split_once(BEGIN).context("the page lacks its first mark")?;
    let (_, after) = rest.split_once(END).context("the page lacks its second mark")?;
    fs::write(page, format!("{before}{BEGIN}\n{text}{END}{after}")).context("write the page")
}

/// Evictions that could be used: ours, and those it is held against.
const KNOWN: [&str; 6] = ["loadline", "S3-FIFO", "moka", "quick_cache", "SIEVE", "LRU"];

const BEGIN: &str = "<!-- study: written by make cache-study -->";
const END: &str = "<!-- study: end -->";
