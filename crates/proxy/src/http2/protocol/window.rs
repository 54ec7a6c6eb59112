//! What a peer may send (RFC 9113, 5.2), of a stream or of the connection.

/// A window towards us. Bytes leave it when they come, and come back when somebody has taken them:
/// half of the window at a time, which costs few frames and lets the sender go on meanwhile. Where
/// others hold most of it, half of what is left: it never closes while something was taken.
#[derive(Debug)]
pub(super) struct ReceiveWindow {
    size: u32,
    /// Bytes that may still come; below 0 where the size was lowered.
    left: i64,
    /// Bytes that were taken and have not been given back.
    taken: u32,
}

impl ReceiveWindow {
    /// A window of which the peer knows this size.
    pub(super) const fn new(size: u32) -> Self {
        Self { size, left: size as i64, taken: 0 }
    }

    /// Lets bytes in; false where they are more than there is room for. None need none (RFC 9113,
    /// 6.9.1).
    pub(super) const fn admit(&mut self, bytes: usize) -> bool {
        self.left -= bytes as i64;
        bytes == 0 || self.left >= 0
    }

    /// Notes that bytes were taken: by how much to tell the peer that the window has grown, if by
    /// anything yet.
    pub(super) const fn release(&mut self, bytes: usize) -> Option<u32> {
        self.taken += bytes as u32;
        let open = if self.left < self.size as i64 { self.left } else { self.size as i64 };
        if self.taken == 0 || (self.taken as i64) < open / 2 {
            return None;
        }
        self.left += self.taken as i64;
        Some(std::mem::replace(&mut self.taken, 0))
    }

    /// How many bytes may still come.
    pub(super) const fn left(&self) -> i64 {
        self.left
    }

    /// Bytes that have come and have not been taken.
    #[cfg(test)]
    pub(super) const fn untaken(&self) -> i64 {
        self.size as i64 - self.left - self.taken as i64
    }

    /// Changes the size: the peer knows it already.
    pub(super) const fn resize(&mut self, size: u32) {
        self.left += size as i64 - self.size as i64;
        self.size = size;
    }

    /// Makes it larger: by how much to tell the peer.
    pub(super) const fn grow(&mut self, size: u32) -> Option<u32> {
        let more = size.saturating_sub(self.size);
        self.resize(self.size + more);
        if more > 0 { Some(more) } else { None }
    }
}
