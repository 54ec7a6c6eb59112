//! A way to the store that takes its time.

use std::{
    io::{Read as _, Write as _},
    net::{Shutdown, TcpListener, TcpStream},
    sync::mpsc,
    thread::{sleep, spawn},
    time::{Duration, Instant},
};

/// Passes connections on to `target`, each byte half of `rtt` later; its address. It goes on until
/// the test process ends.
pub(crate) fn relay(target: &str, rtt: Duration) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap().to_string();
    let target = target.to_owned();
    spawn(move || {
        for near in listener.incoming().map_while(Result::ok) {
            let Ok(far) = TcpStream::connect(&target) else { continue };
            for (from, to) in [(&near, &far), (&far, &near)] {
                pass(from.try_clone().unwrap(), to.try_clone().unwrap(), rtt / 2);
            }
        }
    });
    address
}

fn pass(mut from: TcpStream, mut to: TcpStream, way: Duration) {
    let _ = to.set_nodelay(true);
    let (sent, arrives) = mpsc::channel::<(Instant, Vec<u8>)>();
    spawn(move || {
        let mut bytes = vec![0; 65_536];
        while let Ok(count @ 1..) = from.read(&mut bytes) {
            if sent.send((Instant::now() + way, bytes[..count].to_vec())).is_err() {
                return;
            }
        }
    });
    spawn(move || {
        for (at, bytes) in arrives {
            sleep(at.saturating_duration_since(Instant::now()));
            if to.write_all(&bytes).is_err() {
                break;
            }
        }
        let _ = to.shutdown(Shutdown::Both);
    });
}
