//! Conditions of HAProxy: named and anonymous ACLs, `if` and `unless`, as conditions of routes.

use std::collections::{BTreeMap, BTreeSet};

use super::{changed::Changed, lex::Word, list};
use crate::condition::{Host, Network, Path, Place, Value, When, compile};
use crate::expression::{escape, whole};
use crate::parameter;

/// What is known of a listener when a condition is asked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Context {
    pub(super) tls: bool,
    pub(super) port: Option<u16>,
}

/// A condition: one of these alternatives has to hold.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Test {
    Always(bool),
    When(Vec<When>),
}

/// All of `yes`, none of `no`.
#[derive(Clone, Debug, Default)]
pub(super) struct Term {
    pub(super) yes: When,
    pub(super) no: Vec<When>,
}

impl Term {
    /// Whether it holds for every request.
    pub(super) fn is_always(&self) -> bool {
        self.yes.is_always() && self.no.is_empty()
    }

    /// Whether it asks for nothing but the address of the client.
    pub(super) fn is_of_connection(&self) -> bool {
        let is_it = |when: &When| When { sources: None, ..when.clone() }.is_always();
        self.no.iter().chain([&self.yes]).all(is_it)
    }

    /// Whether it asks for a cookie with any value.
    pub(super) fn finds_cookie(&self) -> bool {
        let mut fields = self.no.iter().chain([&self.yes]).flat_map(|when| &when.fields);
        fields.any(|it| it.place == Place::Cookie && it.values.contains(&Value::Any))
    }
}

/// Named ACLs of a proxy: the words behind the name, in the order of the file.
#[derive(Clone, Debug, Default)]
pub(super) struct Acls {
    named: BTreeMap<String, Vec<Vec<Word>>>,
    /// Names of which not all lines may be known: a route cannot ask for them.
    conditional: BTreeSet<String>,
    /// The headers that are asked for.
    pub(super) changed: Changed,
}

impl Acls {
    /// None yet; of those with these names not all lines may be known.
    pub(super) fn without(conditional: BTreeSet<String>) -> Self {
        Self { conditional, ..Self::default() }
    }

    /// Adds a line `acl NAME CRITERION ...`.
    pub(super) fn add(&mut self, words: &[Word]) {
        let (name, rest) = (words[1].text.clone(), words[2..].to_vec());
        self.named.entry(name).or_default().push(rest);
    }

    /// Whether an ACL has this name.
    pub(super) fn has(&self, name: &str) -> bool {
        self.named.contains_key(name) || builtin(name).is_some() || UNKNOWN.contains(&name)
    }

    /// The same on headers as the client sent them.
    pub(super) fn as_sent(&self) -> Self {
        Self { changed: Changed::default(), ..self.clone() }
    }

    /// Whether a condition asks for what begins so, by itself or by its name.
    pub(super) fn ask_for(&self, samples: &[&str], words: &[Word]) -> bool {
        let is_it = |word: &Word| samples.iter().any(|it| word.text.starts_with(it));
        let named = |word: &Word| self.named.get(word.text.trim_start_matches('!'));
        let by_name = |word: &Word| {
            named(word).is_some_and(|all| all.iter().filter_map(|it| it.first()).any(is_it))
        };
        words.iter().any(|word| is_it(word) || by_name(word))
    }

    /// The terms of the condition in `words`, which begin with `if` or `unless`, or are empty. One
    /// term is enough.
    pub(super) fn terms(&self, words: &[Word], context: Context) -> Result<Vec<Term>, String> {
        let Some((first, rest)) = words.split_first() else { return Ok(vec![Term::default()]) };
        let literals = self.literals(rest, context)?;
        if first.text == "unless" {
            return negated(&literals);
        }
        let mut terms = Vec::new();
        for all in literals.split(Option::is_none) {
            terms.extend(conjunction(all.iter().flatten())?);
        }
        Ok(terms)
    }

