//! The compiled table against the plain reading of the rules, and the linter against both.

use std::{format, string::ToString, vec, vec::Vec};

use proptest::prelude::*;

use super::*;

/// A request that can be made up and printed.
#[derive(Clone, Debug)]
struct Made {
    authority: &'static str,
    host: &'static str,
    path: String,
    query: &'static str,
    method: &'static str,
    source: &'static str,
    headers: Vec<(&'static str, &'static str)>,
}

impl Made {
    fn request(&self) -> Request<'_, [(&'static str, &'static str)]> {
        Request {
            authority: self.authority.as_bytes(),
            host: self.host.as_bytes(),
            path: self.path.as_bytes(),
            query: self.query.as_bytes(),
            method: self.method.as_bytes(),
            source: self.source.parse().expect("an address"),
            scheme: "http",
            headers: self.headers.as_slice(),
        }
    }
}

fn get(host: &'static str, path: &str) -> Made {
    let (path, source) = (path.to_string(), "10.1.2.3");
    let authority = host;
    Made { authority, host, path, query: "", method: "GET", source, headers: vec![] }
}

fn rule(when: Conditions) -> Rule {
    Rule::new(when, Action::Service(Split::all(0)))
}

fn networks(texts: &[&str]) -> Option<Networks> {
    Some(texts.iter().map(|text| text.parse::<Network>().expect("a network")).collect())
}

fn hosts(texts: &[&str]) -> Vec<Host> {
    texts.iter().map(|text| Host::parse(text).expect("a host")).collect()
}

/// `=/exact`, `~regex`, else a prefix.
fn path(text: &str) -> Path {
    let path = match text.split_at(1) {
        ("=", exact) => Path::exact(exact),
        ("~", regex) => Regex::whole(regex).map(Path::Regex),
        _ => Path::prefix(text),
    };
    path.expect("a path")
}

/// The same for values; nothing stands for any value.
fn field(name: &str, text: &str) -> Field {
    let value = match text.split_at(text.len().min(1)) {
        ("", _) => return Field { name: name.to_string(), values: vec![] },
        ("=", exact) => Text::Exact(exact.to_string()),
        ("~", regex) => Text::Regex(Regex::whole(regex).expect("an expression")),
        _ => Text::Prefix(text.to_string()),
    };
    Field { name: name.to_string(), values: vec![value] }
}

/// The rule that decides, by the letter: one after another in the order of priority.
fn naive(rules: &[Rule], made: &Made) -> Option<usize> {
    let mut order: Vec<_> = rules.iter().enumerate().collect();
    order.sort_by_key(|(_, rule)| core::cmp::Reverse(rule.priority));
    order.into_iter().find(|(_, rule)| rule.when.hold(&made.request())).map(|(index, _)| index)
}

fn linted(rules: &[Rule]) -> Vec<Shadowed> {
    lint(&Table::compile(rules.to_vec()))
}

fn found(rules: &[Rule], made: &Made) -> Option<usize> {
    Table::compile(rules.to_vec()).find(&made.request()).map(|matched| matched.index)
}

fn of_paths(paths: &[&str]) -> Vec<Rule> {
    let one = |text: &&str| rule(Conditions { paths: vec![path(text)], ..Conditions::default() });
    paths.iter().map(one).collect()
}

#[test]
fn a_prefix_ends_at_the_border_of_a_segment() {
    for pattern in ["/api", "/api/"] {
        let rules = of_paths(&[pattern]);
        for (path, matches) in
            [("/api", true), ("/api/", true), ("/api/x", true), ("/apis", false), ("/", false)]
        {
            assert_eq!(found(&rules, &get("a", path)).is_some(), matches, "{pattern} {path}");
        }
    }
}

