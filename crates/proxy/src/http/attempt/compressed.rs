//! Sends a response compressed.

use loadline_core::{
    compress::{Algorithm, Offer, Treatment},
    decide::reason::Reason,
    fleet::Compression,
    state::ServiceCounter,
};
use loadline_http1::{Framing, ResponseHead};

use super::{Attempt, Done};
use crate::{
    http::{
        compress::{self, body::CompressedBody},
        exchange::Exchange,
    },
    io::buffer::Buffer,
};

impl Attempt<'_, '_> {
    /// What becomes of the response that `buffer` begins with, where the service compresses. One
    /// that came whole with its head and is too short to be worth it is told by its bytes.
    #[cold]
    pub(super) fn treat(
        &self,
        compression: &Compression,
        offer: &Offer,
        head: &ResponseHead,
        buffer: &Buffer,
    ) -> Treatment {
        let Exchange { worker, request, .. } = &*self.exchange;
        let asked = (head, request.method);
        let treatment = compress::head::treatment(compression, offer, asked, buffer.filled());
        let Treatment::Compress(algorithm) = treatment else { return treatment };
        if worker.encoders.level(algorithm, compression.levels).is_none() {
            return Treatment::Vary;
        }
        let mut body = head.body();
        let mut length = 0_u64;
        let early = &buffer.filled()[head.head_len()..];
        // What breaks a rule does so again when it is passed on.
        let fed = body.feed_data(early, |piece| length += piece.len() as u64);
        let is_short = fed.is_ok() && body.is_finished() && compression.is_short(length);
        if is_short && head.framing() != Framing::None { Treatment::Vary } else { treatment }
    }

    /// Passes the response on, its body compressed.
    pub(super) async fn compress(
        &mut self,
        algorithm: Algorithm,
        head: &ResponseHead,
        mut buffer: Buffer,
    ) -> Result<Done, Reason> {
        let body = self.body_of(head)?;
        let in_chunks = !self.exchange.request.version.is_http10();
        let keep_alive = self.may_keep_alive() && in_chunks;
        let treatment = Treatment::Compress(algorithm);
        let (text, _) = self.write_head(
            head,
            buffer.filled(),
            (keep_alive, !in_chunks),
            (treatment, in_chunks),
        );
        let size = match head.framing() {
            Framing::Length(length) => Some(length),
            Framing::None | Framing::Chunked | Framing::UntilClose => None,
        };
        let Exchange { worker, driver, .. } = &*self.exchange;
        let worker = *worker;
        let levels = driver.route.settings().compression.as_ref().map(|it| it.levels);
        let level = levels.and_then(|levels| worker.encoders.level(algorithm, levels));
        let encoder = worker.encoders.take(algorithm, level.unwrap_or_default(), size);
        let encoder = encoder.map_err(|_| Reason::SystemError)?;
        self.commit(head, !in_chunks);
        buffer.consume(head.head_len());
        let mut download = CompressedBody::begin((body, encoder), buffer, text, in_chunks);
        let carried = self.carry_body(&mut download, head).await;
        self.count(algorithm, &download);
        let body = download.give_back(&worker.encoders, &worker.buffers);
        carried?;
        Ok(self.done(head, &body, keep_alive))
    }

    /// Counts a response that was compressed, or as much of it as there was.
    fn count(&self, algorithm: Algorithm, body: &CompressedBody) {
        let cells = &self.exchange.driver.route.service_context().cells;
        cells.add(ServiceCounter::compressed_by(algorithm), 1);
        cells.add(ServiceCounter::CompressionInput, body.plain);
        cells.add(ServiceCounter::CompressionOutput, body.compressed);
    }
}
