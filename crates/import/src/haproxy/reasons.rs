//! Why lines of HAProxy have no counterpart.

use super::lex::Line;
use crate::write::VARIABLE;

/// Why the line is not carried over.
pub(super) fn reason(line: &Line) -> &'static str {
    if is_from_environment(line) {
        return ENVIRONMENT;
    }
    let found = REASONS.iter().find(|(words, _)| {
        words.split(' ').enumerate().all(|(index, word)| line.word(index) == word)
    });
    found.map_or(UNKNOWN, |(_, why)| why)
}

/// Whether the number or duration of a line, which is written in another way here, is a variable.
pub(super) fn is_from_environment(line: &Line) -> bool {
    let last = line.words.last().is_some_and(|word| word.text.contains(VARIABLE));
    last && matches!(line.word(0), "timeout" | "retries")
}

const ENVIRONMENT: &str =
    "its value is in the environment of HAProxy: write it here, or \"${NAME}\" for one with a unit";
const ERRORS: &str =
    "`error_pages` of the listener or service names pages by status, without a head";
const UNKNOWN: &str = "loadline has nothing that corresponds, or the import does not know it";
const LOG: &str =
    "say where the access log goes: [edge] access_log = \"syslog\", \"stdout\" or a path";
const PROCESS: &str = "the service unit of loadline does this (examples/loadline.service)";
const TUNING: &str = "loadline needs no such setting";
const TABLE: &str =
    "no stick tables; `sticky` on a service keeps sessions, `limit` on a route limits rates";
const CIPHERS: &str =
    "all suites of loadline are safe ones; `tls.suites` and `tls.min_version` restrict them";

const REASONS: [(&str, &str); 71] = [
    ("log", LOG),
    ("log-format", LOG),
    ("log-tag", LOG),
    ("option httplog", LOG),
    ("option tcplog", LOG),
    ("option dontlognull", LOG),
    ("option dontlog-normal", LOG),
    ("option log-health-checks", "changes of a server's state are always logged"),
    ("option log-separate-errors", LOG),
    ("option logasap", LOG),
    ("capture", "the access log has fixed fields; `access_log.fields` adds some"),
    ("unique-id-format", "`$request_id` is a variable in headers, and a field of the access log"),
    (
        "unique-id-header",
        "write request_headers.set = { X-Request-Id = \"$request_id\" } on the routes",
    ),
    ("chroot", PROCESS),
    ("daemon", PROCESS),
    ("master-worker", PROCESS),
    ("user", PROCESS),
    ("group", PROCESS),
    ("uid", PROCESS),
    ("gid", PROCESS),
    ("pidfile", PROCESS),
    ("ulimit-n", PROCESS),
    ("set-dumpable", PROCESS),
    ("strict-limits", PROCESS),
    ("zero-warning", "`loadline check` shows warnings"),
    ("default-path", "relative paths are relative to the directory of the file"),
    ("hard-stop-after", "edge.drain_timeout says how long a drain may take, 30s by default"),
    ("stats socket", "[admin] has an API; `loadline drain`, `weight` and `top` use it"),
    ("stats timeout", "[admin] has an API; `loadline drain`, `weight` and `top` use it"),
    ("ssl-default-bind-ciphers", CIPHERS),
    ("ssl-default-bind-ciphersuites", CIPHERS),
    ("ssl-default-bind-options", CIPHERS),
    ("ssl-default-server-ciphers", CIPHERS),
    ("ssl-default-server-ciphersuites", CIPHERS),
    ("ssl-default-server-options", CIPHERS),
    ("ssl-dh-param-file", CIPHERS),
    ("tune.ssl.default-dh-param", CIPHERS),
    ("stick-table", TABLE),
    ("stick", TABLE),
    ("http-request track-sc0", TABLE),
    ("http-request track-sc1", TABLE),
    ("http-request track-sc2", TABLE),
    ("tcp-request", "routes ask for the address in `source`; there are no rules for connections"),
    ("tcp-response", "there are no rules for connections"),
    (
        "http-request auth",
        "THIS PROTECTED SOMETHING: the imported file asks for no password; `basic_auth` on the \
         route does",
    ),
    (
        "http-request set-src",
        "`trusted_proxies` of the listener names who may say in a header who the client is",
    ),
    ("http-request set-var", "there are no variables but those of the request"),
    ("http-request lua", "no Lua"),
    ("compression", "`compress` is a key of services: write the line in the backends"),
    ("lua-load", "no Lua"),
    ("filter", "no filters"),
    ("errorfile", ERRORS),
    ("errorfiles", ERRORS),
    ("errorloc", "no redirect for a failure; `error_pages` names a page by status"),
    ("http-error", ERRORS),
    ("option socket-stats", TUNING),
    ("option http-ignore-probes", TUNING),
    ("option http-server-close", "connections to servers are kept and used again"),
    ("option httpclose", "connections are kept and used again"),
    ("option forceclose", "connections are kept and used again"),
    ("option http-keep-alive", TUNING),
    ("option http-use-htx", TUNING),
    ("option prefer-last-server", TUNING),
    ("option abortonclose", "a request whose client has gone is always given up"),
    ("option splice-auto", TUNING),
    ("option clitcpka", TUNING),
    ("option srvtcpka", TUNING),
    ("option contstats", TUNING),
    ("fullconn", "`max_in_flight` of a server is one number"),
    ("http-reuse", "connections are always used again"),
    (
        "timeout tunnel",
        "after 101 (WebSocket) nothing is cut for being idle; with `tcp` `timeouts.idle` of \
         listener and service says when",
    ),
];

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{files::Files, haproxy::lex::sections, model::Lines};

    #[test]
    fn the_words_of_a_line_decide() {
        let mut files = Files::default();
        files.add(
            String::new(),
            "global\n log /dev/log local0\n stats socket x\n blue\n".to_owned(),
        );
        let (sections, _) = sections(&mut files, &mut Lines::default());
        let reasons: Vec<_> = sections[0].lines.iter().map(reason).collect();
        assert_eq!(reasons[0], LOG);
        assert!(reasons[1].contains("[admin]"));
        assert_eq!(reasons[2], UNKNOWN);
    }
}
