//! The closed loop: users that send their next request after the answer to the last.
//!
//! A request is planned for the instant its user became free, so response and service time are
//! nearly the same here. That is what siege and wrk measure, and why a closed loop cannot show
//! how long a queue of independent users would get: it stops asking while the server stands still.

use std::rc::Rc;

use loadline_core::time::Instant;
use tokio::task::JoinSet;

use crate::{client::Client, clock, plan::Until, tally::Tally};

/// Runs `users` until each has done what `until` says and has its last answer.
pub(crate) async fn drive(client: Rc<Client>, tally: Rc<Tally>, users: u32, until: Until) {
    let limit = match until {
        Until::Requests(requests) => Limit { requests, end: Instant::NEVER },
        Until::Elapsed(span) => Limit { requests: u64::MAX, end: tally.start() + span },
    };
    let mut tasks = JoinSet::new();
    for _ in 0..users {
        tasks.spawn_local(user(Rc::clone(&client), Rc::clone(&tally), limit));
    }
    while tasks.join_next().await.is_some() {}
}

#[derive(Clone, Copy)]
struct Limit {
    requests: u64,
    end: Instant,
}

async fn user(client: Rc<Client>, tally: Rc<Tally>, limit: Limit) {
    let pool = client.pool();
    let mut free = tally.start();
    for _ in 0..limit.requests {
        if free >= limit.end {
            break;
        }
        let mut ticket = tally.plan(free);
        let now = clock::now();
        ticket.send(now);
        let result = client.fetch(&pool, now).await;
        let failed = result.is_err();
        free = clock::now();
        ticket.end(free, result);
        if failed {
            // A refusal on the loopback comes without waiting; others must get their turn.
            tokio::task::yield_now().await;
        }
    }
}
