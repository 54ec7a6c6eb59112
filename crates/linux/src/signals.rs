//! Signals that are held back for a while.
#![expect(unsafe_code, reason = "no safe wrapper offers the calls")]

use std::{mem::MaybeUninit, ptr};

/// Holds back from this thread the signals of these numbers while `work` runs: one that comes
/// meanwhile is delivered afterwards. A handler is set up in two steps, and a signal between them
/// would be taken by one that does not yet know what to do.
pub fn hold<T>(signals: &[i32], work: impl FnOnce() -> T) -> T {
    let _held = Held::new(signals);
    work()
}

/// What was held back before, as it is again when this is dropped.
struct Held(libc::sigset_t);

impl Held {
    fn new(signals: &[i32]) -> Self {
        let mut held = MaybeUninit::<libc::sigset_t>::uninit();
        let mut before = MaybeUninit::<libc::sigset_t>::uninit();
        // SAFETY: `sigemptyset` makes both sets before anything reads them, and they outlive the
        // calls. A number that is no signal is refused, and changes no set.
        unsafe {
            libc::sigemptyset(held.as_mut_ptr());
            libc::sigemptyset(before.as_mut_ptr());
            for signal in signals {
                libc::sigaddset(held.as_mut_ptr(), *signal);
            }
            libc::pthread_sigmask(libc::SIG_BLOCK, held.as_ptr(), before.as_mut_ptr());
            Self(before.assume_init())
        }
    }
}

impl Drop for Held {
    fn drop(&mut self) {
        // SAFETY: the set is whole and outlives the call, which writes nothing.
        unsafe { libc::pthread_sigmask(libc::SIG_SETMASK, &raw const self.0, ptr::null_mut()) };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Whether this thread is spared the signal, as the kernel tells.
    fn is_held(signal: i32) -> bool {
        let status = std::fs::read_to_string("/proc/thread-self/status").unwrap();
        let held = status.lines().find_map(|line| line.strip_prefix("SigBlk:")).unwrap();
        (u64::from_str_radix(held.trim(), 16).unwrap() >> (signal - 1)) & 1 == 1
    }

    #[test]
    fn signals_are_held_back_while_their_handlers_are_set_up_and_no_longer() {
        let all = [libc::SIGINT, libc::SIGTERM];
        assert_eq!(all.map(is_held), [false, false]);
        assert_eq!(hold(&all, || all.map(is_held)), [true, true]);
        assert_eq!(hold(&all[1..], || all.map(is_held)), [false, true]);
        assert_eq!(all.map(is_held), [false, false]);
    }
}
