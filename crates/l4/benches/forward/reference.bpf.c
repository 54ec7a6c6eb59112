// SPDX-License-Identifier: Apache-2.0 OR GPL-2.0-only
/* The least that a balancer with a table of flows does for IPv4 and TCP: parse, look the flow up
 * (and write a new one down), put the packet in a tunnel. No service, no counter, no check that is
 * not needed for safety. */
#include <linux/bpf.h>
#include <linux/if_ether.h>
#include <linux/in.h>
#include <linux/ip.h>
#include <linux/tcp.h>

#include <bpf/bpf_endian.h>
#include <bpf/bpf_helpers.h>

#define SERVERS 4
#define CHECK_BASE 0x4500 + 0x4000 + 0x4004 /* words of the outer header that are always the same */

struct flow_key {
	__be32 source, destination;
	__be16 source_port, destination_port;
	__u32 protocol;
};

struct {
	__uint(type, BPF_MAP_TYPE_LRU_HASH);
	__type(key, struct flow_key);
	__type(value, __u32);
	__uint(max_entries, 1 << 20);
	__uint(map_flags, BPF_F_NO_COMMON_LRU);
} flows SEC(".maps");

static __always_inline __u16 check(__u32 source, __u32 destination, __u32 length)
{
	__u32 sum = CHECK_BASE + length;

	source = bpf_ntohl(source);
	destination = bpf_ntohl(destination);
	sum += (source >> 16) + (source & 0xffff) + (destination >> 16) + (destination & 0xffff);
	sum = (sum >> 16) + (sum & 0xffff);
	sum = (sum >> 16) + (sum & 0xffff);
	return bpf_htons(~sum);
}

SEC("xdp")
int reference(struct xdp_md *ctx)
{
	void *data = (void *)(long)ctx->data, *end = (void *)(long)ctx->data_end;
	struct ethhdr *eth = data, *outer_eth;
	struct iphdr *ip = data + sizeof(*eth), *outer;
	struct tcphdr *tcp = (void *)(ip + 1);
	struct flow_key key = {};
	__u32 *known, server, length;

	if ((void *)(tcp + 1) > end || eth->h_proto != bpf_htons(ETH_P_IP) || ip->ihl != 5 ||
	    ip->protocol != IPPROTO_TCP)
		return XDP_PASS;
	key.source = ip->saddr;
	key.destination = ip->daddr;
	key.source_port = tcp->source;
	key.destination_port = tcp->dest;
	key.protocol = ip->protocol;
	known = bpf_map_lookup_elem(&flows, &key);
	if (known) {
		server = *known;
	} else {
		server = (key.source ^ key.source_port) % SERVERS;
		bpf_map_update_elem(&flows, &key, &server, BPF_ANY);
	}
	length = bpf_ntohs(ip->tot_len) + sizeof(*ip);
	if (bpf_xdp_adjust_head(ctx, -(int)sizeof(*ip)))
		return XDP_ABORTED;
	outer_eth = (void *)(long)ctx->data;
	outer = (void *)(outer_eth + 1);
	eth = (void *)outer_eth + sizeof(*outer);
	if ((void *)(eth + 1) > (void *)(long)ctx->data_end ||
	    (void *)(outer + 1) > (void *)(long)ctx->data_end)
		return XDP_ABORTED;
	__builtin_memcpy(outer_eth->h_source, eth->h_dest, ETH_ALEN);
	__builtin_memset(outer_eth->h_dest, 2 + server, ETH_ALEN);
	outer_eth->h_proto = bpf_htons(ETH_P_IP);
	__builtin_memset(outer, 0, sizeof(*outer));
	outer->version = 4;
	outer->ihl = 5;
	outer->tot_len = bpf_htons(length);
	outer->frag_off = bpf_htons(0x4000);
	outer->ttl = 64;
	outer->protocol = IPPROTO_IPIP;
	outer->saddr = bpf_htonl(0x0a000008);
	outer->daddr = bpf_htonl(0x0a000101 + server);
	outer->check = check(outer->saddr, outer->daddr, length);
	return XDP_TX;
}

char LICENSE[] SEC("license") = "GPL";
