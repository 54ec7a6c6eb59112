//! Listeners that come, go and change while traffic flows, and a process that follows another.

mod drains;
mod listeners;
mod stops;
mod succession;
mod support;
