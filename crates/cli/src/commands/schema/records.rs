//! The schema of records, and `docs/records.md` made of it: one section for each table.

use loadline_measure::record::{Document, SCHEMA_VERSION};
use serde_json::Value;

/// The JSON Schema of everything that `--json` prints.
pub(super) fn schema() -> Value {
    schemars::schema_for!(Document).to_value()
}

/// The reference of every field, as Markdown.
pub(super) fn reference() -> String {
    let schema = schema();
    let mut page = INTRODUCTION.replace("VERSION", &SCHEMA_VERSION.to_string());
    for kind in schema["oneOf"].as_array().into_iter().flatten() {
        let name = text(&kind["properties"]["kind"], "const");
        let referred = definition(text(kind, "$ref"));
        page += &format!(
            "- `{name}`: {} [{referred}](#{})\n",
            prose(kind, "description"),
            anchor(referred)
        );
    }
    page += "\n## Every record\n";
    fields(&mut page, &schema);
    for (name, table) in schema["$defs"].as_object().into_iter().flatten() {
        page += &format!("\n## {name}\n\n{}\n", prose(table, "description"));
        fields(&mut page, table);
        variants(&mut page, table);
    }
    page
}

/// One row for each field of `table`.
fn fields(page: &mut String, table: &Value) {
    let Some(fields) = table["properties"].as_object() else { return };
    *page += "\n| field | meaning | value |\n|---|---|---|\n";
    for (name, field) in fields {
        let required =
            table["required"].as_array().is_some_and(|all| all.iter().any(|it| it == name));
        let optional = if required { "" } else { ", may be absent" };
        let meaning = prose(field, "description");
        *page += &format!("| `{name}` | {meaning} | {}{optional} |\n", kind(field));
    }
}

/// The forms of something that has several.
fn variants(page: &mut String, table: &Value) {
    for form in table["oneOf"].as_array().into_iter().flatten() {
        let meaning = prose(form, "description");
        if let Some(word) = form["const"].as_str() {
            *page += &format!("\n- `\"{word}\"`: {meaning}");
        } else {
            *page += &format!("\n{meaning}\n");
            fields(page, form);
        }
    }
    if table["oneOf"].is_array() {
        page.push('\n');
    }
}

/// What stands in a field, in a few words.
fn kind(field: &Value) -> String {
    if let Some(reference) = field["$ref"].as_str() {
        let name = definition(reference);
        return format!("[{name}](#{})", anchor(name));
    }
    if let Some(constant) = field.get("const") {
        return format!("`{constant}`");
    }
    if let Some(forms) = field["anyOf"].as_array() {
        return forms
            .iter()
            .map(kind)
            .filter(|form| form != "null")
            .collect::<Vec<_>>()
            .join(" or ");
    }
    match &field["type"] {
        Value::String(name) if name == "array" => format!("list of {}", kind(&field["items"])),
        Value::String(name) if name == "object" => {
            format!("map to {}", kind(&field["additionalProperties"]))
        }
        Value::String(name) => name.clone(),
        Value::Array(names) => {
            let names = names.iter().filter_map(Value::as_str).filter(|name| *name != "null");
            names.collect::<Vec<_>>().join(" or ")
        }
        _ => "anything".to_owned(),
    }
}

fn definition(reference: &str) -> &str {
    reference.trim_start_matches("#/$defs/")
}

fn anchor(name: &str) -> String {
    name.to_lowercase()
}

fn text<'a>(value: &'a Value, key: &str) -> &'a str {
    value[key].as_str().unwrap_or_default()
}

/// A comment of the code as a cell: on one line, with names instead of links to code.
fn prose(value: &Value, key: &str) -> String {
    text(value, key).replace(['\n', '\r'], " ").replace("[`", "`").replace("`]", "`")
}

const INTRODUCTION: &str = include_str!("records.md");
