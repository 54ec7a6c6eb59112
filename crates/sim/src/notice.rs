//! What edges notice, in words.

use loadline_core::decide::controller::Change;

/// What happened to a server or a group.
pub(crate) fn text(change: &Change) -> String {
    match change {
        Change::Up(server) => format!("server {server} is up"),
        Change::Down(server, why) => format!("server {server} is down: {why}"),
        Change::Ejected(server, time, reason) => {
            format!("server {server} is ejected for {time}: {reason}")
        }
        Change::Outlier(server, time, evidence) => {
            format!("server {server} is ejected for {time}: {evidence}")
        }
        Change::Silent(server, time) => {
            format!("server {server} is ejected for {time}: it does not respond")
        }
        Change::Returned(server) => format!("server {server} returns from ejection, on probation"),
        Change::Cut(server, requests) => {
            format!("server {server}: drain_timeout exceeded: {requests} requests are cut")
        }
        Change::Yields => "group is below its failover threshold".to_owned(),
        Change::Recovered => "group is above its failover threshold again".to_owned(),
        Change::Limited(requests) => {
            format!("group is full: limited to {requests} requests in flight")
        }
        Change::Unlimited => "group is not full any more: no limit".to_owned(),
    }
}
