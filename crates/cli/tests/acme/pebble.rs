//! The authority: pebble, and the name server that it asks.

use std::{
    fs,
    io::Write as _,
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
    thread::sleep,
    time::{Duration, Instant},
};

use rcgen::{BasicConstraints, CertificateParams, CertifiedIssuer, DnType, IsCa, KeyPair};
use serde_json::{Value, json};

use crate::ports::reserved;

/// Pebble and its name server, ended when this is dropped. All names lead to 127.0.0.1.
pub(crate) struct Pebble {
    name_server: Child,
    process: Option<Child>,
    faults: Vec<(&'static str, &'static str)>,
    port: u16,
    management: u16,
    dns: u16,
    /// Where the name server is told of names.
    names: u16,
    /// Where it verifies names by HTTP, and by TLS.
    pub(crate) http_port: u16,
    pub(crate) tls_port: u16,
    folder: tempfile::TempDir,
}

impl Pebble {
    /// One with these faults, as its environment names them; `keys` are added to its configuration.
    pub(crate) fn start(faults: &[(&'static str, &'static str)], keys: &Value) -> Self {
        let folder = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
        write_certificates(folder.path());
        let [port, management, dns, http_port, tls_port, names] =
            [(); 6].map(|()| reserved().port());
        let at = |port: u16| format!("127.0.0.1:{port}");
        let path = |name: &str| folder.path().join(name).display().to_string();
        let mut pebble = json!({
            "listenAddress": at(port),
            "managementListenAddress": at(management),
            "certificate": path("pebble.pem"),
            "privateKey": path("pebble.key"),
            "httpPort": http_port,
            "tlsPort": tls_port,
            "keyAlgorithm": "ecdsa",
            "retryAfter": { "authz": 1, "order": 1 },
            "profiles": { "default": { "description": "", "validityPeriod": 7_776_000 } },
        });
        for (key, value) in keys.as_object().into_iter().flatten() {
            pebble[key] = value.clone();
        }
        fs::write(folder.path().join("pebble.json"), json!({ "pebble": pebble }).to_string())
            .unwrap();
        let name_server = Command::new(tool("pebble-challtestsrv"))
            .args(["-http01", "", "-https01", "", "-tlsalpn01", "", "-doh", ""])
            .args(["-defaultIPv6", "", "-dnsserver", &at(dns), "-management", &at(names)])
            .stdout(Stdio::null())
            .spawn()
            .unwrap();
        let (process, faults) = (None, faults.to_vec());
        let mut pebble = Self {
            name_server,
            process,
            faults,
            port,
            management,
            dns,
            names,
            http_port,
            tls_port,
            folder,
        };
        pebble.begin();
        pebble
    }

    /// Starts it, with nothing of what it knew before.
    pub(crate) fn begin(&mut self) {
        let log = fs::OpenOptions::new().create(true).append(true).open(self.log_file()).unwrap();
        let process = Command::new(tool("pebble"))
            .arg("-config")
            .arg(self.folder.path().join("pebble.json"))
            .args(["-strict", "-dnsserver", &format!("127.0.0.1:{}", self.dns)])
            .env("PEBBLE_VA_NOSLEEP", "1")
            .envs(self.faults.iter().copied())
            .stdout(log)
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        self.process = Some(process);
        let deadline = Instant::now() + PATIENCE;
        while self.get(self.port, "/dir").is_none() || self.get(self.management, ROOT).is_none() {
            assert!(Instant::now() < deadline, "pebble is ready: {}", self.log());
            sleep(Duration::from_millis(20));
        }
    }

    /// Ends it.
    pub(crate) fn kill(&mut self) {
        if let Some(mut process) = self.process.take() {
            let _ = process.kill();
            let _ = process.wait();
        }
    }

    pub(crate) fn directory(&self) -> String {
        format!("https://127.0.0.1:{}/dir", self.port)
    }

    /// The CA of its own HTTPS.
    pub(crate) fn authorities(&self) -> PathBuf {
        self.folder.path().join("ca.pem")
    }

