//! Which servers are up: by checks, by how they answer, by whether they answer at all.

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
