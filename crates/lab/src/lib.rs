//! Test servers that compute, wait and answer.
#![forbid(unsafe_code)]
