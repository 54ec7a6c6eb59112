// SPDX-License-Identifier: Apache-2.0 OR GPL-2.0-only
/* Health checks that take the path of the traffic. loadline connects to a server's own address from
 * a port that is written down here; what leaves goes to the service address at that server, as
 * clients' packets do, and what it answers comes from its own address again.
 *
 * XDP sees nothing that leaves, so this is of traffic control. A packet of a check is rare: what is
 * plain is taken here before what is fast.
 */
#include <linux/bpf.h>
#include <linux/if_ether.h>
#include <linux/in.h>
#include <linux/ip.h>
#include <linux/ipv6.h>
#include <linux/tcp.h>
#include <linux/udp.h>

#include <bpf/bpf_endian.h>
#include <bpf/bpf_helpers.h>

#include "context.h"

#define TUNNEL_TTL 64

/* The port of the check, then that of the server. */
struct check_key {
	union ports ports;
	__u8 protocol;
	__u8 v6;
	__u8 pad[2];
};

struct check {
	struct address service, server;
	__u32 method;
};

/* The loader sets the size. */
TABLE(checks, HASH, struct check_key, struct check, 1, BPF_F_NO_PREALLOC);

struct packet {
	struct address source, destination;
	struct check_key key;
	__u32 transport; /* offset */
};

#define IP_AT ETH_HLEN

static __always_inline int read_ip4(struct __sk_buff *skb, struct packet *packet)
{
	struct iphdr ip;

	if (bpf_skb_load_bytes(skb, IP_AT, &ip, sizeof(ip)) || ip.ihl != 5)
		return 0;
	packet->source.word[0] = ip.saddr;
	packet->destination.word[0] = ip.daddr;
	packet->key.protocol = ip.protocol;
	packet->transport = IP_AT + sizeof(ip);
	return 1;
}

static __always_inline int read_ip6(struct __sk_buff *skb, struct packet *packet)
{
	struct ipv6hdr ip;

	if (bpf_skb_load_bytes(skb, IP_AT, &ip, sizeof(ip)))
		return 0;
	__builtin_memcpy(&packet->source, &ip.saddr, sizeof(ip.saddr));
	__builtin_memcpy(&packet->destination, &ip.daddr, sizeof(ip.daddr));
	packet->key.protocol = ip.nexthdr;
	packet->key.v6 = 1;
	packet->transport = IP_AT + sizeof(ip);
	return 1;
}

/* Ports as they are in packets that leave. */
static __always_inline int read_packet(struct __sk_buff *skb, struct packet *packet,
				       const int comes)
{
	int is_read = skb->protocol == bpf_htons(ETH_P_IP)     ? read_ip4(skb, packet)
		      : skb->protocol == bpf_htons(ETH_P_IPV6) ? read_ip6(skb, packet)
							       : 0;
	union ports ports;

	if (!is_read ||
	    (packet->key.protocol != IPPROTO_TCP && packet->key.protocol != IPPROTO_UDP) ||
	    bpf_skb_load_bytes(skb, packet->transport, &ports, sizeof(ports)))
		return 0;
	packet->key.ports.source = comes ? ports.destination : ports.source;
	packet->key.ports.destination = comes ? ports.source : ports.destination;
	return 1;
}

static __always_inline int is_same(const struct address *one, const struct address *other)
{
	const __be32 *a = one->word, *b = other->word;

	return !((a[0] ^ b[0]) | (a[1] ^ b[1]) | (a[2] ^ b[2]) | (a[3] ^ b[3]));
}

static __always_inline void replace4(struct __sk_buff *skb, __u32 at, __u32 check, __u64 flags,
				     __be32 from, __be32 to)
{
	replace_addresses(skb, check, fold(changed32(from, to)), flags, 0);
	bpf_l3_csum_replace(skb, IP_AT + offsetof(struct iphdr, check), from, to, sizeof(to));
	bpf_skb_store_bytes(skb, at + offsetof(struct iphdr, saddr), &to, sizeof(to), 0);
}

