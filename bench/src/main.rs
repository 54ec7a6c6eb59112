//! The benchmark: loadline beside HAProxy and nginx, driven as processes.

fn main() {}
