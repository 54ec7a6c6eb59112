//! `loadline l4 flows`: the flows that are written down.

use std::process::ExitCode;

use loadline_core::{
    fleet::forwarding::Method,
    state::{Flow, FlowEnd, FlowFilter},
};
use serde::Deserialize;

use crate::commands::{administration::Administration, series};

/// List the remembered flows and NAT connections
///
/// With `nat` these are all connections. With `mac` and `ipip` a flow is remembered only if it
/// began or was seen while servers of its service were changing.
#[derive(clap::Args)]
#[command(after_help = AFTER_HELP)]
pub(crate) struct Args {
    /// The admin interface of a running loadline: an address or the path of its socket
    #[arg(value_name = "ADDR", default_value = "127.0.0.1:9090")]
    place: Administration,

    /// Only those of this client: an address, or address and port
    #[arg(long, value_name = "ADDR")]
    client: Option<FlowEnd>,

    /// Only those on this server: an address, or address and port
    #[arg(long, value_name = "ADDR")]
    server: Option<FlowEnd>,

    /// Only those of this service
    #[arg(long, value_name = "NAME")]
    service: Option<String>,

    /// Only those with this method
    #[arg(long, value_parser = ["mac", "nat", "ipip"])]
    method: Option<String>,

    /// Maximum number of entries
    #[arg(long, value_name = "COUNT", default_value_t = 1_000)]
    limit: usize,

    /// Print JSON, as /api/flows has it
    #[arg(long)]
    json: bool,
}

/// What /api/flows answers.
#[derive(Debug, Deserialize)]
struct FlowsResponse {
    flows: Vec<Flow>,
    omitted: usize,
}

pub(super) fn run(args: &Args) -> anyhow::Result<ExitCode> {
    let filter = FlowFilter {
        client: args.client,
        server: args.server,
        service: args.service.clone(),
        method: Method::ALL.into_iter().find(|it| args.method.as_deref() == Some(it.name())),
        limit: Some(args.limit),
    };
    let path = path(&filter);
    let text = match args.json {
        true => {
            let answer: serde_json::Value = args.place.get(&path)?;
            serde_json::to_string_pretty(&answer)? + "\n"
        }
        false => page(&args.place.get(&path)?),
    };
    series::print(&text)?;
    Ok(ExitCode::SUCCESS)
}

/// Where the API has them.
fn path(filter: &FlowFilter) -> String {
    let limit = filter.limit.map(|limit| limit.to_string());
    let method = filter.method.map(|method| method.to_string());
    let [client, server] = [filter.client, filter.server].map(|end| end.map(String::from));
    let pairs = [
        ("client", &client),
        ("server", &server),
        ("service", &filter.service),
        ("method", &method),
        ("limit", &limit),
    ];
    let pairs = pairs.into_iter().filter_map(|(key, value)| value.as_ref().map(|it| (key, it)));
    let pairs: Vec<String> =
        pairs.map(|(key, value)| format!("{key}={}", encoded(value))).collect();
    format!("/api/flows?{}", pairs.join("&"))
}

/// For a query: all but what is never anything else there (RFC 3986, 2.3).
fn encoded(text: &str) -> String {
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || b"-._~".contains(&byte);
    let each = text.bytes().map(|byte| match plain(byte) {
        true => char::from(byte).to_string(),
        false => format!("%{byte:02X}"),
    });
    each.collect()
}

fn page(answer: &FlowsResponse) -> String {
    let head = ["client", "to", "server", "method", "service", "as", "idle", ""];
    let mut rows = vec![head.map(str::to_owned)];
    rows.extend(answer.flows.iter().map(row));
    let mut widths = [0; 8];
    for row in &rows {
        widths.iter_mut().zip(row).for_each(|(width, cell)| *width = cell.len().max(*width));
    }
    let mut text = String::new();
    for row in &rows {
        let cells = row.iter().zip(widths).map(|(cell, width)| format!("{cell:width$}"));
        text += cells.collect::<Vec<_>>().join("  ").trim_end();
        text.push('\n');
    }
    if answer.omitted > 0 {
        text += &format!("and {} more: --limit shows them\n", answer.omitted);
    }
    text
}

fn row(flow: &Flow) -> [String; 8] {
    [
        flow.client.clone(),
        format!("{} {}", flow.frontend, flow.protocol),
        flow.server.clone(),
        flow.method.clone(),
        flow.service.clone(),
        flow.lent.clone().unwrap_or_else(|| "-".to_owned()),
        format!("{:.0} s", flow.idle_s),
        if flow.closed { "closed" } else { "" }.to_owned(),
    ]
}

const AFTER_HELP: &str = "\
Examples:
  loadline l4 flows --service web
  loadline l4 flows --client 10.0.3.7 --method nat
  loadline l4 flows --server 10.0.1.1:80 --json | jq '.flows | length'

Exit codes: 0 done, 1 wrong usage, 2 the admin interface cannot be reached, or has
no such service.";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_asked_for_survives_the_query() {
        let filter = FlowFilter {
            client: Some("[fd00::7]:80".parse().unwrap()),
            method: Some(Method::Ipip),
            limit: Some(9),
            ..FlowFilter::default()
        };
        assert_eq!(path(&filter), "/api/flows?client=%5Bfd00%3A%3A7%5D%3A80&method=ipip&limit=9");
    }

    #[test]
    fn columns_are_as_wide_as_what_is_in_them() {
        let flow = Flow {
            client: "10.0.3.7:4".to_owned(),
            frontend: "10.0.0.100:80".to_owned(),
            protocol: "tcp".to_owned(),
            server: "10.0.1.1:80".to_owned(),
            method: "nat".to_owned(),
            service: "web".to_owned(),
            lent: Some("10.0.0.9:1024".to_owned()),
            closed: true,
            idle_s: 3.4,
        };
        let page = page(&FlowsResponse { flows: vec![flow], omitted: 2 });
        let lines: Vec<&str> = page.lines().collect();
        assert_eq!(
            lines[0],
            "client      to                 server       method  service  as             idle"
        );
        assert_eq!(
            lines[1],
            "10.0.3.7:4  10.0.0.100:80 tcp  10.0.1.1:80  nat     web      10.0.0.9:1024  3 s   \
             closed"
        );
        assert_eq!(lines[2], "and 2 more: --limit shows them");
    }
}
