//! The proxies that are compared, and the command that runs each.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::{Context as _, Result};

use crate::process::Process;

/// A kind of proxy.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    Loadline,
    HaProxy,
    Nginx,
    Envoy,
    Caddy,
}

/// A proxy that runs.
#[derive(Debug)]
pub(crate) struct Proxy {
    pub(crate) kind: Kind,
    pub(crate) port: u16,
    pub(crate) process: Process,
}

/// Where configurations and logs are written, and which binary is measured.
#[derive(Debug)]
pub(crate) struct Workshop {
    pub(crate) directory: PathBuf,
    pub(crate) loadline: PathBuf,
    pub(crate) envoy: PathBuf,
    pub(crate) caddy: PathBuf,
}

impl Kind {
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Loadline => "loadline",
            Self::HaProxy => "haproxy",
            Self::Nginx => "nginx",
            Self::Envoy => "envoy",
            Self::Caddy => "caddy",
        }
    }

    /// What the program says about its version, in one line.
    pub(crate) fn version(self, workshop: &Workshop) -> String {
        let (program, flag) = match self {
            Self::Loadline => (workshop.loadline.as_path(), "--version"),
            Self::HaProxy => (Path::new("haproxy"), "-v"),
            Self::Nginx => (Path::new("nginx"), "-v"),
            Self::Envoy => (workshop.envoy.as_path(), "--version"),
            Self::Caddy => (workshop.caddy.as_path(), "version"),
        };
        let Ok(output) = Command::new(program).arg(flag).output() else {
            return format!("{}: not found", program.display());
        };
        // nginx tells its version on the standard error, Envoy below an empty line.
        let text = [output.stdout, output.stderr].concat();
        let text = String::from_utf8_lossy(&text);
        let line = text.lines().find(|line| !line.is_empty()).unwrap_or_default().trim();
        // Envoy begins with the path by which it was called.
        let path = program.display().to_string();
        match self {
            Self::Envoy => format!("envoy{}", line.strip_prefix(&path).unwrap_or(line)),
            Self::Caddy => format!("caddy {line}"),
            _ => line.to_owned(),
        }
    }
}

impl Workshop {
    /// Whether a proxy could be installed; those of the distribution are.
    pub(crate) fn has(&self, kind: Kind) -> bool {
        match kind {
            Kind::Envoy => self.envoy.exists(),
            Kind::Caddy => self.caddy.exists(),
            Kind::Loadline | Kind::HaProxy | Kind::Nginx => true,
        }
    }

    /// The configuration of a proxy. Envoy and Caddy tell the format by the end of the name.
    pub(crate) fn file(&self, kind: Kind, port: u16) -> PathBuf {
        let end = if matches!(kind, Kind::Envoy | Kind::Caddy) { "json" } else { "conf" };
        self.directory.join(format!("{}-{port}.{end}", kind.name()))
    }

    /// Writes the configuration and starts the proxy with one thread on the given core.
    pub(crate) fn start(&self, kind: Kind, port: u16, config: &str, core: usize) -> Result<Proxy> {
        self.start_with(kind, port, config, core, &[])
    }

    /// The same with further options of the program.
    pub(crate) fn start_with(
        &self,
        kind: Kind,
        port: u16,
        config: &str,
        core: usize,
        options: &[&str],
    ) -> Result<Proxy> {
        let path = self.file(kind, port);
        let config = if kind == Kind::HaProxy { tune(config, &path)? } else { config.to_owned() };
        fs::write(&path, config).with_context(|| format!("write {}", path.display()))?;
        let file = path.display().to_string();
        let [program, envoy, caddy] =
            [&self.loadline, &self.envoy, &self.caddy].map(|path| path.display().to_string());
        let envoy = [&[envoy.as_str()], ENVOY].concat();
        let (first, last): (&[&str], &[&str]) = match kind {
            Kind::Loadline => (&[&program, "serve"], &[&file]),
            Kind::HaProxy => (&["haproxy", "-db"], &["-f", &file]),
            Kind::Nginx => (&["nginx"], &["-c", &file]),
            Kind::Envoy => (&envoy, &["-c", &file]),
            Kind::Caddy => (&[&caddy, "run"], &["--config", &file]),
        };
        let command: Vec<String> =
            [first, options, last].concat().into_iter().map(str::to_owned).collect();
        let log = path.with_extension("log");
        let mut process = Process::start(core, &command, &log)?;
        process.wait_for(port).with_context(|| {
            let said = fs::read_to_string(&log).unwrap_or_default();
            format!("{} with {file} said: {said}", kind.name())
        })?;
        Ok(Proxy { kind, port, process })
    }
}

/// One worker; what would let another process take over is off.
const ENVOY: &[&str] = &["--concurrency", "1", "--disable-hot-restart", "--log-level", "error"];

/// HAProxy 3 keeps more of its memory in the cache of the thread when told to; older ones do not
/// know the setting and refuse it.
fn tune(config: &str, path: &Path) -> Result<String> {
    let tuned = config.replacen("global\n", "global\n    tune.memory.hot-size 33554432\n", 1);
    let trial = path.with_extension("trial");
    fs::write(&trial, &tuned).with_context(|| format!("write {}", trial.display()))?;
    let status = Command::new("haproxy")
        .args(["-c", "-f"])
        .arg(&trial)
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .status()
        .context("start haproxy")?;
    Ok(if status.success() { tuned } else { config.to_owned() })
}
