//! Adds to the file whose path it is given each key that it lacks: `make generated` keeps
//! `examples/every-key.toml` whole with it.
//!
//! A key goes to the end of the first table that may have it, with its default or, where it has
//! none, its first example.

use std::{collections::BTreeSet, env, error::Error, fs};

use loadline_control::schema;
use serde_json::Value;
use toml_edit::{DocumentMut, InlineTable, Item, TableLike};

fn main() -> Result<(), Box<dyn Error>> {
    let path = env::args().nth(1).ok_or("usage: every-key FILE")?;
    fs::write(&path, completed(&fs::read_to_string(&path)?)?)?;
    Ok(())
}

fn completed(text: &str) -> Result<String, Box<dyn Error>> {
    let mut file: DocumentMut = text.parse()?;
    let schema = schema();
    let mut look = Look { root: &schema, shown: BTreeSet::new(), adds: false };
    look.table(&schema, file.as_table_mut(), "")?;
    look.adds = true;
    look.table(&schema, file.as_table_mut(), "")?;
    Ok(file.to_string())
}

/// A look at every table of a file: at the keys that it shows, or to add those that none shows.
struct Look<'a> {
    root: &'a Value,
    /// Keys as paths, with `*` for names.
    shown: BTreeSet<String>,
    adds: bool,
}

impl<'a> Look<'a> {
    fn table(
        &mut self,
        node: &'a Value,
        table: &mut dyn TableLike,
        path: &str,
    ) -> Result<(), toml_edit::TomlError> {
        let node = self.followed(node);
        for form in node["oneOf"].as_array().into_iter().flatten() {
            self.table(form, table, path)?;
        }
        let keys: Vec<String> = table.iter().map(|(key, _)| key.to_owned()).collect();
        for key in &keys {
            let Some(item) = table.get_mut(key) else { continue };
            if node["properties"][key].is_object() {
                self.shown.insert(format!("{path}{key}"));
                self.item(&node["properties"][key], item, &format!("{path}{key}."))?;
            } else if node["additionalProperties"].is_object() {
                self.item(&node["additionalProperties"], item, &format!("{path}*."))?;
            }
        }
        for (key, property) in node["properties"].as_object().into_iter().flatten() {
            let value = property.get("default").or_else(|| property["examples"].get(0));
            let Some(value) = value.filter(|_| self.adds) else { continue };
            if self.shown.insert(format!("{path}{key}")) {
                table.insert(key, Item::Value(toml(value).parse()?));
            }
        }
        Ok(())
    }

    fn item(
        &mut self,
        node: &'a Value,
        item: &mut Item,
        path: &str,
    ) -> Result<(), toml_edit::TomlError> {
        let elements = &self.followed(node)["items"];
        if let Some(tables) = item.as_array_of_tables_mut() {
            tables.iter_mut().try_for_each(|table| self.table(elements, table, path))
        } else if let Some(list) = item.as_array_mut() {
            let mut tables = list.iter_mut().filter_map(|it| it.as_inline_table_mut());
            tables.try_for_each(|table| self.inline(elements, table, path))
        } else if let Some(table) = item.as_inline_table_mut() {
            self.inline(node, table, path)
        } else if let Some(table) = item.as_table_like_mut() {
            self.table(node, table, path)
        } else {
            Ok(())
        }
    }

    fn inline(
        &mut self,
        node: &'a Value,
        table: &mut InlineTable,
        path: &str,
    ) -> Result<(), toml_edit::TomlError> {
        let before = table.len();
        self.table(node, table, path)?;
        if table.len() > before {
            // The blank before the brace would go before the comma.
            table.fmt();
        }
        Ok(())
    }

    /// The definition that `node` refers to, or itself.
    fn followed(&self, node: &'a Value) -> &'a Value {
        let name = node["$ref"].as_str().and_then(|path| path.strip_prefix("#/$defs/"));
        name.map_or(node, |name| &self.root["$defs"][name])
    }
}

/// A value as it is written in the file, on one line.
fn toml(value: &Value) -> String {
    match value {
        Value::Object(table) => {
            let entry = |(key, value): (&String, &Value)| format!("{key} = {}", toml(value));
            format!("{{ {} }}", table.iter().map(entry).collect::<Vec<_>>().join(", "))
        }
        Value::Array(list) => format!("[{}]", list.iter().map(toml).collect::<Vec<_>>().join(", ")),
        other => other.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_that_no_table_has_is_added_once_and_the_rest_stays() {
        let file = "# Two services.\n[service.one]\nclass = \"low\" # Slow.\n\
            [service.two]\nhealth = { http = \"/\", rise = 4 }\n";
        let whole = completed(file).expect("it is TOML");
        assert!(whole.contains("class = \"low\" # Slow.\n"), "{whole}");
        assert!(whole.contains("http = \"/\", rise = 4, "), "{whole}");
        assert_eq!(whole.matches("fall = 3").count(), 1, "{whole}");
        assert_eq!(whole.matches("slow_start = \"0s\"").count(), 1, "{whole}");
        assert_eq!(completed(&whole).expect("it is TOML"), whole);
    }
}
