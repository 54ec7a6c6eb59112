//! The flags that say what is asked: URLs with their weights, method, headers, body.

use std::path::{Path, PathBuf};

use loadline_load::{LoadPlan, Target};

use super::usage::{UsageError, read_file};
use crate::commands::switches::header;

/// What is asked, and of whom.
#[derive(clap::Args)]
#[command(next_help_heading = "Requests")]
pub(crate) struct RequestArgs {
    /// URLs to request; `http://` may be left out. Of several, each request takes one by their
    /// weights
    #[arg(value_name = "URL", help_heading = None)]
    urls: Vec<Target>,
    /// Weights of the URLs, in their order [1 each]
    #[arg(long, value_name = "N,N", value_delimiter = ',')]
    weights: Vec<u32>,
    /// Read URLs from a file, one on each line, followed by its weight if that is not 1 (siege -f);
    /// `-` is the standard input
    #[arg(short = 'f', long = "urls", value_name = "FILE")]
    #[arg(conflicts_with_all = ["urls", "weights"])]
    file: Option<PathBuf>,
    /// A header of the request; repeat for more
    #[arg(short = 'H', long = "header", value_name = "NAME: VALUE", value_parser = header)]
    headers: Vec<(String, String)>,
    /// The HTTP method [GET, with --body POST]
    #[arg(short = 'X', long)]
    method: Option<String>,
    /// The body of each request; @FILE takes it from a file, @- from the standard input
    #[arg(long, visible_alias = "data", value_name = "TEXT|@FILE")]
    body: Option<String>,
    /// Count responses by the value of this header, for example the name of the server
    #[arg(long, value_name = "HEADER")]
    count_by: Option<String>,
}

impl RequestArgs {
    /// Where requests go, each with its weight.
    pub(crate) fn targets(&self) -> Result<Vec<(Target, u32)>, UsageError> {
        if let Some(path) = &self.file {
            return listed(path, &read_text(path)?);
        }
        if self.urls.is_empty() {
            return Err(UsageError::Conflict("say where requests go: a URL, or --urls FILE"));
        }
        let weights = match self.weights.len() {
            0 => vec![1; self.urls.len()],
            given if given == self.urls.len() => self.weights.clone(),
            given => return Err(UsageError::Weights { given, urls: self.urls.len() }),
        };
        if weights.contains(&0) {
            return Err(UsageError::Conflict("a weight is above zero; leave the URL out instead"));
        }
        Ok(self.urls.iter().cloned().zip(weights).collect())
    }

    /// Writes the rest into `plan`.
    pub(crate) fn complete(&self, plan: &mut LoadPlan) -> Result<(), UsageError> {
        plan.headers.clone_from(&self.headers);
        plan.count_by.clone_from(&self.count_by);
        if let Some(body) = &self.body {
            plan.body = match body.strip_prefix('@') {
                Some(path) => read_file("the body", Path::new(path))?,
                None => body.as_bytes().to_vec(),
            };
            "POST".clone_into(&mut plan.method);
        }
        if let Some(method) = &self.method {
            plan.method.clone_from(method);
        }
        Ok(())
    }
}

/// Reads a file that should be text.
pub(super) fn read_text(path: &Path) -> Result<String, UsageError> {
    let bytes = read_file("it", path)?;
    let text = String::from_utf8(bytes);
    let text = text.map_err(|_| UsageError::wrong_file(path, &"it is not UTF-8 text"))?;
    // Editors of Windows put a mark there.
    match text.strip_prefix('\u{feff}') {
        Some(rest) => Ok(rest.to_owned()),
        None => Ok(text),
    }
}

/// The URLs of a file: `URL` or `URL WEIGHT` on a line, `#` before a comment, as siege has it.
fn listed(path: &Path, text: &str) -> Result<Vec<(Target, u32)>, UsageError> {
    let mut targets = Vec::new();
    for (number, line) in (1..).zip(text.lines()) {
        let line = line.trim();
        // A fragment, which also begins with #, is never sent, so nothing is lost.
        if line.is_empty() || line.starts_with('#') {
            continue;
        }
        let wrong = |why: &dyn std::fmt::Display| {
            UsageError::wrong_file(path, &format!("line {number}: {why}"))
        };
        let (url, rest) = line.split_once(char::is_whitespace).unwrap_or((line, "1"));
        let target = url.parse::<Target>().map_err(|error| wrong(&error))?;
        let weight = rest.trim().parse().ok().filter(|weight| *weight > 0);
        let weight = weight.ok_or_else(|| {
            wrong(&format!("`{}` is no weight; write `{url} 3`, or the URL alone", rest.trim()))
        })?;
        targets.push((target, weight));
    }
    if targets.is_empty() {
        return Err(UsageError::wrong_file(path, &"it holds no URL; write one a line"));
    }
    Ok(targets)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_of_urls_has_a_weight_where_it_is_not_one() {
        let text = "# the site\nlocalhost/a\n\n  localhost/b 3\r\nhttp://localhost/c#top\t2\n";
        let targets = listed(Path::new("urls"), text).unwrap();
        let read: Vec<_> =
            targets.iter().map(|(target, weight)| (target.path(), *weight)).collect();
        assert_eq!(read, [("/a", 1), ("/b", 3), ("/c", 2)]);
    }

    #[test]
    fn the_mark_that_editors_put_before_a_text_is_none_of_it() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("urls.txt");
        std::fs::write(&path, "\u{feff}http://10.0.0.1/\n").unwrap();
        assert_eq!(read_text(&path).unwrap(), "http://10.0.0.1/\n");
    }

    #[test]
    fn a_wrong_line_of_a_file_is_named() {
        for (text, told) in [
            ("# nothing\n", "holds no URL"),
            ("localhost\nftp://x/ 2", "line 2"),
            ("localhost POST a=b", "line 1: `POST a=b` is no weight; write `localhost 3`"),
            ("localhost 0", "`0` is no weight"),
        ] {
            let error = listed(Path::new("urls.txt"), text).unwrap_err().to_string();
            assert!(error.contains(told) && error.contains("urls.txt"), "{error}");
        }
    }
}
