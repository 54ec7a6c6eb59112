// SPDX-License-Identifier: Apache-2.0 OR GPL-2.0-only
/* For a server behind `ipip` whose kernel has no tunnel: takes the outer header off and hands the
 * packet inside to the host. Only packets whose inner destination is one of the addresses the host
 * serves are let in, or anybody could send from anywhere through it. */
#include <linux/bpf.h>

#include <bpf/bpf_endian.h>
#include <bpf/bpf_helpers.h>

#include "count.h"
#include "parse.h"

TABLE(verdicts, PERCPU_ARRAY, __u32, struct count, VERDICTS, 0);
TABLE(served, HASH, struct address, __u32, 64, 0);

/* For one length of the link header, a constant. */
static __always_inline int decapsulate(struct xdp_md *ctx, const __u32 link, const int v6)
{
	const int gone = v6 ? sizeof(struct ipv6hdr) : sizeof(struct iphdr);
	void *data = (void *)(long)ctx->data;
	__u8 header[LINK_TWICE];

	if (data + link + gone > (void *)(long)ctx->data_end)
		return DROP_TRUNCATED;
	__builtin_memcpy(header, data, link);
	if (bpf_xdp_adjust_head(ctx, gone))
		return DROP_NO_ROOM;
	data = (void *)(long)ctx->data;
	if (data + link > (void *)(long)ctx->data_end)
		return DROP_TRUNCATED;
	__builtin_memcpy(data, header, link);
	return PASS_DECAPSULATED;
}

static __always_inline int is_served(const struct packet *packet, const int v6)
{
	struct iphdr *ip4 = packet->transport;
	struct ipv6hdr *ip6 = packet->transport;
	struct address address = {};

	if (packet->transport + (v6 ? sizeof(*ip6) : sizeof(*ip4)) > packet->link.end)
		return 0;
	if (v6)
		__builtin_memcpy(&address, &ip6->daddr, sizeof(address));
	else
		address.word[0] = ip4->daddr;
	return bpf_map_lookup_elem(&served, &address) != NULL;
}

static __always_inline int open_tunnel(struct xdp_md *ctx, struct packet *packet, const int v6)
{
	int verdict = parse_ip(packet, v6);

	if (packet->tuple.protocol != (v6 ? IPPROTO_IPV6 : IPPROTO_IPIP))
		return PASS_OTHER;
	if (verdict != GO_ON)
		return verdict;
	if (!is_served(packet, v6))
		return PASS_OTHER;
	switch (packet->link.length) {
	case LINK_PLAIN:
		return decapsulate(ctx, LINK_PLAIN, v6);
	case LINK_TAGGED:
		return decapsulate(ctx, LINK_TAGGED, v6);
	}
	return decapsulate(ctx, LINK_TWICE, v6);
}

SEC("xdp")
int decapsulator(struct xdp_md *ctx)
{
	struct packet packet = {};
	__u32 bytes = ctx->data_end - ctx->data;
	int verdict = parse_link(ctx, &packet.link, 0);

	if (verdict != GO_ON)
		return end(ctx, &verdicts, verdict, bytes, 0);
	packet.room = bytes - packet.link.length;
	if (packet.link.type == bpf_htons(ETH_P_IP))
		verdict = open_tunnel(ctx, &packet, 0);
	else if (packet.link.type == bpf_htons(ETH_P_IPV6))
		verdict = open_tunnel(ctx, &packet, 1);
	else
		verdict = PASS_OTHER;
	return end(ctx, &verdicts, verdict, bytes, 0);
}

char LICENSE[] SEC("license") = "GPL";
