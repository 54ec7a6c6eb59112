//! What a file names and what cannot be used: `check` and `serve` refuse it alike.

use std::{fs, net::TcpListener, os::unix::fs::chown, path::Path, process::Command};

use super::said::loadline;
use crate::skipped::skipped;

const RIGHT: &str = r#"[edge]
access_log = "access.log"
pid_file = "pid"
control = "control.sock"

[admin]
bind = "127.0.0.1:0"
token_file = "token"

[[listener]]
bind = "127.0.0.1:0"
protocol = "https"
service = "web"
tls = { certificates = ["site.pem"], client_authorities = "site.pem" }

[service.web]
tls = { authorities = "site.pem", certificate = { chain = "site.pem", key = "site.pem" } }

[[service.web.group]]
discover = { file = "web.toml" }
"#;

/// The user of that name, on every Linux.
const NOBODY: u32 = 65_534;

/// What is replaced, by what, line and column, and what is said.
type Wrong = (&'static str, &'static str, &'static str, &'static [&'static str]);

const WRONG: &[Wrong] = &[
    ("[\"site.pem\"]", "[\"no.pem\"]", "14:25", &["the certificate", "No such file", "count from"]),
    ("[\"site.pem\"]", "[\".\"]", "14:25", &["the certificate", "Is a directory"]),
    ("[\"site.pem\"]", "[\"/proc/sys/net/ipv4/route/flush\"]", "14:25", &["Permission denied"]),
    ("[\"site.pem\"]", "[\"text\"]", "14:25", &["-----BEGIN CERTIFICATE-----", "PEM"]),
    ("[\"site.pem\"]", "[\"half.pem\"]", "14:25", &["no whole certificate in PEM"]),
    ("[\"site.pem\"]", "[\"not-x509.pem\"]", "14:25", &["the certificate is not X.509"]),
    ("[\"site.pem\"]", "[\"alone.pem\"]", "14:25", &["no private key"]),
    (
        "[\"site.pem\"]",
        "[{ chain = \"site.pem\", key = \"other.key\" }]",
        "14:53",
        &["other.key", "it is the key of another", "site.pem"],
    ),
    (
        "[\"site.pem\"]",
        "[{ chain = \"site.pem\", key = \"no.key\" }]",
        "14:53",
        &["the key", "No such file"],
    ),
    (
        "[\"site.pem\"]",
        "[{ chain = \"site.pem\", ocsp = \"no.ocsp\" }]",
        "14:54",
        &["the OCSP response", "No such file"],
    ),
    ("client_authorities = \"site.pem\"", "client_authorities = \"no\"", "14:59", &["authorities"]),
    (
        "client_authorities = \"site.pem\"",
        "client_authorities = \"text\"",
        "14:59",
        &["authorities", "no `-----BEGIN CERTIFICATE-----`", "CA certificates in PEM"],
    ),
    (
        "tls = { certi",
        "jwt = { keys = \"https://issuer.test/keys\", ca = \"text\" }\ntls = { certi",
        "14:49",
        &["authorities", "no `-----BEGIN CERTIFICATE-----`", "CA certificates in PEM"],
    ),
    (
        "tls = { certi",
        "tls = { acme = { names = [\"a.test\"], ca = \"half.pem\", state_dir = \"acme\" }, certi",
        "14:43",
        &["authorities", "no whole certificate in PEM"],
    ),
    ("tls = { certi", "tls = { suites = [\"TLS13_X\"], certi", "14:18", &["no cipher suite"]),
    (
        "tls = { certi",
        "tls = { acme = { names = [\"a.test\"], state_dir = \"text\" }, certi",
        "14:50",
        &["cannot keep the certificates", "it is no directory"],
    ),
    (
        "tls = { certi",
        "tls = { acme = { names = [\"a.test\"], external_account = { kid = \"k\", key_file = \
         \"text\" }, state_dir = \"acme\" }, certi",
        "14:81",
        &["key in base64url", "as the authority gives it"],
    ),
    ("authorities = \"site.pem\", cert", "authorities = \"no\", cert", "17:23", &["No such file"]),
    ("key = \"site.pem\"", "key = \"other.key\"", "17:77", &["it is the key of another"]),
    ("certificate = {", "name = \"a:b\", certificate = {", "17:42", &["not a host name"]),
    ("\"web.toml\"", "\"no.toml\"", "20:21", &["the list of servers", "No such file"]),
    ("\"web.toml\"", "\"text\"", "20:21", &["not TOML"]),
    ("\"web.toml\"", "\"none.toml\"", "20:21", &["lists no server"]),
    (
        "discover = { file = \"web.toml\" }",
        "store = \"file:///no/such/directory\"",
        "20:9",
        &["the directory", "No such file", "name one that there is"],
    ),
    (
        "discover = { file = \"web.toml\" }",
        "store = { url = \"file:///proc/version\" }",
        "20:17",
        &["it is no directory"],
    ),
    (
        "discover = { file = \"web.toml\" }",
        "store = { url = \"s3://shop\", region = \"-1\" }",
        "16:10",
        &["`s3.-1.amazonaws.com` of the service `web` is no host name"],
    ),
    ("\"token\"", "\"no\"", "8:14", &["the token", "No such file"]),
    ("\"token\"", "\"text\"", "8:14", &["too short", "openssl rand"]),
    (
        "\"access.log\"",
        "\"no/access.log\"",
        "2:14",
        &["the access log", "no directory", "mkdir -p"],
    ),
    ("\"access.log\"", "\".\"", "2:14", &["the access log", "it is a directory"]),
    ("\"pid\"", "\"no/pid\"", "3:12", &["the process id", "there is no directory"]),
    ("\"pid\"", "\"text\"", "3:12", &["no process id in it", "a path of its own"]),
    ("\"pid\"", "\"access.log\"", "3:12", &["is the path of the access log, too"]),
    ("\"pid\"", "\"control.sock\"", "3:12", &["is the path of a socket, too"]),
    (
        "[edge]",
        "cache.disk = { path = \"no/cache\", size = \"1GiB\" }\n[edge]",
        "1:23",
        &["the cache", "there is no directory", "mkdir -p"],
    ),
    (
        "[edge]",
        "cache.disk = { path = \"text\", size = \"1GiB\" }\n[edge]",
        "1:23",
        &["cannot keep the cache", "it is no directory"],
    ),
    ("\"control.sock\"", "\"no/control.sock\"", "4:11", &["the socket", "there is no directory"]),
    ("\"control.sock\"", "\"text\"", "4:11", &["is no socket"]),
    ("[edge]", "[edge]\nuser = \"no-such-user\"", "2:8", &["there is no user `no-such-user`"]),
    (
        "[edge]",
        "[edge]\nuser = \"root\"\ngroup = \"no-such-group\"",
        "3:9",
        &["there is no group `no-such-group`"],
    ),
];

#[test]
fn what_cannot_be_used_is_said_by_check_and_serve_alike_with_its_place() {
    let directory = site();
    let mut faults = Vec::new();
    for (right, wrong, place, words) in WRONG {
        let text = RIGHT.replacen(right, wrong, 1);
        assert_ne!(text, RIGHT, "{right} is in the file");
        fs::write(directory.path().join("a.toml"), text).unwrap();
        let place = format!("a.toml:{place}]");
        let words = [&[&*place], *words].concat();
        let checked = loadline(&["check", "a.toml"], directory.path());
        let served = loadline(&["serve", "a.toml"], directory.path());
        let found = checked.faults(1, &words);
        faults.extend(found.iter().map(|it| format!("{wrong}: {it}: {}", checked.text)));
        if (served.code, &served.text) != (checked.code, &checked.text) {
            faults.push(format!("{wrong}: serve says {served:?}, check {checked:?}"));
        }
    }
    assert!(faults.is_empty(), "\n{}", faults.join("\n"));
}

#[test]
fn a_certificate_out_of_its_time_is_warned_of_by_check_and_serve_alike() {
    let directory = site();
    let taken = TcpListener::bind("127.0.0.1:0").unwrap();
    let place = format!("bind = \"{}\"\nprotocol", taken.local_addr().unwrap());
    let past = ["has expired, ", "clients refuse it: renew it, or set the clock"];
    let future =
        ["is not valid yet: it will be in ", "clients refuse it: wait, take another, or set"];
    for (file, [when, remedy]) in [("past.pem", past), ("future.pem", future)] {
        let text = RIGHT.replace("[\"site.pem\"]", &format!("[\"{file}\"]"));
        // So that it ends.
        let text = text.replace("bind = \"127.0.0.1:0\"\nprotocol", &place);
        fs::write(directory.path().join("a.toml"), text).unwrap();
        for (command, code) in [("check", 0), ("serve", 2)] {
            let said = loadline(&[command, "a.toml"], directory.path());
            let faults = said.faults(code, &["a.toml:14:25]", when, remedy]);
            assert!(faults.is_empty(), "{command}: {faults:?}: {}", said.text);
        }
    }
}

#[test]
fn an_ocsp_response_that_is_too_old_is_warned_of() {
    let directory = site();
    // Without a signature, and good until the second of January 2020.
    let response = b"\x30\x5f\x0a\x01\x00\xa0\x5a\x30\x58\
        \x06\x09\x2b\x06\x01\x05\x05\x07\x30\x01\x01\x04\x4b\x30\x49\x30\x42\
        \xa2\x03\x04\x01\x07\x18\x0f20200101000000Z\x30\x2a\x30\x28\x30\x00\x80\x00\
        \x18\x0f20200101000000Z\xa0\x11\x18\x0f20200102000000Z\x30\x00\x03\x01\x00";
    fs::write(directory.path().join("old.ocsp"), response).unwrap();
    let table = "[{ chain = \"site.pem\", key = \"site.pem\", ocsp = \"old.ocsp\" }]";
    let text = RIGHT.replace("[\"site.pem\"]", table);
    fs::write(directory.path().join("a.toml"), text).unwrap();
    let said = loadline(&["check", "a.toml"], directory.path());
    let words = ["a.toml:14:", "the OCSP response", "old.ocsp", "has expired"];
    let faults = said.faults(0, &words);
    assert!(faults.is_empty(), "{faults:?}: {}", said.text);
}

#[test]
fn an_ocsp_response_for_another_certificate_is_warned_of() {
    let directory = site();
    // Without a signature, and for the certificate with the number 1.
    let response = b"\x30\x71\x0a\x01\x00\xa0\x6c\x30\x6a\
        \x06\x09\x2b\x06\x01\x05\x05\x07\x30\x01\x01\x04\x5d\x30\x5b\x30\x54\
        \xa2\x03\x04\x01\x07\x18\x0f20200101000000Z\x30\x3c\x30\x3a\
        \x30\x12\x30\x07\x06\x05\x2b\x0e\x03\x02\x1a\x04\x01\x07\x04\x01\x07\x02\x01\x01\
        \x80\x00\x18\x0f20200101000000Z\xa0\x11\x18\x0f29990102000000Z\x30\x00\x03\x01\x00";
    fs::write(directory.path().join("other.ocsp"), response).unwrap();
    let table = "[{ chain = \"site.pem\", ocsp = \"other.ocsp\" }]";
    let text = RIGHT.replace("[\"site.pem\"]", table);
    fs::write(directory.path().join("a.toml"), text).unwrap();
    let said = loadline(&["check", "a.toml"], directory.path());
    let words = ["a.toml:14:54]", "the OCSP response", "other.ocsp", "is for another certificate"];
    let faults = said.faults(0, &words);
    assert!(faults.is_empty(), "{faults:?}: {}", said.text);
}

#[test]
fn suites_that_go_with_no_certificate_of_the_listener_are_warned_of() {
    let directory = site();
    let check = |suites: &str| {
        let text = RIGHT
            .replace("bind = \"127.0.0.1:0\"\nprotocol", "bind = \"127.0.0.2:0\"\nprotocol")
            .replace("tls = { certi", &format!("tls = {{ suites = [\"{suites}\"], certi"));
        fs::write(directory.path().join("a.toml"), text).unwrap();
        loadline(&["check", "a.toml"], directory.path())
    };
    let said = check("TLS_ECDHE_RSA_WITH_AES_256_GCM_SHA384");
    let faults = said.faults(0, &["a.toml:11:8]", "no client can agree on one of `tls.suites`"]);
    assert!(faults.is_empty(), "{faults:?}: {}", said.text);
    let said = check("TLS_ECDHE_ECDSA_WITH_AES_256_GCM_SHA384");
    assert!(said.code == Some(0) && !said.text.contains("can agree"), "{}", said.text);
}

#[test]
fn an_address_of_another_machine_is_warned_of() {
    let directory = site();
    let text =
        RIGHT.replace("bind = \"127.0.0.1:0\"\nprotocol", "bind = \"192.0.2.1:0\"\nprotocol");
    fs::write(directory.path().join("a.toml"), text).unwrap();
    let said = loadline(&["check", "a.toml"], directory.path());
    let words = ["a.toml:11:8]", "192.0.2.1 is not an address of this machine"];
    let faults = said.faults(0, &words);
    assert!(faults.is_empty(), "{faults:?}: {}", said.text);
}

#[test]
fn fewer_descriptors_than_the_clients_of_a_file_need_are_warned_of() {
    let directory = site();
    let listener = "bind = \"127.0.0.2:0\"\nmax_connections = 100\nprotocol";
    let text = RIGHT.replace("bind = \"127.0.0.1:0\"\nprotocol", listener);
    fs::write(directory.path().join("a.toml"), text).unwrap();
    let program = env!("CARGO_BIN_EXE_loadline");
    let said = |descriptors: u32| {
        let line = format!("ulimit -n {descriptors}; exec {program} check a.toml");
        let mut check = Command::new("sh");
        check.args(["-c", &line]).current_dir(directory.path()).env("LC_ALL", "C.UTF-8");
        let ended = check.output().unwrap();
        assert!(ended.status.success(), "{ended:?}");
        let told = String::from_utf8(ended.stderr).unwrap().replace('│', " ");
        told.split_whitespace().collect::<Vec<_>>().join(" ")
    };
    let few = said(128);
    assert!(few.contains("a.toml:11:8]"), "{few}");
    assert!(few.contains("128 descriptors may be open, 200 are needed for 100 clients"), "{few}");
    assert!(few.contains("or lower max_connections"), "{few}");
    let enough = said(200);
    assert!(!enough.contains("descriptors"), "{enough}");
}

#[test]
fn a_start_that_runs_out_of_descriptors_says_how_more_are_had() {
    let directory = site();
    let text = "[edge]\nthreads = 16\n[[listener]]\nbind = \"127.0.0.1:0\"\nservice = \"web\"\n\
                [service.web]\n[[service.web.group]]\nservers = [\"127.0.0.1:9\"]\n";
    fs::write(directory.path().join("a.toml"), text).unwrap();
    let program = env!("CARGO_BIN_EXE_loadline");
    let few = [
        (7, "7 descriptors may be open, too few to start"),
        (8, "8 descriptors may be open, too few to start"),
        (16, "Too many open files (os error 24); 16 descriptors"),
        (40, "Too many open files (os error 24); 40 descriptors"),
    ];
    for (descriptors, why) in few {
        let line = format!("ulimit -n {descriptors}; exec {program} serve a.toml");
        let mut serve = Command::new("sh");
        serve.args(["-c", &line]).current_dir(directory.path()).env("NO_COLOR", "1");
        let ended = serve.output().unwrap();
        let told = String::from_utf8(ended.stderr).unwrap();
        assert_eq!(ended.status.code(), Some(2), "{descriptors}: {told}");
        assert!(told.contains(why), "{descriptors}: {told}");
        assert!(told.contains(": raise LimitNOFILE (ulimit -Hn)"), "{descriptors}: {told}");
    }
}

#[test]
fn a_directory_of_the_process_id_that_the_user_may_not_write_to_is_warned_of() {
    if !rustix::process::geteuid().is_root() {
        return skipped("a process id of another user: needs root");
    }
    let directory = site();
    let check = |user: &str| {
        let text = RIGHT.replace("[edge]", &format!("[edge]\nuser = \"{user}\""));
        fs::write(directory.path().join("a.toml"), text).unwrap();
        loadline(&["check", "a.toml"], directory.path())
    };
    let said = check("nobody");
    let words = ["a.toml:4:12]", "`nobody` may not write the process id to"];
    let faults = said.faults(0, &words);
    assert!(faults.is_empty(), "{faults:?}: {}", said.text);
    chown(directory.path(), Some(NOBODY), None).unwrap();
    for said in [check("nobody"), check("root")] {
        assert!(said.code == Some(0) && !said.text.contains("process id"), "{}", said.text);
    }
}

#[test]
fn a_directory_whose_access_control_list_may_let_the_user_is_not_warned_of() {
    if !rustix::process::geteuid().is_root() {
        return skipped("a process id of another user: needs root");
    }
    let directory = site();
    let entry = |tag: u16, permissions: u16, id: u32| {
        let half = [tag.to_le_bytes(), permissions.to_le_bytes()].concat();
        [half, id.to_le_bytes().to_vec()].concat()
    };
    // Version 2 (linux/posix_acl_xattr.h): owner, user, group, mask, others.
    let list = [
        2_u32.to_le_bytes().to_vec(),
        entry(0x01, 7, u32::MAX),
        entry(0x02, 7, NOBODY),
        entry(0x04, 5, u32::MAX),
        entry(0x10, 7, u32::MAX),
        entry(0x20, 5, u32::MAX),
    ];
    let (name, flags) = ("system.posix_acl_access", rustix::fs::XattrFlags::empty());
    if rustix::fs::setxattr(directory.path(), name, &list.concat(), flags).is_err() {
        return skipped("an access control list: the file system has none");
    }
    let text = RIGHT.replace("[edge]", "[edge]\nuser = \"nobody\"");
    fs::write(directory.path().join("a.toml"), text).unwrap();
    let said = loadline(&["check", "a.toml"], directory.path());
    assert!(said.code == Some(0) && !said.text.contains("may not write"), "{}", said.text);
}

#[test]
fn directories_to_which_the_user_writes_and_may_not_are_warned_of() {
    if !rustix::process::geteuid().is_root() {
        return skipped("directories of another user: needs root");
    }
    let directory = site();
    let kept = directory.path().join("kept");
    fs::create_dir(&kept).unwrap();
    let text = RIGHT.replace("pid_file = \"pid\"\n", "").replace(
        "[edge]",
        "cache.disk = { path = \"kept/cache\", size = \"1GiB\" }\n\
         cluster = { etcd = [\"http://127.0.0.1:9\"], state_dir = \"kept\" }\n\
         [edge]\nuser = \"nobody\"",
    );
    let acme = "tls = { acme = { names = [\"a.test\"], state_dir = \"kept/new/acme\" }, certi";
    let text = text.replace("tls = { certi", acme);
    fs::write(directory.path().join("a.toml"), text).unwrap();
    let check = || loadline(&["check", "a.toml"], directory.path());
    let words = [
        "a.toml:1:23]",
        "`nobody` may not write the cache to",
        "a.toml:2:",
        "`nobody` may not write the published configuration to",
        "a.toml:16:",
        "`nobody` may not write certificates to",
        "install -d -o nobody",
    ];
    let said = check();
    let faults = said.faults(0, &words);
    assert!(faults.is_empty(), "{faults:?}: {}", said.text);
    chown(&kept, Some(NOBODY), None).unwrap();
    let said = check();
    assert!(said.code == Some(0) && !said.text.contains("may not write"), "{}", said.text);
}

/// A directory with all that the right file names, and with what is wrong.
fn site() -> tempfile::TempDir {
    let directory = tempfile::tempdir().unwrap();
    let write = |name: &str, text: &str| fs::write(directory.path().join(name), text).unwrap();
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let pem = fs::read_to_string(root.join("examples/tls/localhost.pem")).unwrap();
    write("site.pem", &pem);
    write("half.pem", &pem.replace("-----END CERTIFICATE-----", ""));
    let key = pem.find("-----BEGIN PRIVATE KEY-----").unwrap();
    let certificate = pem.find("-----BEGIN CERTIFICATE-----").unwrap();
    let alone = if key > certificate { &pem[..key] } else { &pem[certificate..] };
    write("alone.pem", alone);
    let none = "-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n";
    write(
        "not-x509.pem",
        &format!("{none}{}", rcgen::KeyPair::generate().unwrap().serialize_pem()),
    );
    write("other.key", &rcgen::KeyPair::generate().unwrap().serialize_pem());
    write("past.pem", &dated(2001));
    write("future.pem", &dated(4000));
    write("token", "0123456789abcdef\n");
    write("web.toml", "servers = [\"127.0.0.1:9\"]\n");
    write("none.toml", "servers = []\n");
    write("text", "some text\n");
    directory
}

/// A certificate for one year, and its key.
fn dated(year: i32) -> String {
    let mut terms = rcgen::CertificateParams::new(vec!["localhost".to_owned()]).unwrap();
    terms.not_before = rcgen::date_time_ymd(year, 1, 1);
    terms.not_after = rcgen::date_time_ymd(year, 12, 31);
    let key = rcgen::KeyPair::generate().unwrap();
    terms.self_signed(&key).unwrap().pem() + &key.serialize_pem()
}

#[test]
fn the_file_before_is_right_and_a_check_leaves_nothing_behind() {
    let directory = site();
    fs::write(directory.path().join("a.toml"), RIGHT).unwrap();
    let files = || fs::read_dir(directory.path()).unwrap().count();
    let before = files();
    let said = loadline(&["check", "a.toml"], directory.path());
    assert_eq!((said.code, files()), (Some(0), before), "{}", said.text);
}
