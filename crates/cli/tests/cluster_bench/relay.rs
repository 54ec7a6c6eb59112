//! A way to the store that takes its time, and can be cut.

use std::{
    io::{Read as _, Write as _},
    net::{Shutdown, TcpListener, TcpStream},
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering::Relaxed},
        mpsc,
    },
    thread::{sleep, spawn},
    time::{Duration, Instant},
};

/// Cuts ways, and joins them again.
#[derive(Clone, Default)]
pub(crate) struct Cut(Arc<AtomicBool>);

impl Cut {
    /// What is sent from now on arrives when they are joined again, as TCP has it.
    pub(crate) fn cut(&self) {
        self.0.store(true, Relaxed);
    }

    pub(crate) fn join(&self) {
        self.0.store(false, Relaxed);
    }

    fn wait(&self) {
        while self.0.load(Relaxed) {
            sleep(LOOK);
        }
    }
}

/// Passes connections on to `target`, each byte half of `rtt` later; its address. It goes on until
/// the test process ends.
pub(crate) fn relay(target: &str, rtt: Duration, cut: &Cut) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap().to_string();
    let (target, cut) = (target.to_owned(), cut.clone());
    spawn(move || {
        for near in listener.incoming().map_while(Result::ok) {
            let Ok(far) = TcpStream::connect(&target) else { continue };
            for (from, to) in [(&near, &far), (&far, &near)] {
                pass(from.try_clone().unwrap(), to.try_clone().unwrap(), rtt / 2, cut.clone());
            }
        }
    });
    address
}

fn pass(mut from: TcpStream, mut to: TcpStream, way: Duration, cut: Cut) {
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
            cut.wait();
            if to.write_all(&bytes).is_err() {
                break;
            }
        }
        cut.wait();
        let _ = to.shutdown(Shutdown::Both);
    });
}

const LOOK: Duration = Duration::from_millis(10);
