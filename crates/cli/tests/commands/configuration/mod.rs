//! What users are told who write a wrong file or a wrong command.

mod explain;
mod messages;
mod outside;
mod paths;
mod said;
mod slips;
