//! A page as Markdown, for documentation: tables as tables, pictures as files beside it.

use crate::{
    page::{Block, Page},
    table::{Align, Table},
    verdict::Verdict,
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
            text += "\n## Verdicts\n\n";
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

fn verdicts(verdicts: &[Verdict]) -> String {
    let line = |verdict: &Verdict| format!("- {verdict}\n");
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
            verdicts: vec![Verdict::new("flat", "1 ms", "2 ms", true)],
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
}
