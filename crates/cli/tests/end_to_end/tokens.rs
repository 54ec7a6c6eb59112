//! Bearer tokens whose keys are kept where somebody else writes them.

use std::{
    fs,
    io::{BufRead as _, BufReader, Write as _},
    net::{TcpListener, TcpStream},
    path::Path,
    sync::{
        Arc, Mutex,
        atomic::{AtomicBool, AtomicU32, Ordering::Relaxed},
    },
    thread,
    time::{Duration, Instant, SystemTime, UNIX_EPOCH},
};

use base64::prelude::{BASE64_URL_SAFE_NO_PAD, Engine as _};
use rcgen::{KeyPair, PKCS_ED25519, PublicKeyData as _, SigningKey as _};

use crate::process::{Process, file, loadline, logging, run, until_logged};

/// A key of Ed25519 that signs tokens.
struct Signer {
    id: &'static str,
    pair: KeyPair,
}

impl Signer {
    fn new(id: &'static str) -> Self {
        Self { id, pair: KeyPair::generate_for(&PKCS_ED25519).unwrap() }
    }

    /// Its public half as a JWK.
    fn jwk(&self) -> String {
        let (id, x) = (self.id, BASE64_URL_SAFE_NO_PAD.encode(self.pair.der_bytes()));
        format!("{{ \"kty\": \"OKP\", \"crv\": \"Ed25519\", \"kid\": \"{id}\", \"x\": \"{x}\" }}")
    }

    /// A token that counts for an hour, for the user who has the name of the key.
    fn token(&self) -> String {
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_secs();
        let header = format!("{{\"alg\":\"EdDSA\",\"kid\":\"{}\"}}", self.id);
        let payload = format!("{{\"exp\":{},\"sub\":\"{}\"}}", now + 3_600, self.id);
        let input = [header, payload].map(|part| BASE64_URL_SAFE_NO_PAD.encode(part)).join(".");
        let signature = self.pair.sign(input.as_bytes()).unwrap();
        format!("{input}.{}", BASE64_URL_SAFE_NO_PAD.encode(signature))
    }
}

fn set(signers: &[&Signer]) -> String {
    let keys: Vec<String> = signers.iter().map(|signer| signer.jwk()).collect();
    format!("{{ \"keys\": [{}] }}", keys.join(", "))
}

/// A configuration whose listener wants tokens that these keys have signed.
fn config(keys: &str, server: &str) -> String {
    format!(
        "[[listener]]\nbind = \"127.0.0.1:0\"\nservice = \"web\"\n\
         jwt = {{ keys = \"{keys}\" }}\n\
         [[service.web.group]]\nservers = [\"{server}\"]\n"
    )
}

/// Where an issuer publishes its keys.
struct Publisher {
    url: String,
    state: Arc<Published>,
}

#[derive(Default)]
struct Published {
    set: Mutex<String>,
    fetches: AtomicU32,
    /// Whether it takes requests and says nothing.
    hangs: AtomicBool,
}

impl Publisher {
    fn of(signers: &[&Signer]) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let url = format!("http://{}/jwks.json", listener.local_addr().unwrap());
        let publisher = Self { url, state: Arc::default() };
        publisher.publish(signers);
        let state = publisher.state.clone();
        // It ends with the process of the tests.
        thread::spawn(move || {
            let mut held = Vec::new();
            for stream in listener.incoming() {
                held.extend(state.answer(stream.unwrap()));
            }
        });
        publisher
    }

    fn publish(&self, signers: &[&Signer]) {
        *self.state.set.lock().unwrap() = set(signers);
    }

    fn fetches(&self) -> u32 {
        self.state.fetches.load(Relaxed)
    }
}

impl Published {
    /// Answers a request; the connection where it hangs.
    fn answer(&self, stream: TcpStream) -> Option<TcpStream> {
        let mut lines = BufReader::new(&stream).lines();
        while lines.next()?.ok().is_some_and(|line| !line.is_empty()) {}
        self.fetches.fetch_add(1, Relaxed);
        if self.hangs.load(Relaxed) {
            return Some(stream);
        }
        let set = self.set.lock().unwrap().clone();
        let head = format!("HTTP/1.1 200 OK\r\nContent-Length: {}\r\n\r\n", set.len());
        // Whoever has gone needs no keys.
        let _ = (&stream).write_all((head + &set).as_bytes());
        None
    }
}

/// The status that the bearer of a token gets.
fn status(proxy: &Process, signer: &Signer) -> String {
    let (field, url) = (format!("Authorization: Bearer {}", signer.token()), proxy.url("/"));
    let args = ["-s", "-o", "/dev/null", "-w", "%{http_code}", "-H", &field, &url];
    String::from_utf8(run("curl", &args).stdout).unwrap()
}

fn check(path: &Path) -> (bool, String) {
    let output = loadline(&["check", path.to_str().unwrap()]).output().unwrap();
    (output.status.success(), String::from_utf8_lossy(&output.stderr).into_owned())
}

