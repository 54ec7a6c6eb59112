//! What a study becomes: placeholders filled in, loops unrolled, links for every pair.

use loadline_core::{time::Duration, units::Ratio};
use loadline_lab::study::{Mode, Places, Study, Verb};

use super::{SMALLEST, study};

#[test]
fn every_value_and_repetition_is_a_step_of_its_own() {
    let plan = study(SMALLEST).plan("loadline", &Places::default());
    let steps: Vec<_> = plan.steps.iter().map(loadline_lab::study::Step::title).collect();
    let right = [
        "first-byte, n 10, run 1", "first-byte, n 10, run 2", "first-byte, n 20, run 1",
        "first-byte, n 20, run 2",
    ];
    assert_eq!(steps, right);
    let last = plan.steps[3].command.as_ref().unwrap();
    assert_eq!(last.host, "client");
    let line = "loadline ttfb http://10.0.0.2/ -n 20 --json";
    assert_eq!(last.arguments.join(" "), line);
    assert_eq!(plan.programs[0].command.arguments[4], "10.0.0.2:80");
}

#[test]
fn a_round_trip_is_half_each_way() {
    let plan = study(SMALLEST).plan("loadline", &Places::default());
    let delays: Vec<_> = plan.topology.links.iter().map(|link| link.delay).collect();
    assert_eq!(delays, [Duration::from_millis(5); 2]);
    assert_eq!(plan.topology.check(), Ok(()));
}

#[test]
fn quick_is_faster_by_the_speed_and_replaces_what_it_says() {
    let text = SMALLEST
        .replace("title =", "quick = { speed = 10 }\ntitle =")
        .replace("\"10ms\"", "\"{=10/speed}ms\"")
        .replace("repeat = 2", "repeat = 2\nquick = { repeat = 1, for = { n = [3] } }");
    let quick = Study::parse("study.toml", &text, Mode::Quick).unwrap();
    let plan = quick.plan("loadline", &Places::default());
    assert_eq!(plan.topology.links[0].delay, Duration::from_micros(500));
    let steps: Vec<_> = plan.steps.iter().map(loadline_lab::study::Step::title).collect();
    assert_eq!(steps, ["first-byte, n 3, run 1"]);
    let full = study(&text).plan("loadline", &Places::default());
    assert_eq!(full.topology.links[0].delay, Duration::from_millis(5));
    assert_eq!(full.steps.len(), 4);
}

#[test]
fn a_phase_that_judges_a_short_time_is_stricter_than_its_study() {
    let text = SMALLEST
        .replace("[host.client]", "[limits]\nlateness = \"2ms\"\nsteal = \"9%\"\n[host.client]")
        .replace("repeat = 2", "repeat = 2\nlimits = { lateness_p90 = \"{n}us\" }");
    let plan = study(&text).plan("loadline", &Places::default());
    let late: Vec<_> = plan.steps.iter().map(|step| step.tolerance.late_p90).collect();
    assert_eq!(late, [10, 10, 20, 20].map(Duration::from_micros));
    let first = &plan.steps[0].tolerance;
    assert_eq!((first.late_p99, first.steal), (Duration::from_millis(2), Ratio::percent(9)));
}

#[test]
fn rows_have_programs_values_and_hosts_of_their_own() {
    let text = SMALLEST
        .replace(
            "[host.client]",
            "[tool.nginx]\n[row.loadline]\nvalues = { kind = \"fixed\" }\n\
             [row.nginx]\npeer = \"nginx\"\nvalues = { kind = \"json\" }\n\
             [host.extra]\nrows = [\"nginx\"]\n[host.client]",
        )
        .replace("\"fixed\", \"--listen\"", "\"{kind}\", \"--listen\"");
    let study = study(&text);
    let plan = |row| study.plan(row, &Places::default());
    assert_eq!(plan("loadline").programs[0].command.arguments[2], "fixed");
    assert_eq!(plan("nginx").programs[0].command.arguments[2], "json");
    assert_eq!(plan("loadline").topology.hosts.len(), 2);
    assert_eq!(plan("nginx").topology.hosts.len(), 3);
    // Addresses are those of the file, so that a row more changes none.
    let client = &plan("loadline").topology.hosts[0];
    assert_eq!(client.addresses[0].to_string(), "10.0.0.2");
    assert_eq!(study.rows()[1].peer.as_deref(), Some("nginx"));
    assert_eq!(study.tools()[0].install, "apt-get install nginx");
}

