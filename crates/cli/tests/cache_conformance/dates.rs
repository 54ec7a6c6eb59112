//! The dates in cases: `{+60}` is the moment 60 s after the case began, `{-60:rfc850}` and
//! `{-60:asctime}` one in an obsolete form, `{path}` the path of the case.

use std::process::Command;

use loadline_core::{cache::format_date, time::UnixTime};

/// Replaces what stands in braces.
pub(crate) fn expand(text: &str, path: &str, began: i64) -> String {
    let mut out = String::new();
    let mut rest = text;
    while let Some((before, after)) = rest.split_once('{') {
        let (inside, after) = after.split_once('}').expect("a brace is closed");
        out += before;
        out += &match inside.split_once(':') {
            None if inside == "path" => path.to_owned(),
            None => imf(began + inside.parse::<i64>().unwrap()),
            Some((offset, form)) => obsolete(began + offset.parse::<i64>().unwrap(), form),
        };
        rest = after;
    }
    out + rest
}

/// The preferred form of a date.
pub(crate) fn imf(secs: i64) -> String {
    String::from_utf8(format_date(UnixTime::from_secs(secs)).to_vec()).unwrap()
}

/// Written by `date`, which shares nothing with what reads it.
fn obsolete(secs: i64, form: &str) -> String {
    let form = match form {
        "rfc850" => "+%A, %d-%b-%y %T GMT",
        "asctime" => "+%a %b %e %T %Y",
        other => panic!("no form of dates: {other}"),
    };
    let secs = format!("@{secs}");
    let mut command = Command::new("date");
    let output = command.env("LC_ALL", "C").args(["-u", "-d", &secs, form]).output().unwrap();
    String::from_utf8(output.stdout).unwrap().trim().to_owned()
}
