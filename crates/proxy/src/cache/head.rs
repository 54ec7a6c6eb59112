//! What the response to a `HEAD` that a server was asked says of what is stored for `GET`: RFC 9111
//! section 4.3.5.

use std::sync::Arc;

use loadline_core::cache::{Effect, Field, Fields, effect_of_head, forbids_storing};

use super::{
    fill::{Came, freshened},
    store::{Store, What},
    wanted::{Wanted, request_fields},
};

impl Store {
    /// Freshens what is stored, has it validated before its next use, or forgets it, if the
    /// response to a `HEAD` says so. It freshens only what was stored when it was asked, and was
    /// not purged since: it may be of before the change.
    pub(crate) fn learn_from_head(&self, wanted: &Wanted, came: &Came<'_>) {
        let asked = request_fields(came.asked);
        let found = self.find(&wanted.url, &wanted.variant, Fields(&asked));
        let Some(What::Object(stored)) = found.what else { return };
        let received = came.fields();
        let exchange = came.exchange(wanted, &asked, &received);
        let length = stored.told_length().complete().unwrap_or_default().to_string();
        let mut old = stored.response.fields();
        old.push(Field::new(b"Content-Length", length.as_bytes()));
        match effect_of_head(&exchange.response, stored.response.status, Fields(&old)) {
            Effect::Nothing => {}
            Effect::Outdated => {
                let mut metadata = stored.metadata;
                metadata.invalidate();
                self.replace(&found.key, &stored, stored.with(metadata), None);
            }
            Effect::Freshen => match freshened(wanted, &stored, &exchange, stored.epoch) {
                Ok(object) => {
                    let known = wanted.stand_in.as_ref();
                    if let Some(known) = known.filter(|it| Arc::ptr_eq(&it.object, &stored)) {
                        self.replace(&found.key, &stored, object, Some(known.since));
                    }
                }
                Err(refusal) if forbids_storing(refusal, Fields(&asked)) => {
                    self.give_up_on_disk(wanted, Fields(&asked));
                    self.forget(&wanted.url, &stored);
                }
                Err(_) => {}
            },
        }
    }
}
