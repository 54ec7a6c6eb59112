//! `docs/configuration.md`, made of the JSON Schema: one section for each table of the file.

use serde_json::{Map, Value};

use crate::schema::schema;

/// The reference of every key, as Markdown.
#[must_use]
pub fn reference() -> String {
    let schema = schema();
    let mut page = Page { schema: &schema, text: INTRODUCTION.to_owned() };
    page.text.push_str("\n## Top of the file\n");
    page.table("", &schema);
    page.text
}

struct Page<'a> {
    schema: &'a Value,
    text: String,
}

impl<'a> Page<'a> {
    /// One row for each key of `node`, then a section for each table below it.
    fn table(&mut self, path: &str, node: &'a Value) {
        let Some(keys) = node["properties"].as_object() else { return };
        let mut keys: Vec<(&String, &Value)> = keys.iter().collect();
        if matches!(path, "" | "service.NAME.") {
            let place = |key: &str| FIRST.iter().position(|first| *first == key);
            keys.sort_by_key(|(key, _)| place(key).unwrap_or(FIRST.len()));
        }
        self.line("");
        self.line("| key | meaning | value | default |");
        self.line("|---|---|---|---|");
        for (key, value) in &keys {
            let meaning = text_of(value, "description");
            let (kind, default) = (self.kind(value), default(node, key));
            self.line(&format!("| `{key}` | {meaning} | {kind} | {default} |"));
        }
        for (key, value) in &keys {
            self.words(key, value);
        }
        for (key, value) in keys {
            self.below(&format!("{path}{key}"), value);
        }
    }

    /// The sections of the tables that may stand at `path`.
    fn below(&mut self, path: &str, value: &'a Value) {
        if let Some(table) = self.referred(value) {
            self.section(&format!("`{path}`"), path, table);
        } else if let Some(table) = self.referred(&value["additionalProperties"]) {
            let path = format!("{path}.NAME");
            self.section(&format!("`[{path}]`"), &path, table);
        } else if let Some(table) = self.referred(&value["items"]) {
            self.section(&format!("`[[{path}]]`"), path, table);
        } else if let Some(table) = self.table_form(value) {
            self.section(&format!("`{path}` as a table"), path, table);
        } else if let Some(table) = self.table_form(&value["items"]) {
            self.section(&format!("`{path}`, each as a table"), path, table);
        }
    }

    fn section(&mut self, heading: &str, path: &str, table: &'a Value) {
        self.line(&format!("\n## {heading}\n"));
        self.line(&text_of(table, "description"));
        self.table(&format!("{path}."), table);
    }

    /// What may stand to the right of the equals sign, in a few words.
    fn kind(&self, value: &Value) -> String {
        let of_each = |value: &Value| self.kind(value);
        if let Some(title) = value["title"].as_str() {
            return cell(title);
        }
        if let Some(constant) = value.get("const") {
            return format!("`{constant}`");
        }
        if value.get("$ref").is_some() {
            return "a table".to_owned();
        }
        if let Some(forms) = value["oneOf"].as_array() {
            return forms.iter().map(of_each).collect::<Vec<_>>().join(", or ");
        }
        match value["type"].as_str() {
            Some("array") => format!("a list; each: {}", self.kind(&value["items"])),
            Some("boolean") => "`true` or `false`".to_owned(),
            Some("object") => {
                format!("a table; each NAME: {}", self.kind(&value["additionalProperties"]))
            }
            _ => String::new(),
        }
    }

    /// The meaning of each word, where a value is one of a few words.
    fn words(&mut self, key: &str, value: &Value) {
        let forms = value["oneOf"].as_array().into_iter().flatten();
        let nested = forms.flat_map(|form| form["oneOf"].as_array().into_iter().flatten());
        let direct = value["oneOf"].as_array().into_iter().flatten();
        let words: Vec<&Value> =
            direct.chain(nested).filter(|word| word["const"].is_string()).collect();
        if words.is_empty() {
            return;
        }
        self.line(&format!("\nWords for `{key}`:\n"));
        for word in words {
            let (name, meaning) = (text_of(word, "const"), text_of(word, "description"));
            self.line(&format!("- `\"{name}\"`: {meaning}"));
        }
    }

    /// The table among the forms of a value.
    fn table_form(&self, value: &Value) -> Option<&'a Value> {
        let forms = value["oneOf"].as_array()?;
        forms.iter().find_map(|form| self.referred(form))
    }

    /// The definition that `value` is a reference to.
    fn referred(&self, value: &Value) -> Option<&'a Value> {
        let name = value["$ref"].as_str()?.strip_prefix("#/$defs/")?;
        self.schema["$defs"].get(name)
    }

    fn line(&mut self, line: &str) {
        self.text.push_str(line);
        self.text.push('\n');
    }
}

fn text_of(value: &Value, key: &str) -> String {
    cell(value[key].as_str().unwrap_or_default())
}

/// A text that may stand in a cell of a table.
fn cell(text: &str) -> String {
    text.replace('|', "\\|")
}

/// What holds where `key` is absent from `node`.
fn default(node: &Value, key: &str) -> String {
    let required = node["required"].as_array().is_some_and(|keys| keys.iter().any(|it| it == key));
    match node["properties"][key].get("default") {
        _ if required => "required".to_owned(),
        Some(default) => format!("`{}`", toml(default)),
        None => String::new(),
    }
}

/// A value as it is written in the file, on one line.
fn toml(value: &Value) -> String {
    let entries = |table: &Map<String, Value>| -> Vec<String> {
        table.iter().map(|(key, value)| format!("{key} = {}", toml(value))).collect()
    };
    match value {
        Value::Object(table) => format!("{{ {} }}", entries(table).join(", ")),
        other => other.to_string(),
    }
}

/// The tables with which the page begins; the others follow by the alphabet.
const FIRST: [&str; 3] = ["listener", "service", "group"];
const INTRODUCTION: &str = include_str!("reference.md");
