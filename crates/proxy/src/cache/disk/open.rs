//! Opening: who has the directory, which records it has, and the threads.

use std::{
    collections::HashMap,
    fs::{self, File, TryLockError},
    hash::{BuildHasher as _, RandomState},
    io,
    path::Path,
    sync::{Arc, Condvar, Mutex},
    thread::{self, JoinHandle},
};

use super::{
    Counters, Disk, OpenError, Options, READERS, Recovered, SIZE_MIN, Shared,
    index::{Entry, State},
    reader::{self, Requests},
    record::Kind,
    segment::{Found, Segment},
    writer,
};

pub(super) fn open(options: Options) -> Result<(Disk, Recovered), OpenError> {
    let Options { path, size } = &options;
    if *size < SIZE_MIN {
        return Err(OpenError::TooSmall { size: *size });
    }
    fs::create_dir_all(path).map_err(wrong("create", path))?;
    let lock = lock(path)?;
    let hasher = RandomState::new();
    let (state, recovered) = recover(path, &hasher).map_err(wrong("read", path))?;
    let shared = Shared {
        state: Mutex::new(state),
        to_write: Condvar::new(),
        reads: Requests::default(),
        counters: Counters::default(),
        hasher,
        segment_max: (size / SEGMENTS).min(SEGMENT_MAX),
        options: options.clone(),
    };
    let shared = Arc::new(shared);
    writer::begin_segment(&shared).map_err(wrong("write to", path))?;
    let mut disk = Disk { shared, threads: Vec::new(), _lock: lock };
    let start = |disk: &mut Disk, run: fn(&Arc<Shared>)| {
        disk.threads.push(spawn(&disk.shared, run).map_err(wrong("start a thread for", path))?);
        Ok(())
    };
    start(&mut disk, writer::run)?;
    (0..READERS).try_for_each(|_| start(&mut disk, reader::run))?;
    Ok((disk, recovered))
}

/// Makes this the only process that uses a directory.
fn lock(path: &Path) -> Result<File, OpenError> {
    let name = path.join("lock");
    let file = File::create(&name).map_err(wrong("write to", &name))?;
    match file.try_lock() {
        Ok(()) => Ok(file),
        Err(TryLockError::WouldBlock) => Err(OpenError::InUse { path: path.display().to_string() }),
        Err(TryLockError::Error(source)) => Err(wrong("lock", &name)(source)),
    }
}

/// Reads which records there are. Later ones of a key replace earlier ones.
fn recover(path: &Path, hasher: &RandomState) -> io::Result<(State, Recovered)> {
    let mut index = HashMap::new();
    let mut state = State::default();
    let mut recovered = Recovered::default();
    for number in Segment::list(path)? {
        let mut segment = Segment::open(path, number)?;
        if segment.bytes == 0 {
            Segment::delete(path, number)?;
            continue;
        }
        let mut hashes = Vec::new();
        let is_whole = segment.scan(|Found { head, key, offset }| {
            let hash = hasher.hash_one(&key[..]);
            let (offset, bytes) = (offset as u32, head.record_bytes() as u32);
            let entry = Entry { segment: number, offset, bytes, was_read: false };
            match head.kind {
                Kind::Value => {
                    index.insert(hash, entry);
                    hashes.push(hash);
                }
                Kind::Removed => drop(index.remove(&hash)),
            }
        });
        segment.hashes = hashes;
        recovered.torn += u64::from(!is_whole);
        state.segments.push_back(segment);
    }
    recovered.values = index.len() as u64;
    recovered.segments = state.segments.len() as u64;
    state.index = index;
    Ok((state, recovered))
}

fn spawn(shared: &Arc<Shared>, run: fn(&Arc<Shared>)) -> io::Result<JoinHandle<()>> {
    let shared = shared.clone();
    thread::Builder::new().name("cache-disk".to_owned()).spawn(move || run(&shared))
}

fn wrong(what: &'static str, path: &Path) -> impl Fn(io::Error) -> OpenError + use<> {
    let path = path.display().to_string();
    move |source| OpenError::Io { what, path: path.clone(), source }
}

/// So many segments the size is made of: what is given up at a time is a small part.
const SEGMENTS: u64 = 32;

/// What is written and read again when one is given up is bounded, and offsets fit in 32 bits.
const SEGMENT_MAX: u64 = 256 << 20;
