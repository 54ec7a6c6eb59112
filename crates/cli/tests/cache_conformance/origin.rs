//! The server behind the cache: it responds as the step of the case says that is being tried, and
//! keeps what it was asked.

use std::{
    collections::HashMap,
    io::{self, BufReader, Write},
    net::{SocketAddr, TcpListener, TcpStream},
    sync::{Arc, Mutex},
    thread,
    time::SystemTime,
};

use crate::{
    message::{Message, read_request},
    script::Answer,
};

/// A server on a port of the loopback. It lives as long as the process.
pub(crate) struct Origin {
    pub(crate) address: SocketAddr,
    cases: Arc<Mutex<HashMap<String, Trial>>>,
}

/// What is tried of one case.
#[derive(Default)]
struct Trial {
    /// The step, counted from 1.
    step: usize,
    answer: Answer,
    /// What was asked during each step.
    asked: Vec<(usize, Message)>,
}

impl Origin {
    pub(crate) fn start() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let cases = Arc::new(Mutex::new(HashMap::new()));
        let shared = Arc::clone(&cases);
        thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                let cases = Arc::clone(&shared);
                // A connection that breaks is the cache's to see.
                thread::spawn(move || drop(serve(&stream, &cases)));
            }
        });
        Self { address, cases }
    }

    /// From now on it responds like this to requests of the case.
    pub(crate) fn set(&self, case: &str, step: usize, answer: Answer) {
        let mut cases = self.cases.lock().unwrap();
        let trial = cases.entry(case.to_owned()).or_default();
        (trial.step, trial.answer) = (step, answer);
    }

    /// What it was asked during a step.
    pub(crate) fn asked(&self, case: &str, step: usize) -> Vec<Message> {
        let cases = self.cases.lock().unwrap();
        let asked = cases.get(case).map_or(&[][..], |trial| &trial.asked);
        asked.iter().filter(|(at, _)| *at == step).map(|(_, request)| request.clone()).collect()
    }
}

fn serve(stream: &TcpStream, cases: &Mutex<HashMap<String, Trial>>) -> io::Result<()> {
    let mut reader = BufReader::new(stream);
    loop {
        let request = read_request(&mut reader)?;
        let target = request.line.split(' ').nth(1).unwrap_or_default();
        let path = target
            .split_once("://")
            .map_or(target, |(_, rest)| rest.find('/').map_or("", |at| &rest[at..]));
        let name = path.split(['/', '?']).nth(1).unwrap_or_default().to_owned();
        let (step, answer) = {
            let mut cases = cases.lock().unwrap();
            let trial = cases.entry(name.clone()).or_default();
            trial.asked.push((trial.step, request.clone()));
            (trial.step, trial.answer.clone())
        };
        if answer.close {
            return Ok(());
        }
        let answer = match request.field("range") {
            None => as_whole(answer),
            Some(_) => answer,
        };
        let response = response(&name, step, &answer, &request);
        (&*stream).write_all(&response)?;
        // Less than it said: there is nothing it could say afterwards.
        if answer.fields.iter().any(|(name, _)| name.eq_ignore_ascii_case("content-length")) {
            return Ok(());
        }
    }
}

/// What is responded to who asks for no range.
fn as_whole(mut answer: Answer) -> Answer {
    if let Some(whole) = answer.whole.take() {
        answer.status = None;
        answer.content = Some(whole);
        answer.fields.retain(|(name, _)| !name.eq_ignore_ascii_case("content-range"));
    }
    answer
}

fn response(name: &str, step: usize, answer: &Answer, request: &Message) -> Vec<u8> {
    let conditional = request.field("if-none-match").or(request.field("if-modified-since"));
    let status = match answer.status {
        // Nobody asked whether it changed.
        Some(304) if conditional.is_none() => 200,
        status => status.unwrap_or(200),
    };
    let mut text = String::new();
    if let Some(early) = &answer.early {
        text += &format!("HTTP/1.1 103 Early Hints\r\n{early}\r\n\r\n");
    }
    text += &format!("HTTP/1.1 {status} Status\r\n");
    let has = |name: &str| answer.fields.iter().any(|field| field.0.eq_ignore_ascii_case(name));
    if !has("date") {
        text += &format!("Date: {}\r\n", httpdate(SystemTime::now()));
    }
    for (name, value) in &answer.fields {
        text += &format!("{name}: {value}\r\n");
    }
    let default = format!("{name} {step}\n");
    let content = answer.content.as_ref().unwrap_or(&default);
    let bare = status == 204 || status == 304;
    if status != 304 {
        text += &format!("X-Answer: {step}\r\n");
    }
    if !bare && !has("content-length") {
        text += &format!("Content-Length: {}\r\n", content.len());
    }
    text += "\r\n";
    if !bare && !request.line.starts_with("HEAD ") {
        text += content;
    }
    text.into_bytes()
}

fn httpdate(at: SystemTime) -> String {
    let secs = at.duration_since(SystemTime::UNIX_EPOCH).unwrap().as_secs();
    crate::dates::imf(i64::try_from(secs).unwrap())
}
