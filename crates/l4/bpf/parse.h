/* SPDX-License-Identifier: Apache-2.0 OR GPL-2.0-only */
/* IPv4 or IPv6, then TCP, UDP or ICMP, into one form. `v6` is a constant wherever it is an
 * argument, so that the compiler makes one program for each family. */
#pragma once

#include <linux/in.h>
#include <linux/ip.h>
#include <linux/ipv6.h>
#include <linux/tcp.h>
#include <linux/udp.h>

#include "link.h"
#include "types.h"

#define IP4_FRAGMENT 0x3fff /* more fragments, or not the first */
#define IP6_HOP_BY_HOP 0
#define IP6_ROUTING 43
#define IP6_FRAGMENT 44
#define IP6_AUTHENTICATION 51
#define IP6_DESTINATION 60
#define IP6_MOBILITY 135

struct packet {
	struct link link;
	void *transport;
	__u32 room;    /* bytes from the IP header to the end of the frame */
	__u32 length;  /* of the IP packet, by its header */
	__u8 opens;    /* a TCP connection: SYN without ACK */
	__u8 closing;  /* CLOSED_* */
	__u8 datagram; /* UDP, whose header is at `transport` */
	struct tuple tuple;
};

static __always_inline int parse_ip4(struct packet *packet)
{
	struct iphdr *ip = packet->link.ip;

	if ((void *)(ip + 1) > packet->link.end)
		return DROP_TRUNCATED;
	packet->tuple.source.word[0] = ip->saddr;
	packet->tuple.destination.word[0] = ip->daddr;
	packet->tuple.protocol = ip->protocol;
	packet->length = bpf_ntohs(ip->tot_len);
	packet->transport = ip + 1;
	if (ip->version != 4 || ip->ihl < 5 || packet->length > packet->room ||
	    packet->length < ip->ihl * 4)
		return DROP_MALFORMED;
	if (ip->frag_off & bpf_htons(IP4_FRAGMENT))
		return DROP_FRAGMENT;
	return ip->ihl == 5 ? GO_ON : DROP_OPTIONS;
}

static __always_inline int parse_ip6(struct packet *packet)
{
	struct ipv6hdr *ip = packet->link.ip;

	if ((void *)(ip + 1) > packet->link.end)
		return DROP_TRUNCATED;
	__builtin_memcpy(&packet->tuple.source, &ip->saddr, sizeof(ip->saddr));
	__builtin_memcpy(&packet->tuple.destination, &ip->daddr, sizeof(ip->daddr));
	packet->tuple.protocol = ip->nexthdr;
	packet->length = bpf_ntohs(ip->payload_len) + sizeof(*ip);
	packet->transport = ip + 1;
	if (ip->version != 6 || packet->length > packet->room)
		return DROP_MALFORMED;
	switch (ip->nexthdr) {
	case IP6_FRAGMENT:
		return DROP_FRAGMENT;
	case IP6_HOP_BY_HOP:
	case IP6_ROUTING:
	case IP6_AUTHENTICATION:
	case IP6_DESTINATION:
	case IP6_MOBILITY:
		return DROP_OPTIONS;
	}
	return GO_ON;
}

static __always_inline int parse_ip(struct packet *packet, const int v6)
{
	return v6 ? parse_ip6(packet) : parse_ip4(packet);
}

static __always_inline __u32 payload(const struct packet *packet, const int v6)
{
	return packet->length - (v6 ? sizeof(struct ipv6hdr) : sizeof(struct iphdr));
}

static __always_inline int parse_tcp(struct packet *packet, const int v6)
{
	struct tcphdr *tcp = packet->transport;

	if ((void *)(tcp + 1) > packet->link.end || payload(packet, v6) < sizeof(*tcp) ||
	    tcp->doff < 5 || tcp->doff * 4 > payload(packet, v6))
		return DROP_MALFORMED;
	packet->opens = tcp->syn && !tcp->ack;
	packet->closing = (tcp->fin ? CLOSED_FIN : 0) | (tcp->rst ? CLOSED_RST : 0);
	packet->tuple.ports = *(union ports *)tcp;
	return GO_ON;
}

static __always_inline int parse_udp(struct packet *packet, const int v6)
{
	struct udphdr *udp = packet->transport;

	if ((void *)(udp + 1) > packet->link.end || bpf_ntohs(udp->len) < sizeof(*udp) ||
	    bpf_ntohs(udp->len) > payload(packet, v6))
		return DROP_MALFORMED;
	packet->datagram = 1;
	packet->tuple.ports = *(union ports *)udp;
	return GO_ON;
}

/* Ports of TCP and UDP. Whoever speaks something else is not for us: PASS_OTHER. */
static __always_inline int parse_transport(struct packet *packet, const int v6)
{
	switch (packet->tuple.protocol) {
	case IPPROTO_TCP:
		return parse_tcp(packet, v6);
	case IPPROTO_UDP:
		return parse_udp(packet, v6);
	}
	return PASS_OTHER;
}
