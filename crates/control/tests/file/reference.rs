//! The reference in `docs/` is the one the types make.

use std::fs;

use loadline_control::{Page, reference, schema};

use crate::repository;

#[test]
fn the_reference_in_docs_is_up_to_date() {
    let page = fs::read_to_string(repository("docs/configuration.md")).unwrap_or_default();
    assert!(page == reference(), "run: make generated");
    let page = fs::read_to_string(repository("docs/configuration.schema.json")).unwrap_or_default();
    assert!(page == Page::ConfigurationSchema.json_or(schema), "run: make generated");
}

#[test]
fn the_reference_has_a_section_for_each_table() {
    let page = reference();
    for heading in [
        "## `edge`",
        "## `[regions.NAME]`",
        "## `[[listener]]`",
        "## `service.NAME.when_full` as a table",
        "## `service.NAME.ejection` as a table",
        "## `[[service.NAME.group]]`",
        "## `service.NAME.group.servers`, each as a table",
    ] {
        assert!(page.contains(&format!("{heading}\n")), "{heading}");
    }
    assert!(page.contains("| `bind` |"));
    assert!(page.contains("| a whole number from 1 to 1000 | `100` |"));
}

#[test]
fn the_reference_begins_with_listeners_services_and_groups() {
    let page = reference();
    let at = |text: &str| page.find(text).unwrap_or_else(|| panic!("no {text}"));
    let sections = [
        "## `[[listener]]`",
        "## `[service.NAME]`",
        "## `[[service.NAME.group]]`",
        "## `service.NAME.ejection` as a table",
        "## `admin`",
        "## `edge`",
        "## `tracing`",
    ];
    assert!(sections.is_sorted_by_key(|it| at(it)), "the sections");
    let rows = ["| `listener` |", "| `service` |", "| `admin` |", "| `tracing` |"];
    assert!(rows.is_sorted_by_key(|it| at(it)), "the rows at the top");
}