    /// The literals in order: whether one is negated and what it tests; none for `or`.
    fn literals(
        &self,
        words: &[Word],
        context: Context,
    ) -> Result<Vec<Option<(bool, Test)>>, String> {
        let mut literals = Vec::new();
        let mut negated = false;
        let mut words = words.iter();
        while let Some(word) = words.next() {
            let mut text = word.text.as_str();
            while let Some(rest) = text.strip_prefix('!') {
                (negated, text) = (!negated, rest);
            }
            match text {
                "" => continue,
                or if is_or(or) => literals.push(None),
                "{" => {
                    let inside: Vec<Word> =
                        words.by_ref().take_while(|word| word.text != "}").cloned().collect();
                    literals.push(Some((negated, self.test(&inside, context)?)));
                }
                name => literals.push(Some((negated, self.named(name, context)?))),
            }
            negated = false;
        }
        Ok(literals)
    }

    fn named(&self, name: &str, context: Context) -> Result<Test, String> {
        let is_known = !self.conditional.contains(name);
        let Some(definitions) = self.named.get(name).filter(|_| is_known) else {
            let builtin = builtin(name).filter(|_| is_known);
            return builtin.ok_or_else(|| format!("a route cannot ask for `{name}`"));
        };
        let mut alternatives = Vec::new();
        for definition in definitions {
            match self.test(definition, context)? {
                Test::Always(true) => return Ok(Test::Always(true)),
                Test::Always(false) => {}
                Test::When(more) => alternatives.extend(more),
            }
        }
        Ok(if alternatives.is_empty() { Test::Always(false) } else { Test::When(alternatives) })
    }

    /// What a criterion asks, of the headers as they are behind the rules so far.
    fn test(&self, words: &[Word], context: Context) -> Result<Test, String> {
        let asked = test(words, context)?;
        let criterion = criterion(words)?;
        let name = criterion.argument.split(',').next().unwrap_or_default();
        match criterion.sample {
            "hdr" | "req.hdr" | "req.fhdr" | "hdr_ip" | "hdr_cnt" | "req.hdr_cnt" => {
                self.changed.find(name, asked)
            }
            "cook" | "req.cook" => self.changed.find("cookie", asked),
            _ => Ok(asked),
        }
    }
}

/// Terms in which all of these hold.
fn conjunction<'a>(literals: impl Iterator<Item = &'a (bool, Test)>) -> Result<Vec<Term>, String> {
    let mut terms = vec![Term::default()];
    for (negated, test) in literals {
        match test {
            Test::Always(holds) if holds == negated => return Ok(Vec::new()),
            Test::Always(_) => {}
            Test::When(alternatives) if *negated => {
                terms.iter_mut().for_each(|term| term.no.extend(alternatives.iter().cloned()));
            }
            Test::When(alternatives) => {
                let mut more = Vec::new();
                for (term, when) in
                    terms.iter().flat_map(|term| alternatives.iter().map(move |when| (term, when)))
                {
                    let yes = term.yes.and(when)?;
                    more.extend(yes.map(|yes| Term { yes, no: term.no.clone() }));
                }
                terms = more;
            }
        }
    }
    Ok(terms)
}

/// `unless`: the opposite of what follows, which is said where no two have to hold together.
fn negated(literals: &[Option<(bool, Test)>]) -> Result<Vec<Term>, String> {
    let mut terms = vec![Term::default()];
    for all in literals.split(Option::is_none) {
        let opposite: Vec<_> =
            all.iter().flatten().map(|(negated, test)| (!negated, test.clone())).collect();
        let mut more = Vec::new();
        for literal in &opposite {
            for other in conjunction(std::iter::once(literal))? {
                for term in &terms {
                    let no = term.no.iter().chain(&other.no).cloned().collect();
                    let yes = term.yes.and(&other.yes)?;
                    more.extend(yes.map(|yes| Term { yes, no }));
                }
            }
        }
        terms = more;
    }
    Ok(terms)
}

