//! A record: a response as it is on disk.
//!
//! ```text
//! | magic | length of head | length of body | epoch | check of head | check of these | 32 bytes
//! | key: URL, variant, values of Vary; metadata; tags; fields; whole of slices      | head
//! | up to 256 KiB | check | up to 256 KiB | check | ...                              | body
//! ```
//! Numbers are little-endian. Checks are CRC-32 (of IEEE 802.3): they find what was cut off and
//! what a disk got wrong, and keep nobody from writing to the directory who may. That of a block
//! counts its place and the check of the head in, so that no block of another record passes for it.

use std::sync::Arc;

use bytes::Bytes;
use loadline_core::{
    cache::{Metadata, Vary},
    time::{Duration, UnixTime},
};

use crate::cache::{
    object::{Length, Response},
    selectors::Selectors,
};

/// A response with its key.
#[derive(Clone, Debug)]
pub(super) struct Head {
    pub(super) url: Box<[u8]>,
    pub(super) response: Arc<Response>,
    pub(super) metadata: Metadata,
}

/// What is known of a record by its first bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Opening {
    pub(super) head: u32,
    pub(super) body: u64,
    /// The last purge that had come when it was written.
    pub(super) epoch: u64,
    pub(super) check: u32,
}

impl Opening {
    pub(super) const BYTES: usize = 32;

    /// Reads the opening; none if it is invalid.
    pub(super) fn read(bytes: &[u8]) -> Option<Self> {
        let mut from = bytes.get(..Self::BYTES)?;
        let all = from;
        let magic = u32_of(&mut from)?;
        let opening = Self {
            head: u32_of(&mut from)?,
            body: u64_of(&mut from)?,
            epoch: u64_of(&mut from)?,
            check: u32_of(&mut from)?,
        };
        let is_whole = u32_of(&mut from)? == crc32fast::hash(&all[..Self::BYTES - 4]);
        (magic == MAGIC && is_whole && opening.head <= HEAD_MAX).then_some(opening)
    }

    fn write(&self) -> [u8; Self::BYTES] {
        let mut bytes = Vec::with_capacity(Self::BYTES);
        bytes.extend(MAGIC.to_le_bytes());
        bytes.extend(self.head.to_le_bytes());
        bytes.extend(self.body.to_le_bytes());
        bytes.extend(self.epoch.to_le_bytes());
        bytes.extend(self.check.to_le_bytes());
        bytes.extend(crc32fast::hash(&bytes).to_le_bytes());
        let mut all = [0; Self::BYTES];
        all.copy_from_slice(&bytes);
        all
    }

    /// Where the body begins.
    pub(super) const fn body_at(&self) -> u64 {
        Self::BYTES as u64 + self.head as u64
    }

    /// The whole record.
    pub(super) const fn record_bytes(&self) -> u64 {
        self.body_at() + on_disk(self.body)
    }

    /// Reads the head; none if it does not belong to this record.
    pub(super) fn head(&self, bytes: &[u8]) -> Option<Head> {
        let is_whole = bytes.len() == self.head as usize && crc32fast::hash(bytes) == self.check;
        is_whole.then(|| Head::read(bytes, self.body)).flatten()
    }
}

impl Head {
    /// The record of a body of this length, up to the body.
    pub(super) fn write(&self, body: u64, epoch: u64) -> Option<(Opening, Vec<u8>)> {
        let head = self.text();
        let length = u32::try_from(head.len()).ok().filter(|length| *length <= HEAD_MAX)?;
        let opening = Opening { head: length, body, epoch, check: crc32fast::hash(&head) };
        Some((opening, [&opening.write()[..], &head].concat()))
    }

    fn text(&self) -> Vec<u8> {
        let Response { status, text, length, variant, selectors } = &*self.response;
        let Selectors { vary, secondary, tags } = &**selectors;
        let mut to = Vec::with_capacity(text.len() + self.url.len() + 256);
        write_text(&mut to, &self.url);
        write_text(&mut to, variant);
        let names: &[Vec<u8>] = match vary {
            Vary::Fields(names) => names,
            Vary::Everything => &[],
        };
        write_list(&mut to, names.iter().map(Vec::as_slice));
        write_text(&mut to, secondary.as_deref().unwrap_or_default());
        write_metadata(&mut to, &self.metadata);
        to.extend(status.to_le_bytes());
        write_list(&mut to, tags.iter().map(|tag| &**tag));
        write_text(&mut to, text);
        to.extend(length.slices().map_or(0, |slices| slices.complete).to_le_bytes());
        to
    }

