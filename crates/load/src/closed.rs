//! The closed loop: users that send their next request after the response to the last.
//!
//! A request is planned for the end of its user's think time, which begins with the response to the
//! request before it; without think time that is the instant its user became free, so response and
//! service time are nearly the same here. That is what siege and wrk measure, and why a closed
//! loop cannot show how long a queue of independent users would get: it stops asking while the
//! server stands still. All users begin at once, each as soon as the generator gets to it.

use std::{io, rc::Rc};

use loadline_core::time::{Duration, Instant};
use loadline_linux::{alarm::Alarms, clock};
use tokio::task::JoinSet;

use crate::{client::Client, outcome::Outcome, plan::Until, tally::Tally};

/// Runs `users` until each has done what `until` says and has its last response.
///
/// # Errors
/// The system's error where it gives no timer for think times.
pub(crate) async fn drive(
    client: Rc<Client>,
    tally: Rc<Tally>,
    users: u32,
    think: Duration,
    until: Until,
) -> io::Result<()> {
    let limit = match until {
        Until::Requests(requests) => Limit { requests, end: None },
        Until::Elapsed(span) => Limit { requests: u64::MAX, end: Some(tally.start() + span) },
    };
    let alarm = Rc::new(Alarms::new()?);
    let mut tasks = JoinSet::new();
    for number in 1..=users {
        if number.is_multiple_of(BATCH) {
            // A signal that ends the run is heard although there are many.
            tokio::task::yield_now().await;
        }
        let user = User {
            client: Rc::clone(&client),
            tally: Rc::clone(&tally),
            alarm: Rc::clone(&alarm),
            think,
        };
        tasks.spawn_local(user.run(limit));
    }
    let all_done = async {
        while let Some(ended) = tasks.join_next().await {
            ended.unwrap_or(Ok(()))?;
        }
        Ok(())
    };
    if think == Duration::ZERO {
        return all_done.await;
    }
    tokio::select! {
        rung = alarm.drive() => rung,
        done = all_done => done,
    }
}

#[derive(Clone, Copy)]
struct Limit {
    requests: u64,
    end: Option<Instant>,
}

struct User {
    client: Rc<Client>,
    tally: Rc<Tally>,
    alarm: Rc<Alarms>,
    think: Duration,
}

impl User {
    async fn run(self, limit: Limit) -> io::Result<()> {
        let pool = self.client.pool();
        let mut due = clock::now();
        for _ in 0..limit.requests {
            if limit.end.is_some_and(|end| due >= end) {
                break;
            }
            if self.think > Duration::ZERO {
                self.alarm.until(due).await?;
            }
            let mut ticket = self.tally.plan(due);
            let now = clock::now();
            ticket.send(now);
            let result = self.client.fetch(&pool, now).await;
            let failed = result.is_err();
            if result == Err(Outcome::Dropped) {
                // What the machine is out of does not come back while everybody asks for it.
                tokio::time::sleep(SHORTAGE_PAUSE).await;
            }
            let free = clock::now();
            ticket.end(free, result);
            if failed {
                // A refusal on the loopback comes without waiting; others must get their turn.
                tokio::task::yield_now().await;
            }
            due = free + self.think;
        }
        Ok(())
    }
}

/// Users that begin before others get their turn.
const BATCH: u32 = 1_024;

/// Rest of a user whose request the machine had no descriptor or port for.
const SHORTAGE_PAUSE: std::time::Duration = std::time::Duration::from_millis(10);
