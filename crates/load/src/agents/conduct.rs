//! A run of several agents from its beginning to its record.

use std::{future::Future, pin::pin};

use loadline_core::time::{Duration, Instant};
use loadline_linux::clock;
use loadline_measure::record::{AgentRecord, Fault, Generator, LoadRecord};
use tokio::{
    sync::{mpsc, watch},
    task::JoinSet,
    time::{MissedTickBehavior, interval, sleep},
};

use super::{clocks::Ahead, leader::Agent, message::PartProgress};
use crate::{figures::Figures, plan::LoadPlan, run::Progress};

/// What became of the part of an agent.
struct Part {
    number: usize,
    agent: Agent,
    sent: Result<Figures, String>,
    /// When that was known, since the beginning.
    at: Duration,
}

/// A run that is under way.
pub(super) struct Conduct {
    begin: Instant,
    sending: JoinSet<Part>,
    reported: mpsc::UnboundedReceiver<(usize, PartProgress)>,
    stop: watch::Sender<bool>,
    names: Vec<String>,
    parts: Vec<Part>,
    /// Whether the caller ended it.
    cancelled: bool,
}

impl Conduct {
    pub(super) fn new(
        agents: impl Iterator<Item = Agent>,
        ahead: &[Ahead],
        begin: Instant,
    ) -> Self {
        let (told, reported) = mpsc::unbounded_channel();
        let (stop, stopped) = watch::channel(false);
        let (mut sending, mut names) = (JoinSet::new(), Vec::new());
        for ((number, mut agent), ahead) in (0..).zip(agents).zip(ahead) {
            names.push(agent.name.clone());
            let (theirs, told, stopped) = (ahead.theirs(begin), told.clone(), stopped.clone());
            sending.spawn(async move {
                let report = |progress| {
                    let _ = told.send((number, progress));
                };
                let sent = agent.send(theirs, report, stopped).await;
                Part { number, agent, sent, at: clock::now().since(begin) }
            });
        }
        Self { begin, sending, reported, stop, names, parts: Vec::new(), cancelled: false }
    }

    /// Returns when every part is over, well or not; the first that is not ends the others.
    pub(super) async fn watch(
        &mut self,
        plan: &LoadPlan,
        progress: impl Fn(&Progress),
        cancel: impl Future<Output = ()>,
    ) {
        let mut cancel = pin!(cancel);
        // A plan ends by itself; an agent that does not is not waited for without end.
        let longest = plan.lasts_at_most().map(|lasts| lasts + plan.timeout + SLACK);
        let mut overdue = pin!(async {
            match longest {
                Some(longest) => sleep(longest.to_std()).await,
                None => std::future::pending().await,
            }
        });
        let mut stop = self.stop.subscribe();
        let mut given_up = pin!(async {
            stopped(&mut stop).await;
            sleep(SLACK.to_std()).await;
        });
        let mut latest = vec![None; self.names.len()];
        let mut ticks = interval(TICK);
        ticks.set_missed_tick_behavior(MissedTickBehavior::Skip);
        loop {
            tokio::select! {
                () = &mut cancel, if !*self.stop.borrow() => {
                    self.cancelled = true;
                    self.stop.send_replace(true);
                }
                () = &mut overdue, if !*self.stop.borrow() => {
                    self.stop.send_replace(true);
                }
                () = &mut given_up => break,
                Some((number, progress)) = self.reported.recv() => {
                    latest[number] = Some(progress);
                }
                _ = ticks.tick() => {
                    let known: Vec<_> = latest.iter().flatten().cloned().collect();
                    if !known.is_empty() {
                        progress(&PartProgress::together(&known));
                    }
                }
                part = self.sending.join_next() => match part {
                    Some(Ok(part)) => {
                        if part.sent.is_err() {
                            self.stop.send_replace(true);
                        }
                        self.parts.push(part);
                    }
                    Some(Err(_)) => {}
                    None => break,
                },
            }
        }
    }

    /// The agents, and the record of their parts together.
    pub(super) fn conclude(self, plan: &LoadPlan, ahead: &[Ahead]) -> (Vec<Agent>, LoadRecord) {
        let Self { names, mut parts, cancelled, .. } = self;
        parts.sort_unstable_by_key(|part| part.number);
        let mut whole = Figures::new(plan.lasts());
        let mut generator = Generator { sent_share: 1.0, ..Generator::default() };
        let mut records = Vec::new();
        let mut parts = parts.into_iter().peekable();
        let mut agents = Vec::new();
        let stopped = *self.stop.borrow();
        for (number, (name, ahead)) in names.into_iter().zip(ahead).enumerate() {
            let part = parts.next_if(|part| part.number == number);
            let mut record =
                AgentRecord { name, clock_error: ahead.error, ..AgentRecord::default() };
            let (sent, at) = match part {
                Some(Part { agent, sent, at, .. }) => {
                    agents.push(agent);
                    (sent, at)
                }
                None => (
                    Err("it did not end when it was told".to_owned()),
                    clock::now().since(self.begin),
                ),
            };
            match sent {
                Ok(figures) => {
                    let early = figures.interrupted && !stopped;
                    figures.describe(plan, &mut record, &mut generator);
                    if early {
                        generator.faults.push(ended_early(&record.name));
                    }
                    whole.add(figures);
                }
                Err(why) => {
                    whole.interrupted = true;
                    // What ended the run of all comes first.
                    generator.faults.insert(0, lost(&record.name, at, &why));
                    record.lost = Some(why);
                }
            }
            records.push(record);
        }
        whole.interrupted |= cancelled;
        let record = whole.record(plan);
        (agents, LoadRecord { generator, agents: records, ..record })
    }
}

impl Figures {
    /// Writes what the generator that counted these did, and its faults with its name.
    fn describe(&self, plan: &LoadPlan, record: &mut AgentRecord, all: &mut Generator) {
        let own = self.generator(&plan.model());
        (record.planned, record.lag) = (self.planned, self.lag());
        record.sent = record.lag.count;
        (record.sent_share, record.cpu_share) = (own.sent_share, own.cpu_share);
        all.sent_share = all.sent_share.min(own.sent_share);
        all.cpu_share = all.cpu_share.max(own.cpu_share);
        let named = |Fault { what, advice }| Fault {
            what: format!("agent {}: {what}", record.name),
            advice,
        };
        all.faults.extend(own.faults.into_iter().map(named));
    }
}

fn ended_early(agent: &str) -> Fault {
    Fault {
        what: format!("agent {agent} ended its part before the plan did"),
        advice: "give it more time (loadline agent --max-duration)".to_owned(),
    }
}

fn lost(agent: &str, at: Duration, why: &str) -> Fault {
    let seconds = at.as_secs_f64();
    Fault {
        what: format!("agent {agent} was lost {seconds:.1} s after the beginning: {why}"),
        advice: "see on its machine what became of it; the others were stopped".to_owned(),
    }
}

/// Returns when the run is stopped.
pub(super) async fn stopped(stop: &mut watch::Receiver<bool>) {
    if stop.wait_for(|stop| *stop).await.is_err() {
        std::future::pending::<()>().await;
    }
}

/// Extra time to wait for an agent.
const SLACK: Duration = Duration::from_secs(10);

/// As often as a run on this machine says how it stands.
const TICK: std::time::Duration = std::time::Duration::from_millis(500);
