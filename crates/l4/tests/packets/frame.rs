//! Frames from words, with checksums computed from scratch: the reference that the program's
//! incremental ones are held against.
//!
//! A frame is a list of layers, each a word with what it needs behind it; then `key=value` where it
//! is to differ from what is usual; at the end `cut` and the length to which the frame is cut.
//!
//! ```text
//! eth FROM TO         vlan TAG    qinq TAG
//! ip4 FROM TO         version= ihl= options=BYTES tos= len= id= df mf offset= ttl= proto=
//! ip6 FROM TO         version= class= label= len= hop= proto=
//! ext PROTOCOL        an IPv6 extension header; more=
//! tcp FROM TO FLAGS   doff=        udp FROM TO   len= unchecked
//! icmp4 TYPE CODE     mtu=         icmp6 TYPE CODE   mtu=
//! ports FROM TO       eight bytes of a transport header, as errors quote them
//! data BYTES          fill=WORD    hex BYTES    pad BYTES    behind the packet
//! ```

use std::{collections::BTreeMap, net::IpAddr};

type Bytes = Vec<u8>;

/// The frame that `text` describes. Panics where it is not understood: the test is wrong then.
pub(crate) fn frame(text: &str) -> Bytes {
    let (text, cut) = match text.split_once(" cut ") {
        Some((text, length)) => (text, Some(length.trim().parse().unwrap())),
        None => (text, None),
    };
    let mut layers: Vec<Layer> = Vec::new();
    for word in text.split_whitespace() {
        match (NAMES.contains(&word), word.split_once('=')) {
            (true, _) => layers.push(Layer::new(word)),
            (_, Some((key, value))) => {
                layers.last_mut().unwrap().keys.insert(key.to_owned(), value.to_owned());
            }
            _ => layers.last_mut().unwrap().words.push(word.to_owned()),
        }
    }
    let mut bytes = build(&layers, None);
    bytes.truncate(cut.unwrap_or(usize::MAX));
    bytes
}

const NAMES: [&str; 14] = [
    "eth", "vlan", "qinq", "ip4", "ip6", "ext", "tcp", "udp", "icmp4", "icmp6", "ports", "data",
    "hex", "pad",
];

struct Layer {
    name: String,
    words: Vec<String>,
    keys: BTreeMap<String, String>,
}

impl Layer {
    fn new(name: &str) -> Self {
        Self { name: name.to_owned(), words: Vec::new(), keys: BTreeMap::new() }
    }

    fn number(&self, at: usize) -> u64 {
        self.words[at].parse().unwrap_or_else(|_| panic!("{}: {:?}", self.name, self.words))
    }

    fn key(&self, key: &str, usual: u64) -> u64 {
        self.keys.get(key).map_or(usual, |value| value.parse().unwrap())
    }

    fn has(&self, word: &str) -> bool {
        self.words.iter().any(|other| other == word)
    }

    fn ip(&self, at: usize) -> IpAddr {
        ip(&self.words[at])
    }

    /// What the layer before calls it: an Ethernet type or an IP protocol.
    fn ethernet_type(&self) -> u16 {
        match self.name.as_str() {
            "vlan" => 0x8100,
            "qinq" => 0x88a8,
            "ip4" => 0x0800,
            "ip6" => 0x86dd,
            _ => 0x88b5,
        }
    }

    fn protocol(&self) -> u8 {
        match self.name.as_str() {
            "ip4" => 4,
            "ip6" => 41,
            "tcp" | "ports" => 6,
            "udp" => 17,
            "icmp4" => 1,
            "icmp6" => 58,
            "ext" => self.number(0) as u8,
            _ => 253,
        }
    }
}

/// The addresses that transport checksums cover.
type Pseudo = (IpAddr, IpAddr);