    fn read(bytes: &[u8], body: u64) -> Option<Self> {
        let mut from = bytes;
        let from = &mut from;
        let url = read_text(from)?.into();
        let variant = read_text(from)?.into();
        let vary = Vary::Fields(read_list(from)?.into());
        let secondary = Some(read_text(from)?.into());
        let metadata = read_metadata(from)?;
        let status = u16_of(from)?;
        let tags = read_list(from)?.into_iter().map(Into::into).collect();
        let text = read_text(from)?.into();
        let length = match u64_of(from)? {
            0 => Length::Whole(body),
            complete => Length::Sliced { complete, size: u32::try_from(body).ok()? },
        };
        let selectors = Selectors { vary, secondary, tags }.into();
        let response = Response { status, text, length, variant, selectors };
        from.is_empty().then(|| Self { url, response: Arc::new(response), metadata })
    }
}

/// The check of a block, by its place in the body and the check of the head of its record.
fn block_check(head: u32, index: u64, bytes: &[u8]) -> u32 {
    let mut check = crc32fast::Hasher::new();
    check.update(&head.to_le_bytes());
    check.update(&index.to_le_bytes());
    check.update(bytes);
    check.finalize()
}

/// A block without the check behind it; none if the check fails.
pub(super) fn block(head: u32, index: u64, mut read: Bytes) -> Option<Bytes> {
    let check = read.split_off(read.len().checked_sub(CHECK)?);
    (block_check(head, index, &read).to_le_bytes() == *check).then_some(read)
}

/// Divides a body into blocks, and gives each and its check to `to`, in pieces.
pub(super) fn write_body<E>(
    head: u32,
    body: impl Iterator<Item = Bytes>,
    to: &mut impl FnMut(&[u8]) -> Result<(), E>,
) -> Result<(), E> {
    let mut blocks = Blocks::new(head);
    for piece in body {
        blocks.write(&piece, to)?;
    }
    blocks.end(to)
}

/// A body on its way to disk.
#[derive(Debug)]
pub(super) struct Blocks {
    head: u32,
    index: u64,
    filled: usize,
    check: crc32fast::Hasher,
}

impl Blocks {
    pub(super) fn new(head: u32) -> Self {
        let mut blocks = Self { head, index: 0, filled: 0, check: crc32fast::Hasher::new() };
        blocks.begin();
        blocks
    }

    fn begin(&mut self) {
        self.check = crc32fast::Hasher::new();
        self.check.update(&self.head.to_le_bytes());
        self.check.update(&self.index.to_le_bytes());
        self.filled = 0;
    }

    /// More of the body.
    pub(super) fn write<E>(
        &mut self,
        mut bytes: &[u8],
        to: &mut impl FnMut(&[u8]) -> Result<(), E>,
    ) -> Result<(), E> {
        while !bytes.is_empty() {
            let room = BLOCK as usize - self.filled;
            let (now, rest) = bytes.split_at(room.min(bytes.len()));
            self.check.update(now);
            to(now)?;
            self.filled += now.len();
            bytes = rest;
            if self.filled == BLOCK as usize {
                self.close(to)?;
            }
        }
        Ok(())
    }

    fn close<E>(&mut self, to: &mut impl FnMut(&[u8]) -> Result<(), E>) -> Result<(), E> {
        to(&self.check.clone().finalize().to_le_bytes())?;
        self.index += 1;
        self.begin();
        Ok(())
    }

    /// The body is over.
    pub(super) fn end<E>(&mut self, to: &mut impl FnMut(&[u8]) -> Result<(), E>) -> Result<(), E> {
        if self.filled > 0 { self.close(to) } else { Ok(()) }
    }
}

/// What a body of this length takes on disk.
pub(super) const fn on_disk(body: u64) -> u64 {
    body + body.div_ceil(BLOCK) * CHECK as u64
}

