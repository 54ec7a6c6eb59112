//! The schema agrees with the parser: on the examples, on every key, on every default.

use std::collections::BTreeSet;

use loadline_control::{LocalOnly, parse_with, schema};
use serde_json::Value;

use crate::examples;

/// A file as the validator sees it.
fn as_json(text: &str) -> Value {
    let table: toml::Table = text.parse().expect("TOML");
    serde_json::to_value(table).expect("a table without dates")
}

fn example(name: &str) -> String {
    let named = |(file, _): &(String, String)| file == name;
    examples().into_iter().find(named).expect("the example is there").1
}

/// The definition `node` refers to, or itself.
fn followed<'a>(root: &'a Value, node: &'a Value) -> &'a Value {
    let name = node["$ref"].as_str().and_then(|path| path.strip_prefix("#/$defs/"));
    name.map_or(node, |name| &root["$defs"][name])
}

#[test]
fn every_example_fits_the_schema() {
    let schema = schema();
    assert_eq!(schema["$schema"], "https://json-schema.org/draft/2020-12/schema");
    let validator = jsonschema::validator_for(&schema).unwrap();
    for (name, text) in examples() {
        let errors: Vec<_> =
            validator.iter_errors(&as_json(&text)).map(|error| error.to_string()).collect();
        assert!(errors.is_empty(), "{name}: {errors:?}");
    }
}

#[test]
fn what_the_schema_refuses_the_parser_refuses_too() {
    let validator = jsonschema::validator_for(&schema()).unwrap();
    let minimal = example("minimal.toml");
    for (right, wrong) in [
        ("bind = ", "bnd = "),
        (":8080", "8080"),
        ("[[listener]]", "[listener]"),
        ("service = \"web\"", ""),
        ("servers = [\"10.0.0.1:80\", \"10.0.0.2:80\"]", ""),
        ("10.0.0.1:80", "10.0.0.1"),
        ("\"10.0.0.1:80\"", "80"),
        ("servers = ", "max_rate = 100\nservers = "),
        ("servers = ", "max_rate = \"100\"\nservers = "),
        ("servers = ", "max_in_flight = 0\nservers = "),
        ("servers = ", "scaler = 0.05\nservers = "),
        ("servers = ", "scaler = 2\nservers = "),
        ("[[service", "[service.web]\npolicy = \"least\"\n[[service"),
        ("[[service", "[cache]\ndisk = { path = \"/var/cache/a\" }\n[[service"),
        ("[[service", "[cache]\ndisk = { size = \"20GiB\" }\n[[service"),
        ("[[service", "[service.web]\nejection = true\n[[service"),
        ("[[service", "[service.web]\nwhen_full = { length = 3 }\n[[service"),
        ("[[service", "[service.web]\nhealth = { tcp = false }\n[[service"),
        ("[[service", "[service.web]\nhealth = { rise = 2 }\n[[service"),
        ("[[service", "[service.web]\nslow_start = \"5\"\n[[service"),
    ] {
        let text = minimal.replacen(right, wrong, 1);
        assert_ne!(text, minimal, "{right}");
        assert!(!validator.is_valid(&as_json(&text)), "the schema accepts {wrong}");
        assert!(parse_with("x", &text, &LocalOnly).is_err(), "the parser accepts {wrong}");
    }
}

#[test]
fn the_example_of_every_key_has_every_key() {
    let schema = schema();
    let mut known = BTreeSet::new();
    keys_of_schema(&schema, &schema, "", &mut known);
    assert!(known.contains("service.*.when_full.queue"), "{known:?}");
    let mut shown = BTreeSet::new();
    keys_of_file(&schema, &schema, &as_json(&example("every-key.toml")), "", &mut shown);
    let absent: Vec<_> = known.difference(&shown).collect();
    assert!(absent.is_empty(), "run: make generated; examples/every-key.toml lacks {absent:?}");
}

