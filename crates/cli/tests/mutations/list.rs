//! Faults that are put into the code that decides on purpose, of which a run chooses one.

pub(crate) struct Mutation {
    /// What is wrong then.
    pub(crate) name: &'static str,
    /// In `crates/core/src`.
    pub(crate) file: &'static str,
    /// What is there, once.
    pub(crate) old: &'static str,
    /// What is there instead: as `old` where `FAULT` is false, wrong where it is true.
    pub(crate) new: &'static str,
}

pub(crate) const MUTATIONS: &[Mutation] = &[
    Mutation {
        name: "one request more in flight than allowed",
        file: "decide/ledger.rs",
        old: "(n < cap).then_some(n + 1)",
        new: "(n < cap || FAULT && n == cap).then_some(n + 1)",
    },
    Mutation {
        name: "a burst twice as large",
        file: "decide/budget.rs",
        old: "default_burst(rate), u64::from).max(1);",
        new: "default_burst(rate), u64::from).max(1) * if FAULT { 2 } else { 1 };",
    },
    Mutation {
        name: "the place of a request that failed is not given back",
        file: "decide/permit.rs",
        old: "        release(&self.server.group.in_flight);\n",
        new: "        if !FAULT || self.server.errors_in_a_row.load(Relaxed) == 0 {\n            \
              release(&self.server.group.in_flight);\n        }\n",
    },
    Mutation {
        name: "a place in the queue is not given back",
        file: "decide/plan.rs",
        old: "        release(&self.state.queued);\n",
        new: "        if !FAULT || self.state.queued() > 1 {\n            \
              release(&self.state.queued);\n        }\n",
    },
    Mutation {
        name: "whoever becomes the first in the queue is not woken",
        file: "decide/queue.rs",
        old: "let next = if was_first { self.wake_first() } else { None };",
        new: "let next = if was_first && !FAULT { self.wake_first() } else { None };",
    },
    Mutation {
        name: "groups are filled in the order of the file",
        file: "decide/planner.rs",
        old: "(group.yields, group.distance, group.index)",
        new: "(group.yields, (!FAULT).then_some(group.distance), group.index)",
    },
    Mutation {
        name: "the farthest group is filled first",
        file: "decide/plan.rs",
        old: "        self.groups.iter().find_map(|group| group.admit(ask, self))\n",
        new: "        let mut groups = self.groups.iter();\n        if FAULT {\n            \
              return groups.rfind(|group| group.has_room_at(ask.now))\
              .and_then(|group| group.admit(ask, self));\n        }\n\
              groups.find_map(|group| group.admit(ask, self))\n",
    },
    Mutation {
        name: "groups below their failover threshold come first as well",
        file: "decide/controller/publish.rs",
        old: "known.healthy_share() >= of.failover_threshold",
        new: "known.healthy_share()\
              >= of.failover_threshold * crate::units::Ratio::percent(if FAULT { 1 } else { 100 })",
    },
    Mutation {
        name: "the survivors of a group inherit the load of the dead",
        file: "decide/planner.rs",
        old: "|share| limits(&group.capacity, group.scaler, tier_part, share);",
        new: "|share| limits(&group.capacity, group.scaler, \
              if FAULT { Part::scaled(group.scaler) } else { tier_part }, share);",
    },
    Mutation {
        name: "the retry budget is ignored",
        file: "decide/retry.rs",
        old: "if self.saved.fetch_update(Relaxed, Relaxed, take).is_ok() {",
        new: "if self.saved.fetch_update(Relaxed, Relaxed, take).is_ok()\
              || FAULT && rules.attempts > 0 {",
    },
    Mutation {
        name: "one attempt more than allowed",
        file: "decide/plan.rs",
        old: "attempts <= self.retry.attempts && self.state.retries.withdraw",
        new: "attempts <= self.retry.attempts + (if FAULT { 1 } else { 0 })\
              && self.state.retries.withdraw",
    },
    Mutation {
        name: "a place is taken for a retry that may not be",
        file: "decide/plan.rs",
        old: "if !self.state.retries.has(&self.retry, ask.now) {",
        new: "if !self.state.retries.has(&self.retry, ask.now)\
              && !(FAULT && self.retry.attempts > 0) {",
    },
    Mutation {
        name: "a request is sent again to the server that failed it",
        file: "decide/request/failed.rs",
        old: "            self.tried.push(permit.server());\n",
        new: "            self.tried.push(permit.server());\n            \
              if FAULT {\n                self.tried.clear();\n            }\n",
    },
    Mutation {
        name: "requests wait for twice as long as they may",
        file: "decide/request/waiting.rs",
        old: "until: at.now + longest }",
        new: "until: at.now + longest * if FAULT { 2 } else { 1 } }",
    },
    Mutation {
        name: "one request more in the queue than may wait",
        file: "decide/plan.rs",
        old: "self.queue_places(length))",
        new: "self.queue_places(length) + if FAULT { 1 } else { 0 })",
    },
    Mutation {
        name: "the lowest class goes first",
        file: "decide/queue.rs",
        old: "        let position = Position { class,",
        new: "        let lowest = Class::ALL[2 - class as usize];\n        \
              let class = if FAULT { lowest } else { class };\n        \
              let position = Position { class,",
    },
    Mutation {
        name: "who came last goes first",
        file: "decide/queue.rs",
        old: "number: self.joined }",
        new: "number: if FAULT { u64::MAX - self.joined } else { self.joined } }",
    },
    Mutation {
        name: "who has waited for the shortest time gives way",
        file: "decide/queue.rs",
        old: "self.waiters.range(longest..).next()?;",
        new: "if FAULT { self.waiters.range(longest..).next_back()? }\
              else { self.waiters.range(longest..).next()? };",
    },
    Mutation {
        name: "newcomers overtake those that wait",
        file: "decide/plan.rs",
        old: "            Overflow::Capacity if waiting > 0 => None,\n",
        new: "            Overflow::Capacity if waiting > 0 && !FAULT => None,\n",
    },
    Mutation {
        name: "an ejected server is used",
        file: "decide/server_table/entry.rs",
        old: "        if !self.is_healthy() {\n            return Ratio::ZERO;",
        new: "        if !self.is_healthy() && !(FAULT && self.health.is_healthy()) {\n            \
              return Ratio::ZERO;",
    },
    Mutation {
        name: "more servers are ejected than may be",
        file: "health/ejection.rs",
        old: "(out as u64 + 1) * 1_000_000 <=",
        new: "(out as u64 + if FAULT { 0 } else { 1 }) * 1_000_000 <=",
    },
    Mutation {
        name: "an ejected server never returns",
        file: "decide/controller.rs",
        old: "self.timers.set(Due::Return(id), entry.returns_at());",
        new: "self.timers.set(Due::Return(id), entry.returns_at().filter(|_| !FAULT));",
    },
    Mutation {
        name: "a server is used though its checks fail",
        file: "health/checks.rs",
        old: "if failures + 1 >= check.fall =>",
        new: "if failures + (if FAULT { 0 } else { 1 }) >= check.fall =>",
    },
    Mutation {
        name: "a server is used after one check too few",
        file: "health/checks.rs",
        old: "if passes + 1 >= check.rise =>",
        new: "if passes + (if FAULT { 2 } else { 1 }) >= check.rise =>",
    },
];
