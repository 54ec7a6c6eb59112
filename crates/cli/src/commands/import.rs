//! `loadline import`: the configuration of another load balancer as a file of ours.

use std::{
    fs,
    io::{self, Write as _},
    path::{Path, PathBuf},
    process::ExitCode,
};

use anyhow::Context as _;
use clap::ValueEnum;
use loadline_import::{Imported, Kind, Remark, import};
use serde::Serialize;

use super::{EXIT_USAGE, print_errors, report_error, tell};

/// Convert a configuration of HAProxy, nginx or Caddy
///
/// Each line without a counterpart becomes a comment at its place, with the reason; so does each
/// line whose counterpart does not do quite the same. The program is recognized by the text of the
/// file. Files that it includes are read too, if they are found.
#[derive(clap::Args)]
#[command(after_help = AFTER_HELP)]
pub(crate) struct Args {
    /// The file: haproxy.cfg, nginx.conf or Caddyfile
    file: PathBuf,
    /// The program of the file, if it is not recognized
    #[arg(long, value_enum, value_name = "PROGRAM")]
    from: Option<From>,
    /// Write to this file, which must not exist yet [standard output]
    #[arg(short, long, value_name = "FILE")]
    output: Option<PathBuf>,
    /// Print JSON: the file, counts and each line that was not converted
    #[arg(long)]
    json: bool,
}

#[derive(Clone, Copy, ValueEnum)]
enum From {
    Haproxy,
    Nginx,
    Caddy,
}

pub(crate) fn run(args: &Args) -> anyhow::Result<ExitCode> {
    let name = args.file.display().to_string();
    let text = match fs::read(&args.file) {
        Ok(bytes) => String::from_utf8_lossy(&bytes).into_owned(),
        Err(error) => {
            report_error(&anyhow::Error::new(error).context(format!("reading {name}")));
            return Ok(ExitCode::from(EXIT_USAGE));
        }
    };
    let Some(kind) = args.from.map(kind).or_else(|| Kind::of(&name, &text)) else {
        let why = other_format(&text).unwrap_or(UNKNOWN);
        report_error(&anyhow::anyhow!("{name} {why}"));
        return Ok(ExitCode::from(EXIT_USAGE));
    };
    let imported = match import(kind, &name, text, &|pattern| included(&args.file, pattern)) {
        Ok(imported) => imported,
        Err(errors) => return Ok(print_errors(errors)),
    };
    if let Some(output) = &args.output {
        let made = fs::File::options().write(true).create_new(true).open(output);
        let mut file = made.with_context(|| format!("making {}", output.display()))?;
        file.write_all(imported.text.as_bytes()).context("writing the file")?;
    }
    let printed = match (args.json, &args.output) {
        (true, _) => serde_json::to_string_pretty(&ImportReport::of(kind, &imported))? + "\n",
        (false, None) => imported.text.clone(),
        (false, Some(_)) => String::new(),
    };
    super::print(&printed)?;
    summarize(&name, kind, &imported);
    Ok(ExitCode::SUCCESS)
}

/// What a text is that configures none of the three; none where that is not seen.
fn other_format(text: &str) -> Option<&'static str> {
    if text.contains("static_resources") || text.contains("dynamic_resources") {
        return Some("is a configuration of Envoy; those of HAProxy, nginx and Caddy are imported");
    }
    let object = text.trim_start().strip_prefix('{').map(str::trim_start);
    let is_json = object.is_some_and(|inside| inside.starts_with('"'));
    let mut lines = text.lines().map(str::trim).filter(|line| !line.is_empty());
    let first = lines.find(|line| !line.starts_with(['#', '%']) && !line.starts_with("---"));
    let is_yaml = first.is_some_and(|line| line.contains(": ") || line.ends_with(':'));
    (is_json || is_yaml)
        .then_some("is JSON or YAML; haproxy.cfg, nginx.conf and Caddyfiles are imported")
}

const UNKNOWN: &str = "looks like none of HAProxy, nginx and Caddy; say which: --from haproxy";

const fn kind(from: From) -> Kind {
    match from {
        From::Haproxy => Kind::Haproxy,
        From::Nginx => Kind::Nginx,
        From::Caddy => Kind::Caddy,
    }
}

/// The file goes to the standard output, the summary does not.
fn summarize(name: &str, kind: Kind, imported: &Imported) {
    let Imported { lines, lost, remarks, .. } = imported;
    let differ = remarks.iter().filter(|remark| remark.differs).count();
    let (carried, kind) = (lines - lost, kind.name());
    tell(&format!("{name} ({kind}): {lines} lines read, {carried} carried over, {lost} not"));
    if differ > 0 {
        tell(&format!("{differ} of those carried over do not mean quite the same"));
    }
    let protected = remarks.iter().filter(|remark| remark.why.contains(PROTECTED));
    for Remark { line, text, differs, .. } in protected {
        let what = if *differs { "does not do the same" } else { "was not carried over" };
        tell(&format!("line {line} PROTECTED something and {what}: {text}"));
    }
}

