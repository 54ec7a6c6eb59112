//! Facts as bytes.
//!
//! A record is a byte of kind and flags, the key, and the value where there is one. Numbers are
//! LEB128, ports two bytes, addresses four or sixteen. An entry of a ring is `current` doubled, and
//! one more where it is recorded; its base follows then.

use std::net::{IpAddr, SocketAddr};

use thiserror::Error;

use super::{Extent, Fact, Flow, Key, Nat, PARTS, Server, ServiceAddress, entries_of};
use crate::{
    ports::Port,
    ring::{Entry, RING_SIZE, SERVER_MAX},
};

/// What a record says of its key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Record {
    /// The key has this fact.
    Put(Fact),
    /// The key has no fact any more.
    Remove,
    /// This NAT connection has closed; all else about it stays.
    Close,
}

/// Bytes that are no record of ours.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum Malformed {
    /// It ends too early.
    #[error("a record ends too early")]
    Short,
    /// A kind or flag that does not exist.
    #[error("a record of an unknown kind: both sides must be of one version")]
    Kind,
    /// A number beyond what there can be.
    #[error("a number in a record is too large")]
    Number,
}

/// Appends a record. `None` says that there is nothing under this key any more.
pub fn write(to: &mut Vec<u8>, key: &Key, fact: Option<&Fact>, extent: Extent) {
    let start = to.len();
    to.push(kind(key, fact));
    let mut flags = write_key(to, key);
    match fact {
        None => flags |= REMOVED,
        Some(Fact::Nat(nat)) if extent == Extent::Closing && nat.is_closed => flags |= CLOSES,
        Some(fact) => flags |= write_fact(to, fact),
    }
    to[start] |= flags;
}

/// Reads the record at the front.
///
/// # Errors
/// It is none of ours.
pub fn read(from: &mut Reader<'_>) -> Result<(Key, Record), Malformed> {
    let head = from.byte()?;
    let kind = head & KIND;
    let is_v6 = head & V6 != 0;
    let key = read_key(from, kind, is_v6)?;
    let record = match head & (REMOVED | CLOSES) {
        0 => Record::Put(read_fact(from, &key, head)?),
        REMOVED => Record::Remove,
        CLOSES if kind == NAT => Record::Close,
        _ => return Err(Malformed::Kind),
    };
    Ok((key, record))
}

const fn kind(key: &Key, fact: Option<&Fact>) -> u8 {
    match key {
        Key::Server(_) => match fact {
            Some(Fact::Server(Server { service: Some(_), .. })) => SERVER_OF_SERVICE,
            _ => SERVER,
        },
        Key::Return(..) => RETURN,
        Key::ServiceAddress(_) => SERVICE_ADDRESS,
        Key::Entries { .. } => ENTRIES,
        Key::Flow { .. } => FLOW,
        Key::Nat { .. } => NAT,
    }
}

/// The flags that belong to it.
fn write_key(to: &mut Vec<u8>, key: &Key) -> u8 {
    match key {
        Key::Server(number) | Key::ServiceAddress(number) => number_to(to, (*number).into()),
        Key::Return(is_v6, number) => {
            to.push(*number);
            return if *is_v6 { V6 } else { 0 };
        }
        Key::Entries { service, part } => {
            number_to(to, (*service).into());
            number_to(to, (*part).into());
        }
        Key::Flow { service_address, client } => {
            number_to(to, (*service_address).into());
            return socket_to(to, client);
        }
        Key::Nat { server, port } => {
            number_to(to, (*server).into());
            number_to(to, port.address.into());
            to.extend(port.port.to_be_bytes());
        }
    }
    0
}

/// The flags that belong to it.
fn write_fact(to: &mut Vec<u8>, fact: &Fact) -> u8 {
    match fact {
        Fact::Server(Server { at, link, is_up, service }) => {
            let flag = socket_to(to, at);
            to.extend(link);
            to.push(u8::from(*is_up));
            if let Some(service) = service {
                number_to(to, (*service).into());
            }
            flag
        }
        Fact::Return(address) => address_to(to, *address),
        Fact::ServiceAddress(ServiceAddress { service, at, protocol }) => {
            let flag = socket_to(to, at);
            number_to(to, (*service).into());
            to.push(*protocol);
            flag
        }
        Fact::Entries(entries) => {
            entries.iter().for_each(|entry| entry_to(to, *entry));
            0
        }
        Fact::Flow(Flow { server, position }) => {
            number_to(to, (*server).into());
            number_to(to, *position);
            0
        }
        Fact::Nat(Nat { service_address, client, link, is_closed }) => {
            number_to(to, (*service_address).into());
            let flag = socket_to(to, client);
            to.extend(link);
            if *is_closed { flag | CLOSED } else { flag }
        }
    }
}

fn read_key(from: &mut Reader<'_>, kind: u8, is_v6: bool) -> Result<Key, Malformed> {
    Ok(match kind {
        SERVER | SERVER_OF_SERVICE => Key::Server(from.server()?),
        RETURN => Key::Return(is_v6, from.byte()?),
        SERVICE_ADDRESS => Key::ServiceAddress(from.short()?),
        ENTRIES => {
            let (service, part) = (from.short()?, from.below(PARTS.into())? as u16);
            Key::Entries { service, part }
        }
        FLOW => Key::Flow { service_address: from.short()?, client: from.socket(is_v6)? },
        NAT => {
            let (server, address) = (from.server()?, from.short()?);
            Key::Nat { server, port: Port { address, port: from.port()? } }
        }
        _ => return Err(Malformed::Kind),
    })
}

