//! A fleet from the command line: `--listen :8080 --to http://10.0.0.1:80 --to 10.0.0.2:80`.

use std::net::Ipv6Addr;

use loadline_core::fleet::Fleet;
use loadline_spanned::{FileErrors, Textual};

use crate::{
    Resolve, SystemResolver, parse_with,
    value::address::{Bind, Place},
};

/// Why a command line makes no fleet.
#[derive(Clone, Debug, thiserror::Error)]
pub enum ShorthandError {
    /// `--listen` is not an address to bind.
    #[error("--listen {text}: {help}")]
    Listen {
        /// What was given.
        text: String,
        /// What would be right.
        help: String,
    },
    /// A `--to` is not the address of a server.
    #[error("--to {text}: {help}")]
    To {
        /// What was given, without a password.
        text: String,
        /// What would be right.
        help: String,
    },
    /// Some servers want TLS and some do not.
    #[error(
        "--to {secure} and --to {plain}: a service speaks TLS to all servers or to none; write \
         https:// for each, or a file with a service for each"
    )]
    Mixed {
        /// The first server with TLS.
        secure: String,
        /// The first server without TLS.
        plain: String,
    },
    /// Nobody shows a certificate.
    #[error("{switch} is for servers that speak TLS: write --to https://...")]
    NoTls {
        /// The switch that was given.
        switch: &'static str,
    },
    /// Each is right, together they are not.
    #[error("{}", .0.errors().iter().map(ToString::to_string).collect::<Vec<_>>().join("; "))]
    Together(FileErrors),
}

/// Whose certificates are taken of servers by `https://`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Trust {
    /// Those signed by whom the system trusts.
    System,
    /// Those signed by the authorities of a file (`--cacert`).
    Authorities(String),
    /// Any (`--insecure`).
    Anybody,
}

/// One service, `web`, with one group without limits: what `serve --listen --to` runs.
///
/// # Errors
/// Where an address is wrong, a name cannot be resolved, a server is named twice or none is, some
/// servers want TLS and some do not, or `trust` is for no server.
pub fn shorthand(listen: &str, to: &[String], trust: &Trust) -> Result<Fleet, ShorthandError> {
    shorthand_with(listen, to, trust, &SystemResolver)
}

fn shorthand_with(
    listen: &str,
    to: &[String],
    trust: &Trust,
    resolver: &dyn Resolve,
) -> Result<Fleet, ShorthandError> {
    Bind::read(listen)
        .map_err(|it| ShorthandError::Listen { text: listen.to_owned(), help: it.help })?;
    let servers: Vec<Url> = to.iter().map(|url| Url::read(url)).collect::<Result<_, _>>()?;
    let tls = tls(&servers, trust)?;
    // Addresses that passed the checks above hold neither quotes nor backslashes.
    let servers: Vec<_> = servers.into_iter().map(|it| it.address).collect();
    let servers = servers.join("\", \"");
    let text = format!(
        "[[listener]]\nbind = \"{listen}\"\nservice = \"web\"\n[service.web]\n{tls}\
         [[service.web.group]]\nservers = [\"{servers}\"]\n"
    );
    let loaded = parse_with("the command line", &text, resolver);
    loaded.map(|loaded| loaded.fleet).map_err(ShorthandError::Together)
}

/// What the service says of TLS.
fn tls(servers: &[Url], trust: &Trust) -> Result<String, ShorthandError> {
    let find = |is_secure| servers.iter().find(|it| it.is_secure == is_secure);
    match (find(true), find(false), trust) {
        (Some(secure), Some(plain), _) => {
            Err(ShorthandError::Mixed { secure: secure.text.clone(), plain: plain.text.clone() })
        }
        (Some(_), None, Trust::System) => Ok("tls = {}\n".to_owned()),
        (Some(_), None, Trust::Authorities(path)) => {
            Ok(format!("tls.authorities = {}\n", toml::Value::from(path.as_str())))
        }
        (Some(_), None, Trust::Anybody) => Ok("tls.verify = false\n".to_owned()),
        (None, _, Trust::System) => Ok(String::new()),
        (None, _, Trust::Authorities(_)) => Err(ShorthandError::NoTls { switch: "--cacert" }),
        (None, _, Trust::Anybody) => Err(ShorthandError::NoTls { switch: "--insecure" }),
    }
}

/// `host:port`, or `http://host[:port][/]` and the same of `https`.
struct Url {
    /// As it was written.
    text: String,
    is_secure: bool,
    /// Host and port.
    address: String,
}

impl Url {
    fn read(text: &str) -> Result<Self, ShorthandError> {
        let wrong =
            |help: &str| ShorthandError::To { text: text.to_owned(), help: help.to_owned() };
        let (scheme, rest) = text.split_once("://").unwrap_or(("", text));
        let scheme = scheme.to_ascii_lowercase();
        let place = rest.split(['/', '?', '#']).next().unwrap_or_default();
        if let Some((_, host)) = place.rsplit_once('@') {
            let text =
                if scheme.is_empty() { host.to_owned() } else { format!("{scheme}://{host}") };
            let help = "requests bring their own user and password: leave them out".to_owned();
            return Err(ShorthandError::To { text, help });
        }
        if rest != place && (scheme.is_empty() || rest[place.len()..] != *"/") {
            return Err(wrong("paths belong to requests, which keep their own: leave it out"));
        }
        let port = match &*scheme {
            "" => None,
            "http" => Some(80),
            "https" => Some(443),
            _ => return Err(wrong("write http://host:port, https://host:port or host:port")),
        };
        if port.is_some() && place.parse::<Ipv6Addr>().is_ok() {
            return Err(wrong(&format!("write the address in brackets: {scheme}://[{place}]")));
        }
        let has_port = place.rsplit(']').next().is_some_and(|it| it.contains(':'));
        let address = match port {
            Some(port) if !has_port => format!("{place}:{port}"),
            _ => place.to_owned(),
        };
        Place::read(&address).map_err(|it| wrong(&it.help))?;
        Ok(Self { text: text.to_owned(), is_secure: scheme == "https", address })
    }
}

