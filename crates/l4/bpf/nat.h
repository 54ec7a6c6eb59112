/* SPDX-License-Identifier: Apache-2.0 OR GPL-2.0-only */
/* Forwarding by NAT: the server sees a return address and port of ours, so that its answers come
 * back here. Both directions of a connection are written down when it begins. */
#pragma once

#include "checksum.h"
#include "choose.h"

/* How often a port is tried for that another processor takes first. */
#define RACES 16

static __always_inline difference rewrite_address(struct address *to, void *at, const int v6)
{
	const int words = v6 ? 4 : 1;
	__be32 *word = at;
	difference by = 0;

#pragma unroll
	for (int n = 0; n < words; n++) {
		by += changed32(word[n], to->word[n]);
		word[n] = to->word[n];
	}
	return by;
}

/* Addresses and hop limit of an IP header; `check` of IPv4 as well. Gives the difference of the
 * addresses, which transport checksums cover. */
static __always_inline difference rewrite_ip(struct nat *nat, void *header, const int v6)
{
	struct iphdr *ip4 = header;
	struct ipv6hdr *ip6 = header;
	difference by;

	if (v6) {
		by = rewrite_address(&nat->source, &ip6->saddr, v6);
		by += rewrite_address(&nat->destination, &ip6->daddr, v6);
		ip6->hop_limit--;
		return by;
	}
	by = rewrite_address(&nat->source, &ip4->saddr, v6);
	by += rewrite_address(&nat->destination, &ip4->daddr, v6);
	ip4->check = updated(ip4->check, by + changed16(bpf_htons(0x0100), 0));
	ip4->ttl--;
	return by;
}

static __always_inline int may_hop(const void *header, const int v6)
{
	return v6 ? ((const struct ipv6hdr *)header)->hop_limit > 1
		  : ((const struct iphdr *)header)->ttl > 1;
}

/* One packet in one direction. A UDP checksum of zero means that there is none; one that comes to
 * zero is written as 0xffff (RFC 768). */
static __always_inline int rewrite(const struct packet *packet, struct nat *nat, int verdict,
				   const int v6)
{
	struct tcphdr *tcp = packet->transport;
	struct udphdr *udp = packet->transport;
	union ports *ports = packet->transport;
	difference by;

	if (!may_hop(packet->link.ip, v6))
		return DROP_TTL;
	address_link(packet->link.eth, nat->mac);
	by = rewrite_ip(nat, packet->link.ip, v6);
	by += changed32(ports->both, nat->ports.both);
	ports->both = nat->ports.both;
	if (packet->tuple.protocol == IPPROTO_TCP) {
		if ((void *)(tcp + 1) > packet->link.end)
			return DROP_MALFORMED;
		tcp->check = updated(tcp->check, by);
	} else if (udp->check) {
		udp->check = updated(udp->check, by);
		if (!udp->check)
			udp->check = 0xffff;
	}
	return verdict;
}

static __always_inline void touch(const struct packet *packet, struct nat *nat)
{
	if (packet->closing & ~nat->closing)
		nat->closing |= packet->closing;
	else if (!is_old(&nat->stamp))
		return;
	nat->stamp = new_stamp();
}

/* Takes the place at the head of the queue. What is read after the head has moved cannot be written
 * over: the queue has room for all ports, and this one is not in it. */
static __always_inline int take_place(struct pool *pool, __u32 *place)
{
#pragma unroll
	for (int race = 0; race < RACES; race++) {
		__u32 head = *(volatile __u32 *)&pool->head;
		__u32 index = head & pool->mask;
		__u32 at = pool->first + index / LINE_WORDS;
		struct line *line;

		if (head == *(volatile __u32 *)&pool->tail)
			return DROP_NAT_PORTS;
		if (!__sync_bool_compare_and_swap(&pool->head, head, head + 1))
			continue;
		line = bpf_map_lookup_elem(&free_ports, &at);
		*place = line ? line->word[index % LINE_WORDS] : 0;
		return GO_ON;
	}
	return DROP_NAT_PORTS;
}

/* Takes the return address and port towards this server that have been free for longest. */
static __always_inline int take_port(__u32 server, struct draft *draft, const int v6)
{
	struct pool *pool = bpf_map_lookup_elem(&pools, &server);
	struct address *address;
	__u32 at, place = 0;
	int verdict;

	if (!pool)
		return DROP_NAT_PORTS;
	verdict = take_place(pool, &place);
	if (verdict != GO_ON)
		return verdict;
	at = PORT_ADDRESS(place) + (v6 ? MAX_RETURNS : 0);
	address = bpf_map_lookup_elem(&returns, &at);
	if (!address)
		return DROP_NAT_PORTS;
	draft->key.destination = *address;
	draft->key.ports.destination = bpf_htons(PORT_NUMBER(place));
	return GO_ON;
}

