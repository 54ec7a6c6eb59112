//! Named locations of nginx, to which `try_files` leads where no `root` says that there are files.

use super::{Import, VirtualHost, choice, lex::Directive, location, rewrites, scope::Scope};
use crate::{model::Table, steps::Step};

/// A `try_files` and the named location to which it leads.
#[derive(Clone, Copy)]
pub(super) struct Named<'a> {
    tried: &'a Directive,
    location: &'a Directive,
}

/// What answers in a place in which no server does and there are no files; none where that is no
/// named location with a server.
pub(super) fn of<'a>(vhost: &VirtualHost<'a>, scope: &Scope<'a>) -> Option<Named<'a>> {
    if scope.own().iter().any(|it| it.name() == "alias") || scope.value("root").is_some() {
        return None;
    }
    let tried = scope.own().iter().find(|it| it.name() == "try_files")?;
    let name = tried.args().last().copied().filter(|name| name.starts_with('@'))?;
    let is_it = |it: &&Directive| it.name() == "location" && it.arg(0) == name;
    let location = vhost.block.iter().find(is_it)?;
    let is_passed = location.block().iter().any(|it| location::CONTENT.contains(&it.name()));
    is_passed.then_some(Named { tried, location })
}

/// The steps of the named location.
pub(super) fn steps(
    import: &mut Import<'_>,
    vhost: &VirtualHost<'_>,
    scope: &Scope<'_>,
    named: Named<'_>,
    table: &mut Table,
) -> Vec<Step> {
    let Named { tried, location } = named;
    import.reached.insert(location.at());
    let why = "no file is tried before it, as no `root` says where there are files";
    table.remark(import.lines.differs(import.files, tried.at(), why));
    let inner = scope.up_to(vhost.block).with(location.block());
    choice::tell_unread(import, &inner, table);
    let mut steps = rewrites::rewrites(import, vhost, &inner, Some(location), table);
    let content = location::content(import, vhost, &inner, "", &steps, table);
    steps.extend(content);
    // nginx compares the length of a body before it goes on to the named location.
    steps.retain(|step| !location::limits_body(step));
    if let Some(most) = location.block().iter().find(|it| it.name() == "client_max_body_size") {
        let why = "the limit of bodies is that of the location with `try_files`";
        table.remark(import.lines.differs(import.files, most.at(), why));
    }
    steps
}
