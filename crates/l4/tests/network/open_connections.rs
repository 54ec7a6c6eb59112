//! Many connections of a client, and the servers that echo what they say.

use std::{
    collections::BTreeSet,
    net::{Ipv6Addr, SocketAddr},
    sync::mpsc::{Receiver, Sender, channel},
    thread::JoinHandle,
    time::{Duration, Instant},
};

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    net::{TcpListener, TcpStream},
    runtime,
    task::JoinSet,
    time::{sleep, timeout},
};

use crate::host::Host;

/// Lets this process have a socket for each connection, and one for its other end.
pub(crate) fn allow_sockets() {
    let most = getrlimit(Resource::Nofile).maximum;
    setrlimit(Resource::Nofile, Rlimit { current: most, maximum: most }).unwrap();
}

/// Echoes what each connection to a port says, with the number of the server before it.
pub(crate) fn echo(host: &Host, port: u16, number: u8) {
    let (ready, is_ready) = channel();
    drop(host.spawn(move || {
        current_thread().block_on(async {
            let listener = TcpListener::bind((Ipv6Addr::UNSPECIFIED, port)).await.unwrap();
            ready.send(()).unwrap();
            while let Ok((stream, _)) = listener.accept().await {
                tokio::spawn(answer(stream, number));
            }
        });
    }));
    is_ready.recv().unwrap();
}

async fn answer(mut stream: TcpStream, number: u8) {
    let mut said = [0];
    while stream.read_exact(&mut said).await.is_ok() {
        if stream.write_all(&[number, said[0]]).await.is_err() {
            return;
        }
    }
}

/// What connections went through.
#[derive(Debug)]
struct Story {
    /// From the alarm until a connection that had been silent was answered at once.
    resumed: Duration,
    /// Connections that were not answered any more, or by another server.
    lost: usize,
    /// The servers that answered.
    servers: BTreeSet<u8>,
}

/// Connections that are open, until the alarm.
pub(crate) struct OpenConnections {
    opened: Receiver<()>,
    alarm: Sender<()>,
    thread: JoinHandle<Story>,
}

impl OpenConnections {
    /// Opens so many connections to a service, each of which says something once.
    pub(crate) fn open(client: &Host, service: SocketAddr, count: usize) -> Self {
        let (opened, is_open) = channel();
        let (alarm, alarmed) = channel::<()>();
        let thread = client.spawn(move || {
            current_thread().block_on(async {
                let mut all = Vec::with_capacity(count);
                for _ in 0..count {
                    all.push(Line::open(service).await);
                }
                opened.send(()).unwrap();
                // Nothing else is to be done here meanwhile.
                alarmed.recv().unwrap();
                watch(all).await
            })
        });
        Self { opened: is_open, alarm, thread }
    }

    pub(crate) fn is_open(&self) {
        self.opened.recv_timeout(PATIENCE).unwrap();
    }

    fn alarm(&self) {
        self.alarm.send(()).unwrap();
    }

    fn end(self) -> Story {
        self.thread.join().unwrap()
    }
}

/// Says that the balancer is gone, and holds of each set of connections that none broke, that
/// all servers had some, and how soon they were answered again.
pub(crate) fn all_go_on(
    connections: Vec<(String, OpenConnections)>,
    servers: u16,
    within: Duration,
) {
    connections.iter().for_each(|(_, opened)| opened.alarm());
    for (name, opened) in connections {
        let story = opened.end();
        println!("{name}: {story:?}");
        assert_eq!(story.lost, 0, "connections broke: {name}");
        assert_eq!(story.servers.len(), usize::from(servers), "servers used: {name}");
        assert!(story.resumed < within, "{name}: {:?}", story.resumed);
    }
}

/// A connection and the server it is on.
struct Line {
    stream: TcpStream,
    server: u8,
}

impl Line {
    async fn open(service: SocketAddr) -> Self {
        let stream = timeout(PATIENCE, TcpStream::connect(service)).await.unwrap().unwrap();
        stream.set_nodelay(true).unwrap();
        let mut line = Self { stream, server: 0 };
        line.server = line.ask(1).await.unwrap();
        line
    }

    /// The server that answers; none if it is not answered with the same.
    async fn ask(&mut self, word: u8) -> Option<u8> {
        self.stream.write_all(&[word]).await.ok()?;
        let mut answer = [0; 2];
        self.stream.read_exact(&mut answer).await.ok()?;
        (answer[1] == word).then_some(answer[0])
    }

    async fn still_has_its_server(mut self, word: u8) -> (bool, u8) {
        let answer = timeout(PATIENCE, self.ask(word)).await;
        (matches!(answer, Ok(Some(server)) if server == self.server), self.server)
    }
}

/// Lets one connection after another speak, until one is answered before TCP says it again; those
/// that spoke too early must be answered as well, and all that have not spoken yet.
async fn watch(all: Vec<Line>) -> Story {
    let alarm = Instant::now();
    let mut waiting = JoinSet::new();
    let (done, mut at_once) = tokio::sync::mpsc::unbounded_channel();
    let mut all = all.into_iter();
    let resumed = loop {
        let line = all.next().unwrap();
        let done = done.clone();
        waiting.spawn(async move {
            let spoke = Instant::now();
            let outcome = line.still_has_its_server(2).await;
            if outcome.0 && spoke.elapsed() < REPEATED {
                // Somebody may have been first.
                let _ = done.send(alarm.elapsed());
            }
            outcome
        });
        sleep(PACE).await;
        if let Ok(resumed) = at_once.try_recv() {
            break resumed;
        }
    };
    for line in all {
        waiting.spawn(line.still_has_its_server(3));
    }
    let outcomes = waiting.join_all().await;
    let lost = outcomes.iter().filter(|(is_well, _)| !is_well).count();
    Story { resumed, lost, servers: outcomes.into_iter().map(|(_, server)| server).collect() }
}

fn current_thread() -> runtime::Runtime {
    runtime::Builder::new_current_thread().enable_all().build().unwrap()
}

/// Longer than TCP takes on a busy machine, with all its repetitions.
const PATIENCE: Duration = Duration::from_secs(60);

/// Sooner than TCP repeats anything.
const REPEATED: Duration = Duration::from_millis(150);

/// Time between two that speak.
const PACE: Duration = Duration::from_millis(10);