#[test]
fn a_key_that_leaves_the_file_is_out_after_a_reload_and_a_new_one_is_in() {
    let worker = Process::fixed();
    let (old, new) = (Signer::new("old"), Signer::new("new"));
    let keys = file("jwks.json", &set(&[&old]));
    let path = file("tokens.toml", &config(keys.to_str().unwrap(), &worker.address));
    let (proxy, log) = logging(&["serve", path.to_str().unwrap()]);
    assert_eq!([status(&proxy, &old), status(&proxy, &new)], ["200", "401"]);
    fs::write(&keys, set(&[&new])).unwrap();
    proxy.signal("HUP");
    assert!((0..2_000).any(|_| status(&proxy, &new) == "200"), "the reload came into force");
    assert_eq!(status(&proxy, &old), "401");
    // A file without a key that verifies tokens changes nothing.
    let broken = set(&[&old]).replace("Ed25519", "X25519");
    fs::write(&keys, &broken).unwrap();
    let (is_right, told) = check(&path);
    // The text is wrapped, where depends on the path.
    assert!(!is_right && told.contains("verifies") && told.contains("Ed25519"), "{told}");
    assert!(told.contains("tokens.toml:4:"), "it names the place: {told}");
    proxy.signal("HUP");
    until_logged(&log, "verifies");
    assert_eq!(status(&proxy, &new), "200");
    proxy.terminate();
    let told = fs::read_to_string(&log).unwrap();
    assert!(told.contains("Ed25519"), "{told}");
    for path in [keys, path, log] {
        fs::remove_file(path).unwrap();
    }
}

#[test]
fn keys_of_a_url_change_while_requests_run_and_none_of_them_fails() {
    let worker = Process::fixed();
    let (old, new) = (Signer::new("old"), Signer::new("new"));
    let issuer = Publisher::of(&[&old]);
    let path = file("tokens.toml", &config(&issuer.url, &worker.address));
    // The first request may come before the first keys, and waits for them.
    let proxy = Process::start(&["serve", path.to_str().unwrap()]);
    assert_eq!(status(&proxy, &old), "200");
    let stop = AtomicBool::new(false);
    let statuses = thread::scope(|scope| {
        let clients: Vec<_> = (0..2)
            .map(|_| {
                scope.spawn(|| {
                    let mut statuses = Vec::new();
                    while !stop.load(Relaxed) {
                        statuses.push(status(&proxy, &old));
                    }
                    statuses
                })
            })
            .collect();
        issuer.publish(&[&old, &new]);
        // Nobody has told of the new key but the token that names it.
        let first: Vec<_> = (0..3).map(|_| status(&proxy, &new)).collect();
        stop.store(true, Relaxed);
        let all = clients.into_iter().flat_map(|client| client.join().unwrap());
        first.into_iter().chain(all).collect::<Vec<_>>()
    });
    assert!(statuses.iter().all(|status| status == "200"), "{statuses:?}");
    assert_eq!(issuer.fetches(), 2);
    // Nor of the next one, moments later.
    let newest = Signer::new("newest");
    issuer.publish(&[&new, &newest]);
    assert_eq!(status(&proxy, &newest), "200");
    assert_eq!(issuer.fetches(), 3);
    // Keys that nobody has make for one request in half a minute.
    for _ in 0..5 {
        assert_eq!(status(&proxy, &Signer::new("made-up")), "401");
    }
    assert_eq!(issuer.fetches(), 4);
    proxy.terminate();
    fs::remove_file(path).unwrap();
}

#[test]
fn an_issuer_that_publishes_no_key_any_more_has_withdrawn_all_of_them() {
    let worker = Process::fixed();
    let signer = Signer::new("a");
    let issuer = Publisher::of(&[&signer]);
    let path = file("tokens.toml", &config(&issuer.url, &worker.address));
    let proxy = Process::start(&["serve", path.to_str().unwrap()]);
    assert_eq!(status(&proxy, &signer), "200");
    issuer.publish(&[]);
    // A key that is not known makes for a fetch.
    assert_eq!(status(&proxy, &Signer::new("made-up")), "401");
    assert_eq!(status(&proxy, &signer), "401");
    let log = proxy.terminate().log;
    assert!(log.contains("all keys are withdrawn"), "{log}");
    fs::remove_file(path).unwrap();
}

#[test]
fn the_log_names_nobody_whose_token_is_signed_by_a_key_that_the_issuer_does_not_have() {
    let worker = Process::fixed();
    let (signer, forger) = (Signer::new("alice"), Signer::new("root"));
    let issuer = Publisher::of(&[&signer]);
    let log = file("access.log", "");
    let to = format!("[edge]\naccess_log = {{ to = {log:?}, format = \"combined\" }}\n");
    let path = file("tokens.toml", &(to + &config(&issuer.url, &worker.address)));
    let proxy = Process::start(&["serve", path.to_str().unwrap()]);
    assert_eq!((status(&proxy, &forger), status(&proxy, &signer)), ("401".into(), "200".into()));
    proxy.terminate();
    // Each worker writes its own lines: which is first is not said.
    let lines = fs::read_to_string(&log).unwrap();
    let user = |status: &str| {
        let line = lines.lines().find(|line| line.contains(status)).expect(&lines);
        line.split(' ').nth(2).unwrap().to_owned()
    };
    assert_eq!((user("\" 401 "), user("\" 200 ")), ("-".to_owned(), "alice".to_owned()));
    fs::remove_file(path).unwrap();
    fs::remove_file(log).unwrap();
}

