//! "Did you mean" for a configuration: the nearest of its names, or the one by which other load
//! balancers call the same thing.

mod elsewhere;
mod foreign;
mod places;
mod tables;

use loadline_spanned::{FileKind, Problems, expected, nearest};

use crate::masked::masked;

/// What is read here.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Configuration {}

impl FileKind for Configuration {
    const NAME: &'static str = "configuration";
    const REFERENCE: &'static str =
        "see `loadline schema` or docs/configuration.md for what is allowed";

    fn known(typed: &str, names: &[&str]) -> String {
        known(typed, names)
    }

    fn key(typed: &str, names: &[&str]) -> String {
        elsewhere::help_for_misplaced_key(typed, names)
    }

    fn shown(text: String) -> String {
        masked(&text)
    }

    fn is_secret(path: &[&str]) -> bool {
        path.windows(2).any(|keys| keys == ["basic_auth", "users"])
    }

    fn table(path: &[&str]) -> Option<&'static str> {
        tables::short(path)
    }
}

/// A help text: the name that is most likely meant, and all of them.
pub(crate) fn known(typed: &str, names: &[&str]) -> String {
    expected(meant(typed, names).as_deref(), names)
}

/// As [`known`], of a name that a file may have everywhere. For each of further errors than are
/// printed, no name is compared with all that there are.
pub(crate) fn known_among(problems: &Problems, typed: &str, names: &[&str]) -> String {
    if problems.are_many() { expected(None, names) } else { known(typed, names) }
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
    fn a_policy_of_another_load_balancer_finds_ours() {
        let policies = [
            "round-robin", "random", "least-requests", "power-of-two", "lowest-latency",
            "latency-weighted", "peak-ewma", "prequal", "maglev", "bounded-hash", "managed",
        ];
        for (typed, ours) in [
            ("random_choice", "`random`"),
            ("weighted_least_request", "`least-requests`"),
            ("first", "`least-requests` with a `priority` for each of its servers"),
            ("sticky", "`least-requests` and a table `sticky`"),
            ("power-of-two-choices", "`power-of-two`"),
            ("p2c_ewma", "`peak-ewma`"),
            ("maglev_hash", "`maglev`"),
            ("hdr(host)", "`maglev` with hash = { header = \"host\" }"),
        ] {
            let told = known(typed, &policies);
            assert!(told.starts_with(&format!("did you mean {ours}?")), "{typed}: {told}");
        }
    }
}
