//! Notes that responses cannot be stored, so that requests for them do not wait for each other in
//! vain.

use loadline_core::time::Instant;

use super::{Key, Store, Wanted, What, longer};

impl Store {
    /// Notes that the response for a key cannot be stored until `until`, and that the stored one is
    /// out of date.
    pub(crate) fn pass(&self, Wanted { url, variant, .. }: &Wanted, key: &Key, until: Instant) {
        let of_nothing = (key == url).then(|| longer(url, 0, variant, b""));
        self.put(of_nothing.as_ref().unwrap_or(key), What::Unstorable(until), None);
        // The URL may lead to others since.
        let is_it = |it: &What| matches!(it, What::Object(it) if it.response.variant == *variant);
        if of_nothing.is_some() && self.read().get(url).is_some_and(is_it) {
            self.remove(url);
        }
    }

    /// Notes that responses to requests with `Authorization` cannot be stored until `until`.
    pub(crate) fn pass_authorized(&self, wanted: &Wanted, until: Instant) {
        self.put(&of_authorized(wanted), What::Unstorable(until), None);
    }

    /// Whether that is noted.
    pub(crate) fn passes_authorized(&self, wanted: &Wanted, now: Instant) -> bool {
        self.passes(&of_authorized(wanted), now)
    }

    /// Whether it is noted that the response for a key cannot be stored.
    pub(crate) fn passes(&self, key: &[u8], now: Instant) -> bool {
        let table = self.read();
        matches!(table.hit(key), Some(What::Unstorable(until)) if now < *until)
    }
}

/// Key of the note kept for requests with `Authorization`; one for all users.
fn of_authorized(Wanted { url, variant, .. }: &Wanted) -> Key {
    longer(url, 0, variant, b"authorization")
}
