//! Whatever is done to a file, the parser answers with a fleet or with errors in the file.

use loadline_control::{LocalOnly, parse_with};
use proptest::{collection::vec, prelude::*};

use crate::examples;

/// One change to a text.
#[derive(Clone, Debug)]
enum Mutation {
    /// Removes some characters.
    Cut(usize, usize),
    /// Puts a text in.
    Insert(usize, String),
    /// Repeats a line elsewhere.
    Copy(usize, usize),
    /// Exchanges two lines.
    Swap(usize, usize),
}

fn mutation() -> impl Strategy<Value = Mutation> {
    let shard = prop_oneof![
        Just("\"".to_owned()),
        Just("[[".to_owned()),
        Just(" = 1979-05-27\n".to_owned()),
        Just("-1".to_owned()),
        Just("99999999999999999999".to_owned()),
        Just("{ a = 1 }".to_owned()),
        Just("x.y.z = 1\n".to_owned()),
        Just("nan".to_owned()),
        Just("\u{1f}é\u{0}".to_owned()),
        "[ -~\n]{0,6}",
    ];
    prop_oneof![
        (any::<usize>(), 1..12usize).prop_map(|(at, length)| Mutation::Cut(at, length)),
        (any::<usize>(), shard).prop_map(|(at, text)| Mutation::Insert(at, text)),
        (any::<usize>(), any::<usize>()).prop_map(|(from, to)| Mutation::Copy(from, to)),
        (any::<usize>(), any::<usize>()).prop_map(|(a, b)| Mutation::Swap(a, b)),
    ]
}

fn mutate(text: &str, mutation: &Mutation) -> String {
    let mut chars: Vec<char> = text.chars().collect();
    let mut lines: Vec<&str> = text.split('\n').collect();
    let (places, count) = (chars.len() + 1, lines.len());
    match mutation {
        Mutation::Cut(at, length) => {
            let start = at % places;
            chars.drain(start..(start + length).min(chars.len()));
            chars.into_iter().collect()
        }
        Mutation::Insert(at, text) => {
            chars.splice(at % places..at % places, text.chars());
            chars.into_iter().collect()
        }
        Mutation::Copy(from, to) => {
            lines.insert(to % count, lines[from % count]);
            lines.join("\n")
        }
        Mutation::Swap(a, b) => {
            lines.swap(a % count, b % count);
            lines.join("\n")
        }
    }
}

proptest! {
    #[test]
    fn a_mutated_file_is_refused_with_errors_in_the_file_or_accepted(
        which in any::<prop::sample::Index>(),
        mutations in vec(mutation(), 1..6),
    ) {
        let examples = examples();
        let original = &examples[which.index(examples.len())].1;
        let text = mutations.iter().fold(original.clone(), |text, it| mutate(&text, it));
        let Err(errors) = parse_with("mutated.toml", &text, &LocalOnly) else { return Ok(()) };
        prop_assert!(!errors.errors().is_empty());
        let lines = text.split('\n').count();
        for error in errors.errors() {
            prop_assert!((1..=lines).contains(&error.line()), "{error:?}");
            prop_assert!(error.column() >= 1 && !error.help_text().is_empty(), "{error:?}");
        }
        // What is printed has to be printable too.
        let mut page = String::new();
        let handler = miette::GraphicalReportHandler::new();
        prop_assert!(handler.render_report(&mut page, &errors).is_ok());
    }
}
