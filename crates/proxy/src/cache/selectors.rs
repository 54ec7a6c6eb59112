//! By what of a request a stored response is chosen, beyond its URL, and by what it is purged.

use std::{ops::Deref, sync::LazyLock};

use loadline_core::cache::{Fields, Vary};

/// What a response is selected by.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Selectors {
    /// Request fields that the response was chosen by.
    pub(crate) vary: Vary,
    /// The values of those fields in its request; none if no request can have them again.
    pub(crate) secondary: Option<Box<[u8]>>,
    /// Tags to purge it by, together with others.
    pub(crate) tags: Box<[Box<[u8]>]>,
}

/// The same in the memory of a pointer where it has neither `Vary` nor tags, as most responses.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct StoredSelectors(Option<Box<Selectors>>);

impl Selectors {
    /// Of a response to any request, without tags.
    pub(crate) fn none() -> Self {
        Self {
            vary: Vary::Fields(Box::default()),
            secondary: Some(Box::default()),
            tags: Box::default(),
        }
    }

    fn are_of(&self, request: Fields<'_>) -> bool {
        self.secondary.is_some()
            && self.secondary.as_deref() == self.vary.secondary_key(request).as_deref()
    }

    /// Memory in bytes, with `allocation` bytes for each allocation.
    fn bytes(&self, allocation: usize) -> usize {
        let of_tag = size_of::<Box<[u8]>>() + allocation;
        let secondary = self.secondary.as_ref().map_or(0, |it| it.len() + allocation);
        let tags = self.tags.iter().map(|tag| tag.len() + of_tag).sum::<usize>();
        size_of::<Self>() + allocation + secondary + tags
    }
}

impl StoredSelectors {
    /// Whether this request matches the selecting fields of the response.
    pub(crate) fn are_of(&self, request: Fields<'_>) -> bool {
        self.0.as_ref().is_none_or(|selectors| selectors.are_of(request))
    }

    /// The memory that they take beside the pointer, with so many bytes for each allocation.
    pub(crate) fn bytes(&self, allocation: usize) -> usize {
        self.0.as_ref().map_or(0, |selectors| selectors.bytes(allocation))
    }
}

impl From<Selectors> for StoredSelectors {
    fn from(selectors: Selectors) -> Self {
        Self((selectors != *NONE).then(|| Box::new(selectors)))
    }
}

impl Deref for StoredSelectors {
    type Target = Selectors;

    fn deref(&self) -> &Selectors {
        self.0.as_deref().unwrap_or(&NONE)
    }
}

static NONE: LazyLock<Selectors> = LazyLock::new(Selectors::none);

#[cfg(test)]
mod tests {
    use loadline_core::cache::Field;

    use super::*;

    #[test]
    fn a_response_without_vary_and_tags_takes_a_pointer_and_answers_everybody() {
        let plain = StoredSelectors::from(Selectors::none());
        assert_eq!((size_of::<StoredSelectors>(), plain.bytes(16)), (8, 0));
        assert!(plain.are_of(Fields(&[Field::new(b"Accept", b"*/*")])));
        assert_eq!((plain.secondary.as_deref(), plain.tags.len()), (Some(&b""[..]), 0));
    }

    #[test]
    fn what_it_varies_by_is_compared_and_its_tags_are_kept() {
        let asks = |value: &'static [u8]| [Field::new(b"Accept-Language", value)];
        let vary = Vary::Fields([b"accept-language".to_vec()].into());
        let secondary = vary.secondary_key(Fields(&asks(b"de"))).map(Into::into);
        let tags: Box<[Box<[u8]>]> = [b"a"[..].into()].into();
        let stored = StoredSelectors::from(Selectors { vary, secondary, tags });
        assert!(stored.are_of(Fields(&asks(b"de"))) && !stored.are_of(Fields(&asks(b"en"))));
        assert_eq!(stored.tags.len(), 1);
        assert!(stored.bytes(16) > size_of::<Selectors>());
        let unkeyed = StoredSelectors::from(Selectors { secondary: None, ..Selectors::none() });
        assert!(!unkeyed.are_of(Fields(&[])), "no request can have its values again");
    }
}
