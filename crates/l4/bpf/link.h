/* SPDX-License-Identifier: Apache-2.0 OR GPL-2.0-only */
/* The link header: Ethernet with up to two VLAN tags. */
#pragma once

#include <linux/if_ether.h>

#include <bpf/bpf_endian.h>

#include "context.h"
#include "verdict.h"

/* Not a verdict: go on. */
#define GO_ON VERDICTS

struct vlan {
	__be16 tag;
	__be16 type;
};

#define LINK_PLAIN sizeof(struct ethhdr)
#define LINK_TAGGED (LINK_PLAIN + sizeof(struct vlan))
#define LINK_TWICE (LINK_TAGGED + sizeof(struct vlan))

struct link {
	struct ethhdr *eth;
	void *ip, *end;
	__u32 length; /* of the header */
	__be16 type;  /* of what follows */
};

static __always_inline int is_tag(__be16 type)
{
	return type == bpf_htons(ETH_P_8021Q) || type == bpf_htons(ETH_P_8021AD);
}

static __always_inline int parse_link(void *ctx, struct link *link, const int tc)
{
	struct ethhdr *eth = first_byte(ctx, tc);
	struct vlan *tag = (void *)(eth + 1);

	link->eth = eth;
	link->end = end_byte(ctx, tc);
	if ((void *)(eth + 1) > link->end)
		return DROP_TRUNCATED;
	link->type = eth->h_proto;
	link->ip = tag;
	link->length = LINK_PLAIN;
	if (!is_tag(link->type))
		return GO_ON;
	if ((void *)(tag + 1) > link->end)
		return DROP_TRUNCATED;
	link->type = tag->type;
	link->ip = tag + 1;
	link->length = LINK_TAGGED;
	if (!is_tag(link->type))
		return GO_ON;
	if ((void *)(tag + 2) > link->end)
		return DROP_TRUNCATED;
	link->type = tag[1].type;
	link->ip = tag + 2;
	link->length = LINK_TWICE;
	return GO_ON;
}

/* Copies an even number of bytes. The compiler takes what is in a packet for unaligned and would copy
 * it byte by byte. From the first on, so that `to` may be in front of `from` and reach into it. */
static __always_inline void copy(void *to, const void *from, const __u32 length)
{
	const __u32 words = length & ~3;

#pragma unroll
	for (__u32 at = 0; at < words; at += 4)
		*(__u32 *)(to + at) = *(const __u32 *)(from + at);
	if (length & 2)
		*(__u16 *)(to + words) = *(const __u16 *)(from + words);
}

/* To `mac`, from the address that the packet was sent to: it leaves where it came in. */
static __always_inline void address_link(struct ethhdr *eth, const __u8 *mac)
{
	copy(eth->h_source, eth->h_dest, ETH_ALEN);
	copy(eth->h_dest, mac, ETH_ALEN);
}
