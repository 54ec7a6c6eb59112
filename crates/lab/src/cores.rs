//! Virtual cores: when a job of fixed length starts and ends, without computing anything.
//!
//! N cores, one first-in-first-out queue, the same service time for every job. Time is an
//! argument and the schedule is kept on it, not on when somebody was woken:
//!
//! ```text
//! start = max(arrival, the earliest instant a core is free)      end = start + service time
//! ```
//!
//! A late wake-up makes one response late and nothing after it, so the capacity is exactly
//! N / service time however busy the machine is. Because every job takes as long as any other,
//! jobs end in the order they started, and the core that is free first is always the one that was
//! given work longest ago: a ring replaces the heap that unequal jobs would need.

use std::{collections::VecDeque, num::NonZeroU32};

use loadline_core::time::{Duration, Instant};

/// N cores, their queue and what they have done.
#[derive(Debug)]
pub struct Cores {
    service: Duration,
    /// When each core is free; `next` is the earliest of them.
    free: Vec<Instant>,
    next: usize,
    /// Every job that has not ended, in order of arrival, start and end alike.
    jobs: VecDeque<Job>,
    ended: u64,
    most_queued: u64,
}

/// The three instants of a job.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Job {
    /// When it came to the queue.
    pub arrival: Instant,
    /// When a core took it.
    pub start: Instant,
    /// When the core was done with it.
    pub end: Instant,
}

/// What cores are doing at an instant.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Load {
    /// Jobs on a core.
    pub in_service: u64,
    /// Jobs that have come and wait for a core.
    pub queued: u64,
    /// The most jobs that ever waited at once.
    pub most_queued: u64,
    /// Core time spent since the beginning, over all cores.
    pub busy: Duration,
}

impl Cores {
    /// `cores` idle cores on which every job takes `service`.
    #[must_use]
    pub fn new(cores: NonZeroU32, service: Duration) -> Self {
        Self {
            service,
            free: vec![Instant::ZERO; cores.get() as usize],
            next: 0,
            jobs: VecDeque::new(),
            ended: 0,
            most_queued: 0,
        }
    }

    /// Takes a job that was sent `now` and comes to the queue after `travel`, and says when it
    /// will start and end. A job never overtakes one that was admitted before it.
    pub fn admit(&mut self, now: Instant, travel: Duration) -> Job {
        self.forget_ended(now);
        let earliest = self.jobs.back().map_or(Instant::ZERO, |job| job.arrival);
        let arrival = (now + travel).max(earliest);
        let start = arrival.max(self.free[self.next]);
        let job = Job { arrival, start, end: start + self.service };
        self.free[self.next] = job.end;
        self.next = (self.next + 1) % self.free.len();
        self.jobs.push_back(job);
        self.most_queued = self.most_queued.max(self.queued_at(arrival));
        job
    }

    /// What the cores are doing `now`.
    pub fn load(&mut self, now: Instant) -> Load {
        self.forget_ended(now);
        let in_service = self.started_by(now);
        let under_way = self.jobs.iter().take(in_service).map(|job| now.since(job.start));
        let busy = self.service * self.ended + under_way.sum();
        Load {
            in_service: in_service as u64,
            queued: self.queued_at(now),
            most_queued: self.most_queued,
            busy,
        }
    }

    fn forget_ended(&mut self, now: Instant) {
        while self.jobs.front().is_some_and(|job| job.end <= now) {
            self.jobs.pop_front();
            self.ended += 1;
        }
    }

    /// How many of the jobs kept have started by `at`; they are the first ones.
    fn started_by(&self, at: Instant) -> usize {
        self.jobs.partition_point(|job| job.start <= at)
    }

