//! Managed: smooth weighted round robin, by weights that are made of how the servers do.
//!
//! The [`manager`](crate::decide::manager) makes the weights; a server is chosen by them as in
//! [`round_robin`](super::round_robin).

use crate::decide::policy::About;

pub(super) const ABOUT: About = About {
    name: "managed",
    meaning: "Smooth weighted round robin, by weights that `manager` makes of how the servers do.",
    ..About::PLAIN
};
