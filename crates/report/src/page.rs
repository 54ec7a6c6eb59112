//! One HTML page that needs nothing but itself: no network, no script, no font.
//!
//! Pictures are inline SVG in two widths, of which the style sheet shows one; colours follow the
//! reader's light or dark setting; on paper it is black on white without page breaks inside
//! pictures and tables. A content security policy forbids the page to load anything.

use loadline_measure::record::StudyVerdict;
use maud::{DOCTYPE, Markup, PreEscaped, html};

use crate::{
    plot::picture::Picture,
    table::{Align, Cell, Column, Table},
};

/// A report to be read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Page {
    /// The heading, and the name of the browser's tab.
    pub title: String,
    /// What the page is about, a paragraph each.
    pub lead: Vec<String>,
    /// The verdicts, shown above everything else; none, no table of them.
    pub verdicts: Vec<StudyVerdict>,
    /// What follows the verdicts, from top to bottom.
    pub sections: Vec<Section>,
    /// How and where it was measured.
    pub footer: String,
}

/// A part of the page.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Section {
    /// Heading of the section, plain text.
    pub heading: String,
    /// What it consists of, from top to bottom.
    pub blocks: Vec<Block>,
}

/// What sections consist of.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Block {
    /// A paragraph of plain text.
    Text(String),
    /// A picture with its title below.
    Picture(Picture),
    /// A table with its caption above.
    Table(Table),
    /// A table that unfolds below its caption.
    Details(Table),
    /// A paragraph that is not to be overlooked.
    Warning(String),
}

impl Page {
    /// The page as one HTML document.
    #[must_use]
    pub fn html(&self) -> String {
        let page = html! {
            (DOCTYPE)
            html lang="en" {
                head {
                    meta charset="utf-8";
                    meta name="viewport" content="width=device-width, initial-scale=1";
                    meta name="color-scheme" content="light dark";
                    meta http-equiv="Content-Security-Policy" content=(POLICY);
                    title { (self.title) }
                    style { (PreEscaped(STYLE)) }
                }
                body {
                    header {
                        h1 { (self.title) }
                        @for paragraph in &self.lead { p.lead { (paragraph) } }
                    }
                    main {
                        @if !self.verdicts.is_empty() { (verdicts(&self.verdicts)) }
                        @for part in &self.sections { (section(part)) }
                    }
                    footer { p { (self.footer) } }
                }
            }
        };
        page.into_string()
    }
}

fn verdicts(verdicts: &[StudyVerdict]) -> Markup {
    html! {
        section {
            h2 { "Verdicts" }
            p.sum { (sum(verdicts)) }
            (verdict_table(verdicts))
        }
    }
}

/// How many of the verdicts are which.
fn sum(verdicts: &[StudyVerdict]) -> Markup {
    let failed = verdicts.iter().filter(|verdict| verdict.fails()).count();
    let passed = verdicts.iter().filter(|verdict| verdict.pass).count();
    match (failed, verdicts.len() - failed - passed) {
        (0, 0) => html! { strong.pass { "All " (passed) " pass." } },
        (_, 0) => html! { strong.fail { (failed) " of " (verdicts.len()) " fail." } },
        (0, invalid) => html! { strong { (passed) " pass, " (invalid) " could not be judged." } },
        (_, invalid) => html! {
            strong.fail {
                (passed) " pass, " (failed) " fail, " (invalid) " could not be judged."
            }
        },
    }
}

fn verdict_table(verdicts: &[StudyVerdict]) -> Markup {
    let mut shown = Table::new("What must be true", &["", "measured", "target", "verdict"]);
    for verdict in verdicts {
        let words = [&verdict.name, &verdict.measured, &verdict.target];
        let words = words.into_iter().map(|word| Cell::from(word.as_str()));
        shown.push(words.chain([Cell::of_verdict(verdict)]));
    }
    table(&shown)
}

fn section(section: &Section) -> Markup {
    html! {
        section {
            h2 { (section.heading) }
            @for block in &section.blocks {
                @match block {
                    Block::Text(text) => { p { (text) } }
                    Block::Picture(picture) => { (figure(picture)) }
                    Block::Table(shown) => { (table(shown)) }
                    Block::Details(shown) => {
                        details { summary { (shown.caption) } (table(shown)) }
                    }
                    Block::Warning(text) => { p.warning { strong { "Mind: " } (text) } }
                }
            }
        }
    }
}

fn figure(picture: &Picture) -> Markup {
    html! {
        figure {
            div.wide { (PreEscaped(&picture.wide)) }
            div.narrow { (PreEscaped(&picture.narrow)) }
            figcaption { (picture.title) }
        }
    }
}

fn table(table: &Table) -> Markup {
    html! {
        div.scroll tabindex="0" role="group" aria-label=(table.caption) {
            table {
                caption { span { (table.caption) } }
                thead {
                    tr { @for column in &table.columns { (heading(column)) } }
                }
                tbody {
                    @for row in &table.rows {
                        tr { (cells(&table.columns, row)) }
                    }
                }
            }
        }
    }
}