/// What reasons begin with where leaving a line out opens what was closed.
const PROTECTED: &str = "THIS PROTECTED SOMETHING";

/// The files that a pattern names, relative to the directory of the file that is imported.
fn included(file: &Path, pattern: &str) -> io::Result<Vec<(String, String)>> {
    let directory = file.parent().unwrap_or(Path::new(""));
    let path = directory.join(pattern);
    if !is_pattern(pattern) {
        return Ok(vec![read(&path)?]);
    }
    let mut found = vec![PathBuf::new()];
    for part in path.components() {
        let name = part.as_os_str().to_string_lossy();
        if is_pattern(&name) {
            found = found.iter().flat_map(|folder| matching(folder, &name)).collect();
        } else {
            found.iter_mut().for_each(|it| it.push(part));
        }
    }
    found.retain(|it| it.is_file());
    found.iter().map(|path| read(path)).collect()
}

fn is_pattern(text: &str) -> bool {
    text.contains(['*', '?', '['])
}

/// What is in a folder under a name that fits, in order. A folder that is not there has nothing.
fn matching(folder: &Path, pattern: &str) -> Vec<PathBuf> {
    let here = if folder.as_os_str().is_empty() { Path::new(".") } else { folder };
    let Ok(entries) = fs::read_dir(here) else { return Vec::new() };
    let mut names: Vec<_> = entries.flatten().map(|entry| entry.file_name()).collect();
    names.retain(|name| {
        let name = name.to_string_lossy();
        // A hidden file is named by its dot.
        fits(pattern, &name) && (!name.starts_with('.') || pattern.starts_with('.'))
    });
    names.sort();
    names.into_iter().map(|name| folder.join(name)).collect()
}

/// Whether a name is as a pattern of a shell says: with `*`, `?` and `[a-z]`.
fn fits(pattern: &str, name: &str) -> bool {
    let mut chars = pattern.chars();
    let Some(first) = chars.next() else { return name.is_empty() };
    let (behind, mut name_behind) = (chars.as_str(), name.chars());
    if first == '*' {
        let mut starts = name.char_indices().map(|(at, _)| at).chain([name.len()]);
        return starts.any(|at| fits(behind, &name[at..]));
    }
    let Some(c) = name_behind.next() else { return false };
    let class = behind.split_once(']').filter(|_| first == '[');
    let (is_one, behind) = match class {
        Some((class, behind)) => (has(class, c), behind),
        None => (first == '?' || first == c, behind),
    };
    is_one && fits(behind, name_behind.as_str())
}

/// Whether a class of characters has this one: `a-z`, `!.`.
fn has(class: &str, c: char) -> bool {
    let without = class.strip_prefix(['!', '^']);
    let mut chars = without.unwrap_or(class).chars();
    let mut is_in = false;
    while let Some(low) = chars.next() {
        let mut ahead = chars.clone();
        let high = match (ahead.next(), ahead.next()) {
            (Some('-'), Some(high)) => {
                chars = ahead;
                high
            }
            _ => low,
        };
        is_in |= (low..=high).contains(&c);
    }
    is_in != without.is_some()
}

fn read(path: &Path) -> io::Result<(String, String)> {
    let text = String::from_utf8_lossy(&fs::read(path)?).into_owned();
    Ok((path.display().to_string(), text))
}

/// What `--json` prints.
#[derive(Serialize)]
struct ImportReport<'a> {
    program: &'static str,
    lines: usize,
    carried_over: usize,
    not_carried_over: usize,
    remarks: Vec<ReportedRemark<'a>>,
    configuration: &'a str,
}

#[derive(Serialize)]
struct ReportedRemark<'a> {
    #[serde(skip_serializing_if = "Option::is_none")]
    file: Option<&'a str>,
    line: usize,
    column: usize,
    text: &'a str,
    carried_over: bool,
    reason: &'a str,
}

impl<'a> ImportReport<'a> {
    fn of(kind: Kind, imported: &'a Imported) -> Self {
        let remark = |remark: &'a Remark| ReportedRemark {
            file: remark.file.as_deref(),
            line: remark.line,
            column: remark.column,
            text: &remark.text,
            carried_over: remark.differs,
            reason: &remark.why,
        };
        Self {
            program: kind.name(),
            lines: imported.lines,
            carried_over: imported.lines - imported.lost,
            not_carried_over: imported.lost,
            remarks: imported.remarks.iter().map(remark).collect(),
            configuration: &imported.text,
        }
    }
}

const AFTER_HELP: &str = "\
Examples:
  loadline import /etc/haproxy/haproxy.cfg -o loadline.toml
  loadline check loadline.toml
  loadline import --from nginx sites-enabled/shop

Exit codes: 0 written, whatever was not carried over; 1 wrong usage, or a file that cannot be
read; 2 it could not be written.";
