//! The thread that runs the controller: inputs in, plans, checks and notices out.

use std::{
    io, iter,
    net::{IpAddr, SocketAddr},
    sync::Arc,
    thread::JoinHandle,
};

use loadline_core::{
    decide::{
        controller::{Controller, Input, Notice, Output, Passed},
        ledger::{ServerId, ServerState},
    },
    fleet::{HealthCheck, ServerAddress},
};
use loadline_linux::thread::spawn_essential;
use tokio::{sync::oneshot, task::JoinSet, time::sleep};

use crate::{
    runtime::probe::{Detour, Lane, Way, probe},
    runtime::{inbox::Inbox, shared::Shared, shared_checks},
};

/// Drives a controller until it is stopped.
pub(super) struct Control {
    controller: Controller,
    shared: Arc<Shared>,
    inputs: Arc<Inbox>,
    detour: Option<Arc<dyn Detour>>,
    checks: JoinSet<()>,
}

impl Control {
    /// Starts with a controller whose first plan has been taken. Results of checks are inputs as
    /// well; checks go by the links of forwarded packets where a `detour` sends them.
    pub(super) fn new(
        controller: Controller,
        shared: Arc<Shared>,
        inputs: Arc<Inbox>,
        detour: Option<Arc<dyn Detour>>,
    ) -> Self {
        Self { controller, shared, inputs, detour, checks: JoinSet::new() }
    }

    /// Starts the thread that runs it.
    ///
    /// # Errors
    /// The system's, where a thread or its runtime cannot be had.
    pub(super) fn spawn(self) -> io::Result<ControlThread> {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
        let (stop, stopped) = oneshot::channel();
        let thread = spawn_essential("control", move || runtime.block_on(self.run(stopped)))?;
        Ok(ControlThread { stop: Some(stop), thread: Some(thread) })
    }

    /// Runs until the other end of `stopped` is gone.
    async fn run(mut self, mut stopped: oneshot::Receiver<()>) {
        loop {
            self.drain();
            let now = self.shared.clock.now();
            self.inputs.tell(|| self.controller.known_servers(now));
            let wait = self.controller.next_deadline().map(|deadline| deadline.since(now).to_std());
            let input = tokio::select! {
                input = self.inputs.recv() => input,
                () = sleep(wait.unwrap_or_default()), if wait.is_some() => Input::Tick,
                Some(_) = self.checks.join_next() => continue,
                _ = &mut stopped => return,
            };
            self.handle(input);
        }
    }

    /// Hands over an input and those that wait behind it: where many servers fail at once one plan
    /// follows.
    fn handle(&mut self, input: Input) {
        let (inbox, shared) = (self.inputs.clone(), self.shared.shared_checks().cloned());
        let mut checked = Vec::new();
        let more = iter::from_fn(|| inbox.more());
        let inputs = iter::once(input).chain(more).take(TOGETHER).inspect(|input| {
            if let (Some(_), Input::Checked { server, passed }) = (&shared, input) {
                checked.push((*server, passed.clone()));
            }
        });
        self.controller.handle_all(self.shared.clock.now(), inputs);
        for (shared, (server, passed)) in shared.iter().cycle().zip(checked) {
            shared_checks::tell(shared, &self.controller, server, passed);
        }
    }

    /// What comes in place of a check, where other edges make it.
    fn instead(&self, service: usize, address: SocketAddr, server: ServerId) -> Option<Input> {
        let shared = self.shared.shared_checks()?;
        let name = &self.controller.fleet().services[service].name;
        shared_checks::instead(shared, (name, address), server)
    }

    fn drain(&mut self) {
        while let Some(output) = self.controller.poll() {
            match output {
                Output::Publish(plan) => self.shared.publish(plan),
                Output::Check {
                    server, service, address, check, state, is_ejected, turn, ..
                } => {
                    let asked = (!is_ejected).then(|| self.instead(service, address, server));
                    if let Some(input) = asked.flatten() {
                        self.inputs.send(input);
                        continue;
                    }
                    let way = self.way(service, address.ip(), turn);
                    let results = self.inputs.clone();
                    self.checks.spawn(run_check(state, (address, way), check, results));
                }
                Output::Notice(notice) => log(&notice),
            }
        }
    }

    /// How a check reaches a server of the service at this index.
    fn way(&self, service: usize, server: IpAddr, turn: u16) -> Way {
        let fleet = self.controller.fleet();
        let settings = &fleet.services[service];
        let link = fleet.forwarding.link(service, server, turn);
        let lane = |(link, detour)| Lane { link, detour };
        Way {
            tls: self.shared.keys().service(settings),
            send_proxy: settings.send_proxy,
            version: settings.http_version,
            lane: link.zip(self.detour.clone()).map(lane),
        }
    }
}

