//! Decisions of loadline: no clock, no I/O, no threads, no randomness of its own.
#![forbid(unsafe_code)]
