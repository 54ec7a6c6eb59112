//! HTTP: client connections, and each of their requests from head to end.
//!
//! | | |
//! |---|---|
//! | `acme` | responses to an authority that verifies a name |
//! | `session` | a client connection: request after request |
//! | `rules`, `route` | which service a request is for, or which response it gets at once |
//! | `reply` | a response that a rule gives |
//! | `basic_auth`, `passwords`, `jwt` | who a request says it is from, and whether that is true |
//! | `forward_auth` | whom a service lets in |
//! | `max_forwards` | how many proxies a request may still pass |
//! | `request`, `request_id` | a request as it will be sent, and what it is known by |
//! | `sticky` | sessions that a cookie keeps on one server |
//! | `exchange` | one request: does what its machine (`core::decide::request`) says |
//! | `driver` | hands the machine its plan, wait queue and clock |
//! | `attempt`, `failure` | one request over one server connection, and how that failed |
//! | `relay`, `body_pace` | one direction of a body, and how slow a client may be about its own |
//! | `compress` | compresses responses on their way |
//! | `mirror` | copies of requests for another service |

pub(crate) mod acme;
pub(crate) mod attempt;
pub(crate) mod basic_auth;
pub(crate) mod body_pace;
pub(crate) mod compress;
pub(crate) mod driver;
pub(crate) mod exchange;
pub(crate) mod failure;
pub(crate) mod forward_auth;
pub(crate) mod jwt;
pub(crate) mod max_forwards;
pub(crate) mod mirror;
pub(crate) mod passwords;
pub(crate) mod relay;
pub(crate) mod reply;
pub(crate) mod request;
pub(crate) mod request_id;
pub(crate) mod route;
pub(crate) mod rules;
pub(crate) mod session;
pub(crate) mod sticky;
