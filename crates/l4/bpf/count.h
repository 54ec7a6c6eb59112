/* SPDX-License-Identifier: Apache-2.0 OR GPL-2.0-only */
/* Ends a packet: counts its verdict and says to the kernel what to do with it. */
#pragma once

#include <linux/bpf.h>

#include <bpf/bpf_helpers.h>

#include "context.h"
#include "verdict.h"

static __always_inline int end(void *ctx, void *verdicts, __u32 verdict, __u32 bytes,
			       const int tc)
{
	struct count *count = bpf_map_lookup_elem(verdicts, &verdict);

	if (count) {
		count->packets++;
		count->bytes += bytes;
	}
	return act(ctx, verdict, tc);
}
