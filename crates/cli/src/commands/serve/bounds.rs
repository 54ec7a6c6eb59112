//! Prints at the start how many clients there can be and what memory they take, and checks
//! descriptors.

use loadline_core::fleet::Fleet;
use loadline_proxy::listener::bounds::Bounds;
use rustix::process::{Resource, getrlimit};

use crate::commands::size;

/// Says it on the standard error.
pub(super) fn tell(fleet: &Fleet) {
    let bounds = Bounds::of(fleet);
    tracing::info!("{}", limits(&bounds));
    let descriptors = getrlimit(Resource::Nofile).current;
    if let Some(few) = descriptors.filter(|it| *it < bounds.descriptors) {
        tracing::warn!("{}", needed(few, &bounds));
    }
}

fn needed(few: u64, bounds: &Bounds) -> String {
    let (ready, keys) = match bounds.ready {
        0 => (String::new(), "max_connections"),
        ready => (format!(" and {ready} of `prewarm`"), "max_connections or prewarm"),
    };
    format!(
        "{few} descriptors may be open, {} are needed for so many clients and as many connections \
         to servers{ready}: raise LimitNOFILE (ulimit -Hn), or lower {keys}",
        bounds.descriptors
    )
}

fn limits(bounds: &Bounds) -> String {
    let Bounds { connections, idle, request, .. } = bounds;
    let [idle, request] = [idle, request].map(|bytes| size(bytes.get() as f64));
    format!(
        "at most {connections} client connections: {idle} of memory while all of them wait, up to \
         {request} more for each request under way"
    )
}

#[cfg(test)]
mod tests {
    use loadline_core::units::Bytes;

    use super::*;

    #[test]
    fn descriptors_of_prewarm_are_said_to_be_needed() {
        let (idle, request) = (Bytes::new(0), Bytes::new(0));
        let bounds = Bounds { connections: 10_000, idle, request, ready: 0, descriptors: 20_000 };
        let told = needed(256, &bounds);
        assert!(told.starts_with("256 descriptors may be open, 20000 are needed for "), "{told}");
        assert!(
            told.ends_with(" to servers: raise LimitNOFILE (ulimit -Hn), or lower max_connections")
        );
        let told = needed(256, &Bounds { ready: 400, descriptors: 20_400, ..bounds });
        assert!(told.contains(" to servers and 400 of `prewarm`: raise "), "{told}");
        assert!(told.ends_with(" or lower max_connections or prewarm"), "{told}");
    }

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
