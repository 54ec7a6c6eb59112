/* SPDX-License-Identifier: Apache-2.0 OR GPL-2.0-only */
/* Forwarding by NAT: the server sees a return address and port of ours, so that its answers come
 * back here. Both directions of a connection are written down when it begins. */
#pragma once

#include "checksum.h"
#include "choose.h"

/* How often a port is tried for that another processor takes first. */
#define RACES 16

static __always_inline difference rewrite_address(const struct address *to, void *at, const int v6)
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
static __always_inline difference rewrite_ip(void *ctx, const struct change *change, void *header,
					     const int v6, const int tc)
{
	struct iphdr *ip4 = header;
	struct ipv6hdr *ip6 = header;
	difference by;

	if (v6) {
		by = rewrite_address(&change->source, &ip6->saddr, v6);
		by += rewrite_address(&change->destination, &ip6->daddr, v6);
		ip6->hop_limit--;
		account(ctx, changed16(bpf_htons(1), 0), v6, tc);
		return by;
	}
	by = rewrite_address(&change->source, &ip4->saddr, v6);
	by += rewrite_address(&change->destination, &ip4->daddr, v6);
	ip4->check = updated(ip4->check, by + changed16(bpf_htons(0x0100), 0));
	ip4->ttl--;
	return by;
}

static __always_inline int may_hop(const void *header, const int v6)
{
	return v6 ? ((const struct ipv6hdr *)header)->hop_limit > 1
		  : ((const struct iphdr *)header)->ttl > 1;
}

static __always_inline void replace_transport(void *ctx, const struct packet *packet,
					      difference addresses, difference ports,
					      const int v6)
{
	const int is_tcp = packet->tuple.protocol == IPPROTO_TCP;
	const __u64 flags = is_tcp ? 0 : BPF_F_MARK_MANGLED_0;
	__u32 at = packet->link.length + (v6 ? sizeof(struct ipv6hdr) : sizeof(struct iphdr));

	at += is_tcp ? offsetof(struct tcphdr, check) : offsetof(struct udphdr, check);
	replace_addresses(ctx, at, fold(addresses), flags, v6);
	bpf_l4_csum_replace(ctx, at, 0, fold(ports), flags);
}

/* One packet in one direction. A UDP checksum of zero means that there is none; one that comes to
 * zero is written as 0xffff (RFC 768). */
