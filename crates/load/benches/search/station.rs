//! The jobs at a server: a queue before several cores, or cores that all jobs share.

use std::{
    cmp::Reverse,
    collections::{BinaryHeap, VecDeque},
};

/// The jobs at a server. Times that are not negative are in order as their bits are.
#[derive(Debug)]
pub(crate) enum Station {
    /// One queue in order of arrival.
    Queue {
        cores: usize,
        serving: BinaryHeap<Reverse<(u64, usize)>>,
        waiting: VecDeque<(usize, f64)>,
    },
    /// All jobs advance on one clock, which runs slower where there are more jobs than cores.
    Shared { cores: usize, ends: BinaryHeap<Reverse<(u64, usize)>>, clock: f64, at: f64 },
}

impl Station {
    pub(crate) fn new(cores: usize, sharing: bool) -> Self {
        if sharing {
            Self::Shared { cores, ends: BinaryHeap::new(), clock: 0.0, at: 0.0 }
        } else {
            Self::Queue { cores, serving: BinaryHeap::new(), waiting: VecDeque::new() }
        }
    }

    /// Jobs that wait for a core.
    pub(crate) fn waiting(&self) -> usize {
        match self {
            Self::Queue { waiting, .. } => waiting.len(),
            Self::Shared { cores, ends, .. } => ends.len().saturating_sub(*cores),
        }
    }

    /// Whether a core is free.
    pub(crate) fn is_free(&self) -> bool {
        match self {
            Self::Queue { cores, serving, .. } => serving.len() < *cores,
            Self::Shared { cores, ends, .. } => ends.len() < *cores,
        }
    }

    /// Jobs that are there.
    pub(crate) fn jobs(&self) -> usize {
        match self {
            Self::Queue { serving, waiting, .. } => serving.len() + waiting.len(),
            Self::Shared { ends, .. } => ends.len(),
        }
    }

    /// Forgets all jobs and says which they were.
    pub(crate) fn clear(&mut self) -> Vec<usize> {
        match self {
            Self::Queue { serving, waiting, .. } => {
                let served = serving.drain().map(|Reverse((_, id))| id);
                served.chain(waiting.drain(..).map(|(id, _)| id)).collect()
            }
            Self::Shared { ends, .. } => ends.drain().map(|Reverse((_, id))| id).collect(),
        }
    }

    /// Has so many cores from `now` on; those that are taken away end the job they have.
    pub(crate) fn scale(&mut self, now: f64, to: usize) {
        self.advance(now);
        match self {
            Self::Queue { cores, serving, waiting } => {
                *cores = to;
                while serving.len() < *cores
                    && let Some((id, length)) = waiting.pop_front()
                {
                    serving.push(Reverse(((now + length).to_bits(), id)));
                }
            }
            Self::Shared { cores, .. } => *cores = to,
        }
    }

    pub(crate) fn arrive(&mut self, now: f64, id: usize, length: f64) {
        self.advance(now);
        match self {
            Self::Queue { cores, serving, waiting } if serving.len() >= *cores => {
                waiting.push_back((id, length));
            }
            Self::Queue { serving, .. } => serving.push(Reverse(((now + length).to_bits(), id))),
            Self::Shared { ends, clock, .. } => {
                ends.push(Reverse(((*clock + length).to_bits(), id)));
            }
        }
    }

    pub(crate) fn next_end(&self) -> Option<f64> {
        match self {
            Self::Queue { serving, .. } => {
                serving.peek().map(|Reverse((end, _))| f64::from_bits(*end))
            }
            Self::Shared { cores, ends, clock, at } => ends.peek().map(|Reverse((end, _))| {
                at + (f64::from_bits(*end) - clock) / speed(*cores, ends.len())
            }),
        }
    }

    /// Ends the job that ends next, `now`, and says which it is.
    pub(crate) fn finish(&mut self, now: f64) -> usize {
        self.advance(now);
        match self {
            Self::Queue { cores, serving, waiting } => {
                let Reverse((_, done)) = serving.pop().expect("the caller saw that one ends");
                if serving.len() < *cores
                    && let Some((id, length)) = waiting.pop_front()
                {
                    serving.push(Reverse(((now + length).to_bits(), id)));
                }
                done
            }
            Self::Shared { ends, .. } => ends.pop().expect("the caller saw that one ends").0.1,
        }
    }

    fn advance(&mut self, now: f64) {
        if let Self::Shared { cores, ends, clock, at } = self {
            *clock += (now - *at) * speed(*cores, ends.len());
            *at = now;
            if ends.is_empty() {
                // Nobody is there: the shared clock starts anew and keeps its precision.
                *clock = 0.0;
            }
        }
    }
}

/// How fast each of so many jobs is that share so many cores.
fn speed(cores: usize, jobs: usize) -> f64 {
    (cores as f64 / jobs.max(1) as f64).min(1.0)
}