#[test]
fn a_url_that_hangs_costs_its_own_requests_a_bounded_time_and_others_none() {
    let worker = Process::fixed();
    let signer = Signer::new("a");
    let issuer = Publisher::of(&[&signer]);
    issuer.state.hangs.store(true, Relaxed);
    let open = "routes = [{ query = { open = \"*\" }, service = \"web\", jwt = false }]\n";
    let text =
        config(&issuer.url, &worker.address).replacen("[[service", &format!("{open}[[service"), 1);
    let path = file("tokens.toml", &text);
    let proxy = Process::start(&["serve", path.to_str().unwrap()]);
    let began = Instant::now();
    let open =
        run("curl", &["-s", "-o", "/dev/null", "-w", "%{http_code}", &proxy.url("/?open=1")]);
    assert_eq!(String::from_utf8(open.stdout).unwrap(), "200");
    assert!(began.elapsed() < Duration::from_secs(4), "nobody waits for keys without a token");
    assert_eq!(status(&proxy, &signer), "503");
    assert!(began.elapsed() < Duration::from_secs(30));
    // It is asked again, and then all is well.
    issuer.state.hangs.store(false, Relaxed);
    let began = Instant::now();
    while status(&proxy, &signer) != "200" {
        assert!(began.elapsed() < Duration::from_secs(60), "the keys are never fetched");
    }
    let ended = proxy.terminate();
    assert!(ended.endings()["internal"] >= 1, "{}", ended.log);
    assert_eq!(
        ended.log.matches("keys cannot be fetched: no response").count(),
        1,
        "{}",
        ended.log
    );
    fs::remove_file(path).unwrap();
}

#[test]
fn a_url_that_nothing_names_any_more_is_not_asked_and_one_that_comes_back_is() {
    let worker = Process::fixed();
    let signer = Signer::new("a");
    let issuer = Publisher::of(&[&signer]);
    let with = config(&issuer.url, &worker.address);
    let without =
        with.lines().filter(|line| !line.starts_with("jwt")).collect::<Vec<_>>().join("\n");
    let path = file("tokens.toml", &with);
    let proxy = Process::start(&["serve", path.to_str().unwrap()]);
    assert_eq!((status(&proxy, &signer), issuer.fetches()), ("200".to_owned(), 1));
    let reload = |text: &str, expected: &str| {
        fs::write(&path, text).unwrap();
        proxy.signal("HUP");
        let stranger = Signer::new("b");
        assert!((0..2_000).any(|_| status(&proxy, &stranger) == expected), "it came into force");
    };
    reload(&without, "200");
    assert_eq!(issuer.fetches(), 1);
    reload(&with, "401");
    assert_eq!(status(&proxy, &signer), "200");
    assert!(issuer.fetches() >= 2, "the keys of before are gone");
    proxy.terminate();
    fs::remove_file(path).unwrap();
}

#[test]
fn what_is_cached_for_the_bearer_of_a_token_is_for_nobody_without_one() {
    let fresh = "Cache-Control: public, max-age=60";
    let worker = Process::start(&["worker", "fixed", "--listen", "127.0.0.1:0", "-H", fresh]);
    let (known, other) = (Signer::new("a"), Signer::new("a"));
    let keys = file("jwks.json", &set(&[&known]));
    let cached = "routes = [{ path = \"/\", service = \"web\", cache = true }]\n";
    let text = config(keys.to_str().unwrap(), &worker.address);
    let path = file("tokens.toml", &text.replacen("[[service", &format!("{cached}[[service"), 1));
    let proxy = Process::start(&["serve", path.to_str().unwrap()]);
    for version in ["--http1.1", "--http2-prior-knowledge"] {
        let ask = |signer: Option<&Signer>| {
            let field = signer.map_or("X-A: b".to_owned(), |signer| {
                format!("Authorization: Bearer {}", signer.token())
            });
            let told = run("curl", &["-s", "-i", version, "-H", &field, &proxy.url("/")]).stdout;
            String::from_utf8_lossy(&told).to_ascii_lowercase()
        };
        ask(Some(&known));
        let told = ask(Some(&known));
        assert!(told.contains(" 200") && told.contains("; hit"), "{version}: {told}");
        for stranger in [None, Some(&other)] {
            let told = ask(stranger);
            assert!(told.contains(" 401") && !told.contains("cache-status"), "{version}: {told}");
        }
    }
    for path in [keys, path] {
        fs::remove_file(path).unwrap();
    }
}
