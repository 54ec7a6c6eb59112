//! The links of one worker to servers that speak HTTP/2.
//!
//! The first link with room is used: the last ones, opened in a peak, fall silent and are closed.

use std::{
    cell::{Cell, RefCell},
    collections::BTreeSet,
    rc::Rc,
};

use loadline_core::decide::ledger::ServerId;

use super::{
    call::Call,
    link::{Link, STREAMS_MAX},
};

/// The links of one worker.
#[derive(Debug, Default)]
pub(crate) struct Links {
    /// By number of the server.
    servers: RefCell<Vec<Shared>>,
}

/// The links to one server.
#[derive(Debug)]
struct Shared {
    /// In the order they were opened.
    links: Vec<Rc<Link>>,
    /// Streams on a link, as far as is known.
    max: Rc<Cell<usize>>,
}

impl Default for Shared {
    fn default() -> Self {
        Self { links: Vec::new(), max: Rc::new(Cell::new(STREAMS_MAX)) }
    }
}

impl Links {
    /// A stream to a server, and whether its link was open before. Where none has room another
    /// is taken from `open`; none if that gives none.
    pub(crate) fn call(
        &self,
        server: ServerId,
        open: impl FnOnce(&Rc<Cell<usize>>) -> Option<Rc<Link>>,
    ) -> Option<(Box<Call>, bool)> {
        let (found, max) = {
            let mut servers = self.servers.borrow_mut();
            let Shared { links, max } = shared(&mut servers, server);
            links.retain(|link| link.is_wanted());
            (links.iter().find(|link| link.has_room()).cloned(), max.clone())
        };
        let link = match found {
            Some(link) => link,
            None => {
                // It may find another configuration in force, and have links end.
                let link = open(&max)?;
                shared(&mut self.servers.borrow_mut(), server).links.push(link.clone());
                link
            }
        };
        Some((Call::over(&link), link.is_open()))
    }

    /// Lets the first link to a server stay though no request needs it: false if there is none.
    pub(crate) fn keep_ready(&self, server: ServerId) -> bool {
        let servers = self.servers.borrow();
        let links = servers.get(server.index()).map_or(&[][..], |shared| &shared.links);
        let wanted = links.iter().find(|link| link.is_wanted());
        wanted.inspect(|link| link.stay()).is_some()
    }

    /// Lets the links to these servers end with their last streams.
    pub(crate) fn retire(&self, leaving: &BTreeSet<ServerId>) {
        let mut servers = self.servers.borrow_mut();
        for server in leaving {
            let Some(Shared { links, .. }) = servers.get_mut(server.index()) else { continue };
            links.drain(..).for_each(|link| link.retire());
        }
    }

    /// Adds the link that `open` gives, if it gives one, before a request needs it.
    pub(crate) fn open(
        &self,
        server: ServerId,
        open: impl FnOnce(&Rc<Cell<usize>>) -> Option<Rc<Link>>,
    ) {
        let mut servers = self.servers.borrow_mut();
        let Shared { links, max } = shared(&mut servers, server);
        links.retain(|link| link.is_wanted());
        links.extend(open(max));
    }
}

fn shared(servers: &mut Vec<Shared>, server: ServerId) -> &mut Shared {
    if servers.len() <= server.index() {
        servers.resize_with(server.index() + 1, Shared::default);
    }
    &mut servers[server.index()]
}
