/* SPDX-License-Identifier: Apache-2.0 OR GPL-2.0-only */
/* Tables by tuple, each once for IPv4 with its short key and once for IPv6. */
#pragma once

#include "maps.h"

/* Ticks after which a stamp is renewed, a second at most: a write costs other processors a cache
 * miss. */
#define TOUCH 100

static __always_inline struct stamp new_stamp(void)
{
	struct stamp stamp = {
		.time = bpf_ktime_get_coarse_ns(),
		.tick = bpf_jiffies64(),
	};

	return stamp;
}

static __always_inline int is_old(__u32 tick)
{
	return (__u32)bpf_jiffies64() - tick >= TOUCH;
}

static __always_inline struct tuple4 narrow(const struct tuple *tuple)
{
	struct tuple4 key = {
		.source = tuple->source.word[0],
		.destination = tuple->destination.word[0],
		.ports.both = tuple->ports.both,
		.protocol = tuple->protocol,
	};

	return key;
}

#define BY_TUPLE(name, value_type)                                                                 \
	static __always_inline struct value_type *find_##name(const struct tuple *tuple,           \
							      const int v6)                        \
	{                                                                                          \
		struct tuple4 key = narrow(tuple);                                                 \
                                                                                                   \
		return v6 ? bpf_map_lookup_elem(&name##6, tuple)                                   \
			  : bpf_map_lookup_elem(&name##4, &key);                                   \
	}                                                                                          \
	static __always_inline long put_##name(const struct tuple *tuple,                          \
					       const struct value_type *value, __u64 flags,        \
					       const int v6)                                       \
	{                                                                                          \
		struct tuple4 key = narrow(tuple);                                                 \
                                                                                                   \
		return v6 ? bpf_map_update_elem(&name##6, tuple, value, flags)                     \
			  : bpf_map_update_elem(&name##4, &key, value, flags);                     \
	}

BY_TUPLE(flows, flow)
BY_TUPLE(nat_forward, nat)
BY_TUPLE(nat_return, nat)

static __always_inline void remove_nat_return(const struct tuple *tuple, const int v6)
{
	struct tuple4 key = narrow(tuple);

	if (v6)
		bpf_map_delete_elem(&nat_return6, tuple);
	else
		bpf_map_delete_elem(&nat_return4, &key);
}
