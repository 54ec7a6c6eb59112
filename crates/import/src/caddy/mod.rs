//! Caddyfiles.
//!
//! ```text
//! lines --lex--> sites --directives in Caddy's order--> steps --by listener and host--> routes
//! ```

mod bind;
mod changed;
mod lex;
mod matcher;
mod proxy;
mod site;
mod tls;
mod values;

use std::collections::BTreeMap;

use self::{
    bind::{Options, Place},
    changed::Changed,
    lex::Directive,
    matcher::{Matcher, hosts},
    tls::Tls,
};
use crate::{
    Includes,
    condition::{Host, Path, When},
    files::Files,
    model::{Configuration, Lines, Listener, Table},
    steps::{self, Act, End, Route, Step},
    write::{inline, text},
};

/// What is read so far, and what of ours it makes.
struct Import<'a> {
    files: &'a mut Files,
    lines: &'a Lines,
    made: Configuration,
    /// What services of the site compress.
    encode: Table,
    options: Options,
    /// Hosts with TLS as conditions, where their sites begin, and at which addresses these listen.
    secure: Vec<(usize, When, Vec<String>)>,
    /// TLS of sites by listener.
    tls: Vec<(Place, Tls)>,
    /// What directives of the site have changed so far.
    changed: Changed,
}

/// An address of a site.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Address {
    tls: bool,
    port: u16,
    when: When,
}

/// Listeners with the steps of their sites and when those are asked.
type Ports = BTreeMap<Place, (Listener, Vec<(u8, Vec<Step>)>)>;

/// Whether a text looks like one: a block, or a directive of Caddy.
pub(crate) fn is_one(text: &str) -> bool {
    const KNOWN: [&str; 6] =
        ["reverse_proxy", "file_server", "respond", "root", "php_fastcgi", "redir"];
    let first = |line: &str| line.split_whitespace().next().map(str::to_owned);
    text.lines().filter_map(first).any(|word| KNOWN.contains(&word.as_str()))
}

/// Reads the file that was added last.
pub(crate) fn import(
    files: &mut Files,
    lines: &mut Lines,
    includes: &Includes<'_>,
) -> Configuration {
    let mut tree = lex::tree(files, lines, includes);
    let mut import = Import {
        files,
        lines,
        made: Configuration::default(),
        encode: Table::default(),
        options: Options::of(&tree),
        secure: Vec::new(),
        tls: Vec::new(),
        changed: Changed::default(),
    };
    // A file of one site may do without its braces.
    if tree.first().is_some_and(|first| first.block.is_none() && first.name() != "import") {
        let mut rest = tree.split_off(1);
        std::mem::swap(&mut rest, &mut tree);
        let head = rest.pop();
        let words = head.map(|head| head.words).unwrap_or_default();
        tree = vec![Directive { words, block: Some(std::mem::take(&mut tree)) }];
    }
    let mut made: Ports = BTreeMap::new();
    for directive in &tree {
        if directive.words.is_empty() {
            for inner in directive.block().iter().filter(|it| !Options::reads(it)) {
                let mut table = std::mem::take(&mut import.made.top);
                import.lose_all(inner, &mut table);
                import.made.top = table;
            }
        } else if directive.block.is_none() {
            let mut table = std::mem::take(&mut import.made.top);
            import.lose(directive, &mut table);
            import.made.top = table;
        } else {
            one_site(&mut import, directive, &mut made);
        }
    }
    if !has_no_redirects(&tree) {
        let secure = std::mem::take(&mut import.secure);
        to_https(secure, import.options.http_port, &mut made);
    }
    let mut listeners: Vec<(Place, Listener)> = Vec::new();
    for (place, (listener, steps)) in made {
        let listener = finish(&import, &place, listener, steps);
        add(place, listener, &mut listeners);
    }
    import.made.listeners = listeners.into_iter().map(|(_, listener)| listener).collect();
    import.made
}

