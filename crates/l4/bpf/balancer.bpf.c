// SPDX-License-Identifier: Apache-2.0 OR GPL-2.0-only
/* The balancer: parse, look the service up, choose a server, forward. One function, no tail calls;
 * once for XDP, and once for traffic control.
 *
 *   link.h     Ethernet and VLAN tags            choose.h   ring and flow table
 *   parse.h    IP and transport                  nat.h      both directions, ports
 *   service.h  which service it is for           ipip.h     tunnels
 *   maps.h     all tables                        icmp.h     errors about flows
 *   verdict.h  how a packet can end              context.h  XDP and traffic control
 *   events.h   what a standby is told
 */
#include <linux/bpf.h>

#include <bpf/bpf_endian.h>
#include <bpf/bpf_helpers.h>

#include "count.h"
#include "icmp.h"
#include "service.h"

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

/* To a server that answers the client itself. */
static __always_inline int send_direct(void *ctx, struct packet *packet,
				       const struct service *service, const int v6,
				       const int tc)
{
	struct choice choice = {};
	int verdict;

	choose(packet, service, &choice, v6);
	if (!choice.server)
		return DROP_NO_SERVER;
	verdict = service->method == METHOD_MAC ? send_mac(packet, &choice)
						: send_ipip(ctx, packet, &choice, v6, tc);
	return count_sent(packet, choice.number, verdict);
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
	struct recent *recent = NULL;
	struct change *change = NULL;
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
	service = recall_service(&packet->tuple, v6);
	if (!service)
		change = recall(packet, &recent, SEND_NAT_RETURN, v6);
	if (!service && !change)
		service = find_service(&packet->tuple, v6);
	if (!service)
		return send_nat_return(ctx, packet, change, recent, v6, tc);
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
