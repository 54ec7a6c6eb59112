//! What makes a datagram credible: HMAC-SHA256 with a key that all balancers of one virtual router
//! have, cut to half its length (RFC 2104, section 5).
//!
//! The seal covers who speaks, the active or a standby, and the number of the virtual router. So no
//! datagram can be given back to who sent it, or to balancers of another router with the same key.

use std::{fmt, fs, path::Path};

use aws_lc_rs::{constant_time::verify_slices_are_equal, hmac};

use super::StandbyError;

/// Who speaks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Side {
    Active = 1,
    Standby = 2,
}

impl Side {
    pub(crate) const fn other(self) -> Self {
        match self {
            Self::Active => Self::Standby,
            Self::Standby => Self::Active,
        }
    }
}

/// Seals datagrams, and tells which were sealed by a peer.
pub(crate) struct Seal {
    key: hmac::Key,
    router: u8,
}

impl Seal {
    /// The key is the first line of a file.
    pub(crate) fn read(path: &Path, router: u8) -> Result<Self, StandbyError> {
        let failed = |source| StandbyError::KeyFile { path: path.to_owned(), source };
        let text = fs::read_to_string(path).map_err(failed)?;
        let secret = text.lines().next().unwrap_or_default().trim();
        if secret.len() < KEY_LENGTH_MIN {
            return Err(StandbyError::KeyShort { path: path.to_owned() });
        }
        Ok(Self { key: hmac::Key::new(hmac::HMAC_SHA256, secret.as_bytes()), router })
    }

    /// Appends the seal.
    pub(crate) fn close(&self, side: Side, datagram: &mut Vec<u8>) {
        let tag = self.tag(side, datagram);
        datagram.extend_from_slice(&tag);
    }

    /// What was sealed by this side; nothing where it was not.
    pub(crate) fn open<'a>(&self, side: Side, sealed: &'a [u8]) -> Option<&'a [u8]> {
        let (datagram, tag) = sealed.split_last_chunk::<TAG>()?;
        verify_slices_are_equal(&self.tag(side, datagram), tag).ok().map(|()| datagram)
    }

    fn tag(&self, side: Side, datagram: &[u8]) -> [u8; TAG] {
        let mut context = hmac::Context::with_key(&self.key);
        context.update(&[side as u8, self.router]);
        context.update(datagram);
        let mut tag = [0; TAG];
        tag.copy_from_slice(&context.sign().as_ref()[..TAG]);
        tag
    }
}

impl fmt::Debug for Seal {
    /// Without the key.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Seal").field("router", &self.router).finish_non_exhaustive()
    }
}

/// Bytes of a seal.
const TAG: usize = 16;

/// As many hexadecimal digits are 64 bits, far beyond guessing one by one over a network.
const KEY_LENGTH_MIN: usize = 16;

#[cfg(test)]
mod tests {
    use super::*;

    fn seal(name: &str, key: &str, router: u8) -> Result<Seal, StandbyError> {
        let path = std::env::temp_dir().join(format!("loadline-{}-{name}", std::process::id()));
        fs::write(&path, key).unwrap();
        let seal = Seal::read(&path, router);
        fs::remove_file(&path).unwrap();
        seal
    }

    #[test]
    fn only_the_same_key_of_the_same_router_opens_what_the_other_side_has_said() {
        let one = seal("one", "0123456789abcdef\nsecond line", 51).unwrap();
        let same = seal("same", "0123456789abcdef", 51).unwrap();
        let mut sealed = b"facts".to_vec();
        one.close(Side::Active, &mut sealed);
        assert_eq!(sealed.len(), 5 + TAG);
        assert_eq!(same.open(Side::Active, &sealed), Some(&b"facts"[..]));
        assert_eq!(same.open(Side::Standby, &sealed), None, "given back to who sent it");
        let others = [("other", "0123456789abcdeg", 51), ("router", "0123456789abcdef", 52)];
        for (name, key, router) in others {
            assert_eq!(
                seal(name, key, router).unwrap().open(Side::Active, &sealed),
                None,
                "{name}"
            );
        }
        for at in 0..sealed.len() {
            let mut changed = sealed.clone();
            changed[at] ^= 1;
            assert_eq!(same.open(Side::Active, &changed), None, "byte {at}");
        }
        assert_eq!(same.open(Side::Active, b"short"), None);
    }

    #[test]
    fn a_short_key_is_refused_and_no_key_is_shown() {
        assert!(matches!(seal("short", "secret\n", 1), Err(StandbyError::KeyShort { .. })));
        let shown = format!("{:?}", seal("shown", "0123456789abcdef", 1).unwrap());
        assert_eq!(shown, "Seal { router: 1, .. }");
    }
}
