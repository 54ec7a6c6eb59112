//! A page as Markdown, for documentation: tables as tables, pictures as files beside it.

use std::iter;

use loadline_measure::record::StudyVerdict;

use crate::{
    page::{Block, Page},
    runs::{HEADINGS, SIMULATION},
    table::{Align, Table},
};

impl Page {
    /// The page as Markdown, and its pictures: names that begin with `name`, and their SVG.
    #[must_use]
    pub fn markdown(&self, name: &str) -> (String, Vec<(String, String)>) {
        let mut pictures = Vec::new();
        let mut text = format!("# {}\n", self.title);
        for paragraph in &self.lead {
            text += &format!("\n{paragraph}\n");
        }
        if !self.verdicts.is_empty() {
            text += &format!("\n## {VERDICTS}\n\n");
            text += &verdicts(&self.verdicts);
        }
        for section in &self.sections {
            text += &format!("\n## {}\n", section.heading);
            for block in &section.blocks {
                text += &match block {
                    Block::Text(paragraph) => format!("\n{paragraph}\n"),
                    Block::Warning(paragraph) => format!("\n**Mind:** {paragraph}\n"),
                    Block::Table(shown) | Block::Details(shown) => table(shown),
                    Block::Picture(picture) => {
                        let file = format!("{name}-{}.svg", pictures.len() + 1);
                        pictures.push((file.clone(), picture.svg().to_owned()));
                        format!("\n![{}]({file})\n", picture.title)
                    }
                };
            }
        }
        text += &format!("\n{}\n", self.footer);
        (text, pictures)
    }
}

/// The page of a study as it was made now, with the sections that people wrote into it before: each
/// behind the section that it followed, or at the end where that is no more.
#[must_use]
pub fn keep_written(made: &str, before: &str) -> String {
    let mut parts = sections(made);
    let mut last = Some("");
    for (heading, text) in sections(before) {
        let is_made = heading.is_empty()
            || heading == VERDICTS
            || HEADINGS.contains(&heading)
            || heading.starts_with(SIMULATION);
        if is_made {
            last = parts.iter().any(|part| part.0 == heading).then_some(heading);
            continue;
        }
        let after = parts.iter().position(|part| Some(part.0) == last);
        parts.insert(after.map_or(parts.len(), |place| place + 1), (heading, text));
        last = last.and(Some(heading));
    }
    let texts: Vec<&str> = parts.iter().map(|part| part.1.trim_end()).collect();
    texts.join("\n\n") + "\n"
}

/// Headings of the second level and the text with each; what stands before the first has none.
fn sections(page: &str) -> Vec<(&str, &str)> {
    let starts = page.match_indices("\n## ").map(|(place, _)| place + 1);
    let ends = starts.clone().chain([page.len()]);
    let texts = iter::once(0).chain(starts).zip(ends).map(|(from, to)| &page[from..to]);
    texts.map(|text| (heading(text), text)).collect()
}

fn heading(text: &str) -> &str {
    let first = text.lines().next().unwrap_or_default();
    first.strip_prefix("## ").unwrap_or_default()
}

/// The heading above the verdicts.
const VERDICTS: &str = "Verdicts";

fn verdicts(verdicts: &[StudyVerdict]) -> String {
    let line = |verdict: &StudyVerdict| format!("- {verdict}\n");
    verdicts.iter().map(line).collect()
}

fn table(table: &Table) -> String {
    let row = |cells: Vec<String>| format!("| {} |\n", cells.join(" | "));
    let mut text = format!("\n{}:\n\n", table.caption);
    text += &row(table.columns.iter().map(|column| cell(&column.heading)).collect());
    let rule = |align| if align == Align::Left { "---" } else { "--:" }.to_owned();
    text += &row(table.columns.iter().map(|column| rule(column.align)).collect());
    for cells in &table.rows {
        text += &row(cells.iter().map(|one| cell(one.text())).collect());
    }
    text
}

/// A text that may stand in a cell.
fn cell(text: &str) -> String {
    text.replace('|', "\\|").replace('\n', " ")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{page::Section, table::Cell};

    #[test]
    fn a_page_is_headings_tables_and_pictures_beside_it() {
        let mut shown = Table::new("One | two", &["", "ms"]);
        shown.push(["a|b".into(), Cell::Pass(true)]);
        let page = Page {
            title: "Capacity".into(),
            lead: vec!["About.".into()],
            verdicts: vec![StudyVerdict::new("flat", "1 ms", "2 ms", true)],
            sections: vec![Section {
                heading: "Figures".into(),
                blocks: vec![Block::Table(shown), Block::Warning("invalid".into())],
            }],
            footer: "End.".into(),
        };
        let (text, pictures) = page.markdown("capacity");
        let right = [
            "# Capacity\n\nAbout.\n",
            "\n## Verdicts\n\n- PASS flat 1 ms (2 ms)\n",
            "\n## Figures\n\nOne | two:\n\n|  | ms |\n| --- | --: |\n| a\\|b | PASS |\n",
            "\n**Mind:** invalid\n\nEnd.\n",
        ];
        assert_eq!(text, right.concat());
        assert!(pictures.is_empty());
    }

    #[test]
    fn what_people_wrote_into_the_page_of_a_study_stays_where_it_was() {
        let before = "# Old\n\nLead.\n\n## What differs, and why\n\nOurs.\n\n\
                      ## Verdicts\n\n- FAIL a\n\n## Pictures\n\n![old](old.svg)\n\n\
                      ## Of the pictures\n\nOurs too.\n\n\
                      ## Validity of the runs\n\nOld.\n\nEnd.\n\n\
                      ## How it was made\n\nBy hand.\n";
        let made = "# New\n\n## Verdicts\n\n- PASS a\n\n\
                    ## Validity of the runs\n\nNew.\n\nEnd.\n";
        let page = keep_written(made, before);
        let expected = "# New\n\n## What differs, and why\n\nOurs.\n\n\
                        ## Verdicts\n\n- PASS a\n\n\
                        ## Validity of the runs\n\nNew.\n\nEnd.\n\n\
                        ## How it was made\n\nBy hand.\n\n\
                        ## Of the pictures\n\nOurs too.\n";
        assert_eq!(page, expected);
        assert_eq!(keep_written(made, &page), page, "once more");
        assert_eq!(keep_written(made, ""), made);
    }
}
