//! Buffers, which a connection borrows only while it has bytes to hold.
//!
//! An idle connection owns no buffer. The lists are last in, first out, so that at any load the
//! few buffers in use are the ones in the processor's cache. They are zeroed when made and never
//! again.

use std::cell::{Cell, RefCell};

use crate::io::pipe::Pipes;

/// Bytes that were read, and space for more behind them.
#[derive(Debug)]
pub(crate) struct Buffer {
    bytes: Box<[u8]>,
    start: usize,
    end: usize,
}

impl Buffer {
    fn new(size: usize) -> Self {
        Self { bytes: vec![0; size].into_boxed_slice(), start: 0, end: 0 }
    }

    /// The bytes it holds.
    pub(crate) fn filled(&self) -> &[u8] {
        &self.bytes[self.start..self.end]
    }

    /// Where further bytes go.
    pub(crate) fn space(&mut self) -> &mut [u8] {
        &mut self.bytes[self.end..]
    }

    /// Notes that `count` bytes were put into [`Buffer::space`].
    pub(crate) fn add(&mut self, count: usize) {
        self.end += count;
    }

    /// Copies `bytes` behind those it holds. They must fit.
    pub(crate) fn append(&mut self, bytes: &[u8]) {
        self.space()[..bytes.len()].copy_from_slice(bytes);
        self.add(bytes.len());
    }

    /// Forgets the first `count` bytes.
    pub(crate) fn consume(&mut self, count: usize) {
        self.start += count;
    }

    /// Forgets all bytes but the first `count`.
    pub(crate) fn truncate(&mut self, count: usize) {
        self.end = self.start + count;
    }

    /// Holds `bytes` instead, which must fit.
    pub(crate) fn replace(&mut self, bytes: &[u8]) {
        self.clear();
        self.append(bytes);
    }

    /// Holds `bytes`, which are no more, in the place of the first `count`.
    pub(crate) fn replace_first(&mut self, count: usize, bytes: &[u8]) {
        self.consume(count - bytes.len());
        self.bytes[self.start..self.start + bytes.len()].copy_from_slice(bytes);
    }

    fn clear(&mut self) {
        (self.start, self.end) = (0, 0);
    }
}

/// The buffers of one worker that nobody uses.
#[derive(Debug)]
pub(crate) struct Buffers {
    free: RefCell<Vec<Buffer>>,
    /// For heads alone.
    small: RefCell<Vec<Buffer>>,
    texts: RefCell<Vec<Vec<u8>>>,
    /// For payload that need not come into memory.
    pub(crate) pipes: Pipes,
    size: Cell<usize>,
}

impl Buffers {
    /// No buffers yet.
    pub(crate) const fn new() -> Self {
        Self {
            free: RefCell::new(Vec::new()),
            small: RefCell::new(Vec::new()),
            texts: RefCell::new(Vec::new()),
            pipes: Pipes::new(),
            size: Cell::new(BUFFER_BYTES),
        }
    }

    /// Makes buffers large enough for a head of `bytes` from now on.
    pub(crate) fn fit(&self, bytes: usize) {
        let size = bytes.max(BUFFER_BYTES);
        if self.size.replace(size) != size {
            self.free.borrow_mut().clear();
        }
    }

    /// An empty buffer.
    pub(crate) fn take(&self) -> Buffer {
        let free = self.free.borrow_mut().pop();
        free.unwrap_or_else(|| Buffer::new(self.size.get()))
    }

    /// A buffer that holds `bytes` and has space behind them: one of its own for more than others
    /// hold, as a head may have whose limit was lowered when half of it had come.
    pub(crate) fn take_with(&self, bytes: &[u8]) -> Buffer {
        let size = self.size.get();
        let mut buffer =
            if bytes.len() < size { self.take() } else { Buffer::new(bytes.len() + size) };
        buffer.append(bytes);
        buffer
    }

    /// A buffer that holds `bytes` and has space behind them: for so many at least, or for as many
    /// as there is in one.
    pub(crate) fn take_with_space(&self, bytes: &[u8], most: usize) -> Buffer {
        if bytes.len().saturating_add(most) > SMALL_BYTES {
            return self.take_with(bytes);
        }
        let small = self.small.borrow_mut().pop();
        let mut buffer = small.unwrap_or_else(|| Buffer::new(SMALL_BYTES));
        buffer.append(bytes);
        buffer
    }

    /// Takes a buffer back.
    pub(crate) fn give(&self, mut buffer: Buffer) {
        let (list, most) = match buffer.bytes.len() {
            SMALL_BYTES => (&self.small, SMALL_KEPT),
            size if size == self.size.get() => (&self.free, BUFFERS_KEPT),
            _ => return,
        };
        let mut list = list.borrow_mut();
        if list.len() < most {
            buffer.clear();
            list.push(buffer);
        }
    }

