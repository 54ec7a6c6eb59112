//! The record of purges, in a file of its own, so that none is undone by what happens to a segment.
//!
//! ```text
//! | magic | version | floor | epoch | check |
//! | magic | length | check of body | check of these | number | time | named | soft | name | ...
//! ```
//! It is appended to, and written anew where it has become much longer than what counts of it. A
//! last entry that ends with the file was not acknowledged, and is cut off. Anything else that is
//! not whole means that nobody knows what was purged: then everything on disk is given up.

use std::{
    fs::{self, File, OpenOptions},
    io,
    os::unix::fs::{FileExt as _, OpenOptionsExt as _},
    path::Path,
};

use loadline_core::{
    cache::disk::{Named, PurgeRecord, Purges},
    time::UnixTime,
};

use super::{
    record::{u32_of, u64_of},
    segment::sync_folder,
};

/// The file, open to be appended to.
#[derive(Debug)]
pub(super) struct PurgeLog {
    file: File,
    end: u64,
}

/// What a file says.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Read {
    Purges(Purges),
    /// There is no file.
    Missing,
    /// Some of it is not what was written.
    Damaged,
}

impl PurgeLog {
    /// Reads the file in a folder.
    pub(super) fn read(folder: &Path) -> io::Result<Read> {
        match fs::read(folder.join(NAME)) {
            Ok(bytes) => Ok(parse(&bytes).map_or(Read::Damaged, Read::Purges)),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(Read::Missing),
            Err(error) => Err(error),
        }
    }

    /// Writes these purges to a new file, which replaces the old one.
    pub(super) fn create(folder: &Path, purges: &Purges) -> io::Result<Self> {
        let mut bytes = head(purges);
        purges.records().for_each(|purge| write(&mut bytes, &purge));
        let new = folder.join(NEW);
        let mut options = OpenOptions::new();
        let file = options.read(true).write(true).create(true).truncate(true).mode(0o600);
        let file = file.open(&new)?;
        file.write_all_at(&bytes, 0)?;
        file.sync_data()?;
        fs::rename(new, folder.join(NAME))?;
        sync_folder(folder)?;
        Ok(Self { file, end: bytes.len() as u64 })
    }

    /// Appends these, and makes sure that they stay.
    pub(super) fn append(&mut self, purges: &[PurgeRecord]) -> io::Result<()> {
        let mut bytes = Vec::new();
        purges.iter().for_each(|purge| write(&mut bytes, purge));
        self.file.write_all_at(&bytes, self.end)?;
        self.file.sync_data()?;
        self.end += bytes.len() as u64;
        Ok(())
    }

    /// Size in bytes.
    pub(super) const fn bytes(&self) -> u64 {
        self.end
    }
}

fn head(purges: &Purges) -> Vec<u8> {
    let mut bytes = Vec::new();
    bytes.extend(MAGIC.to_le_bytes());
    bytes.extend(VERSION.to_le_bytes());
    bytes.extend(purges.floor().to_le_bytes());
    bytes.extend(purges.epoch().to_le_bytes());
    bytes.extend(crc32fast::hash(&bytes).to_le_bytes());
    bytes
}

fn write(to: &mut Vec<u8>, purge: &PurgeRecord) {
    let mut body = Vec::with_capacity(purge.name.len() + 18);
    body.extend(purge.number.to_le_bytes());
    body.extend(purge.at.as_millis().to_le_bytes());
    body.push(purge.named as u8);
    body.push(u8::from(purge.soft));
    body.extend_from_slice(&purge.name);
    let begin = to.len();
    to.extend(ENTRY_MAGIC.to_le_bytes());
    to.extend((body.len() as u32).to_le_bytes());
    to.extend(crc32fast::hash(&body).to_le_bytes());
    to.extend(crc32fast::hash(&to[begin..]).to_le_bytes());
    to.extend(body);
}

