//! Gzip, brotli and zstd behind one call: bytes in, what is ready of their compressed form out.
//!
//! Memory while a response is under way, measured at the default levels: gzip 0.4 MB, zstd 1.8 MB,
//! brotli 6 MB; less where the length of a zstd or brotli body is known and small.

use std::fmt;

use brotli::enc::{
    StandardAlloc,
    encode::{
        BrotliEncoderDestroyInstance, BrotliEncoderOperation, BrotliEncoderParameter,
        BrotliEncoderStateStruct,
    },
};
use flate2::{Compress, Compression, FlushCompress, Status};
use loadline_core::compress::Algorithm;
use zstd_safe::{
    CCtx, CParameter, InBuffer, OutBuffer, ResetDirective, zstd_sys::ZSTD_EndDirective,
};

/// Compresses one body after another.
pub(crate) struct Encoder {
    algorithm: Algorithm,
    level: i32,
    state: State,
    /// Whether the body has ended, and all of its compressed form is out.
    is_through: bool,
}

enum State {
    Gzip(Compress),
    Brotli(Box<Brotli>),
    Zstd(CCtx<'static>),
}

/// What is wanted beside the compression of some bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Operation {
    /// More will come: output as it suits the encoder.
    Process,
    /// Everything so far must be decompressible from the output.
    Flush,
    /// The body ends here.
    Finish,
}

/// An encoder that cannot go on, as for want of memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the encoder failed")]
pub(crate) struct EncoderFailed;

impl Encoder {
    /// An encoder for a body, whose size helps where it is known.
    pub(crate) fn new(
        algorithm: Algorithm,
        level: i32,
        size: Option<u64>,
    ) -> Result<Self, EncoderFailed> {
        let positive = u32::try_from(level).unwrap_or(0);
        let state = match algorithm {
            Algorithm::Gzip => {
                State::Gzip(Compress::new_gzip(Compression::new(positive), GZIP_WINDOW))
            }
            Algorithm::Brotli => State::Brotli(Box::new(Brotli::new(positive, size)?)),
            Algorithm::Zstd => {
                let mut context = CCtx::try_create().ok_or(EncoderFailed)?;
                for parameter in
                    [CParameter::CompressionLevel(level), CParameter::WindowLog(ZSTD_WINDOW)]
                {
                    context.set_parameter(parameter).map_err(|_| EncoderFailed)?;
                }
                context.set_pledged_src_size(size).map_err(|_| EncoderFailed)?;
                State::Zstd(context)
            }
        };
        Ok(Self { algorithm, level, state, is_through: false })
    }

    /// What it compresses with, and how hard it tries.
    pub(crate) const fn kind(&self) -> (Algorithm, i32) {
        (self.algorithm, self.level)
    }

    /// The same encoder for another body; none if it is good for one alone. One whose body broke
    /// off is not: a reset leaves some of that in it, as zlib-rs does with a block of level 1.
    pub(crate) fn renewed(mut self) -> Option<Self> {
        if !std::mem::take(&mut self.is_through) {
            return None;
        }
        match &mut self.state {
            State::Gzip(compress) => compress.reset(),
            State::Brotli(_) => return None,
            State::Zstd(context) => {
                context.reset(ResetDirective::SessionOnly).ok()?;
            }
        }
        Some(self)
    }

    /// Says how long the next body will be, if that is known.
    pub(crate) fn pledge(&mut self, size: Option<u64>) -> Result<(), EncoderFailed> {
        match &mut self.state {
            State::Zstd(context) => {
                context.set_pledged_src_size(size).map(drop).map_err(|_| EncoderFailed)
            }
            State::Gzip(_) | State::Brotli(_) => Ok(()),
        }
    }

    /// Compresses `input`, and appends what is ready to `out`.
    pub(crate) fn encode(
        &mut self,
        input: &[u8],
        operation: Operation,
        out: &mut Vec<u8>,
    ) -> Result<(), EncoderFailed> {
        match &mut self.state {
            State::Gzip(compress) => gzip(compress, input, operation, out),
            State::Brotli(brotli) => brotli.encode(input, operation, out),
            State::Zstd(context) => zstd(context, input, operation, out),
        }?;
        self.is_through = operation == Operation::Finish;
        Ok(())
    }
}

impl fmt::Debug for Encoder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Encoder")
            .field("algorithm", &self.algorithm)
            .field("level", &self.level)
            .finish_non_exhaustive()
    }
}

