//! Containers of Azure Blob Storage in the place of servers: Azurite, which checks signatures, and
//! a store that says whatever Azure can say.

use std::{
    net::TcpStream,
    path::Path,
    process::{Child, Command, Stdio},
    thread,
    time::Instant,
};

use crate::{
    ports::reserved,
    process::Process,
    stores::{PATIENCE, Scripted, body, curl, error, leaks, object, started, status},
};

/// Azurite with a private container `web` and a public one, `open`.
struct Azurite {
    process: Child,
    port: u16,
    _root: tempfile::TempDir,
}

impl Azurite {
    fn start() -> Self {
        let root = tempfile::tempdir().unwrap();
        let program = Path::new(env!("CARGO_TARGET_TMPDIR"))
            .join("../azurite/node_modules/.bin/azurite-blob");
        let port = reserved().port();
        let process = Command::new(&program)
            .args(["--blobHost", "127.0.0.1", "--blobPort", &port.to_string(), "--silent"])
            .args(["--skipApiVersionCheck", "--disableTelemetry", "--location"])
            .arg(root.path())
            .env("AZURITE_ACCOUNTS", format!("shop:{KEY}"))
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn();
        let process =
            process.unwrap_or_else(|error| panic!("{program:?}: {error}; `make test` installs it"));
        let azurite = Self { process, port, _root: root };
        let start = Instant::now();
        while TcpStream::connect(("127.0.0.1", port)).is_err() {
            assert!(start.elapsed() < PATIENCE, "azurite listens");
            thread::yield_now();
        }
        azurite.put("web?restype=container", "");
        azurite.put("open?restype=container", "x-ms-blob-public-access:blob");
        azurite
    }

    /// Makes a container, or a blob with its own name as content, by a signature of another hand.
    fn put(&self, target: &str, line: &str) {
        let port = self.port.to_string();
        let made = Command::new("/usr/bin/python3")
            .args(["-c", PUT, &port, KEY, target, line])
            .output()
            .unwrap();
        assert!(made.status.success(), "{target}: {}", String::from_utf8_lossy(&made.stderr));
    }

    fn proxy(&self, container: &str, keys: &str, environment: &[(&str, &str)]) -> Process {
        proxy(self.port, container, keys, environment)
    }
}

