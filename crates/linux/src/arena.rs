//! Bytes in a file in memory: they can be read in place, and sent to a socket without a copy.
//!
//! What goes to a socket by `sendfile` is not copied: the kernel refers to the pages until the peer
//! has acknowledged them. That is safe since no page is written twice: when the last owner of bytes
//! is gone their pages leave the file, and what is written there later goes to others. So a page
//! must not have bytes of two owners, for the kernel writes zeros where a part of one leaves. Bytes
//! that are long enough get huge pages of their own, which take less work to write and to send; on
//! a machine where pages are larger by themselves there is no arena.

use std::{
    fs::File,
    io,
    os::{
        fd::{AsFd, BorrowedFd},
        unix::fs::FileExt as _,
    },
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use bytes::Bytes;
use loadline_core::cache::{Extent, Extents, HUGE_PAGE};
use rustix::fs::{
    FallocateFlags, MemfdFlags, SealFlags, fallocate, fcntl_add_seals, ftruncate, memfd_create,
};

use self::map::Map;

mod map;

/// A file in memory, for bytes that many read. It takes memory for what is in it, page by page.
#[derive(Debug)]
pub struct Arena {
    file: File,
    map: Map,
    free: Mutex<Extents>,
}

/// Bytes of an arena, whose pages go back with it.
#[derive(Debug)]
struct Owner {
    arena: Arc<Arena>,
    extent: Extent,
    length: usize,
}

impl Arena {
    /// An arena for so many bytes, rounded up to whole pages, that `/proc` calls `name`.
    ///
    /// # Errors
    /// The kernel's: no descriptor is left, or no address space; or pages are larger than ours.
    pub fn new(name: &str, bytes: u64) -> io::Result<Arc<Self>> {
        if map::pages_are_larger() {
            return Err(io::ErrorKind::Unsupported.into());
        }
        let pages = u32::try_from(bytes.div_ceil(PAGE as u64)).unwrap_or(u32::MAX);
        let length = pages as usize * PAGE;
        let file = memfd_create(name, MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING)?;
        ftruncate(&file, length as u64)?;
        fcntl_add_seals(&file, SealFlags::SHRINK | SealFlags::GROW)?;
        let file = File::from(file);
        let map = Map::of(&file, length)?;
        Ok(Arc::new(Self { file, map, free: Mutex::new(Extents::new(pages)) }))
    }

    /// Copies bytes that are given in pieces into the arena; one piece again where there is an
    /// extent for all of them. None where there is no room or no memory: then nothing is taken.
    #[must_use]
    pub fn copy(self: &Arc<Self>, pieces: &[Bytes]) -> Option<Vec<Bytes>> {
        let mut left: usize = pieces.iter().map(Bytes::len).sum();
        let mut from = pieces.iter().cloned();
        let (mut piece, mut copies) = (Bytes::new(), Vec::with_capacity(1));
        while left > 0 {
            let mut owner = self.take(left)?;
            self.prepare(owner.extent);
            let room = left.min(owner.extent.pages as usize * PAGE);
            while owner.length < room {
                if piece.is_empty() {
                    piece = from.next()?;
                }
                let part = piece.split_to(piece.len().min(room - owner.length));
                let offset = owner.extent.first as usize * PAGE + owner.length;
                self.file.write_all_at(&part, offset as u64).ok()?;
                owner.length += part.len();
            }
            left -= room;
            copies.push(Bytes::from_owner(owner));
        }
        Some(copies)
    }

    /// Where in the file these bytes are, if they are of the arena.
    #[must_use]
    pub fn offset_of(&self, bytes: &[u8]) -> Option<u64> {
        let (own, range) = (self.map.bytes().as_ptr_range(), bytes.as_ptr_range());
        let is_own = own.start <= range.start && range.end <= own.end;
        is_own.then(|| (range.start.addr() - own.start.addr()) as u64)
    }

    /// What the bytes of a length take in whole pages.
    #[must_use]
    pub const fn memory_of(length: u64) -> u64 {
        length.next_multiple_of(PAGE as u64)
    }

    fn take(self: &Arc<Self>, bytes: usize) -> Option<Owner> {
        let pages = u32::try_from(bytes.div_ceil(PAGE)).ok()?;
        let extent = self.free().take(pages)?;
        Some(Owner { arena: self.clone(), extent, length: 0 })
    }

    /// Prepares huge pages for a write, where possible: that takes less time than many small ones.
    fn prepare(&self, extent: Extent) {
        let Some(Extent { first, pages }) = extent.huge() else { return };
        let (start, end) = (first as usize * PAGE, (first + pages) as usize * PAGE);
        // The kernel gathers what is there, so there has to be something.
        let mut begun = (start..end).step_by(HUGE_PAGE as usize * PAGE);
        if begun.all(|at| self.file.write_all_at(&[0], at as u64).is_ok()) {
            self.map.gather(start..end);
        }
    }

    fn free(&self) -> MutexGuard<'_, Extents> {
        // Nobody panics while holding it.
        self.free.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl AsFd for Arena {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.file.as_fd()
    }
}

impl AsRef<[u8]> for Owner {
    fn as_ref(&self) -> &[u8] {
        let start = self.extent.first as usize * PAGE;
        self.arena.map.bytes().get(start..start + self.length).unwrap_or_default()
    }
}

impl Drop for Owner {
    fn drop(&mut self) {
        let Extent { first, pages } = self.extent;
        let (offset, bytes) = (u64::from(first) * PAGE as u64, u64::from(pages) * PAGE as u64);
        let flags = FallocateFlags::PUNCH_HOLE | FallocateFlags::KEEP_SIZE;
        // Where the pages cannot be taken out they must not be written again.
        if fallocate(&self.arena.file, flags, offset, bytes).is_ok() {
            self.arena.free().give(self.extent);
        }
    }
}

/// The smallest page of every machine that Linux runs on here.
const PAGE: usize = 4096;

#[cfg(test)]
mod tests {
    use std::os::unix::fs::MetadataExt as _;

    use super::*;

    fn pieces(bytes: &[u8], size: usize) -> Vec<Bytes> {
        bytes.chunks(size).map(Bytes::copy_from_slice).collect()
    }

    #[test]
    fn bytes_are_read_in_place_and_their_pages_go_to_others_when_they_are_gone() {
        let arena = Arena::new("test", 3 * PAGE as u64).unwrap();
        let body: Vec<u8> = (0..9_000_u32).map(|n| (n % 251) as u8).collect();
        let copies = arena.copy(&pieces(&body, 1_460)).unwrap();
        assert!(copies.concat() == body);
        assert_eq!(copies.len(), 1);
        assert_eq!(arena.offset_of(&copies[0][5_000..]), Some(5_000));
        assert_eq!(arena.offset_of(&body), None);
        let mut read = [0; 4];
        arena.file.read_exact_at(&mut read, 8_996).unwrap();
        assert_eq!(read, body[8_996..]);

        assert_eq!(arena.copy(&pieces(&body[..1], 1)), None, "there is no room");
        let slice = copies[0].slice(100..200);
        drop(copies);
        assert_eq!(arena.copy(&pieces(&body[..1], 1)), None, "somebody reads it");
        drop(slice);
        assert_eq!(arena.map.bytes()[100], 0, "its memory has gone");
        assert!(arena.copy(&pieces(&body, 1_460)).is_some());
    }

    #[test]
    fn long_bytes_are_in_huge_pages_which_go_back_whole() {
        let huge = HUGE_PAGE as usize * PAGE;
        let arena = Arena::new("test", 4 * huge as u64).unwrap();
        let small = arena.copy(&pieces(&[1; PAGE], PAGE)).unwrap();
        let body: Vec<u8> = (0..2 * huge + PAGE).map(|n| (n % 251) as u8).collect();
        let large = arena.copy(&pieces(&body, 100_000)).unwrap();
        assert!(large.concat() == body);
        assert_eq!(arena.offset_of(&large[0]), Some(huge as u64));
        let kept = || arena.file.metadata().unwrap().blocks() * 512;
        assert_eq!(kept(), (PAGE + 2 * huge + PAGE) as u64, "nothing but what was copied");
        drop(large);
        assert_eq!(kept(), PAGE as u64);
        assert!(small.concat() == [1; PAGE]);
    }

    #[test]
    fn bytes_fill_what_extents_there_are() {
        let arena = Arena::new("test", 4 * PAGE as u64).unwrap();
        let one = |byte| arena.copy(&pieces(&[byte; PAGE], PAGE)).unwrap();
        let (first, second, third) = (one(1), one(2), one(3));
        drop(second);
        let both = arena.copy(&pieces(&[4; 2 * PAGE], 1_000)).unwrap();
        assert_eq!(both.len(), 2);
        assert!(both.concat() == [4; 2 * PAGE]);
        assert!(first.concat() == [1; PAGE] && third.concat() == [3; PAGE]);
    }
}
