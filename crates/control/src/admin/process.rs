//! What this process uses, as Linux tells it under `/proc/self` (proc(5)).

use std::fs;

use loadline_linux::proc;

/// What a process uses; none where the system does not tell it.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(crate) struct Process {
    /// User and system time of all its threads, in seconds.
    pub(crate) cpu_s: Option<f64>,
    /// Memory of it that is in RAM, in bytes.
    pub(crate) resident_bytes: Option<f64>,
    /// Its address space, in bytes.
    pub(crate) virtual_bytes: Option<f64>,
    pub(crate) threads: Option<f64>,
    pub(crate) open_fds: Option<f64>,
    pub(crate) max_fds: Option<f64>,
    /// When it started, in seconds since 1970.
    pub(crate) start_s: Option<f64>,
}

impl Process {
    /// This process, now.
    pub(crate) fn read() -> Self {
        let file = |path: &str| proc::text(path).unwrap_or_default();
        let fds = fs::read_dir("/proc/self/fd").ok().map(Iterator::count);
        Self {
            // One of them is the directory that is being read.
            open_fds: fds.map(|count| count.saturating_sub(1) as f64),
            ..Self::parse(
                &file("/proc/self/stat"),
                &file("/proc/self/status"),
                &file("/proc/self/limits"),
                &file("/proc/stat"),
            )
        }
    }

    fn parse(stat: &str, status: &str, limits: &str, system: &str) -> Self {
        let stat = proc::stat(stat);
        let seconds = |ticks| proc::ticks(ticks).as_secs_f64();
        let memory = |key| Some(number(status, key)? * 1024.0);
        let begun = proc::named(system, "btime");
        Self {
            cpu_s: stat.as_ref().map(|stat| seconds(stat.user + stat.system)),
            resident_bytes: memory("VmRSS:"),
            virtual_bytes: memory("VmSize:"),
            threads: number(status, "Threads:"),
            open_fds: None,
            max_fds: proc::descriptor_limit(limits).map(|limit| limit as f64),
            start_s: begun.zip(stat).map(|(begun, stat)| begun as f64 + seconds(stat.start)),
        }
    }
}

/// The first number of the line that begins with `key`.
fn number(text: &str, key: &str) -> Option<f64> {
    let line = text.lines().find_map(|line| line.strip_prefix(key))?;
    line.split_whitespace().next()?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn figures_are_read_whatever_the_program_is_called() {
        let stat = "42 (a) b (c) S 1 42 42 0 -1 4194560 900 0 0 0 150 50 0 0 20 0 7 0 1000 9 9";
        let status = "Name:\ta\nVmSize:\t  2048 kB\nVmRSS:\t  1024 kB\nThreads:\t7\n";
        let limits = "Limit  Soft  Hard  Units\nMax open files            1024   4096   files\n";
        let process = Process::parse(stat, status, limits, "cpu 1 2\nbtime 1700000000\n");
        let expected = Process {
            cpu_s: Some(2.0),
            resident_bytes: Some(1_048_576.0),
            virtual_bytes: Some(2_097_152.0),
            threads: Some(7.0),
            open_fds: None,
            max_fds: Some(1024.0),
            start_s: Some(1_700_000_010.0),
        };
        assert_eq!(process, expected);
        assert_eq!(Process::parse("", "", "Max open files  unlimited", ""), Process::default());
    }

    #[test]
    fn this_process_is_told_where_there_is_a_proc() {
        let process = Process::read();
        assert!(process.resident_bytes > Some(0.0) && process.open_fds > Some(0.0), "{process:?}");
    }
}
