//! The calls to the kernel for which no library has a safe function: two kinds of port, the
//! checksums of an interface and the scheduling of a thread.
#![expect(unsafe_code, reason = "no safe wrapper offers these calls")]

use std::{
    io,
    os::fd::{AsRawFd, BorrowedFd, OwnedFd},
};

use socket2::{Domain, Protocol, Socket, Type};

/// How the kernel lets a thread run when it has something to do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Scheduling {
    /// Before every ordinary thread (`SCHED_FIFO`); takes root of the whole machine.
    First,
    /// Among the ordinary threads, with short turns and so with short waits for one.
    ShortTurns,
    /// As any other thread.
    Ordinary,
}

/// Makes the descriptor of `/dev/net/tun` a new interface `name` of the thread's network
/// namespace, which hands out whole IP packets, each behind a virtio header, TCP uncut.
///
/// # Errors
/// The kernel's.
pub(super) fn attach_tun(device: BorrowedFd<'_>, name: &[libc::c_char]) -> io::Result<()> {
    // SAFETY: all zeros are a valid `ifreq`, a C structure of integers.
    let mut request: libc::ifreq = unsafe { std::mem::zeroed() };
    let room = request.ifr_name.len() - 1;
    if name.len() > room {
        return Err(io::ErrorKind::InvalidInput.into());
    }
    request.ifr_name[..name.len()].copy_from_slice(name);
    let flags = libc::IFF_TUN | libc::IFF_NO_PI | libc::IFF_VNET_HDR;
    request.ifr_ifru.ifru_flags = flags as libc::c_short;
    // SAFETY: the kernel reads and writes an `ifreq` there, which outlives the call.
    check(unsafe { libc::ioctl(device.as_raw_fd(), libc::TUNSETIFF, &raw mut request) })?;
    let header = super::port::HEADER as libc::c_int;
    // SAFETY: the kernel reads an `int` there, which outlives the call.
    check(unsafe { libc::ioctl(device.as_raw_fd(), libc::TUNSETVNETHDRSZ, &raw const header) })?;
    let offload = libc::TUN_F_CSUM | libc::TUN_F_TSO4 | libc::TUN_F_TSO6;
    let offload = libc::c_ulong::from(offload);
    // SAFETY: this argument is a number, not a pointer.
    check(unsafe { libc::ioctl(device.as_raw_fd(), libc::TUNSETOFFLOAD, offload) })
}

/// A socket that receives and sends whole Ethernet frames of the interface with that index, each
/// behind a virtio header, TCP uncut.
///
/// # Errors
/// The kernel's.
pub(super) fn packet_socket(interface: u32) -> io::Result<OwnedFd> {
    let kind = Type::RAW.nonblocking().cloexec();
    // Protocol 0: nothing is received before the socket is bound to its interface.
    let socket = Socket::new(Domain::PACKET, kind, Some(Protocol::from(0)))?;
    set(&socket, libc::SOL_PACKET, libc::PACKET_VNET_HDR, 1)?;
    set(&socket, libc::SOL_PACKET, libc::PACKET_IGNORE_OUTGOING, 1)?;
    set(&socket, libc::SOL_PACKET, libc::PACKET_QDISC_BYPASS, 1)?;
    for (force, ordinary, size) in [
        (libc::SO_RCVBUFFORCE, libc::SO_RCVBUF, RECEIVE_BUFFER),
        (libc::SO_SNDBUFFORCE, libc::SO_SNDBUF, SEND_BUFFER),
    ] {
        // Without root of the whole machine the limit of all sockets holds.
        set(&socket, libc::SOL_SOCKET, force, size)
            .or_else(|_| set(&socket, libc::SOL_SOCKET, ordinary, size))?;
    }
    // SAFETY: all zeros are a valid `sockaddr_ll`, a C structure of integers.
    let mut address: libc::sockaddr_ll = unsafe { std::mem::zeroed() };
    address.sll_family = libc::AF_PACKET as u16;
    address.sll_protocol = (libc::ETH_P_ALL as u16).to_be();
    address.sll_ifindex = interface as libc::c_int;
    let length = size_of_val(&address) as libc::socklen_t;
    // SAFETY: the pointer and the length are those of `address`, which outlives the call.
    check(unsafe { libc::bind(socket.as_raw_fd(), (&raw const address).cast(), length) })?;
    Ok(socket.into())
}

