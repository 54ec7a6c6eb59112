//! `loadline plan ports`.

use loadline_core::{time::Duration, units::Count};
use loadline_measure::{
    formula::{
        FormulaError,
        ports::{PortRange, Ports, RETURN_ADDRESS_PORTS, TABLE_1},
    },
    record::{FormulaRecord, FormulaResult, Quantity},
};

use super::IBM;

/// Connections per second that a range of ports allows
///
/// For a load balancer (--return-addresses, --fin-timeout), a client (the other options), or both.
/// Without options: the rows of the performance study.
#[derive(clap::Args)]
#[command(after_help = AFTER_HELP)]
pub(super) struct Args {
    /// Load balancer: return addresses, each with 64510 ports [1]
    #[arg(long, value_name = "N")]
    return_addresses: Option<u64>,
    /// Load balancer: how long a port is held after its connection has closed [30s]
    #[arg(long, value_name = "TIME")]
    fin_timeout: Option<Duration>,
    /// Client: the ephemeral ports [1024-65000]
    #[arg(long, value_name = "FIRST-LAST", value_parser = range)]
    range: Option<PortRange>,
    /// Client: how long a port is held after its connection has closed [60s]
    #[arg(long, value_name = "TIME")]
    time_wait: Option<Duration>,
    /// Client: source addresses [1]
    #[arg(long, value_name = "N")]
    source_addresses: Option<u64>,
    /// Client: destinations (address and port), each with the whole range of ports [1]
    #[arg(long, value_name = "N")]
    destinations: Option<u64>,
}

impl Args {
    fn balancer(&self) -> Option<Ports> {
        if self.return_addresses.is_none() && self.fin_timeout.is_none() {
            return None;
        }
        let addresses = Count::new(self.return_addresses.unwrap_or(1));
        let fin_timeout = self.fin_timeout.unwrap_or(FIN_TIMEOUT);
        Some(Ports::of_return_addresses(addresses, fin_timeout))
    }

    fn client(&self) -> Option<Ports> {
        let is_asked = self.range.is_some() || self.time_wait.is_some();
        if !is_asked && self.source_addresses.is_none() && self.destinations.is_none() {
            return None;
        }
        let range = self.range.unwrap_or(PortRange::OF_THE_STUDY);
        Some(Ports {
            addresses: Count::new(self.source_addresses.unwrap_or(1)),
            destinations: Count::new(self.destinations.unwrap_or(1)),
            ..Ports::of_client(range, self.time_wait.unwrap_or(TIME_WAIT))
        })
    }
}

pub(super) fn work_out(args: &Args) -> Result<FormulaRecord, FormulaError> {
    let (mut inputs, mut results) = (Vec::new(), Vec::new());
    if let Some(ports) = args.balancer() {
        inputs.extend(balancer_inputs(ports));
        results.push(balancer("load balancer", ports)?);
    }
    if let Some(ports) = args.client() {
        inputs.extend(client_inputs(ports));
        results.push(client("client", ports)?);
    }
    if results.is_empty() {
        results = rows_of_the_study()?;
        inputs = vec![
            count("ports of a return address", RETURN_ADDRESS_PORTS),
            count("ephemeral ports of a client", PortRange::OF_THE_STUDY.count()),
        ];
    }
    Ok(FormulaRecord {
        name: "ports".into(),
        question: "how many connections per second do the ports allow?".into(),
        formula: "CPS = (64510 * Number of Return addresses) / fintimeout\n\
                  ( 65000 – 1024)/60"
            .into(),
        source: format!("{IBM}, sections \"Load Balancer Tuning\" and \"Stress Tool Tuning\""),
        inputs,
        results,
        notes: vec![MEASURED_NOTE.into(), DESTINATION_NOTE.into()],
        curve: None,
    })
}

fn rows_of_the_study() -> Result<Vec<FormulaResult>, FormulaError> {
    let mut results = Vec::new();
    for row in TABLE_1 {
        let name = format!("return addresses {}, fintimeout {}", row.addresses, row.fin_timeout);
        results.push(balancer(&name, Ports::of_return_addresses(row.addresses, row.fin_timeout))?);
    }
    for secs in [60, 30] {
        let ports = Ports::of_client(PortRange::OF_THE_STUDY, Duration::from_secs(secs));
        results.push(client(&format!("client, TIME_WAIT {secs}s"), ports)?);
    }
    Ok(results)
}

fn balancer(name: &str, ports: Ports) -> Result<FormulaResult, FormulaError> {
    let row = TABLE_1
        .iter()
        .find(|row| Ports::of_return_addresses(row.addresses, row.fin_timeout) == ports);
    Ok(per_sec(name, ports)?.published(row.map(|row| row.theoretical)))
}

fn client(name: &str, ports: Ports) -> Result<FormulaResult, FormulaError> {
    let rows = [(60, 1_066.3), (30, 2_132.5)];
    let row = rows.iter().find(|(secs, _)| {
        Ports::of_client(PortRange::OF_THE_STUDY, Duration::from_secs(*secs)) == ports
    });
    Ok(per_sec(name, ports)?.published(row.map(|(_, figure)| *figure)))
}

fn per_sec(name: &str, ports: Ports) -> Result<FormulaResult, FormulaError> {
    Ok(FormulaResult::new(name, ports.rate()?.as_per_sec_f64(), "/s"))
}

fn balancer_inputs(ports: Ports) -> [Quantity; 3] {
    [
        count("ports of a return address", ports.each),
        count("return addresses", ports.addresses),
        Quantity::new("fintimeout", ports.hold.as_secs_f64(), "s"),
    ]
}

fn client_inputs(ports: Ports) -> [Quantity; 4] {
    [
        count("ephemeral ports of a client", ports.each),
        count("source addresses", ports.addresses),
        count("destinations", ports.destinations),
        Quantity::new("TIME_WAIT", ports.hold.as_secs_f64(), "s"),
    ]
}

fn count(name: &str, count: Count) -> Quantity {
    Quantity::new(name, count.get() as f64, "")
}

/// Reads `1024-65000`.
fn range(text: &str) -> Result<PortRange, String> {
    let ports = text
        .split_once('-')
        .and_then(|(first, last)| Some((first.trim().parse().ok()?, last.trim().parse().ok()?)));
    let (first, last) = ports.ok_or("write it like `1024-65000`")?;
    PortRange::new(first, last).map_err(|error| error.to_string())
}

/// "The default value for fintimeout is 30."
const FIN_TIMEOUT: Duration = Duration::from_secs(30);

/// The study's default, and what Linux has built in.
const TIME_WAIT: Duration = Duration::from_secs(60);

const MEASURED_NOTE: &str = "The study measured less than its formula: 4000/s for 4300.7, 1800/s \
    for 2150.3 and 7000/s for 8601.3 (Table 1). It allows one return address per server.";

const DESTINATION_NOTE: &str = "A client of Linux may use a port again for another destination at \
    once: its rate holds for each destination address and port. A proxy is a client of its \
    servers.";

const AFTER_HELP: &str = "\
Examples:
  loadline plan ports
  loadline plan ports --return-addresses 2 --fin-timeout 15s
  loadline plan ports --range 32768-60999 --source-addresses 4 --destinations 2

Exit codes: 0 worked out, 1 wrong usage or an input out of range, 2 could not be printed.";