    /// How many have come by `at` and not started.
    fn queued_at(&self, at: Instant) -> u64 {
        let arrived = self.jobs.partition_point(|job| job.arrival <= at);
        (arrived - self.started_by(at)) as u64
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const SERVICE: Duration = Duration::from_millis(38);

    fn cores(n: u32) -> Cores {
        Cores::new(NonZeroU32::new(n).unwrap(), SERVICE)
    }

    fn at(millis: u64) -> Instant {
        Instant::ZERO + Duration::from_millis(millis)
    }

    #[test]
    fn jobs_start_at_once_while_a_core_is_free_and_wait_for_the_first_after() {
        let mut two = cores(2);
        assert_eq!(two.admit(at(0), Duration::ZERO).end, at(38));
        assert_eq!(two.admit(at(10), Duration::ZERO).end, at(48));
        let third = two.admit(at(11), Duration::ZERO);
        assert_eq!((third.start, third.end), (at(38), at(76)));
        let fourth = two.admit(at(12), Duration::ZERO);
        assert_eq!((fourth.start, fourth.end), (at(48), at(86)));

        let load = two.load(at(12));
        assert_eq!((load.in_service, load.queued, load.most_queued), (2, 2, 2));
        assert_eq!(load.busy, Duration::from_millis(12 + 2));
        let load = two.load(at(50));
        assert_eq!((load.in_service, load.queued, load.most_queued), (2, 0, 2));
        assert_eq!(load.busy, Duration::from_millis(38 + 38 + 12 + 2));
        assert_eq!(two.load(at(1_000)).busy, SERVICE * 4);
    }

    #[test]
    fn a_core_left_idle_does_not_save_its_time_up() {
        let mut one = cores(1);
        one.admit(at(0), Duration::ZERO);
        assert_eq!(one.admit(at(500), Duration::ZERO).start, at(500));
        assert_eq!(one.admit(at(500), Duration::ZERO).start, at(538));
    }

    #[test]
    fn a_job_on_its_way_occupies_no_core_and_stands_in_no_queue() {
        let mut one = cores(1);
        let far = one.admit(at(0), Duration::from_millis(15));
        assert_eq!((far.arrival, far.end), (at(15), at(53)));
        assert_eq!(one.load(at(10)), Load::default());
        assert_eq!(one.load(at(20)).in_service, 1);
        assert_eq!(one.load(at(20)).busy, Duration::from_millis(5));
    }

    #[test]
    fn over_a_long_overload_the_capacity_is_exact() {
        let mut two = cores(2);
        let last = (0..100_000).map(|i| two.admit(at(i), Duration::ZERO)).last().unwrap();
        assert_eq!(last.end, Instant::ZERO + SERVICE * 50_000 + Duration::from_millis(1));
    }

    proptest! {
        #[test]
        fn jobs_keep_their_order_and_never_more_than_n_are_in_service(
            n in 1u32..6,
            gaps in prop::collection::vec(0u64..40, 1..200),
        ) {
            let mut cores = cores(n);
            let mut now = 0;
            let jobs: Vec<Job> = gaps.iter().map(|gap| {
                now += gap;
                cores.admit(at(now), Duration::ZERO)
            }).collect();
            for (i, job) in jobs.iter().enumerate() {
                prop_assert!(job.start >= job.arrival && job.end == job.start + SERVICE);
                let (before, after) = jobs.split_at(i);
                prop_assert!(before.iter().all(|other| other.start <= job.start));
                let beside = before.iter().filter(|other| other.end > job.start).count();
                prop_assert!(beside < n as usize, "{beside} others on {n} cores");
                // Nobody waits while a core is idle: all n are busy until the instant it starts.
                let until_start = before.iter().filter(|other| other.end >= job.start).count();
                prop_assert!(job.start == job.arrival || until_start >= n as usize);
                prop_assert!(after.iter().all(|other| other.arrival >= job.arrival));
            }
        }

        #[test]
        fn busy_time_is_what_the_jobs_spent_on_cores(
            n in 1u32..6,
            gaps in prop::collection::vec(0u64..40, 1..100),
        ) {
            let mut cores = cores(n);
            let mut now = 0;
            let mut jobs: Vec<Job> = Vec::new();
            for gap in gaps {
                now += gap;
                jobs.push(cores.admit(at(now), Duration::ZERO));
                let spent = jobs.iter().map(|job| at(now).min(job.end).since(job.start)).sum();
                let load = cores.load(at(now));
                prop_assert_eq!(load.busy, spent);
                let waiting = jobs.iter().filter(|job| job.start > at(now)).count() as u64;
                prop_assert_eq!(load.queued, waiting);
                prop_assert!(load.in_service <= u64::from(n) && load.most_queued >= waiting);
            }
        }
    }
}
