//! Placeholders: `{name}` and `{=formula}` in the texts of a study.
//!
//! Configuration files of other programs are full of braces, so a placeholder is only what has no
//! space after its brace: `{edge.address}`, `{loadline}`, `{=10*speed}`. What follows `%` or `$`,
//! such as curl's `%{time_total}`, and anything that no name begins is left as it is.

use std::collections::BTreeMap;

use super::formula::Formula;

/// What placeholders stand for.
pub(crate) type Values = BTreeMap<String, String>;

/// A placeholder that stands for nothing.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum ExpandError {
    /// Nobody knows the name.
    #[error("`{{{name}}}` is unknown")]
    Unknown { name: String },
    /// A value contains itself.
    #[error("`{{{name}}}` stands for itself")]
    Circle { name: String },
    /// A formula cannot be worked out.
    #[error("`{{={formula}}}` cannot be worked out: {why}")]
    Formula { formula: String, why: String },
}

/// The text with every placeholder filled in.
pub(crate) fn expand(text: &str, values: &Values) -> Result<String, ExpandError> {
    expand_at(text, values, 0)
}

fn expand_at(text: &str, values: &Values, depth: usize) -> Result<String, ExpandError> {
    let mut filled = String::with_capacity(text.len());
    let mut rest = text;
    while let Some((before, after)) = rest.split_once('{') {
        filled.push_str(before);
        rest = after;
        let literal = filled.ends_with(['%', '$']);
        match after.split_once('}').filter(|(name, _)| !literal && is_placeholder(name)) {
            Some((name, after)) => {
                filled.push_str(&value(name, values, depth)?);
                rest = after;
            }
            None => filled.push('{'),
        }
    }
    filled.push_str(rest);
    Ok(filled)
}

fn value(name: &str, values: &Values, depth: usize) -> Result<String, ExpandError> {
    if let Some(formula) = name.strip_prefix('=') {
        return compute(formula, values, depth);
    }
    let found = values.get(name).ok_or_else(|| ExpandError::Unknown { name: name.to_owned() })?;
    if depth == DEPTH {
        return Err(ExpandError::Circle { name: name.to_owned() });
    }
    expand_at(found, values, depth + 1)
}

fn compute(text: &str, values: &Values, depth: usize) -> Result<String, ExpandError> {
    let wrong = |why: String| ExpandError::Formula { formula: text.to_owned(), why };
    let formula = Formula::parse(text).map_err(|error| wrong(error.to_string()))?;
    let number = |name: &str| {
        let text = value(name, values, depth)?;
        text.parse::<f64>().map_err(|_| wrong(format!("`{name}` is `{text}`, not a number")))
    };
    let result = formula.value(&number)?;
    if !result.is_finite() {
        return Err(wrong("it is no number".to_owned()));
    }
    // Six decimals are finer than anything here is set, and hide what binary fractions leave.
    let text = format!("{result:.6}");
    Ok(text.trim_end_matches('0').trim_end_matches('.').to_owned())
}

/// Whether what stands between braces is meant as a placeholder.
fn is_placeholder(name: &str) -> bool {
    match name.strip_prefix('=') {
        Some(formula) => !formula.is_empty() && !formula.contains(['\n', '{']),
        None => {
            let fits = |letter: char| letter.is_ascii_alphanumeric() || "._-".contains(letter);
            name.starts_with(|first: char| first.is_ascii_alphabetic()) && name.chars().all(fits)
        }
    }
}

/// Values may stand for texts with placeholders; deeper than this is a circle.
const DEPTH: usize = 8;

#[cfg(test)]
mod tests {
    use super::*;

    fn values() -> Values {
        let pairs = [
            ("loadline", "/usr/bin/loadline"),
            ("edge.address", "10.0.0.2"),
            ("target", "http://{edge.address}/"),
            ("rate", "12.5"),
            ("speed", "10"),
            ("self", "{self}"),
        ];
        pairs.map(|(name, value)| (name.to_owned(), value.to_owned())).into()
    }

    #[test]
    fn names_and_formulas_are_filled_in() {
        let cases = [
            ("{loadline} bench {target}x", "/usr/bin/loadline bench http://10.0.0.2/x"),
            ("--rate {=rate*speed}", "--rate 125"),
            ("{=100/speed}ms", "10ms"),
            ("{=1/3}", "0.333333"),
        ];
        for (text, right) in cases {
            assert_eq!(expand(text, &values()).as_deref(), Ok(right), "{text}");
        }
    }

    #[test]
    fn braces_of_other_languages_stay() {
        let texts = [
            "use_backend far if { be_conn(near) ge 6 }",
            "server { listen 80; }",
            "curl -w %{time_total} ${HOME}",
            "{\"hello\": \"world\"}",
            "rtt = {}",
            "an open { brace",
        ];
        for text in texts {
            assert_eq!(expand(text, &values()).as_deref(), Ok(text));
        }
    }

    #[test]
    fn what_stands_for_nothing_is_told() {
        let cases = [
            ("{edge}", "`{edge}` is unknown"),
            ("{self}", "`{self}` stands for itself"),
            ("{=rate*}", "cannot be worked out: it ends"),
            ("{=target*2}", "`target` is `http://10.0.0.2/`, not a number"),
            ("{=1/0}", "no number"),
        ];
        for (text, told) in cases {
            let error = expand(text, &values()).unwrap_err().to_string();
            assert!(error.contains(told), "{text}: {error}");
        }
    }
}
