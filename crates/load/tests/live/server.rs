//! A server that does to each connection what the test says, a thread each.

use std::{
    io::Read as _,
    net::{SocketAddr, TcpListener, TcpStream},
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicUsize, Ordering},
    },
    thread::JoinHandle,
};

/// Listens until it is dropped.
pub(crate) struct Server {
    address: SocketAddr,
    accepted: Arc<AtomicUsize>,
    stop: Arc<AtomicBool>,
    accepting: Option<JoinHandle<()>>,
}

impl Server {
    /// Hands every connection to `handle`, with a number that counts from zero.
    pub(crate) fn start(handle: impl Fn(usize, TcpStream) + Send + Sync + 'static) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let (accepted, stop) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicBool::new(false)));
        let (count, stopped, handle) = (Arc::clone(&accepted), Arc::clone(&stop), Arc::new(handle));
        let accepting = std::thread::spawn(move || {
            for stream in listener.incoming().map(Result::unwrap) {
                if stopped.load(Ordering::SeqCst) {
                    break;
                }
                let number = count.fetch_add(1, Ordering::SeqCst);
                let handle = Arc::clone(&handle);
                std::thread::spawn(move || handle(number, stream));
            }
        });
        Self { address, accepted, stop, accepting: Some(accepting) }
    }

    /// Sends `answer` to every request, for as long as the client keeps the connection.
    pub(crate) fn answering(answer: &'static [u8]) -> Self {
        Self::start(move |_, mut stream| {
            while read_request(&mut stream) {
                if std::io::Write::write_all(&mut stream, answer).is_err() {
                    break;
                }
            }
        })
    }

    pub(crate) fn url(&self) -> String {
        format!("http://{}/", self.address)
    }

    /// Connections taken so far.
    pub(crate) fn connections(&self) -> usize {
        self.accepted.load(Ordering::SeqCst)
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::SeqCst);
        let woken = TcpStream::connect(self.address);
        if let (Ok(_), Some(accepting)) = (woken, self.accepting.take()) {
            accepting.join().unwrap();
        }
    }
}

/// Reads a request without a body; false where the client has closed instead.
pub(crate) fn read_request(stream: &mut TcpStream) -> bool {
    let mut seen = Vec::new();
    let mut byte = [0; 512];
    while !seen.ends_with(b"\r\n\r\n") {
        match stream.read(&mut byte) {
            Ok(0) | Err(_) => return false,
            Ok(count) => seen.extend_from_slice(&byte[..count]),
        }
    }
    true
}

/// Waits until the client closes.
pub(crate) fn wait_closed(stream: &mut TcpStream) {
    while matches!(stream.read(&mut [0; 512]), Ok(count) if count > 0) {}
}