#[test]
fn hosts_on_an_ethernet_know_each_other_by_their_addresses_there() {
    let text = SMALLEST
        .replace("[host.client]", "[host.client]\nethernet = \"10.1.0.1/24\"")
        .replace("[host.server]", "[host.server]\nethernet = \"10.1.0.2/24\"")
        .replace("http://{server.address}/", "http://{server.ethernet}/");
    let plan = study(&text).plan("loadline", &Places::default());
    assert_eq!(plan.steps[0].command.as_ref().unwrap().arguments[2], "http://10.1.0.2/");
    let (network, hosts) = &plan.topology.ethernets()[0];
    assert_eq!((network.to_string().as_str(), hosts.as_slice()), ("10.1.0.0/24", &[0, 1][..]));
}

#[test]
fn the_last_link_that_fits_is_the_one() {
    let text = SMALLEST
        .replace("[host.client]", "[host.client]\nregion = \"eu\"\n[host.other]\nregion = \"eu\"")
        .replace("[host.server]", "[host.server]\nregion = \"us\"")
        .replace(
            "[\"client\", \"server\"]\nrtt = \"10ms\"",
            concat!(
                "[\"eu\", \"us\"]\nrtt = \"100ms\"\nrate = \"8Mb/s\"\nloss = \"1%\"\n",
                "[[link]]\nbetween = [\"server\", \"client\"]\nrtt = \"10ms\"",
            ),
        );
    let plan = study(&text).plan("loadline", &Places::default());
    let topology = &plan.topology;
    let link = |from: &str, to: &str| {
        let (from, to) = (topology.host(from).unwrap(), topology.host(to).unwrap());
        *topology.links.iter().find(|link| (link.from, link.to) == (from, to)).unwrap()
    };
    assert_eq!(link("client", "server").delay, Duration::from_millis(5));
    assert_eq!(link("client", "server").loss, Ratio::ZERO);
    assert_eq!(link("server", "other").delay, Duration::from_millis(50));
    assert_eq!(link("server", "other").loss, Ratio::percent(1));
    assert_eq!(link("server", "other").limit.unwrap().rate.as_megabits_f64(), 8.0);
    assert_eq!(link("client", "other").delay, Duration::ZERO);
}

#[test]
fn a_host_is_cut_off_by_its_links_and_joined_by_them() {
    let text = SMALLEST.replace(
        "repeat = 2",
        "before = [{ cut = \"server\" }, { join = \"server\" }]\n\
         during = [{ at = \"2s\", kill = \"web\" }, { at = \"1s\", \
         link = [\"client\", \"server\"], rtt = \"30ms\" }]",
    );
    let plan = study(&text).plan("loadline", &Places::default());
    let step = &plan.steps[0];
    let losses = |verb: &Verb| match verb {
        Verb::Link(_, links) => links.iter().map(|link| link.loss).collect::<Vec<_>>(),
        other => panic!("{other:?}"),
    };
    assert_eq!(losses(&step.before[0]), [Ratio::ONE; 2]);
    assert_eq!(losses(&step.before[1]), [Ratio::ZERO; 2]);
    let words = [&step.before[0], &step.before[1], &step.during[0].verb].map(Verb::to_string);
    assert_eq!(words, ["cut server", "join server", "link client, server"], "as written");
    let Verb::Link(_, links) = &step.during[0].verb else { panic!("{:?}", step.during) };
    assert_eq!(links[1].delay, Duration::from_millis(15));
    assert_eq!(step.during[1].verb, Verb::Kill(vec!["web".to_owned()]));
}

#[test]
fn the_first_study_of_the_documentation_is_right() {
    let page = include_str!("../../../../docs/lab.md");
    let text = page.split("```toml\n").nth(1).unwrap().split("```").next().unwrap();
    let plan = study(text).plan("loadline", &Places::default());
    assert_eq!((plan.programs.len(), plan.steps.len()), (1, 1));
}