#[test]
fn the_file_orders_rules_and_priority_overrules_it() {
    let mut rules = of_paths(&["/a/b", "/a", "=/a/b/c"]);
    assert_eq!(found(&rules, &get("x", "/a/b/c")), Some(0));
    rules[2].priority = 1;
    assert_eq!(found(&rules, &get("x", "/a/b/c")), Some(2));
    assert_eq!(found(&rules, &get("x", "/a/c")), Some(1));
    assert_eq!(found(&rules, &get("x", "/c")), None);
}

#[test]
fn a_wildcard_is_for_all_below_a_domain_but_not_for_the_domain() {
    let when = Conditions { hosts: hosts(&["*.Example.com"]), ..Conditions::default() };
    let rules = [rule(when)];
    for (host, matches) in [
        ("www.example.com", true),
        ("a.b.example.com", true),
        ("example.com", false),
        ("notexample.com", false),
        (".example.com", false),
        ("a..example.com", false),
        (".", false),
        ("", false),
    ] {
        assert_eq!(found(&rules, &get(host, "/")).is_some(), matches, "{host}");
    }
}

#[test]
fn an_address_is_the_same_host_however_it_is_written() {
    for written in ["[::1]", "[0:0:0:0:0:0:0:1]", "[0::0001]"] {
        let when = Conditions { hosts: hosts(&[written]), ..Conditions::default() };
        let rules = [rule(when)];
        for authority in ["[::1]", "[::1]:8080", "[0:0:0:0:0:0:0:1]", "[::0:1]:80"] {
            let mut scratch = vec![];
            let host = normal::host(authority.as_bytes(), &mut scratch);
            let host = str::from_utf8(host).expect("ASCII").to_string().leak();
            let request = get(host, "/");
            assert_eq!(found(&rules, &request), Some(0), "{written} {authority}");
        }
        assert_eq!(found(&rules, &get("[::2]", "/")), None);
    }
}

#[test]
fn all_conditions_must_hold_and_one_item_of_each_list_is_enough() {
    let when = Conditions {
        methods: vec!["POST".into(), "PUT".into()],
        headers: vec![field("X-Tenant", "~[a-z]+"), field("x-debug", "")],
        query: vec![field("q", "=a b")],
        cookies: vec![field("session", "v2-")],
        sources: networks(&["10.0.0.0/8", "2001:db8::/32"]),
        ..Conditions::default()
    };
    let rules = [rule(when)];
    let good = Made {
        query: "x=1&q=a+%62",
        method: "PUT",
        headers: vec![
            ("x-tenant", "7"),
            ("X-TENANT", "acme"),
            ("X-Debug", ""),
            ("Cookie", "a=b; session=v2-17"),
        ],
        ..get("a", "/")
    };
    assert_eq!(found(&rules, &good), Some(0));
    let mapped = Made { source: "::ffff:10.0.0.1", ..good.clone() };
    assert_eq!(found(&rules, &mapped), Some(0));
    for bad in [
        Made { method: "GET", ..good.clone() },
        Made { query: "q=ab", ..good.clone() },
        Made { source: "11.0.0.1", ..good.clone() },
        Made { headers: good.headers[1..3].to_vec(), ..good.clone() },
        Made { headers: vec![good.headers[0], good.headers[2], good.headers[3]], ..good.clone() },
    ] {
        assert_eq!(found(&rules, &bad), None, "{bad:?}");
    }
}

#[test]
fn a_verbose_expression_may_end_with_a_comment() {
    let regex = Regex::whole("(?x) /a/ [0-9]+  # ids").unwrap();
    assert!(regex.matches(b"/a/17"));
    assert!(!regex.matches(b"/a/17/b") && !regex.matches(b"/a/17\n") && !regex.matches(b"x/a/17"));
}

