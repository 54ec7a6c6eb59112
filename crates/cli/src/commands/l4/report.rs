//! `loadline l4 report`: packets received, forwarded and discarded, and what is forwarded a second.

use std::process::ExitCode;

use anyhow::Context as _;
use loadline_core::{
    state::{ForwardedServer, Forwarding, Traffic},
    time::Duration,
};

use crate::commands::{administration::Administration, series};

/// Show how many packets were forwarded and discarded, and why
///
/// Counts are since packet forwarding began; rates are of the last one or two seconds.
#[derive(clap::Args)]
#[command(after_help = AFTER_HELP)]
pub(crate) struct Args {
    /// The admin interface of a running loadline: an address or the path of its socket
    #[arg(value_name = "ADDR", default_value = "127.0.0.1:9090")]
    place: Administration,

    /// Print JSON, as `forwarding` in /api/state
    #[arg(long)]
    json: bool,
}

pub(super) fn run(args: &Args) -> anyhow::Result<ExitCode> {
    let state = args.place.state()?;
    let forwarding = state.forwarding.context(NOTHING)?;
    let text = match args.json {
        true => serde_json::to_string_pretty(&forwarding)? + "\n",
        false => page(&forwarding, Duration::from_secs(state.uptime_s as u64)),
    };
    series::print(&text)?;
    Ok(ExitCode::SUCCESS)
}

fn page(of: &Forwarding, uptime: Duration) -> String {
    let mut lines = vec![match of.is_attached() {
        true => format!("Forwarding on {}, {}, for {uptime}", of.interface, of.mode),
        false => format!("Not forwarding: {} was deleted; see the log", of.interface),
    }];
    let mut line = |what: &str, figure: String| lines.push(format!("{what:<62}{figure:>16}"));
    line("Packets received", grouped(of.sum("").packets));
    line("Packets forwarded", grouped(of.sum("send").packets));
    for (name, what) in FORWARDED {
        told(of, name, what, &mut line);
    }
    line("Packets for nobody here, left to the kernel", grouped(of.sum("pass").packets));
    line("Packets discarded", grouped(of.sum("drop").packets));
    for (name, what) in DISCARDED {
        told(of, name, what, &mut line);
    }
    line("Connections per second", figure(of.rates.connections_per_s));
    line("Packets per second", figure(of.rates.packets_per_s));
    line("Kilobytes per second", figure(of.rates.kilobytes_per_s));
    lines.push(String::new());
    for one in &of.frontends {
        let [address, protocol] = [&one.address, &one.protocol];
        lines.push(format!("{address} {protocol}: {} by {}", one.service, one.method));
    }
    lines.push(String::new());
    lines.extend(servers(&of.servers));
    lines.join("\n") + "\n"
}

/// What was counted by one name, where anything was.
fn told(of: &Forwarding, name: &str, what: &str, line: &mut impl FnMut(&str, String)) {
    let Traffic { packets, .. } = of.verdicts.get(name).copied().unwrap_or_default();
    if packets > 0 {
        line(&format!("  {what} ({name})"), grouped(packets));
    }
}

fn servers(of: &[ForwardedServer]) -> Vec<String> {
    let service = |one: &ForwardedServer| one.service.clone().unwrap_or_else(|| "-".to_owned());
    let width = of.iter().map(|one| one.address.len()).max().unwrap_or(0).max(6);
    let wide = of.iter().map(|one| service(one).len()).max().unwrap_or(0).max(7);
    let head = format!(
        "{:width$}  {:wide$}  {:6}  {:17}  {:8}{:>15}{:>15}{:>15}",
        "server", "service", "method", "link", "", "packets", "connections", "free ports"
    );
    let row = |one: &ForwardedServer| {
        let ports = one.free_ports.map_or_else(|| "-".to_owned(), grouped);
        let link = one.link.as_deref().unwrap_or("unknown");
        let method = one.method.as_deref().unwrap_or("-");
        let [packets, opened] = [grouped(one.packets), grouped(one.opened)];
        let (address, service, condition) = (&one.address, service(one), &one.condition);
        format!(
            "{address:width$}  {service:wide$}  {method:6}  {link:17}  {condition:8}{packets:>15}\
             {opened:>15}{ports:>15}"
        )
    };
    std::iter::once(head).chain(of.iter().map(row)).collect()
}