/// Adds a listener to that of its port which is the same at other addresses.
fn add(place: Place, listener: Listener, all: &mut Vec<(Place, Listener)>) {
    let same = all.iter_mut().find(|(other, there)| {
        (other.port, other.tls) == (place.port, place.tls)
            && there.routes == listener.routes
            && there.service == listener.service
            && there.table.keys == listener.table.keys
    });
    match same {
        Some((_, there)) => {
            there.bind.extend(listener.bind);
            listener.table.remarks.into_iter().for_each(|remark| there.table.remark(remark));
        }
        None => all.push((place, listener)),
    }
}

fn one_site(import: &mut Import<'_>, directive: &Directive, made: &mut Ports) {
    let mut table = Table::default();
    import.encode = Table::default();
    import.changed = Changed::default();
    let tls = tls::of_site(import, directive, &mut table);
    let https = import.options.https_port;
    let mut of_site = site::steps(import, directive.block(), &mut table);
    // What nothing answers gets an empty response.
    let empty = site::empty();
    of_site.push(Step::always(directive.at(), Act::End(empty)));
    let at = bind::hosts(import, directive, &mut table);
    if at.is_empty() {
        return import.made.top.remarks.extend(table.remarks);
    }
    for address in addresses(import, directive, tls.is_some(), &mut table) {
        let mut steps = of_site.clone();
        let lost = steps::confine(&mut steps, &address.when, &[]);
        for (at, why) in lost {
            table.remark(import.lines.lost(import.files, at, &why));
        }
        if address.when.hosts.is_some() && address.tls && address.port == https {
            let of_host = When { paths: None, ..address.when.clone() };
            import.secure.push((directive.at(), of_host, at.clone()));
        }
        for host in &at {
            let place = Place { port: address.port, tls: address.tls, host: host.clone() };
            let (listener, all) = made.entry(place.clone()).or_default();
            if let Some(tls) = tls.as_ref().filter(|_| address.tls) {
                add_certificate(&tls.certificate, &mut listener.table);
                import.tls.push((place, tls.clone()));
            }
            all.push((rank(&address.when), steps.clone()));
            let remarks = std::mem::take(&mut table.remarks);
            remarks.into_iter().for_each(|remark| listener.table.remark(remark));
        }
    }
    import.made.top.remarks.extend(table.remarks);
}

fn add_certificate(own: &str, table: &mut Table) {
    let there = table.get("tls.certificates").unwrap_or("[]").to_owned();
    let there = there.trim_matches(['[', ']']);
    let both = if there.is_empty() { own.to_owned() } else { format!("{there}, {own}") };
    table.set("tls.certificates", format!("[{both}]"));
}

/// When a site is asked: those of one host first, those of any last.
fn rank(when: &When) -> u8 {
    match &when.hosts {
        Some(hosts) if hosts.iter().all(|host| matches!(host, Host::Exact(_))) => 0,
        Some(_) => 1,
        None => 2,
    }
}

/// Whether a file has Caddy lead nobody to HTTPS by itself.
fn has_no_redirects(tree: &[Directive]) -> bool {
    let mut global = tree.iter().filter(|it| it.words.is_empty()).flat_map(Directive::block);
    global.any(|it| it.name() == "auto_https" && matches!(it.arg(0), "off" | "disable_redirects"))
}

/// Caddy leads clients without TLS to these hosts with TLS, behind sites that are without.
fn to_https(secure: Vec<(usize, When, Vec<String>)>, port: u16, made: &mut Ports) {
    let others: Vec<Place> = made.keys().cloned().collect();
    let entries = [("scheme".to_owned(), text("https")), ("status".to_owned(), "308".to_owned())];
    for (at, of_host, addresses) in secure {
        for host in addresses {
            let place = Place { port, tls: false, host };
            let end = End::key("redirect", inline(&entries));
            let mut step = Step::always(at, Act::End(end));
            if others.contains(&place) {
                step.yes = of_host.clone();
            }
            let (listener, all) = made.entry(place).or_default();
            listener.table.remark("Caddy leads to HTTPS by itself.".to_owned());
            all.push((rank(&step.yes), vec![step]));
        }
    }
}