    /// An empty text, for a head that is written.
    pub(crate) fn take_text(&self) -> Vec<u8> {
        self.texts.borrow_mut().pop().unwrap_or_else(|| Vec::with_capacity(TEXT_BYTES))
    }

    /// Takes a text back.
    pub(crate) fn give_text(&self, mut text: Vec<u8>) {
        let mut texts = self.texts.borrow_mut();
        if (TEXT_BYTES..=TEXT_BYTES_KEPT).contains(&text.capacity()) && texts.len() < TEXTS_KEPT {
            text.clear();
            texts.push(text);
        }
    }

    /// Gives a text that is kept for long no more memory than it needs: what it had is for others.
    pub(crate) fn trim_text(&self, text: &mut Vec<u8>) {
        if text.len() < text.capacity() / 2 {
            let trimmed = text.as_slice().to_vec();
            self.give_text(std::mem::replace(text, trimmed));
        }
    }
}

/// Large enough that a 50 kB answer is one read and one write, small enough for the second-level
/// cache.
pub(crate) const BUFFER_BYTES: usize = 128 << 10;

/// 4 MiB a worker; more are given back to the system after a burst.
const BUFFERS_KEPT: usize = 32;

/// Holds a head, and what else is read with it where not more is wanted.
const SMALL_BYTES: usize = 8 << 10;

/// 4 MiB a worker: one for each response whose body waits with the kernel.
const SMALL_KEPT: usize = 512;

/// Most heads are shorter.
const TEXT_BYTES: usize = 2 << 10;

/// One of more than this is dropped: somebody sent a large head.
const TEXT_BYTES_KEPT: usize = 16 << 10;

/// One for each request in flight, up to this.
const TEXTS_KEPT: usize = 1024;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_buffer_gives_back_what_was_put_in_and_starts_empty_again() {
        let buffers = Buffers::new();
        let mut buffer = buffers.take();
        buffer.append(b"hello, world");
        buffer.consume(7);
        buffer.truncate(4);
        assert_eq!(buffer.filled(), b"worl");
        buffers.give(buffer);
        assert!(buffers.take().filled().is_empty());
    }

    #[test]
    fn what_is_first_in_a_buffer_can_become_shorter() {
        let mut buffer = Buffers::new().take();
        buffer.append(b"a long head, and a body");
        buffer.replace_first(11, b"a head");
        assert_eq!(buffer.filled(), b"a head, and a body");
    }

    #[test]
    fn buffers_grow_with_the_largest_head() {
        let buffers = Buffers::new();
        buffers.give(buffers.take());
        buffers.fit(1 << 20);
        assert_eq!(buffers.take().space().len(), 1 << 20);
    }

    #[test]
    fn what_was_read_into_a_larger_buffer_is_held_and_has_space_behind_it() {
        let buffers = Buffers::new();
        for length in [0, BUFFER_BYTES - 1, BUFFER_BYTES, 1 << 20] {
            let mut buffer = buffers.take_with(&vec![b'x'; length]);
            assert_eq!(buffer.filled().len(), length);
            assert!(!buffer.space().is_empty(), "{length}");
            buffers.give(buffer);
        }
        assert_eq!(buffers.take().space().len(), BUFFER_BYTES);
    }

    #[test]
    fn little_is_read_into_a_small_buffer_which_is_used_again() {
        let buffers = Buffers::new();
        let buffer = buffers.take_with_space(b"HTTP/1.1 200", 4 << 10);
        assert_eq!((buffer.filled(), buffer.bytes.len()), (&b"HTTP/1.1 200"[..], SMALL_BYTES));
        let had = buffer.bytes.as_ptr();
        buffers.give(buffer);
        assert_eq!(buffers.take_with_space(b"", 1).bytes.as_ptr(), had);
        for (held, most) in [(SMALL_BYTES, 1), (1, SMALL_BYTES), (0, usize::MAX)] {
            let buffer = buffers.take_with_space(&vec![b'x'; held], most);
            assert_eq!(buffer.bytes.len(), BUFFER_BYTES, "{held} {most}");
        }
    }

    #[test]
    fn a_head_that_is_kept_for_a_slow_body_takes_its_length_and_the_next_head_what_it_had() {
        let buffers = Buffers::new();
        let mut text = buffers.take_text();
        text.extend_from_slice(b"POST / HTTP/1.1\r\n\r\n");
        let had = text.as_ptr();
        buffers.trim_text(&mut text);
        assert_eq!((text.as_slice(), text.capacity()), (&b"POST / HTTP/1.1\r\n\r\n"[..], 19));
        buffers.trim_text(&mut text);
        assert_eq!(text.capacity(), 19, "there is nothing left to trim");
        let next = buffers.take_text();
        assert_eq!((next.as_ptr(), next.len()), (had, 0));
        buffers.give_text(text);
        assert!(buffers.take_text().capacity() >= TEXT_BYTES, "a short one is not handed out");
    }
}
