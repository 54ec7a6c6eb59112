//! Prints at the start how many clients there can be and what memory they take, and checks
//! descriptors.

use loadline_core::fleet::Fleet;
use loadline_proxy::listener::bounds::Bounds;

use crate::commands::{outside, size};

/// Says it on the standard error.
pub(super) fn tell(fleet: &Fleet) {
    tracing::info!("{}", limits(&Bounds::of(fleet)));
    if let Some(few) = outside::of_descriptors(fleet) {
        tracing::warn!("{}: {}", few.message, few.help);
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
