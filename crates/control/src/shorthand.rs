//! A fleet from the command line: `--listen :8080 --to http://10.0.0.1:80 --to 10.0.0.2:80`.

use loadline_core::fleet::Fleet;

use crate::{
    ConfigErrors, Resolve, SystemResolver, parse_with,
    value::{
        address::{Bind, Place},
        text::{Complaint, Textual},
    },
};

/// Why a command line makes no fleet.
#[derive(Clone, Debug, thiserror::Error)]
pub enum ShorthandError {
    /// `--listen` is not an address to bind.
    #[error("--listen {text}: {message}; {help}")]
    Listen {
        /// What was given.
        text: String,
        /// What is wrong.
        message: String,
        /// What would be right.
        help: String,
    },
    /// A `--to` is not the address of a server.
    #[error("--to {text}: {message}; {help}")]
    To {
        /// What was given.
        text: String,
        /// What is wrong.
        message: String,
        /// What would be right.
        help: String,
    },
    /// Each is right, together they are not.
    #[error("{}", .0.errors().iter().map(ToString::to_string).collect::<Vec<_>>().join("; "))]
    Together(ConfigErrors),
}

/// One service, `web`, with one group without limits: what `serve --listen --to` runs.
///
/// # Errors
/// Where an address is wrong, a name cannot be resolved, a server is named twice or none is, or
/// a server wants TLS.
pub fn shorthand(listen: &str, to: &[String]) -> Result<Fleet, ShorthandError> {
    shorthand_with(listen, to, &SystemResolver)
}

fn shorthand_with(
    listen: &str,
    to: &[String],
    resolver: &dyn Resolve,
) -> Result<Fleet, ShorthandError> {
    Bind::read(listen).map_err(|Complaint { message, help }| ShorthandError::Listen {
        text: listen.to_owned(),
        message,
        help,
    })?;
    let servers: Vec<String> = to
        .iter()
        .map(|url| {
            address(url).map_err(|Complaint { message, help }| ShorthandError::To {
                text: url.clone(),
                message,
                help,
            })
        })
        .collect::<Result<_, _>>()?;
    // Addresses that passed the checks above hold neither quotes nor backslashes.
    let servers = servers.join("\", \"");
    let text = format!(
        "[[listener]]\nbind = \"{listen}\"\nservice = \"web\"\n\
         [[service.web.group]]\nservers = [\"{servers}\"]\n"
    );
    let loaded = parse_with("the command line", &text, resolver);
    loaded.map(|loaded| loaded.fleet).map_err(ShorthandError::Together)
}

/// The host and port of `http://host[:port][/]` or `host:port`.
fn address(url: &str) -> Result<String, Complaint> {
    let wrong = |help: &str| Complaint::new(format!("`{url}` is not a server"), help);
    let address = match url.split_once("://") {
        None => url.to_owned(),
        Some(("http", rest)) => with_port(rest.strip_suffix('/').unwrap_or(rest)),
        Some(("https", _)) => {
            return Err(wrong(
                "TLS to servers is not supported yet; write http:// if the server also speaks \
                 plain HTTP",
            ));
        }
        Some(_) => return Err(wrong("write http://host:port or host:port")),
    };
    if address.contains('/') {
        return Err(wrong("requests keep their own path: leave the path out"));
    }
    Place::read(&address).map(|_| address)
}

/// `host` with the port of plain HTTP, unless it has one.
fn with_port(host: &str) -> String {
    let after_brackets = host.rsplit(']').next().unwrap_or(host);
    if after_brackets.contains(':') { host.to_owned() } else { format!("{host}:80") }
}

#[cfg(test)]
mod tests {
    use loadline_core::fleet::Capacity;

    use super::*;
    use crate::LocalOnly;

    fn fleet(listen: &str, to: &[&str]) -> Result<Fleet, String> {
        let to: Vec<String> = to.iter().map(|&url| url.to_owned()).collect();
        shorthand_with(listen, &to, &LocalOnly).map_err(|error| error.to_string())
    }

    #[test]
    fn two_servers_make_one_group_without_limits() {
        let to = ["http://10.0.0.1", "10.0.0.2:81", "http://localhost:82/", "http://[::1]"];
        let fleet = fleet(":8080", &to).unwrap();
        assert_eq!(fleet.listeners[0].bind, "0.0.0.0:8080".parse().unwrap());
        let [group] = fleet.services[0].groups.as_slice() else { panic!("one group") };
        assert_eq!(group.capacity, Capacity::default());
        let addresses: Vec<String> =
            group.servers.iter().map(|server| server.address.to_string()).collect();
        assert_eq!(addresses, ["10.0.0.1:80", "10.0.0.2:81", "127.0.0.1:82", "[::1]:80"]);
    }

    #[test]
    fn a_wrong_command_line_says_what_would_be_right() {
        for (listen, to, words) in [
            ("8080", "10.0.0.1:80", "--listen 8080"),
            (":8080", "https://10.0.0.1", "TLS to servers is not supported yet"),
            (":8080", "ftp://10.0.0.1", "http://host:port"),
            (":8080", "http://10.0.0.1/app", "leave the path out"),
            (":8080", "10.0.0.1", "add the port"),
            (":8080", "10.0.0.1:80\"]", "--to 10.0.0.1:80"),
            (":8080", "nowhere.invalid:80", "cannot be resolved"),
        ] {
            let error = fleet(listen, &[to]).unwrap_err();
            assert!(error.contains(words), "{error}");
        }
        assert!(fleet(":8080", &["10.0.0.1:80", "10.0.0.1:80"]).unwrap_err().contains("twice"));
        assert!(fleet(":8080", &[]).is_err());
    }
}
