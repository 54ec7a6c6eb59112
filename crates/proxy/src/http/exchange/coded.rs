//! Answers from the compressed form of a stored response.

use bytes::Bytes;
use loadline_core::{
    compress::{Algorithm, Response as Seen, Treatment},
    fleet::Compression,
    state::ServiceCounter,
};
use loadline_http1::Forwarded;

use super::{Exchange, stored::Source};
use crate::{
    cache::{Answer, Body, Coded, Object, Response, Wanted},
    http::compress::{encoder::Operation, head::edit_response},
    runtime::yield_once::yield_once,
};

impl Exchange<'_> {
    /// Gives the client the form of the response that it accepts, where the service compresses:
    /// changes the head, and the body to be sent. What is still coming in stays as it is.
    pub(super) async fn code(
        &mut self,
        wanted: &Wanted,
        response: &Response,
        answer: &mut Answer,
        source: &mut Source,
    ) {
        let settings = self.driver.route.settings();
        let Some(compression) = settings.compression.clone() else { return };
        let mut treatment = self.stored_treatment(&compression, response, answer);
        if let (Treatment::Compress(algorithm), Source::Object(object)) = (treatment, &*source) {
            match self.form(&compression, algorithm, wanted, object).await {
                Some(form) => *source = Source::Coded(form),
                None => treatment = Treatment::Vary,
            }
        } else if let Treatment::Compress(_) = treatment {
            treatment = Treatment::Vary;
        }
        if treatment != Treatment::Keep {
            answer.head.extend_from_slice(b"\r\n");
            let _ = edit_response(treatment, false, Forwarded::Rewritten, b"", &mut answer.head);
            answer.head.truncate(answer.head.len() - 2);
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

    fn count_coded(&self, algorithm: Algorithm, plain: u64, compressed: u64) {
        let cells = &self.driver.route.service_context().cells;
        cells.add(ServiceCounter::compressed_by(algorithm), 1);
        cells.add(ServiceCounter::CompressionInput, plain);
        cells.add(ServiceCounter::CompressionOutput, compressed);
    }
}

/// What is compressed before other connections get their turn.
const SLICE: usize = 32 << 10;
