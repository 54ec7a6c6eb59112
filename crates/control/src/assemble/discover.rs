//! Groups with discovered servers, and the name servers for them.

use loadline_core::{
    decide::discovery::AnswerValidity,
    fleet::{Discovery, Family, ListPlace, Server, Source},
};
use loadline_spanned::{At, Key, Problems};

use super::set;
use crate::{discovery::NameServers, file, value::address::Place};

/// Where the servers of a group are listed, each like `template`; none where the file says them.
pub(super) fn discovery(
    given: &Key<file::Discover>,
    template: &Server,
    problems: &mut Problems,
) -> Option<Discovery> {
    let given = given.at()?;
    let place = place(given, problems)?;
    let mut allow_empty = false;
    set(&given.value.allow_empty, |it| it, &mut allow_empty);
    let source = Source { place, allow_empty };
    Some(Discovery { source, template: template.clone() })
}

fn place(At { value, span }: &At<file::Discover>, problems: &mut Problems) -> Option<ListPlace> {
    let family = value.family.get().map_or(Family::default(), |word| word.0.0);
    let file = value.file.at().map(|at| (ListPlace::File(at.value.0.0.clone()), &at.span));
    let dns = value.dns.at().and_then(|at| {
        let place = named(&at.value.0, family);
        if place.is_none() {
            let help = "write it as one of `servers`, or the name it has".to_owned();
            problems.error(&at.span, "an address needs no name server".to_owned(), "here", help);
        }
        Some((place?, &at.span))
    });
    let srv = value.srv.at();
    let srv = srv.map(|at| (ListPlace::Services { name: at.value.0.0.clone(), family }, &at.span));
    let unread = value.dns.given() && dns.is_none();
    let mut places = [file, dns, srv].into_iter().flatten();
    let Some((place, _)) = places.next() else {
        if !unread {
            let message = "a table that does not say where servers are listed".to_owned();
            let help = "name the list: file = \"web.json\", dns = \"web.internal:80\" or srv = \
                        \"_http._tcp.web.internal\"";
            problems.absent(span, span, message, help.to_owned());
        }
        return None;
    };
    if let Some((_, second)) = places.next() {
        let message = "a second place where servers are listed".to_owned();
        let help = "keep one of `file`, `dns` and `srv`; another is another group".to_owned();
        problems.error(second, message, "this one", help);
    }
    if let (Some(family), ListPlace::File(_)) = (value.family.at(), &place) {
        let message = "`family` chooses nothing in a file".to_owned();
        let help = "leave it out: it is for `dns` and `srv`".to_owned();
        problems.warning(&family.span, message, "no effect", help);
    }
    Some(place)
}

fn named(place: &Place, family: Family) -> Option<ListPlace> {
    let Place::Name(name, port) = place else { return None };
    Some(ListPlace::Addresses { name: name.clone(), port: *port, family })
}

/// Who is asked for names.
pub(crate) fn name_servers(given: &Key<file::Dns>, problems: &mut Problems) -> NameServers {
    let mut dns = NameServers::default();
    let Some(given) = given.get() else { return dns };
    if let Some(list) = given.servers.at() {
        dns.servers = list.value.iter().map(|it| it.value.0.0).collect();
        if dns.servers.is_empty() && !problems.is_damaged(&list.span) {
            let help = "name one, or leave the key out for those of /etc/resolv.conf".to_owned();
            problems.error(&list.span, "no name server".to_owned(), "empty", help);
        }
    }
    set(&given.timeout, |time| &time.0.0, &mut dns.timeout);
    set(&given.attempts, |whole| &whole.0, &mut dns.attempts);
    set(&given.start_wait, |time| &time.0.0, &mut dns.start_wait);
    let AnswerValidity { min, max } = &mut dns.terms;
    set(&given.min_ttl, |time| &time.0.0, min);
    set(&given.max_ttl, |time| &time.0.0, max);
    if *max < *min {
        let at = given.max_ttl.place_or(&given.min_ttl.place_or(&(0..0)));
        let message = format!("`max_ttl` ({max}) is below `min_ttl` ({min})");
        problems.error(&at, message, "too short", format!("write max_ttl = \"{min}\" or more"));
    }
    dns
}