/// Whether a word is between two alternatives.
pub(super) fn is_or(word: &str) -> bool {
    word == "||" || word.eq_ignore_ascii_case("or")
}

/// ACLs that HAProxy has by itself.
fn builtin(name: &str) -> Option<Test> {
    let method = |names: &[&str]| {
        let methods = Some(names.iter().map(|&name| name.to_owned()).collect());
        Test::When(vec![When { methods, ..When::default() }])
    };
    Some(match name {
        "TRUE" | "HTTP" => Test::Always(true),
        "FALSE" => Test::Always(false),
        "METH_GET" => method(&["GET", "HEAD"]),
        "METH_HEAD" => method(&["HEAD"]),
        "METH_POST" => method(&["POST"]),
        "METH_PUT" => method(&["PUT"]),
        "METH_DELETE" => method(&["DELETE"]),
        "METH_OPTIONS" => method(&["OPTIONS"]),
        "METH_CONNECT" => method(&["CONNECT"]),
        "METH_TRACE" => method(&["TRACE"]),
        "LOCALHOST" => {
            let networks = ["127.0.0.1/8", "::1"].iter().filter_map(|it| Network::parse(it));
            let sources = Some(networks.collect());
            Test::When(vec![When { sources, ..When::default() }])
        }
        _ => return None,
    })
}

/// ACLs that HAProxy has by itself, and that no route can ask.
const UNKNOWN: [&str; 11] = [
    "HTTP_1.0", "HTTP_1.1", "HTTP_2.0", "HTTP_3.0", "HTTP_CONTENT", "HTTP_URL_ABS",
    "HTTP_URL_SLASH", "HTTP_URL_STAR", "RDP_COOKIE", "REQ_CONTENT", "WAIT_END",
];

/// How a pattern is compared.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Match {
    Exact,
    Begins,
    Ends,
    Contains,
    Regex,
    Segment,
    Domain,
    Found,
}

/// A criterion in words: `path_beg -i /api /v1`.
struct Criterion<'a> {
    /// Without its argument and suffix.
    sample: &'a str,
    argument: &'a str,
    how: Match,
    ignore_case: bool,
    patterns: Vec<&'a str>,
}

fn test(words: &[Word], context: Context) -> Result<Test, String> {
    let criterion = criterion(words)?;
    let always = |holds| Ok(Test::Always(holds));
    if criterion.how == Match::Found && OF_ALL.contains(&criterion.sample) {
        return always(true);
    }
    match criterion.sample {
        "always_true" => always(true),
        "always_false" => always(false),
        "ssl_fc" => always(match criterion.patterns.first() {
            Some(&("0" | "false")) => !context.tls,
            _ => context.tls,
        }),
        "dst_port" => match context.port {
            Some(port) => ports(&criterion.patterns).map(|any| {
                Test::Always(any.iter().any(|(low, high)| (*low..=*high).contains(&port)))
            }),
            None => Err("the port of the listener is not known".to_owned()),
        },
        "src" => sources(&criterion),
        "method" => methods(&criterion),
        "path" | "url" | "uri" | "pathq" => paths(&criterion),
        "hdr" | "req.hdr" | "req.fhdr" | "hdr_ip" if is_host(criterion.argument) => {
            hosts(&criterion)
        }
        "base" => Err("a route asks for host and path apart".to_owned()),
        "hdr" | "req.hdr" | "req.fhdr" => fields(&criterion, Place::Header),
        "hdr_cnt" | "req.hdr_cnt" => fields(&criterion, Place::Header),
        "cook" | "req.cook" => fields(&criterion, Place::Cookie),
        "urlp" | "url_param" => parameters(&criterion),
        "ssl_fc_sni" if !context.tls => always(false),
        "ssl_fc_sni" | "req.ssl_sni" | "req_ssl_sni" => hosts(&criterion),
        sample => Err(format!("a route cannot ask for `{sample}`")),
    }
}

