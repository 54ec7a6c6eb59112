//! What users are told who write a wrong file or a wrong command.

mod messages;
mod said;
mod slips;
