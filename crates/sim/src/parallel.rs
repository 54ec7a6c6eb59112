//! Independent runs on several threads. What comes of them does not depend on how many.

use std::{
    num::NonZero,
    sync::{
        atomic::{AtomicUsize, Ordering::Relaxed},
        mpsc::{self, SyncSender},
    },
    thread,
};

/// The results of `run` for each of `0..count`, in this order. `done` is told each as it ends, in
/// any order, on the thread that calls.
pub fn map<R: Send>(
    threads: NonZero<u16>,
    count: usize,
    run: impl Fn(usize) -> R + Sync,
    done: &mut dyn FnMut(usize),
) -> Vec<R> {
    let next = AtomicUsize::new(0);
    let threads = usize::from(threads.get()).min(count);
    let (sender, results) = mpsc::sync_channel(threads);
    let work = &|sender: SyncSender<(usize, R)>| {
        let numbers = std::iter::repeat_with(|| next.fetch_add(1, Relaxed));
        // It fails only where nobody listens any more.
        let _ = numbers.take_while(|at| *at < count).try_for_each(|at| sender.send((at, run(at))));
    };
    let mut all: Vec<(usize, R)> = thread::scope(|scope| {
        for _ in 0..threads {
            let sender = sender.clone();
            scope.spawn(move || work(sender));
        }
        drop(sender);
        results.iter().inspect(|(at, _)| done(*at)).collect()
    });
    all.sort_unstable_by_key(|(at, _)| *at);
    all.into_iter().map(|(_, result)| result).collect()
}

/// The results of `run` for `0..count` in this order, up to the first that is `last`. More threads
/// run ahead of it, and what they find beyond it is as if it had not been run.
pub(crate) fn map_until<R: Send>(
    threads: NonZero<u16>,
    count: usize,
    run: impl Fn(usize) -> R + Sync,
    last: impl Fn(&R) -> bool,
) -> Vec<R> {
    let ahead = usize::from(threads.get());
    let mut all = Vec::new();
    for begin in (0..count).step_by(ahead) {
        let some = map(threads, ahead.min(count - begin), |at| run(begin + at), &mut |_| {});
        for result in some {
            let ends = last(&result);
            all.push(result);
            if ends {
                return all;
            }
        }
    }
    all
}

#[cfg(test)]
mod tests {
    use super::*;

    fn threads() -> impl Iterator<Item = NonZero<u16>> {
        [1, 2, 7, 100].into_iter().filter_map(NonZero::new)
    }

    #[test]
    fn results_are_in_order_with_any_number_of_threads() {
        for threads in threads() {
            let mut done = Vec::new();
            let squares = map(threads, 50, |n| n * n, &mut |at| done.push(at));
            assert!(squares.iter().copied().eq((0..50).map(|n| n * n)));
            done.sort_unstable();
            assert!(done.into_iter().eq(0..50));
            assert!(map(threads, 0, |n| n, &mut |_| {}).is_empty());
        }
    }

    #[test]
    fn nothing_is_told_beyond_the_last() {
        for threads in threads() {
            assert_eq!(map_until(threads, 50, |n| n, |n| *n == 11).len(), 12);
            assert_eq!(map_until(threads, 50, |n| n, |_| false).len(), 50);
        }
    }
}
