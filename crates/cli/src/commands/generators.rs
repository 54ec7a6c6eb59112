//! Where load is sent from: this process, or agents on other machines.

use std::{future::Future, path::PathBuf};

use loadline_load::{
    LoadPlan, Progress,
    agents::{AgentError, Leader, Token, TokenError},
};
use loadline_measure::record::LoadRecord;

use super::{bench::UsageError, stop_signal::StopSignal};

/// The machines that send the load.
#[derive(clap::Args)]
#[command(next_help_heading = "Load from several machines")]
pub(crate) struct With {
    /// Send the load from `loadline agent` on these machines, a part from each, and none from here;
    /// the default port is 9320
    #[arg(long, value_name = "HOST,HOST", value_delimiter = ',', requires = "token_file")]
    #[arg(value_parser = agent)]
    with: Vec<String>,
    /// The file with the token of the agents
    #[arg(long, value_name = "FILE", requires = "with")]
    token_file: Option<PathBuf>,
}

/// Who sends.
pub(crate) enum Generators {
    Here,
    Agents(Leader),
}

impl With {
    /// Whether others send.
    pub(crate) fn is_given(&self) -> bool {
        !self.with.is_empty()
    }

    /// Whether `plan` can be sent by others.
    ///
    /// # Errors
    /// What is of this machine alone.
    pub(crate) fn check(&self, plan: &LoadPlan) -> Result<(), UsageError> {
        let tls = &plan.transport.tls;
        let files = [&tls.authorities, &tls.certificate, &tls.key];
        let own = files.iter().any(|file| file.is_some()) || !plan.transport.sources.is_empty();
        if self.is_given() && own {
            return Err(UsageError::Conflict(
                "--cacert, --cert, --key and --source-address are of this machine, and with \
                 --with others send: give them to `loadline agent` there",
            ));
        }
        Ok(())
    }

    /// Connects to who sends.
    ///
    /// # Errors
    /// [`AgentError`] or [`TokenError`], or that `stop` came first.
    pub(crate) async fn connect(&self, stop: &mut StopSignal) -> anyhow::Result<Generators> {
        let Some(path) = self.token_file.as_deref().filter(|_| self.is_given()) else {
            return Ok(Generators::Here);
        };
        let token = Token::read(path)?;
        tokio::select! {
            leader = Leader::connect(&self.with, &token, VERSION) => {
                Ok(Generators::Agents(leader?))
            }
            () = stop.received() => anyhow::bail!("interrupted before all agents were connected"),
        }
    }
}

impl Generators {
    /// Whether each of them can be given a part of the limits of `plan`.
    ///
    /// # Errors
    /// [`AgentError::Few`] where it cannot.
    pub(crate) fn check(&self, plan: &LoadPlan) -> Result<(), AgentError> {
        match self {
            Self::Here => Ok(()),
            Self::Agents(leader) => leader.check(plan),
        }
    }

    /// Runs `plan` until its end or that of `cancel`.
    ///
    /// # Errors
    /// [`loadline_load::LoadError`] or [`AgentError`], where it cannot begin.
    pub(crate) async fn measure(
        &mut self,
        plan: &LoadPlan,
        progress: impl Fn(&Progress),
        cancel: impl Future<Output = ()>,
    ) -> anyhow::Result<LoadRecord> {
        Ok(match self {
            Self::Here => loadline_load::measure(plan, progress, cancel).await?,
            Self::Agents(leader) => leader.measure(plan, progress, cancel).await?,
        })
    }
}

fn agent(name: &str) -> Result<String, &'static str> {
    let name = name.trim();
    let is_given = !name.is_empty();
    is_given.then(|| name.to_owned()).ok_or("name machines with a comma between: load-1,load-2")
}

/// Whether the command line is to blame.
pub(crate) fn is_usage(error: &anyhow::Error) -> bool {
    matches!(error.downcast_ref(), Some(AgentError::Plan(_) | AgentError::Few { .. }))
        || error.downcast_ref::<TokenError>().is_some()
}

/// Agents of another version are not led: their figures may mean something else.
pub(crate) const VERSION: &str = env!("CARGO_PKG_VERSION");

#[cfg(test)]
mod tests {
    use clap::Parser as _;

    use super::*;

    #[derive(clap::Parser)]
    struct Line {
        #[command(flatten)]
        with: With,
    }

    #[test]
    fn agents_without_a_name_are_wrong_usage() {
        let read = |names| Line::try_parse_from(["x", "--token-file", "token", "--with", names]);
        for names in ["", ",", "load-1,", " "] {
            let told = read(names).map(|line| line.with.with).unwrap_err().to_string();
            assert!(told.contains("load-1,load-2"), "{names}: {told}");
        }
        let line = read("load-1, load-2").unwrap_or_else(|error| panic!("{error}"));
        assert_eq!(line.with.with, ["load-1", "load-2"]);
    }
}
