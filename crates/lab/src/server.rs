//! What all connections of a worker share.

use std::sync::Mutex;

use loadline_core::time::Instant;
use loadline_http1::Method;

use crate::{
    answer::{After, PreparedResponse, Route},
    config::{Config, Content},
    fault::Faults,
    service::{Service, lock},
    sleep::Sleeper,
    stats::{Counters, Stats},
    unit::Unit,
};

/// The work, the responses and the counts.
pub(crate) struct Server {
    pub(crate) service: Service,
    pub(crate) counters: Counters,
    pub(crate) lenient_health: bool,
    pub(crate) faults: Faults,
    /// What a forwarding unit forwards with; nothing in any other worker.
    pub(crate) unit: Option<Unit>,
    sleeper: Option<Mutex<Sleeper>>,
    served_by: String,
    /// Lines of every head: who answers, and what else is to be said.
    lines: String,
    region: String,
    content: Content,
    /// What is answered to every request for work, but for the utilization.
    answer: PreparedResponse,
    report_utilization: bool,
}

impl Server {
    /// A server as `config` wants it, listening on `port`, that drew `picture` when it began.
    pub(crate) fn new(config: Config, service: Service, port: u16, picture: Vec<u8>) -> Self {
        let served_by = config.name.unwrap_or_else(|| format!("{}/{port}", config.region));
        let answer = match config.content {
            Content::Machine => {
                let machine = served_by.rsplit('/').next().unwrap_or_default();
                PreparedResponse::machine(machine, &config.region, config.pace.service())
            }
            content => PreparedResponse::content(content, picture),
        };
        let mut lines = format!("X-Served-By: {served_by}\r\n");
        for (name, value) in &config.headers {
            lines.extend([name, ": ", value, "\r\n"]);
        }
        let unit = (config.content == Content::Unit).then(|| Unit::new(config.forwarding));
        Self {
            service,
            counters: Counters::new(),
            lenient_health: config.lenient_health,
            faults: Faults::new(config.fault),
            unit,
            sleeper: config.sleep.map(|sleep| Mutex::new(Sleeper::new(sleep))),
            served_by,
            lines,
            region: config.region,
            content: config.content,
            answer,
            report_utilization: config.report_utilization,
        }
    }

    /// The route of a path with or without a query.
    pub(crate) fn route(&self, target: &[u8]) -> Option<Route> {
        match (&self.unit, Route::of(target)) {
            (None, route) | (Some(_), route @ Some(Route::Health | Route::Stats)) => route,
            (Some(unit), _) => {
                let path = target.split(|&byte| byte == b'?').next()?;
                unit.choice(path).map(Route::Forward)
            }
        }
    }

    /// The instant from which a request that comes `now` is worked on.
    pub(crate) fn awake_at(&self, now: Instant) -> Instant {
        self.sleeper.as_ref().map_or(now, |sleeper| lock(sleeper).note_request(now))
    }

    /// The response to a request for work, with what was drawn for it.
    pub(crate) fn work_done(&self, picture: Option<Vec<u8>>) -> PreparedResponse {
        let mut answer = match (picture, self.content) {
            (Some(picture), Content::Mandelbrot) => {
                PreparedResponse::content(Content::Mandelbrot, picture)
            }
            _ => self.answer.clone(),
        };
        if self.report_utilization {
            answer.utilization = self.service.utilization();
        }
        answer
    }

    /// Head and body of a response, as they go out.
    pub(crate) fn wire<'a>(
        &self,
        answer: &'a PreparedResponse,
        method: Method,
        after: After,
    ) -> (String, &'a [u8]) {
        let body: &[u8] = if method == Method::Head { &[] } else { &answer.body };
        (answer.head(&self.lines, after), body)
    }

    /// All counts at this moment.
    pub(crate) fn stats(&self) -> Stats {
        let load = self.service.load(self.counters.open());
        self.counters.stats(&self.served_by, &self.region, load)
    }
}
