//! Mirroring: copies of requests to another service, whose responses are discarded.
//!
//! States of a copy: *begun* (the head is there, and the body is copied as it passes), *sent* (an
//! exchange of its own, with [`Socket::NOBODY`] for a client). The request it was made of goes on
//! beside it in any case. A copy whose body does not come to its end, or is too long, is dropped.

use std::{rc::Rc, sync::Arc};

use loadline_core::{
    decide::ending::{Ending, Fault},
    rules::{Copies, CopyPlace, CopyResult},
};
use tokio::task::spawn_local;

use crate::{
    http::{exchange::Exchange, request::Request},
    io::{peer::Peer, socket::Socket},
    listener::handle::ListenerHandle,
    runtime::{timer::Timer, view::View, worker::Worker},
    telemetry::tally::Cells,
};

/// A copy that is not sent yet.
#[derive(Debug)]
pub(crate) struct Copy {
    request: Request,
    view: Rc<View>,
    /// How much of the body may still come.
    room: usize,
    fate: CopyGuard,
}

/// The place of a copy, and what is counted of it when it is dropped.
#[derive(Debug)]
pub(crate) struct CopyGuard {
    cells: Arc<Cells>,
    result: CopyResult,
    _place: CopyPlace,
}

impl CopyGuard {
    /// The fate of a copy with a body of so many bytes at least; none where it may not be made,
    /// which is counted.
    pub(crate) fn of(copies: &Arc<Copies>, view: &View, body: u64) -> Option<Self> {
        let cells = &view.services[copies.mirror.service].cells;
        if body > copies.mirror.body_max.get() {
            cells.copy(CopyResult::TooLarge);
            return None;
        }
        let Some(place) = copies.enter() else {
            cells.copy(CopyResult::Full);
            return None;
        };
        Some(Self { cells: cells.clone(), result: CopyResult::Cut, _place: place })
    }
}

impl Drop for CopyGuard {
    fn drop(&mut self) {
        self.cells.copy(self.result);
    }
}

impl Copy {
    /// A copy that begins with `request`, of whose body `room` more bytes may come.
    pub(crate) fn new(
        request: Request,
        view: &Rc<View>,
        room: usize,
        fate: CopyGuard,
    ) -> Box<Self> {
        Box::new(Self { request, view: view.clone(), room, fate })
    }

    /// The part of the copy that has come.
    pub(crate) fn text(&mut self) -> &mut Vec<u8> {
        &mut self.request.text
    }

    /// Takes more of the body; none once it is too long.
    pub(crate) fn with(mut self: Box<Self>, bytes: &[u8]) -> Option<Box<Self>> {
        let Some(room) = self.room.checked_sub(bytes.len()) else {
            self.fate.result = CopyResult::TooLarge;
            return None;
        };
        self.room = room;
        self.request.text.extend_from_slice(bytes);
        Some(self)
    }

    /// Sends it, whole as it is now, unless a drain has begun.
    pub(crate) fn send(self: Box<Self>, worker: &Rc<Worker>, listener: &Arc<ListenerHandle>) {
        if worker.is_leaving(listener) {
            return;
        }
        let (worker, listener) = (worker.clone(), listener.clone());
        spawn_local(async move { self.run(&worker, &listener).await });
    }

    async fn run(self: Box<Self>, worker: &Rc<Worker>, listener: &Arc<ListenerHandle>) {
        let Self { mut request, view, mut fate, .. } = *self;
        fate.result = CopyResult::Failed;
        let Some(listener_context) = view.listener_context(listener) else { return };
        request.received = worker.shared.clock.now();
        let timer = Timer::here(&worker.timers).await;
        let mut nobody = Peer::new(Socket::NOBODY);
        let at = (worker, listener, &view, listener_context);
        let mut exchange = Exchange::new(at, (&mut nobody, &timer), Box::new(request));
        exchange.run_unless_cut().await;
        fate.result = match exchange.record.ending {
            // There is no client: the rest of a long response was given up.
            Some(Ending::Complete | Ending::ClientGone) => CopyResult::Answered,
            None | Some(Ending::Drained) => CopyResult::Cut,
            Some(ending) if ending.fault() == Fault::Capacity => CopyResult::Full,
            _ => CopyResult::Failed,
        };
    }
}