#[test]
fn patterns_that_cannot_be_say_what_would_be_right() {
    for (error, part) in [
        (Host::parse("http://a").unwrap_err(), "a host is a name"),
        (Host::parse("*").unwrap_err(), "*.example.com"),
        (Host::parse("a:80").unwrap_err(), "a host is a name"),
        (Host::parse("[zz:1]").unwrap_err(), "a host is a name"),
        (Host::parse("*.[::1]").unwrap_err(), "a host is a name"),
        (Path::exact("api").unwrap_err(), "begins with \"/\""),
        (Path::prefix("/a/../b").unwrap_err(), "/../"),
        (Path::exact("/%61").unwrap_err(), "decoded"),
        (Path::exact(&"/a".repeat(1_001)).unwrap_err(), "2000 bytes"),
        (Regex::whole("a)(b").unwrap_err(), "unopened group"),
        (Regex::whole("(?:a{1000}){1000}").unwrap_err(), "size limit"),
        ("10.0.0.1/8".parse::<Network>().unwrap_err(), "the network is 10.0.0.0/8"),
        ("10.0.0.0/33".parse::<Network>().unwrap_err(), "10.0.0.0/8"),
        ("10.0.0.0/+8".parse::<Network>().unwrap_err(), "10.0.0.0/8"),
        ("10.0.0.0/".parse::<Network>().unwrap_err(), "10.0.0.0/8"),
        ("2001:db8::/129".parse::<Network>().unwrap_err(), "a network is"),
    ] {
        assert!(error.to_string().contains(part), "{error} has no {part:?}");
    }
    assert!(Host::parse("[::1]").unwrap().matches(b"[::1]"));
    assert!("0.0.0.0/0".parse::<Network>().unwrap().contains([1, 2, 3, 4].into()));
    assert!("::/0".parse::<Network>().unwrap().contains([1u16; 8].into()));
    for (mapped, expected) in [
        ("::ffff:127.0.0.3", "127.0.0.3/32"),
        ("::ffff:127.0.0.3/128", "127.0.0.3/32"),
        ("::ffff:127.0.0.0/125", "127.0.0.0/29"),
        ("::ffff:0:0/96", "0.0.0.0/0"),
    ] {
        let network: Network = mapped.parse().unwrap();
        assert_eq!(network.to_string(), expected, "{mapped}");
        assert!(network.contains([127, 0, 0, 3].into()), "{mapped}");
    }
    for (mapped, expected) in [
        ("::ffff:127.0.0.3/125", "the network is 127.0.0.0/29"),
        ("::ffff:0:0/95", "the network is ::fffe:0:0/95"),
    ] {
        assert_eq!(mapped.parse::<Network>().unwrap_err().to_string(), expected, "{mapped}");
    }
}

#[test]
fn a_line_break_does_not_get_around_an_expression() {
    let mut scratch = vec![];
    let asked = normal::path(b"/admin/x%0Ay", &mut scratch);
    for text in ["~/admin/.*", "~/.*/x.y", "~/admin/[^/]+"] {
        assert!(path(text).matches(asked), "{text}");
    }
    let rules = of_paths(&["~/admin/.*"]);
    assert_eq!(found(&rules, &get("a.test", "/admin/x\n")), Some(0));
    let query = |text: &str| Conditions { query: vec![field("q", text)], ..Conditions::default() };
    let with_query = Made { query: "q=a%0Ab", ..get("a.test", "/") };
    assert!(query("~a.b").hold(&with_query.request()));
    assert!(Regex::part("^/a.b$").unwrap().matches(b"/a\nb"), "maps and rewrites");
    assert!(!path("~(?-s)/admin/.*").matches(asked), "where it is said so");
}

#[test]
fn the_linter_names_the_rule_that_takes_everything() {
    let rules = of_paths(&["/a", "/a/b", "=/a", "~/a/[0-9]+", "/b", "~/[a-z]+", "=/c", "/ab"]);
    let pairs: Vec<_> = linted(&rules).iter().map(|it| (it.rule, it.by)).collect();
    assert_eq!(pairs, [(1, 0), (2, 0), (3, 0), (6, 5)]);
}