/// With commas between thousands.
fn grouped(number: u64) -> String {
    let digits = number.to_string();
    let mut text = String::new();
    for (at, digit) in digits.chars().enumerate() {
        if at > 0 && (digits.len() - at).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

fn figure(rate: f64) -> String {
    if rate < 100.0 { format!("{rate:.1}") } else { grouped(rate.round() as u64) }
}

const FORWARDED: [(&str, &str); 5] = [
    ("send-mac", "to servers by their link address"),
    ("send-nat", "to servers from return addresses"),
    ("send-nat-return", "answers of servers to clients"),
    ("send-ipip", "to servers in a tunnel"),
    ("send-icmp", "ICMP errors about flows"),
];

const DISCARDED: [(&str, &str); 11] = [
    ("drop-truncated", "headers too short"),
    ("drop-malformed", "lengths that contradict each other"),
    ("drop-fragment", "fragments"),
    ("drop-options", "IP options or extension headers"),
    ("drop-no-server", "no server is up"),
    ("drop-nat-ports", "no port of a return address is free"),
    ("drop-nat-unknown", "of no known connection"),
    ("drop-nat-full", "no room for the connection"),
    ("drop-ttl", "hops used up"),
    ("drop-too-big", "too big for the tunnel"),
    ("drop-no-room", "no room for the outer header"),
];

/// What is told where nothing is forwarded.
const NOTHING: &str = "nothing is forwarded there: no listener of its file has `forward`";

const AFTER_HELP: &str = "\
Examples:
  loadline l4 report
  loadline l4 report /run/loadline.sock --json | jq .rates

Exit codes: 0 done, 1 wrong usage, 2 the admin interface cannot be reached, or forwards nothing.";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_report_has_a_line_for_all_that_happened_and_none_for_what_did_not() {
        let traffic = |packets| Traffic { packets, bytes: packets * 100 };
        let verdicts = [
            ("pass-other", 5_000),
            ("send-mac", 94_925),
            ("drop-no-server", 50),
            ("drop-nat-ports", 25),
        ];
        let mut of = Forwarding {
            interface: "eth0".to_owned(),
            mode: "native".to_owned(),
            verdicts: verdicts.map(|(name, count)| (name.to_owned(), traffic(count))).into(),
            ..Forwarding::default()
        };
        of.rates.connections_per_s = 1_234.4;
        for method in ["mac", "ipip"] {
            let [service, method] = ["web", method].map(|word| Some(word.to_owned()));
            let address = "10.0.0.1".to_owned();
            of.servers.push(ForwardedServer { address, service, method, ..Default::default() });
        }
        let page = page(&of, Duration::from_secs(90));
        assert!(page.starts_with("Forwarding on eth0, native, for 90s\n"), "{page}");
        let figure = |what: &str| {
            let line = page.lines().find(|line| line.starts_with(what));
            line.map(|line| line[62..].trim().to_owned())
        };
        assert_eq!(figure("Packets received").as_deref(), Some("100,000"));
        assert_eq!(figure("Packets forwarded").as_deref(), Some("94,925"));
        assert_eq!(figure("Packets discarded").as_deref(), Some("75"));
        assert_eq!(figure("  no port of a return address is free").as_deref(), Some("25"));
        assert_eq!(figure("  fragments"), None);
        assert_eq!(figure("Connections per second").as_deref(), Some("1,234"));
        assert!(page.contains("server    service  method  link"), "{page}");
        assert!(page.contains("10.0.0.1  web      mac     unknown"), "{page}");
        assert!(page.contains("10.0.0.1  web      ipip    unknown"), "{page}");
    }

    #[test]
    fn a_report_of_an_interface_that_was_deleted_does_not_claim_to_forward() {
        let (interface, mode) = ("eth0".to_owned(), Forwarding::DETACHED.to_owned());
        let of = Forwarding { interface, mode, ..Forwarding::default() };
        let page = page(&of, Duration::from_secs(90));
        assert!(page.starts_with("Not forwarding: eth0 was deleted; see the log\n"), "{page}");
    }

    #[test]
    fn every_verdict_has_words() {
        let known: Vec<&str> = FORWARDED.iter().chain(&DISCARDED).map(|(name, _)| *name).collect();
        let verdicts = loadline_l4::Verdict::ALL.map(loadline_l4::Verdict::name);
        let told = verdicts.into_iter().filter(|name| !name.starts_with("pass"));
        assert_eq!(told.collect::<Vec<_>>(), known);
    }
}
