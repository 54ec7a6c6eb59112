//! Balancers that stand by for each other: what is read, and what is refused at its place.

use loadline_control::{LocalOnly, parse_with};
use loadline_core::{fleet::Standby, time::Duration};

const RIGHT: &str = r#"[admin]
bind = "127.0.0.1:9090"
[l4]
interface = "eth0"
return_addresses = ["10.0.0.9"]
[l4.standby]
bind = "10.0.0.2:4343"
peers = ["10.0.0.3:4343"]
key_file = "/etc/loadline/standby.key"
interval = "250ms"
[[listener]]
bind = "10.0.0.100:80"
protocol = "tcp"
forward = "nat"
service = "web"
[service.web]
[[service.web.group]]
servers = ["10.0.0.11:80"]
"#;

#[test]
fn a_standby_has_defaults_for_all_but_its_line() {
    let loaded = parse_with("a.toml", RIGHT, &LocalOnly).unwrap();
    let (bind, peer) = ("10.0.0.2:4343".parse().unwrap(), "10.0.0.3:4343".parse().unwrap());
    let key_file = "/etc/loadline/standby.key".to_owned();
    let expected = Standby {
        interval: Duration::from_millis(250),
        ..Standby::between(bind, vec![peer], key_file)
    };
    let forwarding = loaded.fleet.forwarding;
    let moving: Vec<_> = forwarding.moving_addresses().iter().map(ToString::to_string).collect();
    assert_eq!(moving, ["10.0.0.100", "10.0.0.9"]);
    assert_eq!(forwarding.standby, Some(expected));
}

#[test]
fn what_makes_no_pair_is_told_at_its_place() {
    let cases = [
        ("[admin]\nbind = \"127.0.0.1:9090\"\n", "", 4, "without `[admin]`"),
        ("bind = \"10.0.0.2:4343\"\n", "", 6, "a standby without `bind`"),
        ("peers = [\"10.0.0.3:4343\"]\n", "", 6, "a standby without `peers`"),
        ("key_file = \"/etc/loadline/standby.key\"\n", "", 6, "without `key_file`"),
        ("[\"10.0.0.3:4343\"]", "[]", 8, "nobody stands by"),
        ("\"10.0.0.3:4343\"", "\"10.0.0.2:4343\"", 8, "our own end"),
        ("\"10.0.0.3:4343\"", "\"10.0.0.3:4343\", \"10.0.0.3:4343\"", 8, "named above"),
        ("\"10.0.0.3:4343\"", "\"[fd00::3]:4343\"", 8, "another family"),
        ("\"10.0.0.3:4343\"", "\":4343\"", 8, "not one host's address and port"),
        ("250ms", "1ms", 10, "out of range"),
        ("250ms\"", "1s\"\npriority = 255", 11, "out of range"),
    ];
    for (from, to, line, words) in cases {
        let errors = parse_with("a.toml", &RIGHT.replace(from, to), &LocalOnly).unwrap_err();
        let [error] = errors.errors() else { panic!("{to}: {errors:?}") };
        assert_eq!(error.line(), line, "{error}");
        assert!(error.to_string().contains(words), "{error}");
    }
}
