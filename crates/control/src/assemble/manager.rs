//! The manager of the policy `managed`.

use loadline_core::{
    decide::manager::{DEFAULT, Manager},
    fleet::PolicyKind,
    units::Ratio,
};
use loadline_spanned::{Key, Problems};

use super::set;
use crate::file;

/// The manager of a service.
pub(super) fn manager(
    given: &Key<file::Manager>,
    policy: PolicyKind,
    problems: &mut Problems,
) -> Manager {
    let mut manager = DEFAULT;
    let Some(table) = given.at() else { return manager };
    if policy != PolicyKind::Managed {
        let message = format!("the policy `{}` has no manager", policy.name());
        let help = "`manager` is for the policy `managed`".to_owned();
        problems.warning(&table.span, message, "no effect", help);
    }
    let keys = &table.value;
    let parts = &mut manager.proportions;
    set(&keys.active, |share| &share.0.0, &mut parts.active);
    set(&keys.new, |share| &share.0.0, &mut parts.new);
    set(&keys.check, |share| &share.0.0, &mut parts.check);
    set(&keys.reported, |share| &share.0.0, &mut parts.reported);
    if [parts.active, parts.new, parts.check, parts.reported] == [Ratio::ZERO; 4] {
        let message = "a manager for which nothing counts".to_owned();
        let help =
            "write at least one of `active`, `new`, `check` and `reported` above 0%".to_owned();
        problems.error(&table.span, message, "all are 0%", help);
    }
    set(&keys.interval, |time| &time.0.0, &mut manager.interval);
    set(&keys.smoothing, |number| &number.0.0, &mut manager.smoothing);
    set(&keys.sensitivity, |share| &share.0.0, &mut manager.sensitivity);
    manager
}