#[test]
fn the_linter_follows_hosts_fields_and_networks() {
    let wide = Conditions {
        hosts: hosts(&["*.example.com"]),
        sources: networks(&["10.0.0.0/8"]),
        headers: vec![field("x-a", "b")],
        ..Conditions::default()
    };
    let narrow = Conditions {
        hosts: hosts(&["*.eu.example.com", "www.example.com"]),
        paths: vec![path("/x"), path("~/y+")],
        methods: vec!["GET".into()],
        sources: networks(&["10.1.0.0/16"]),
        headers: vec![field("X-A", "=bc"), field("x-b", "")],
        ..Conditions::default()
    };
    let other_host = Conditions { hosts: hosts(&["example.com"]), ..narrow.clone() };
    let rules = [rule(wide), rule(narrow.clone()), rule(other_host)];
    assert_eq!(linted(&rules), [Shadowed { rule: 1, by: 0 }]);
    let mut first = rules.clone();
    first[1].priority = 1;
    assert_eq!(linted(&first), []);
}

#[test]
fn the_linter_knows_that_a_redirect_is_not_for_those_who_are_there_already() {
    let none = Redirect { status: 301, scheme: None, host: None, path: None, location: None };
    let https = Redirect { scheme: Some("https".into()), ..none.clone() };
    let with = |path| Redirect { path: Some(path), ..https.clone() };
    let prefix = |from: &str| PathChange::Prefix { from: from.into(), to: "/c".into() };
    let inner = PathChange::Prefix { from: "/a".into(), to: "/a/b".into() };
    for (redirect, takes_all) in [
        (https.clone(), false),
        (with(prefix("/b")), false),
        (with(prefix("/a")), true),
        (with(inner), false),
        (with(PathChange::Whole("/c".into())), true),
        (with(PathChange::Whole("/a/b/c".into())), false),
        (Redirect { host: Some("b.test".into()), ..https.clone() }, false),
    ] {
        let first = Conditions { paths: vec![path("/a")], ..Conditions::default() };
        let second = Conditions { paths: vec![path("/a/b")], ..Conditions::default() };
        let rules = [Rule::new(first, Action::Redirect(redirect.clone())), rule(second)];
        assert_eq!(!linted(&rules).is_empty(), takes_all, "{redirect:?}");
    }
}

#[test]
fn ten_thousand_rules_are_linted_at_once() {
    let mut rules: Vec<Rule> =
        (0..10_000).flat_map(|n| of_paths(&[format!("/p/{n}").as_str()])).collect();
    rules.extend(of_paths(&["/p/77/x"]));
    assert_eq!(linted(&rules), [Shadowed { rule: 10_000, by: 77 }]);
}

#[test]
fn a_rule_of_a_long_table_is_compared_with_the_first_ones_of_its_host_and_path() {
    let by_header = |n: usize| {
        let headers = vec![field("x-tenant", &format!("={n}"))];
        rule(Conditions { headers, ..Conditions::default() })
    };
    let with_last = |rules: usize, like: usize| {
        let numbers = (0..rules - 1).chain([like]);
        linted(&numbers.map(by_header).collect::<Vec<_>>())
    };
    assert_eq!(with_last(1_000, 998), [Shadowed { rule: 999, by: 998 }]);
    assert_eq!(with_last(10_000, 77), [Shadowed { rule: 9_999, by: 77 }]);
    assert_eq!(with_last(10_000, 9_998), []);
}

const HOSTS: [&str; 6] = ["a.test", "b.test", "*.test", "*.b.test", "*.a.b.test", "x.b.test"];
const PATHS: [&str; 16] = [
    "/", "/a", "/a/b", "/a/b/c", "/b", "=/a", "=/a/", "=/a/b", "=/", "~/a/.*", "~/[ab]/b.*",
    "~.*b", "~/(a|b)/b/?", "~(?i)/A", "~/a/b/[a-c]", "~/a/?",
];
const METHODS: [&str; 3] = ["GET", "POST", "PUT"];
const NETWORKS: [&str; 5] = ["10.0.0.0/8", "10.1.0.0/16", "10.1.2.3", "0.0.0.0/0", "2001:db8::/32"];
const VALUES: [&str; 7] = ["", "=a", "=ab", "a", "ab", "~a.*", "~[ab]+"];