/// Samples that are found in every request.
const OF_ALL: [&str; 6] = ["path", "pathq", "url", "uri", "method", "src"];

fn is_host(argument: &str) -> bool {
    argument.split(',').next().is_some_and(|name| name.eq_ignore_ascii_case("host"))
}

fn criterion(words: &[Word]) -> Result<Criterion<'_>, String> {
    let Some((first, rest)) = words.split_first() else {
        return Err("the condition is empty".to_owned());
    };
    let text = first.text.as_str();
    let (name, tail) = text.split_at(text.find(['(', ',']).unwrap_or(text.len()));
    let argument = tail.strip_prefix('(').and_then(|tail| tail.split_once(')'));
    let (argument, tail) = argument.unwrap_or(("", tail));
    let converters = tail.trim_start_matches(',');
    if !matches!(converters, "" | "lower" | "host_only" | "lower,host_only" | "host_only,lower") {
        return Err(format!("a route knows no converter `{converters}`"));
    }
    let suffixes = [
        ("_beg", Match::Begins),
        ("_end", Match::Ends),
        ("_sub", Match::Contains),
        ("_reg", Match::Regex),
        ("_dir", Match::Segment),
        ("_dom", Match::Domain),
        ("_str", Match::Exact),
        ("_len", Match::Found),
    ];
    let suffix = suffixes.iter().find(|(suffix, _)| name.ends_with(suffix));
    let (sample, mut how) = suffix
        .map_or((name, Match::Exact), |(suffix, how)| (&name[..name.len() - suffix.len()], *how));
    if name.ends_with("_len") {
        return Err("a route cannot ask for a length".to_owned());
    }
    let mut ignore_case = converters.contains("lower");
    let mut patterns = Vec::new();
    let mut words = rest.iter().map(|word| word.text.as_str());
    while let Some(word) = words.next() {
        match word {
            "-i" if patterns.is_empty() => ignore_case = true,
            "-m" if patterns.is_empty() => {
                let name = words.next().unwrap_or_default();
                if name == "ip" && sample != "src" {
                    return Err("a route asks for the client's address alone".to_owned());
                }
                how = comparison(name)?;
            }
            "-f" | "-M" | "-u" | "-n" if patterns.is_empty() => {
                return Err(format!(
                    "patterns are not read from files (`{word}`): list them in the route, or \
                     addresses in a `source_file`"
                ));
            }
            "--" if patterns.is_empty() => {}
            pattern => patterns.push(pattern),
        }
    }
    Ok(Criterion { sample, argument, how, ignore_case, patterns })
}

fn comparison(name: &str) -> Result<Match, String> {
    Ok(match name {
        "str" | "ip" => Match::Exact,
        "beg" => Match::Begins,
        "end" => Match::Ends,
        "sub" => Match::Contains,
        "reg" => Match::Regex,
        "dir" => Match::Segment,
        "dom" => Match::Domain,
        "found" | "bool" => Match::Found,
        other => return Err(format!("a route cannot compare by `-m {other}`")),
    })
}

fn ports(patterns: &[&str]) -> Result<Vec<(u16, u16)>, String> {
    let range = |text: &&str| {
        let (low, high) = text.split_once([':', '-']).unwrap_or((text, text));
        Some((low.parse().ok()?, high.parse().ok()?))
    };
    let ranges: Option<Vec<_>> = patterns.iter().map(range).collect();
    ranges.ok_or_else(|| "not a list of ports".to_owned())
}

fn sources(criterion: &Criterion<'_>) -> Result<Test, String> {
    let read = |text: &&str| Network::parse(text).ok_or_else(|| format!("`{text}` is no network"));
    let networks: Result<Vec<_>, _> = criterion.patterns.iter().map(read).collect();
    Ok(Test::When(vec![When { sources: Some(networks?), ..When::default() }]))
}

