//! Prints at the start how many clients there can be and what memory they take, and checks
//! descriptors.

use std::io;

use anyhow::bail;
use loadline_core::fleet::Fleet;
use loadline_proxy::listener::bounds::Bounds;
use rustix::{
    io::Errno,
    process::{Resource, getrlimit},
};

use crate::commands::{
    outside::{self, MORE_DESCRIPTORS},
    size,
};

/// Says it on the standard error.
pub(super) fn tell(fleet: &Fleet) {
    tracing::info!("{}", limits(&Bounds::of(fleet)));
    if let Some(few) = outside::of_descriptors(fleet) {
        tracing::warn!("{}: {}", few.message, few.help);
    }
}

/// # Errors
/// What helps where no start can succeed, since so few descriptors may be open.
pub(super) fn ensure_descriptors() -> anyhow::Result<()> {
    match getrlimit(Resource::Nofile).current {
        Some(few @ ..DESCRIPTORS_MIN) => {
            bail!("{few} descriptors may be open, too few to start: {MORE_DESCRIPTORS}")
        }
        _ => Ok(()),
    }
}

/// Why a start failed, and what helps where it ran out of descriptors. That is known by the words:
/// not every error has that of the kernel as its source.
pub(super) fn with_remedy(why: String) -> String {
    let few = getrlimit(Resource::Nofile).current;
    match few.filter(|_| why.contains(&io::Error::from(Errno::MFILE).to_string())) {
        Some(few) => format!("{why}; {few} descriptors may be open: {MORE_DESCRIPTORS}"),
        None => why,
    }
}

fn limits(bounds: &Bounds) -> String {
    let Bounds { connections, idle, request, .. } = bounds;
    let [idle, request] = [idle, request].map(|bytes| size(bytes.get() as f64));
    format!(
        "at most {connections} client connections: {idle} of memory while all of them wait, up to \
         {request} more for each request under way"
    )
}

/// With fewer no worker can start, not even where the three that a shell gives are closed. With
/// still fewer tokio panics, since it cannot have a pipe for signals.
const DESCRIPTORS_MIN: u64 = 12;

#[cfg(test)]
mod tests {
    use loadline_core::units::Bytes;

    use super::*;

    #[test]
    fn limits_are_said_in_sizes_that_people_read() {
        let (idle, request) = (Bytes::new(10_000_000), Bytes::new(360_448));
        let bounds = Bounds { connections: 10_000, idle, request, ready: 0, descriptors: 20_000 };
        assert_eq!(
            limits(&bounds),
            "at most 10000 client connections: 10.0 MB of memory while all of them wait, up to \
             360.4 kB more for each request under way"
        );
    }
}
