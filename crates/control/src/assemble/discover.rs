//! Groups whose servers are found out.

use loadline_core::fleet::{Discovery, ListPlace, Server, Source};

use super::set;
use crate::{
    error::Problems,
    file,
    place::{At, Key},
};

/// Where the servers of a group are listed, each like `template`; none where the file says them.
pub(super) fn discovery(
    given: &Key<file::Discover>,
    template: &Server,
    problems: &mut Problems,
) -> Option<Discovery> {
    let At { value, span } = given.at()?;
    let Some(path) = value.file.get() else {
        let message = "a table that does not say where servers are listed".to_owned();
        let help = "name the list: { file = \"/etc/loadline/web.json\" }".to_owned();
        problems.absent(span, span, message, help);
        return None;
    };
    let mut allow_empty = false;
    set(&value.allow_empty, |it| it, &mut allow_empty);
    let source = Source { place: ListPlace::File(path.0.0.clone()), allow_empty };
    Some(Discovery { source, template: template.clone() })
}