fn write_metadata(to: &mut Vec<u8>, metadata: &Metadata) {
    let Metadata { status, generated, received, lifetime, .. } = metadata;
    to.extend(status.to_le_bytes());
    to.extend(generated.as_millis().to_le_bytes());
    to.extend(received.as_millis().to_le_bytes());
    to.extend(lifetime.as_nanos().to_le_bytes());
    for span in [metadata.stale_while_revalidate, metadata.stale_if_error] {
        to.push(u8::from(span.is_some()));
        to.extend(span.map_or(0, |it| Duration::from(it).as_nanos()).to_le_bytes());
    }
    for flag in [
        metadata.may_be_stale, metadata.needs_validation, metadata.has_validator,
        metadata.immutable, metadata.for_authorized,
    ] {
        to.push(u8::from(flag));
    }
}

fn read_metadata(from: &mut &[u8]) -> Option<Metadata> {
    let status = u16_of(from)?;
    let moment = |from: &mut &[u8]| u64_of(from).map(|it| UnixTime::from_millis(it.cast_signed()));
    let span = |from: &mut &[u8]| u64_of(from).map(Duration::from_nanos);
    let (generated, received, lifetime) = (moment(from)?, moment(from)?, span(from)?);
    let maybe = |from: &mut &[u8]| {
        let is_some = flag_of(from)?;
        let span = span(from)?;
        Some(is_some.then_some(span.into()))
    };
    Some(Metadata {
        status,
        generated,
        received,
        lifetime,
        stale_while_revalidate: maybe(from)?,
        stale_if_error: maybe(from)?,
        may_be_stale: flag_of(from)?,
        needs_validation: flag_of(from)?,
        has_validator: flag_of(from)?,
        immutable: flag_of(from)?,
        for_authorized: flag_of(from)?,
    })
}

/// Appends a text behind its length.
pub(super) fn write_text(to: &mut Vec<u8>, text: &[u8]) {
    to.extend((text.len() as u32).to_le_bytes());
    to.extend_from_slice(text);
}

pub(super) fn read_text<'a>(from: &mut &'a [u8]) -> Option<&'a [u8]> {
    let length = u32_of(from)? as usize;
    let (text, rest) = from.split_at_checked(length)?;
    *from = rest;
    Some(text)
}

pub(super) fn write_list<'a>(to: &mut Vec<u8>, list: impl ExactSizeIterator<Item = &'a [u8]>) {
    to.extend((list.len() as u32).to_le_bytes());
    list.for_each(|text| write_text(to, text));
}

pub(super) fn read_list(from: &mut &[u8]) -> Option<Vec<Vec<u8>>> {
    let count = u32_of(from)?;
    (0..count).map(|_| read_text(from).map(<[u8]>::to_vec)).collect()
}

fn flag_of(from: &mut &[u8]) -> Option<bool> {
    let (first, rest) = from.split_first()?;
    *from = rest;
    (*first <= 1).then_some(*first == 1)
}

pub(super) fn u16_of(from: &mut &[u8]) -> Option<u16> {
    let (number, rest) = from.split_first_chunk()?;
    *from = rest;
    Some(u16::from_le_bytes(*number))
}

pub(super) fn u32_of(from: &mut &[u8]) -> Option<u32> {
    let (number, rest) = from.split_first_chunk()?;
    *from = rest;
    Some(u32::from_le_bytes(*number))
}

pub(super) fn u64_of(from: &mut &[u8]) -> Option<u64> {
    let (number, rest) = from.split_first_chunk()?;
    *from = rest;
    Some(u64::from_le_bytes(*number))
}

/// The bytes of a body that are read and checked at a time.
pub(super) const BLOCK: u64 = 256 << 10;

/// Of a block.
pub(super) const CHECK: usize = 4;

/// Heads of responses have a megabyte at most; URL and tags have a limit each.
const HEAD_MAX: u32 = 4 << 20;

/// `LLR2`: a record of the second version of the format.
const MAGIC: u32 = u32::from_le_bytes(*b"LLR2");

#[cfg(test)]
mod tests;
