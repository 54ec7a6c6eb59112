//! "Did you mean": the nearest of the names that would have been right, or the one by which other
//! load balancers call the same thing.

mod elsewhere;
mod foreign;

pub(crate) use elsewhere::key;

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

/// A help text: the name that is most likely meant, and all of them.
pub(crate) fn known(typed: &str, names: &[&str]) -> String {
    let meant = meant(typed, names);
    let quoted: Vec<String> = names.iter().map(|name| format!("`{name}`")).collect();
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

/// "`maglev` with hash = \"client-address\"": what `typed` most likely stands for among `names`.
fn meant(typed: &str, names: &[&str]) -> Option<String> {
    let foreign = foreign::meanings(typed).find(|(ours, _)| names.contains(ours));
    let (name, with) = foreign.or_else(|| Some((nearest(typed, names)?, "")))?;
    Some(if with.is_empty() { format!("`{name}`") } else { format!("`{name}` {with}") })
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
    fn a_word_of_another_load_balancer_finds_ours_where_it_may_stand() {
        let policies = ["round-robin", "least-requests", "maglev"];
        let told = "did you mean `least-requests`? expected one of";
        assert!(known("leastconn", &policies).starts_with(told));
        assert!(known("LEAST_REQUEST", &policies).contains("did you mean `least-requests`?"));
        let hashed = "did you mean `maglev` with hash = \"client-address\"?";
        assert!(known("ip_hash", &policies).starts_with(hashed));
        assert!(!known("leastconn", &["http", "tcp"]).contains("did you mean"));
    }

    #[test]
    fn without_a_near_word_all_are_named() {
        assert_eq!(known("x", &["a1", "b2"]), "expected one of `a1`, `b2`");
        assert_eq!(known("x", &[]), "nothing is allowed here");
    }
}
