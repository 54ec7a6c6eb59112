//! Mirroring: a service by its name, or a table of which all but `service` has a default.

use loadline_core::{
    rules::Mirror,
    units::{Bytes, Ratio},
};
use loadline_spanned::{At, Problems};

use super::{listener::Services, set};
use crate::{
    file,
    value::{either::TextOr, label::Name},
};

/// Where a route sends copies.
pub(super) fn mirror(
    given: &At<TextOr<Name, file::Mirror>>,
    services: &Services<'_>,
    problems: &mut Problems,
) -> Mirror {
    let table = match &given.value {
        TextOr::Text(name) => {
            return Mirror { service: services.find(&name.0, &given.span, problems), ..ALL };
        }
        TextOr::Table(table) => table,
    };
    let mut mirror = ALL;
    match table.service.at() {
        Some(name) => mirror.service = services.find(&name.value.0.0, &name.span, problems),
        None => {
            let help = "say who gets the copies: service = \"shadow\"".to_owned();
            problems.absent(&given.span, &given.span, "a mirror without `service`".into(), help);
        }
    }
    set(&table.share, |share| &share.0.0, &mut mirror.share);
    set(&table.body, |size| &size.0.0, &mut mirror.body_max);
    set(&table.in_flight, |whole| &whole.0, &mut mirror.in_flight_max);
    mirror
}

/// Copies of all requests. All that may be under way hold 6.4 MB of bodies at most.
const ALL: Mirror =
    Mirror { service: 0, share: Ratio::ONE, body_max: Bytes::new(64 << 10), in_flight_max: 100 };
