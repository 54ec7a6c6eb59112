/* SPDX-License-Identifier: Apache-2.0 OR GPL-2.0-only */
/* ICMP errors: a router on the way of an answer says "too big" or "unreachable" to the service
 * address. The server that sent the answer must hear it, or the path's MTU is never found. It is
 * known by the packet that the error quotes. */
#pragma once

#include "ipip.h"
#include "nat.h"

/* linux/icmp.h needs the headers of a C library, which a BPF target has none of. */
struct icmp {
	__u8 type, code;
	__u16 checksum;
	__be32 rest;
};

#define ICMP_UNREACHABLE 3
#define ICMP_TIME_EXCEEDED 11
#define ICMP_PARAMETER 12
#define ICMP6_ERROR_LAST 4 /* unreachable, too big, time exceeded, parameter problem */

static __always_inline int is_error(const struct packet *packet, const int v6)
{
	struct icmp *icmp = packet->transport;

	if ((void *)(icmp + 1) > packet->link.end)
		return 0;
	if (v6)
		return icmp->type >= 1 && icmp->type <= ICMP6_ERROR_LAST;
	return icmp->type == ICMP_UNREACHABLE || icmp->type == ICMP_TIME_EXCEEDED ||
	       icmp->type == ICMP_PARAMETER;
}

/* Replaces the packet's tuple by that of the flow it is about, as the flow's receiver sends: the
 * quoted packet turned around. */
static __always_inline int parse_quoted(struct packet *packet, void **quoted, const int v6)
{
	struct iphdr *ip4 = packet->transport + sizeof(struct icmp);
	struct ipv6hdr *ip6 = packet->transport + sizeof(struct icmp);
	struct tuple *tuple = &packet->tuple;
	union ports *ports = v6 ? (void *)(ip6 + 1) : (void *)(ip4 + 1);

	if ((void *)(ports + 2) > packet->link.end ||
	    payload(packet, v6) < (__u32)((void *)(ports + 2) - packet->transport))
		return DROP_MALFORMED;
	if (v6) {
		if (ip6->version != 6)
			return DROP_MALFORMED;
		__builtin_memcpy(&tuple->source, &ip6->daddr, sizeof(ip6->daddr));
		__builtin_memcpy(&tuple->destination, &ip6->saddr, sizeof(ip6->saddr));
		tuple->protocol = ip6->nexthdr;
	} else {
		if (ip4->version != 4 || ip4->ihl < 5)
			return DROP_MALFORMED;
		if (ip4->ihl > 5)
			return DROP_OPTIONS;
		tuple->source.word[0] = ip4->daddr;
		tuple->destination.word[0] = ip4->saddr;
		tuple->protocol = ip4->protocol;
		if (ip4->frag_off & bpf_htons(0x1fff))
			return DROP_FRAGMENT;
	}
	if (tuple->protocol != IPPROTO_TCP && tuple->protocol != IPPROTO_UDP)
		return PASS_OTHER;
	tuple->ports.both = (__u32)ports->source << 16 | ports->destination;
	*quoted = v6 ? (void *)ip6 : (void *)ip4;
	return GO_ON;
}

/* The error is sent on as the flow's packets are, and what it quotes is what its receiver sent. The
 * quoted transport checksum is left: mostly it was cut off, and nobody verifies it. */
static __always_inline int rewrite_error(void *ctx, const struct packet *packet,
					 const struct change *change, void *quoted, const int v6,
					 const int tc)
{
	struct iphdr *ip4 = quoted;
	struct ipv6hdr *ip6 = quoted;
	struct icmp *icmp = packet->transport;
	union ports *ports = v6 ? (void *)(ip6 + 1) : (void *)(ip4 + 1);
	difference by, outer;

	if (!may_hop(packet->link.ip, v6))
		return DROP_TTL;
	address_link(packet->link.eth, change->mac);
	outer = rewrite_ip(ctx, change, packet->link.ip, v6, tc);
	if (v6) {
		by = outer + rewrite_address(&change->destination, &ip6->saddr, v6);
		by += rewrite_address(&change->source, &ip6->daddr, v6);
	} else {
		__u16 check = ip4->check;

		by = rewrite_address(&change->destination, &ip4->saddr, v6);
		by += rewrite_address(&change->source, &ip4->daddr, v6);
		ip4->check = updated(check, by);
		by += changed16(check, ip4->check);
	}
	by += changed16(ports->source, change->ports.destination);
	by += changed16(ports->destination, change->ports.source);
	ports->source = change->ports.destination;
	ports->destination = change->ports.source;
	icmp->checksum = updated(icmp->checksum, by);
	return SEND_ICMP;
}
