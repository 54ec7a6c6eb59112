//! A file in memory as bytes.
#![expect(unsafe_code, reason = "no safe wrapper maps a file where huge pages can be")]

use std::{
    ffi::c_void,
    fs::{self, File},
    io,
    ops::Range,
    path::PathBuf,
    ptr::{NonNull, null_mut},
    slice,
};

use loadline_core::cache::HUGE_PAGE;
use rustix::{
    mm::{MapFlags, ProtFlags, mmap, mmap_anonymous, munmap},
    param::page_size,
};

use super::PAGE;

/// All of a file, readable. It begins where a huge page can.
#[derive(Debug)]
pub(super) struct Map {
    start: NonNull<u8>,
    length: usize,
    /// The address range, released with the map.
    _reserved: Reserved,
}

/// Addresses that nobody else has.
#[derive(Debug)]
struct Reserved(*mut c_void, usize);

// SAFETY: the bytes of a map change only where nobody has a reference to them, as its owner sees
// to; nothing of it belongs to a thread.
unsafe impl Send for Map {}
// SAFETY: the same.
unsafe impl Sync for Map {}

impl Map {
    /// Of a file of this length, which has to be sealed. Each byte is to be written once, before
    /// anybody has a reference to it.
    pub(super) fn of(file: &File, length: usize) -> io::Result<Self> {
        let size = length + HUGE_PAGE as usize * PAGE;
        // SAFETY: these addresses are new.
        let start =
            unsafe { mmap_anonymous(null_mut(), size, ProtFlags::empty(), MapFlags::PRIVATE)? };
        let reserved = Reserved(start, size);
        let start = start.map_addr(|address| address.next_multiple_of(HUGE_PAGE as usize * PAGE));
        // SAFETY: nobody uses these addresses, which were reserved above.
        let start = unsafe {
            mmap(start, length, ProtFlags::READ, MapFlags::SHARED | MapFlags::FIXED, file, 0)?
        };
        let start = NonNull::new(start.cast()).ok_or(io::ErrorKind::OutOfMemory)?;
        Ok(Self { start, length, _reserved: reserved })
    }

    pub(super) fn bytes(&self) -> &[u8] {
        // SAFETY: they are mapped for as long as this is there, and the length of the file is
        // sealed, so that all of them stay readable. They are written once, before they are read.
        unsafe { slice::from_raw_parts(self.start.as_ptr(), self.length) }
    }

    /// Replaces small pages by huge ones where possible; no effect on kernels before 6.1.
    pub(super) fn gather(&self, range: Range<usize>) {
        let Some(bytes) = self.bytes().get(range) else { return };
        let start = bytes.as_ptr().cast_mut().cast();
        // SAFETY: what the bytes are does not change.
        unsafe { libc::madvise(start, bytes.len(), libc::MADV_COLLAPSE) };
    }
}

impl Drop for Reserved {
    fn drop(&mut self) {
        // SAFETY: nobody has a reference to anything there, since the map is gone.
        let _ = unsafe { munmap(self.0, self.1) };
    }
}

/// Whether pages of a file in memory may have bytes of several owners: they are larger than ours on
/// this machine, or the kernel makes them larger without anybody's asking.
pub(super) fn pages_are_larger() -> bool {
    let by_size = fs::read_dir(HUGE_PAGES).into_iter().flatten().flatten();
    let all = by_size.map(|entry| entry.path()).chain([PathBuf::from(HUGE_PAGES)]);
    let mut settings = all.filter_map(|path| fs::read_to_string(path.join("shmem_enabled")).ok());
    let words = ["[always]", "[within_size]", "[force]"];
    page_size() != PAGE || settings.any(|setting| words.iter().any(|word| setting.contains(word)))
}

const HUGE_PAGES: &str = "/sys/kernel/mm/transparent_hugepage";
