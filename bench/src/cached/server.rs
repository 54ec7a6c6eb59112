//! The caches that are compared, and the command and configuration of each.
//!
//! Each has one worker on one core and room for everything that a case stores. nginx and Traffic
//! Server cache in files: these are in `/dev/shm`, so that none of the four waits for a disk, and
//! count as their memory.

use std::fs;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result};

use crate::cost::{Contender, Role};
use crate::peers::Workshop;
use crate::process::{Process, free_ports};
use crate::run::PROXY_CORE;

/// A kind of cache.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Cache {
    Loadline,
    Nginx,
    Varnish,
    TrafficServer,
}

/// A cache that runs; its files go with it.
pub(super) struct Running {
    pub(super) contender: Contender,
    files: Option<tempfile::TempDir>,
}

impl Cache {
    pub(super) const ALL: [Self; 4] =
        [Self::Loadline, Self::Nginx, Self::Varnish, Self::TrafficServer];

    pub(super) const fn name(self) -> &'static str {
        match self {
            Self::Loadline => "loadline",
            Self::Nginx => "nginx",
            Self::Varnish => "varnish",
            Self::TrafficServer => "ats",
        }
    }

    const fn role(self) -> Role {
        match self {
            Self::Loadline => Role::Judged,
            _ => Role::Peer,
        }
    }

    /// Starts it before a server, with a cache that is empty and has room for everything.
    pub(super) fn start(self, workshop: &Workshop, server: u16) -> Result<Running> {
        self.start_with(workshop, server, 1 << 30)
    }

    /// The same with room for so many bytes.
    pub(super) fn start_with(
        self,
        workshop: &Workshop,
        server: u16,
        bytes: u64,
    ) -> Result<Running> {
        let [port] = free_ports()?;
        let files = match self {
            Self::Nginx | Self::TrafficServer => Some(tempfile::tempdir_in("/dev/shm")?),
            Self::Loadline | Self::Varnish => None,
        };
        let place = Place {
            port,
            server,
            megabytes: bytes >> 20,
            directory: workshop.directory.join(format!("{}-{port}", self.name())),
            files: files.as_ref().map_or_else(PathBuf::new, |it| it.path().to_owned()),
        };
        fs::create_dir_all(&place.directory).context("make a directory for a cache")?;
        let command = match self {
            Self::Loadline => place.loadline(workshop)?,
            Self::Nginx => place.nginx()?,
            Self::Varnish => place.varnish(),
            Self::TrafficServer => place.traffic_server()?,
        };
        let log = place.directory.join("output.log");
        let mut process = Process::start(PROXY_CORE, &command, &log)?;
        process.wait_for(port).with_context(|| {
            let said = fs::read_to_string(&log).unwrap_or_default();
            format!("{} said: {said}", self.name())
        })?;
        let contender = Contender::new(self.name(), self.role(), port, process);
        Ok(Running { contender, files })
    }
}

impl Running {
    /// Bytes of memory: of its processes, and of its files.
    pub(super) fn memory(&self) -> Result<u64> {
        let stored = self.files.as_ref().map_or(Ok(0), |files| allocated(files.path()))?;
        Ok(self.contender.process.memory()? + stored)
    }
}

/// What the files below a directory take, in whole pages.
fn allocated(directory: &Path) -> Result<u64> {
    let mut sum = 0;
    for entry in fs::read_dir(directory).context("read the files of a cache")? {
        let entry = entry?;
        let metadata = entry.metadata()?;
        sum +=
            if metadata.is_dir() { allocated(&entry.path())? } else { metadata.blocks() * BLOCK };
    }
    Ok(sum)
}

/// Where one cache is, and what it is before.
struct Place {
    port: u16,
    server: u16,
    megabytes: u64,
    directory: PathBuf,
    files: PathBuf,
}

impl Place {
    fn write(&self, name: &str, text: &str) -> Result<String> {
        let path = self.directory.join(name);
        fs::create_dir_all(path.parent().context("a file has a directory")?)?;
        fs::write(&path, text).with_context(|| format!("write {}", path.display()))?;
        Ok(path.display().to_string())
    }

    fn loadline(&self, workshop: &Workshop) -> Result<Vec<String>> {
        let (port, server, megabytes) = (self.port, self.server, self.megabytes);
        let file = format!(
            "[edge]\nthreads = 1\n[cache]\nmemory = \"{megabytes}MiB\"\n\
             [[listener]]\nbind = \"127.0.0.1:{port}\"\nservice = \"web\"\n\
             routes = [{{ path = \"/\", service = \"web\", cache = true }}]\n\
             [service.web]\n[[service.web.group]]\nservers = [\"127.0.0.1:{server}\"]\n"
        );
        let file = self.write("loadline.toml", &file)?;
        Ok(vec![workshop.loadline.display().to_string(), "serve".to_owned(), file])
    }

