/* SPDX-License-Identifier: Apache-2.0 OR GPL-2.0-only */
/* Forwarding in a tunnel: IPv4 in IPv4 (RFC 2003), IPv6 in IPv6 (RFC 2473). The packet inside is as
 * the client sent it, so the server answers the client directly. */
#pragma once

#include "checksum.h"
#include "choose.h"

#define TUNNEL_TTL 64
#define IP_DONT_FRAGMENT 0x4000
#define IP_DSCP 0xfc /* without ECN, which who decapsulates would have to merge (RFC 6040) */

/* Don't Fragment is always set, which is what allows an identification of zero (RFC 6864): what is
 * too big has been dropped before. */
static __always_inline void outer_ip4(struct iphdr *outer, const struct iphdr *inner,
				      const struct server *server,
				      const struct settings *settings, __u32 length)
{
	const __u32 class = inner->tos & IP_DSCP;
	__be32 *word = (void *)outer;
	__u64 sum;

	word[0] = bpf_htonl(0x45000000 | class << 16 | (length + sizeof(*outer)));
	word[1] = bpf_htonl(IP_DONT_FRAGMENT);
	word[2] = bpf_htonl(TUNNEL_TTL << 24 | IPPROTO_IPIP << 16);
	word[3] = settings->tunnel4;
	word[4] = server->address.word[0];
	sum = (__u64)word[0] + word[1] + word[2] + word[3] + word[4];
	outer->check = ~fold(sum);
}

/* The flow label is the flow's own, so that routers and network cards spread flows by it. */
static __always_inline void outer_ip6(struct ipv6hdr *outer, const struct ipv6hdr *inner,
				      const struct server *server,
				      const struct settings *settings, __u32 length, __u32 label)
{
	__be32 class = *(const __be32 *)inner & bpf_htonl(IP_DSCP << 20);

	*(__be32 *)outer = bpf_htonl(0x60000000 | (label & 0xfffff)) | class;
	outer->payload_len = bpf_htons(length);
	outer->nexthdr = IPPROTO_IPV6;
	outer->hop_limit = TUNNEL_TTL;
	__builtin_memcpy(&outer->saddr, &settings->tunnel6, sizeof(outer->saddr));
	__builtin_memcpy(&outer->daddr, &server->address, sizeof(outer->daddr));
}

/* For one length of the link header, a constant. */
static __always_inline int encapsulate(void *ctx, const struct packet *packet,
				       const struct choice *choice,
				       const struct settings *settings, const __u32 link,
				       const int v6, const int tc)
{
	const int grown = v6 ? sizeof(struct ipv6hdr) : sizeof(struct iphdr);
	const int datagrams = packet->tuple.protocol == IPPROTO_UDP;
	__u32 length = packet->length;
	void *data, *outer, *inner;

	if (make_room(ctx, grown, link, datagrams, v6, tc))
		return DROP_NO_ROOM;
	data = first_byte(ctx, tc);
	outer = data + link;
	inner = outer + grown;
	if (inner + grown > end_byte(ctx, tc))
		return DROP_NO_ROOM;
	if (is_room_in_front(link, tc))
		copy(data, data + grown, link);
	address_link(data, choice->server->mac);
	if (v6)
		outer_ip6(outer, inner, choice->server, settings, length, choice->position);
	else
		outer_ip4(outer, inner, choice->server, settings, length);
	if (tc && v6)
		account(ctx, bpf_csum_diff(NULL, 0, outer, grown, 0), v6, tc);
	return SEND_IPIP;
}

/* Bytes of the largest IP packet that becomes of this one. */
static __always_inline __u32 largest(void *ctx, const struct packet *packet, __u32 grown,
				     const int tc)
{
	const struct tcphdr *tcp = packet->transport;
	__u32 segment = segment_of(ctx, tc);
	__u32 headers = packet->transport - packet->link.ip;

	if (!segment)
		return packet->length + grown;
	if (packet->tuple.protocol == IPPROTO_UDP)
		return headers + sizeof(struct udphdr) + segment + grown;
	if ((void *)(tcp + 1) > packet->link.end)
		return ~0;
	return headers + tcp->doff * 4 + segment;
}

static __always_inline int send_ipip(void *ctx, const struct packet *packet,
				     const struct choice *choice, const int v6, const int tc)
{
	const __u32 grown = v6 ? sizeof(struct ipv6hdr) : sizeof(struct iphdr);
	__u32 zero = 0;
	struct settings *set = bpf_map_lookup_elem(&settings, &zero);

	if (!set || largest(ctx, packet, grown, tc) > set->mtu)
		return DROP_TOO_BIG;
	if (packet->link.length == LINK_PLAIN)
		return encapsulate(ctx, packet, choice, set, LINK_PLAIN, v6, tc);
	/* The kernel does not take segments apart that are in a tunnel behind a tag. */
	if (segment_of(ctx, tc))
		return DROP_TOO_BIG;
	if (packet->link.length == LINK_TAGGED)
		return encapsulate(ctx, packet, choice, set, LINK_TAGGED, v6, tc);
	return encapsulate(ctx, packet, choice, set, LINK_TWICE, v6, tc);
}
