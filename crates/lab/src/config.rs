//! What a worker is told to be.

use std::{net::SocketAddr, num::NonZeroU32};

use loadline_core::{
    time::Duration,
    units::{Bytes, Ratio},
};

use crate::{
    fault::Fault,
    sleep::Sleep,
    unit::{Forwarding, Machine},
};

/// Everything about one worker.
#[derive(Clone, Debug)]
pub struct Config {
    /// Where to listen; port 0 lets the system choose one.
    pub listen: SocketAddr,
    /// What is answered.
    pub content: Content,
    /// How long that takes, and how many at a time.
    pub pace: Pace,
    /// Distance to the callers: half of it passes before a request comes to the queue, half after
    /// it has been worked on. It occupies no core.
    pub delay: Duration,
    /// Told in the header `X-Served-By`; `region/port` if omitted.
    pub name: Option<String>,
    /// Further headers of every response, by name.
    pub headers: Vec<(String, String)>,
    /// The region the worker says it is in.
    pub region: String,
    /// Whether `/health-check` is answered as the tutorial's server does: HTTP/1.0, and the end
    /// of the connection instead of the empty line after the head.
    pub lenient_health: bool,
    /// Whether answers carry `endpoint-load-metrics` with the utilization of the cores.
    pub report_utilization: bool,
    /// How it misbehaves; not at all if omitted.
    pub fault: Option<Fault>,
    /// When it falls asleep; never if omitted.
    pub sleep: Option<Sleep>,
    /// The machines behind it, if it is a forwarding unit.
    pub forwarding: Forwarding,
}

impl Config {
    /// A worker with `content` at its usual pace, on a loopback port the system chooses.
    #[must_use]
    pub fn new(content: Content) -> Self {
        Self {
            listen: SocketAddr::from(([127, 0, 0, 1], 0)),
            pace: content.usual_pace(),
            content,
            delay: Duration::ZERO,
            name: None,
            headers: Vec::new(),
            region: "local".to_owned(),
            lenient_health: false,
            report_utilization: false,
            fault: None,
            sleep: None,
            forwarding: Forwarding::default(),
        }
    }

    /// Whether such a worker can be.
    ///
    /// # Errors
    /// What cannot be, and why.
    pub fn check(&self) -> Result<(), ConfigError> {
        for text in self.name.iter().chain([&self.region]) {
            let visible = |byte: u8| byte.is_ascii_graphic() || byte == b' ';
            if text.is_empty() || !text.bytes().all(visible) {
                return Err(ConfigError::Name { text: text.clone() });
            }
        }
        if let Some((name, value)) = self.headers.iter().find(|header| !is_header(header)) {
            return Err(ConfigError::Header { text: format!("{name}: {value}") });
        }
        if let Some(Fault::Status(status)) = self.fault
            && !(200..=599).contains(&status)
        {
            return Err(ConfigError::Status { status });
        }
        if let Some(Fault::Reset(share)) = self.fault
            && share > Ratio::ONE
        {
            return Err(ConfigError::Reset { share });
        }
        self.check_forwarding()?;
        match self.content {
            Content::Fixed { size } if size > LARGEST => return Err(ConfigError::Size { size }),
            _ => {}
        }
        match self.pace.cores() {
            Some(cores) if cores.get() > MOST_CORES => Err(ConfigError::Cores { cores }),
            None if self.report_utilization => Err(ConfigError::NothingToReport),
            _ => Ok(()),
        }
    }

    /// Whether machines stand behind a forwarding unit, each once, and behind nothing else.
    fn check_forwarding(&self) -> Result<(), ConfigError> {
        let machines = &self.forwarding.machines;
        match (self.content, machines.is_empty()) {
            (Content::Unit, true) => return Err(ConfigError::NoMachine),
            (Content::Unit, false) | (_, true) => {}
            (_, false) => return Err(ConfigError::NoUnit),
        }
        let mut paths: Vec<_> = machines.iter().map(Machine::path).collect();
        paths.sort();
        match paths.windows(2).find(|two| two[0] == two[1]) {
            Some(two) => Err(ConfigError::Twice { path: two[0].clone() }),
            None => Ok(()),
        }
    }
}

