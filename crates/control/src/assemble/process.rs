//! The process: user and group, process id file, control socket.

use loadline_spanned::{Key, Problems};

use crate::{Process, file};

/// What the file says of it.
pub(crate) fn process(edge: &Key<file::Edge>, problems: &mut Problems) -> Process {
    let Some(edge) = edge.get() else { return Process::default() };
    if let (Some(group), None) = (edge.group.at(), edge.user.at()) {
        let message = "`group` without `user`".to_owned();
        let help = "name the user to go on as: user = \"loadline\"".to_owned();
        problems.error(&group.span, message, "never used", help);
    }
    Process {
        user: edge.user.get().map(|name| name.0.0.clone()),
        group: edge.group.get().map(|name| name.0.0.clone()),
        control: edge.control.get().map(|path| path.0.0.clone().into()),
        pid_file: edge.pid_file.get().map(|path| path.0.0.clone().into()),
    }
}
