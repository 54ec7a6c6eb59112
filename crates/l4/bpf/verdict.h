/* SPDX-License-Identifier: Apache-2.0 OR GPL-2.0-only */
/* Every packet ends in exactly one of these, which is counted. The order says what becomes of it:
 * up to PASS_LAST the kernel goes on with it as if we were not there, up to SEND_LAST it leaves by
 * the interface it came by, after that it is dropped. src/verdict.rs repeats the names in words; a
 * test holds the two together. */
#pragma once

enum verdict {
	/* Not for a service of ours. */
	PASS_OTHER,
	/* Decapsulation: the packet from inside the tunnel, for the host itself. */
	PASS_DECAPSULATED,
	PASS_LAST = PASS_DECAPSULATED,

	SEND_MAC,
	SEND_NAT,
	SEND_NAT_RETURN,
	SEND_IPIP,
	/* An ICMP error, to who sent the packet that it quotes. */
	SEND_ICMP,
	SEND_LAST = SEND_ICMP,

	/* Shorter than its link or IP header. */
	DROP_TRUNCATED,
	/* Lengths or versions that contradict each other. */
	DROP_MALFORMED,
	/* Only the first fragment has ports, so none is forwarded: the rest would go astray. */
	DROP_FRAGMENT,
	/* IPv4 options, or IPv6 extension headers. */
	DROP_OPTIONS,
	/* Neither the ring nor the flow names a server that is up. */
	DROP_NO_SERVER,
	/* All ports of all return addresses are in use towards this server. */
	DROP_NAT_PORTS,
	/* NAT, and nobody has seen the connection begin. */
	DROP_NAT_UNKNOWN,
	/* The NAT tables are full. */
	DROP_NAT_FULL,
	/* It may not be routed once more. */
	DROP_TTL,
	/* It does not fit the network with the outer header. */
	DROP_TOO_BIG,
	/* The driver leaves no room in front of the packet. */
	DROP_NO_ROOM,
	VERDICTS,
};