static __always_inline void replace6(struct __sk_buff *skb, __u32 at, __u32 check, __u64 flags,
				     struct address *from, struct address *to)
{
	__s64 by = bpf_csum_diff(from->word, sizeof(*from), to->word, sizeof(*to), 0);

	replace_addresses(skb, check, by, flags, 1);
	bpf_skb_store_bytes(skb, at + offsetof(struct ipv6hdr, saddr), to, sizeof(*to), 0);
}

/* Replaces the source, or the destination, which follows it in both families. */
static __always_inline void replace(struct __sk_buff *skb, const struct packet *packet,
				    const int destination, struct address *from,
				    struct address *to)
{
	const int is_tcp = packet->key.protocol == IPPROTO_TCP;
	__u32 check = packet->transport + (is_tcp ? offsetof(struct tcphdr, check)
						  : offsetof(struct udphdr, check));
	__u64 flags = is_tcp ? 0 : BPF_F_MARK_MANGLED_0;

	if (packet->key.v6)
		replace6(skb, IP_AT + (destination ? sizeof(*to) : 0), check, flags, from, to);
	else
		replace4(skb, IP_AT + (destination ? sizeof(__be32) : 0), check, flags,
			 from->word[0], to->word[0]);
}

static __always_inline void wrap4(struct __sk_buff *skb, const struct packet *packet,
				  const struct check *check)
{
	struct iphdr outer = {
		.version = 4,
		.ihl = 5,
		.ttl = TUNNEL_TTL,
		.protocol = IPPROTO_IPIP,
		.tot_len = bpf_htons(skb->len - ETH_HLEN + sizeof(outer)),
		.saddr = packet->source.word[0],
		.daddr = check->server.word[0],
	};

	outer.check = ~fold((__u32)bpf_csum_diff(NULL, 0, (void *)&outer, sizeof(outer), 0));
	if (!bpf_skb_adjust_room(skb, sizeof(outer), BPF_ADJ_ROOM_MAC,
				 BPF_F_ADJ_ROOM_ENCAP_L3_IPV4))
		bpf_skb_store_bytes(skb, IP_AT, &outer, sizeof(outer), 0);
}

static __always_inline void wrap6(struct __sk_buff *skb, const struct packet *packet,
				  const struct check *check)
{
	struct ipv6hdr outer = {
		.version = 6,
		.payload_len = bpf_htons(skb->len - ETH_HLEN),
		.nexthdr = IPPROTO_IPV6,
		.hop_limit = TUNNEL_TTL,
	};

	__builtin_memcpy(&outer.saddr, &packet->source, sizeof(outer.saddr));
	__builtin_memcpy(&outer.daddr, &check->server, sizeof(outer.daddr));
	if (!bpf_skb_adjust_room(skb, sizeof(outer), BPF_ADJ_ROOM_MAC,
				 BPF_F_ADJ_ROOM_ENCAP_L3_IPV6))
		bpf_skb_store_bytes(skb, IP_AT, &outer, sizeof(outer), 0);
}

SEC("classifier")
int check_out(struct __sk_buff *skb)
{
	struct packet packet = {};
	struct check *check;

	/* What came in is forwarded, and none of our checks. */
	if (skb->ingress_ifindex || !read_packet(skb, &packet, 0))
		return TC_NEXT;
	check = bpf_map_lookup_elem(&checks, &packet.key);
	if (!check || !is_same(&packet.destination, &check->server))
		return TC_NEXT;
	replace(skb, &packet, 1, &check->server, &check->service);
	if (check->method == METHOD_IPIP && packet.key.v6)
		wrap6(skb, &packet, check);
	else if (check->method == METHOD_IPIP)
		wrap4(skb, &packet, check);
	return TC_NEXT;
}

SEC("classifier")
int check_in(struct __sk_buff *skb)
{
	struct packet packet = {};
	struct check *check;

	if (!read_packet(skb, &packet, 1))
		return TC_NEXT;
	check = bpf_map_lookup_elem(&checks, &packet.key);
	if (check && is_same(&packet.source, &check->service))
		replace(skb, &packet, 0, &check->service, &check->server);
	return TC_NEXT;
}

char LICENSE[] SEC("license") = "GPL";