fn read_fact(from: &mut Reader<'_>, key: &Key, head: u8) -> Result<Fact, Malformed> {
    let (is_v6, is_closed) = (head & V6 != 0, head & CLOSED != 0);
    Ok(match key {
        Key::Server(_) => {
            let (at, link, is_up) = (from.socket(is_v6)?, from.take()?, from.byte()? != 0);
            let is_of_service = head & KIND == SERVER_OF_SERVICE;
            let service = is_of_service.then(|| from.short()).transpose()?;
            Fact::Server(Server { at, link, is_up, service })
        }
        Key::Return(..) => Fact::Return(from.address(is_v6)?),
        Key::ServiceAddress(_) => {
            let (at, service) = (from.socket(is_v6)?, from.short()?);
            Fact::ServiceAddress(ServiceAddress { service, at, protocol: from.byte()? })
        }
        Key::Entries { part, .. } => {
            let entries: Result<Box<[Entry]>, _> =
                (0..entries_of(*part)).map(|_| from.entry()).collect();
            Fact::Entries(entries?)
        }
        Key::Flow { .. } => {
            let (server, position) = (from.server()?, from.below(RING_SIZE as u32)?);
            Fact::Flow(Flow { server, position })
        }
        Key::Nat { .. } => {
            let (service_address, client) = (from.short()?, from.socket(is_v6)?);
            Fact::Nat(Nat { service_address, client, link: from.take()?, is_closed })
        }
    })
}

fn number_to(to: &mut Vec<u8>, mut number: u32) {
    while number >= 0x80 {
        to.push(number as u8 | 0x80);
        number >>= 7;
    }
    to.push(number as u8);
}

fn address_to(to: &mut Vec<u8>, address: IpAddr) -> u8 {
    match address {
        IpAddr::V4(ip) => {
            to.extend(ip.octets());
            0
        }
        IpAddr::V6(ip) => {
            to.extend(ip.octets());
            V6
        }
    }
}

fn socket_to(to: &mut Vec<u8>, at: &SocketAddr) -> u8 {
    let flag = address_to(to, at.ip());
    to.extend(at.port().to_be_bytes());
    flag
}

fn entry_to(to: &mut Vec<u8>, entry: Entry) {
    number_to(to, u32::from(entry.current()) << 1 | u32::from(entry.is_recorded()));
    if entry.is_recorded() {
        number_to(to, entry.base().into());
    }
}

/// What is left of the bytes that are being read.
#[derive(Clone, Debug)]
pub struct Reader<'a>(pub &'a [u8]);

impl Reader<'_> {
    /// So many bytes.
    pub(super) fn take<const N: usize>(&mut self) -> Result<[u8; N], Malformed> {
        let (bytes, rest) = self.0.split_first_chunk().ok_or(Malformed::Short)?;
        self.0 = rest;
        Ok(*bytes)
    }

    pub(super) fn byte(&mut self) -> Result<u8, Malformed> {
        self.take().map(u8::from_be_bytes)
    }

    fn port(&mut self) -> Result<u16, Malformed> {
        self.take().map(u16::from_be_bytes)
    }

    fn number(&mut self) -> Result<u32, Malformed> {
        let mut number = 0;
        for shift in [0, 7, 14, 21] {
            let byte = self.byte()?;
            number |= u32::from(byte & 0x7f) << shift;
            if byte & 0x80 == 0 {
                return Ok(number);
            }
        }
        Err(Malformed::Number)
    }

    fn below(&mut self, limit: u32) -> Result<u32, Malformed> {
        self.number().and_then(|number| if number < limit { Ok(number) } else { NUMBER })
    }

    fn short(&mut self) -> Result<u16, Malformed> {
        self.below(1 << 16).map(|number| number as u16)
    }

    fn server(&mut self) -> Result<u16, Malformed> {
        self.below(u32::from(SERVER_MAX) + 1).map(|number| number as u16)
    }

    fn address(&mut self, is_v6: bool) -> Result<IpAddr, Malformed> {
        if is_v6 { self.take::<16>().map(IpAddr::from) } else { self.take::<4>().map(IpAddr::from) }
    }

    fn socket(&mut self, is_v6: bool) -> Result<SocketAddr, Malformed> {
        Ok(SocketAddr::new(self.address(is_v6)?, self.port()?))
    }

    fn entry(&mut self) -> Result<Entry, Malformed> {
        let word = self.below((u32::from(SERVER_MAX) + 1) << 1)?;
        let current = (word >> 1) as u16;
        if word & 1 == 0 {
            return Ok(Entry::settled(current));
        }
        Ok(Entry::new(current, self.server()?, true))
    }
}

const NUMBER: Result<u32, Malformed> = Err(Malformed::Number);

// Kinds of keys.
const SERVER: u8 = 1;
const RETURN: u8 = 2;
const SERVICE_ADDRESS: u8 = 3;
const ENTRIES: u8 = 4;
const FLOW: u8 = 5;
const NAT: u8 = 6;
/// A server that is of one service alone.
const SERVER_OF_SERVICE: u8 = 7;
const KIND: u8 = 0x0f;

// Flags beside the kind.
/// The address of this record is of IPv6.
const V6: u8 = 0x10;
/// There is no value: the key is gone.
const REMOVED: u8 = 0x20;
/// There is no value: the NAT connection has closed.
const CLOSES: u8 = 0x40;
/// The NAT connection of the value has closed.
const CLOSED: u8 = 0x80;