/// What a worker answers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Content {
    /// The Mandelbrot set as a PNG.
    Mandelbrot,
    /// 50 kB of HTML.
    Page,
    /// `{"hello": "world"}`.
    Json,
    /// So many bytes of text.
    Fixed {
        /// At most 1 GiB.
        size: Bytes,
    },
    /// `{"machine", "region", "work_time"}`: who it is and the milliseconds of its service time.
    Machine,
    /// The answer of one of its machines, with the time it took: see [`Forwarding`].
    Unit,
}

impl Content {
    /// How the published server with this content behaves.
    ///
    /// The tutorial's machine has four virtual processors, that is two cores; it answers in
    /// 380 ms and is full at 5 requests a second. Two cores of 380 ms give 5.26 a second.
    #[must_use]
    pub fn usual_pace(self) -> Pace {
        let two = NonZeroU32::MIN.saturating_add(1);
        match self {
            Self::Mandelbrot => Pace::Cores { cores: two, service: Duration::from_millis(380) },
            Self::Page => Pace::Wait(Duration::from_millis(300)),
            Self::Json => Pace::Wait(Duration::from_millis(100)),
            Self::Fixed { .. } | Self::Unit => Pace::Wait(Duration::ZERO),
            Self::Machine => {
                Pace::Cores { cores: NonZeroU32::MIN, service: Duration::from_millis(20) }
            }
        }
    }
}

/// How long a response takes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Pace {
    /// So long, for any number of requests side by side.
    Wait(Duration),
    /// Virtual cores: `service` on one of `cores`, behind those that came before. Nothing is
    /// computed; the picture was drawn when the worker began.
    Cores {
        /// At most 65,536.
        cores: NonZeroU32,
        /// Time on a core.
        service: Duration,
    },
    /// Threads that compute for every request.
    Burn {
        /// At most 65,536.
        cores: NonZeroU32,
        /// Least processor time of a request.
        service: Duration,
    },
}

impl Pace {
    /// How many requests are worked on at a time, if that is limited.
    #[must_use]
    pub fn cores(self) -> Option<NonZeroU32> {
        match self {
            Self::Wait(_) => None,
            Self::Cores { cores, .. } | Self::Burn { cores, .. } => Some(cores),
        }
    }

    /// How long the work of one request takes.
    #[must_use]
    pub fn service(self) -> Duration {
        match self {
            Self::Wait(time) => time,
            Self::Cores { service, .. } | Self::Burn { service, .. } => service,
        }
    }
}

/// Whether it is a header that can be sent (RFC 9110, 5.5 and 5.6.2), and not one of framing.
fn is_header((name, value): &(String, String)) -> bool {
    let is_token = |byte: u8| byte.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(&byte);
    let frames = ["connection", "content-length", "transfer-encoding"];
    let is_free = !frames.iter().any(|frame| name.eq_ignore_ascii_case(frame));
    let visible = |byte: u8| byte.is_ascii_graphic() || byte == b' ';
    is_free && !name.is_empty() && name.bytes().all(is_token) && value.bytes().all(visible)
}

