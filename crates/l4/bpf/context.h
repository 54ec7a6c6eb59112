/* SPDX-License-Identifier: Apache-2.0 OR GPL-2.0-only */
/* Where the two kinds of program differ. XDP sees a frame before the kernel makes anything of it.
 * Traffic control sees the kernel's own packet: its end may be out of reach, it may be several
 * segments in one, and its checksum may be left to the network card. `tc` is a constant wherever it
 * is an argument, so that neither program has anything of the other. */
#pragma once

#include <linux/if_ether.h>
#include <linux/pkt_cls.h>

#include <bpf/bpf_endian.h>

#include "checksum.h"
#include "verdict.h"

#define TC_NEXT -1		   /* what comes next decides: TCX_NEXT, TC_ACT_UNSPEC */
#define REPLACE_IPV6 (1ULL << 7)   /* BPF_F_IPV6, which kernels before 6.16 refuse */

/* How far headers reach: up to the end of TCP in IPv4; in IPv6 behind two tags; and of the ports in
 * what an ICMP error quotes. */
#define REACH4 54
#define REACH 82
#define REACH_QUOTED 118

static __always_inline void *first_byte(void *ctx, const int tc)
{
	return (void *)(long)(tc ? ((struct __sk_buff *)ctx)->data : ((struct xdp_md *)ctx)->data);
}

/* The end of what can be read. */
static __always_inline void *end_byte(void *ctx, const int tc)
{
	return (void *)(long)(tc ? ((struct __sk_buff *)ctx)->data_end
				 : ((struct xdp_md *)ctx)->data_end);
}

/* Bytes of the whole frame. */
static __always_inline __u32 length_of(void *ctx, const int tc)
{
	return tc ? ((struct __sk_buff *)ctx)->len : end_byte(ctx, 0) - first_byte(ctx, 0);
}

/* Bytes of data in each segment, where a packet is several in one. */
static __always_inline __u32 segment_of(void *ctx, const int tc)
{
	return tc ? ((struct __sk_buff *)ctx)->gso_size : 0;
}

/* Brings so much of the packet within reach. True where pointers into it are to be made anew. */
static __always_inline int reach(void *ctx, __u32 length, const int tc)
{
	struct __sk_buff *skb = ctx;

	if (!tc)
		return 0;
	length = length < skb->len ? length : skb->len;
	if ((__u32)(end_byte(ctx, tc) - first_byte(ctx, tc)) >= length)
		return 0;
	bpf_skb_pull_data(skb, length);
	return 1;
}

static __always_inline void reach_headers(void *ctx, const int tc)
{
	struct __sk_buff *skb = ctx;

	if (tc)
		reach(ctx, skb->protocol == bpf_htons(ETH_P_IP) ? REACH4 : REACH, tc);
}

/* What a change of the IP header means to the sum that a network card has made of the packet. In
 * IPv4 a header's own checksum makes up for it. */
static __always_inline void account(void *ctx, difference by, const int v6, const int tc)
{
	if (tc && v6)
		bpf_csum_update(ctx, fold(by));
}

/* A transport checksum, by what became of the addresses. The kernel knows whether it is whole, or
 * left to the network card: then it is of the addresses alone. */
static __always_inline void replace_addresses(struct __sk_buff *skb, __u32 at, __u32 by,
					      __u64 flags, const int v6)
{
	flags |= BPF_F_PSEUDO_HDR;
	if (!v6 || bpf_l4_csum_replace(skb, at, 0, by, flags | REPLACE_IPV6))
		bpf_l4_csum_replace(skb, at, 0, by, flags);
}

/* Makes room for an outer header behind a link header of this length. Segments become shorter by as
 * much, but for datagrams, which stay what they are. */
static __always_inline long make_room(void *ctx, int length, const __u32 link, int datagrams,
				      const int v6, const int tc)
{
	__u64 flags = v6 ? BPF_F_ADJ_ROOM_ENCAP_L3_IPV6 : BPF_F_ADJ_ROOM_ENCAP_L3_IPV4;

	if (!tc)
		return bpf_xdp_adjust_head(ctx, -length);
	if (link != ETH_HLEN)
		return bpf_skb_change_head(ctx, length, 0);
	if (datagrams)
		flags |= BPF_F_ADJ_ROOM_FIXED_GSO;
	return bpf_skb_adjust_room(ctx, length, BPF_ADJ_ROOM_MAC, flags);
}

/* Whether room is made in front of the link header, which is then to be moved. */
static __always_inline int is_room_in_front(const __u32 link, const int tc)
{
	return !tc || link != ETH_HLEN;
}

static __always_inline int act(void *ctx, __u32 verdict, const int tc)
{
	if (!tc)
		return verdict <= PASS_LAST   ? XDP_PASS
		       : verdict <= SEND_LAST ? XDP_TX
					      : XDP_DROP;
	return verdict <= PASS_LAST   ? TC_NEXT
	       : verdict <= SEND_LAST ? bpf_redirect(((struct __sk_buff *)ctx)->ifindex, 0)
				      : TC_ACT_SHOT;
}
