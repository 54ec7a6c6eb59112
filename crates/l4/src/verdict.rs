//! How a packet can end: `bpf/verdict.h` in words.

/// What became of a packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Verdict {
    /// Not for a service of ours; to the kernel.
    PassOther,
    /// Taken out of its tunnel, for the host itself.
    PassDecapsulated,
    /// To a server by its link address.
    SendMac,
    /// To a server, from a return address.
    SendNat,
    /// A response of a server, to the client.
    SendNatReturn,
    /// To a server, in a tunnel.
    SendIpip,
    /// An ICMP error, to who sent the packet that it quotes.
    SendIcmp,
    /// Shorter than its link or IP header.
    DropTruncated,
    /// Lengths or versions that contradict each other.
    DropMalformed,
    /// A fragment, towards a service.
    DropFragment,
    /// IPv4 options or IPv6 extension headers, towards a service.
    DropOptions,
    /// No server is up for it.
    DropNoServer,
    /// All ports of all return addresses are in use towards its server.
    DropNatPorts,
    /// NAT, and nobody has seen the connection begin.
    DropNatUnknown,
    /// The NAT tables are full.
    DropNatFull,
    /// It may not be routed once more.
    DropTtl,
    /// It does not fit the network with the outer header.
    DropTooBig,
    /// The driver leaves no room in front of the packet.
    DropNoRoom,
}

impl Verdict {
    /// All, in the order of the program.
    pub const ALL: [Self; 18] = [
        Self::PassOther,
        Self::PassDecapsulated,
        Self::SendMac,
        Self::SendNat,
        Self::SendNatReturn,
        Self::SendIpip,
        Self::SendIcmp,
        Self::DropTruncated,
        Self::DropMalformed,
        Self::DropFragment,
        Self::DropOptions,
        Self::DropNoServer,
        Self::DropNatPorts,
        Self::DropNatUnknown,
        Self::DropNatFull,
        Self::DropTtl,
        Self::DropTooBig,
        Self::DropNoRoom,
    ];

    /// What it is called in reports and metrics.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::PassOther => "pass-other",
            Self::PassDecapsulated => "pass-decapsulated",
            Self::SendMac => "send-mac",
            Self::SendNat => "send-nat",
            Self::SendNatReturn => "send-nat-return",
            Self::SendIpip => "send-ipip",
            Self::SendIcmp => "send-icmp",
            Self::DropTruncated => "drop-truncated",
            Self::DropMalformed => "drop-malformed",
            Self::DropFragment => "drop-fragment",
            Self::DropOptions => "drop-options",
            Self::DropNoServer => "drop-no-server",
            Self::DropNatPorts => "drop-nat-ports",
            Self::DropNatUnknown => "drop-nat-unknown",
            Self::DropNatFull => "drop-nat-full",
            Self::DropTtl => "drop-ttl",
            Self::DropTooBig => "drop-too-big",
            Self::DropNoRoom => "drop-no-room",
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_program_has_the_same_verdicts_in_the_same_order() {
        let header = include_str!("../bpf/verdict.h");
        let (_, list) = header.split_once("enum verdict {").unwrap();
        let names: Vec<String> = list
            .lines()
            .map(str::trim)
            .filter(|line| line.ends_with(',') && !line.contains('='))
            .map(|line| line.trim_end_matches(',').replace('_', "-").to_lowercase())
            .filter(|name| name != "verdicts")
            .collect();
        assert_eq!(names, Verdict::ALL.map(Verdict::name));
        assert!(Verdict::ALL.iter().enumerate().all(|(at, verdict)| *verdict as usize == at));
    }
}
