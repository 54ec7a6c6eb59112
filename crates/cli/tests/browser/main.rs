//! loadline before a real browser: its dashboard, and what a browser asks of a load balancer.
#![expect(clippy::unwrap_used, reason = "a test helper fails the test it helps")]

mod dashboard;
mod edge;
mod page;
mod through;
