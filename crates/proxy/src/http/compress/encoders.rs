//! Encoders that a worker keeps for the next response: making one costs as much as compressing
//! some kilobytes. And how hard they may try, by how busy the worker is.

use std::cell::{Cell, RefCell};

use loadline_core::{
    compress::{Algorithm, Effort},
    fleet::Levels,
};

use super::encoder::{Encoder, EncoderFailed};

/// The encoders of one worker that nobody uses.
#[derive(Debug, Default)]
pub(crate) struct Encoders {
    free: RefCell<Vec<Encoder>>,
    effort: Cell<Effort>,
}

impl Encoders {
    /// The level at which a response is compressed that begins now; none where it is not.
    pub(crate) fn level(&self, algorithm: Algorithm, levels: Levels) -> Option<i32> {
        self.effort.get().level(algorithm, levels)
    }

    /// An encoder for a body, whose size helps where it is known.
    pub(crate) fn take(
        &self,
        algorithm: Algorithm,
        level: i32,
        size: Option<u64>,
    ) -> Result<Encoder, EncoderFailed> {
        let mut free = self.free.borrow_mut();
        match free.iter().rposition(|encoder| encoder.kind() == (algorithm, level)) {
            Some(place) => {
                let mut encoder = free.swap_remove(place);
                encoder.pledge(size)?;
                Ok(encoder)
            }
            None => Encoder::new(algorithm, level, size),
        }
    }

    /// Takes an encoder back, however far its body got.
    pub(crate) fn give(&self, encoder: Encoder) {
        let mut free = self.free.borrow_mut();
        if let Some(encoder) = encoder.renewed() {
            if free.len() == KEPT {
                // Those that fit what is asked for now come last.
                free.remove(0);
            }
            free.push(encoder);
        }
    }
}

/// At most 8 MB a worker, at the default levels.
const KEPT: usize = 4;
