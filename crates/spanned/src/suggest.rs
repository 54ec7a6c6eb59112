//! "Did you mean": the nearest of the names that would have been right.

/// The name of `names` that `typed` most likely stands for, if any is near enough.
#[must_use]
pub fn nearest<'n, S: AsRef<str>>(typed: &str, names: &'n [S]) -> Option<&'n str> {
    let typed = typed.to_lowercase();
    // A third of the letters may differ: `polcy` is near `policy`, `cat` is not near `dog`.
    let letters = typed.chars().count();
    let near = (letters / 3).max(1);
    names
        .iter()
        .map(AsRef::as_ref)
        .filter(|name| name.chars().count().abs_diff(letters) <= near)
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

/// A help text: what is `meant`, if that is known, and the names, of many the first ones.
#[must_use]
pub fn expected<S: AsRef<str>>(meant: Option<&str>, names: &[S]) -> String {
    let named = names.iter().take(NAMES_MAX);
    let quoted: Vec<String> = named.map(|name| format!("`{}`", name.as_ref())).collect();
    let all = match quoted.as_slice() {
        [] => return "nothing is allowed here".to_owned(),
        [_] if meant.is_some() => String::new(),
        [only] => format!("expected {only}"),
        many if names.len() == many.len() => format!("expected one of {}", many.join(", ")),
        many => {
            let more = names.len() - many.len();
            format!("expected one of {} and {more} more", many.join(", "))
        }
    };
    match meant {
        Some(meant) => format!("did you mean {meant}? {all}").trim_end().to_owned(),
        None => all,
    }
}

/// More names than a table has keys: all of those are told, but not ten thousand services.
const NAMES_MAX: usize = 40;

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

    #[test]
    fn of_ten_thousand_names_the_nearest_and_forty_are_told() {
        let names: Vec<String> = (0..10_000).map(|nth| format!("service-{nth}")).collect();
        let help = known("servce-9999", &names);
        assert!(help.starts_with("did you mean `service-9999`? expected one of `service-0`"));
        assert!(help.ends_with("`service-39` and 9960 more"), "{help}");
        assert!(known("x", &names[..40]).ends_with("`service-38`, `service-39`"));
    }
}
