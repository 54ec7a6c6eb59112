//! Who leads agents: gives each its part, has them begin together, adds up what they counted.

use std::{future::Future, io, pin::pin};

use loadline_core::time::{Duration, Instant};
use loadline_linux::clock;
use loadline_measure::record::LoadRecord;
use tokio::{net::TcpStream, sync::watch, task::JoinSet, time::timeout};

use super::{
    SILENCE,
    clocks::{Ahead, RoundTrip},
    conduct::{Conduct, stopped},
    job::Job,
    link::{self, Ended, Link},
    message::{Order, PartProgress, Report},
    token::Token,
};
use crate::{
    figures::Figures,
    plan::{LoadPlan, Pattern, PlanError, Share},
    run::Progress,
};

/// Why load cannot be sent from agents.
#[derive(Debug, thiserror::Error)]
pub enum AgentError {
    /// The agent cannot be reached.
    #[error("agent {agent}: cannot connect to it; is `loadline agent` running there?")]
    Connect {
        /// Name of the agent.
        agent: String,
        /// What the system said.
        source: io::Error,
    },
    /// The agent has another token.
    #[error("agent {agent}: its token is not ours; give both the same --token-file")]
    Token {
        /// Name of the agent.
        agent: String,
    },
    /// The agent has another version.
    #[error("agent {agent}: it runs loadline {theirs} and this is {ours}; use one version")]
    Version {
        /// Name of the agent.
        agent: String,
        /// Version of loadline that the agent runs.
        theirs: String,
        /// Ours.
        ours: String,
    },
    /// The agent refuses its part, or was lost before it began.
    #[error("agent {agent}: {why}")]
    Refused {
        /// Name of the agent.
        agent: String,
        /// Why.
        why: String,
    },
    /// A limit cannot be dealt out.
    #[error("{what} of {limit} cannot be dealt to {agents} agents: each needs one at least")]
    Few {
        /// Name of the limit.
        what: &'static str,
        /// Value of the limit.
        limit: u32,
        /// How many agents there are.
        agents: u32,
    },
    /// The plan is wrong.
    #[error(transparent)]
    Plan(#[from] PlanError),
}

/// The agents, each with a connection. Dropping the leader ends their runs.
pub struct Leader {
    agents: Vec<Agent>,
    /// The first agent that did not end when it was told, without which no run is what was asked.
    gone: Option<String>,
}

/// An agent as its leader sees it.
pub(super) struct Agent {
    pub(super) name: String,
    link: Link<Order, Report>,
}

impl Leader {
    /// Connects to agents by name: `host`, `host:port` or an address.
    ///
    /// # Errors
    /// [`AgentError`] naming the first that cannot be used.
    pub async fn connect(
        names: &[String],
        token: &Token,
        version: &str,
    ) -> Result<Self, AgentError> {
        let mut agents = Vec::new();
        for name in names {
            agents.push(Agent::connect(name, token, version).await?);
        }
        Ok(Self { agents, gone: None })
    }

    /// Whether each agent can be given a part of the limits of `plan`.
    ///
    /// # Errors
    /// [`AgentError::Few`] where it cannot.
    pub fn check(&self, plan: &LoadPlan) -> Result<(), AgentError> {
        self.parts(plan).map(drop)
    }

    /// Runs `plan`, each agent its part. A run that lost an agent, or in which one fell behind, has
    /// faults that name it. `cancel` ends it; agents that were not ready then are let go.
    ///
    /// # Errors
    /// [`AgentError`] where it could not begin.
    pub async fn measure(
        &mut self,
        plan: &LoadPlan,
        progress: impl Fn(&Progress),
        cancel: impl Future<Output = ()>,
    ) -> Result<LoadRecord, AgentError> {
        plan.check()?;
        if let Some(gone) = &self.gone {
            return Err(agent_error(gone, "it did not end the run before when it was told"));
        }
        let parts = self.parts(plan)?;
        let idle = self.agents.split_off(parts as usize);
        let mut cancel = pin!(cancel);
        let prepared = tokio::select! {
            prepared = self.prepare(plan, parts) => prepared,
            () = &mut cancel => return Ok(Figures::interrupted(plan.lasts()).record(plan)),
        };
        self.agents.extend(idle);
        let ahead = prepared?;
        let wait = ahead.iter().map(|ahead| ahead.error).max().unwrap_or_default();
        let begin = clock::now() + LEAD + wait * 2;
        let mut conduct = Conduct::new(self.agents.drain(..ahead.len()), &ahead, begin);
        conduct.watch(plan, progress, cancel).await;
        let (agents, record) = conduct.conclude(plan, &ahead);
        let is_gone = |name: &&String| !agents.iter().any(|agent| agent.name == **name);
        self.gone = record.agents.iter().map(|agent| &agent.name).find(is_gone).cloned();
        self.agents.splice(..0, agents);
        Ok(record)
    }

