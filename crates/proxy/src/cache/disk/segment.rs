//! Segments: files of records, which are appended to until they are full.
//!
//! ```text
//! | magic | version | number | 0 | epoch | 0 | check | record | record ... | list | end |
//! ```
//! The list says what there is, so that a start reads it instead of every head. A segment without a
//! whole one, as a process leaves it that is killed, is read head by head up to the first that is
//! not whole: what comes behind that was not acknowledged, and is cut off.

use std::{
    fs::{self, File, OpenOptions},
    io,
    os::unix::fs::{FileExt as _, OpenOptionsExt as _},
    path::{Path, PathBuf},
    sync::Arc,
};

use loadline_core::cache::Vary;

use super::{
    index::{Entry, Ident},
    record::{Head, Opening, read_list, u16_of, u32_of, u64_of, write_list},
};

/// A segment as all threads know it.
#[derive(Debug)]
pub(super) struct Segment {
    pub(super) number: u32,
    pub(super) file: Arc<File>,
    /// The last purge that had come when it was begun: no record of it has a smaller epoch.
    pub(super) epoch: u64,
    /// Size in bytes.
    pub(super) bytes: u64,
    /// The hashes of the URLs that have a record in it.
    pub(super) urls: Vec<u64>,
}

/// A record of a segment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Listed {
    pub(super) ident: Ident,
    pub(super) offset: u32,
    pub(super) bytes: u32,
    /// Index of what it varies by.
    pub(super) vary: u16,
}

impl Listed {
    /// Where it is, in the segment with this number.
    pub(super) fn entry(&self, segment: u32) -> Entry {
        let Self { ident: Ident { tag, .. }, offset, bytes, vary } = *self;
        Entry { segment, offset, bytes, tag, vary, is_dead: false, was_read: false }
    }
}

/// What a segment has.
#[derive(Debug, Default)]
pub(super) struct Contents {
    pub(super) listed: Vec<Listed>,
    /// What its records vary by.
    pub(super) varies: Vec<Vary>,
    /// Where the last whole record ends.
    pub(super) end: u64,
    /// Whether it was closed with a list.
    pub(super) is_sealed: bool,
    /// Whether something that is not whole is behind the last record.
    pub(super) is_torn: bool,
}

impl Segment {
    /// The first bytes, before any record.
    pub(super) const HEAD: u64 = 32;

    /// A new file, with nothing in it.
    pub(super) fn create(folder: &Path, number: u32, epoch: u64) -> io::Result<Self> {
        let mut options = OpenOptions::new();
        // What is there by this name could not be begun before.
        options.read(true).write(true).create(true).truncate(true).mode(0o600);
        let file = options.open(path(folder, number))?;
        file.write_all_at(&head(number, epoch), 0)?;
        // Whoever reads a file that is there after a power cut has to find it there.
        sync_folder(folder)?;
        Ok(Self { number, file: Arc::new(file), epoch, bytes: Self::HEAD, urls: Vec::new() })
    }

    /// A file that is there; none where it is no segment of this version.
    pub(super) fn open(folder: &Path, number: u32) -> io::Result<Option<Self>> {
        let file = File::options().read(true).write(true).open(path(folder, number))?;
        let bytes = file.metadata()?.len();
        let mut first = [0; Self::HEAD as usize];
        if bytes < Self::HEAD {
            return Ok(None);
        }
        file.read_exact_at(&mut first, 0)?;
        let epoch = epoch_of(&first, number);
        let file = Arc::new(file);
        Ok(epoch.map(|epoch| Self { number, file, epoch, bytes, urls: Vec::new() }))
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
        match fs::remove_file(path(folder, number)) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
            done => done,
        }
    }

    /// What it has, by its list or by its heads.
    pub(super) fn contents(&self) -> io::Result<Contents> {
        match self.sealed()? {
            Some(contents) => Ok(contents),
            None => self.scan(),
        }
    }

    fn sealed(&self) -> io::Result<Option<Contents>> {
        let Some(end_at) = self.bytes.checked_sub(END).filter(|at| *at >= Self::HEAD) else {
            return Ok(None);
        };
        let mut end = [0; END as usize];
        self.file.read_exact_at(&mut end, end_at)?;
        let Some((at, check)) = read_end(&end, end_at) else { return Ok(None) };
        let mut list = vec![0; (end_at - at) as usize];
        self.file.read_exact_at(&mut list, at)?;
        if crc32fast::hash(&list) != check {
            return Ok(None);
        }
        Ok(Contents::read(&list, at))
    }

    /// Looks at the head of each record.
    fn scan(&self) -> io::Result<Contents> {
        let mut contents = Contents { end: Self::HEAD, ..Contents::default() };
        while contents.end < self.bytes {
            let Some((opening, head)) = self.head_at(contents.end)? else { break };
            let Some(next) = contents.add(contents.end, &opening, &head) else { break };
            contents.end = next;
        }
        contents.is_torn = contents.end < self.bytes;
        Ok(contents)
    }

    /// The head of the record that begins here; none where it is not whole.
    fn head_at(&self, offset: u64) -> io::Result<Option<(Opening, Head)>> {
        let left = self.bytes - offset;
        let mut bytes = vec![0; left.min(FIRST_READ) as usize];
        self.file.read_exact_at(&mut bytes, offset)?;
        let opening = Opening::read(&bytes).filter(|opening| opening.record_bytes() <= left);
        let Some(opening) = opening else { return Ok(None) };
        let (end, read) = (opening.body_at() as usize, bytes.len());
        bytes.resize(end, 0);
        if end > read {
            self.file.read_exact_at(&mut bytes[read..], offset + read as u64)?;
        }
        Ok(opening.head(&bytes[Opening::BYTES..]).map(|head| (opening, head)))
    }
}

