//! Which servers may take traffic: by checks, by failures, by silence.

pub mod advisor;
pub mod checks;
pub(crate) mod draining;
pub mod echo;
pub mod ejection;
pub mod grpc;
pub mod outlier;
pub(crate) mod round_trip;
pub mod shared;
pub(crate) mod stall;
