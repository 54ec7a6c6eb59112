//! Errors as they are printed.

use loadline_control::{LocalOnly, parse_with};
use miette::{GraphicalReportHandler, GraphicalTheme};

fn rendered(name: &str, text: &str) -> String {
    let errors = parse_with(name, text, &LocalOnly).expect_err("a wrong file");
    let handler = GraphicalReportHandler::new_themed(GraphicalTheme::unicode_nocolor());
    let mut page = String::new();
    handler.with_width(100).render_report(&mut page, &errors).expect("text can be written");
    page
}

#[test]
fn several_errors_are_printed_each_with_its_line() {
    let page = rendered("several.toml", include_str!("snapshots/several.toml"));
    assert_eq!(page, include_str!("snapshots/several.txt"), "{page}");
}

#[test]
fn a_broken_line_is_printed_with_what_was_expected() {
    let page = rendered("syntax.toml", include_str!("snapshots/syntax.toml"));
    assert_eq!(page, include_str!("snapshots/syntax.txt"), "{page}");
}
