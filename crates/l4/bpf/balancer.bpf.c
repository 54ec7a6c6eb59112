// SPDX-License-Identifier: Apache-2.0 OR GPL-2.0-only
/* The balancer: parse, look the service up, choose a server, forward. One function, no tail calls;
 * once for XDP, and once for traffic control.
 *
 *   link.h     Ethernet and VLAN tags            choose.h   ring and flow table
 *   parse.h    IP and transport                  nat.h      both directions, ports
 *   maps.h     all tables                        ipip.h     tunnels
 *   verdict.h  how a packet can end              icmp.h     errors about flows
 *   events.h   what a standby is told         context.h  XDP and traffic control
 */
#include <linux/bpf.h>

#include <bpf/bpf_endian.h>
#include <bpf/bpf_helpers.h>

#include "count.h"
#include "icmp.h"

static __always_inline struct service *find_at(const struct address *address, __u32 door,
					       const int v6)
{
	struct service_key4 key4 = {address->word[0], door};
	struct service_key6 key6 = {*address, door};

	return v6 ? bpf_map_lookup_elem(&services6, &key6) : bpf_map_lookup_elem(&services4, &key4);
}

static __always_inline struct service *find_service(const struct tuple *tuple, const int v6)
{
	return find_at(&tuple->destination, DOOR(tuple->ports.destination, tuple->protocol), v6);
}

/* What cannot be forwarded is dropped if it was for us, and none of our business otherwise. */
static __always_inline int refuse(const struct packet *packet, int verdict, const int v6)
{
	return find_at(&packet->tuple.destination, 0, v6) ? verdict : PASS_OTHER;
}

static __always_inline int send_mac(const struct packet *packet, const struct choice *choice)
{
	address_link(packet->link.eth, choice->server->mac);
	return SEND_MAC;
}

static __always_inline int same_address(const struct address *one, const struct address *other)
{
	const __be32 *a = one->word, *b = other->word;

	return !((a[0] ^ b[0]) | (a[1] ^ b[1]) | (a[2] ^ b[2]) | (a[3] ^ b[3]));
}

/* To a server that answers the client itself. */
static __always_inline int send_direct(void *ctx, struct packet *packet,
				       const struct service *service, const int v6,
				       const int tc)
{
	struct choice choice = {};

	choose(packet, service, &choice, v6);
	if (!choice.server)
		return DROP_NO_SERVER;
	count_server(packet, choice.number);
	return service->method == METHOD_MAC ? send_mac(packet, &choice)
					     : send_ipip(ctx, packet, &choice, v6, tc);
}

/* An error must be about something that its receiver sent; else it is none of ours. */
static __always_inline int forward_error(void *ctx, struct packet *packet, const int v6,
					 const int tc)
{
	struct address receiver = packet->tuple.destination;
	struct service *service;
	struct nat *nat;
	void *quoted;
	int verdict = parse_quoted(packet, &quoted, v6);

	if (verdict == GO_ON && !same_address(&receiver, &packet->tuple.destination))
		verdict = PASS_OTHER;
	if (verdict != GO_ON) {
		packet->tuple.destination = receiver;
		return refuse(packet, verdict, v6);
	}
	service = find_service(&packet->tuple, v6);
	if (service && service->method != METHOD_NAT) {
		verdict = send_direct(ctx, packet, service, v6, tc);
		return verdict <= SEND_LAST ? SEND_ICMP : verdict;
	}
	nat = service ? find_nat_forward(&packet->tuple, v6) : find_nat_return(&packet->tuple, v6);
	return nat ? rewrite_error(ctx, packet, &nat->change, quoted, v6, tc) : PASS_OTHER;
}

/* What an error quotes lies further behind than other headers. */
static __always_inline int forward_icmp(void *ctx, struct packet *packet, const int v6,
					const int tc)
{
	if (reach(ctx, REACH_QUOTED, tc) &&
	    (parse_link(ctx, &packet->link, tc) != GO_ON || parse_ip(packet, v6) != GO_ON))
		return DROP_TRUNCATED;
	return is_error(packet, v6) ? forward_error(ctx, packet, v6, tc) : PASS_OTHER;
}

static __always_inline int forward(void *ctx, struct packet *packet, const int v6, const int tc)
{
	struct service *service;
	int verdict = parse_ip(packet, v6);

	if (verdict == DROP_TRUNCATED)
		return verdict;
	if (verdict == GO_ON &&
	    packet->tuple.protocol == (v6 ? IPPROTO_ICMPV6 : IPPROTO_ICMP))
		return forward_icmp(ctx, packet, v6, tc);
	if (verdict == GO_ON)
		verdict = parse_transport(packet, v6);
	if (verdict != GO_ON)
		return refuse(packet, verdict, v6);
	service = find_service(&packet->tuple, v6);
	if (!service)
		return send_nat_return(ctx, packet, v6, tc);
	return service->method == METHOD_NAT ? send_nat(ctx, packet, service, v6, tc)
					     : send_direct(ctx, packet, service, v6, tc);
}

static __always_inline int balance(void *ctx, const int tc)
{
	struct packet packet = {};
	__u32 bytes = length_of(ctx, tc);
	int verdict;

	reach_headers(ctx, tc);
	verdict = parse_link(ctx, &packet.link, tc);
	if (verdict != GO_ON)
		return end(ctx, &verdicts, verdict, bytes, tc);
	packet.room = bytes - packet.link.length;
	if (packet.link.eth->h_dest[0] & 1)
		verdict = PASS_OTHER;
	else if (packet.link.type == bpf_htons(ETH_P_IP))
		verdict = forward(ctx, &packet, 0, tc);
	else if (packet.link.type == bpf_htons(ETH_P_IPV6))
		verdict = forward(ctx, &packet, 1, tc);
	else
		verdict = PASS_OTHER;
	return end(ctx, &verdicts, verdict, bytes, tc);
}

SEC("xdp")
int balancer(struct xdp_md *ctx)
{
	return balance(ctx, 0);
}

SEC("classifier")
int balancer_tc(struct __sk_buff *skb)
{
	return balance(skb, 1);
}

char LICENSE[] SEC("license") = "GPL";