fn gzip(
    compress: &mut Compress,
    mut input: &[u8],
    operation: Operation,
    out: &mut Vec<u8>,
) -> Result<(), EncoderFailed> {
    let flush = match operation {
        Operation::Process => FlushCompress::None,
        Operation::Flush => FlushCompress::Sync,
        Operation::Finish => FlushCompress::Finish,
    };
    loop {
        out.reserve(ROOM);
        let before = compress.total_in();
        let status = compress.compress_vec(input, out, flush).map_err(|_| EncoderFailed)?;
        let taken = usize::try_from(compress.total_in() - before).map_err(|_| EncoderFailed)?;
        input = input.get(taken..).ok_or(EncoderFailed)?;
        let has_room = out.len() < out.capacity();
        let is_through = match operation {
            Operation::Finish => status == Status::StreamEnd,
            Operation::Process | Operation::Flush => input.is_empty() && has_room,
        };
        if is_through {
            return Ok(());
        }
        if has_room && taken == 0 {
            return Err(EncoderFailed);
        }
    }
}

fn zstd(
    context: &mut CCtx<'_>,
    input: &[u8],
    operation: Operation,
    out: &mut Vec<u8>,
) -> Result<(), EncoderFailed> {
    let directive = match operation {
        Operation::Process => ZSTD_EndDirective::ZSTD_e_continue,
        Operation::Flush => ZSTD_EndDirective::ZSTD_e_flush,
        Operation::Finish => ZSTD_EndDirective::ZSTD_e_end,
    };
    let mut input = InBuffer::around(input);
    loop {
        out.reserve(ROOM);
        let filled = out.len();
        let left = {
            let mut output = OutBuffer::around_pos(out, filled);
            context
                .compress_stream2(&mut output, &mut input, directive)
                .map_err(|_| EncoderFailed)?
        };
        let is_through = match operation {
            Operation::Process => input.pos() == input.src.len(),
            Operation::Flush | Operation::Finish => left == 0,
        };
        if is_through {
            return Ok(());
        }
    }
}

/// An encoder of brotli.
struct Brotli(BrotliEncoderStateStruct<StandardAlloc>);

impl Brotli {
    fn new(quality: u32, size: Option<u64>) -> Result<Self, EncoderFailed> {
        let mut state = BrotliEncoderStateStruct::new(StandardAlloc::default());
        let window = if quality < 5 { BROTLI_WINDOW } else { BROTLI_WINDOW_OF_5 };
        let size = size.and_then(|size| u32::try_from(size).ok()).unwrap_or(0);
        let parameters = [
            (BrotliEncoderParameter::BROTLI_PARAM_QUALITY, quality),
            (BrotliEncoderParameter::BROTLI_PARAM_LGWIN, window),
            (BrotliEncoderParameter::BROTLI_PARAM_SIZE_HINT, size),
        ];
        let mut parameters = parameters.into_iter();
        let is_set = parameters.all(|(parameter, value)| state.set_parameter(parameter, value));
        if is_set { Ok(Self(state)) } else { Err(EncoderFailed) }
    }

    fn encode(
        &mut self,
        input: &[u8],
        operation: Operation,
        out: &mut Vec<u8>,
    ) -> Result<(), EncoderFailed> {
        let operation = match operation {
            Operation::Process => BrotliEncoderOperation::BROTLI_OPERATION_PROCESS,
            Operation::Flush => BrotliEncoderOperation::BROTLI_OPERATION_FLUSH,
            Operation::Finish => BrotliEncoderOperation::BROTLI_OPERATION_FINISH,
        };
        let (mut left, mut taken, mut total) = (input.len(), 0, None);
        loop {
            let filled = out.len();
            out.resize(filled + ROOM, 0);
            let (mut room, mut written) = (ROOM, 0);
            let went_well = self.0.compress_stream(
                operation,
                &mut left,
                input,
                &mut taken,
                &mut room,
                &mut out[filled..],
                &mut written,
                &mut total,
                &mut |_, _, _, _| (),
            );
            out.truncate(filled + written);
            if !went_well {
                return Err(EncoderFailed);
            }
            if left == 0 && !self.0.has_more_output() {
                return Ok(());
            }
        }
    }
}

impl Drop for Brotli {
    fn drop(&mut self) {
        BrotliEncoderDestroyInstance(&mut self.0);
    }
}

/// Space that is made for output at a time.
const ROOM: usize = 16 << 10;

/// 32 kB, the largest there is.
const GZIP_WINDOW: u8 = 15;

/// 256 kB: with 2 MB, which level 3 has by itself, bodies are 4 % shorter and an encoder takes
/// 3.6 MB instead of 1.8 MB. Clients must take 8 MB (RFC 9659).
const ZSTD_WINDOW: u32 = 18;

/// 512 kB. Less makes bodies longer than gzip makes them, more takes 9.5 MB at level 4.
const BROTLI_WINDOW: u32 = 19;

/// 1 MB: from level 5 on less is worse than level 3.
const BROTLI_WINDOW_OF_5: u32 = 20;

#[cfg(test)]
mod tests {
    use std::io::Read as _;

    use proptest::prelude::*;

    use super::*;

    fn decoded(algorithm: Algorithm, bytes: &[u8]) -> Vec<u8> {
        let mut out = Vec::new();
        match algorithm {
            Algorithm::Gzip => {
                flate2::read::GzDecoder::new(bytes).read_to_end(&mut out).unwrap();
            }
            Algorithm::Brotli => {
                brotli::Decompressor::new(bytes, 4096).read_to_end(&mut out).unwrap();
            }
            Algorithm::Zstd => out = unzstd(bytes),
        }
        out
    }

