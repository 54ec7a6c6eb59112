//! Times to the first byte of HTTP responses, of several targets in turn.
//!
//! The time to first byte is curl's `time_starttransfer`: from before the look-up of the name to
//! the first byte of the response, or of an interim one (1xx) where one comes before it.
//!
//! ```text
//! |- DNS -|- connect -|- TLS -|- request out -|- first byte -|- body -|
//! |<---------------- time to first byte ------------------->|
//! ```
//! Over HTTP/3 the handshake of QUIC, with TLS in it, is the connect. On a kept connection it
//! begins with the request. The body is read to its end, as curl does, and timed apart. Requests go
//! one at a time: nothing waits here for anything else.

use std::{future::Future, pin::Pin};

use loadline_core::time::{Duration, Instant};
use loadline_linux::clock;
use loadline_measure::record::{ProbeKind, ProbeOutcome, ProbeRecord, ProbeSample, ProbeTarget};

use super::{ProbeError, series};
use crate::{Fetched, LoadPlan, Outcome, PlanError, Prober, figures::count_reason};

/// What to ask, how often, and over which connections.
#[derive(Clone, Debug)]
pub struct TtfbPlan {
    /// The request to each target, at least one; of each the first target, the request, the
    /// transport and the timeout matter.
    pub requests: Vec<LoadPlan>,
    /// Requests to each target, at least one.
    pub count: u64,
    /// Between a round of requests, one to each target, and the next; a round that takes longer
    /// delays those after it. Zero is one straight after the other.
    pub interval: Duration,
    /// Whether a connection is kept from one request to the next.
    pub keepalive: bool,
}

impl TtfbPlan {
    /// Whether there is anything to measure.
    ///
    /// # Errors
    /// [`PlanError::Zero`] with what must be above zero.
    pub fn check(&self) -> Result<(), PlanError> {
        match (self.requests.is_empty(), self.count) {
            (true, _) => Err(PlanError::Zero { what: "the number of targets" }),
            (_, 0) => Err(PlanError::Zero { what: "the number of requests" }),
            _ => Ok(()),
        }
    }
}

/// A request that has ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TtfbEvent {
    /// The index of its target in the plan.
    pub target: usize,
    /// What became of it.
    pub sample: ProbeSample,
}

/// Measures the targets of `plan` to its end or until `cancel` ends, telling `tell` each request
/// that ends. For exact times the caller's runtime should have nothing else to do.
///
/// # Errors
/// [`ProbeError`] where it could not begin. Requests that fail are no error: they are counted.
pub async fn ttfb(
    plan: &TtfbPlan,
    mut tell: impl FnMut(&TtfbEvent),
    cancel: impl Future<Output = ()>,
) -> Result<ProbeRecord, ProbeError> {
    plan.check()?;
    let mut lanes = Vec::with_capacity(plan.requests.len());
    for request in &plan.requests {
        lanes.push(Lane::open(request).await?);
    }
    let (started_unix_ms, start) = (clock::unix_millis(), clock::now());
    let mut cancel = std::pin::pin!(cancel);
    let mut interrupted = false;
    let mut due = start;
    'rounds: for _ in 0..plan.count {
        if !wait_until(due, cancel.as_mut()).await {
            interrupted = true;
            break;
        }
        for (target, lane) in lanes.iter_mut().enumerate() {
            let asked = lane.ask(start, plan.keepalive, cancel.as_mut());
            interrupted = !asked.await;
            if let Some(sample) = lane.target.samples.last() {
                tell(&TtfbEvent { target, sample: *sample });
            }
            if interrupted {
                break 'rounds;
            }
        }
        // After a slow round the next ones do not catch up in a burst.
        due = (due + plan.interval).max(clock::now());
    }
    let elapsed = clock::now().since(start);
    let mut targets = Vec::with_capacity(lanes.len());
    for lane in lanes {
        targets.push(lane.finish().await);
    }
    Ok(ProbeRecord {
        probe: ProbeKind::Ttfb,
        started_unix_ms,
        elapsed,
        interval: plan.interval,
        keepalive: plan.keepalive,
        planned: plan.count,
        interrupted,
        targets,
    })
}

/// One target with its series.
struct Lane {
    prober: Prober,
    target: ProbeTarget,
    /// Protocols and addresses that were used, each once.
    protocols: Vec<String>,
    addresses: Vec<String>,
    /// How many look-ups of the name failed, and why the last did.
    unresolved: (u64, String),
}

impl Lane {
    async fn open(request: &LoadPlan) -> Result<Self, ProbeError> {
        let prober = Prober::new(request).await?;
        let target =
            ProbeTarget { target: request.targets[0].0.to_string(), ..ProbeTarget::default() };
        let unresolved = (0, String::new());
        Ok(Self { prober, target, protocols: Vec::new(), addresses: Vec::new(), unresolved })
    }

