/* SPDX-License-Identifier: Apache-2.0 OR GPL-2.0-only */
/* What user space is told as it happens, for a standby that follows. Flows of settled entries are
 * not among it, so with `mac` and `ipip` next to nothing is. */
#pragma once

#include "flow.h"

/* Whether anybody listens. It is set before the kernel verifies the program, which then has no more
 * of this than is needed. */
const volatile __u32 tells = 0;

static __always_inline struct event *begin_event(__u16 kind, __u16 server, const int v6)
{
	struct event *event;
	__u32 zero = 0;
	__u64 *missed;

	if (!tells)
		return NULL;
	event = bpf_ringbuf_reserve(&events, sizeof(*event), 0);
	if (!event) {
		missed = bpf_map_lookup_elem(&missed_events, &zero);
		if (missed)
			__sync_fetch_and_add(missed, 1);
		return NULL;
	}
	__builtin_memset(event, 0, sizeof(*event));
	event->kind = kind;
	event->v6 = v6;
	event->server = server;
	return event;
}

/* User space looks often enough by itself. */
static __always_inline void end_event(struct event *event)
{
	bpf_ringbuf_submit(event, BPF_RB_NO_WAKEUP);
}

static __always_inline void tell_flow(const struct tuple *tuple, const struct flow *flow,
				      const int v6)
{
	struct event *event = begin_event(EVENT_FLOW, flow->server, v6);

	if (!event)
		return;
	event->service = flow->service;
	event->position = flow->position;
	event->tuple = *tuple;
	end_event(event);
}

/* A NAT connection has begun, or begins once more. */
static __always_inline void tell_open(const struct tuple *tuple, const struct nat *forward,
				      const __u8 *link, const int v6)
{
	struct event *event = begin_event(EVENT_OPEN, forward->change.server, v6);

	if (!event)
		return;
	event->service = forward->service;
	event->tuple = *tuple;
	event->lent = forward->change.source;
	event->port = forward->change.ports.source;
	__builtin_memcpy(event->link, link, sizeof(event->link));
	end_event(event);
}

/* By the key of its answers, which go to what it was lent. */
static __always_inline void tell_closed(const struct tuple *answers, __u16 server, const int v6)
{
	struct event *event = begin_event(EVENT_CLOSED, server, v6);

	if (!event)
		return;
	event->lent = answers->destination;
	event->port = answers->ports.destination;
	end_event(event);
}
