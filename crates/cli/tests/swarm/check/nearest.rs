//! Only the excess leaves a group, and it goes to the nearest that has room: a request is sent to a
//! farther group only when no nearer one has room that is at or above its failover threshold, and
//! to one below its threshold only when none at or above it has. None is refused as long as one
//! has room.
//!
//! Retries are left out: they go where they have not failed. Services that go by expected waits
//! (`soonest`) or by what servers report are left out, since what they know is not known here.

use loadline_core::{
    decide::reason::Reason,
    time::{Duration, Instant},
};
use loadline_sim::trace::{Fact, Place, Step, What};

use super::Checker;
use crate::account::{Account, GroupAccount, Request, Stage};

pub(super) struct Nearest;

impl Checker for Nearest {
    fn see(&mut self, account: &Account, fact: &Fact) -> Result<(), String> {
        let What::Request(number, step) = fact.what else { return Ok(()) };
        let Some(request) = account.requests.get(&number) else { return Ok(()) };
        if request.sends > 0 || !account.is_exact(request.service) {
            return Ok(());
        }
        match step {
            Step::Sent { server, .. } if !account.spreads(request.service) => {
                is_nearest(account, fact.at, (number, request), server)
            }
            Step::Refused(_, Some(Reason::Full)) => {
                let groups = &account.groups[request.edge][request.service];
                match groups.iter().position(|group| group.has_room(fact.at, &[])) {
                    None => Ok(()),
                    Some(at) => Err(format!("request {number} is refused, group {at} has room")),
                }
            }
            Step::Refused(_, Some(Reason::NoServer)) => {
                let groups = &account.groups[request.edge][request.service];
                match groups.iter().position(|group| !group.in_use.is_empty()) {
                    None => Ok(()),
                    Some(at) => Err(format!("request {number} finds no server, group {at} has")),
                }
            }
            _ => Ok(()),
        }
    }
}

fn is_nearest(
    account: &Account,
    now: Instant,
    (number, request): (u64, &Request),
    server: Place,
) -> Result<(), String> {
    if request.at == Stage::Displaced {
        return Ok(());
    }
    let groups = &account.groups[request.edge][request.service];
    let taken = &groups[usize::from(server.group)];
    let better = |group: &GroupAccount| {
        let is_well = group.well_since.is_some_and(|since| now.since(since) >= RETURN);
        is_well && (taken.well_since.is_none() || group.distance < taken.distance)
    };
    let near = groups.iter().position(|group| better(group) && group.has_room(now, &[]));
    match near {
        None => Ok(()),
        Some(near) => Err(format!(
            "request {number} at edge {} is sent to group {} of service {}, while group {near} \
             comes first and has room",
            request.edge, server.group, server.service
        )),
    }
}

/// A group that was below its threshold comes first again after it has been above for some time.
const RETURN: Duration = Duration::from_secs(4);