/// Each key the schema knows, as a path; `*` for names.
fn keys_of_schema(root: &Value, node: &Value, path: &str, keys: &mut BTreeSet<String>) {
    let node = followed(root, node);
    for (key, value) in node["properties"].as_object().into_iter().flatten() {
        keys.insert(format!("{path}{key}"));
        keys_of_schema(root, value, &format!("{path}{key}."), keys);
    }
    if node["additionalProperties"].is_object() {
        keys_of_schema(root, &node["additionalProperties"], &format!("{path}*."), keys);
    }
    if node["items"].is_object() {
        keys_of_schema(root, &node["items"], path, keys);
    }
    for form in node["oneOf"].as_array().into_iter().flatten() {
        keys_of_schema(root, form, path, keys);
    }
}

/// The keys of a file, as the same paths: the schema says where names stand.
fn keys_of_file(root: &Value, node: &Value, file: &Value, path: &str, keys: &mut BTreeSet<String>) {
    let node = followed(root, node);
    for element in file.as_array().into_iter().flatten() {
        keys_of_file(root, &node["items"], element, path, keys);
    }
    let Some(table) = file.as_object() else { return };
    for form in node["oneOf"].as_array().into_iter().flatten() {
        keys_of_file(root, form, file, path, keys);
    }
    for (key, value) in table {
        if node["properties"][key].is_object() {
            keys.insert(format!("{path}{key}"));
            keys_of_file(root, &node["properties"][key], value, &format!("{path}{key}."), keys);
        } else if node["additionalProperties"].is_object() {
            keys_of_file(root, &node["additionalProperties"], value, &format!("{path}*."), keys);
        }
    }
}

#[test]
fn the_defaults_of_the_schema_are_the_ones_in_force() {
    let schema = schema();
    let sparse = r#"
        [edge]
        [[listener]]
        bind = ":8080"
        service = "web"
        timeouts = {}
        limits = {}
        [service.web]
        when_full = { queue = "1s" }
        health = { http = "/" }
        ejection = {}
        retry = {}
        timeouts = {}
        [[service.web.group]]
        per_server = {}
        servers = [{ address = "10.0.0.1:80" }]
    "#;
    let mut explicit = as_json(sparse);
    let added = fill(&schema, &schema, &mut explicit);
    assert!(added >= 30, "only {added} defaults");
    let explicit = toml::to_string(&explicit).unwrap();
    let expected = parse_with("sparse", sparse, &LocalOnly).unwrap().fleet;
    // The hash has its default although the policy does not hash: that warns, and no more.
    assert_eq!(parse_with("explicit", &explicit, &LocalOnly).unwrap().fleet, expected);
    let none_at_all = "[[listener]]\nbind = \":8080\"\nservice = \"web\"\n\
        [service.web]\nhealth = { http = \"/\" }\n\
        [[service.web.group]]\nservers = [\"10.0.0.1:80\"]";
    assert_eq!(parse_with("none", none_at_all, &LocalOnly).unwrap().fleet, expected);
}

/// Writes the default of every absent key into the tables of `file`; says how many.
fn fill(root: &Value, node: &Value, file: &mut Value) -> usize {
    let node = followed(root, node);
    let forms =
        node["oneOf"].as_array().into_iter().flatten().filter(|form| form["$ref"].is_string());
    let mut added = 0;
    if let Some(list) = file.as_array_mut() {
        return list.iter_mut().map(|element| fill(root, &node["items"], element)).sum();
    }
    if file.is_object() {
        added += forms.map(|form| fill(root, form, file)).sum::<usize>();
    }
    let Some(table) = file.as_object_mut() else { return added };
    for (key, property) in node["properties"].as_object().into_iter().flatten() {
        if let (Some(default), None) = (property.get("default"), table.get(key)) {
            table.insert(key.clone(), default.clone());
            added += 1;
        }
    }
    for (key, value) in table {
        let property = node["properties"].get(key).unwrap_or(&node["additionalProperties"]);
        added += fill(root, property, value);
    }
    added
}