/// Has an interface of the thread's network namespace send packets with their checksums worked out,
/// as they are on a wire, and so uncut TCP no more.
///
/// # Errors
/// The kernel's.
pub(crate) fn send_with_checksums(name: &str) -> io::Result<()> {
    #[repr(C)]
    struct Feature {
        command: u32,
        on: u32,
    }
    let mut feature = Feature { command: SET_SENDING_CHECKSUMS, on: 0 };
    // SAFETY: all zeros are a valid `ifreq`, a C structure of integers.
    let mut request: libc::ifreq = unsafe { std::mem::zeroed() };
    let letters = request.ifr_name.iter_mut().zip(name.bytes());
    letters.for_each(|(to, letter)| *to = letter as libc::c_char);
    request.ifr_ifru.ifru_data = (&raw mut feature).cast();
    let any = Socket::new(Domain::IPV4, Type::DGRAM, None)?;
    // SAFETY: the kernel reads an `ifreq` and the `Feature` it points to, which outlive the call.
    check(unsafe {
        libc::ioctl(any.as_raw_fd(), libc::SIOCETHTOOL as libc::Ioctl, &raw mut request)
    })
}

/// Has the calling thread run as soon as it has something to do, as far as the kernel grants it.
pub(super) fn run_promptly() -> Scheduling {
    // SAFETY: all zeros are a valid `sched_param`, a C structure of integers, of more in some libc.
    let mut priority: libc::sched_param = unsafe { std::mem::zeroed() };
    priority.sched_priority = PRIORITY;
    // SAFETY: the kernel reads a `sched_param` there, which outlives the call; 0 is this thread.
    if unsafe { libc::sched_setscheduler(0, libc::SCHED_FIFO, &raw const priority) } == 0 {
        return Scheduling::First;
    }
    // SAFETY: all zeros are a valid `sched_attr`, a C structure of integers.
    let mut turns: libc::sched_attr = unsafe { std::mem::zeroed() };
    turns.size = size_of_val(&turns) as u32;
    turns.sched_runtime = TURN_NANOS;
    let (this_thread, no_flags): (libc::pid_t, libc::c_uint) = (0, 0);
    // SAFETY: the kernel reads a `sched_attr` of the size told in it, which outlives the call.
    let done =
        unsafe { libc::syscall(libc::SYS_sched_setattr, this_thread, &raw const turns, no_flags) };
    if done == 0 { Scheduling::ShortTurns } else { Scheduling::Ordinary }
}

fn set(
    socket: &Socket,
    level: libc::c_int,
    name: libc::c_int,
    value: libc::c_int,
) -> io::Result<()> {
    let length = size_of_val(&value) as libc::socklen_t;
    let value = (&raw const value).cast();
    // SAFETY: the pointer and the length are those of `value`, which outlives the call; the kernel
    // only reads from it.
    check(unsafe { libc::setsockopt(socket.as_raw_fd(), level, name, value, length) })
}

fn check(result: libc::c_int) -> io::Result<()> {
    if result >= 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

/// The kernel's `ETHTOOL_STXCSUM`.
const SET_SENDING_CHECKSUMS: u32 = 0x17;

/// Above ordinary threads; below what the kernel itself runs at real-time priority (50).
const PRIORITY: libc::c_int = 10;

/// The shortest turn that the kernel takes as it is: ten times longer than one of the router's.
const TURN_NANOS: u64 = 100_000;

/// Some 0.2 s at 10 Gbit/s, in case the thread is not run for so long.
const RECEIVE_BUFFER: libc::c_int = 256 << 20;
const SEND_BUFFER: libc::c_int = 64 << 20;