/// The thread of a controller. Dropping it ends the checks under way and waits for the thread: none
/// may be in the middle of a handshake while the process ends.
pub(super) struct ControlThread {
    stop: Option<oneshot::Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

impl Drop for ControlThread {
    fn drop(&mut self) {
        self.stop = None;
        // One that panics ends the process itself.
        let _ = self.thread.take().map(JoinHandle::join);
    }
}

async fn run_check(
    server: Arc<ServerState>,
    (address, way): (SocketAddr, Way),
    check: HealthCheck,
    results: Arc<Inbox>,
) {
    let passed = Err("the check panicked, a defect: see the log".to_owned());
    let mut checked = Checked { server, passed, results };
    let result = probe(address, &way, &check).await;
    if let Err(error) = &result {
        tracing::debug!(address = %ServerAddress(address), %error, "check failed");
    }
    checked.passed = result.map_err(|error| error.to_string());
}

/// The result of a check, told when it is dropped. One that panics has failed: a server without a
/// result would never be checked again.
struct Checked {
    server: Arc<ServerState>,
    passed: Result<Passed, String>,
    results: Arc<Inbox>,
}

impl Drop for Checked {
    fn drop(&mut self) {
        let passed = std::mem::replace(&mut self.passed, Err(String::new()));
        self.results.send(Input::Checked { server: self.server.id(), passed });
    }
}

fn log(notice: &Notice) {
    let Notice { service, group, change } = notice;
    use loadline_core::decide::controller::Change::{
        Cut, Down, Drained, Ejected, Limited, Outlier, Recovered, Returned, Silent, Unlimited, Up,
        Yields,
    };
    match change {
        Up(server) => {
            let server = ServerAddress(*server);
            tracing::info!(%service, %group, %server, "server is up");
        }
        Down(server, reason) => {
            let server = ServerAddress(*server);
            tracing::warn!(%service, %group, %server, "server is down: {reason}");
        }
        Ejected(server, time, reason) => {
            let server = ServerAddress(*server);
            tracing::warn!(%service, %group, %server, %time, "server is ejected: {reason}");
        }
        Outlier(server, time, evidence) => {
            let server = ServerAddress(*server);
            tracing::warn!(%service, %group, %server, %time, "server is ejected: {evidence}");
        }
        Silent(server, time) => {
            let server = ServerAddress(*server);
            let reason = "it does not respond";
            tracing::warn!(%service, %group, %server, %time, "server is ejected: {reason}");
        }
        Cut(server, requests) => {
            let server = ServerAddress(*server);
            tracing::warn!(
                %service, %group, %server, requests,
                "drain_timeout exceeded: requests are cut"
            );
        }
        Returned(server) => {
            let server = ServerAddress(*server);
            tracing::info!(%service, %group, %server, "server returns from ejection, on probation");
        }
        Yields(healthy, servers, threshold) => tracing::warn!(
            %service, %group,
            "group is below its failover threshold: {healthy} of {servers} servers healthy, \
             threshold {threshold}"
        ),
        Drained => tracing::info!(%service, %group, "all servers of the group are drained"),
        Recovered => {
            tracing::info!(%service, %group, "group is above its failover threshold again");
        }
        Limited(requests) => {
            tracing::warn!(
                %service, %group, requests,
                "group is full, more requests in flight bring no more responses: limited"
            );
        }
        Unlimited => tracing::info!(%service, %group, "group is not full any more: no limit"),
    }
}

/// Most inputs taken in before their outputs are handled.
const TOGETHER: usize = 1_024;

#[cfg(test)]
mod tests {
    use loadline_core::{
        decide::ledger::Ledger,
        fleet::{
            HttpVersion, Probe,
            forwarding::{self, Method, ServerLink},
        },
        time::Duration,
    };

    use super::*;

    #[test]
    fn the_log_names_a_server_at_a_unix_socket_by_its_path() {
        use loadline_core::decide::controller::Change::{Down, Up};

        let ServerAddress(server) = "unix:/run/app.sock".parse().unwrap();
        let file = tempfile::NamedTempFile::new().unwrap();
        let writer = Arc::new(file.reopen().unwrap());
        let subscriber = tracing_subscriber::fmt().with_ansi(false).with_writer(writer).finish();
        tracing::subscriber::with_default(subscriber, || {
            for change in [Up(server), Down(server, "connection refused".into())] {
                log(&Notice { service: "web".to_owned(), group: "near".to_owned(), change });
            }
        });
        let told = std::fs::read_to_string(file.path()).unwrap();
        assert_eq!(told.matches("server=unix:/run/app.sock").count(), 2, "{told}");
    }

    #[derive(Debug)]
    struct Panicking;

    impl Detour for Panicking {
        fn lend(
            &self,
            _: u16,
            _: (SocketAddr, forwarding::Protocol),
            _: ServerLink,
            _: Duration,
        ) -> io::Result<()> {
            panic!("a defect")
        }
    }

    #[tokio::test]
    async fn a_server_is_checked_again_though_its_check_panicked() {
        let address = SocketAddr::from(([127, 0, 0, 1], 9));
        let server = Ledger::default().server("web", "here", address);
        let id = server.id();
        let time = Duration::from_secs(1);
        let (probe, lenient) = (Probe::Tcp, false);
        let (interval, fast_interval, timeout) = (time, time, time);
        let (rise, fall) = (1, 1);
        let check = HealthCheck { probe, interval, fast_interval, timeout, rise, fall, lenient };
        let link = ServerLink { method: Method::Ipip, service: address.ip() };
        let lane = Some(Lane { link, detour: Arc::new(Panicking) });
        let way = Way { tls: None, send_proxy: None, version: HttpVersion::Http11, lane };
        let results = Arc::new(Inbox::default());
        let checking = tokio::spawn(run_check(server, (address, way), check, results.clone()));
        assert!(checking.await.unwrap_err().is_panic());
        let told = results.recv().await;
        assert!(matches!(told, Input::Checked { passed: Err(_), server: it } if it == id));
    }
}
