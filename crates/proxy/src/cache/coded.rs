//! What was made of a stored body for clients that accept it compressed: once for each coding, by
//! whoever asks for it first. Whoever asks meanwhile gets the body as it is.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use bytes::Bytes;
use loadline_core::compress::Algorithm;

use super::pinned::pages_of;

/// The compressed forms of a body.
#[derive(Debug, Default)]
pub(crate) struct CodedForms(Mutex<[Form; Algorithm::ALL.len()]>);

/// The form for a client.
#[derive(Debug)]
pub(crate) enum Coded {
    /// The form is stored.
    Here(Bytes),
    /// The form is still to be made.
    Missing(Making),
    /// None: it is no shorter, or somebody makes it.
    None,
}

/// The right to make a form; another may when it is dropped.
#[derive(Debug)]
pub(crate) struct Making {
    forms: Arc<CodedForms>,
    algorithm: Algorithm,
}

#[derive(Clone, Debug, Default)]
enum Form {
    #[default]
    Missing,
    InWork,
    Here(Bytes),
    NotWorthIt,
}

impl CodedForms {
    /// The form by this algorithm.
    pub(crate) fn ask(self: &Arc<Self>, algorithm: Algorithm) -> Coded {
        let form = &mut self.lock()[algorithm as usize];
        match form {
            Form::Here(bytes) => Coded::Here(bytes.clone()),
            Form::InWork | Form::NotWorthIt => Coded::None,
            Form::Missing => {
                *form = Form::InWork;
                Coded::Missing(Making { forms: self.clone(), algorithm })
            }
        }
    }

    /// The memory that all of them take.
    pub(super) fn bytes(&self) -> u64 {
        let length =
            |form: &Form| if let Form::Here(bytes) = form { bytes.len() as u64 } else { 0 };
        self.lock().iter().map(length).sum()
    }

    /// The pages of those that are large.
    pub(super) fn pages(&self) -> u32 {
        let pages = |form: &Form| if let Form::Here(bytes) = form { pages_of(bytes) } else { 0 };
        self.lock().iter().map(pages).sum()
    }

    fn lock(&self) -> MutexGuard<'_, [Form; Algorithm::ALL.len()]> {
        // Nobody panics while holding it.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Making {
    /// Keeps what was made; nothing where it is no shorter than the body.
    pub(crate) fn finish(self, form: Option<Bytes>) {
        self.set(form.map_or(Form::NotWorthIt, Form::Here));
    }

    fn set(&self, form: Form) {
        self.forms.lock()[self.algorithm as usize] = form;
    }
}

impl Drop for Making {
    fn drop(&mut self) {
        let form = &mut self.forms.lock()[self.algorithm as usize];
        if matches!(form, Form::InWork) {
            *form = Form::Missing;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_form_is_made_once_and_by_another_where_its_maker_left() {
        let forms = Arc::<CodedForms>::default();
        let ask = || forms.ask(Algorithm::Gzip);
        let Coded::Missing(first) = ask() else { panic!("it is missing") };
        assert!(matches!(ask(), Coded::None), "somebody makes it");
        assert!(matches!(forms.ask(Algorithm::Zstd), Coded::Missing(_)), "another coding");
        drop(first);
        let Coded::Missing(second) = ask() else { panic!("it is missing still") };
        second.finish(Some(Bytes::from_static(b"short")));
        assert!(matches!(ask(), Coded::Here(bytes) if bytes == "short"));
        assert_eq!(forms.bytes(), 5);
        let Coded::Missing(brotli) = forms.ask(Algorithm::Brotli) else { panic!("it is missing") };
        brotli.finish(None);
        assert!(matches!(forms.ask(Algorithm::Brotli), Coded::None));
    }
}
