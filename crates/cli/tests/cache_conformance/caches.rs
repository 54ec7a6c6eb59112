//! The caches that the cases are tried on, each as a process with its own folder, before one
//! server.

use std::{
    fs,
    net::{SocketAddr, TcpListener, TcpStream},
    path::Path,
    process::{Child, Command, Stdio},
    thread,
    time::Duration,
};

/// A cache that runs; it ends when this is dropped.
pub(crate) struct Cache {
    process: Child,
    pub(crate) address: String,
    _folder: tempfile::TempDir,
}

impl Cache {
    /// Starts what `kind` names before the server at `origin`, and waits until it responds.
    pub(crate) fn start(kind: Kind, origin: SocketAddr) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let port = free_port();
        let mut command = kind.command(folder.path(), port, origin);
        let log = fs::File::create(folder.path().join("log")).unwrap();
        command.stdin(Stdio::null()).stdout(log.try_clone().unwrap()).stderr(log);
        let process = command.spawn().unwrap_or_else(|e| panic!("{command:?}: {e}"));
        let address = format!("127.0.0.1:{port}");
        let mut cache = Self { process, address, _folder: folder };
        cache.wait_until_it_listens();
        cache
    }

    fn wait_until_it_listens(&mut self) {
        for _ in 0..STARTS_WITHIN_TENTHS {
            if TcpStream::connect(&self.address).is_ok() {
                return;
            }
            let ended = self.process.try_wait().unwrap();
            assert!(ended.is_none(), "ended at once: {}", self.log());
            thread::sleep(Duration::from_millis(100));
        }
        panic!("does not listen: {}", self.log());
    }

    fn log(&self) -> String {
        fs::read_to_string(self._folder.path().join("log")).unwrap()
    }
}

impl Drop for Cache {
    fn drop(&mut self) {
        // Some have children, which end with them if they are asked to.
        let id = self.process.id().to_string();
        let _ = Command::new("kill").arg(&id).status();
        for _ in 0..STARTS_WITHIN_TENTHS {
            if self.process.try_wait().is_ok_and(|ended| ended.is_some()) {
                return;
            }
            thread::sleep(Duration::from_millis(100));
        }
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

/// Which cache.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    Loadline,
    Nginx,
    Varnish,
    TrafficServer,
}

impl Kind {
    /// Its name in the table.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Loadline => "loadline",
            Self::Nginx => "nginx",
            Self::Varnish => "Varnish",
            Self::TrafficServer => "Traffic Server",
        }
    }

    fn command(self, folder: &Path, port: u16, origin: SocketAddr) -> Command {
        match self {
            Self::Loadline => loadline(folder, port, origin),
            Self::Nginx => nginx(folder, port, origin),
            Self::Varnish => varnish(folder, port, origin),
            Self::TrafficServer => traffic_server(folder, port, origin),
        }
    }
}

/// One server and a cache with its defaults; servers are neither checked nor ejected, since they
/// fail as the cases want.
fn loadline(folder: &Path, port: u16, origin: SocketAddr) -> Command {
    let file = folder.join("loadline.toml");
    let text = format!(
        "[[listener]]\n\
         bind = \"127.0.0.1:{port}\"\n\
         protocol = \"http\"\n\
         routes = [{{ path = \"/\", service = \"origin\", cache = {{}} }}]\n\
         [service.origin]\n\
         [[service.origin.group]]\n\
         servers = [\"{origin}\"]\n"
    );
    fs::write(&file, text).unwrap();
    let mut command = Command::new(env!("CARGO_BIN_EXE_loadline"));
    command.arg("serve").arg(file);
    command
}

/// With what its documentation offers for correctness: revalidation, stale content where the
/// server fails, and updates in the background.
fn nginx(folder: &Path, port: u16, origin: SocketAddr) -> Command {
    let file = folder.join("nginx.conf");
    let at = folder.display();
    let text = format!(
        "daemon off; worker_processes 2; pid {at}/pid; error_log {at}/error.log;\n\
         events {{ worker_connections 1024; }}\n\
         http {{\n\
           access_log off;\n\
           client_body_temp_path {at}/body; proxy_temp_path {at}/proxy;\n\
           fastcgi_temp_path {at}/fcgi; uwsgi_temp_path {at}/uwsgi; scgi_temp_path {at}/scgi;\n\
           proxy_cache_path {at}/cache keys_zone=all:8m;\n\
           server {{\n\
             listen 127.0.0.1:{port};\n\
             location / {{\n\
               proxy_pass http://{origin};\n\
               proxy_http_version 1.1;\n\
               proxy_set_header Host $http_host;\n\
               proxy_cache all;\n\
               proxy_cache_revalidate on;\n\
               proxy_cache_background_update on;\n\
               proxy_cache_use_stale error timeout updating http_500 http_502 http_503 http_504;\n\
             }}\n\
           }}\n\
         }}\n"
    );
    fs::write(&file, text).unwrap();
    let mut command = Command::new("nginx");
    command.arg("-c").arg(file).arg("-p").arg(folder).arg("-e").arg(folder.join("start.log"));
    command
}

/// With its built-in rules.
fn varnish(folder: &Path, port: u16, origin: SocketAddr) -> Command {
    let file = folder.join("default.vcl");
    let (host, at) = (origin.ip(), origin.port());
    let text = format!("vcl 4.1;\nbackend default {{ .host = \"{host}\"; .port = \"{at}\"; }}\n");
    fs::write(&file, text).unwrap();
    let mut command = Command::new("varnishd");
    command.args(["-F", "-a", &format!("127.0.0.1:{port}"), "-s", "malloc,64m"]);
    command.arg("-f").arg(file).arg("-n").arg(folder.join("varnish"));
    // Without a jail it needs no user of its own.
    command.args(["-j", "none"]);
    command
}

/// With the settings of its package.
fn traffic_server(folder: &Path, port: u16, origin: SocketAddr) -> Command {
    let root = folder.join("root");
    let path = format!("--path={}", root.display());
    let made = Command::new("traffic_layout").args(["init", &path]).output().unwrap();
    assert!(made.status.success(), "{made:?}");
    let etc = root.join("etc/trafficserver");
    let settings = etc.join("records.config");
    let text = fs::read_to_string(&settings).unwrap_or_default();
    let lines = text.lines().filter(|line| !line.contains("http.server_ports"));
    let mut text: String = lines.map(|line| format!("{line}\n")).collect();
    text += &format!("CONFIG proxy.config.http.server_ports STRING {port}:ip-in=127.0.0.1\n");
    text += "CONFIG proxy.config.admin.user_id STRING #-1\n";
    text += "CONFIG proxy.config.http.wait_for_cache INT 1\n";
    text += "CONFIG proxy.config.url_remap.pristine_host_hdr INT 1\n";
    fs::write(&settings, text).unwrap();
    fs::write(etc.join("remap.config"), format!("map / http://{origin}/\n")).unwrap();
    fs::write(etc.join("storage.config"), format!("{} 64M\n", root.display())).unwrap();
    let mut command = Command::new("traffic_server");
    command.env("TS_RUNROOT", &root);
    command
}

fn free_port() -> u16 {
    TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port()
}

const STARTS_WITHIN_TENTHS: u32 = 200;