/// A worker that cannot be.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ConfigError {
    /// A name that is not allowed in a header.
    #[error("`{text}` cannot be a name: use visible ASCII characters")]
    Name {
        /// The name given.
        text: String,
    },
    /// A header that no response can have, or that says where the response ends.
    #[error("`{text}` cannot be a header here: use visible ASCII characters, and no framing")]
    Header {
        /// Name and value given.
        text: String,
    },
    /// More resets than responses.
    #[error("a share of {share} of the responses is too large: at most 100%")]
    Reset {
        /// The share given.
        share: Ratio,
    },
    /// A response that would not fit memory.
    #[error("an answer of {size} is too large: at most {LARGEST}")]
    Size {
        /// The size given.
        size: Bytes,
    },
    /// More cores than any machine has.
    #[error("{cores} cores are too many: at most {MOST_CORES}")]
    Cores {
        /// The number given.
        cores: NonZeroU32,
    },
    /// A status that ends no exchange.
    #[error("{status} is no status to answer with: 200 to 599")]
    Status {
        /// The status given.
        status: u16,
    },
    /// A utilization without cores to be utilized.
    #[error("there is no utilization to report without a number of cores")]
    NothingToReport,
    /// A forwarding unit with nothing behind it.
    #[error("a forwarding unit needs machines: name each with `--worker asia/0=10.0.0.2:80`")]
    NoMachine,
    /// Machines behind a worker that does not forward.
    #[error("only `unit` forwards to machines")]
    NoUnit,
    /// Two machines on one path.
    #[error("the machine {path} is there twice")]
    Twice {
        /// Region and name.
        path: String,
    },
}

const LARGEST: Bytes = Bytes::new(1 << 30);
const MOST_CORES: u32 = 1 << 16;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_usual_workers_can_be() {
        let fixed = Content::Fixed { size: Bytes::new(100) };
        for content in [Content::Mandelbrot, Content::Page, Content::Json, fixed] {
            assert_eq!(Config::new(content).check(), Ok(()));
        }
    }

    #[test]
    fn a_name_that_would_break_the_head_is_refused() {
        for name in ["", "a\r\nSet-Cookie: b", "caf\u{e9}", "\0"] {
            let config = Config { name: Some(name.to_owned()), ..Config::new(Content::Json) };
            assert_eq!(config.check(), Err(ConfigError::Name { text: name.to_owned() }));
        }
    }

    #[test]
    fn a_header_that_would_break_the_response_is_refused() {
        let with = |name: &str, value: &str| {
            let headers = vec![(name.to_owned(), value.to_owned())];
            Config { headers, ..Config::new(Content::Json) }.check().is_ok()
        };
        assert!(with("Cache-Control", "max-age=60"));
        for name in ["", "A B", "Content-Length", "transfer-encoding"] {
            assert!(!with(name, "1"), "{name}");
        }
        assert!(!with("A", "b\r\nC: d"));
    }

    #[test]
    fn a_status_that_is_no_answer_is_refused() {
        let with =
            |status| Config { fault: Some(Fault::Status(status)), ..Config::new(Content::Json) };
        assert_eq!(with(503).check(), Ok(()));
        for status in [0, 100, 199, 600] {
            assert_eq!(with(status).check(), Err(ConfigError::Status { status }));
        }
    }

    #[test]
    fn more_resets_than_responses_are_refused() {
        let with =
            |share| Config { fault: Some(Fault::Reset(share)), ..Config::new(Content::Json) };
        assert_eq!(with(Ratio::ONE).check(), Ok(()));
        let share = Ratio::ppm(1_010_000);
        assert_eq!(with(share).check(), Err(ConfigError::Reset { share }));
    }

    #[test]
    fn what_no_machine_can_do_is_refused() {
        let size = Bytes::new((1 << 30) + 1);
        let large = Config::new(Content::Fixed { size });
        assert_eq!(large.check(), Err(ConfigError::Size { size }));
        let pace = Pace::Cores { cores: NonZeroU32::MAX, service: Duration::ZERO };
        let many = Config { pace, ..Config::new(Content::Mandelbrot) };
        assert_eq!(many.check(), Err(ConfigError::Cores { cores: NonZeroU32::MAX }));
        let reporting = Config { report_utilization: true, ..Config::new(Content::Page) };
        assert_eq!(reporting.check(), Err(ConfigError::NothingToReport));
    }
}
