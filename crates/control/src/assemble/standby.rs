//! Standby balancers.

use std::net::SocketAddr;

use loadline_core::fleet::Standby;
use loadline_spanned::{At, Key, Problems, Text};

use super::set;
use crate::{file, value::endpoint::Endpoint};

/// What the file says of them; none where it says nothing that can be used.
pub(super) fn standby(
    given: &Key<file::Standby>,
    admin: &Key<file::Admin>,
    problems: &mut Problems,
) -> Option<Standby> {
    let At { value, span } = given.at()?;
    if !admin.given() {
        let help = "add [admin] with a `bind`: keepalived asks there whether loadline lives";
        problems.absent(span, span, "a standby without `[admin]`".to_owned(), help.to_owned());
    }
    let missing = [
        ("bind", !value.bind.given(), "bind = \"10.0.0.2:4343\""),
        ("peers", !value.peers.given(), "peers = [\"10.0.0.3:4343\"]"),
        ("key_file", !value.key_file.given(), "key_file = \"/etc/loadline/standby.key\""),
    ];
    for (key, _, example) in missing.into_iter().filter(|(_, is_missing, _)| *is_missing) {
        let message = format!("a standby without `{key}`");
        problems.absent(span, span, message, format!("write it: {example}"));
    }
    let bind = value.bind.get()?.0.0;
    let peers = peers(&value.peers, bind, problems);
    let mut standby = Standby::between(bind, peers, value.key_file.get()?.0.0.clone());
    set(&value.interval, |time| &time.0.0, &mut standby.interval);
    let byte = |whole: Option<u32>, default| {
        whole.and_then(|whole| u8::try_from(whole).ok()).unwrap_or(default)
    };
    standby.router_id = byte(value.router_id.get().map(|it| it.0), standby.router_id);
    standby.priority = byte(value.priority.get().map(|it| it.0), standby.priority);
    Some(standby)
}

/// Others than ourselves, each once, and of the family of our end.
fn peers(
    given: &Key<Vec<At<Text<Endpoint>>>>,
    bind: SocketAddr,
    problems: &mut Problems,
) -> Vec<SocketAddr> {
    let mut found = Vec::new();
    if let Some(list) = given.at().filter(|list| list.value.is_empty())
        && !problems.is_damaged(&list.span)
    {
        let help = "name the other balancer: peers = [\"10.0.0.3:4343\"]".to_owned();
        problems.error(&list.span, "nobody stands by".to_owned(), "empty", help);
    }
    for At { value, span } in given.get().into_iter().flatten() {
        let peer = value.0.0;
        let wrong = if peer == bind {
            Some(("this is our own end", "name the others here, and ourselves as `bind`"))
        } else if found.contains(&peer) {
            Some(("a peer that is named above", "keep one of them"))
        } else if peer.is_ipv6() != bind.is_ipv6() {
            Some(("a peer of another family than `bind`", "take addresses of one family"))
        } else {
            None
        };
        if let Some((message, help)) = wrong {
            problems.error(span, message.to_owned(), "this peer", help.to_owned());
        }
        found.push(peer);
    }
    found
}
