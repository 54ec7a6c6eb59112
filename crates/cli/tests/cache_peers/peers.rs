//! The caches of the distribution: the configuration and command of each.

use std::{fs, net::SocketAddr, path::Path, process::Command};

/// With what its documentation offers for correctness: revalidation, stale content where the
/// server fails, and updates in the background.
pub(crate) fn nginx(folder: &Path, port: u16, origin: SocketAddr) -> Command {
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
               proxy_cache_use_stale error timeout http_500 http_502 http_503 http_504;\n\
             }}\n\
           }}\n\
         }}\n"
    );
    fs::write(&file, text).unwrap();
    let mut command = Command::new("nginx");
    command.arg("-c").arg(file).arg("-p").arg(folder).arg("-e").arg(folder.join("start.log"));
    command
}

/// With its built-in rules. Its grace is what stale-while-revalidate says, and none without that:
/// with the ten seconds of its defaults it uses everything after its lifetime.
pub(crate) fn varnish(folder: &Path, port: u16, origin: SocketAddr) -> Command {
    let file = folder.join("default.vcl");
    let (host, at) = (origin.ip(), origin.port());
    let text = format!("vcl 4.1;\nbackend default {{ .host = \"{host}\"; .port = \"{at}\"; }}\n");
    fs::write(&file, text).unwrap();
    let mut command = Command::new("varnishd");
    command.args(["-F", "-a", &format!("127.0.0.1:{port}"), "-s", "malloc,64m"]);
    command.args(["-p", "default_grace=0", "-p", "default_keep=3600"]);
    command.arg("-f").arg(file).arg("-n").arg(folder.join("varnish"));
    // Without a jail it needs no user of its own.
    command.args(["-j", "none"]);
    command
}

/// With its defaults, in a layout of folders of its own.
pub(crate) fn traffic_server(folder: &Path, port: u16, origin: SocketAddr) -> Command {
    let root = folder.display();
    for name in ["etc", "run", "log", "cache", "var"] {
        fs::create_dir_all(folder.join(name)).unwrap();
    }
    let records = format!(
        "CONFIG proxy.config.http.server_ports STRING {port}:ip-in=127.0.0.1\n\
         CONFIG proxy.config.admin.user_id STRING #-1\n\
         CONFIG proxy.config.http.wait_for_cache INT 1\n\
         CONFIG proxy.config.url_remap.pristine_host_hdr INT 1\n\
         CONFIG proxy.config.log.logging_enabled INT 0\n\
         CONFIG proxy.config.crash_log_helper STRING NULL\n"
    );
    let layout = format!(
        "prefix: {root}\nexec_prefix: {root}\nbindir: /usr/bin\nsbindir: /usr/sbin\n\
         sysconfdir: {root}/etc\ndatadir: {root}/cache\nincludedir: /usr/include\n\
         libdir: /usr/lib/trafficserver\nlibexecdir: /usr/lib/trafficserver/modules\n\
         localstatedir: {root}/var\nruntimedir: {root}/run\nlogdir: {root}/log\n\
         cachedir: {root}/cache\n"
    );
    for (name, text) in [
        ("etc/ip_allow.yaml", IP_ALLOW),
        ("etc/records.config", &records),
        ("etc/storage.config", &format!("{root}/cache 64M\n")),
        ("etc/remap.config", &format!("map / http://{origin}/\n")),
        ("runroot.yaml", &layout),
    ] {
        fs::write(folder.join(name), text).unwrap();
    }
    let mut command = Command::new("traffic_server");
    command.arg(format!("--run-root={root}/runroot.yaml"));
    command
}

const IP_ALLOW: &str = "ip_allow:\n  - apply: in\n    ip_addrs: 127.0.0.1\n    action: allow\n    \
                        methods: ALL\n";
