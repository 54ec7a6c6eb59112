//! What users are told who write a wrong file or a wrong command.
#![expect(clippy::unwrap_used, reason = "a test helper fails the test it helps")]

mod messages;
mod outside;
mod paths;
mod said;
mod slips;