    /// How many agents have a part of `plan`.
    fn parts(&self, plan: &LoadPlan) -> Result<u32, AgentError> {
        let agents = u32::try_from(self.agents.len()).unwrap_or(u32::MAX);
        let (parts, in_flight) = match &plan.pattern {
            Pattern::Closed { users, .. } => (agents.min(*users), None),
            Pattern::Open { max_in_flight, .. } => (agents, *max_in_flight),
        };
        let limits = [
            ("a limit in flight (--max-in-flight)", in_flight),
            ("a limit of connections (--connections)", plan.transport.connections),
        ];
        for (what, limit) in limits {
            if let Some(limit) = limit.filter(|limit| *limit < parts) {
                return Err(AgentError::Few { what, limit, agents: parts });
            }
        }
        Ok(parts)
    }

    /// Gives each agent its part, and reads its clock when it is ready.
    async fn prepare(&mut self, plan: &LoadPlan, parts: u32) -> Result<Vec<Ahead>, AgentError> {
        let patience = plan.timeout.to_std().max(SILENCE) * 2;
        let mut preparing = JoinSet::new();
        for (number, mut agent) in (0..).zip(self.agents.drain(..)) {
            let job = Job::of(plan, Share { number, of: parts });
            preparing.spawn(async move {
                let ready = timeout(patience, agent.prepare(job)).await;
                let ready = ready.unwrap_or_else(|_elapsed| {
                    Err(agent_error(&agent.name, "it did not get ready in time"))
                });
                (number, agent, ready)
            });
        }
        let mut prepared = preparing.join_all().await;
        prepared.sort_unstable_by_key(|(number, ..)| *number);
        let mut ahead = Vec::new();
        for (_, agent, ready) in prepared {
            self.agents.push(agent);
            ahead.push(ready);
        }
        let ahead: Result<Vec<_>, _> = ahead.into_iter().collect();
        if ahead.is_err() {
            for agent in &self.agents {
                agent.link.say(Order::Stop).await;
            }
        }
        ahead
    }
}

fn agent_error(agent: &str, why: &str) -> AgentError {
    AgentError::Refused { agent: agent.to_owned(), why: why.to_owned() }
}

impl Agent {
    async fn connect(name: &str, token: &Token, version: &str) -> Result<Self, AgentError> {
        let agent = || name.to_owned();
        let unreachable = |source| AgentError::Connect { agent: agent(), source };
        let connecting = timeout(SILENCE, TcpStream::connect(address(name))).await;
        let stream = connecting.unwrap_or_else(|_| Err(io::ErrorKind::TimedOut.into()));
        let begun = link::lead(stream.map_err(unreachable)?, token, version).await;
        let mut link: Link<Order, Report> = begun.map_err(|why| match why {
            Ended::Token => AgentError::Token { agent: agent() },
            Ended::Version(theirs) => {
                AgentError::Version { agent: agent(), theirs, ours: version.to_owned() }
            }
            why => agent_error(name, &why.to_string()),
        })?;
        match link.next().await {
            Ok((_, Report::Free)) => Ok(Self { name: agent(), link }),
            Ok((_, Report::Refused(why))) => Err(agent_error(name, &why)),
            Ok(_) => Err(agent_error(name, UNASKED)),
            Err(why) => Err(agent_error(name, &why.to_string())),
        }
    }

    async fn prepare(&mut self, job: Job) -> Result<Ahead, AgentError> {
        self.link.say(Order::Job(Box::new(job))).await;
        loop {
            match self.link.next().await {
                Ok((_, Report::Ready)) => break,
                Ok((_, Report::Refused(why))) => return Err(agent_error(&self.name, &why)),
                // The end of a run that was stopped before.
                Ok((_, Report::Done(_) | Report::Progress(_) | Report::Pong(_))) => {}
                Ok((_, Report::Free)) => return Err(agent_error(&self.name, UNASKED)),
                Err(why) => return Err(agent_error(&self.name, &why.to_string())),
            }
        }
        let mut trips = Vec::new();
        for _ in 0..ROUND_TRIPS {
            let sent = clock::now();
            self.link.say(Order::Ping).await;
            match self.link.next().await {
                Ok((received, Report::Pong(theirs))) => {
                    trips.push(RoundTrip { sent, received, theirs });
                }
                Ok((_, Report::Refused(why))) => return Err(agent_error(&self.name, &why)),
                Ok(_) => return Err(agent_error(&self.name, UNASKED)),
                Err(why) => return Err(agent_error(&self.name, &why.to_string())),
            }
        }
        Ahead::of(&trips).ok_or_else(|| agent_error(&self.name, UNASKED))
    }

