//! Configurations of nginx.
//!
//! ```text
//! directives --lex--> tree --+--upstream--> services
//!                            +--server, location--> steps --by listener and host--> routes
//! ```

mod choice;
mod constants;
mod headers;
mod lex;
mod limit;
mod listener;
mod location;
mod named;
mod order;
mod reasons;
mod redirect;
mod rewrites;
mod scope;
mod stream;
mod test;
mod upstream;
mod values;

use std::collections::{BTreeMap, BTreeSet};

use self::{lex::Directive, reasons::reason, scope::Scope, upstream::Known, values::Literals};
use crate::{
    Includes,
    files::Files,
    model::{Configuration, Lines, Service, Table},
    write::text,
};

/// What is read so far, and what of ours it makes.
struct Import<'a> {
    files: &'a mut Files,
    lines: &'a Lines,
    made: Configuration,
    /// Upstreams as their blocks say.
    upstreams: BTreeMap<String, Service>,
    /// Those that became no service.
    lost_upstreams: BTreeSet<String>,
    /// Named locations that `try_files` leads to.
    reached: BTreeSet<usize>,
    /// What `proxy_pass` has named so far.
    targets: Vec<Known>,
    /// Whether it is told what `add_header` without `always` differs in.
    told_always: bool,
    /// The same of `proxy_redirect`, which nginx has by itself.
    told_redirect: bool,
    /// Whether it is told what is compressed.
    told_gzip: bool,
    /// Zones of limits: what they count by, and the rate.
    zones: BTreeMap<String, (String, String)>,
    /// Places in which a zone limits requests, by its name and by the lines that say so.
    limited: BTreeMap<String, Vec<usize>>,
    /// Lines of which a route cannot say what they ask, with the reason.
    unsaid: Vec<(usize, String)>,
}

/// A `server` on one listener.
#[derive(Clone, Debug)]
struct VirtualHost<'a> {
    at: usize,
    names: Vec<&'a str>,
    tls: bool,
    /// The port of the listener.
    port: &'a str,
    /// What the listener allows of a body.
    max_body: String,
    /// The block of its `server`.
    block: &'a [Directive],
}

impl VirtualHost<'_> {
    /// Its first name, as `$server_name` has it: a dot before it is none of its own. A pattern is
    /// the name of no host.
    fn name(&self) -> &str {
        let first = self.names.first().filter(|name| !name.contains('*') && !name.starts_with('~'));
        first.map_or("", |name| name.trim_start_matches('.'))
    }

    /// What is literal in its texts.
    fn literals(&self) -> Literals<'_> {
        Literals { server_name: self.name(), port: self.port, ..Literals::default() }
    }
}

/// Whether a text looks like one: a directive ends with a semicolon, or a block of nginx begins.
pub(crate) fn is_one(text: &str) -> bool {
    const BLOCKS: [&str; 3] = ["events", "http", "stream"];
    let is_block = |line: &str| {
        let name = line.split_once('{').map(|(name, _)| name.trim());
        name.is_some_and(|name| BLOCKS.contains(&name)) || line.ends_with('}') && line.contains(';')
    };
    let mut lines = text.lines().map(|line| line.split('#').next().unwrap_or_default().trim());
    lines.any(|line| line.ends_with(';') || is_block(line))
}

/// Reads the file that was added last.
pub(crate) fn import(
    files: &mut Files,
    lines: &mut Lines,
    includes: &Includes<'_>,
) -> Configuration {
    let mut tree = lex::tree(files, lines, includes, 0, 0);
    constants::fill(&mut tree);
    let mut import = Import {
        files,
        lines,
        made: Configuration::default(),
        upstreams: BTreeMap::new(),
        lost_upstreams: BTreeSet::new(),
        reached: BTreeSet::new(),
        targets: Vec::new(),
        told_always: false,
        told_redirect: false,
        told_gzip: false,
        zones: BTreeMap::new(),
        limited: BTreeMap::new(),
        unsaid: Vec::new(),
    };
    let is_part = |name: &str| matches!(name, "server" | "upstream");
    // A file of conf.d or sites-enabled is what stands within `http`.
    if tree.iter().any(|it| is_part(it.name())) && !tree.iter().any(|it| it.name() == "http") {
        http(&mut import, &tree);
        return import.made;
    }
    for directive in &tree {
        match directive.name() {
            "http" => http(&mut import, directive.block()),
            // How connections are waited for is nobody's affair here.
            "events" => {}
            "stream" => {
                import.forget_upstreams();
                stream::stream(&mut import, directive.block());
                import.forget_upstreams();
            }
            "worker_processes" if directive.arg(0).parse::<u64>().is_ok() => {
                import.made.edge.set("threads", directive.arg(0));
            }
            _ => {
                let mut table = std::mem::take(&mut import.made.edge);
                import.lose_all(directive, &mut table);
                import.made.edge = table;
            }
        }
    }
    import.made
}

fn http(import: &mut Import<'_>, block: &[Directive]) {
    for directive in block {
        match directive.name() {
            "upstream" => upstream::upstream(import, directive),
            "limit_req_zone" => zone(import, directive),
            "proxy_cache_path" => {
                let why = "the cache is in memory: [cache] memory and disk say how large it is";
                let remark = import.lines.differs(import.files, directive.at(), why);
                import.made.cache.set("memory", text("256MiB"));
                import.made.cache.remark(remark);
            }
            _ => {}
        }
    }
    let mut table = Table::default();
    for directive in block {
        if !listener::is_read(directive.name()) {
            import.lose_all(directive, &mut table);
        }
    }
    import.made.top.remarks.extend(table.remarks);
    listener::listeners(import, &Scope::default().with(block));
}

/// `limit_req_zone KEY zone=NAME:SIZE rate=RATE`.
fn zone(import: &mut Import<'_>, directive: &Directive) {
    let args = directive.args();
    let option = |name: &str| args.iter().find_map(|arg| arg.strip_prefix(name));
    let (Some(zone), Some(rate)) = (option("zone="), option("rate=")) else {
        let help = "write `limit_req_zone KEY zone=NAME:SIZE rate=10r/s;`";
        let span = directive.words[0].span.clone();
        return import.files.error(&span, "a limit without `zone=` and `rate=`", help);
    };
    let name = zone.split(':').next().unwrap_or(zone).to_owned();
    import.zones.insert(name, (directive.arg(0).to_owned(), rate.to_owned()));
}

impl Import<'_> {
    /// Names of upstreams are of `http` or of `stream` alone.
    fn forget_upstreams(&mut self) {
        self.upstreams.clear();
        self.lost_upstreams.clear();
        self.targets.clear();
    }

    /// Remarks a directive that has no counterpart, unless nothing is lost without it.
    fn lose(&mut self, directive: &Directive, table: &mut Table) {
        if !reasons::is_needless(directive.name()) && !reasons::is_off(directive) {
            table.remark(self.lines.lost(self.files, directive.at(), &reason(directive)));
        }
    }

    /// The same with all that is within it.
    fn lose_all(&mut self, directive: &Directive, table: &mut Table) {
        self.lose(directive, table);
        let is_opaque =
            matches!(directive.name(), "types" | "map" | "geo" | "split_clients" | "match");
        if is_opaque {
            return;
        }
        let why = format!("it belongs to `{}`: {}", directive.name(), reason(directive));
        self.lose_within(directive, &why, table);
    }

    /// Remarks all that is within a directive.
    fn lose_within(&mut self, directive: &Directive, why: &str, table: &mut Table) {
        for inner in directive.block() {
            table.remark(self.lines.lost(self.files, inner.at(), why));
            self.lose_within(inner, why, table);
        }
    }
}
