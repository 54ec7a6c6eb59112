//! The segment that is written to, as the thread knows it that writes.

use std::{fs::File, io, os::unix::fs::FileExt as _};

use loadline_core::cache::Vary;

use super::{
    Arc, Entry, Ident, Segment, Shared,
    segment::{Contents, Listed},
};

/// The segment that is written to.
pub(super) struct Tail {
    pub(super) number: u32,
    pub(super) file: Arc<File>,
    pub(super) contents: Contents,
    /// What has been written, and is not yet in the file.
    pub(super) buffer: Vec<u8>,
    /// Where the buffer begins.
    pub(super) flushed: u64,
}

impl Tail {
    pub(super) fn begin(shared: &Shared, epoch: u64) -> io::Result<Self> {
        let newest = shared.state().segments.back().map_or(0, |newest| newest.number);
        let segment = Segment::create(&shared.path, newest + 1, epoch)?;
        let (number, file) = (segment.number, segment.file.clone());
        shared.state().segments.push_back(segment);
        let contents = Contents::default();
        Ok(Self { number, file, contents, buffer: Vec::new(), flushed: Segment::HEAD })
    }

    pub(super) fn end(&self) -> u64 {
        self.flushed + self.buffer.len() as u64
    }

    /// Bytes of its list.
    pub(super) fn list_bytes(&self) -> u64 {
        (self.contents.listed.len() as u64 + 1) * LISTED
    }

    pub(super) fn write(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.buffer.extend_from_slice(bytes);
        if self.buffer.len() >= BUFFER { self.flush() } else { Ok(()) }
    }

    pub(super) fn flush(&mut self) -> io::Result<()> {
        self.file.write_all_at(&self.buffer, self.flushed)?;
        self.flushed += self.buffer.len() as u64;
        self.buffer.clear();
        Ok(())
    }

    pub(super) fn sync(&mut self) -> io::Result<()> {
        self.flush()?;
        self.file.sync_data()
    }

    pub(super) fn list(&mut self, ident: Ident, entry: &Entry, vary: &Vary) {
        let Some(vary) = self.contents.vary(vary) else { return };
        let Entry { offset, bytes, .. } = *entry;
        self.contents.listed.push(Listed { ident, offset, bytes, vary });
    }

    /// Leaves the segment to those who read.
    pub(super) fn settle(self, shared: &Shared) {
        let urls = self.contents.listed.iter().map(|it| it.ident.url).collect();
        let end = self.end();
        let mut state = shared.state();
        if let Some(segment) = state.segments.back_mut().filter(|it| it.number == self.number) {
            (segment.urls, segment.bytes) = (urls, end);
        }
    }
}

/// What is written at a time.
const BUFFER: usize = 1 << 20;

/// What a record takes in the list of its segment.
const LISTED: u64 = 22;
