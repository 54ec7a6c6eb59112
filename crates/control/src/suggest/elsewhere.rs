//! Keys that are right in another table of the file.

use serde_json::Value;

use super::{foreign, known, meant};
use crate::{Page, schema::schema};

/// A help text for a key that may not stand where only `names` may.
pub(crate) fn key(typed: &str, names: &[&str]) -> String {
    let here = known(typed, names);
    if meant(typed, names).is_some() {
        return here;
    }
    let schema = Page::ConfigurationSchema.value_or(schema);
    let ours = foreign::meanings(typed).map(|(ours, _)| ours);
    let found = [typed].into_iter().chain(ours).find_map(|key| {
        let mut tables = Vec::new();
        tables_with(key, &schema, &schema, "", &mut tables);
        tables.sort_by_key(String::len);
        tables.into_iter().next().map(|table| (key, table))
    });
    match found {
        Some((key, table)) => format!("`{key}` is a key of {table}; here {here}"),
        None => here,
    }
}

/// Adds to `found` each table at or below `node` that may have the key, as it is written.
fn tables_with(key: &str, schema: &Value, node: &Value, path: &str, found: &mut Vec<String>) {
    let Some(keys) = node["properties"].as_object() else { return };
    if keys.contains_key(key) && !path.is_empty() {
        found.push(format!("`{path}`"));
    }
    for (name, value) in keys {
        let below = if path.is_empty() { name.clone() } else { format!("{path}.{name}") };
        let named = format!("{below}.NAME");
        for (path, value) in
            [(&below, value), (&named, &value["additionalProperties"]), (&below, &value["items"])]
        {
            let forms = value["oneOf"].as_array().into_iter().flatten();
            for form in forms.chain([value]) {
                if let Some(table) = referred(schema, form) {
                    tables_with(key, schema, table, path, found);
                }
            }
        }
    }
}

/// The definition that `value` is a reference to.
fn referred<'a>(schema: &'a Value, value: &Value) -> Option<&'a Value> {
    schema["$defs"].get(value["$ref"].as_str()?.strip_prefix("#/$defs/")?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_of_another_table_is_told_which() {
        let here = ["bind", "service"];
        let told = "`policy` is a key of `service.NAME`; here expected one of";
        assert!(key("policy", &here).starts_with(told), "{}", key("policy", &here));
        assert!(key("balance", &here).starts_with("`policy` is a key of `service.NAME`"));
        assert!(key("max_rate", &here).starts_with("`max_rate` is a key of `service.NAME.group`"));
        assert_eq!(key("colour", &here), known("colour", &here));
    }
}
