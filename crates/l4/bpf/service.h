/* SPDX-License-Identifier: Apache-2.0 OR GPL-2.0-only */
/* Which service a packet is for: each processor remembers those that it has just looked up, for a
 * look into a hash takes as long as all else together. */
#pragma once

#include "maps.h"

static __always_inline struct service *find_at(const struct address *address, __u32 port_protocol,
					       const int v6)
{
	struct service_key4 key4 = {address->word[0], port_protocol};
	struct service_key6 key6 = {*address, port_protocol};

	return v6 ? bpf_map_lookup_elem(&services6, &key6) : bpf_map_lookup_elem(&services4, &key4);
}

static __always_inline int same_address(const struct address *one, const struct address *other)
{
	const __be32 *a = one->word, *b = other->word;

	return !((a[0] ^ b[0]) | (a[1] ^ b[1]) | (a[2] ^ b[2]) | (a[3] ^ b[3]));
}

static __always_inline __u32 port_protocol_of(const struct tuple *tuple)
{
	return PORT_PROTOCOL(tuple->ports.destination, tuple->protocol);
}

/* Both families are remembered in one table, where 10.0.0.1 and a00:1:: are the same words. */
static __always_inline __u32 recent_port_protocol(const struct tuple *tuple, const int v6)
{
	return port_protocol_of(tuple) | IN_FAMILY(v6);
}

/* Where this processor has the packet's service, or would have it. */
static __always_inline struct recent_service *recent_service_of(const struct tuple *tuple)
{
	const __be32 *word = tuple->destination.word;
	__u32 hash = (word[0] ^ word[1] ^ word[2] ^ word[3] ^ port_protocol_of(tuple)) * 0x9e3779b1;
	__u32 at = hash >> (32 - RECENT_SERVICES_BITS);

	return bpf_map_lookup_elem(&recent_services, &at);
}

static __always_inline int is_current(const struct recent_service *recent)
{
	__u32 zero = 0, *now = bpf_map_lookup_elem(&generation, &zero);

	return now && *now == recent->generation && recent->port_protocol;
}

/* The packet's service, if this processor knows. */
static __always_inline struct service *recall_service(const struct tuple *tuple, const int v6)
{
	struct recent_service *recent = recent_service_of(tuple);

	if (!recent || recent->port_protocol != recent_port_protocol(tuple, v6) ||
	    !same_address(&recent->address, &tuple->destination) || !is_current(recent))
		return NULL;
	return &recent->service;
}

/* What is remembered is looked up once more, certainly after the generation was read. A place that
 * is in use is not fought for. */
static __always_inline void remember_service(const struct tuple *tuple, const int v6)
{
	struct recent_service *recent = recent_service_of(tuple);
	__u32 zero = 0, *now = bpf_map_lookup_elem(&generation, &zero);
	struct service *service;
	__u32 read;

	if (!recent || !now || is_current(recent))
		return;
	read = __sync_fetch_and_add(now, 0);
	service = find_at(&tuple->destination, port_protocol_of(tuple), v6);
	if (!service)
		return;
	recent->address = tuple->destination;
	recent->port_protocol = recent_port_protocol(tuple, v6);
	recent->service = *service;
	recent->generation = read;
}

static __always_inline struct service *find_service(const struct tuple *tuple, const int v6)
{
	struct service *service = find_at(&tuple->destination, port_protocol_of(tuple), v6);

	if (service)
		remember_service(tuple, v6);
	return service;
}
