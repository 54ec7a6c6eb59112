//! Sticky sessions: the requests of a session go to one server, before any policy is asked.
//!
//! A session is known by a server that it names ([`PickContext::stick`], out of a cookie) or by a
//! hash ([`PickContext::key`]). A server that is full, drained, unhealthy or gone is passed over,
//! and the request decided as if it had no session: a named server is then replaced by whoever is
//! told in the response, a hashed one is tried again by the next request. In the same way a request
//! whose client has a connection of its own to a server (NTLM) names that server.
//!
//! By hash a session belongs to the server with the largest score `-weight / ln(u)`, where `u` in
//! (0, 1) is a hash of key and address: each server gets sessions in proportion to its weight, and
//! one that comes or goes moves no session between two others. Source: rendezvous hashing (Thaler
//! and Ravishankar, 1998), weighted as by Schindelhauer and Schomaker (2005).

use crate::decide::{
    permit::Permit,
    plan::{GroupPlan, PickContext, ServerPlan, ServicePlan},
    policy::draw::splitmix64,
};

impl ServicePlan {
    /// Gives a permit for the server that the session names, if it can take the request.
    pub(crate) fn stuck(&self, ask: &PickContext<'_>) -> Option<Permit> {
        let wanted = ask.stick?;
        self.groups.iter().find_map(|group| {
            let server = group.servers.iter().find(|server| server.state.id() == wanted)?;
            group.admit_with(ask, self, || group.take(server, ask))
        })
    }
}

impl GroupPlan {
    /// Takes a place on this server, if it has one.
    pub(crate) fn take<'a>(
        &self,
        server: &'a ServerPlan,
        ask: &PickContext<'_>,
    ) -> Option<&'a ServerPlan> {
        (server.has_room(ask) && server.reserve(ask.now)).then_some(server)
    }

    /// The server that the session belongs to by its hash.
    pub(crate) fn rendezvous_server(&self, key: u64) -> Option<&ServerPlan> {
        let score = |server: &ServerPlan| {
            let hash = splitmix64(key ^ splitmix64(server.state.seed()));
            let unit = ((hash >> 11) as f64 + 0.5) / (1u64 << 53) as f64;
            -f64::from(server.weight) / libm::log(unit)
        };
        let mut best: Option<(f64, &ServerPlan)> = None;
        for server in &self.servers {
            let score = score(server);
            if best.is_none_or(|(most, _)| score > most) {
                best = Some((score, server));
            }
        }
        best.map(|(_, server)| server)
    }
}
