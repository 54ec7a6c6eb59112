//! A network namespace, for as long as its holder lives.

use std::{
    fs::{File, read_link},
    os::fd::AsFd,
    process::{Child, Command},
    thread,
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
        holder.args(["--net", "sleep", "300"]);
        let host = Self { holder: holder.spawn().unwrap() };
        let own = read_link("/proc/self/ns/net").unwrap();
        while read_link(host.path()).unwrap() == own {
            thread::yield_now();
        }
        host
    }

    fn path(&self) -> String {
        format!("/proc/{}/ns/net", self.holder.id())
    }

    /// Runs a command there, which must succeed.
    pub(crate) fn run(&self, command: &str) {
        let mut program = Command::new("nsenter");
        program.arg(format!("--net={}", self.path())).args(command.split_whitespace());
        let output = program.output().unwrap();
        assert!(output.status.success(), "{command}: {}", String::from_utf8_lossy(&output.stderr));
    }

    /// What `work` gives when it is done there.
    pub(crate) fn enter<T: Send + 'static>(&self, work: impl FnOnce() -> T + Send + 'static) -> T {
        let namespace = File::open(self.path()).unwrap();
        let thread = thread::spawn(move || {
            let kind = Some(LinkNameSpaceType::Network);
            move_into_link_name_space(namespace.as_fd(), kind).unwrap();
            work()
        });
        thread.join().unwrap()
    }
}

impl Drop for Host {
    fn drop(&mut self) {
        let _ = self.holder.kill();
        let _ = self.holder.wait();
    }
}

/// Gives a host an `eth0`, whose other end is called `name` and is a port of the network's bridge.
pub(crate) fn link(network: &Host, host: &Host, name: &str) {
    let there = host.path();
    network.run(&format!("ip link add {name} type veth peer name eth0 netns {there}"));
    network.run(&format!("ip link set {name} master hub"));
    network.run(&format!("ip link set {name} up"));
}
