//! The closed loop: users that send their next request after the response to the last.
//!
//! A request is planned for the end of its user's think time, which begins with the response to the
//! request before it; without think time that is the instant its user became free, so response and
//! service time are nearly the same here. That is what siege and wrk measure, and why a closed
//! loop cannot show how long a queue of independent users would get: it stops asking while the
//! server stands still. All users begin at once, each as soon as the generator gets to it; where a
//! highest rate is set, they send in turns, at least one interval of it apart.

use std::{cell::Cell, io, rc::Rc};

use loadline_core::time::{Duration, Instant};
use loadline_linux::{alarm::Alarms, clock};
use tokio::task::JoinSet;

use crate::{client::Client, outcome::Outcome, plan::Until, tally::Tally};

/// Runs `users` until each has done what `until` says and has its last response; with an interval,
/// no two of them send closer together.
///
/// # Errors
/// The system's error where it gives no timer for think times.
pub(crate) async fn drive(
    client: Rc<Client>,
    tally: Rc<Tally>,
    (users, interval): (u32, Option<Duration>),
    think: Duration,
    until: Until,
) -> io::Result<()> {
    let limit = match until {
        Until::Requests(requests) => Limit { requests, end: None },
        Until::Elapsed(span) => Limit { requests: u64::MAX, end: Some(tally.start() + span) },
    };
    let alarm = Rc::new(Alarms::new()?);
    let turns = interval.map(|interval| Rc::new(Turns { interval, next: Cell::default() }));
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
            turns: turns.clone(),
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
    if think == Duration::ZERO && turns.is_none() {
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

impl Limit {
    fn is_over(self, at: Instant) -> bool {
        self.end.is_some_and(|end| at >= end)
    }
}

/// When users that keep to a rate together may send.
struct Turns {
    interval: Duration,
    next: Cell<Instant>,
}

impl Turns {
    /// The turn of a user that is free at `due`; nobody takes one when the limit is reached, which
    /// all may wait for, so that a run that follows at once keeps its distance.
    fn take(&self, due: Instant, limit: Limit) -> Instant {
        let turn = due.max(self.next.get());
        if !limit.is_over(turn) {
            self.next.set(turn + self.interval);
        }
        turn
    }
}

struct User {
    client: Rc<Client>,
    tally: Rc<Tally>,
    alarm: Rc<Alarms>,
    turns: Option<Rc<Turns>>,
    think: Duration,
}

impl User {
    /// Waits for the turn of a user that is free at `due`, and says when it was.
    async fn turn(&self, due: Instant, limit: Limit) -> io::Result<Instant> {
        let Some(turns) = &self.turns else { return Ok(due) };
        let turn = turns.take(due, limit);
        if turn > due {
            self.alarm.until(turn).await?;
        }
        Ok(turn)
    }

    async fn run(self, limit: Limit) -> io::Result<()> {
        let pool = self.client.pool();
        let mut due = clock::now();
        for _ in 0..limit.requests {
            if let Some(end) = limit.end.filter(|end| due >= *end) {
                self.turn(end, limit).await?;
                break;
            }
            if self.think > Duration::ZERO {
                self.alarm.until(due).await?;
            }
            due = self.turn(due, limit).await?;
            if limit.is_over(due) {
                break;
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn turns_are_an_interval_apart_and_nobody_has_one_after_the_end() {
        let ms = |n: u64| Instant::from_nanos(n * 1_000_000);
        let turns = Turns { interval: Duration::from_millis(50), next: Cell::default() };
        let limit = Limit { requests: u64::MAX, end: Some(ms(200)) };
        let taken = [0, 0, 10, 170, 171, 172].map(|due| turns.take(ms(due), limit));
        assert_eq!(taken, [0, 50, 100, 170, 220, 220].map(ms));
    }
}