fn some<T: Clone + std::fmt::Debug + 'static>(
    items: Vec<T>,
    most: usize,
) -> impl Strategy<Value = Vec<T>> {
    prop_oneof![
        2 => Just(vec![]),
        1 => prop::collection::vec(prop::sample::select(items), 1..=most),
    ]
}

fn any_rule() -> impl Strategy<Value = Rule> {
    let fields = |names: [&str; 2]| {
        let all = names.iter().flat_map(|name| VALUES.map(|value| field(name, value)));
        some(all.collect(), 2)
    };
    let networks = NETWORKS.map(|text| text.parse::<Network>().expect("a network")).to_vec();
    let conditions = (
        some(hosts(&HOSTS), 3),
        some(PATHS.map(path).to_vec(), 3),
        some(METHODS.map(String::from).to_vec(), 2),
        (fields(["h", "H2"]), fields(["q", "r"]), fields(["c", "d"])),
        some(networks, 2),
        -1..=1,
    );
    conditions.prop_map(|(hosts, paths, methods, fields, sources, priority)| {
        let (headers, query, cookies) = fields;
        let sources = (!sources.is_empty()).then(|| sources.into_iter().collect());
        let when = Conditions { hosts, paths, methods, headers, query, cookies, sources };
        Rule { priority, ..rule(when) }
    })
}

fn any_request() -> impl Strategy<Value = Made> {
    let hosts = ["a.test", "b.test", "test", "x.b.test", "y.a.b.test", ".test", "", "other"];
    let queries = ["", "q=a", "q=%61b&r", "r=ab&q=b", "q&q=a"];
    let cookies = ["c=a", "c=ab; d=a", "d", "x=1;c=b"];
    let fields = ["a", "ab", "b"].map(|value| ("h", value)).into_iter();
    let fields = fields.chain([("h2", "a")]).chain(cookies.map(|value| ("Cookie", value)));
    let made = (
        prop::sample::select(hosts.to_vec()),
        "(/[abc]?){1,4}|\\*|",
        prop::sample::select(queries.to_vec()),
        prop::sample::select(METHODS.to_vec()),
        prop::sample::select(vec!["10.1.2.3", "10.9.9.9", "192.0.2.1", "2001:db8::1"]),
        prop::collection::vec(prop::sample::select(fields.collect::<Vec<_>>()), 0..4),
    );
    made.prop_map(|(host, path, query, method, source, headers)| Made {
        authority: host,
        host,
        path,
        query,
        method,
        source,
        headers,
    })
}

proptest! {
    #[test]
    fn the_table_decides_as_the_rules_read(
        rules in prop::collection::vec(any_rule(), 0..12),
        requests in prop::collection::vec(any_request(), 1..40),
    ) {
        let table = Table::compile(rules.clone());
        for made in &requests {
            let found = table.find(&made.request()).map(|matched| matched.index);
            prop_assert_eq!(found, naive(&rules, made), "{:?}", made);
        }
    }

    #[test]
    fn a_rule_that_the_linter_warns_of_never_decides(
        rules in prop::collection::vec(any_rule(), 2..12),
        requests in prop::collection::vec(any_request(), 1..100),
    ) {
        let warnings = linted(&rules);
        for made in &requests {
            let decided = naive(&rules, made);
            let warned = warnings.iter().find(|it| Some(it.rule) == decided);
            prop_assert_eq!(warned, None, "{:?}", made);
            for Shadowed { rule, by } in &warnings {
                let holds = |at: usize| rules[at].when.hold(&made.request());
                prop_assert!(!holds(*rule) || holds(*by), "{rule} is not covered by {by}");
            }
        }
    }
}

