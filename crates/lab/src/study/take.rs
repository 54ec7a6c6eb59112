//! Readings: what a path finds in the output of a phase.

use std::collections::BTreeMap;

use loadline_measure::record::Reading;
use regex::Regex;
use serde_json::Value;

/// A measurement that holds no such reading.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum TakeError {
    /// A part of the path leads nowhere.
    #[error("there is no `{part}` in `{path}`; there is {there}")]
    Absent {
        /// The whole path.
        path: String,
        /// The part that is missing.
        part: String,
        /// The parts that are there.
        there: String,
    },
    /// It leads to a table or a list.
    #[error("`{path}` is {what}, not a figure")]
    NotAFigure {
        /// The whole path.
        path: String,
        /// What it is.
        what: &'static str,
    },
}

/// Everything that `path` leads to: keys and numbers of elements with dots between, `*` for all
/// elements of a list. Elements without the key are left out where `*` led to them.
///
/// # Errors
/// [`TakeError`] where it leads nowhere or to something that is no figure.
pub fn readings(value: &Value, path: &str) -> Result<Vec<Reading>, TakeError> {
    // Outputs of other programs are kept flat: their paths are keys.
    if let Some(value) = value.get(path) {
        return reading(value, path).map(|reading| vec![reading]);
    }
    let mut found = vec![value];
    let mut many = false;
    for part in path.split('.') {
        let mut next = Vec::new();
        for value in &found {
            match (part, value) {
                ("*", Value::Array(list)) => next.extend(list),
                _ => match child(value, part) {
                    Some(child) => next.push(child),
                    None if many => {}
                    None => return Err(absent(value, path, part)),
                },
            }
        }
        many |= part == "*";
        found = next;
    }
    found.into_iter().map(|value| reading(value, path)).collect()
}

/// What regular expressions, each with one group, find first in an output: a value of its own for
/// those found.
pub(crate) fn measure(output: &str, patterns: &BTreeMap<String, Regex>) -> Value {
    let group = |pattern: &Regex| {
        let found = pattern.captures(output)?.get(1)?.as_str().trim().to_owned();
        Some(found.parse::<f64>().map_or(Value::from(found), Value::from))
    };
    let found = patterns.iter().filter_map(|(name, pattern)| Some((name.clone(), group(pattern)?)));
    Value::Object(found.collect())
}

fn child<'v>(value: &'v Value, part: &str) -> Option<&'v Value> {
    match value {
        Value::Object(keys) => keys.get(part),
        Value::Array(list) => part.parse::<usize>().ok().and_then(|index| list.get(index)),
        _ => None,
    }
}

fn reading(value: &Value, path: &str) -> Result<Reading, TakeError> {
    let what = match value {
        Value::Number(number) => return Ok(Reading::Number(number.as_f64().unwrap_or(f64::NAN))),
        Value::String(text) => return Ok(Reading::Text(text.clone())),
        Value::Bool(truth) => return Ok(Reading::Text(truth.to_string())),
        Value::Null => "nothing",
        Value::Array(_) => "a list",
        Value::Object(_) => "a table",
    };
    Err(TakeError::NotAFigure { path: path.to_owned(), what })
}

fn absent(value: &Value, path: &str, part: &str) -> TakeError {
    let there = match value {
        Value::Object(keys) => keys.keys().take(12).cloned().collect::<Vec<_>>().join(", "),
        Value::Array(list) => format!("a list of {}", list.len()),
        Value::Null => "nothing".to_owned(),
        other => other.to_string(),
    };
    TakeError::Absent { path: path.to_owned(), part: part.to_owned(), there }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn a_path_goes_through_keys_and_lists() {
        let record = json!({ "targets": [{ "time": { "p50_ms": 230.5 }, "samples": [
            { "time_ms": 1.0 }, { "outcome": "timeout" }, { "time_ms": 3.0 },
        ] }], "verdict": "network" });
        let number = |number| vec![Reading::Number(number)];
        assert_eq!(readings(&record, "targets.0.time.p50_ms"), Ok(number(230.5)));
        let all = readings(&record, "targets.0.samples.*.time_ms").unwrap();
        assert_eq!(all, [number(1.0), number(3.0)].concat());
        assert_eq!(readings(&record, "verdict"), Ok(vec![Reading::Text("network".into())]));
    }

    #[test]
    fn where_a_path_leads_nowhere_it_says_what_is_there() {
        let record = json!({ "response": { "mean_ms": 1 }, "list": [1, 2] });
        let told = |path| readings(&record, path).unwrap_err().to_string();
        assert!(told("response.mean").ends_with("there is mean_ms"), "{}", told("response.mean"));
        assert!(told("list.7").ends_with("a list of 2"));
        assert_eq!(told("response"), "`response` is a table, not a figure");
    }

    #[test]
    fn patterns_find_figures_in_any_output() {
        let output = "Connection time [ms]: min 369.6 avg 384.5\nReply status: ok now\n";
        let patterns = [("avg", "avg ([0-9.]+)"), ("status", "status: (\\w+)"), ("no", "(zzz)")];
        let patterns =
            patterns.map(|(name, text)| (name.to_owned(), Regex::new(text).unwrap())).into();
        assert_eq!(measure(output, &patterns), json!({ "avg": 384.5, "status": "ok" }));
    }
}
