//! What stands on the loopback: one or two regions of workers, and a proxy in front of them.

use std::{io::Write as _, net::SocketAddr};

use anyhow::Context as _;
use loadline_core::units::Rate;
use tempfile::NamedTempFile;

use super::{
    plan::{CORES, DISTANCE, SERVERS, SERVICE_TIME},
    process::Server,
};

/// Workers and a proxy that are ready; they end when this is dropped.
pub(crate) struct DemoProcesses {
    near: Vec<Server>,
    far: Vec<Server>,
    proxy: Server,
    /// Stays as long as the proxy may read it.
    _config: NamedTempFile,
}

/// One region, or two that are held to their capacity.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Shape {
    /// Three servers near; nothing limits what they are given.
    OneRegion,
    /// Three servers near, three far, each region with a `max_rate`.
    TwoRegions(Rate),
}

impl DemoProcesses {
    /// Starts the workers, then the proxy.
    pub(crate) async fn start(shape: Shape) -> anyhow::Result<Self> {
        let near = region(NEAR).await?;
        let far = match shape {
            Shape::OneRegion => Vec::new(),
            Shape::TwoRegions(_) => region(FAR).await?,
        };
        let text = config(shape, &addresses(&near), &addresses(&far));
        let mut file =
            tempfile::Builder::new().prefix("loadline-demo-").suffix(".toml").tempfile()?;
        file.write_all(text.as_bytes()).context("cannot write the proxy's configuration")?;
        let path = file.path().display().to_string();
        let proxy = Server::start(&["serve".to_owned(), path]).await?;
        Ok(Self { near, far, proxy, _config: file })
    }

    /// Where clients connect.
    pub(crate) fn address(&self) -> SocketAddr {
        self.proxy.address
    }

    /// Kills every server of the near region.
    pub(crate) async fn kill_near(&mut self) -> anyhow::Result<()> {
        for server in &mut self.near {
            server.kill().await?;
        }
        Ok(())
    }

    /// Servers that were started.
    pub(crate) fn servers(&self) -> usize {
        self.near.len() + self.far.len()
    }
}

/// One worker of the tutorial's kind.
pub(crate) async fn worker(region: &str, number: usize) -> anyhow::Result<Server> {
    let delay = if region == FAR { DISTANCE } else { loadline_core::time::Duration::ZERO };
    let args = [
        "worker",
        "mandelbrot",
        "--listen",
        "127.0.0.1:0",
        "--cores",
        &CORES.to_string(),
        "--service-time",
        &SERVICE_TIME.to_string(),
        "--delay",
        &delay.to_string(),
        "--region",
        region,
        "--name",
        &format!("{region}-{number}"),
    ];
    Server::start(&args.map(str::to_owned)).await
}

async fn region(name: &str) -> anyhow::Result<Vec<Server>> {
    let mut servers = Vec::with_capacity(SERVERS);
    for number in 1..=SERVERS {
        servers.push(worker(name, number).await?);
    }
    Ok(servers)
}

fn addresses(servers: &[Server]) -> Vec<SocketAddr> {
    servers.iter().map(|server| server.address).collect()
}

/// The file the proxy serves.
fn config(shape: Shape, near: &[SocketAddr], far: &[SocketAddr]) -> String {
    let head = format!(
        "[edge]\nregion = \"{NEAR}\"\n\n\
         [regions.{FAR}]\nrtt = {{ {NEAR} = \"{DISTANCE}\" }}\n\n\
         [[listener]]\nbind = \"127.0.0.1:0\"\nprotocol = \"http\"\nservice = \"web\"\n\n\
         [service.web]\npolicy = \"least-requests\"\n{HEALTH}\n"
    );
    match shape {
        Shape::OneRegion => head + &group(NEAR, None, near),
        Shape::TwoRegions(max) => {
            head + &group(NEAR, Some(max), near) + &group(FAR, Some(max), far)
        }
    }
}

fn group(region: &str, max_rate: Option<Rate>, servers: &[SocketAddr]) -> String {
    let servers: Vec<String> = servers.iter().map(|server| format!("\"{server}\"")).collect();
    let limit = max_rate.map(|rate| format!("max_rate = \"{rate}\"\n")).unwrap_or_default();
    let servers = servers.join(", ");
    format!("\n[[service.web.group]]\nregion = \"{region}\"\n{limit}servers = [{servers}]\n")
}

/// The region the proxy is in.
pub(crate) const NEAR: &str = "near";
/// The other one.
pub(crate) const FAR: &str = "far";

/// A dead server is known after at most 2 checks of 200 ms; errors of requests eject it sooner.
const HEALTH: &str = "health = { http = \"/health-check\", interval = \"200ms\", \
                      timeout = \"500ms\", rise = 2, fall = 2 }";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_shapes_are_configurations_without_a_warning() {
        let address = |port: u16| SocketAddr::from(([127, 0, 0, 1], port));
        let (near, far) = ([address(1), address(2), address(3)], [address(4), address(5)]);
        for shape in [Shape::OneRegion, Shape::TwoRegions(Rate::per_sec(100))] {
            let text = config(shape, &near, &far);
            let loaded = loadline_control::parse("demo.toml", &text).unwrap();
            assert!(loaded.warnings.is_empty(), "{text}");
            let groups = &loaded.fleet.services[0].groups;
            assert_eq!(groups[0].servers.len(), 3);
            let limited = shape != Shape::OneRegion;
            assert_eq!(groups[0].capacity.max_rate.is_some(), limited);
            assert_eq!(groups.len(), 1 + usize::from(limited));
        }
    }
}
