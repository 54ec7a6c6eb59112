//! Katran's balancer, from an object file that the user has built, forwarding the same packets.

use std::{env, fs, net::Ipv4Addr};

use aya::{
    Ebpf, EbpfLoader,
    maps::{Array, ArrayOfMaps, HashMap, Map, MapFd},
    programs::Xdp,
};
use loadline_l4::ring::RING_SIZE;

use crate::{Result, SERVERS, Wrapper};

/// The balancer with the service of `frame`, its servers in turns around the ring; none where the
/// user named no object file.
pub(crate) fn load(wrapper: &mut Wrapper, service: Ipv4Addr) -> Result<Option<Ebpf>> {
    let Some(path) = env::var_os("KATRAN_OBJECT") else { return Ok(None) };
    let mut loader = EbpfLoader::new();
    // Its tables of servers by number, of which none is used here, take 128 MB otherwise.
    let mut loaded = loader.map_max_entries("server_id_map", 1).load(&fs::read(&path)?)?;
    let program: &mut Xdp = loaded.program_mut(PROGRAM).ok_or("no balancer_ingress")?.try_into()?;
    program.load()?;
    fill(&mut loaded, service)?;
    let (Map::LruHashMap(flows) | Map::HashMap(flows)) = wrapper.take_flows()? else {
        return Err("the table of flows is of another kind".into());
    };
    let mut by_core: ArrayOfMaps<_, MapFd> = map(&mut loaded, "lru_mapping")?;
    for core in 0..by_core.len() {
        by_core.set(core, flows.fd(), 0)?;
    }
    Ok(Some(loaded))
}

/// What its program is called.
pub(crate) const PROGRAM: &str = "balancer_ingress";

fn fill(loaded: &mut Ebpf, service: Ipv4Addr) -> Result<()> {
    let mut key = [0_u8; 20];
    key[..4].copy_from_slice(&service.octets());
    key[16..18].copy_from_slice(&80_u16.to_be_bytes());
    key[18] = 6;
    let mut services: HashMap<_, [u8; 20], [u32; 2]> = map(loaded, "vip_map")?;
    services.insert(key, [0, 0], 0)?;
    let mut link: Array<_, [u8; 8]> = map(loaded, "ctl_array")?;
    link.set(0, [2, 0, 0, 0, 1, 1, 0, 0], 0)?;
    let mut servers: Array<_, [u8; 20]> = map(loaded, "reals")?;
    for number in 1..=SERVERS {
        let mut server = [0; 20];
        server[..4].copy_from_slice(&[10, 0, 1, number as u8]);
        servers.set(number.into(), server, 0)?;
    }
    let mut ring: Array<_, u32> = map(loaded, "ch_rings")?;
    for entry in 0..RING_SIZE as u32 {
        ring.set(entry, 1 + entry % u32::from(SERVERS), 0)?;
    }
    Ok(())
}

fn map<'a, T>(loaded: &'a mut Ebpf, name: &str) -> Result<T>
where
    T: TryFrom<&'a mut Map, Error = aya::maps::MapError>,
{
    let map = loaded.map_mut(name).ok_or_else(|| format!("no table {name}"))?;
    Ok(T::try_from(map)?)
}