/// The addresses of a site; hosts of the same port are one.
fn addresses(
    import: &mut Import<'_>,
    directive: &Directive,
    has_certificate: bool,
    table: &mut Table,
) -> Vec<Address> {
    let mut all: Vec<Address> = Vec::new();
    let (http, https) = (import.options.http_port, import.options.https_port);
    for word in &directive.words {
        let mut address = match address(word.text.trim_end_matches(','), &import.options) {
            Ok(address) => address,
            Err(why) => {
                let help = "write a host, `:port` or `http://host:port`";
                import.files.error(&word.span, why, help);
                continue;
            }
        };
        if address.tls && !has_certificate {
            let why = format!(
                "the site is there without TLS until a listener on :{https} has protocol = \
                 \"https\" and either tls = {{ acme = \"you@example.com\" }} or certificates of \
                 files"
            );
            table.remark(import.lines.differs(import.files, directive.at(), &why));
            address.tls = false;
            address.port = if address.port == https { http } else { address.port };
        }
        let is_exact = |it: &Address| {
            matches!(it.when.hosts.as_deref(), Some([Host::Exact(_), ..]))
                && it.when.paths.is_none()
        };
        let mut same = all.iter_mut().filter(|it| it.tls == address.tls && it.port == address.port);
        match same.find(|it| is_exact(it) && is_exact(&address)) {
            Some(there) => {
                let more = address.when.hosts.unwrap_or_default();
                there.when.hosts.get_or_insert_default().extend(more);
            }
            None => all.push(address),
        }
    }
    all
}

/// The listener of a port: sites with a host of their own come before those of any.
fn finish(
    import: &Import<'_>,
    place: &Place,
    mut listener: Listener,
    mut of_sites: Vec<(u8, Vec<Step>)>,
) -> Listener {
    of_sites.sort_by_key(|(rank, _)| *rank);
    let steps: Vec<Step> = of_sites.into_iter().flat_map(|(_, steps)| steps).collect();
    let made = steps::routes(&steps);
    for (at, why) in made.lost {
        listener.table.remark(import.lines.lost(import.files, at, &why));
    }
    listener.bind = place.addresses();
    listener.label = format!("port-{}", place.port);
    listener.table.set("protocol", text(if place.tls { "https" } else { "http" }));
    if place.tls {
        tls::settle(import, place, &mut listener.table);
    }
    listener.routes = made.routes;
    let is_all = |route: &Route| route.when.is_always();
    if !listener.routes.last().is_some_and(is_all) {
        let end = site::empty();
        listener.routes.push(Route { when: When::default(), end, edits: Vec::new() });
    }
    let is_plain = |route: &mut Route| route.edits.is_empty() && route.end.is_service;
    if let Some(last) = listener.routes.pop_if(is_plain) {
        last.end.keys[0].1.trim_matches('"').clone_into(&mut listener.service);
    }
    listener
}

/// Reads an address of a site.
fn address(written: &str, options: &Options) -> Result<Address, String> {
    let (scheme, rest) = written.split_once("://").unwrap_or(("", written));
    let (authority, path) = rest.split_at(rest.find('/').unwrap_or(rest.len()));
    let (name, port) = match authority.rsplit_once(':') {
        Some((name, port)) if !authority.ends_with(']') => (name, Some(port)),
        _ => (authority, None),
    };
    let port = match port {
        Some(port) => Some(port.parse::<u16>().map_err(|_| format!("`{port}` is no port"))?),
        None => None,
    };
    let tls = match (scheme, port) {
        ("http", _) => false,
        ("https", _) => true,
        ("", Some(port)) if port == options.http_port => false,
        // A site without a name has no certificate.
        ("", _) => !name.is_empty(),
        (other, _) => return Err(format!("a site has no scheme `{other}`")),
    };
    let mut when = When::default();
    if !name.is_empty() && !name.starts_with('[') {
        when = hosts(&[name])?;
    }
    if !matches!(path, "" | "/" | "/*") {
        when.paths = Some(vec![matcher::path(path)]);
    }
    if when.paths == Some(vec![Path::Begins("/".to_owned())]) {
        when.paths = None;
    }
    let usual = if tls { options.https_port } else { options.http_port };
    let port = port.unwrap_or(usual);
    Ok(Address { tls, port, when })
}

