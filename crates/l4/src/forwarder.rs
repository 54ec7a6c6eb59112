//! What a forwarder keeps in mind.

pub mod episode;
pub mod load;
pub mod numbers;
pub mod targets;
