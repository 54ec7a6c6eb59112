//! "Did you mean": the nearest of the names that would have been right.

/// The name of `names` that `typed` most likely stands for, if any is near enough.
pub(crate) fn nearest<'a>(typed: &str, names: &[&'a str]) -> Option<&'a str> {
    let typed = typed.to_lowercase();
    // A third of the letters may differ: `polcy` is near `policy`, `cat` is not near `dog`.
    let near = (typed.chars().count() / 3).max(1);
    names
        .iter()
        .map(|name| (strsim::osa_distance(&typed, &name.to_lowercase()), *name))
        .filter(|(distance, _)| *distance <= near)
        .min_by_key(|(distance, _)| *distance)
        .map(|(_, name)| name)
}

/// A help text: the nearest name, and all of them.
pub(crate) fn known(typed: &str, names: &[&str]) -> String {
    let quoted: Vec<String> = names.iter().map(|name| format!("`{name}`")).collect();
    let all = match quoted.as_slice() {
        [] => return "nothing may stand here".to_owned(),
        [only] if nearest(typed, names).is_some() => return format!("did you mean {only}?"),
        [only] => format!("only {only} may stand here"),
        many => format!("one of {} may stand here", many.join(", ")),
    };
    match nearest(typed, names) {
        Some(name) => format!("did you mean `{name}`? {all}"),
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
        assert_eq!(known("x", &["a1", "b2"]), "one of `a1`, `b2` may stand here");
        assert_eq!(known("x", &[]), "nothing may stand here");
    }
}
