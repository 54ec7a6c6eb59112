//! `stream` of nginx: TCP without HTTP.

use super::{
    Import,
    lex::Directive,
    scope::Scope,
    upstream::{self, Target},
    values::{self, time},
};
use crate::{
    model::{Listener, Table},
    write::{inline, text},
};

/// Writes the listeners of a `stream` block.
pub(super) fn stream(import: &mut Import<'_>, block: &[Directive]) {
    for directive in block {
        match directive.name() {
            "upstream" => upstream::upstream(import, directive),
            "server" => server(import, &Scope::default().with(block).with(directive.block())),
            _ => {
                let mut table = std::mem::take(&mut import.made.top);
                import.lose_all(directive, &mut table);
                import.made.top = table;
            }
        }
    }
}

fn server(import: &mut Import<'_>, scope: &Scope<'_>) {
    let mut listener = Listener::default();
    let mut table = Table::default();
    let mut tls = false;
    let mut first: Option<[bool; 2]> = None;
    for directive in scope.own() {
        match directive.name() {
            "listen" if directive.args().contains(&"udp") => {
                let why = "datagrams are forwarded by the kernel: docs/forwarding.md";
                table.remark(import.lines.lost(import.files, directive.at(), why));
            }
            "listen" => match values::listen(directive.arg(0)) {
                Some((bind, _)) if is_bound(import, &bind) => {
                    let why = format!("`{bind}` is bound above: this server is left out there");
                    table.remark(import.lines.lost(import.files, directive.at(), &why));
                }
                Some((bind, _)) => {
                    let options = ["ssl", "proxy_protocol"];
                    let options = options.map(|option| directive.args().contains(&option));
                    if *first.get_or_insert(options) == options {
                        tls = options[0];
                        listener.bind.push(bind);
                    } else {
                        let why = "a listener has `ssl` and `proxy_protocol` on all addresses";
                        table.remark(import.lines.lost(import.files, directive.at(), why));
                    }
                }
                None => {
                    let why = "a listener has an IP address and a port";
                    table.remark(import.lines.lost(import.files, directive.at(), why));
                }
            },
            "proxy_pass" => pass(import, directive, scope, &mut listener, &mut table),
            "proxy_timeout"
            | "proxy_connect_timeout"
            | "ssl_certificate"
            | "ssl_certificate_key"
            | "proxy_ssl"
            | "proxy_protocol" => {}
            _ => import.lose_all(directive, &mut table),
        }
    }
    listener.table = table;
    listener.table.set("protocol", text(if tls { "tls" } else { "tcp" }));
    if first.is_some_and(|[_, accept_proxy]| accept_proxy) {
        listener.table.set("accept_proxy", "true");
    }
    let (chain, key) = (scope.value("ssl_certificate"), scope.value("ssl_certificate_key"));
    if let (true, Some(chain), Some(key)) = (tls, chain, key) {
        let pair = [("chain".to_owned(), text(chain)), ("key".to_owned(), text(key))];
        listener.table.set("tls.certificates", format!("[{}]", inline(&pair)));
    }
    listener.table.set("timeouts.idle", text(&idle(scope)));
    if listener.service.is_empty() || tls && listener.table.get("tls.certificates").is_none() {
        listener.bind.clear();
    }
    import.made.listeners.push(listener);
}

/// Whether a listener has this address already.
fn is_bound(import: &Import<'_>, bind: &str) -> bool {
    import.made.listeners.iter().flat_map(|it| &it.bind).any(|it| it == bind)
}

/// How long a connection may be without a byte: the shorter of both sides counts.
fn idle(scope: &Scope<'_>) -> String {
    scope.value("proxy_timeout").and_then(time).unwrap_or_else(|| IDLE.to_owned())
}

/// That time unless `proxy_timeout` says otherwise.
const IDLE: &str = "10m";

fn pass(
    import: &mut Import<'_>,
    directive: &Directive,
    scope: &Scope<'_>,
    listener: &mut Listener,
    table: &mut Table,
) {
    upstream::tell_settings(import, scope, table);
    let target = Target::read(directive.arg(0)).and_then(|mut target| {
        target.tls = scope.value("proxy_ssl") == Some("on");
        let mut said = upstream::said(&target, scope, false);
        said.set("timeouts.idle", text(&idle(scope)));
        if scope.value("proxy_protocol") == Some("on") {
            said.set("send_proxy", text("v1"));
        }
        upstream::service(import, directive, &target, said)
            .ok_or_else(|| upstream::NO_SERVER.to_owned())
    });
    match target {
        Ok(name) => listener.service = name,
        Err(why) => table.remark(import.lines.lost(import.files, directive.at(), &why)),
    }
}
