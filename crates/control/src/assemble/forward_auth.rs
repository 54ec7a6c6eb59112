//! Forward authentication: which service is asked, and for what.

use loadline_core::rules::{ForwardAuth, is_framing};
use loadline_spanned::{At, Problems, Span};

use super::{listener::Services, set};
use crate::file;

/// What the file says of it.
pub(super) fn forward_auth(
    (file, span): (&file::ForwardAuth, &Span),
    services: &Services<'_>,
    problems: &mut Problems,
) -> ForwardAuth {
    let service = match file.service.at() {
        Some(name) => services.find(&name.value.0.0, &name.span, problems),
        None => {
            let help = "say which: service = \"auth\"".to_owned();
            problems.absent(span, span, "`forward_auth` without `service`".to_owned(), help);
            0
        }
    };
    let mut auth = ForwardAuth::new(service);
    set(&file.path, |path| &path.0.0, &mut auth.path);
    if let Some(At { value, span }) = file.copy_headers.at() {
        auth.copy_headers = value.iter().map(|name| name.0.clone()).collect();
        value.each(span).for_each(|(name, span)| refuse_reserved(&name.0, span, problems));
    }
    auth
}

/// A service must not say where the message of a client ends, nor to which host it goes.
fn refuse_reserved(name: &str, place: &Span, problems: &mut Problems) {
    if is_framing(name) || name.eq_ignore_ascii_case("host") {
        let message = format!("`{name}` is not to be copied");
        let help = "servers would see another message than its client has sent; leave it out";
        problems.error(place, message, "this header", help.to_owned());
    }
}
