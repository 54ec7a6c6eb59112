/* SPDX-License-Identifier: Apache-2.0 OR GPL-2.0-only */
/* What is in the tables that user space fills and reads. src/layout.rs writes the same layouts. */
#pragma once

#include <linux/bpf.h>
#include <linux/types.h>

#include <bpf/bpf_endian.h>
#include <bpf/bpf_helpers.h>

enum method { METHOD_MAC = 1, METHOD_NAT = 2, METHOD_IPIP = 3 };

/* An IPv4 address is the first word, the others are zero. */
struct address {
	__be32 word[4];
};

/* Keys of tables are made of whole words, each written at once: the kernel hashes words, and reading
 * one that was just written in parts makes the processor wait. */

/* Where a service is, or zero where the key only says that the address is one of ours. */
#define PORT_PROTOCOL(port, protocol) ((__u32)(port) | (__u32)(protocol) << 16)

struct service_key4 {
	__be32 address;
	__u32 port_protocol;
};

struct service_key6 {
	struct address address;
	__u32 port_protocol;
};

struct service {
	__u32 number;
	__u8 method;
	__u8 half;   /* of the ring that is in force */
	__u8 sticky; /* a client stays with its server, not just a connection */
	__u8 quic;   /* connection ids of QUIC say the server */
};

/* The highest bit of a number, where words of an address may be of either family. */
#define IN_FAMILY(v6) ((__u32)(v6) << 31)

/* A service that a processor has just looked up. */
struct recent_service {
	struct address address;
	__u32 port_protocol; /* and family; zero where nothing has been remembered */
	__u32 generation;
	struct service service;
};

#define RECENT_SERVICES_BITS 6

struct server {
	__u8 mac[6]; /* of the next hop towards it */
	__u8 up;
	__u8 pad;
	__be16 port; /* zero: that of the service */
	__u8 pad2[6];
	struct address address;
};

/* The server of a service that gives out connection ids of QUIC with this number in them. */
#define QUIC_KEY(service, id) ((service) << 16 | (id))

/* As in the header of TCP and UDP. */
union ports {
	struct {
		__be16 source, destination;
	};
	__be32 both;
};

/* Of `both` as it lies in memory. */
#define PORT_DESTINATION bpf_htonl(0xffff)

/* From who sends to whom, as the packet has it. */
struct tuple {
	struct address source, destination;
	union ports ports;
	__u32 protocol;
};

/* The same for IPv4, where a key of 16 bytes is hashed faster than one of 40. */
struct tuple4 {
	__be32 source, destination;
	union ports ports;
	__u32 protocol;
};

/* When the last packet was seen, or up to TOUCH ticks before it. The tick is for the program, which
 * can read it without a call; the time for user space, which cannot read the tick. */
struct stamp {
	__u64 time; /* coarse monotonic clock, ns */
	__u32 tick; /* of the kernel, 100 to 1000 a second */
	__u32 pad;
};

/* Where a flow has gone that the ring alone does not tell. */
struct flow {
	__u16 server;
	__u16 service;
	__u32 position; /* in the ring of the service */
	struct stamp stamp;
};

/* How packets of one direction of a NAT connection are rewritten. */
struct change {
	struct address source, destination;
	union ports ports;
	__u8 mac[6];
	__u16 server;
};

/* One direction of a NAT connection. What a packet needs is in front. */
struct nat {
	struct change change;
	__u8 closing; /* CLOSED_* of this direction */
	__u8 pad;
	__u16 service;
	__u64 time; /* as of a stamp */
	__u32 tick;
	__u32 link; /* LINK_MARK of who sent the client's packets last; zero where not known */
	struct tuple peer; /* key of the other direction */
};

/* A link address in a word: another one is told from it but for one in 2^32. */
#define LINK_MARK(mac) (*(const __u32 *)(mac) ^ *(const __u16 *)((mac) + 4))

/* What a processor has just found in the tables of NAT. */
struct recent {
	struct tuple key;
	struct change change;
	__u32 verdict; /* which says the direction, and family; zero where there is none */
	__u32 tick;    /* of the entry */
	__u32 generation;
};

#define RECENT 1024 /* a power of two */

/* A NAT connection that is being opened: its entries, and the key by which answers find theirs. */
struct draft {
	struct nat forward, back;
	struct tuple key;
	__u32 replaces; /* whether the packet has an entry, whose place the new one takes */
};

enum event_kind { EVENT_FLOW = 1, EVENT_OPEN = 2, EVENT_CLOSED = 3 };

/* What has happened to a flow or a NAT connection; zero where the kind has no such thing. */
struct event {
	__u16 kind, v6;
	__u16 server, service;
	__u32 position;
	struct tuple tuple; /* of the client's packets */
	struct address lent;
	__be16 port;
	__u8 link[6]; /* towards the client */
};

#define CLOSED_FIN 1
#define CLOSED_RST 2

struct settings {
	__be32 tunnel4;         /* source of the outer header */
	struct address tunnel6;
	__u32 mtu;              /* of the network towards the servers, without the link header */
};

/* The free ports towards one server, a queue. Programs take from the head, user space alone gives
 * back to the tail. Both only ever grow. */
struct pool {
	__u32 head, tail;
	__u32 lost;  /* taken in vain, for user space to find */
	__u32 first; /* line */
	__u32 mask;  /* places are a power of two */
	__u32 pad;
};

/* ports::Port packs a place: which return address, and the port. */
#define PORT_ADDRESS(place) ((place) >> 16)
#define PORT_NUMBER(place) ((place) & 0xffff)

struct count {
	__u64 packets, bytes;
};

struct server_count {
	__u64 packets, bytes;
	__u64 opened; /* TCP SYN */
	__u64 closed; /* TCP FIN or RST of the client */
};

#define MAX_RETURNS 16
#define RING_SIZE 65537
#define LINE_WORDS 16
#define RING_LINES ((RING_SIZE + LINE_WORDS - 1) / LINE_WORDS)

/* A cache line of words. The kernel rounds the values of an array to 8 bytes; a word alone would
 * take twice its size. */
struct line {
	__u32 word[LINE_WORDS];
};

/* ring::Entry packs an entry of the ring. */
#define ENTRY_CURRENT(entry) ((entry) & 0x7fff)
#define ENTRY_BASE(entry) (((entry) >> 16) & 0x7fff)
#define ENTRY_RECORDED(entry) ((entry) >> 31)

#define TABLE(name, kind, key_type, value_type, entries, flags)                                    \
	struct {                                                                                   \
		__uint(type, BPF_MAP_TYPE_##kind);                                                 \
		__type(key, key_type);                                                             \
		__type(value, value_type);                                                         \
		__uint(max_entries, entries);                                                      \
		__uint(map_flags, flags);                                                          \
	} name SEC(".maps")