#[test]
fn a_redirect_that_does_not_change_the_path_leads_nobody_to_where_he_is() {
    let pattern = Regex::part("^/blog/([0-9]+)$").unwrap();
    let to = Replacement::read("/posts/$1", &pattern).unwrap();
    let blog = PathChange::Regex { pattern, to };
    let old = PathChange::Prefix { from: "/old".into(), to: "/new".into() };
    let pattern = Regex::part("^/(en/)?(.*)$").unwrap();
    let to = Replacement::read("/en/$2", &pattern).unwrap();
    let same = PathChange::Regex { pattern, to };
    let redirect = |scheme: Option<&str>, host: Option<&str>, path: &PathChange| Redirect {
        status: 301,
        scheme: scheme.map(Into::into),
        host: host.map(Into::into),
        path: Some(path.clone()),
        location: None,
    };
    for (redirect, asked, first) in [
        (redirect(None, None, &blog), "/blog/17", true),
        (redirect(None, None, &blog), "/about", false),
        (redirect(None, None, &old), "/old/a", true),
        (redirect(None, None, &old), "/older", false),
        (redirect(Some("http"), None, &old), "/older", false),
        (redirect(Some("https"), None, &old), "/older", true),
        (redirect(None, Some("b.test"), &blog), "/about", true),
        (redirect(None, Some("a.test"), &blog), "/about", false),
        (redirect(None, Some("A.test"), &blog), "/blog/17", true),
        (redirect(None, Some("a.test:8443"), &blog), "/about", true),
        (redirect(None, None, &PathChange::Whole("/new%20page".into())), "/new page", false),
        (redirect(None, None, &PathChange::Whole("/new%20page".into())), "/", true),
        (redirect(None, None, &same), "/en/x", false),
        (redirect(None, None, &same), "/x", true),
    ] {
        let told = std::format!("{redirect:?} {asked}");
        let to_redirect = Rule::new(Conditions::default(), Action::Redirect(redirect));
        let rules = [to_redirect, rule(Conditions::default())];
        assert_eq!(found(&rules, &get("a.test", asked)), Some(usize::from(!first)), "{told}");
    }
}

#[test]
fn a_redirect_to_a_path_that_clients_ask_for_in_another_form_is_not_for_who_is_there() {
    for (to, there) in [
        ("/lang/c%2B%2B", "/lang/c++"),
        ("/n%2Fw", "/n/w"),
        ("/%41", "/A"),
        ("//", "/"),
        ("/../x", "/x"),
        ("/a//b", "/a/b"),
        ("/./a", "/a"),
        ("/%2e%2e/x", "/x"),
        ("/100%25", "/100%"),
    ] {
        let redirect = Redirect {
            status: 301,
            scheme: None,
            host: None,
            path: Some(PathChange::Whole(to.into())),
            location: None,
        };
        let to_redirect = Rule::new(Conditions::default(), Action::Redirect(redirect));
        let rules = [to_redirect, rule(Conditions::default())];
        assert_eq!(found(&rules, &get("a.test", there)), Some(1), "{to}");
        assert_eq!(found(&rules, &get("a.test", "/elsewhere")), Some(0), "{to}");
    }
}

#[test]
fn a_redirect_to_a_directory_below_is_not_for_who_is_in_it() {
    for (from, to, asked, first) in [
        ("", "/docs", "/x", true),
        ("", "/docs", "/docsx", true),
        ("", "/docs", "/docs", false),
        ("", "/docs", "/docs/x", false),
        ("/a", "/a/b%20c", "/a/x", true),
        ("/a", "/a/b%20c", "/a/b c/x", false),
        ("/a/b", "/a", "/a/b/b/x", true),
        ("/a", "", "/a/a", true),
    ] {
        let redirect = Redirect {
            status: 301,
            scheme: None,
            host: None,
            path: Some(PathChange::Prefix { from: from.into(), to: to.into() }),
            location: None,
        };
        let to_redirect = Rule::new(Conditions::default(), Action::Redirect(redirect));
        let rules = [to_redirect, rule(Conditions::default())];
        let decides = found(&rules, &get("a.test", asked));
        assert_eq!(decides, Some(usize::from(!first)), "{from} to {to}: {asked}");
    }
}