/* Answers: from the server to the return address, made into from the service to the client. */
static __always_inline void draft_back(const struct packet *packet, const struct server *server,
				       struct draft *draft)
{
	const struct tuple *tuple = &packet->tuple;

	draft->key.source = server->address;
	draft->key.ports.source = server->port ?: tuple->ports.destination;
	draft->key.protocol = tuple->protocol;
	draft->back.source = tuple->destination;
	draft->back.ports.source = tuple->ports.destination;
	draft->back.destination = tuple->source;
	draft->back.ports.destination = tuple->ports.source;
	draft->back.peer = *tuple;
	draft->back.closing = 0;
	__builtin_memcpy(draft->back.mac, packet->link.eth->h_source, ETH_ALEN);
}

/* Packets of the client, made into from the return address to the server. */
static __always_inline void draft_forward(const struct server *server, struct draft *draft)
{
	draft->forward = draft->back;
	draft->forward.source = draft->key.destination;
	draft->forward.ports.source = draft->key.ports.destination;
	draft->forward.destination = draft->key.source;
	draft->forward.ports.destination = draft->key.ports.source;
	draft->forward.peer = draft->key;
	__builtin_memcpy(draft->forward.mac, server->mac, ETH_ALEN);
}

/* Writes both entries of a new connection down, or neither: its port is lost then until user space
 * looks. Where another processor was faster with the same packet its connection holds. */
static __always_inline void put_nat(const struct packet *packet, struct draft *draft, __u32 server,
				    const int v6)
{
	struct pool *pool = bpf_map_lookup_elem(&pools, &server);

	if (!put_nat_return(&draft->key, &draft->back, BPF_NOEXIST, v6)) {
		if (!put_nat_forward(&packet->tuple, &draft->forward, BPF_NOEXIST, v6))
			return;
		remove_nat_return(&draft->key, v6);
	}
	if (pool)
		__sync_fetch_and_add(&pool->lost, 1);
}

/* Begins a connection; `nat` is then its entry. */
static __always_inline int open_nat(const struct packet *packet, const struct service *service,
				    struct nat **nat, const int v6)
{
	__u32 zero = 0;
	struct draft *draft = bpf_map_lookup_elem(&drafts, &zero);
	struct choice choice = {};
	int verdict;

	if (!draft)
		return DROP_NAT_FULL;
	take(&choice, ENTRY_CURRENT(find_entry(packet, service, &choice, v6)));
	if (!choice.server)
		return DROP_NO_SERVER;
	draft_back(packet, choice.server, draft);
	draft->back.server = choice.number;
	draft->back.service = service->number;
	draft->back.stamp = new_stamp();
	verdict = take_port(choice.number, draft, v6);
	if (verdict != GO_ON)
		return verdict;
	draft_forward(choice.server, draft);
	put_nat(packet, draft, choice.number, v6);
	*nat = find_nat_forward(&packet->tuple, v6);
	return *nat ? GO_ON : DROP_NAT_FULL;
}

/* The client uses its port again before the connection was forgotten. */
static __always_inline void reopen_nat(struct nat *nat, const int v6)
{
	struct nat *back = find_nat_return(&nat->peer, v6);

	nat->closing = 0;
	if (back)
		back->closing = 0;
}

static __always_inline int send_nat(const struct packet *packet, const struct service *service,
				    const int v6)
{
	struct nat *nat = find_nat_forward(&packet->tuple, v6);

	if (!nat) {
		int verdict;

		if (packet->tuple.protocol == IPPROTO_TCP && !packet->opens)
			return DROP_NAT_UNKNOWN;
		verdict = open_nat(packet, service, &nat, v6);
		if (verdict != GO_ON)
			return verdict;
	} else if (packet->opens && nat->closing) {
		reopen_nat(nat, v6);
	}
	touch(packet, nat);
	count_server(packet, nat->server);
	return rewrite(packet, nat, SEND_NAT, v6);
}

/* An answer of a server, if it is one. */
static __always_inline int send_nat_return(const struct packet *packet, const int v6)
{
	struct nat *nat = find_nat_return(&packet->tuple, v6);

	if (!nat)
		return PASS_OTHER;
	touch(packet, nat);
	return rewrite(packet, nat, SEND_NAT_RETURN, v6);
}
