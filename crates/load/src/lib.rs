//! The load generator: planned instants, outcome classes, three latencies.
#![forbid(unsafe_code)]
