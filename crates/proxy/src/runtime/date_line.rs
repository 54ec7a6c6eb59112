//! The field Date of responses (RFC 9110, 6.6.1), written anew each second.

use std::cell::Cell;

use loadline_core::cache::format_date;

use crate::cache::unix_now;

/// The line, and the second that it was written in.
#[derive(Debug)]
pub(crate) struct DateLine(Cell<(i64, Line)>);

type Line = [u8; LINE.len()];

const LINE: &[u8; 37] = b"Date: Sun, 06 Nov 1994 08:49:37 GMT\r\n";

impl DateLine {
    pub(crate) fn new() -> Self {
        Self(Cell::new((i64::MIN, *LINE)))
    }

    /// The whole line for a response that begins now.
    pub(crate) fn now(&self) -> Line {
        let (second, line) = self.0.get();
        let now = unix_now();
        if now.as_secs() == second {
            return line;
        }
        let mut line = *LINE;
        line[b"Date: ".len()..LINE.len() - b"\r\n".len()].copy_from_slice(&format_date(now));
        self.0.set((now.as_secs(), line));
        line
    }
}