/// A text of Caddy with placeholders as the value of a header of ours; none where one has no
/// counterpart.
fn template(value: &str) -> Option<String> {
    const KNOWN: [(&str, &str); 16] = [
        ("{http.request.host}", "$host"),
        ("{host}", "$host"),
        ("{hostport}", "$host"),
        ("{http.request.remote.host}", "$client_address"),
        ("{remote_host}", "$client_address"),
        ("{client_ip}", "$client_address"),
        ("{remote_port}", "$client_port"),
        ("{method}", "$method"),
        ("{path}", "$path"),
        ("{query}", "$query"),
        ("{scheme}", "$scheme"),
        ("{http.request.uuid}", "$request_id"),
        ("{tls_version}", "$tls_version"),
        ("{tls_cipher}", "$tls_cipher"),
        ("{tls_client_subject}", "$client_certificate"),
        ("{http.request.tls.server_name}", "$server_name"),
    ];
    let mut made = value.replace('$', "$$");
    for (theirs, ours) in KNOWN {
        made = made.replace(theirs, ours);
    }
    let is_ascii = made.bytes().all(|byte| (b' '..=b'~').contains(&byte));
    (is_ascii && !made.contains('{') && made.trim() == made).then_some(made)
}

/// Tells where a line has a variable that is not quite that of Caddy.
fn tell_variables(import: &Import<'_>, line: &Directive, table: &mut Table) {
    if line.words.iter().any(|word| word.text.contains("{hostport}")) {
        table.remark(import.lines.differs(import.files, line.at(), "`$host` is without a port"));
    }
}

impl Import<'_> {
    fn lose(&mut self, directive: &Directive, table: &mut Table) {
        let why = site::reason(directive.name());
        table.remark(self.lines.lost(self.files, directive.at(), why));
    }

    /// The same for the directive and everything inside.
    fn lose_all(&mut self, directive: &Directive, table: &mut Table) {
        self.lose(directive, table);
        for inner in directive.block() {
            self.lose_all(inner, table);
        }
    }

    /// Remarks all that is within a directive.
    fn lose_within(&mut self, directive: &Directive, why: &str, table: &mut Table) {
        for inner in directive.block() {
            table.remark(self.lines.lost(self.files, inner.at(), why));
            self.lose_within(inner, why, table);
        }
    }
}

/// What a matcher asks beside what each of the steps asks, for each alternative of it. Steps of
/// which no request is both are told.
fn matched(import: &Import<'_>, steps: &[Step], matcher: &Matcher, table: &mut Table) -> Vec<Step> {
    let mut all: Vec<Step> = Vec::new();
    let mut told = Vec::new();
    for yes in &matcher.yes {
        let mut confined = steps.to_vec();
        for (at, why) in steps::confine(&mut confined, yes, &matcher.no) {
            table.remark(import.lines.lost(import.files, at, &why));
            told.push(at);
        }
        all.extend(confined);
    }
    let is_gone = |at: usize| !told.contains(&at) && all.iter().all(|step| step.rule != at);
    for step in steps.iter().filter(|step| is_gone(step.rule)) {
        let why = "no request is both this and what is asked around it";
        table.remark(import.lines.lost(import.files, step.rule, why));
    }
    all
}
