//! The files of messages.

/// A message and what becomes of it.
pub(crate) struct Case {
    pub(crate) name: String,
    /// Where the idea comes from.
    pub(crate) from: String,
    /// `refused 400`, `forwarded`, ...
    pub(crate) is: String,
    pub(crate) message: Vec<u8>,
}

/// The cases of a file: `= name`, `from: source`, `is: verdict`, and the message behind `> `.
pub(crate) fn read(text: &str) -> Vec<Case> {
    let mut cases: Vec<Case> = Vec::new();
    for line in text.lines().filter(|line| !line.is_empty() && !line.starts_with('#')) {
        if let Some(name) = line.strip_prefix("= ") {
            let (name, from, is) = (name.to_owned(), String::new(), String::new());
            cases.push(Case { name, from, is, message: Vec::new() });
            continue;
        }
        let case = cases.last_mut().expect("a file begins with a name");
        match (line.strip_prefix("from: "), line.strip_prefix("is: "), line.strip_prefix("> ")) {
            (Some(from), _, _) => from.clone_into(&mut case.from),
            (_, Some(is), _) => is.clone_into(&mut case.is),
            (_, _, Some(text)) => case.message.extend(unescaped(text)),
            _ => panic!("{}: not understood: {line}", case.name),
        }
    }
    cases
}

fn unescaped(text: &str) -> Vec<u8> {
    let mut bytes = Vec::new();
    let mut rest = text.as_bytes();
    while let Some((&byte, behind)) = rest.split_first() {
        let (byte, behind) = match (byte, behind) {
            (b'\\', [b'r', behind @ ..]) => (b'\r', behind),
            (b'\\', [b'n', behind @ ..]) => (b'\n', behind),
            (b'\\', [b't', behind @ ..]) => (b'\t', behind),
            (b'\\', [b'\\', behind @ ..]) => (b'\\', behind),
            (b'\\', [b'x', high, low, behind @ ..]) => {
                let digits = [*high, *low];
                let digits = std::str::from_utf8(&digits).unwrap();
                (u8::from_str_radix(digits, 16).unwrap(), behind)
            }
            (b'\\', _) => panic!("unknown escape in {text}"),
            plain => plain,
        };
        bytes.push(byte);
        rest = behind;
    }
    bytes
}

#[test]
fn there_are_enough_of_them_and_each_says_where_it_comes_from() {
    let requests = read(include_str!("requests.txt"));
    let responses = read(include_str!("responses.txt"));
    let mut names: Vec<&str> = Vec::new();
    for case in requests.iter().chain(&responses) {
        assert!(case.from.len() > 5 && !case.is.is_empty() && !case.message.is_empty());
        assert!(!names.contains(&&*case.name), "twice: {}", case.name);
        names.push(&case.name);
    }
    assert!(requests.len() >= 150 && responses.len() >= 30, "{}", names.len());
}

#[test]
fn escapes_stand_for_their_bytes() {
    assert_eq!(unescaped(r"a\r\n\t\\\x00\xff"), b"a\r\n\t\\\0\xff");
}