    /// A file with the root of what it issues.
    pub(crate) fn root(&self) -> PathBuf {
        let path = self.folder.path().join("root.pem");
        fs::write(&path, self.get(self.management, ROOT).unwrap()).unwrap();
        path
    }

    /// Has it suggest to renew this certificate at once.
    pub(crate) fn suggest_renewal(&self, pem: &str) {
        let window = json!({
            "suggestedWindow": { "start": "2020-01-01T00:00:00Z", "end": "2020-01-02T00:00:00Z" },
        });
        let chain = &pem[pem.find("-----BEGIN CERTIFICATE").unwrap()..];
        let body = json!({ "certificate": chain, "ariResponse": window.to_string() }).to_string();
        let url = format!("https://127.0.0.1:{}/set-renewal-info/", self.management);
        let mut curl = Command::new("curl")
            .args(["-sSf", "--cacert"])
            .arg(self.authorities())
            .args(["--data-binary", "@-", &url])
            .stdin(Stdio::piped())
            .spawn()
            .unwrap();
        curl.stdin.take().unwrap().write_all(body.as_bytes()).unwrap();
        assert!(curl.wait().unwrap().success());
    }

    /// Has a name lead to this address alone.
    pub(crate) fn lead(&self, name: &str, address: &str) {
        for (path, body) in [
            ("clear-a", json!({ "host": name })),
            ("add-a", json!({ "host": name, "addresses": [address] })),
        ] {
            let url = format!("http://127.0.0.1:{}/{path}", self.names);
            let mut curl = Command::new("curl");
            curl.args(["-sSf", "--data", &body.to_string(), &url]);
            assert!(curl.status().unwrap().success());
        }
    }

    pub(crate) fn log(&self) -> String {
        fs::read_to_string(self.log_file()).unwrap()
    }

    /// Orders that were made.
    pub(crate) fn orders(&self) -> usize {
        self.log().matches("Added order ").count()
    }

    /// Accounts that were made.
    pub(crate) fn accounts(&self) -> usize {
        self.log().matches("accounts in memory").count()
    }

    fn log_file(&self) -> PathBuf {
        self.folder.path().join("log")
    }

    fn get(&self, port: u16, path: &str) -> Option<String> {
        let output = Command::new("curl")
            .args(["-sf", "--cacert"])
            .arg(self.authorities())
            .arg(format!("https://127.0.0.1:{port}{path}"))
            .output()
            .unwrap();
        output.status.success().then(|| String::from_utf8(output.stdout).unwrap())
    }
}

impl Drop for Pebble {
    fn drop(&mut self) {
        self.kill();
        let _ = self.name_server.kill();
        let _ = self.name_server.wait();
    }
}

/// Where `make test` builds it.
fn tool(name: &str) -> PathBuf {
    let path = Path::new(env!("CARGO_TARGET_TMPDIR")).with_file_name("tools").join(name);
    assert!(path.exists(), "{} is missing; `make test` installs it", path.display());
    path
}

/// A certificate for the HTTPS of pebble and its CA.
fn write_certificates(folder: &Path) {
    let mut params = CertificateParams::new(Vec::<String>::new()).unwrap();
    params.distinguished_name.push(DnType::CommonName, "authority");
    params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    let issuer = CertifiedIssuer::self_signed(params, KeyPair::generate().unwrap()).unwrap();
    fs::write(folder.join("ca.pem"), issuer.pem()).unwrap();
    let key = KeyPair::generate().unwrap();
    let params = CertificateParams::new(vec!["127.0.0.1".to_owned()]).unwrap();
    fs::write(folder.join("pebble.pem"), params.signed_by(&key, &issuer).unwrap().pem()).unwrap();
    fs::write(folder.join("pebble.key"), key.serialize_pem()).unwrap();
}

const ROOT: &str = "/roots/0";
const PATIENCE: Duration = Duration::from_secs(30);
