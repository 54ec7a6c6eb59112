//! A network namespace, for as long as its holder lives.

use std::{
    fs::{File, read_link},
    os::fd::AsFd,
    process::{Child, Command},
    thread::{self, JoinHandle},
};

use rustix::thread::{LinkNameSpaceType, move_into_link_name_space};

/// A host with nothing but a loopback.
pub(crate) struct Host {
    holder: Child,
}

impl Host {
    pub(crate) fn new() -> Self {
        // It ends by itself if nobody is left to end it. Its namespace is another one once it runs.
        let mut holder = Command::new("unshare");
        holder.args(["--net", "sleep", "600"]);
        let host = Self { holder: holder.spawn().unwrap() };
        let own = read_link("/proc/self/ns/net").unwrap();
        while read_link(host.path()).unwrap() == own {
            thread::yield_now();
        }
        host.run("ip link set lo up");
        host
    }

    /// Its namespace.
    pub(crate) fn path(&self) -> String {
        format!("/proc/{}/ns/net", self.holder.id())
    }

    /// A command that runs there, as the same process.
    pub(crate) fn command(&self, program: &str) -> Command {
        let mut command = Command::new("nsenter");
        command.arg(format!("--net={}", self.path())).arg(program);
        command
    }

    /// Runs a command there, which must succeed.
    pub(crate) fn run(&self, command: &str) {
        let mut words = command.split_whitespace();
        let mut program = self.command(words.next().unwrap());
        let output = program.args(words).output().unwrap();
        assert!(output.status.success(), "{command}: {}", String::from_utf8_lossy(&output.stderr));
    }

    /// A thread that works there.
    pub(crate) fn spawn<T: Send + 'static>(
        &self,
        work: impl FnOnce() -> T + Send + 'static,
    ) -> JoinHandle<T> {
        let namespace = File::open(self.path()).unwrap();
        thread::spawn(move || {
            let kind = Some(LinkNameSpaceType::Network);
            move_into_link_name_space(namespace.as_fd(), kind).unwrap();
            work()
        })
    }

    /// What `work` gives when it is done there.
    pub(crate) fn enter<T: Send + 'static>(&self, work: impl FnOnce() -> T + Send + 'static) -> T {
        self.spawn(work).join().unwrap()
    }
}

impl Drop for Host {
    fn drop(&mut self) {
        let _ = self.holder.kill();
        let _ = self.holder.wait();
    }
}
