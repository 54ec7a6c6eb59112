//! `loadline explain`: what becomes of one request, by a configuration file alone.

use std::{
    net::{IpAddr, Ipv4Addr, SocketAddr},
    path::PathBuf,
    process::ExitCode,
};

use loadline_control::explain::{Question, explain};
use loadline_load::Target;

use super::{EXIT_USAGE, report_error, switches::header};

/// Say what becomes of a request: listener, route, limits, order of groups
///
/// Decides as the proxy does, by the file alone: nothing is sent, and no server is asked. Says for
/// each route that is asked before the one that decides which of its conditions does not hold.
#[derive(clap::Args)]
#[command(after_help = AFTER_HELP)]
pub(crate) struct Args {
    /// The configuration
    file: PathBuf,
    /// The request: a URL, or a method and a URL
    #[arg(long, value_name = "[METHOD] URL")]
    request: String,
    /// A header of the request; repeat for more
    #[arg(short = 'H', long = "header", value_name = "NAME: VALUE", value_parser = header)]
    headers: Vec<(String, String)>,
    /// The address of the client
    #[arg(long, value_name = "ADDRESS", default_value_t = Ipv4Addr::LOCALHOST.into())]
    from: IpAddr,
    /// The listener that takes it [the one with the scheme and port of the URL]
    #[arg(long, value_name = "ADDRESS:PORT")]
    listener: Option<SocketAddr>,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

pub(crate) fn run(args: &Args) -> anyhow::Result<ExitCode> {
    let loaded = match loadline_control::load(&args.file) {
        Ok(loaded) => loaded,
        Err(errors) => return Ok(super::print_errors(errors)),
    };
    let asked = question(args).and_then(|asked| Ok(explain(&loaded.fleet, &asked)?));
    let told = match asked {
        Ok(told) => told,
        Err(error) => {
            report_error(&error);
            return Ok(ExitCode::from(EXIT_USAGE));
        }
    };
    let text =
        if args.json { serde_json::to_string_pretty(&told)? + "\n" } else { told.to_string() };
    super::print(&text)?;
    Ok(ExitCode::SUCCESS)
}

fn question(args: &Args) -> anyhow::Result<Question> {
    let request = args.request.trim();
    let (method, url) = request.split_once(' ').unwrap_or(("GET", request));
    let target: Target = url.trim().parse()?;
    Ok(Question {
        method: method.to_owned(),
        is_secure: target.is_secure(),
        authority: target.authority(),
        port: target.port(),
        target: target.path().to_owned(),
        headers: args.headers.clone(),
        client: args.from,
        listener: args.listener,
    })
}

const AFTER_HELP: &str = "\
Examples:
  loadline explain loadline.toml --request https://shop.example.com/cart
  loadline explain loadline.toml --request 'POST http://shop.example.com/api' \\
      -H 'Cookie: beta=1' --from 192.0.2.1

Exit codes: 0 explained, 1 wrong usage, a wrong file, or no listener takes it.";