    /// Sends the next request and notes what becomes of it; false where `cancel` ended first.
    async fn ask(
        &mut self,
        start: Instant,
        keep: bool,
        cancel: Pin<&mut impl Future<Output = ()>>,
    ) -> bool {
        let at = clock::now().since(start);
        let number = self.target.samples.len() as u64 + 1;
        tokio::select! {
            biased;
            fetched = self.prober.fetch(keep) => {
                self.note(number, at, &fetched);
                true
            }
            () = cancel => {
                let outcome = ProbeOutcome::CutOff;
                let cut = ProbeSample { number, at, outcome, ..ProbeSample::default() };
                self.target.samples.push(cut);
                false
            }
        }
    }

    fn note(&mut self, number: u64, at: Duration, fetched: &Fetched) {
        self.target.connections += u64::from(fetched.connect.is_some());
        note_once(&mut self.protocols, fetched.protocol.clone());
        let address = fetched.address.map(|address| address.to_string());
        note_once(&mut self.addresses, address.unwrap_or_default());
        if let Some(why) = &fetched.unresolved {
            self.unresolved = (self.unresolved.0 + 1, why.clone());
        }
        if let Some(reason) = &fetched.reason {
            count_reason(&mut self.target.reasons, reason.clone(), 1);
        }
        self.target.samples.push(sample(number, at, fetched));
    }

    async fn finish(mut self) -> ProbeTarget {
        self.prober.close().await;
        self.target.protocol = self.protocols.join(", ");
        self.target.address = self.addresses.join(", ");
        let (failed, why) = self.unresolved;
        self.target.note = (failed > 0)
            .then(|| format!("of those counted as connect refused {failed} had no address: {why}"));
        series::summarise(&mut self.target);
        self.target
    }
}

fn sample(number: u64, at: Duration, fetched: &Fetched) -> ProbeSample {
    let class = fetched.outcome.map_or_else(|class| class, Outcome::of_status);
    // Everything but the body: also what no phase holds, such as sending the request.
    let time = fetched.total.saturating_sub(fetched.body.unwrap_or_default());
    ProbeSample {
        number,
        at,
        outcome: class.into(),
        status: fetched.outcome.ok(),
        reused: fetched.reused,
        time: fetched.first_byte.map(|_| time),
        dns: fetched.dns,
        connect: fetched.connect,
        tls: fetched.tls,
        first_byte: fetched.first_byte,
        body: fetched.body,
    }
}

fn note_once(seen: &mut Vec<String>, text: String) {
    if !text.is_empty() && !seen.contains(&text) {
        seen.push(text);
    }
}

/// Waits; false where `cancel` ended first.
async fn wait_until(due: Instant, cancel: Pin<&mut impl Future<Output = ()>>) -> bool {
    let wait = due.since(clock::now());
    if wait == Duration::ZERO {
        return true;
    }
    tokio::select! {
        () = tokio::time::sleep(wait.to_std()) => true,
        () = cancel => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Until;
    use tokio::{
        io::{AsyncReadExt as _, AsyncWriteExt as _},
        net::TcpListener,
        time::sleep,
    };

    #[tokio::test]
    async fn requests_after_a_slow_one_keep_their_interval() {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = listener.local_addr().unwrap().to_string();
        let serve = async {
            let mut delay = Duration::from_millis(250);
            loop {
                let (mut stream, _) = listener.accept().await.unwrap();
                let _ = stream.read(&mut [0; 1024]).await.unwrap();
                sleep(std::mem::take(&mut delay).to_std()).await;
                let answer = b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n";
                stream.write_all(answer).await.unwrap();
            }
        };
        let plan = TtfbPlan {
            requests: vec![LoadPlan::closed(&url, 1, Until::Requests(1)).unwrap()],
            count: 4,
            interval: Duration::from_millis(100),
            keepalive: false,
        };
        let record = tokio::select! {
            record = ttfb(&plan, |_| (), std::future::pending()) => record.unwrap(),
            () = serve => unreachable!("it serves for ever"),
        };
        let at: Vec<_> = record.targets[0].samples.iter().map(|sample| sample.at).collect();
        assert!(at.len() == 4 && at[3] >= Duration::from_millis(450), "{at:?}");
    }

    fn fetched(outcome: Result<u16, Outcome>) -> Fetched {
        Fetched {
            outcome,
            first_byte: Some(Duration::from_millis(30)),
            body: Some(Duration::from_millis(200)),
            total: Duration::from_millis(235),
            ..Fetched::default()
        }
    }

    #[test]
    fn the_body_is_no_part_of_the_time_to_first_byte() {
        let sample = sample(1, Duration::ZERO, &fetched(Ok(200)));
        assert_eq!(sample.time, Some(Duration::from_millis(35)));
        assert_eq!(sample.good_time(), sample.time);
        assert_eq!(sample.body, Some(Duration::from_millis(200)));
    }

    #[test]
    fn an_error_page_has_a_time_that_is_not_averaged_and_silence_has_none() {
        let error = sample(1, Duration::ZERO, &fetched(Ok(503)));
        assert_eq!((error.outcome, error.status), (ProbeOutcome::ServerError, Some(503)));
        assert!(error.time.is_some() && error.good_time().is_none());
        let hung = Fetched { first_byte: None, body: None, ..fetched(Err(Outcome::Timeout)) };
        let hung = sample(2, Duration::ZERO, &hung);
        assert_eq!((hung.outcome, hung.time), (ProbeOutcome::Timeout, None));
    }
}