static __always_inline int rewrite(void *ctx, const struct packet *packet,
				   const struct change *change, int verdict, const int v6, const int tc)
{
	struct tcphdr *tcp = packet->transport;
	struct udphdr *udp = packet->transport;
	union ports *ports = packet->transport;
	difference addresses, by;

	if (!may_hop(packet->link.ip, v6))
		return DROP_TTL;
	address_link(packet->link.eth, change->mac);
	addresses = rewrite_ip(ctx, change, packet->link.ip, v6, tc);
	by = changed32(ports->both, change->ports.both);
	ports->both = change->ports.both;
	if (tc) {
		replace_transport(ctx, packet, addresses, by, v6);
		return verdict;
	}
	by += addresses;
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

/* FIN of both sides, or RST of one. */
static __always_inline void tell_if_closed(const struct packet *packet, const struct nat *nat,
					   const int is_answer, const int v6)
{
	const struct tuple *answers = is_answer ? &packet->tuple : &nat->peer;
	struct nat *other;

	if (!tells)
		return;
	other = is_answer ? find_nat_forward(&nat->peer, v6) : find_nat_return(&nat->peer, v6);
	if (nat->closing & CLOSED_RST || (other && other->closing))
		tell_closed(answers, nat->change.server, v6);
}

static __always_inline void stamp_nat(struct nat *nat)
{
	const struct stamp stamp = new_stamp();

	nat->time = stamp.time;
	nat->tick = stamp.tick;
}

static __always_inline void touch(const struct packet *packet, struct nat *nat,
				  const int is_answer, const int v6)
{
	if (packet->closing & ~nat->closing) {
		nat->closing |= packet->closing;
		tell_if_closed(packet, nat, is_answer, v6);
	} else if (!is_old(nat->tick)) {
		return;
	}
	stamp_nat(nat);
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
	draft->back.change.source = tuple->destination;
	draft->back.change.ports.source = tuple->ports.destination;
	draft->back.change.destination = tuple->source;
	draft->back.change.ports.destination = tuple->ports.source;
	draft->back.peer = *tuple;
	draft->back.closing = 0;
	draft->back.link = LINK_MARK(packet->link.eth->h_source);
	__builtin_memcpy(draft->back.change.mac, packet->link.eth->h_source, ETH_ALEN);
}

/* Packets of the client, made into from the return address to the server. */
static __always_inline void draft_forward(const struct server *server, struct draft *draft)
{
	draft->forward = draft->back;
	draft->forward.change.source = draft->key.destination;
	draft->forward.change.ports.source = draft->key.ports.destination;
	draft->forward.change.destination = draft->key.source;
	draft->forward.change.ports.destination = draft->key.ports.source;
	draft->forward.peer = draft->key;
	__builtin_memcpy(draft->forward.change.mac, server->mac, ETH_ALEN);
}

static __always_inline struct server *server_of(const struct nat *nat)
{
	__u32 number = nat->change.server;

	return bpf_map_lookup_elem(&servers, &number);
}

/* Another connection takes the place of this one, whose port rests as after any that is closed.
 * From a server that is down nothing more is to come, for which the port would have to rest. */
static __always_inline void leave_nat(const struct nat *nat, const int v6)
{
	struct nat *back = find_nat_return(&nat->peer, v6);
	struct server *server = server_of(nat);

	if (!back)
		return;
	back->closing |= CLOSED_RST;
	if (server && !server->up)
		back->time = 0;
	tell_closed(&nat->peer, nat->change.server, v6);
}

/* Writes both entries of a new connection down, or neither: its port is lost then until user space
 * looks. Where another processor was faster with the same packet its connection holds, but for one
 * that this takes the place of. Whether they are written. */
static __always_inline int put_nat(const struct packet *packet, struct draft *draft,
				   const struct nat *before, const int v6)
{
	__u32 server = draft->back.change.server;
	struct pool *pool = bpf_map_lookup_elem(&pools, &server);
	const __u64 flags = before ? BPF_ANY : BPF_NOEXIST;

	if (!put_nat_return(&draft->key, &draft->back, BPF_NOEXIST, v6)) {
		if (before)
			leave_nat(before, v6);
		if (!put_nat_forward(&packet->tuple, &draft->forward, flags, v6)) {
			tell_open(&packet->tuple, &draft->forward, draft->back.change.mac, v6);
			return 1;
		}
		remove_nat_return(&draft->key, v6);
	}
	if (pool)
		__sync_fetch_and_add(&pool->lost, 1);
	return 0;
}

/* Connections are all written down here, so that the flow table is for clients that stay. */
static __always_inline void choose_nat(struct packet *packet, const struct service *service,
				       struct choice *choice, const int v6)
{
	if (service->sticky)
		choose_by_ring(packet, service, choice, v6);
	else
		take(choice, ENTRY_CURRENT(find_entry(packet, service, choice, v6)));
	take_by_id(packet, service, choice);
}

/* A client stays as long as a connection of it is heard of. */
static __always_inline void keep_client(struct packet *packet, const struct service *service,
					const struct nat *nat, const int v6)
{
	struct choice choice = {};

	if (service->sticky && is_old(nat->tick))
		choose_by_ring(packet, service, &choice, v6);
}

/* Link addresses as they are now: that of the server, and for its answers that of the router which
 * the client's packets come by. Another processor may see half of one that is being replaced. */
static __always_inline void follow_links(const struct packet *packet, struct nat *nat,
					 const struct server *server, const int v6)
{
	const __u8 *from = packet->link.eth->h_source;
	struct nat *back;

	if (LINK_MARK(server->mac) != LINK_MARK(nat->change.mac))
		copy(nat->change.mac, server->mac, ETH_ALEN);
	if (LINK_MARK(from) == nat->link)
		return;
	nat->link = LINK_MARK(from);
	back = find_nat_return(&nat->peer, v6);
	if (back)
		copy(back->change.mac, from, ETH_ALEN);
}

/* The client uses its port again after the connection was closed, or broken off by the server. */
static __always_inline int opens_again(const struct packet *packet, const struct nat *nat,
				       const int v6)
{
	const struct nat *back;

	if (!packet->opens || nat->closing)
		return packet->opens;
	back = find_nat_return(&nat->peer, v6);
	return back && back->closing & CLOSED_RST;
}

/* At the same server, from the same port. */
static __always_inline int reopen_nat(const struct packet *packet, struct nat *nat,
				      const struct server *server, const int v6)
{
	struct nat *back = find_nat_return(&nat->peer, v6);

	follow_links(packet, nat, server, v6);
	nat->closing = 0;
	if (!back)
		return GO_ON;
	back->closing = 0;
	tell_open(&packet->tuple, nat, back->change.mac, v6);
	return GO_ON;
}

/* Has every processor look connections up again: they may remember one that was replaced. Those of
 * a server that went down they do not, since user space has done the same then. */
static __always_inline void outdate(void)
{
	__u32 zero = 0, *now = bpf_map_lookup_elem(&generation, &zero);

	if (now)
		__sync_fetch_and_add(now, 1);
}

/* Begins a connection, in place of the one whose entry is `nat`, if any; `nat` is then its entry.
 * Where that cannot be, the one before stays. */
static __always_inline int open_nat(struct packet *packet, const struct service *service,
				    struct nat **nat, const int v6)
{
	__u32 zero = 0;
	struct draft *draft = bpf_map_lookup_elem(&drafts, &zero);
	struct nat *before;
	struct choice choice = {};
	int verdict;

	if (!draft)
		return DROP_NAT_FULL;
	/* In memory the kernel does not follow it, and checks the choice once for both. */
	draft->replaces = *nat != NULL;
	choose_nat(packet, service, &choice, v6);
	if (!choice.server)
		return DROP_NO_SERVER;
	before = draft->replaces ? find_nat_forward(&packet->tuple, v6) : NULL;
	*nat = before;
	if (before && before->change.server == choice.number)
		return reopen_nat(packet, before, choice.server, v6);
	draft_back(packet, choice.server, draft);
	draft->back.change.server = choice.number;
	draft->back.service = service->number;
	stamp_nat(&draft->back);
	verdict = take_port(choice.number, draft, v6);
	if (verdict != GO_ON)
		return verdict;
	draft_forward(choice.server, draft);
	if (!put_nat(packet, draft, before, v6) && before)
		return DROP_NAT_FULL;
	if (before && packet->opens)
		outdate();
	*nat = find_nat_forward(&packet->tuple, v6);
	return *nat ? GO_ON : DROP_NAT_FULL;
}

/* Where this processor has the packet's entry, or would have it. A packet that opens or closes a
 * connection changes the entry itself. */
static __always_inline struct recent *recent_of(const struct packet *packet, const int v6)
{
	__u32 at = hash_client(&packet->tuple, 0, v6) % RECENT;

	if (packet->opens || packet->closing)
		return NULL;
	return bpf_map_lookup_elem(&recent_nat, &at);
}

/* An entry is looked up again before it counts as silent, and once any has been taken away. */
static __always_inline int is_valid(const struct recent *recent)
{
	__u32 zero = 0, *now = bpf_map_lookup_elem(&generation, &zero);

	return now && *now == recent->generation && recent->verdict && !is_old(recent->tick);
}

/* Of the generation before tables are looked into: what is taken away after that is outdated. */
static __always_inline void vacate(struct recent *recent)
{
	__u32 zero = 0, *now = bpf_map_lookup_elem(&generation, &zero);

	recent->verdict = 0;
	if (now)
		recent->generation = *(volatile __u32 *)now;
}

static __always_inline int is_about(const struct recent *recent, const struct tuple *tuple,
				    const int v6)
{
	const int words = v6 ? 4 : 1;
	const struct tuple *key = &recent->key;
	__u32 differ = (key->ports.both ^ tuple->ports.both) | (key->protocol ^ tuple->protocol);

#pragma unroll
	for (int n = 0; n < words; n++) {
		differ |= key->source.word[n] ^ tuple->source.word[n];
		differ |= key->destination.word[n] ^ tuple->destination.word[n];
	}
	return !differ;
}

/* What becomes of the packet, if this processor knows. A place that it could take is left in
 * `recent`, else none: one that is in use is not fought for. */
static __always_inline struct change *recall(const struct packet *packet, struct recent **recent,
					     __u32 verdict, const int v6)
{
	struct recent *found = recent_of(packet, v6);

	*recent = NULL;
	if (!found)
		return NULL;
	if (!is_valid(found)) {
		vacate(found);
		*recent = found;
		return NULL;
	}
	if (found->verdict != (verdict | IN_FAMILY(v6)) || !is_about(found, &packet->tuple, v6))
		return NULL;
	return &found->change;
}

static __always_inline void remember(struct recent *recent, const struct packet *packet,
				     const struct nat *nat, __u32 verdict, const int v6)
{
	if (!recent)
		return;
	recent->key = packet->tuple;
	recent->change = nat->change;
	recent->verdict = verdict | IN_FAMILY(v6);
	recent->tick = nat->tick;
}

static __always_inline int send_nat(void *ctx, struct packet *packet,
				    const struct service *service, const int v6, const int tc)
{
	struct recent *recent;
	struct change *change = recall(packet, &recent, SEND_NAT, v6);
	struct server *server;
	struct nat *nat;

	int verdict;

	if (change) {
		verdict = rewrite(ctx, packet, change, SEND_NAT, v6, tc);
		return count_sent(packet, change->server, verdict);
	}
	nat = find_nat_forward(&packet->tuple, v6);
	if (!nat && packet->tuple.protocol == IPPROTO_TCP && !packet->opens)
		return DROP_NAT_UNKNOWN;
	server = nat ? server_of(nat) : NULL;
	if (!server || !server->up || opens_again(packet, nat, v6)) {
		/* Before it takes a port. */
		if (!may_hop(packet->link.ip, v6))
			return DROP_TTL;
		verdict = open_nat(packet, service, &nat, v6);
		if (verdict != GO_ON)
			return verdict;
	} else {
		follow_links(packet, nat, server, v6);
		keep_client(packet, service, nat, v6);
	}
	touch(packet, nat, 0, v6);
	remember(recent, packet, nat, SEND_NAT, v6);
	verdict = rewrite(ctx, packet, &nat->change, SEND_NAT, v6, tc);
	return count_sent(packet, nat->change.server, verdict);
}

/* An answer of a server, if it is one, after `recall`. */
static __always_inline int send_nat_return(void *ctx, const struct packet *packet,
					   const struct change *change, struct recent *recent,
					   const int v6, const int tc)
{
	struct nat *nat;

	if (change)
		return rewrite(ctx, packet, change, SEND_NAT_RETURN, v6, tc);
	nat = find_nat_return(&packet->tuple, v6);
	if (!nat)
		return PASS_OTHER;
	touch(packet, nat, 1, v6);
	remember(recent, packet, nat, SEND_NAT_RETURN, v6);
	return rewrite(ctx, packet, &nat->change, SEND_NAT_RETURN, v6, tc);
}
