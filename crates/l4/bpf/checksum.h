/* SPDX-License-Identifier: Apache-2.0 OR GPL-2.0-only */
/* Internet checksums, brought up to date by what changed (RFC 1624, equation 3):
 * new = ~(~old + ~before + after). A wrong checksum stays wrong by the same amount, for the
 * receiver to see. */
#pragma once

#include "types.h"

/* A sum of differences, 16-bit words in network order, not yet folded. */
typedef __u64 difference;

/* Of at most 2^16 words of 32 bits, so that the upper half is small. */
static __always_inline __u16 fold(__u64 sum)
{
	sum = (sum >> 32) + (sum & 0xffffffff);
	sum = (sum >> 16) + (sum & 0xffff);
	sum = (sum >> 16) + (sum & 0xffff);
	sum = (sum >> 16) + (sum & 0xffff);
	return sum;
}

static __always_inline difference changed16(__be16 before, __be16 after)
{
	return (__u64)(__u16)~before + after;
}

static __always_inline difference changed32(__be32 before, __be32 after)
{
	return (__u64)(__u32)~before + after;
}

static __always_inline __u16 updated(__u16 check, difference by)
{
	return ~fold((__u64)(__u16)~check + by);
}
