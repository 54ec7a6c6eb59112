//! Runs cases against a cache, many at a time.

use std::{
    collections::BTreeMap,
    io,
    sync::Mutex,
    thread,
    time::{Duration, SystemTime},
};

use crate::{
    dates::expand,
    message::{Message, exchange},
    origin::Origin,
    script::{Answer, Case, Step, What},
};

/// What a case says of a cache.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Verdict {
    Kept,
    /// What was seen instead.
    Broken(String),
    /// Something that the case takes for given is not so.
    NotApplicable,
}

/// Tries all cases against the cache at `address` before `origin`.
pub(crate) fn run(cases: &[Case], address: &str, origin: &Origin) -> BTreeMap<String, Verdict> {
    let next = Mutex::new(cases.iter());
    let verdicts = Mutex::new(BTreeMap::new());
    thread::scope(|scope| {
        for _ in 0..AT_A_TIME {
            scope.spawn(|| {
                loop {
                    let Some(case) = next.lock().unwrap().next() else { return };
                    let verdict = trial(case, address, origin);
                    verdicts.lock().unwrap().insert(case.name.clone(), verdict);
                }
            });
        }
    });
    verdicts.into_inner().unwrap()
}

fn trial(case: &Case, address: &str, origin: &Origin) -> Verdict {
    let began = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap().as_secs();
    let began = i64::try_from(began).unwrap();
    let path = format!("/{}", case.name);
    let expand = |text: &str| expand(text, &path, began);
    let mut before = String::new();
    for (at, step) in case.steps.iter().enumerate() {
        thread::sleep(Duration::from_secs(step.wait));
        let number = at + 1;
        origin.set(&case.name, number, expanded(&step.answer, &expand));
        let request = request(step, &path, address, &expand);
        let response = exchange(address, request.as_bytes(), &step.method);
        let asked = origin.asked(&case.name, number);
        let seen = Seen { number, response: &response, asked: &asked };
        for see in &step.sees {
            if seen.is(&see.what, &expand, || origin.asked(&case.name, 1)) {
                continue;
            }
            if see.given {
                return Verdict::NotApplicable;
            }
            let what = &see.what;
            return Verdict::Broken(format!("step {number}: {what:?}, not {seen:?}{before}"));
        }
        before += &format!("; before it, step {number}: {seen:?}");
    }
    Verdict::Kept
}

fn expanded(answer: &Answer, expand: &impl Fn(&str) -> String) -> Answer {
    let fields = answer.fields.iter().map(|(name, value)| (name.clone(), expand(value)));
    Answer { fields: fields.collect(), ..answer.clone() }
}

fn request(step: &Step, path: &str, address: &str, expand: &impl Fn(&str) -> String) -> String {
    let Step { method, suffix, fields, content, .. } = step;
    let mut text = format!("{method} {path}{suffix} HTTP/1.1\r\nHost: {address}\r\n");
    for (name, value) in fields {
        text += &format!("{name}: {}\r\n", expand(value));
    }
    if let Some(content) = content {
        text += &format!("Content-Length: {}\r\n", content.len());
    }
    text += "Connection: close\r\n\r\n";
    text + content.as_deref().unwrap_or_default()
}

struct Seen<'a> {
    number: usize,
    response: &'a io::Result<Message>,
    asked: &'a [Message],
}

impl std::fmt::Debug for Seen<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let response = self.response.as_ref().map(Message::text);
        write!(f, "{response:?} with {} requests to the server", self.asked.len())
    }
}

impl Seen<'_> {
    fn is(
        &self,
        what: &What,
        expand: &impl Fn(&str) -> String,
        asked_first: impl Fn() -> Vec<Message>,
    ) -> bool {
        let Ok(response) = self.response else { return matches!(what, What::NotStored) };
        let from: Option<usize> = response.field("x-answer").and_then(|step| step.parse().ok());
        let stored = from.is_some_and(|step| step < self.number);
        let forwarded = from == Some(self.number);
        let has = |message: &Message, name: &str, value: &str| {
            message.all(name).any(|other| other == expand(value))
        };
        match what {
            What::Stored => stored,
            What::NotStored => !stored,
            What::Forwarded => forwarded,
            What::Validated => stored && self.asked.iter().any(is_conditional),
            What::From(step) => from == Some(*step),
            What::NotFrom(step) => from != Some(*step),
            What::Asked(None) => !self.asked.is_empty(),
            What::Asked(Some((name, value))) => {
                self.asked.iter().any(|request| has(request, name, value))
            }
            What::NotAsked => self.asked.is_empty(),
            What::ForwardedOrWithout(name) => {
                forwarded || asked_first().iter().all(|request| request.field(name).is_none())
            }
            What::Status(status) => response.status() == *status,
            What::Has(name, value) => has(response, name, value),
            What::Lacks(name) => response.field(name).is_none(),
            What::LacksValue(name, value) => !has(response, name, value),
            What::Text(text) => response.content == text.as_bytes(),
            What::Holds(text) => response.text().contains(text.as_str()),
            What::HoldsNot(text) => !response.text().contains(text.as_str()),
            What::Age(secs) => {
                let age: Option<u64> = response.field("age").and_then(|age| age.parse().ok());
                age.is_some_and(|age| age >= *secs)
            }
        }
    }
}

fn is_conditional(request: &Message) -> bool {
    request.field("if-none-match").or(request.field("if-modified-since")).is_some()
}

/// Most cases wait, so many go at a time.
const AT_A_TIME: usize = 24;
