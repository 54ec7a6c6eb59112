//! HTTP: client connections, and each of their requests from head to end.
//!
//! | | |
//! |---|---|
//! | `acme` | answers to `http-01` challenges |
//! | `session` | a client connection, request by request |
//! | `rules`, `route` | the service of a request, or its response by a rule |
//! | `reply` | the response of a rule |
//! | `basic_auth`, `passwords`, `jwt` | basic and JWT authentication |
//! | `forward_auth` | authentication by a service |
//! | `max_forwards` | `Max-Forwards` |
//! | `request`, `request_id` | a request as it will be sent, and its id |
//! | `sticky` | sessions that a cookie keeps on one server |
//! | `exchange` | one request: carries out the actions of its machine (`core::decide::request`) |
//! | `driver` | gives the machine the plan, the wait queue and the clock |
//! | `attempt`, `failure` | one request over one server connection, and its failure |
//! | `relay`, `body_pace` | a body in one direction, and the minimum rate of a client's |
//! | `compress` | compression of responses |
//! | `mirror` | mirroring: copies of requests for another service |

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
