//! Tracing: a table of which all but the collector has a default.

use loadline_core::fleet::Tracing;
use loadline_spanned::{Key, Problems};

use super::set;
use crate::file;

/// What the file says of it; none where it says nothing.
pub(super) fn tracing(given: &Key<file::Tracing>, problems: &mut Problems) -> Option<Tracing> {
    let given = given.at()?;
    let Some(endpoint) = given.value.endpoint.get() else {
        let message = "tracing without `endpoint`".to_owned();
        let help = "say where spans go: endpoint = \"http://127.0.0.1:4318\"".to_owned();
        problems.absent(&given.span, &given.span, message, help);
        return None;
    };
    let mut tracing = Tracing::to(&endpoint.0.authority);
    tracing.path.clone_from(&endpoint.0.path);
    set(&given.value.service_name, |it| &it.0.0, &mut tracing.service_name);
    set(&given.value.sample, |it| &it.0.0, &mut tracing.sample);
    set(&given.value.timeout, |it| &it.0.0, &mut tracing.timeout);
    set(&given.value.queue, |it| &it.0, &mut tracing.queue);
    Some(tracing)
}