#[test]
fn a_redirect_to_a_host_is_for_its_other_ports_and_hides_no_route_from_it() {
    let redirect = Redirect {
        status: 301,
        scheme: None,
        host: Some("a.test".into()),
        path: None,
        location: None,
    };
    let on = |names: &[&str]| {
        let when = Conditions { hosts: hosts(names), ..Conditions::default() };
        [Rule::new(when, Action::Redirect(redirect.clone())), rule(Conditions::default())]
    };
    let rules = on(&[]);
    let at = |authority| Made { authority, ..get("a.test", "/") };
    assert_eq!(found(&rules, &at("a.test:8080")), Some(0));
    for authority in ["a.test", "A.test:80", "a.test:"] {
        assert_eq!(found(&rules, &at(authority)), Some(1), "{authority}");
        for field in ["b.test:8080", "a.test:8080", "a.test."] {
            let to_target = Made { headers: vec![("Host", field)], ..at(authority) };
            assert_eq!(found(&rules, &to_target), Some(1), "the target names {authority}");
        }
    }
    let of_one = |names: &[&str]| {
        let when = Conditions { hosts: hosts(names), ..Conditions::default() };
        let [to_a, _] = on(names);
        linted(&[to_a, rule(when)]).len()
    };
    assert_eq!((of_one(&["a.test"]), of_one(&["*.test"]), of_one(&["b.test"])), (0, 0, 1));
}

#[test]
fn a_redirect_by_a_map_is_only_for_those_that_the_map_has() {
    let of = Template::read("$host$path").expect("a template");
    let entries = vec![("a.test/old".to_string(), "https://b.test/new".to_string())];
    let map = Map::new(("moved", &of), MapKind::Exact, entries, "".to_string()).expect("a map");
    let map = alloc::sync::Arc::new(map);
    let location = Template::read_with("$moved?from=$host", &|_| Some(map.clone()));
    let redirect = Redirect {
        status: 301,
        scheme: None,
        host: None,
        path: None,
        location: Some(location.expect("a template")),
    };
    let rules = vec![
        Rule::new(Conditions::default(), Action::Redirect(redirect.clone())),
        rule(Conditions::default()),
    ];
    assert_eq!(linted(&rules), [], "what the map does not have comes to the second");
    let table = Table::compile(rules);
    let taken = |made: &Made| table.find(&made.request()).map(|matched| matched.index);
    assert_eq!(taken(&get("a.test", "/old")), Some(0));
    assert_eq!(taken(&get("a.test", "/older")), Some(1));
    assert_eq!(taken(&get("b.test", "/old")), Some(1));
    let (asked, mut out) = (get("a.test", "/old"), vec![]);
    let request = asked.request();
    let parts = Asked {
        scheme: "http",
        authority: b"a.test:80",
        host: b"a.test",
        raw_path: b"/old",
        path: b"/old",
        query: b"",
    };
    redirect.location(&parts, &request, &mut out);
    assert_eq!(out, b"https://b.test/new?from=a.test");
    let path = Some(PathChange::Map(map));
    let only_path = Redirect { location: None, path, ..redirect };
    assert!(
        only_path.leads_elsewhere(&request) && !only_path.leads_elsewhere(&get("b", "/").request())
    );
    out.clear();
    only_path.location(&parts, &request, &mut out);
    assert_eq!(out, b"http://a.test:80/https://b.test/new", "a path begins with a slash");
}
