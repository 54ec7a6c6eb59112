//! The open loop: requests go at their planned instants, whatever the responses do.
//!
//! Nothing here waits for a server: a request that is due gets a task of its own, and a kept
//! connection if one is free. So a server that stalls meets the requests that independent users
//! would have sent meanwhile, and their response times show it (no coordinated omission).

use std::{io, rc::Rc};

use loadline_core::time::Duration;
use loadline_linux::{clock, timer::Timer};

use crate::{
    client::Client,
    outcome::Outcome,
    pace::Pace,
    pool::Pool,
    tally::{Tally, Ticket},
};

/// Sends the requests of `schedule` and returns when the last of them has gone out.
///
/// # Errors
/// The system's error where it gives no timer.
pub(crate) async fn drive(
    client: Rc<Client>,
    tally: &Rc<Tally>,
    schedule: impl Iterator<Item = Duration>,
    max_in_flight: Option<u32>,
) -> io::Result<()> {
    let start = tally.start();
    let limit = max_in_flight.map_or(u64::MAX, u64::from);
    let pool = client.pool();
    let mut timer = Timer::new()?;
    let mut pace = Pace::default();
    for (offset, number) in schedule.zip(1_u64..) {
        let due = start + offset;
        timer.until(pace.release(due, clock::now())).await?;
        let full = tally.in_flight() >= limit;
        let ticket = tally.plan(due);
        if full {
            ticket.end(clock::now(), Err(Outcome::Dropped));
        } else {
            tokio::task::spawn_local(send(Rc::clone(&client), Rc::clone(&pool), ticket));
        }
        if number.is_multiple_of(BATCH) {
            tokio::task::yield_now().await;
        }
    }
    Ok(())
}

async fn send(client: Rc<Client>, pool: Rc<Pool>, mut ticket: Ticket) {
    let now = clock::now();
    ticket.send(now);
    let result = client.fetch(&pool, now).await;
    ticket.end(clock::now(), result);
}

/// A plan beyond what this machine can send must not starve the sending of what is already due.
/// The event loop runs 61 tasks a turn, and a request takes about three turns of its task.
const BATCH: u64 = 16;
