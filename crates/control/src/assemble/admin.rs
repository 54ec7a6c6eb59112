//! The admin interface: a warning unless its address is of the loopback, conflicts of the address,
//! token, host names.

use std::path::Path;

use loadline_core::fleet::Listener;
use loadline_spanned::{Key, Problems};

use crate::{
    admin::{Bind, Settings},
    file,
    value::address::{AdminPlace, overlap},
};

/// What the file says of it beside these listeners and the socket of upgrades; none where it says
/// nothing.
pub(crate) fn admin(
    given: &Key<file::Admin>,
    (listeners, control): (&[Listener], Option<&Path>),
    problems: &mut Problems,
) -> Option<Settings> {
    let given = given.at()?;
    let Some(place) = given.value.bind.at() else {
        let message = "the admin interface without `bind`".to_owned();
        let help = "say where: bind = \"127.0.0.1:9090\"".to_owned();
        problems.absent(&given.span, &given.span, message, help);
        return None;
    };
    let bind = match &place.value.0 {
        AdminPlace::Address(address) => {
            if !address.ip().is_loopback() {
                let message = format!("the admin interface can be reached at {}", address.ip());
                let help = "it has no TLS, and no token for reading: bind = \"127.0.0.1:9090\", or \
                            restrict access by a firewall";
                problems.warning(&place.span, message, "not the loopback", help.to_owned());
            }
            if let Some(other) = listeners.iter().find(|it| overlap(it.bind, *address)) {
                let message = format!("`{address}` is bound by the listener of `{}`", other.bind);
                let help = "give the admin interface its own address or port".to_owned();
                problems.error(&place.span, message, "the same port", help);
            }
            Bind::Address(*address)
        }
        AdminPlace::Socket(path) => {
            if control == Some(Path::new(path)) {
                let message = format!("`{path}` is the socket of `edge.control` too");
                let help = "give the admin interface a path of its own".to_owned();
                problems.error(&place.span, message, "the same path", help);
            }
            Bind::Socket(path.into())
        }
    };
    let token_file = given.value.token_file.get().map(|path| path.0.0.clone().into());
    let hosts = given.value.hosts.get().into_iter().flatten();
    let hosts = hosts.map(|host| host.value.0.0.clone()).collect();
    let detail = given.value.metrics.get().map_or_else(Default::default, |word| word.0.0);
    Some(Settings { bind, token_file, hosts, detail })
}