fn methods(criterion: &Criterion<'_>) -> Result<Test, String> {
    let is_name = |text: &&str| text.bytes().all(|it| it.is_ascii_uppercase() || it == b'-');
    if criterion.how != Match::Exact || !criterion.patterns.iter().all(is_name) {
        return Err("a route asks for methods by name, in capitals".to_owned());
    }
    let methods = Some(criterion.patterns.iter().map(|it| (*it).to_owned()).collect());
    Ok(Test::When(vec![When { methods, ..When::default() }]))
}

fn paths(criterion: &Criterion<'_>) -> Result<Test, String> {
    if matches!(criterion.sample, "url" | "uri" | "pathq") && criterion.how != Match::Begins {
        return Err(format!(
            "a route asks for path and query apart, not for `{}`",
            criterion.sample
        ));
    }
    let is_path = criterion.sample == "path";
    let path = |text: &&str| {
        if !is_path && (text.contains(['?', '#']) || !text.starts_with('/')) {
            return Err(format!("a route asks for path and query apart, not for `{text}`"));
        }
        if criterion.how != Match::Regex && text.contains('%') {
            return Err("paths are compared decoded: write the pattern so".to_owned());
        }
        if is_removed(text, criterion.how) {
            return Err("paths are compared without `.`, `..` and empty segments".to_owned());
        }
        Ok(match criterion.how {
            Match::Exact if !criterion.ignore_case => Path::Exact((*text).to_owned()),
            Match::Begins if !criterion.ignore_case => Path::Begins((*text).to_owned()),
            how => {
                let regex = expression(text, how, criterion.ignore_case);
                compile(&regex)?;
                Path::Regex(regex)
            }
        })
    };
    let paths: Result<Vec<_>, String> = criterion.patterns.iter().map(path).collect();
    Ok(Test::When(vec![When::path(paths?)]))
}

/// Whether a pattern asks for what no path has where it is compared.
fn is_removed(text: &str, how: Match) -> bool {
    let dots = if how == Match::Regex { "\\.\\." } else { ".." };
    text.contains(dots) || text.contains("//") || text.contains("/./")
}

/// An expression that finds what the pattern does.
fn expression(text: &str, how: Match, ignore_case: bool) -> String {
    let flag = if ignore_case { "(?i)" } else { "" };
    let plain = escape(text.trim_matches('/'));
    match how {
        Match::Exact => format!("{flag}^{}$", escape(text)),
        Match::Begins => format!("{flag}^{}", escape(text)),
        Match::Ends => format!("{flag}{}$", escape(text)),
        Match::Contains | Match::Found => format!("{flag}{}", escape(text)),
        Match::Regex => format!("{flag}{text}"),
        Match::Segment => format!("{flag}(^|/){plain}(/|$)"),
        Match::Domain => format!("{flag}(^|[/?.:]){}($|[/?.:])", escape(text)),
    }
}

fn hosts(criterion: &Criterion<'_>) -> Result<Test, String> {
    let mut hosts = Vec::new();
    let mut values = Vec::new();
    if criterion.how == Match::Found {
        if criterion.sample.ends_with("ssl_sni") || criterion.sample == "ssl_fc_sni" {
            return Err("a route cannot ask whether there is a server name".to_owned());
        }
        return Ok(Test::When(vec![When::field(Place::Header, "Host", vec![Value::Any])]));
    }
    for text in &criterion.patterns {
        let lower = text.to_ascii_lowercase();
        let bare = without_port(&lower);
        match criterion.how {
            Match::Exact => hosts.push(Host::Exact(bare.to_owned())),
            Match::Ends if bare.starts_with('.') => hosts.push(Host::Under(bare[1..].to_owned())),
            how => {
                let regex = whole(&expression(text, how, true));
                compile(&regex)?;
                values.push(Value::Regex(regex));
            }
        }
    }
    let name = |host: &Host| match host {
        Host::Exact(name) | Host::Under(name) => name.clone(),
    };
    if let Some(bad) = hosts.iter().map(name).find(|name| !is_host_name(name)) {
        return Err(format!("`{bad}` is no host"));
    }
    let mut all = Vec::new();
    if !hosts.is_empty() {
        all.push(When::host(hosts));
    }
    if !values.is_empty() {
        all.push(When::field(Place::Header, "Host", values));
    }
    Ok(Test::When(all))
}