fn build(layers: &[Layer], pseudo: Option<Pseudo>) -> Bytes {
    let Some((layer, rest)) = layers.split_first() else { return Bytes::new() };
    let next_type = rest.first().map_or(0x88b5, Layer::ethernet_type).to_be_bytes();
    match layer.name.as_str() {
        "eth" => {
            let mut bytes = [mac(&layer.words[1]), mac(&layer.words[0])].concat();
            bytes.extend(next_type);
            bytes.extend(build(rest, None));
            bytes
        }
        "vlan" | "qinq" => {
            let mut bytes = (layer.number(0) as u16).to_be_bytes().to_vec();
            bytes.extend(next_type);
            bytes.extend(build(rest, None));
            bytes
        }
        "ip4" => ip4(layer, rest),
        "ip6" => ip6(layer, rest),
        "ext" => extension(layer, rest, pseudo),
        "tcp" => tcp(layer, &build(rest, None), pseudo),
        "udp" => udp(layer, &build(rest, None), pseudo),
        "icmp4" | "icmp6" => icmp(layer, &build(rest, None), pseudo),
        // The first eight bytes of a transport header, as errors quote them.
        "ports" => {
            let ports = [layer.number(0) as u16, layer.number(1) as u16];
            let mut bytes: Bytes = ports.into_iter().flat_map(u16::to_be_bytes).collect();
            bytes.extend([0x12, 0x34, 0x56, 0x78]);
            bytes
        }
        "data" => data(layer),
        "hex" => hex(&layer.words[0]),
        "pad" => vec![0; layer.number(0) as usize],
        other => panic!("no layer {other}"),
    }
}

fn data(layer: &Layer) -> Bytes {
    let mut bytes: Bytes = (0..layer.number(0)).map(|byte| byte as u8 ^ 0x5a).collect();
    if let Some(word) = layer.keys.get("fill") {
        bytes[..2].copy_from_slice(&word.parse::<u16>().unwrap().to_be_bytes());
    }
    bytes
}

fn hex(digits: &str) -> Bytes {
    let byte = |at: usize| u8::from_str_radix(&digits[at..at + 2], 16).unwrap();
    (0..digits.len()).step_by(2).map(byte).collect()
}

/// What belongs to the packet, and what pads the frame behind it.
fn split_padding(rest: &[Layer]) -> (&[Layer], Bytes) {
    match rest.split_last() {
        Some((last, rest)) if last.name == "pad" => (rest, vec![0; last.number(0) as usize]),
        _ => (rest, Bytes::new()),
    }
}

fn quoted_protocol(layer: &Layer, rest: &[Layer]) -> u8 {
    layer.key("proto", rest.first().map_or(253, Layer::protocol).into()) as u8
}

fn ip4(layer: &Layer, rest: &[Layer]) -> Bytes {
    let (IpAddr::V4(source), IpAddr::V4(to)) = (layer.ip(0), layer.ip(1)) else { panic!("family") };
    let (rest, padding) = split_padding(rest);
    let payload = build(rest, Some((source.into(), to.into())));
    let options = vec![1; layer.key("options", 0) as usize];
    let words = layer.key("ihl", 5 + options.len() as u64 / 4);
    let total = layer.key("len", (20 + options.len() + payload.len()) as u64);
    let flags = u16::from(layer.has("df")) << 14 | u16::from(layer.has("mf")) << 13;
    let mut header = vec![(layer.key("version", 4) << 4 | words) as u8, layer.key("tos", 0) as u8];
    header.extend((total as u16).to_be_bytes());
    header.extend((layer.key("id", 0) as u16).to_be_bytes());
    header.extend((flags | layer.key("offset", 0) as u16).to_be_bytes());
    header.extend([layer.key("ttl", 64) as u8, quoted_protocol(layer, rest), 0, 0]);
    header.extend(source.octets());
    header.extend(to.octets());
    header.extend(options);
    let check = checksum(&header);
    header[10..12].copy_from_slice(&check.to_be_bytes());
    [header, payload, padding].concat()
}

fn ip6(layer: &Layer, rest: &[Layer]) -> Bytes {
    let (IpAddr::V6(source), IpAddr::V6(to)) = (layer.ip(0), layer.ip(1)) else { panic!("family") };
    let (rest, padding) = split_padding(rest);
    let payload = build(rest, Some((source.into(), to.into())));
    let first = layer.key("version", 6) << 28 | layer.key("class", 0) << 20 | layer.key("label", 0);
    let mut header = (first as u32).to_be_bytes().to_vec();
    header.extend((layer.key("len", payload.len() as u64) as u16).to_be_bytes());
    header.extend([quoted_protocol(layer, rest), layer.key("hop", 64) as u8]);
    header.extend(source.octets());
    header.extend(to.octets());
    [header, payload, padding].concat()
}

/// An extension header of eight bytes; a fragment header has the same size.
fn extension(layer: &Layer, rest: &[Layer], pseudo: Option<Pseudo>) -> Bytes {
    let next = rest.first().map_or(59, Layer::protocol);
    let mut bytes = vec![next, 0, 0, layer.key("more", 0) as u8, 0, 0, 0, 9];
    bytes.extend(build(rest, pseudo));
    bytes
}

