//! The proxy engine: listeners, sessions, server connections, health probes.
//!
//! One thread per core, each with its own listeners, its own server connections and its own
//! single-threaded runtime; they share the plan and the ledger of the core, and nothing else that
//! is touched by every request. The HTTP/1 codec works on the socket itself.
//!
//! | from the client inwards | |
//! |---|---|
//! | [`engine`], `worker` | the threads |
//! | `doors`, `door`, [`inherit`] | the listeners, and how a reload changes them |
//! | `listener` | takes connections in |
//! | `introduction`, `proxy_protocol` | whose connections they are |
//! | `session` | one client connection: request after request |
//! | `http2` | one client connection: its streams, each as a session of one request |
//! | `rules` | which service it is for, or which answer it gets |
//! | `stream_session`, `client_hello` | one client connection of which nothing is understood |
//! | `exchange`, `driver` | one request: what its machine (`core::request`) says is done |
//! | `attempt` | one request over one server connection |
//! | `relay`, `tunnel` | bodies and upgraded connections |
//! | `pool`, `dial`, `warm` | server connections |
//! | `peer`, `socket`, [`tls`], `buffer`, `pipe`, `timer`, `turn` | bytes, deadlines, fairness |
//! | [`shared`], `view`, `route` | the plan as the workers see it |
//! | [`bounds`] | the most that clients can make it hold |
//! | [`tally`], [`meter`], [`latency`], [`access_log`], `spans` | what is told about it |
//! | [`runtime`] | all of it, with the controller |

// unsafe: three calls about listeners for which no library has a safe function (`kernel`).
#![deny(unsafe_code)]

pub mod access_log;
mod attempt;
mod body_pace;
pub mod bounds;
mod buffer;
mod client_hello;
pub mod clock;
mod dial;
mod door;
mod doors;
mod driver;
pub mod engine;
mod exchange;
mod failure;
mod failures;
mod heads;
mod http2;
mod idle;
mod inbox;
pub mod inherit;
mod introduction;
mod kernel;
pub mod latency;
mod listener;
pub mod meter;
mod mirror;
mod peer;
mod pipe;
mod pool;
mod proxy_protocol;
mod queue;
mod random;
mod reason;
mod relay;
mod request;
mod route;
mod rules;
pub mod runtime;
mod session;
pub mod shared;
mod socket;
mod spans;
mod sticky;
mod stream_session;
pub mod tally;
mod timer;
pub mod tls;
mod tunnel;
mod turn;
mod view;
mod warm;
mod worker;
