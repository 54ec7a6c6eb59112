//! The results as a part of `docs/studies/cache.md`.

use std::{
    collections::{BTreeMap, BTreeSet},
    fmt::Write as _,
    fs,
    path::Path,
};

use crate::{run::Verdict, script::Case};

type Results<'a> = [(&'a str, BTreeMap<String, Verdict>)];

/// How many cases each cache obeys: by section, then of all.
pub(crate) fn summary(cases: &[Case], results: &Results<'_>) -> String {
    let mut text = header("| | |", results);
    let sections: BTreeSet<_> = cases.iter().map(|case| chapter(&case.section)).collect();
    for (kind, required) in [("required", true), ("optional", false)] {
        let of_kind: Vec<_> = cases.iter().filter(|case| case.required == required).collect();
        for section in &sections {
            let of_section = of_kind.iter().filter(|case| chapter(&case.section) == *section);
            row(&mut text, section, kind, &of_section.copied().collect::<Vec<_>>(), results);
        }
        row(&mut text, "**all**", kind, &of_kind, results);
    }
    text
}

/// One row of counts, unless there is no such case.
fn row(text: &mut String, section: &str, kind: &str, cases: &[&Case], results: &Results<'_>) {
    if cases.is_empty() {
        return;
    }
    let _ = write!(text, "| {section} | {} {kind} |", cases.len());
    for (_, verdicts) in results {
        let count = |wanted: fn(&Verdict) -> bool| {
            cases.iter().filter(|case| wanted(&verdicts[&case.name])).count()
        };
        let obeyed = count(|verdict| *verdict == Verdict::Kept);
        let _ = match count(|verdict| *verdict == Verdict::NotApplicable) {
            0 => write!(text, " {obeyed} |"),
            silent => write!(text, " {obeyed} ({silent} n/a) |"),
        };
    }
    text.push('\n');
}

/// `RFC 9111, 5.2` of `RFC 9111 section 5.2.2.1`.
fn chapter(section: &str) -> String {
    let (rfc, number) = section.split_once(" section ").expect("a case names a section");
    let number: Vec<_> = number.split('.').take(2).collect();
    format!("{rfc}, {}", number.join("."))
}

/// Writes the part of the page that is between the two marks.
pub(crate) fn write(page: &Path, cases: &[Case], results: &Results<'_>) {
    let old = fs::read_to_string(page).unwrap();
    let (before, rest) = old.split_once(BEGIN).expect("the page has the first mark");
    let (_, after) = rest.split_once(END).expect("the page has the second mark");
    let (summary, table) = (summary(cases, results), table(cases, results));
    let text = format!("{before}{BEGIN}\n{summary}\n{table}{END}{after}");
    fs::write(page, text).unwrap();
}

/// The cases in which the caches differ, or that none obeys.
fn table(cases: &[Case], results: &Results<'_>) -> String {
    let mut text = header("| case | section | |", results);
    for case in cases {
        if results.iter().all(|(_, verdicts)| verdicts[&case.name] == Verdict::Kept) {
            continue;
        }
        let kind = if case.required { "**required**" } else { "optional" };
        let title = case.title.replace('|', "\\|");
        let section = case.section.replace(" section ", ", ");
        let _ = write!(text, "| `{}`: {title} | {section} | {kind} |", case.name);
        for (_, verdicts) in results {
            let sign = match verdicts[&case.name] {
                Verdict::Kept => "yes",
                Verdict::Broken(_) if case.required => "**no**",
                Verdict::Broken(_) => "no",
                Verdict::NotApplicable => "n/a",
            };
            let _ = write!(text, " {sign} |");
        }
        text.push('\n');
    }
    text
}

fn header(first: &str, results: &Results<'_>) -> String {
    let columns = first.matches('|').count() - 1 + results.len();
    let names: String = results.iter().map(|(name, _)| format!(" {name} |")).collect();
    format!("{first}{names}\n{}|\n", "|---".repeat(columns))
}

const BEGIN: &str = "<!-- conformance: written by make conformance -->";
const END: &str = "<!-- conformance: end -->";
