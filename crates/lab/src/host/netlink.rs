//! Orders to the kernel about interfaces, addresses and routes of one network namespace.

use std::{
    io,
    net::IpAddr,
    os::fd::{AsRawFd, BorrowedFd},
};

use loadline_linux::netlink::{self, Request, bits, family, route_address};
use netlink_packet_core::{
    DecodeError, NLM_F_CREATE, NLM_F_EXCL, NLM_F_REPLACE, NlasIterator, Parseable,
};
use netlink_packet_route::{
    address::{AddressAttribute, AddressHeaderFlags, AddressMessage},
    link::{InfoData, InfoKind, InfoVeth, LinkAttribute, LinkFlags, LinkInfo, LinkMessage},
    route::{
        RouteAttribute, RouteHeader, RouteMessage, RouteMetric, RouteProtocol, RouteScope,
        RouteType,
    },
};

use crate::topology::InterfaceAddress;

/// A conversation with the kernel.
pub(super) struct Netlink(netlink::Netlink);

/// An interface as the kernel tells of it.
pub(super) struct Link {
    pub(super) index: u32,
    pub(super) address: Option<[u8; 6]>,
}

impl Netlink {
    /// About the network namespace that the calling thread is in now.
    pub(super) fn new() -> io::Result<Self> {
        netlink::Netlink::open().map(Self)
    }

    /// The interface of that name.
    pub(super) fn link(&mut self, name: &str) -> io::Result<Link> {
        let mut message = LinkMessage::default();
        message.attributes.push(LinkAttribute::IfName(name.to_owned()));
        self.0.ask(Request::GetLink, &message)?.ok_or_else(|| io::ErrorKind::NotFound.into())
    }

    /// Makes a pair of virtual Ethernet interfaces, `inner` here and `outer` in the network
    /// namespace behind `there`.
    pub(super) fn add_pair(
        &mut self,
        inner: &str,
        outer: &str,
        there: BorrowedFd<'_>,
    ) -> io::Result<()> {
        let one_queue = [LinkAttribute::NumTxQueues(1), LinkAttribute::NumRxQueues(1)];
        let mut peer = LinkMessage::default();
        peer.attributes.push(LinkAttribute::IfName(outer.to_owned()));
        peer.attributes.push(LinkAttribute::NetNsFd(there.as_raw_fd()));
        peer.attributes.extend(one_queue.clone());
        let kind = LinkInfo::Kind(InfoKind::Veth);
        let data = LinkInfo::Data(InfoData::Veth(InfoVeth::Peer(peer)));
        let mut message = LinkMessage::default();
        message.attributes.push(LinkAttribute::IfName(inner.to_owned()));
        message.attributes.extend(one_queue);
        message.attributes.push(LinkAttribute::LinkInfo(vec![kind, data]));
        self.0.tell(Request::NewLink, &message, NLM_F_CREATE | NLM_F_EXCL)
    }

    /// Brings an interface up; without address resolution where it has settings, as towards the
    /// router.
    pub(super) fn bring_up(&mut self, index: u32, settings: &[LinkAttribute]) -> io::Result<()> {
        let mut message = LinkMessage::default();
        message.header.index = index;
        message.header.flags = LinkFlags::Up;
        message.header.change_mask = LinkFlags::Up;
        if !settings.is_empty() {
            message.header.flags |= LinkFlags::Noarp;
            message.header.change_mask |= LinkFlags::Noarp;
        }
        message.attributes.extend_from_slice(settings);
        self.0.tell(Request::SetLink, &message, 0)
    }

    /// Makes a switch: a bridge that learns which address is behind which of its ports.
    pub(super) fn add_bridge(&mut self, name: &str) -> io::Result<u32> {
        let mut message = LinkMessage::default();
        message.attributes.push(LinkAttribute::IfName(name.to_owned()));
        let kind = LinkInfo::Kind(InfoKind::Bridge);
        message.attributes.push(LinkAttribute::LinkInfo(vec![kind]));
        self.0.tell(Request::NewLink, &message, NLM_F_CREATE | NLM_F_EXCL)?;
        Ok(self.link(name)?.index)
    }

    /// Makes an interface a port of a bridge, and brings it up.
    pub(super) fn add_port(&mut self, index: u32, bridge: u32) -> io::Result<()> {
        self.bring_up(index, &[])?;
        let mut message = LinkMessage::default();
        message.header.index = index;
        message.attributes.push(LinkAttribute::Controller(bridge));
        self.0.tell(Request::SetLink, &message, 0)
    }

    /// Gives an interface an address, and a route to the network around it.
    pub(super) fn add_address(
        &mut self,
        index: u32,
        InterfaceAddress { address, prefix }: InterfaceAddress,
    ) -> io::Result<()> {
        let mut message = AddressMessage::default();
        message.header.index = index;
        message.header.family = family(address);
        message.header.prefix_len = prefix;
        if address.is_ipv6() {
            // Nobody else in the lab has it.
            message.header.flags = AddressHeaderFlags::Nodad;
        }
        message.attributes.push(AddressAttribute::Local(address));
        message.attributes.push(AddressAttribute::Address(address));
        self.0.tell(Request::NewAddress, &message, NLM_F_CREATE | NLM_F_EXCL)
    }

    /// Sets the route to `to`, or to everywhere, through an interface, in the place of one to the
    /// same destination. Packets to there bear `from` where they are free to choose.
    pub(super) fn set_route(
        &mut self,
        index: u32,
        from: IpAddr,
        to: Option<IpAddr>,
        metrics: Vec<RouteMetric>,
    ) -> io::Result<()> {
        let mut message = RouteMessage::default();
        message.header.address_family = family(from);
        message.header.table = RouteHeader::RT_TABLE_MAIN;
        message.header.protocol = RouteProtocol::Static;
        message.header.scope = if from.is_ipv4() { RouteScope::Link } else { RouteScope::Universe };
        message.header.kind = RouteType::Unicast;
        if let Some(to) = to {
            message.header.destination_prefix_length = bits(to);
            message.attributes.push(RouteAttribute::Destination(route_address(to)));
        }
        message.attributes.push(RouteAttribute::Oif(index));
        message.attributes.push(RouteAttribute::PrefSource(route_address(from)));
        if !metrics.is_empty() {
            message.attributes.push(RouteAttribute::Metrics(metrics));
        }
        self.0.tell(Request::NewRoute, &message, NLM_F_CREATE | NLM_F_REPLACE)
    }
}

/// From `struct ifinfomsg` and the attributes behind it: the library reads all that there are.
impl Parseable<[u8]> for Link {
    fn parse(message: &[u8]) -> Result<Self, DecodeError> {
        let index = message.get(4..8).and_then(|bytes| bytes.try_into().ok());
        let index = index.ok_or("an interface without an index")?;
        let mut attributes = NlasIterator::new(message.get(HEADER_LENGTH..).unwrap_or_default());
        let address = attributes.find_map(|attribute| {
            let attribute = attribute.ok().filter(|it| it.kind() == IFLA_ADDRESS)?;
            attribute.value().try_into().ok()
        });
        Ok(Self { index: u32::from_ne_bytes(index), address })
    }
}

/// Of `struct ifinfomsg`.
const HEADER_LENGTH: usize = 16;

/// The link address among the attributes of an interface.
const IFLA_ADDRESS: u16 = 1;