impl Drop for Azurite {
    fn drop(&mut self) {
        // It may have ended by itself.
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

fn proxy(port: u16, container: &str, keys: &str, environment: &[(&str, &str)]) -> Process {
    let store = format!(
        "{{ url = \"az://{container}\", account = \"shop\", \
         endpoint = \"http://127.0.0.1:{port}\", {keys} }}"
    );
    started("", &store, environment)
}

#[test]
fn a_private_container_is_served_with_its_own_conditions_and_ranges() {
    let azurite = Azurite::start();
    let names = ["a b+c.txt", "50%25", "\u{fc}ber/\u{20ac}", "q'(1)!*@,;=:&$", "~x_-.", "digits"];
    for name in names.into_iter().chain(["site/index.html"]) {
        let path: String = name.bytes().map(|byte| format!("%{byte:02X}")).collect();
        azurite.put(&format!("web/{}", path.replace("%2F", "/")), "");
    }
    let proxy = azurite.proxy("web", "", &[("AZURE_STORAGE_ACCOUNT_KEY", KEY)]);
    for name in names {
        let path: String = name.bytes().map(|byte| format!("%{byte:02X}")).collect();
        let response = curl(&proxy, &format!("/{}", path.replace("%2F", "/")), &[]);
        assert_eq!((status(&response), body(&response)), (200, name), "{response}");
        assert!(!leaks(&response) && !response.contains("x-ms-"), "{response}");
    }
    let part = curl(&proxy, "/digits", &["-r", "2-4"]);
    assert_eq!((status(&part), body(&part)), (206, "git"), "{part}");
    let beyond = curl(&proxy, "/digits", &["-r", "20-"]);
    assert_eq!((status(&beyond), leaks(&beyond)), (416, false), "{beyond}");
    let head = curl(&proxy, "/digits", &["-I"]);
    let lower = head.to_ascii_lowercase();
    assert!(status(&head) == 200 && lower.contains("content-length: 6"), "{head}");
    let tag = head.split('"').nth(1).map(|tag| format!("\"{tag}\"")).unwrap();
    let same = curl(&proxy, "/digits", &["-H", &format!("If-None-Match: {tag}")]);
    assert_eq!((status(&same), body(&same)), (304, ""), "{same}");
    let other = curl(&proxy, "/digits", &["-H", "If-Match: \"other\""]);
    assert_eq!((status(&other), leaks(&other)), (412, false), "{other}");
    for args in [&[][..], &["-I"]] {
        let missing = curl(&proxy, "/missing", args);
        assert_eq!(status(&missing), 404, "{missing}");
    }
    assert_eq!(status(&curl(&proxy, "/../open/a", &[])), 404);
    let ended = proxy.terminate();
    assert!(!ended.log.contains(KEY), "{}", ended.log);
    assert_eq!(ended.endings().get("store-refused"), None, "{}", ended.log);
    let below = azurite.proxy("web/site", "", &[("AZURE_STORAGE_ACCOUNT_KEY", KEY)]);
    assert_eq!(body(&curl(&below, "/", &[])), "site/index.html");
}

#[test]
fn a_public_container_needs_no_credentials_and_a_private_one_does() {
    let azurite = Azurite::start();
    azurite.put("open/a", "");
    azurite.put("web/a", "");
    let anonymous = "credentials = \"anonymous\"";
    let open = azurite.proxy("open", anonymous, &[]);
    assert_eq!(body(&curl(&open, "/a", &[])), "a");
    let private = azurite.proxy("web", anonymous, &[]);
    let refused = curl(&private, "/a", &[]);
    assert!(matches!(status(&refused), 404 | 502) && !leaks(&refused), "{refused}");
    let wrong = azurite.proxy("web", "", &[("AZURE_STORAGE_ACCOUNT_KEY", "d3Jvbmc=")]);
    let refused = curl(&wrong, "/a", &[]);
    assert_eq!((status(&refused), leaks(&refused)), (502, false), "{refused}");
    let ended = wrong.terminate();
    assert_eq!(ended.endings().get("store-refused"), Some(&1), "{}", ended.log);
}

#[test]
fn a_shared_access_signature_goes_with_each_request() {
    let store = Scripted::new(|head| object(head, "found"));
    let token = ("AZURE_STORAGE_SAS_TOKEN", "sv=2021-12-02&sp=r&sig=a%2Bb%3D");
    let proxy = proxy(store.port, "web", "", &[token]);
    assert_eq!(body(&curl(&proxy, "/a?b", &[])), "found");
    let heads = store.heads();
    let line = "GET /shop/web/a?sv=2021-12-02&sp=r&sig=a%2Bb%3D HTTP/1.1\r\n";
    assert!(heads[0].starts_with(line) && !heads[0].contains("uthorization"), "{heads:?}");
    let ended = proxy.terminate();
    assert!(!ended.log.contains("sig="), "{}", ended.log);
}

#[test]
fn what_azure_says_is_no_object_becomes_a_response_of_our_own() {
    for (said, code, told, ending) in [
        ("404 The specified blob does not exist.", "BlobNotFound", 404, "complete"),
        ("412 The condition is not met.", "ConditionNotMet", 412, "complete"),
        ("500 Internal", "InternalError", 500, "complete"),
        ("404 The container does not exist.", "ContainerNotFound", 502, "store-refused"),
        ("403 Forbidden", "AuthenticationFailed", 502, "store-refused"),
        ("403 Forbidden", "AuthorizationPermissionMismatch", 502, "store-refused"),
        ("409 Public access is not permitted", "PublicAccessNotPermitted", 502, "store-refused"),
        ("503 The server is busy.", "ServerBusy", 503, "throttled"),
    ] {
        let store = Scripted::new(move |head| error(head, said, code, ""));
        let proxy = proxy(store.port, "web", "credentials = \"anonymous\"", &[]);
        let response = curl(&proxy, "/a", &[]);
        assert_eq!((status(&response), leaks(&response)), (told, false), "{code}: {response}");
        let ended = proxy.terminate();
        assert_eq!(ended.endings().get(ending), Some(&1), "{code}: {}", ended.log);
    }
}

/// `key of the shop` in base64.
const KEY: &str = "a2V5IG9mIHRoZSBzaG9w";

/// Port, key, target and perhaps a further field.
const PUT: &str = r#"
import base64, email.utils, hashlib, hmac, sys, urllib.parse, urllib.request
port, key, target, line = sys.argv[1:]
path, _, query = target.partition("?")
body = b"" if query else urllib.parse.unquote(path.split("/", 1)[1]).encode()
fields = {"x-ms-date": email.utils.formatdate(usegmt=True), "x-ms-version": "2021-12-02"}
if line:
    name, _, value = line.partition(":")
    fields[name] = value
if not query:
    fields["x-ms-blob-type"] = "BlockBlob"
own = "".join(f"{name}:{fields[name]}\n" for name in sorted(fields))
resource = f"/shop/shop/{path}" + ("\n" + query.replace("=", ":") if query else "")
length = str(len(body)) if body else ""
kind = "text/plain"
text = f"PUT\n\n\n{length}\n\n{kind}\n\n\n\n\n\n\n{own}{resource}"
digest = hmac.new(base64.b64decode(key), text.encode(), hashlib.sha256).digest()
fields["Authorization"] = "SharedKey shop:" + base64.b64encode(digest).decode()
fields["Content-Type"] = kind
url = f"http://127.0.0.1:{port}/shop/{target}"
request = urllib.request.Request(url, body, fields, method="PUT")
urllib.request.urlopen(request).read()
"#;