fn tcp(layer: &Layer, payload: &[u8], pseudo: Option<Pseudo>) -> Bytes {
    let flags = layer.words[2].chars().map(|flag| match flag {
        'F' => 1,
        'S' => 2,
        'R' => 4,
        'P' => 8,
        'A' => 16,
        other => panic!("no flag {other}"),
    });
    let mut segment: Bytes =
        [layer.number(0), layer.number(1)].iter().flat_map(|n| (*n as u16).to_be_bytes()).collect();
    segment.extend([0x11, 0x22, 0x33, 0x44, 0x55, 0x66, 0x77, 0x88]);
    segment.extend([(layer.key("doff", 5) << 4) as u8, flags.sum()]);
    segment.extend([0xfa, 0xf0, 0, 0, 0, 0]);
    segment.extend(payload);
    with_checksum(segment, 16, 6, pseudo)
}

fn udp(layer: &Layer, payload: &[u8], pseudo: Option<Pseudo>) -> Bytes {
    let length = layer.key("len", 8 + payload.len() as u64);
    let words = [layer.number(0), layer.number(1), length, 0];
    let mut datagram: Bytes = words.iter().flat_map(|n| (*n as u16).to_be_bytes()).collect();
    datagram.extend(payload);
    if layer.has("unchecked") {
        return datagram;
    }
    let mut datagram = with_checksum(datagram, 6, 17, pseudo);
    if datagram[6..8] == [0, 0] {
        datagram[6..8].fill(0xff);
    }
    datagram
}

fn icmp(layer: &Layer, payload: &[u8], pseudo: Option<Pseudo>) -> Bytes {
    let mut message = vec![layer.number(0) as u8, layer.number(1) as u8, 0, 0];
    message.extend((layer.key("mtu", 0) as u32).to_be_bytes());
    message.extend(payload);
    match layer.name.as_str() {
        "icmp4" => with_checksum(message, 2, 1, None),
        _ => with_checksum(message, 2, 58, pseudo),
    }
}

fn with_checksum(mut bytes: Bytes, at: usize, protocol: u8, pseudo: Option<Pseudo>) -> Bytes {
    let mut covered = match pseudo {
        Some((IpAddr::V4(from), IpAddr::V4(to))) => [from.octets(), to.octets()].concat(),
        Some((IpAddr::V6(from), IpAddr::V6(to))) => [from.octets(), to.octets()].concat(),
        _ => Bytes::new(),
    };
    if pseudo.is_some() {
        covered.extend([0, protocol]);
        covered.extend((bytes.len() as u16).to_be_bytes());
    }
    covered.extend(&bytes);
    bytes[at..at + 2].copy_from_slice(&checksum(&covered).to_be_bytes());
    bytes
}

/// RFC 1071, as plainly as it can be said.
pub(crate) fn checksum(bytes: &[u8]) -> u16 {
    let word = |two: &[u8]| u32::from(two[0]) << 8 | two.get(1).map_or(0, |low| u32::from(*low));
    let mut sum: u32 = bytes.chunks(2).map(word).sum();
    while sum > 0xffff {
        sum = (sum >> 16) + (sum & 0xffff);
    }
    !(sum as u16)
}

/// `L` is the balancer, `C` the client, `S1` to `S3` the servers, `*` everybody.
pub(crate) fn mac(name: &str) -> [u8; 6] {
    match name {
        "*" => [0xff; 6],
        "L" => [2, 0, 0, 0, 0, 1],
        "C" => [2, 0, 0, 0, 0, 2],
        server => [2, 0, 0, 0, 1, server[1..].parse().unwrap()],
    }
}

/// An address by its name, whose last letter is the family, or as it is written.
pub(crate) fn ip(name: &str) -> IpAddr {
    let (net, host): (u16, u16) = match name.trim_end_matches(['4', '6']) {
        "mac" => (0, 1),
        "nat" => (0, 2),
        "ipip" => (0, 3),
        "empty" => (0, 4),
        "down" => (0, 5),
        "own" => (0, 8),
        "return" => (0, 9),
        "other" => (0, 77),
        "one" => (1, 1),
        "two" => (1, 2),
        "three" => (1, 3),
        "router" => (2, 254),
        "client" => (3, 7),
        _ => return name.parse().unwrap_or_else(|_| panic!("no address: {name}")),
    };
    match name.ends_with('6') {
        true => IpAddr::from([0xfd00, 0, 0, net, 0, 0, 0, host]),
        false => IpAddr::from([10, 0, net as u8, host as u8]),
    }
}
