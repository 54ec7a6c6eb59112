//! Datagrams of an active balancer: what can be read is written again the same, and whatever a
//! standby is told, it goes on.
#![no_main]

use libfuzzer_sys::fuzz_target;
use loadline_core::time::Instant;
use loadline_l4::replication::{Datagram, Extent, Reader, Receiver, Record, Stream, read, write};

fuzz_target!(|bytes: &[u8]| {
    if let Ok(datagram) = Datagram::read(bytes) {
        assert_eq!(datagram.write(), bytes);
    }
    let mut from = Reader(bytes);
    while let Ok((key, record)) = read(&mut from) {
        let mut again = Vec::new();
        match &record {
            Record::Put(fact) => write(&mut again, &key, Some(fact), Extent::Whole),
            Record::Remove => write(&mut again, &key, None, Extent::Whole),
            Record::Close => continue,
        }
        assert_eq!(read(&mut Reader(&again)), Ok((key, record)));
    }
    let mut receiver = Receiver::new(0);
    let mut hear = |datagram: &Datagram<'_>| {
        // What is refused is as good as any.
        let _ = receiver.handle(Instant::ZERO, 0, datagram);
    };
    hear(&Datagram::Call { epoch: 1, token: 1 });
    let stream = Stream { token: 1, nonce: 1 };
    hear(&Datagram::Data { stream, number: 1, is_whole: false, records: bytes });
    if let Ok(datagram) = Datagram::read(bytes) {
        hear(&datagram);
    }
});