/// What a file says; none where it is damaged.
fn parse(bytes: &[u8]) -> Option<Purges> {
    let (head, mut entries) = bytes.split_at_checked(HEAD)?;
    let mut from = head;
    let is_ours = u32_of(&mut from)? == MAGIC && u32_of(&mut from)? == VERSION;
    let (floor, epoch) = (u64_of(&mut from)?, u64_of(&mut from)?);
    if !is_ours || u32_of(&mut from)? != crc32fast::hash(&head[..HEAD - 4]) {
        return None;
    }
    let mut purges = Purges::between(floor, epoch);
    while entries.len() >= ENTRY_HEAD {
        let (head, rest) = entries.split_at(ENTRY_HEAD);
        let mut from = head;
        let is_entry = u32_of(&mut from)? == ENTRY_MAGIC;
        let (length, check) = (u32_of(&mut from)? as usize, u32_of(&mut from)?);
        if !is_entry || u32_of(&mut from)? != crc32fast::hash(&head[..ENTRY_HEAD - 4]) {
            // A file may have become longer before what is in it was written.
            return entries.iter().all(|byte| *byte == 0).then_some(purges);
        }
        let Some((body, rest)) = rest.split_at_checked(length) else { return Some(purges) };
        if crc32fast::hash(body) != check {
            return None;
        }
        purges.add(&entry(body)?);
        entries = rest;
    }
    Some(purges)
}

fn entry(mut from: &[u8]) -> Option<PurgeRecord> {
    let number = u64_of(&mut from)?;
    let at = UnixTime::from_millis(u64_of(&mut from)?.cast_signed());
    let (&[named, soft], name) = from.split_first_chunk()?;
    let named = *Named::ALL.get(usize::from(named))?;
    Some(PurgeRecord { number, at, named, soft: soft == 1, name: name.into() })
}

const NAME: &str = "purges";

/// While it is written anew.
const NEW: &str = "purges.new";

const HEAD: usize = 28;

/// What stands before the body of an entry.
const ENTRY_HEAD: usize = 16;

const MAGIC: u32 = u32::from_le_bytes(*b"LLPG");
const ENTRY_MAGIC: u32 = u32::from_le_bytes(*b"LLPE");
const VERSION: u32 = 1;

#[cfg(test)]
mod tests {
    use super::*;

    fn purge(number: u64, name: &str) -> PurgeRecord {
        let at = UnixTime::from_secs(number as i64);
        let named = Named::ALL[number as usize % 3];
        PurgeRecord {
            number,
            at,
            named,
            soft: number.is_multiple_of(2),
            name: name.as_bytes().into(),
        }
    }

    fn log(folder: &Path) -> (Vec<usize>, Purges) {
        let mut purges = Purges::between(2, 5);
        let mut log = PurgeLog::create(folder, &purges).unwrap();
        let mut ends = vec![log.bytes() as usize];
        for number in 6..16 {
            let purge = purge(number, &"x".repeat(number as usize));
            log.append(std::slice::from_ref(&purge)).unwrap();
            purges.add(&purge);
            ends.push(log.bytes() as usize);
        }
        (ends, purges)
    }

    #[test]
    fn purges_are_read_as_they_were_written_and_written_anew() {
        let folder = tempfile::tempdir().unwrap();
        assert_eq!(PurgeLog::read(folder.path()).unwrap(), Read::Missing);
        let (_, purges) = log(folder.path());
        assert_eq!(PurgeLog::read(folder.path()).unwrap(), Read::Purges(purges.clone()));
        PurgeLog::create(folder.path(), &purges).unwrap();
        assert_eq!(PurgeLog::read(folder.path()).unwrap(), Read::Purges(purges));
    }

    #[test]
    fn a_log_that_is_cut_anywhere_has_every_purge_that_was_whole() {
        let folder = tempfile::tempdir().unwrap();
        let (ends, _) = log(folder.path());
        let whole = fs::read(folder.path().join(NAME)).unwrap();
        for length in ends[0]..whole.len() {
            let whole_ones = ends.iter().filter(|end| **end <= length).count() as u64 - 1;
            let purges = parse(&whole[..length]).expect("a torn end is no damage");
            assert_eq!(purges.epoch(), 5 + whole_ones, "{length}");
            let mut zeros = whole[..length].to_vec();
            zeros.resize(whole.len() + 20, 0);
            if ends.contains(&length) {
                assert_eq!(parse(&zeros), Some(purges), "{length}");
            }
        }
    }

    #[test]
    fn a_bit_that_differs_undoes_no_purge_in_silence() {
        let folder = tempfile::tempdir().unwrap();
        let (_, purges) = log(folder.path());
        let whole = fs::read(folder.path().join(NAME)).unwrap();
        assert_eq!(parse(&whole), Some(purges));
        for bit in 0..whole.len() * 8 {
            let mut wrong = whole.clone();
            wrong[bit / 8] ^= 1 << (bit % 8);
            assert_eq!(parse(&wrong), None, "bit {bit}");
        }
    }
}
