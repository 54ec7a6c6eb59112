//! The results as a part of `docs/studies/cache.md`.

use std::{collections::BTreeMap, fmt::Write as _, fs, path::Path};

use crate::{run::Verdict, script::Case};

type Results<'a> = [(&'a str, BTreeMap<String, Verdict>)];

/// How many cases each cache obeys.
pub(crate) fn summary(cases: &[Case], results: &Results<'_>) -> String {
    let mut text = header("| |", results);
    for (title, required) in [("required", true), ("optional", false)] {
        let of_kind = || cases.iter().filter(move |case| case.required == required);
        let _ = write!(text, "| {title}, of {} |", of_kind().count());
        for (_, verdicts) in results {
            let count = |wanted: fn(&Verdict) -> bool| {
                of_kind().filter(|case| wanted(&verdicts[&case.name])).count()
            };
            let obeyed = count(|verdict| *verdict == Verdict::Kept);
            let silent = count(|verdict| *verdict == Verdict::NotApplicable);
            let _ = match silent {
                0 => write!(text, " {obeyed} |"),
                silent => write!(text, " {obeyed}, {silent} not applicable |"),
            };
        }
        text.push('\n');
    }
    text
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

fn table(cases: &[Case], results: &Results<'_>) -> String {
    let mut text = header("| case | section | |", results);
    for case in cases {
        let kind = if case.required { "**required**" } else { "optional" };
        let title = case.title.replace('|', "\\|");
        let section = case.section.replace(" section ", ", ");
        let _ = write!(text, "| `{}`: {title} | {section} | {kind} |", case.name);
        for (_, verdicts) in results {
            let sign = match verdicts[&case.name] {
                Verdict::Kept => "yes",
                Verdict::Broken(_) if case.required => "**no**",
                Verdict::Broken(_) => "no",
                Verdict::NotApplicable => "-",
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

const BEGIN: &str = "<!-- conformance: written by make cache-conformance -->";
const END: &str = "<!-- conformance: end -->";
