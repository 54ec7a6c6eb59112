//! Three regions over sockets: budgets are used up before requests overflow.

use serde_json::Value;

use crate::{
    counts::answered,
    process::{Process, file, loadline},
};

/// 30/s at random for 15 s, of which the near group earns 105 and the second 195. Without what a
/// budget saves for random arrivals they were given 85 and 122.
#[test]
fn the_second_region_is_given_only_what_the_first_has_no_rate_for() {
    let workers = [Process::fixed(), Process::fixed(), Process::fixed()];
    let rates = [("a", 0, 7), ("b", 30, 13), ("c", 60, 40)];
    let group = |(worker, (region, rtt, rate)): (&Process, &(&str, u64, u64))| {
        let address = &worker.address;
        format!(
            "[[service.web.group]]\nregion = \"{region}\"\nrtt = \"{rtt}ms\"\n\
             max_rate = \"{rate}/s\"\nservers = [\"{address}\"]\n"
        )
    };
    let groups: String = workers.iter().zip(&rates).map(group).collect();
    let text = format!(
        "[edge]\nregion = \"a\"\n[[listener]]\nbind = \"127.0.0.1:0\"\nservice = \"web\"\n\
         [service.web]\n{groups}"
    );
    let proxy = Process::start(&["serve", file("excess.toml", &text).to_str().unwrap()]);
    let url = proxy.url("/");
    let load = ["--rate", "30", "--arrivals", "poisson", "--seed", "1", "--requests", "450"];
    let bench = loadline(&["bench", &url, "--json", "--quiet"]).args(load).output().unwrap();
    let record: Value = serde_json::from_slice(&bench.stdout).unwrap();
    assert_eq!(record["outcomes"]["ok"], 450, "{record}");
    let given = workers.each_ref().map(answered);
    assert_eq!(given.iter().sum::<u64>(), 450);
    assert!((94..=140).contains(&given[0]), "{given:?} of 105, 195 and 600");
    assert!((165..=230).contains(&given[1]), "{given:?} of 105, 195 and 600");
}
