//! The cases as text: what a client sends, what the server behind the cache responds, and what must
//! be seen. `docs/testing.md` explains the form.

use std::{fs, path::Path};

/// One rule of an RFC, tried.
#[derive(Clone, Debug)]
pub(crate) struct Case {
    pub(crate) name: String,
    /// Whether the RFC demands it, or allows it.
    pub(crate) required: bool,
    /// Such as `RFC 9111 section 4.2`.
    pub(crate) section: String,
    pub(crate) title: String,
    pub(crate) steps: Vec<Step>,
}

/// A request, the response of the server if it is asked, and what is seen.
#[derive(Clone, Debug, Default)]
pub(crate) struct Step {
    /// Seconds before it.
    pub(crate) wait: u64,
    pub(crate) method: String,
    /// After the path of the case.
    pub(crate) suffix: String,
    pub(crate) fields: Vec<(String, String)>,
    pub(crate) content: Option<String>,
    pub(crate) answer: Answer,
    pub(crate) sees: Vec<See>,
}

/// What the server behind the cache responds.
#[derive(Clone, Debug, Default)]
pub(crate) struct Answer {
    pub(crate) status: Option<u16>,
    pub(crate) fields: Vec<(String, String)>,
    pub(crate) content: Option<String>,
    /// The content to who asks for no range, with 200.
    pub(crate) whole: Option<String>,
    /// A field of an interim response before it.
    pub(crate) early: Option<String>,
    /// It closes the connection instead.
    pub(crate) close: bool,
}

/// What must be seen.
#[derive(Clone, Debug)]
pub(crate) struct See {
    /// If it is not seen, the case says nothing about the cache.
    pub(crate) given: bool,
    pub(crate) what: What,
}

#[derive(Clone, Debug)]
pub(crate) enum What {
    /// The response to an earlier step.
    Stored,
    /// No response to an earlier step.
    NotStored,
    /// The response to this step.
    Forwarded,
    /// The response to an earlier step, after the server was asked with a condition.
    Validated,
    /// The response to that step.
    From(usize),
    /// Not the response to that step.
    NotFrom(usize),
    /// The server was asked, with this field.
    Asked(Option<(String, String)>),
    /// The server was not asked.
    NotAsked,
    /// The response to this step, or the first request came to the server without this field.
    ForwardedOrWithout(String),
    Status(u16),
    Has(String, String),
    Lacks(String),
    LacksValue(String, String),
    /// The content is this.
    Text(String),
    /// Head or content have this in them.
    Holds(String),
    /// Neither head nor content has this in it.
    HoldsNot(String),
    /// `Age` is at least this.
    Age(u64),
}

/// Reads every case of a folder.
pub(crate) fn read(folder: &Path) -> Vec<Case> {
    let mut files: Vec<_> = fs::read_dir(folder).unwrap().map(|it| it.unwrap().path()).collect();
    files.sort();
    files.iter().flat_map(|file| parse(&fs::read_to_string(file).unwrap())).collect()
}

fn parse(text: &str) -> Vec<Case> {
    let text = text.split_once("case ").expect("a file of cases has a case").1;
    text.split("\ncase ").map(case).collect()
}

fn case(text: &str) -> Case {
    let mut lines = text.lines().filter(|line| !line.is_empty() && !line.starts_with('#'));
    let name = lines.next().unwrap().to_owned();
    let (kind, section) = lines.next().and_then(|line| line.split_once(", ")).expect(&name);
    assert!(["required", "optional"].contains(&kind), "{name}: {kind}");
    let title = lines.next().unwrap().to_owned();
    let mut steps: Vec<Step> = Vec::new();
    let mut wait = 0;
    for line in lines {
        let (mark, rest) = line.split_once(' ').expect(&name);
        if mark == "wait" {
            wait = rest.parse().unwrap();
        } else if mark == ">" && !rest.contains(": ") && !rest.starts_with("body ") {
            let (method, suffix) = rest.split_once(' ').unwrap_or((rest, ""));
            let (method, suffix) = (method.to_owned(), suffix.to_owned());
            steps.push(Step { wait, method, suffix, ..Step::default() });
            wait = 0;
        } else {
            let step = steps.last_mut().expect(&name);
            match mark {
                ">" => ask(step, rest),
                "<" => answer(&mut step.answer, rest),
                "=" => step.sees.push(see(rest)),
                _ => panic!("{name}: {line}"),
            }
        }
    }
    assert!(steps.iter().any(|step| !step.sees.is_empty()), "{name} sees nothing");
    Case { name, required: kind == "required", section: section.to_owned(), title, steps }
}

fn ask(step: &mut Step, text: &str) {
    match text.strip_prefix("body ") {
        Some(content) => step.content = Some(content.to_owned()),
        None => step.fields.push(field(text)),
    }
}

fn answer(answer: &mut Answer, text: &str) {
    if let Ok(status) = text.parse() {
        answer.status = Some(status);
    } else if text == "close" {
        answer.close = true;
    } else if let Some(content) = text.strip_prefix("body ") {
        answer.content = Some(content.to_owned());
    } else if let Some(whole) = text.strip_prefix("whole ") {
        answer.whole = Some(whole.to_owned());
    } else if let Some(early) = text.strip_prefix("early ") {
        answer.early = Some(early.to_owned());
    } else {
        answer.fields.push(field(text));
    }
}

fn see(text: &str) -> See {
    let (given, text) = match text.strip_prefix("given ") {
        Some(text) => (true, text),
        None => (false, text),
    };
    let (word, rest) = text.split_once(' ').unwrap_or((text, ""));
    let what = match (word, rest) {
        ("stored", "") => What::Stored,
        ("forwarded", "") => What::Forwarded,
        ("validated", "") => What::Validated,
        ("asked", "") => What::Asked(None),
        ("asked", rest) => What::Asked(Some(field(rest))),
        ("not", "stored") => What::NotStored,
        ("not", "asked") => What::NotAsked,
        ("from", step) => What::From(step.parse().unwrap()),
        ("status", status) => What::Status(status.parse().unwrap()),
        ("text", text) => What::Text(text.to_owned()),
        ("holds", text) => What::Holds(text.to_owned()),
        ("lacks", text) => What::HoldsNot(text.to_owned()),
        ("age", secs) => What::Age(secs.parse().unwrap()),
        ("no", name) => What::Lacks(name.to_owned()),
        ("not", rest) => match rest.strip_prefix("from ") {
            Some(step) => What::NotFrom(step.parse().unwrap()),
            None => {
                let (name, value) = field(rest);
                What::LacksValue(name, value)
            }
        },
        ("forwarded,", rest) => {
            What::ForwardedOrWithout(rest.strip_prefix("or not asked ").unwrap().to_owned())
        }
        _ => {
            let (name, value) = field(text);
            What::Has(name, value)
        }
    };
    See { given, what }
}

fn field(text: &str) -> (String, String) {
    let (name, value) = text.split_once(':').unwrap_or_else(|| panic!("no field: {text}"));
    (name.to_owned(), value.trim().to_owned())
}
