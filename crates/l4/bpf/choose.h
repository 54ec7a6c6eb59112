/* SPDX-License-Identifier: Apache-2.0 OR GPL-2.0-only */
/* Which server a flow belongs to, so that no flow moves while servers come and go.
 *
 * An entry of the ring names two servers. New connections go to the current one. A flow that is not
 * in the flow table is on the base one. While both are the same and nothing has changed the table
 * is neither read nor written, which is nearly always. While an entry is `recorded` every flow of
 * it is written down as soon as it is seen. How user space sets entries so that this stays true is
 * proved on a model in src/ring.rs. */
#pragma once

#include "events.h"
#include "parse.h"

/* Multiplied and folded, with the golden ratio of 2^64 (Knuth, volume 3, 6.4): every edge must give
 * a flow the same place. */
#define GOLDEN_RATIO 0x9e3779b97f4a7c15ULL
#define HASH_START 0xdeadbeef

static __always_inline __u64 mix(__u64 hash, __u32 low, __u32 high)
{
	hash = (hash ^ (low | (__u64)high << 32)) * GOLDEN_RATIO;
	return hash ^ hash >> 32;
}

/* Of a client alone its place is the same at every port of the service. */
static __always_inline __u32 hash_client(const struct tuple *tuple, __u8 alone, const int v6)
{
	const __be32 *source = tuple->source.word;
	const __u32 ports = alone ? 0 : tuple->ports.both;
	const __u32 protocol = alone ? 0 : tuple->protocol;
	__u64 hash = HASH_START + protocol;

	if (v6)
		hash = mix(mix(hash, source[1], source[2]), source[3], 0);
	return mix(hash, source[0], ports) * GOLDEN_RATIO >> 32;
}

static __always_inline __u32 position_of(__u32 hash)
{
	return (__u64)hash * RING_SIZE >> 32;
}

/* What was chosen. */
struct choice {
	struct server *server; /* NULL where it is not up */
	__u32 number;
	__u32 position;
};

/* The entry of the packet's flow, and its position. Zero where there is no ring. */
static __always_inline __u32 find_entry(const struct packet *packet,
					const struct service *service, struct choice *choice,
					const int v6)
{
	__u32 position = position_of(hash_client(&packet->tuple, service->sticky, v6));
	__u32 at = (service->number * 2 + service->half) * RING_LINES + position / LINE_WORDS;
	struct line *line = bpf_map_lookup_elem(&ring, &at);

	choice->position = position;
	return line ? line->word[position % LINE_WORDS] : 0;
}

static __always_inline void take(struct choice *choice, __u32 number)
{
	struct server *server = bpf_map_lookup_elem(&servers, &number);

	choice->number = number;
	choice->server = server && server->up ? server : NULL;
}

static __always_inline void record(const struct packet *packet, const struct service *service,
				   const struct choice *choice, const int v6)
{
	struct flow flow = {
		.server = choice->number,
		.service = service->number,
		.position = choice->position,
		.stamp = new_stamp(),
	};

	put_flows(&packet->tuple, &flow, BPF_ANY, v6);
	tell_flow(&packet->tuple, &flow, v6);
}

/* While the entry may have flows on several servers. */
static __always_inline void choose_recorded(const struct packet *packet,
					    const struct service *service, __u32 entry, int opens,
					    struct choice *choice, const int v6)
{
	struct flow *flow = find_flows(&packet->tuple, v6);

	if (flow) {
		take(choice, flow->server);
		if (choice->server) {
			if (is_old(flow->stamp.tick))
				flow->stamp = new_stamp();
			return;
		}
	} else if (!opens) {
		take(choice, ENTRY_BASE(entry));
	}
	/* Its server is gone, and the connection with it; or it begins. */
	if (!choice->server)
		take(choice, ENTRY_CURRENT(entry));
	if (choice->server)
		record(packet, service, choice, v6);
}

/* Of the connection id of QUIC that our edges give out, in a packet of an established connection
 * (RFC 9000, 17.3): a first byte without the highest bit, then the id of eight bytes, of which the
 * last two are the number of the edge (proxy/src/http3/steering.rs). */
#define QUIC_LONG_HEADER 0x80
#define QUIC_SERVER_ID 7

/* Another choice where the packet itself says whose it is: the client's address has changed. */
static __always_inline void take_by_id(const struct packet *packet, const struct service *service,
				       struct choice *choice)
{
	const __u8 *data = packet->transport + sizeof(struct udphdr);
	struct choice said = *choice;
	__u32 key, *number;

	if (!service->quic || !packet->datagram ||
	    (void *)(data + QUIC_SERVER_ID + 2) > packet->link.end || data[0] & QUIC_LONG_HEADER)
		return;
	key = QUIC_KEY(service->number, (__u32)data[QUIC_SERVER_ID] << 8 | data[QUIC_SERVER_ID + 1]);
	number = bpf_map_lookup_elem(&quic_servers, &key);
	if (!number)
		return;
	take(&said, *number);
	if (said.server)
		*choice = said;
}

/* With affinity the flow is all that the client sends to this port of the service. Which packet
 * opens it cannot be told then: another connection may be there already. */
static __always_inline void choose_by_ring(struct packet *packet, const struct service *service,
					   struct choice *choice, const int v6)
{
	const union ports ports = packet->tuple.ports;
	__u32 entry = find_entry(packet, service, choice, v6);

	if (!ENTRY_RECORDED(entry)) {
		take(choice, ENTRY_CURRENT(entry));
		return;
	}
	if (service->sticky)
		packet->tuple.ports.both &= PORT_DESTINATION;
	choose_recorded(packet, service, entry, packet->opens && !service->sticky, choice, v6);
	packet->tuple.ports = ports;
}

static __always_inline void choose(struct packet *packet, const struct service *service,
				   struct choice *choice, const int v6)
{
	choose_by_ring(packet, service, choice, v6);
	take_by_id(packet, service, choice);
}

static __always_inline void count_server(const struct packet *packet, __u32 number)
{
	struct server_count *count = bpf_map_lookup_elem(&server_counts, &number);

	if (!count)
		return;
	count->packets++;
	count->bytes += packet->length;
	if (packet->opens)
		count->opened++;
	if (packet->closing)
		count->closed++;
}

/* Counts what leaves for a server; its verdict. */
static __always_inline int count_sent(const struct packet *packet, __u32 number, int verdict)
{
	if (verdict <= SEND_LAST)
		count_server(packet, number);
	return verdict;
}