fn heading(column: &Column) -> Markup {
    match column.heading.as_str() {
        "" => html! { td {} },
        text => html! { th scope="col" class=(side(column)) { (text) } },
    }
}

fn cells(columns: &[Column], row: &[Cell]) -> Markup {
    let cells = columns.iter().zip(row).enumerate();
    html! { @for (index, (column, cell)) in cells { (data(index, column, cell)) } }
}

/// The first cell of a row is its heading.
fn data(index: usize, column: &Column, cell: &Cell) -> Markup {
    match cell {
        Cell::Pass(true) => html! { td.pass { (cell.text()) } },
        Cell::Pass(false) => html! { td.fail { (cell.text()) } },
        Cell::Good(text) => html! { td.pass { (unbroken(text)) } },
        Cell::Bad(text) => html! { td.fail { (unbroken(text)) } },
        Cell::Text(text) if index == 0 => {
            html! { th scope="row" class=(side(column)) { (unbroken(text)) } }
        }
        Cell::Text(text) => html! { td class=(side(column)) { (unbroken(text)) } },
    }
}

/// A number and its unit stay on one line.
fn unbroken(text: &str) -> String {
    text.replace(" ms", "\u{a0}ms").replace(" %", "\u{a0}%")
}

fn side(column: &Column) -> &'static str {
    match column.align {
        Align::Left => "left",
        Align::Right => "right",
    }
}

const STYLE: &str = include_str!("page.css");
/// Nothing may be loaded; only the style sheet inside the page applies.
const POLICY: &str = "default-src 'none'; style-src 'unsafe-inline'";

#[cfg(test)]
mod tests {
    use super::*;
    use crate::plot::{
        Tone,
        curves::{response_against_rate, tests::curve},
        pairs::{compare, tests::published},
        timeline::{over_time, tests::failover},
    };

    fn page() -> Page {
        let curves = [curve("one <region>", Tone::Warm, &[(50, 39, 41), (200, 371, 710)])];
        let pictures = [
            response_against_rate("Response time", &curves, &[]).unwrap(),
            compare("Five runs", &published()).unwrap(),
            over_time("Failover", &failover()).unwrap(),
        ];
        let mut table = Table::new("One server", &["rate", "average", "verdict"]);
        table.push(["40/s".into(), "38.4 ms".into(), Cell::Pass(true)]);
        let mut blocks = vec![Block::Text("a & b".into()), Block::Table(table)];
        blocks.extend(pictures.map(Block::Picture));
        Page {
            title: "Demo".into(),
            lead: vec!["What it is.".into()],
            verdicts: vec![StudyVerdict::new("run <1>", "58 ms", "at most 62 ms", false)],
            sections: vec![Section { heading: "Part".into(), blocks }],
            footer: "Here and now.".into(),
        }
    }

    #[test]
    fn the_page_contains_every_picture_in_both_widths_with_words_for_it() {
        let html = page().html();
        assert_eq!(html.matches("<svg").count(), 6);
        assert_eq!(html.matches("</svg>").count(), 6);
        assert_eq!(html.matches("role=\"img\">\n<title>").count(), 6);
        assert_eq!(html.matches("<desc>").count(), 6);
    }

    #[test]
    fn the_page_reaches_for_nothing_outside_itself() {
        let html = page().html().replace("http://www.w3.org/2000/svg", "");
        for reference in ["://", "src=", "href=", "url(", "@import", "<script", "<link"] {
            assert!(!html.contains(reference), "the page contains {reference}");
        }
    }

    #[test]
    fn tables_have_captions_and_headings() {
        let html = page().html();
        assert!(html.contains("<caption><span>One server</span></caption>"));
        assert!(html.contains("<th scope=\"col\" class=\"right\">average</th>"));
        assert!(html.contains("<th scope=\"row\" class=\"left\">40/s</th>"));
        assert!(html.contains("<td class=\"pass\">PASS</td>"));
        assert!(html.contains("1 of 1 fail."));
    }

    #[test]
    fn what_could_not_be_judged_has_not_failed() {
        let verdict = |pass, invalid| StudyVerdict {
            invalid,
            ..StudyVerdict::new("run", "58 ms", "at most 62 ms", pass)
        };
        let (pass, fail) = (verdict(true, false), verdict(false, false));
        let invalid = verdict(false, true);
        let html = |verdicts: &[&StudyVerdict]| {
            Page { verdicts: verdicts.iter().map(|it| (*it).clone()).collect(), ..page() }.html()
        };
        let without_failure = html(&[&pass, &pass, &invalid, &invalid]);
        assert!(without_failure.contains("2 pass, 2 could not be judged."));
        assert!(without_failure.contains(">INVALID</td>"));
        assert!(!without_failure.contains("FAIL</td>"));
        let with_failure = html(&[&pass, &fail, &invalid]);
        assert!(with_failure.contains("1 pass, 1 fail, 1 could not be judged."));
    }

    #[test]
    fn text_is_escaped_on_the_page_and_in_pictures() {
        let html = page().html();
        for text in ["run &lt;1&gt;", "a &amp; b", "one &lt;region&gt;, avg"] {
            assert!(html.contains(text), "{text} is missing");
        }
        assert!(!html.contains("<region>"));
    }
}