/// A host without a port: routes compare it without.
fn without_port(host: &str) -> &str {
    match host.rsplit_once(':') {
        Some((name, port))
            if port.bytes().all(|byte| byte.is_ascii_digit()) && !name.ends_with(':') =>
        {
            name
        }
        _ => host,
    }
}

/// Whether loadline takes it for a host.
pub(crate) fn is_host_name(name: &str) -> bool {
    let label = |label: &str| {
        let fits = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_');
        (1..=63).contains(&label.len()) && label.bytes().all(fits)
    };
    name.len() <= 253 && name.split('.').all(label)
}

/// HAProxy compares what is in the URL, and a route what that stands for.
fn parameters(criterion: &Criterion<'_>) -> Result<Test, String> {
    let (name, delimiter) = criterion.argument.split_once(',').unwrap_or((criterion.argument, ""));
    if !delimiter.is_empty() {
        return Err("a route knows no other delimiter of parameters than `&`".to_owned());
    }
    let name = parameter::decoded(name)?;
    parameter::checked(&name)?;
    let pattern = |text: &&str| match criterion.how {
        Match::Regex if text.contains('%') => {
            Err("parameters are compared decoded: write the expression so".to_owned())
        }
        Match::Regex => Ok((*text).to_owned()),
        _ => parameter::decoded(text),
    };
    let patterns = criterion.patterns.iter().map(pattern).collect::<Result<Vec<_>, _>>()?;
    let patterns = patterns.iter().map(String::as_str).collect();
    values(&Criterion { patterns, ..*criterion }, (Place::Query, &name))
}

fn fields(criterion: &Criterion<'_>, place: Place) -> Result<Test, String> {
    let (name, number) = criterion.argument.split_once(',').unwrap_or((criterion.argument, ""));
    if !number.is_empty() {
        return Err("a route asks for any value of a field, not for the first or last".to_owned());
    }
    if name.is_empty() {
        return Err(format!("`{}` without the name of a field", criterion.sample));
    }
    values(criterion, (place, name))
}

/// Whether a field has one of the values.
fn values(criterion: &Criterion<'_>, (place, name): (Place, &str)) -> Result<Test, String> {
    let is_list = matches!(criterion.sample, "hdr" | "req.hdr");
    let is_count = criterion.sample.ends_with("_cnt");
    let values = match criterion.how {
        Match::Found => vec![Value::Any],
        _ if is_count && matches!(criterion.patterns.as_slice(), ["gt", "0"] | ["ge", "1"]) => {
            vec![Value::Any]
        }
        _ if is_count => return Err("a route cannot count fields".to_owned()),
        how => {
            let expression = |text: &str| expression(text, how, criterion.ignore_case);
            let value = |text: &&str| match how {
                how if is_list => {
                    let line = list::line(text, &expression(text), how, criterion.ignore_case);
                    line.map(Value::Regex)
                }
                Match::Exact if !criterion.ignore_case => Ok(Value::Exact((*text).to_owned())),
                Match::Begins if !criterion.ignore_case => Ok(Value::Begins((*text).to_owned())),
                _ => {
                    let regex = whole(&expression(text));
                    compile(&regex).map(|_| Value::Regex(regex))
                }
            };
            criterion.patterns.iter().map(value).collect::<Result<_, String>>()?
        }
    };
    Ok(Test::When(vec![When::field(place, name, values)]))
}