    fn unzstd(bytes: &[u8]) -> Vec<u8> {
        let (mut context, mut out) = (zstd_safe::DCtx::create(), Vec::new());
        let mut input = InBuffer::around(bytes);
        loop {
            out.reserve(ROOM);
            let filled = out.len();
            let mut output = OutBuffer::around_pos(&mut out, filled);
            let left = context.decompress_stream(&mut output, &mut input).unwrap();
            let is_full = output.pos() == output.capacity();
            if left == 0 {
                assert_eq!(input.pos(), bytes.len(), "bytes behind the frame");
                return out;
            }
            assert!(is_full || input.pos() < bytes.len(), "the frame is cut");
        }
    }

    /// Text that is worth compressing, and some that is not.
    fn text(seed: u64, length: usize) -> Vec<u8> {
        let mut state = seed | 1;
        let mut bytes = Vec::with_capacity(length);
        while bytes.len() < length {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(seed);
            let words = ["<li class=\"item\">", "</li>\n", "loadline", "compressed ", "\u{fc}"];
            match state >> 61 {
                0 => bytes.extend_from_slice(&state.to_le_bytes()),
                word => bytes.extend_from_slice(words[word as usize % words.len()].as_bytes()),
            }
        }
        bytes.truncate(length);
        bytes
    }

    fn levels(algorithm: Algorithm) -> &'static [i32] {
        match algorithm {
            Algorithm::Gzip => &[1, 3, 5, 9],
            Algorithm::Brotli => &[0, 1, 4, 5],
            Algorithm::Zstd => &[-1, 1, 3, 6],
        }
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(96))]

        #[test]
        fn what_is_compressed_in_any_pieces_is_whole_again(
            seed: u64,
            length in 0_usize..200_000,
            cuts in proptest::collection::vec((1_usize..40_000, any::<bool>()), 1..12),
            (which, level) in (0_usize..3, 0_usize..4),
            is_pledged: bool,
        ) {
            let algorithm = Algorithm::ALL[which];
            let level = levels(algorithm)[level];
            let plain = text(seed, length);
            let size = is_pledged.then_some(length as u64);
            let mut encoder = Encoder::new(algorithm, level, size).unwrap();
            // An encoder that is used again gives the same, also if a body breaks off before.
            for breaks_off in [false, true, false] {
                let (mut rest, mut out) = (&plain[..], Vec::new());
                let mut decodable = 0;
                for (cut, flushes) in cuts.iter().cycle() {
                    let (piece, more) = rest.split_at((*cut).min(rest.len()));
                    rest = more;
                    let operation = if *flushes { Operation::Flush } else { Operation::Process };
                    encoder.encode(piece, operation, &mut out).unwrap();
                    decodable = decodable.max(usize::from(*flushes) * out.len());
                    if rest.is_empty() || breaks_off {
                        break;
                    }
                }
                if !breaks_off {
                    encoder.encode(b"", Operation::Finish, &mut out).unwrap();
                    prop_assert!(decodable <= out.len());
                    prop_assert_eq!(decoded(algorithm, &out), &plain[..]);
                }
                let Some(again) = encoder.renewed() else { break };
                encoder = again;
                encoder.pledge(size).unwrap();
            }
        }
    }

    #[test]
    fn after_a_flush_all_that_came_can_be_read() {
        for algorithm in Algorithm::ALL {
            let mut encoder = Encoder::new(algorithm, 3, None).unwrap();
            let mut out = Vec::new();
            encoder.encode(b"data: first\n\n", Operation::Flush, &mut out).unwrap();
            let mut read = [0; 13];
            match algorithm {
                Algorithm::Gzip => {
                    flate2::read::GzDecoder::new(&out[..]).read_exact(&mut read).unwrap();
                }
                Algorithm::Brotli => {
                    brotli::Decompressor::new(&out[..], 64).read_exact(&mut read).unwrap();
                }
                Algorithm::Zstd => {
                    let mut context = zstd_safe::DCtx::create();
                    let mut output = OutBuffer::around(&mut read[..]);
                    let mut input = InBuffer::around(&out[..]);
                    context.decompress_stream(&mut output, &mut input).unwrap();
                }
            }
            assert_eq!(&read, b"data: first\n\n", "{algorithm:?}");
        }
    }

    #[test]
    fn a_body_that_is_not_as_long_as_was_said_fails_rather_than_ends() {
        let mut encoder = Encoder::new(Algorithm::Zstd, 3, Some(10)).unwrap();
        let mut out = Vec::new();
        encoder.encode(b"sho", Operation::Process, &mut out).unwrap();
        assert_eq!(encoder.encode(b"rt", Operation::Finish, &mut out), Err(EncoderFailed));
    }
}
