//! What the kernel tells of a TCP connection.
#![expect(unsafe_code, reason = "no safe wrapper offers the call")]

use std::{io, os::fd::AsRawFd, time::Duration};

/// How many bytes of all that was sent the peer has not acknowledged.
///
/// # Errors
/// The kernel's.
pub fn unacknowledged(socket: &impl AsRawFd) -> io::Result<u32> {
    let mut bytes: libc::c_int = 0;
    // SAFETY: the kernel writes one integer through the pointer, to `bytes`, which outlives the
    // call.
    let done = unsafe { libc::ioctl(socket.as_raw_fd(), libc::TIOCOUTQ, &raw mut bytes) };
    if done == 0 { Ok(bytes.unsigned_abs()) } else { Err(io::Error::last_os_error()) }
}

/// How long ago data was sent to a peer for which more waits: it has made room for it. None if the
/// peer does not answer, so that data is sent again.
///
/// # Errors
/// The kernel's.
pub fn since_sent(socket: &impl AsRawFd) -> io::Result<Option<Duration>> {
    let mut info = [0_u32; TCP_INFO_WORDS];
    let mut length = size_of::<[u32; TCP_INFO_WORDS]>() as libc::socklen_t;
    // SAFETY: the kernel writes `length` bytes at most to `info`, which has as many, and their
    // number to `length`. Both outlive the call.
    let done = unsafe {
        libc::getsockopt(
            socket.as_raw_fd(),
            libc::IPPROTO_TCP,
            libc::TCP_INFO,
            info.as_mut_ptr().cast(),
            &raw mut length,
        )
    };
    if done != 0 {
        return Err(io::Error::last_os_error());
    }
    let [_, _, retransmits, _] = info[0].to_ne_bytes();
    let since = Duration::from_millis(info[LAST_DATA_SENT].into());
    Ok((retransmits == 0).then_some(since))
}

/// The beginning of the kernel's `tcp_info` up to `tcpi_last_data_sent`, in words of four bytes:
/// `tcpi_retransmits` is the third byte.
const TCP_INFO_WORDS: usize = LAST_DATA_SENT + 1;

/// In milliseconds.
const LAST_DATA_SENT: usize = 11;

#[cfg(test)]
mod tests {
    use std::{
        io::Write as _,
        net::{TcpListener, TcpStream},
        thread::sleep,
    };

    use super::*;

    #[test]
    fn it_is_known_since_when_a_peer_takes_nothing() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let mut sender = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        let (_silent, _) = listener.accept().unwrap();
        sender.set_nonblocking(true).unwrap();
        while sender.write(&[0; 64 << 10]).is_ok() {}
        sleep(Duration::from_millis(100));
        // The kernel may have sent more meanwhile, but not for long.
        let since = since_sent(&sender).unwrap().unwrap();
        assert!((50..5_000).contains(&since.as_millis()), "{since:?}");
        assert!(unacknowledged(&sender).unwrap() > 0);
    }
}
