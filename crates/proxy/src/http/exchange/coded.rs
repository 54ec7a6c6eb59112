//! Answers from the compressed form of a stored response, or of one that is for this client alone.

use bytes::Bytes;
use loadline_core::{
    compress::{Algorithm, Response as Seen, Treatment},
    fleet::Compression,
    state::ServiceCounter,
};
use loadline_http1::Forwarded;

use super::{Exchange, compressed::Compressed, stored::Source};
use crate::{
    cache::{Answer, Body, Coded, Object, Response, Wanted},
    http::compress::{encoder::Operation, head::edit_response},
    runtime::yield_once::yield_once,
};

impl Exchange<'_> {
    /// The form of the response that the client accepts, where the service compresses, with its
    /// head changed to that. What comes in to be used again stays as it is.
    pub(super) async fn code(
        &self,
        (wanted, response): (&Wanted, &Response),
        answer: &mut Answer,
        source: Source,
        is_for_one: bool,
    ) -> Source {
        let settings = self.driver.route.settings();
        let Some(compression) = &settings.compression else { return source };
        let treatment = self.stored_treatment(compression, response, answer);
        let coded = match treatment {
            Treatment::Compress(algorithm) => {
                let from = (response, source, is_for_one);
                self.coded(compression, algorithm, wanted, from).await
            }
            _ => Ok(source),
        };
        let (treatment, source) = match coded {
            Ok(source) => (treatment, source),
            Err(plain) => (Treatment::Vary, plain),
        };
        if treatment != Treatment::Keep {
            answer.head.extend_from_slice(b"\r\n");
            let _ = edit_response(treatment, false, Forwarded::Rewritten, b"", &mut answer.head);
            answer.head.truncate(answer.head.len() - 2);
        }
        source
    }

    /// What brings the compressed form of a body instead of this source of it, or the source where
    /// that is sent as it is.
    async fn coded(
        &self,
        compression: &Compression,
        algorithm: Algorithm,
        wanted: &Wanted,
        (response, source, is_for_one): (&Response, Source, bool),
    ) -> Result<Source, Source> {
        match source {
            Source::Object(object) => {
                let form = self.form(compression, algorithm, wanted, &object).await;
                form.map(Source::Coded).ok_or(Source::Object(object))
            }
            Source::Arrival(reader) if is_for_one => {
                match self.encoder(compression, algorithm, (response, &reader)) {
                    Some(it) => Ok(Source::Compressed(Compressed::new(reader, algorithm, it))),
                    None => Err(Source::Arrival(reader)),
                }
            }
            plain => Err(plain),
        }
    }

    fn stored_treatment(
        &self,
        compression: &Compression,
        response: &Response,
        answer: &Answer,
    ) -> Treatment {
        let mut offer = self.request.offer;
        let is_whole = answer.body == Body::Whole;
        if !is_whole {
            offer.algorithm = None;
        }
        let fields = response.fields();
        let treat = |status| {
            let fields = fields.iter().map(|field| (field.name, field.value));
            let seen = Seen { status, length: response.length.complete(), fields };
            Treatment::of(compression, &offer, seen)
        };
        match answer.status {
            206 => treat(response.status),
            // It has the `Vary` that the whole would have: RFC 9110 section 15.4.5.
            304 => match treat(304) {
                Treatment::Weaken => Treatment::Weaken,
                _ => treat(response.status),
            },
            status => treat(status),
        }
    }

    /// The form of an object by this algorithm: the one that is kept, or one made now. None where
    /// the object is sent as it is.
    async fn form(
        &self,
        compression: &Compression,
        algorithm: Algorithm,
        wanted: &Wanted,
        object: &std::sync::Arc<Object>,
    ) -> Option<Bytes> {
        let making = match object.coded().ask(algorithm) {
            Coded::Here(form) => return Some(form),
            Coded::None => return None,
            Coded::Missing(making) => making,
        };
        let level = self.worker.encoders.level(algorithm, compression.levels)?;
        let store = &self.worker.shared.store;
        let made = self.encode(object, algorithm, level).await.map(|form| store.count(form));
        let kept = made.filter(|form| store.grow(&wanted.url, object, form));
        making.finish(kept.clone());
        kept
    }

    /// The whole body, compressed; none where that is no shorter.
    async fn encode(&self, object: &Object, algorithm: Algorithm, level: i32) -> Option<Bytes> {
        let encoders = &self.worker.encoders;
        let mut encoder = encoders.take(algorithm, level, Some(object.length())).ok()?;
        let (mut output, mut at) = (Vec::new(), 0);
        let made = loop {
            let piece = object.after(at);
            let piece = &piece[..piece.len().min(SLICE)];
            if piece.is_empty() {
                break encoder.encode(b"", Operation::Finish, &mut output);
            }
            if let Err(failed) = encoder.encode(piece, Operation::Process, &mut output) {
                break Err(failed);
            }
            at += piece.len() as u64;
            yield_once().await;
        };
        encoders.give(encoder);
        made.ok()?;
        self.count_coded(algorithm, object.length(), output.len() as u64);
        output.shrink_to_fit();
        ((output.len() as u64) < object.length()).then(|| output.into())
    }

    pub(super) fn count_coded(&self, algorithm: Algorithm, plain: u64, compressed: u64) {
        let cells = &self.driver.route.service_context().cells;
        cells.add(ServiceCounter::compressed_by(algorithm), 1);
        cells.add(ServiceCounter::CompressionInput, plain);
        cells.add(ServiceCounter::CompressionOutput, compressed);
    }
}

/// What is compressed before other connections get their turn.
pub(super) const SLICE: usize = 32 << 10;