#[cfg(test)]
mod tests {
    use loadline_core::fleet::Capacity;

    use super::*;
    use crate::LocalOnly;

    fn trusting(to: &[&str], trust: &Trust) -> Result<Fleet, String> {
        let to: Vec<String> = to.iter().map(|&url| url.to_owned()).collect();
        shorthand_with(":8080", &to, trust, &LocalOnly).map_err(|error| error.to_string())
    }

    fn fleet(listen: &str, to: &str) -> Result<Fleet, String> {
        shorthand_with(listen, &[to.to_owned()], &Trust::System, &LocalOnly)
            .map_err(|error| error.to_string())
    }

    fn addresses(fleet: &Fleet) -> Vec<String> {
        let [group] = fleet.services[0].groups.as_slice() else { panic!("one group") };
        group.servers.iter().map(|server| server.address.to_string()).collect()
    }

    #[test]
    fn two_servers_make_one_group_without_limits() {
        let to = ["http://10.0.0.1", "10.0.0.2:81", "http://localhost:82/", "http://[::1]"];
        let fleet = trusting(&to, &Trust::System).unwrap();
        assert_eq!(fleet.listeners[0].bind, "0.0.0.0:8080".parse().unwrap());
        assert_eq!(fleet.services[0].groups[0].capacity, Capacity::default());
        assert_eq!(fleet.services[0].tls, None);
        assert_eq!(addresses(&fleet), ["10.0.0.1:80", "10.0.0.2:81", "127.0.0.1:82", "[::1]:80"]);
    }

    #[test]
    fn https_is_tls_to_port_443_verified_as_the_trust_says() {
        let to =
            ["https://10.0.0.1", "https://localhost/", "HTTPS://[::1]", "https://10.0.0.2:8443"];
        let tls = |trust: Trust| {
            let fleet = trusting(&to, &trust).unwrap();
            let expected = ["10.0.0.1:443", "127.0.0.1:443", "[::1]:443", "10.0.0.2:8443"];
            assert_eq!(addresses(&fleet), expected);
            let tls = fleet.services[0].tls.clone().unwrap();
            assert_eq!(tls.name, None);
            (tls.authorities, tls.verify)
        };
        assert_eq!(tls(Trust::System), (None, true));
        let odd = "C:\\a \"b\".pem".to_owned();
        assert_eq!(tls(Trust::Authorities(odd.clone())), (Some(odd), true));
        assert_eq!(tls(Trust::Anybody), (None, false));
    }

    #[test]
    fn a_wrong_command_line_says_what_would_be_right() {
        for (listen, to, words) in [
            ("8080", "10.0.0.1:80", "--listen 8080: write \":8080\""),
            (":8080", "ftp://10.0.0.1", "https://host:port"),
            (":8080", "http://10.0.0.1/app", "paths belong to requests"),
            (":8080", "https://10.0.0.1?app", "paths belong to requests"),
            (":8080", "10.0.0.1:80/", "paths belong to requests"),
            (":8080", "10.0.0.1", "add the port"),
            (":8080", "10.0.0.1:80\"]", "--to 10.0.0.1:80"),
            (":8080", "https://", "--to https://: "),
            (":8080", "https://::1", "https://[::1]"),
            (":8080", "https://10.0.0.1:99999", "ports are 1 to 65535"),
            (":8080", "nowhere.invalid:80", "cannot be resolved"),
        ] {
            let error = fleet(listen, to).unwrap_err();
            assert!(error.contains(words), "{error}");
        }
        let password = fleet(":8080", "https://me:se@cret@10.0.0.1/").unwrap_err();
        let told = "--to https://10.0.0.1: requests bring their own user and password";
        assert!(password.starts_with(told), "{password}");
        let twice = trusting(&["10.0.0.1:80", "10.0.0.1:80"], &Trust::System).unwrap_err();
        assert!(twice.contains("twice"), "{twice}");
        assert!(trusting(&[], &Trust::System).is_err());
    }

    #[test]
    fn tls_is_for_all_servers_and_what_is_said_of_certificates_for_tls() {
        let mixed = ["10.0.0.1:80", "https://10.0.0.2", "https://10.0.0.3"];
        let error = trusting(&mixed, &Trust::System).unwrap_err();
        let told = "--to https://10.0.0.2 and --to 10.0.0.1:80: a service speaks TLS to all";
        assert!(error.starts_with(told), "{error}");
        for (trust, switch) in
            [(Trust::Anybody, "--insecure"), (Trust::Authorities("ca.pem".into()), "--cacert")]
        {
            let error = trusting(&["http://10.0.0.1"], &trust).unwrap_err();
            assert!(error.starts_with(switch), "{error}");
        }
    }
}