    fn nginx(&self) -> Result<Vec<String>> {
        let (port, server, megabytes) = (self.port, self.server, self.megabytes);
        let (directory, files) = (self.directory.display(), self.files.display());
        let file = format!(
            "user root; worker_processes 1; daemon off; pid {directory}/pid;\n\
             error_log /dev/null; worker_rlimit_nofile 20000;\n\
             events {{ worker_connections 19000; }}\n\
             http {{ access_log off; sendfile on; keepalive_requests 1000000000;\n\
             open_file_cache max=10000 inactive=60s;\n\
             client_body_temp_path {directory}/body; proxy_temp_path {directory}/proxy;\n\
             fastcgi_temp_path {directory}/fastcgi; uwsgi_temp_path {directory}/uwsgi;\n\
             scgi_temp_path {directory}/scgi;\n\
             proxy_cache_path {files} levels=1:2 keys_zone=z:128m inactive=60m \
             max_size={megabytes}m use_temp_path=off manager_sleep=50ms manager_files=10000;\n\
             upstream u {{ server 127.0.0.1:{server}; keepalive 64;\n\
             keepalive_requests 1000000000; }}\n\
             server {{ listen 127.0.0.1:{port} backlog=4096;\n\
             location / {{ proxy_pass http://u; proxy_http_version 1.1;\n\
             proxy_set_header Connection \"\"; proxy_cache z; proxy_cache_lock on;\n\
             proxy_cache_lock_timeout 30s; proxy_cache_revalidate on;\n\
             proxy_cache_use_stale error timeout updating http_502; }} }} }}\n"
        );
        let file = self.write("nginx.conf", &file)?;
        Ok(["nginx", "-c", &file].map(str::to_owned).into())
    }

    /// It does not read `stale-if-error`; its grace is the same for all objects.
    fn varnish(&self) -> Vec<String> {
        let (own, server) =
            (format!("127.0.0.1:{}", self.port), format!("127.0.0.1:{}", self.server));
        let directory = self.directory.join("work").display().to_string();
        let storage = format!("malloc,{}m", self.megabytes);
        let command = [
            "varnishd", "-F", "-j", "none", "-n", &directory, "-a", &own, "-b", &server, "-s",
            &storage, "-p", "default_ttl=0", "-p", "default_grace=300",
        ];
        command.map(str::to_owned).into()
    }

    fn traffic_server(&self) -> Result<Vec<String>> {
        let (port, server) = (self.port, self.server);
        let (root, files) = (self.directory.display(), self.files.display());
        for (name, text) in [
            ("etc/ip_allow.yaml", IP_ALLOW),
            ("etc/records.config", &records(port)),
            ("etc/storage.config", &format!("{files} {}M\n", self.megabytes)),
            ("etc/remap.config", &format!("map / http://127.0.0.1:{server}/{}\n", collapses())),
        ] {
            self.write(name, text)?;
        }
        for name in ["run", "log", "cache", "var"] {
            fs::create_dir_all(self.directory.join(name))?;
        }
        let layout = format!(
            "prefix: {root}\nexec_prefix: {root}\nbindir: /usr/bin\nsbindir: /usr/sbin\n\
             sysconfdir: {root}/etc\ndatadir: {root}/cache\nincludedir: /usr/include\n\
             libdir: /usr/lib/trafficserver\nlibexecdir: /usr/lib/trafficserver/modules\n\
             localstatedir: {root}/var\nruntimedir: {root}/run\nlogdir: {root}/log\n\
             cachedir: {root}/cache\n"
        );
        let layout = self.write("runroot.yaml", &layout)?;
        Ok(vec!["traffic_server".to_owned(), format!("--run-root={layout}")])
    }
}

fn records(port: u16) -> String {
    format!(
        "CONFIG proxy.config.http.server_ports STRING {port}:ip-in=127.0.0.1\n\
         CONFIG proxy.config.exec_thread.autoconfig INT 0\n\
         CONFIG proxy.config.exec_thread.limit INT 1\n\
         CONFIG proxy.config.accept_threads INT 0\n\
         CONFIG proxy.config.cache.ram_cache.size INT 1G\n\
         CONFIG proxy.config.cache.ram_cache_cutoff INT 64M\n\
         CONFIG proxy.config.http.cache.required_headers INT 2\n\
         CONFIG proxy.config.reverse_proxy.enabled INT 1\n\
         CONFIG proxy.config.url_remap.remap_required INT 1\n\
         CONFIG proxy.config.http.cache.open_write_fail_action INT 1\n\
         CONFIG proxy.config.cache.enable_read_while_writer INT 1\n\
         CONFIG proxy.config.http.number_of_redirections INT 10\n\
         CONFIG proxy.config.http.redirect.actions STRING \
         self:follow,loopback:follow,routable:follow\n\
         CONFIG proxy.config.http.redirect_use_orig_cache_key INT 1\n\
         CONFIG proxy.config.http.background_fill_active_timeout INT 0\n\
         CONFIG proxy.config.http.background_fill_completed_threshold FLOAT 0.0\n\
         CONFIG proxy.config.log.logging_enabled INT 0\n\
         CONFIG proxy.config.crash_log_helper STRING NULL\n\
         CONFIG proxy.config.admin.user_id STRING #-1\n\
         CONFIG proxy.config.diags.output.diag STRING E\n"
    )
}

/// What its documentation has against many requests for the same: a plugin of a package of its own,
/// with the settings in [`records`] that it needs.
fn collapses() -> &'static str {
    let is_there = Path::new("/usr/lib/trafficserver/modules/collapsed_forwarding.so").exists();
    if is_there { " @plugin=collapsed_forwarding.so" } else { "" }
}

const IP_ALLOW: &str = "ip_allow:\n  - apply: in\n    ip_addrs: 127.0.0.1\n    action: allow\n    \
                        methods: ALL\n";

/// In which the kernel counts what a file takes.
const BLOCK: u64 = 512;
