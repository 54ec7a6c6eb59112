//! Threads that the process cannot do without.

use std::{
    io,
    panic::{AssertUnwindSafe, catch_unwind},
    process::exit,
    thread::{Builder, JoinHandle},
};

/// Starts a thread that the process cannot do without: where it panics the process ends, after the
/// panic was told as any is. Whoever watches the process, systemd or keepalived, can act on that
/// alone.
///
/// # Errors
/// The system's, where there is no thread to be had.
pub fn spawn_essential(
    name: &str,
    work: impl FnOnce() + Send + 'static,
) -> io::Result<JoinHandle<()>> {
    Builder::new().name(name.to_owned()).spawn(move || {
        if catch_unwind(AssertUnwindSafe(work)).is_err() {
            exit(FAILED);
        }
    })
}

/// The exit code of what failed while it ran.
const FAILED: i32 = 2;

#[cfg(test)]
mod tests {
    use std::{env, process::Command};

    use super::*;

    const THIS: &str =
        "thread::tests::a_process_ends_when_a_thread_panics_that_it_cannot_do_without";

    /// Tells the test that it is to panic.
    const PANICS: &str = "LOADLINE_TEST_PANICS";

    #[test]
    fn a_process_ends_when_a_thread_panics_that_it_cannot_do_without() {
        if env::var_os(PANICS).is_some() {
            let thread = spawn_essential("control", || panic!("a defect"));
            let _ = thread.unwrap().join();
            return;
        }
        let mut test = Command::new(env::current_exe().unwrap());
        let ended = test.args(["--exact", THIS, "--nocapture"]).env(PANICS, "1").output().unwrap();
        let told = String::from_utf8_lossy(&ended.stderr);
        assert_eq!(ended.status.code(), Some(FAILED), "{told}");
        assert!(told.contains("'control'") && told.contains("a defect"), "{told}");
    }

    #[test]
    fn a_thread_that_has_done_its_work_ends_nothing() {
        spawn_essential("worker-0", || ()).unwrap().join().unwrap();
    }
}
