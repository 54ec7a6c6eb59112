//! The binary `loadline`.

fn main() {}
