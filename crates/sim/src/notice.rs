//! What edges notice, in words.

use loadline_core::{decide::controller::Change, fleet::ServerAddress};

/// What happened to a server or a group.
pub(crate) fn text(change: &Change) -> String {
    match change {
        Change::Up(server) => format!("server {} is up", ServerAddress(*server)),
        Change::Down(server, why) => format!("server {} is down: {why}", ServerAddress(*server)),
        Change::Ejected(server, time, reason) => {
            format!("server {} is ejected for {time}: {reason}", ServerAddress(*server))
        }
        Change::Outlier(server, time, evidence) => {
            format!("server {} is ejected for {time}: {evidence}", ServerAddress(*server))
        }
        Change::Silent(server, time) => {
            let server = ServerAddress(*server);
            format!("server {server} is ejected for {time}: it does not respond")
        }
        Change::Returned(server) => {
            format!("server {} returns from ejection, on probation", ServerAddress(*server))
        }
        Change::Cut(server, requests) => {
            let server = ServerAddress(*server);
            format!("server {server}: drain_timeout exceeded: {requests} requests are cut")
        }
        Change::Yields(healthy, servers, threshold) => format!(
            "group is below its failover threshold: {healthy} of {servers} servers healthy, \
             threshold {threshold}"
        ),
        Change::Drained => "all servers of the group are drained".to_owned(),
        Change::Recovered => "group is above its failover threshold again".to_owned(),
        Change::Limited(requests) => {
            format!("group is full: limited to {requests} requests in flight")
        }
        Change::Unlimited => "group is not full any more: no limit".to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_server_on_a_unix_socket_is_called_by_its_path() {
        let ServerAddress(server) = "unix:/run/app.sock".parse().unwrap();
        assert_eq!(text(&Change::Up(server)), "server unix:/run/app.sock is up");
    }
}