impl Contents {
    /// Adds the record at `offset`; gives the offset of the next one.
    fn add(&mut self, offset: u64, opening: &Opening, head: &Head) -> Option<u64> {
        let response = &head.response;
        let secondary = response.selectors.secondary.as_deref().unwrap_or_default();
        let vary = self.vary(&response.selectors.vary)?;
        let bytes = opening.record_bytes();
        self.listed.push(Listed {
            ident: Ident::of(&head.url, &response.variant, secondary),
            offset: u32::try_from(offset).ok()?,
            bytes: u32::try_from(bytes).ok()?,
            vary,
        });
        Some(offset + bytes)
    }

    pub(super) fn vary(&mut self, vary: &Vary) -> Option<u16> {
        let known = self.varies.iter().position(|known| known == vary);
        let at = known.unwrap_or_else(|| {
            self.varies.push(vary.clone());
            self.varies.len() - 1
        });
        u16::try_from(at).ok()
    }

    /// The list of these, with the end of a segment in which it begins at `at`.
    pub(super) fn write(&self, at: u64) -> Vec<u8> {
        let mut list = Vec::new();
        list.extend((self.varies.len() as u32).to_le_bytes());
        for vary in &self.varies {
            let names: &[Vec<u8>] = match vary {
                Vary::Fields(names) => names,
                Vary::Everything => &[],
            };
            write_list(&mut list, names.iter().map(Vec::as_slice));
        }
        for Listed { ident, offset, bytes, vary } in &self.listed {
            list.extend(ident.url.to_le_bytes());
            list.extend(ident.tag.to_le_bytes());
            list.extend(offset.to_le_bytes());
            list.extend(bytes.to_le_bytes());
            list.extend(vary.to_le_bytes());
        }
        let check = crc32fast::hash(&list);
        let begin = list.len();
        list.extend(END_MAGIC.to_le_bytes());
        list.extend(check.to_le_bytes());
        list.extend(at.to_le_bytes());
        list.extend(crc32fast::hash(&list[begin..]).to_le_bytes());
        list
    }

    fn read(mut from: &[u8], at: u64) -> Option<Self> {
        let from = &mut from;
        let count = u32_of(from)?;
        let varies: Option<Vec<Vary>> =
            (0..count).map(|_| read_list(from).map(|names| Vary::Fields(names.into()))).collect();
        let varies = varies?;
        let mut listed = Vec::with_capacity(from.len() / LISTED);
        while !from.is_empty() {
            let ident = Ident { url: u64_of(from)?, tag: u32_of(from)? };
            let (offset, bytes) = (u32_of(from)?, u32_of(from)?);
            let vary = u16_of(from)?;
            let is_inside = u64::from(offset) + u64::from(bytes) <= at;
            if !is_inside || usize::from(vary) >= varies.len() {
                return None;
            }
            listed.push(Listed { ident, offset, bytes, vary });
        }
        Some(Self { listed, varies, end: at, is_sealed: true, is_torn: false })
    }
}

fn head(number: u32, epoch: u64) -> Vec<u8> {
    let mut bytes = Vec::new();
    for number in [MAGIC, VERSION, number, 0] {
        bytes.extend(number.to_le_bytes());
    }
    bytes.extend(epoch.to_le_bytes());
    bytes.extend([0; 4]);
    bytes.extend(crc32fast::hash(&bytes).to_le_bytes());
    bytes
}

fn epoch_of(head: &[u8], number: u32) -> Option<u64> {
    let mut from = head;
    let from = &mut from;
    let is_ours = u32_of(from)? == MAGIC && u32_of(from)? == VERSION && u32_of(from)? == number;
    u32_of(from)?;
    let epoch = u64_of(from)?;
    u32_of(from)?;
    (is_ours && u32_of(from)? == crc32fast::hash(&head[..head.len() - 4])).then_some(epoch)
}

/// Offset of the list that ends here, and its check.
fn read_end(end: &[u8], end_at: u64) -> Option<(u64, u32)> {
    let mut from = end;
    let from = &mut from;
    let is_end = u32_of(from)? == END_MAGIC;
    let (check, at) = (u32_of(from)?, u64_of(from)?);
    let is_whole = u32_of(from)? == crc32fast::hash(&end[..end.len() - 4]);
    (is_end && is_whole && at >= Segment::HEAD && at <= end_at).then_some((at, check))
}

/// Lets what was created, renamed or deleted in a folder be so after a power cut.
pub(super) fn sync_folder(folder: &Path) -> io::Result<()> {
    File::open(folder)?.sync_all()
}

fn path(folder: &Path, number: u32) -> PathBuf {
    folder.join(format!("{number:08x}{SUFFIX}"))
}

const SUFFIX: &str = ".segment";

/// Holds the head of nearly every record.
const FIRST_READ: u64 = 4 << 10;

/// What stands behind the list.
const END: u64 = 20;

/// Bytes of one record in the list.
const LISTED: usize = 22;

const MAGIC: u32 = u32::from_le_bytes(*b"LLSG");
const END_MAGIC: u32 = u32::from_le_bytes(*b"LLSE");

/// Of the format. What another version has written is given up.
const VERSION: u32 = 2;
