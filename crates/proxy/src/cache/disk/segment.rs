//! Segments: files that are appended to until they are full.

use std::{
    fs::{self, File, OpenOptions},
    io,
    os::unix::fs::FileExt as _,
    path::{Path, PathBuf},
    sync::Arc,
};

use bytes::Bytes;

use super::record::{Head, Kind};

/// A file of the log.
#[derive(Debug)]
pub(super) struct Segment {
    pub(super) number: u32,
    pub(super) file: Arc<File>,
    /// What it takes.
    pub(super) bytes: u64,
    /// The hashes of the keys that have had a value in it.
    pub(super) hashes: Vec<u64>,
}

/// A record that is found in a segment.
#[derive(Debug)]
pub(super) struct Found {
    pub(super) head: Head,
    pub(super) key: Vec<u8>,
    pub(super) offset: u64,
}

impl Segment {
    /// A new file.
    pub(super) fn create(folder: &Path, number: u32) -> io::Result<Self> {
        let path = path(folder, number);
        let file = OpenOptions::new().read(true).write(true).create_new(true).open(path)?;
        Ok(Self { number, file: Arc::new(file), bytes: 0, hashes: Vec::new() })
    }

    /// A file that is there.
    pub(super) fn open(folder: &Path, number: u32) -> io::Result<Self> {
        let file = File::open(path(folder, number))?;
        let bytes = file.metadata()?.len();
        Ok(Self { number, file: Arc::new(file), bytes, hashes: Vec::new() })
    }

    /// Numbers of the segments of a folder, the oldest first. What is called otherwise is left
    /// alone.
    pub(super) fn list(folder: &Path) -> io::Result<Vec<u32>> {
        let mut numbers = Vec::new();
        for entry in fs::read_dir(folder)? {
            let name = entry?.file_name();
            let number = name.to_str().and_then(|name| name.strip_suffix(SUFFIX));
            let number = number.filter(|number| number.len() == 8);
            numbers.extend(number.and_then(|number| u32::from_str_radix(number, 16).ok()));
        }
        numbers.sort_unstable();
        Ok(numbers)
    }

    pub(super) fn delete(folder: &Path, number: u32) -> io::Result<()> {
        fs::remove_file(path(folder, number))
    }

    /// Gives each record to `each`, from the first on; false where the file ends in something that
    /// is no whole record.
    pub(super) fn scan(&self, mut each: impl FnMut(Found)) -> bool {
        let mut offset = 0;
        while offset < self.bytes {
            let Some(found) = self.head_at(offset) else { return false };
            offset += found.head.record_bytes();
            each(found);
        }
        true
    }

    /// The record that begins here, without its value.
    fn head_at(&self, offset: u64) -> Option<Found> {
        let left = self.bytes - offset;
        let mut bytes = vec![0; left.min(FIRST_READ) as usize];
        self.file.read_exact_at(&mut bytes, offset).ok()?;
        let head = Head::read(&bytes)?;
        if head.record_bytes() > left {
            return None;
        }
        let end = Head::BYTES + head.key_bytes();
        let read = bytes.len();
        bytes.resize(end, 0);
        if end > read {
            self.file.read_exact_at(&mut bytes[read..], offset + read as u64).ok()?;
        }
        let key = bytes.split_off(Head::BYTES);
        head.is_of(&key).then_some(Found { head, key, offset })
    }
}

/// The key and the value of a record; none where it is not what was written.
pub(super) fn record_at(file: &File, (offset, bytes): (u64, u64)) -> Option<(Bytes, Bytes)> {
    let mut record = vec![0; bytes as usize];
    file.read_exact_at(&mut record, offset).ok()?;
    let head = Head::read(&record).filter(|head| head.kind == Kind::Value)?;
    let end_of_key = Head::BYTES + head.key_bytes();
    if end_of_key > record.len() {
        return None;
    }
    let record = Bytes::from(record);
    let (key, value) = (record.slice(Head::BYTES..end_of_key), record.slice(end_of_key..));
    (head.is_of(&key) && head.has(&value)).then_some((key, value))
}

fn path(folder: &Path, number: u32) -> PathBuf {
    folder.join(format!("{number:08x}{SUFFIX}"))
}

const SUFFIX: &str = ".segment";

/// Holds the head and the key of nearly every record.
const FIRST_READ: u64 = 512;
