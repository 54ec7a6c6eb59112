// SPDX-License-Identifier: Apache-2.0 OR GPL-2.0-only
/* Runs another program on a fresh packet: the kernel's test run gives a program the frame that the
 * one before has left, so each time it is written anew, for the next of the flows, and the program
 * is called. `bounce` and `grow` are programs that do nothing else than what they are called. */
#include <linux/bpf.h>

#include <bpf/bpf_endian.h>
#include <bpf/bpf_helpers.h>

#define FRAME 64
#define SOURCE 28      /* the lower half of the IPv4 source address */
#define SOURCE_PORT 34 /* of TCP */
#define FIRST_PORT 1024
#define PORT_BITS 12
#define GROWN 20

struct work {
	__u8 frame[FRAME];
	__u32 count; /* of packets so far */
	__u32 mask;  /* flows are a power of two */
	__u32 is_in_turn;
};

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__type(key, __u32);
	__type(value, struct work);
	__uint(max_entries, 1);
} work SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_PROG_ARRAY);
	__type(key, __u32);
	__type(value, __u32);
	__uint(max_entries, 1);
} target SEC(".maps");

/* A table of flows for the other balancer, which wants to be given one. */
struct {
	__uint(type, BPF_MAP_TYPE_LRU_HASH);
	__uint(key_size, 40);
	__uint(value_size, 16);
	__uint(max_entries, 1 << 20);
} katran_flows SEC(".maps");

/* Clients do not send in the order in which they came. In that order a table of flows lies in memory,
 * where a processor would fetch the next entry ahead. */
static __always_inline __u32 shuffled(__u32 count)
{
	__u64 order = count * 0x9e3779b97f4a7c15ULL;

	order = (order ^ order >> 32) * 0x9e3779b97f4a7c15ULL;
	return order >> 32;
}

SEC("xdp")
int wrapper(struct xdp_md *ctx)
{
	__u32 zero = 0, flow;
	struct work *todo = bpf_map_lookup_elem(&work, &zero);
	int grown = (int)(ctx->data_end - ctx->data) - FRAME;
	void *data;

	if (!todo || (grown && bpf_xdp_adjust_head(ctx, grown)))
		return XDP_ABORTED;
	data = (void *)(long)ctx->data;
	if (data + FRAME > (void *)(long)ctx->data_end)
		return XDP_ABORTED;
	flow = (todo->is_in_turn ? todo->count : shuffled(todo->count)) & todo->mask;
	todo->count++;
	__builtin_memcpy(data, todo->frame, FRAME);
	*(__u16 *)(data + SOURCE) = bpf_htons(flow >> PORT_BITS);
	*(__u16 *)(data + SOURCE_PORT) = bpf_htons(FIRST_PORT + (flow & ((1 << PORT_BITS) - 1)));
	bpf_tail_call(ctx, &target, 0);
	return XDP_ABORTED;
}

SEC("xdp")
int bounce(struct xdp_md *ctx)
{
	return XDP_TX;
}

SEC("xdp")
int grow(struct xdp_md *ctx)
{
	return bpf_xdp_adjust_head(ctx, -GROWN) ? XDP_ABORTED : XDP_TX;
}

char LICENSE[] SEC("license") = "GPL";
