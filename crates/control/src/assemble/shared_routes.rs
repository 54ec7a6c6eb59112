//! Routes with a name: put into the listeners that name them, and compiled once for all of these.

use std::{
    cell::RefCell,
    collections::{BTreeMap, BTreeSet},
};

use loadline_core::{
    fleet::Listener,
    rules::{Authentication, Routes},
};
use loadline_spanned::{At, Named, Problems};

use crate::{
    file::{File, ListenerRoutes, Route},
    suggest,
};

/// The routes of listeners by their lists, each compiled once for all listeners of which nothing
/// else goes into it.
#[derive(Default)]
pub(super) struct SharedRoutes(RefCell<BTreeMap<*const At<Route>, Vec<Compiled>>>);

/// A list, with what of a listener goes into its routes.
struct Compiled {
    authentication: Option<Authentication>,
    routes_only: bool,
    routes: Routes,
}

impl SharedRoutes {
    /// The routes of a listener with this list, which `compile` makes of it where no listener
    /// before has the same.
    pub(super) fn of(
        &self,
        list: &[At<Route>],
        listener: &Listener,
        compile: impl FnOnce() -> Routes,
    ) -> Routes {
        let mut lists = self.0.borrow_mut();
        let known = lists.entry(list.as_ptr()).or_default();
        let is_same = |it: &&Compiled| {
            it.routes_only == listener.routes_only && it.authentication == listener.authentication
        };
        if let Some(same) = known.iter().find(is_same) {
            return same.routes.for_another_listener();
        }
        let (routes_only, authentication) = (listener.routes_only, listener.authentication.clone());
        let routes = compile();
        known.push(Compiled { authentication, routes_only, routes: routes.clone() });
        routes
    }
}

/// Puts the routes of `[routes]` where listeners name them. Warns about those that none names.
pub(crate) fn share_routes(file: &mut At<File>, problems: &mut Problems) {
    let table = file.value.routes.at();
    let is_damaged = table.is_some_and(|it| problems.is_damaged(&it.span));
    let shared = table.map(|it| it.value.clone()).unwrap_or_default();
    let names: Vec<String> = shared.iter().map(|(name, _)| name.value.clone()).collect();
    let known: Vec<&str> = names.iter().map(String::as_str).collect();
    let mut used = BTreeSet::new();
    for listener in file.value.listener.get_mut().into_iter().flatten() {
        let Some(routes) = listener.value.routes.at_mut() else { continue };
        let ListenerRoutes::Named(name) = &routes.value else { continue };
        let name = name.0.clone();
        if let Some((_, list)) = shared.iter().find(|(it, _)| it.value == name) {
            routes.value = ListenerRoutes::List(list.value.clone());
            used.insert(name);
        } else if !is_damaged && !problems.is_damaged(&file.span) {
            let message = format!("there are no routes `{name}`");
            let help = match known.as_slice() {
                [] => format!("add them: [[routes.{name}]]"),
                _ => suggest::known_among(problems, &name, &known),
            };
            problems.error(&routes.span, message, "these routes", help);
        }
    }
    warn_unused(&shared, &used, problems);
}

fn warn_unused(
    shared: &Named<crate::file::RouteList>,
    used: &BTreeSet<String>,
    problems: &mut Problems,
) {
    for (name, _) in shared.iter().filter(|(name, _)| !used.contains(&name.value)) {
        let message = format!("no listener names the routes `{}`", name.value);
        let help = format!("let a listener say routes = \"{}\"", name.value);
        problems.warning(&name.span, message, "never used", help);
    }
}