    /// Has it send from then on, until it is done or says why not.
    pub(super) async fn send(
        &mut self,
        begin: Instant,
        progress: impl Fn(PartProgress),
        mut stop: watch::Receiver<bool>,
    ) -> Result<Figures, String> {
        self.link.say(Order::Begin(begin)).await;
        let mut told = false;
        loop {
            tokio::select! {
                () = stopped(&mut stop), if !told => {
                    told = true;
                    self.link.say(Order::Stop).await;
                }
                report = self.link.next() => match report {
                    Ok((_, Report::Progress(now))) => progress(now),
                    Ok((_, Report::Done(figures))) => return Ok(*figures),
                    Ok((_, Report::Refused(why))) => return Err(why),
                    Ok((_, Report::Free | Report::Ready | Report::Pong(_))) => {
                        return Err(UNASKED.to_owned());
                    }
                    Err(why) => return Err(why.to_string()),
                },
            }
        }
    }
}

/// Where an agent is reached.
fn address(name: &str) -> String {
    let has_port = match name.rsplit_once(':') {
        Some((host, port)) => {
            (!host.contains(':') || host.ends_with(']')) && port.parse::<u16>().is_ok()
        }
        None => false,
    };
    if has_port {
        return name.to_owned();
    }
    let port = super::PORT;
    if name.parse::<std::net::Ipv6Addr>().is_ok() {
        format!("[{name}]:{port}")
    } else {
        format!("{name}:{port}")
    }
}

const UNASKED: &str = "it said what nobody asked";

/// From the order to begin to the beginning: several times the way of an order.
const LEAD: Duration = Duration::from_millis(300);

/// Questions about a clock before each run; the least delay of five is close to the least there is.
const ROUND_TRIPS: usize = 5;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::plan::Until;
    use tokio::{net::TcpListener, time::sleep};

    #[test]
    fn an_agent_is_named_by_its_host_with_or_without_port() {
        for (name, reached) in [
            ("load-1", "load-1:9320"),
            ("load-1:7000", "load-1:7000"),
            ("10.0.0.2", "10.0.0.2:9320"),
            ("::1", "[::1]:9320"),
            ("[::1]:7000", "[::1]:7000"),
        ] {
            assert_eq!(address(name), reached);
        }
    }

    fn token(text: &str) -> Token {
        let file = tempfile::NamedTempFile::new().unwrap();
        std::fs::write(file.path(), text).unwrap();
        Token::read(file.path()).unwrap()
    }

    #[tokio::test]
    async fn an_agent_whose_leader_has_another_token_says_that_the_token_may_differ() {
        let (ours, theirs) = (token("0123456789abcdef\n"), token("fedcba9876543210\n"));
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let names = [listener.local_addr().unwrap().to_string()];
        let follow = async {
            let (stream, _) = listener.accept().await.unwrap();
            let begun: Result<Link<Report, Order>, _> = link::follow(stream, &theirs, "1").await;
            begun.map(drop).unwrap_err().to_string()
        };
        let (led, why) = tokio::join!(Leader::connect(&names, &ours, "1"), follow);
        assert!(matches!(led, Err(AgentError::Token { .. })));
        let told = "it closed the connection when it had our proof; its token may differ from ours";
        assert_eq!(why, told);
    }

    #[tokio::test]
    async fn an_interrupt_is_heard_while_an_agent_does_not_get_ready() {
        let token = token("0123456789abcdef\n");
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let names = [listener.local_addr().unwrap().to_string()];
        let hangs = async {
            let (stream, _) = listener.accept().await.unwrap();
            let link: Link<Report, Order> = link::follow(stream, &token, "1").await.unwrap();
            link.say(Report::Free).await;
            std::future::pending::<()>().await;
        };
        let lead = async {
            let mut leader = Leader::connect(&names, &token, "1").await.unwrap();
            let plan = LoadPlan::closed("localhost", 1, Until::Requests(1)).unwrap();
            let soon = sleep(std::time::Duration::from_millis(100));
            timeout(SILENCE, leader.measure(&plan, |_| (), soon)).await
        };
        let run = tokio::select! {
            run = lead => run.unwrap().unwrap(),
            () = hangs => unreachable!("it hangs"),
        };
        assert!(run.interrupted && run.planned == 0);
    }
}
