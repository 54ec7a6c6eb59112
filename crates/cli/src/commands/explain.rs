//! `loadline explain`: what becomes of one request, by a configuration file alone.

use std::{
    net::{IpAddr, Ipv4Addr, SocketAddr},
    path::PathBuf,
    process::ExitCode,
    str::FromStr,
};

use clap::ValueHint;
use loadline_control::explain::{Question, explain};
use loadline_http1::{Framing, MessageBuilder};
use loadline_load::{PlanError, Target};

use super::{outside::name_program, switches::header, wrong_usage};

/// Explain how a request is handled: listener, route, limits, order of groups
///
/// Decides as the proxy does, from the file alone: nothing is sent, and no server is contacted. For
/// each route that is tried before the matching one, prints the condition that does not match.
#[derive(clap::Args)]
#[command(after_help = AFTER_HELP)]
pub(crate) struct Args {
    /// The configuration file
    file: PathBuf,
    /// The request: a URL, or a method and a URL
    #[arg(long, value_name = "[METHOD] URL", value_hint = ValueHint::Url)]
    request: Request,
    /// A header of the request; repeat for more. A Host takes the place of the URL's
    #[arg(short = 'H', long = "header", value_name = "NAME: VALUE", value_parser = header)]
    headers: Vec<(String, String)>,
    /// The address of the client, or of the proxy in front. What one of the listener's
    /// `trusted_proxies` says in X-Forwarded-For, X-Forwarded-Proto or Forwarded counts
    #[arg(long, value_name = "ADDRESS", default_value_t = Ipv4Addr::LOCALHOST.into())]
    from: IpAddr,
    /// The listener that takes the request [the one with the URL's scheme and port, or the only one
    /// with its scheme]
    #[arg(long, value_name = "ADDRESS:PORT")]
    listener: Option<SocketAddr>,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

pub(crate) fn run(args: &Args) -> anyhow::Result<ExitCode> {
    let loaded = match loadline_control::load(&args.file).map_err(name_program) {
        Ok(loaded) => loaded,
        Err(errors) => return Ok(super::print_errors(errors)),
    };
    let asked = match question(args) {
        Ok(asked) => asked,
        Err(error) => return Ok(wrong_usage(&error.to_string())),
    };
    let told = match explain(&loaded.fleet, &asked) {
        Ok(told) => told,
        Err(error) => return Ok(wrong_usage(&error.to_string())),
    };
    let text =
        if args.json { serde_json::to_string_pretty(&told)? + "\n" } else { told.to_string() };
    super::print(&text)?;
    Ok(ExitCode::SUCCESS)
}

/// What is asked, if such a request could be sent.
fn question(args: &Args) -> anyhow::Result<Question> {
    let Request { method, url } = &args.request;
    let is_host = |field: &(String, String)| field.0.eq_ignore_ascii_case("host");
    let (hosts, headers): (Vec<_>, Vec<_>) = args.headers.iter().cloned().partition(is_host);
    let authority = match hosts.as_slice() {
        [] => url.authority(),
        [(_, host)] => host.clone(),
        _ => anyhow::bail!("a request with more than one Host is answered 400"),
    };
    let mut sent = Vec::new();
    let mut request = MessageBuilder::request(&mut sent, method, url.path(), &authority)?;
    for (name, value) in &headers {
        request = request.field(name, value)?;
    }
    request.finish(Framing::None);
    Ok(Question {
        method: method.clone(),
        is_secure: url.is_secure(),
        authority,
        port: url.port(),
        target: url.path().to_owned(),
        headers,
        client: args.from,
        listener: args.listener,
    })
}

/// A request as it is written: `URL` or `METHOD URL`.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Request {
    method: String,
    url: Target,
}

impl FromStr for Request {
    type Err = String;

    /// What is wrong with it is said with a mark below the place.
    fn from_str(text: &str) -> Result<Self, String> {
        let start = text.len() - text.trim_start().len();
        let end = text.trim_end().len().max(start);
        let is_space = char::is_whitespace;
        let (method, at) = match text[start..end].split_once(is_space) {
            Some((first, rest)) if !first.contains([':', '/', '.']) => {
                (first, end - rest.trim_start().len())
            }
            _ => ("GET", start),
        };
        let url = &text[at..end];
        if let Some(space) = url.find(is_space) {
            let why = "a URL has no white space in it: write %20, or one method and one URL";
            return Err(pointed(text, at + space, why));
        }
        match url.parse() {
            Ok(url) => Ok(Self { method: method.to_owned(), url }),
            Err(PlanError::Url { why, at: place, .. }) => Err(pointed(text, at + place, why)),
            Err(other) => Err(other.to_string()),
        }
    }
}

/// What is wrong, the text it is about, and a mark below its byte `at`.
fn pointed(text: &str, at: usize, why: &str) -> String {
    let before = text[..at].chars().count();
    format!("{why}\n  {text}\n  {:before$}^", "")
}

const AFTER_HELP: &str = "\
Examples:
  loadline explain loadline.toml --request https://shop.example.com/cart
  loadline explain loadline.toml --request 'POST http://shop.example.com/api' \\
      -H 'Cookie: beta=1' --from 192.0.2.1

Exit codes: 0 explained, 1 wrong usage, a wrong file, or no listener takes it.";

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> Result<(String, String), String> {
        text.parse::<Request>().map(|it| (it.method, it.url.to_string()))
    }

    #[test]
    fn a_request_is_a_url_or_a_method_and_a_url() {
        for (text, method, url) in [
            ("http://a/b?c", "GET", "http://a/b?c"),
            (" a:81 ", "GET", "http://a:81/"),
            ("POST https://a/", "POST", "https://a/"),
            ("  M-SEARCH \t a ", "M-SEARCH", "http://a/"),
        ] {
            assert_eq!(read(text), Ok((method.to_owned(), url.to_owned())), "{text}");
        }
    }

    #[test]
    fn what_is_wrong_with_a_request_is_pointed_at() {
        for (text, rest, why) in [
            ("http://a b/", " b/", "white space"),
            ("GET http://a/ HTTP/1.1", " HTTP/1.1", "white space"),
            ("a.example b", " b", "white space"),
            ("POST http://\u{fc}:1/", "\u{fc}:1/", "xn--"),
            ("GET http://a:99999/", ":99999/", "1 to 65535"),
            ("http://a:8080:80/", ":8080:80/", "1 to 65535"),
            ("GET /x", "/x", "needs a host"),
            ("GET ftp://a/", "ftp://a/", "only http://"),
            (" ", "", "needs a host"),
            ("", "", "needs a host"),
        ] {
            let told = read(text).unwrap_err();
            let lines: Vec<_> = told.lines().collect();
            assert!(lines[0].contains(why), "{text}: {told}");
            let mark = lines[2].chars().count() - 3;
            let before = text.chars().count() - rest.chars().count();
            assert_eq!((lines[1], mark), (format!("  {text}").as_str(), before), "{told}");
        }
    }
}
