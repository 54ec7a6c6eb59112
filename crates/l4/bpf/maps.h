/* SPDX-License-Identifier: Apache-2.0 OR GPL-2.0-only */
/* The tables. A size of 1 stands for one that the loader sets. */
#pragma once

#include "types.h"
#include "verdict.h"

TABLE(services4, HASH, struct service_key4, struct service, 1, 0);
TABLE(services6, HASH, struct service_key6, struct service, 1, 0);
TABLE(ring, ARRAY, __u32, struct line, 1, BPF_F_MMAPABLE);
TABLE(servers, ARRAY, __u32, struct server, 1, 0);
TABLE(quic_servers, HASH, __u32, __u32, 1, BPF_F_NO_PREALLOC); /* QUIC_KEY, number of the server */
TABLE(server_counts, PERCPU_ARRAY, __u32, struct server_count, 1, 0);
TABLE(flows4, LRU_HASH, struct tuple4, struct flow, 1, BPF_F_NO_COMMON_LRU);
TABLE(flows6, LRU_HASH, struct tuple, struct flow, 1, BPF_F_NO_COMMON_LRU);
/* Plain hashes: a live NAT connection is never evicted. */
TABLE(nat_forward4, HASH, struct tuple4, struct nat, 1, 0);
TABLE(nat_forward6, HASH, struct tuple, struct nat, 1, 0);
TABLE(nat_return4, HASH, struct tuple4, struct nat, 1, 0);
TABLE(nat_return6, HASH, struct tuple, struct nat, 1, 0);
/* A look into a hash is four calls within the kernel, one into an array none. */
TABLE(recent_nat, PERCPU_ARRAY, __u32, struct recent, RECENT, 0);
TABLE(recent_services, PERCPU_ARRAY, __u32, struct recent_service, 1 << RECENT_SERVICES_BITS, 0);
/* Another whenever a service or a server is changed, or an entry of NAT is gone or replaced. */
TABLE(generation, ARRAY, __u32, __u32, 1, BPF_F_MMAPABLE);
TABLE(pools, ARRAY, __u32, struct pool, 1, BPF_F_MMAPABLE); /* by number of the server */
TABLE(free_ports, ARRAY, __u32, struct line, 1, BPF_F_MMAPABLE);
TABLE(returns, ARRAY, __u32, struct address, 2 * MAX_RETURNS, 0); /* IPv4 first, then IPv6 */
TABLE(settings, ARRAY, __u32, struct settings, 1, 0);
/* Room to build the two entries of a NAT connection, for which the stack is too small. */
TABLE(drafts, PERCPU_ARRAY, __u32, struct draft, 1, 0);
struct {
	__uint(type, BPF_MAP_TYPE_RINGBUF);
	__uint(max_entries, 1);
} events SEC(".maps");
/* No program looks here: user space waits for those that run by replacing the map within. */
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY_OF_MAPS);
	__uint(max_entries, 1);
	__type(key, __u32);
	__array(values, struct {
		__uint(type, BPF_MAP_TYPE_ARRAY);
		__uint(max_entries, 1);
		__type(key, __u32);
		__type(value, __u32);
	});
} replaced SEC(".maps");
TABLE(missed_events, ARRAY, __u32, __u64, 1, 0);
TABLE(verdicts, PERCPU_ARRAY, __u32, struct count, VERDICTS, 0);
