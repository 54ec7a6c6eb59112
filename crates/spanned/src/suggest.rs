//! "Did you mean": the nearest of the names that would have been right.

/// The name of `names` that `typed` most likely stands for, if any is near enough.
#[must_use]
pub fn nearest<'n, S: AsRef<str>>(typed: &str, names: &'n [S]) -> Option<&'n str> {
    let typed = typed.to_lowercase();
    // A third of the letters may differ: `polcy` is near `policy`, `cat` is not near `dog`.
    let near = (typed.chars().count() / 3).max(1);
    names
        .iter()
        .map(AsRef::as_ref)
        .map(|name| (strsim::osa_distance(&typed, &name.to_lowercase()), name))
        .filter(|(distance, _)| *distance <= near)
        .min_by_key(|(distance, _)| *distance)
        .map(|(_, name)| name)
}

/// A help text: the name that is most likely meant, and all of them.
#[must_use]
pub fn known<S: AsRef<str>>(typed: &str, names: &[S]) -> String {
    expected(nearest(typed, names).map(|name| format!("`{name}`")).as_deref(), names)
}

/// A help text: what is `meant`, if that is known, and all the names.
#[must_use]
pub fn expected<S: AsRef<str>>(meant: Option<&str>, names: &[S]) -> String {
    let quoted: Vec<String> = names.iter().map(|name| format!("`{}`", name.as_ref())).collect();
    let all = match quoted.as_slice() {
        [] => return "nothing is allowed here".to_owned(),
        [_] if meant.is_some() => String::new(),
        [only] => format!("expected {only}"),
        many => format!("expected one of {}", many.join(", ")),
    };
    match meant {
        Some(meant) => format!("did you mean {meant}? {all}").trim_end().to_owned(),
        None => all,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_slip_of_the_finger_finds_its_word() {
        let names = ["policy", "hash", "overflow"];
        assert_eq!(nearest("polcy", &names), Some("policy"));
        assert_eq!(nearest("oveflrow", &names), Some("overflow"));
        assert_eq!(nearest("Hash", &names), Some("hash"));
        assert_eq!(nearest("colour", &names), None);
    }

    #[test]
    fn without_a_near_word_all_are_named() {
        assert_eq!(known("x", &["a1", "b2"]), "expected one of `a1`, `b2`");
        assert_eq!(known::<&str>("x", &[]), "nothing is allowed here");
    }
}
