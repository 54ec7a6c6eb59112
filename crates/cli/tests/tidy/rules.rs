//! The rules: each takes a file and says what breaks them.

use crate::blank::blank;
use crate::blocks::functions;

const FILE_LINES: usize = 600;
const FUNCTION_LINES: usize = 70;
const NESTING: usize = 4;
const WIDTH: usize = 100;

/// One Rust source file.
pub(crate) struct File<'a> {
    /// Its path from the root of the repository.
    pub(crate) path: &'a str,
    pub(crate) text: &'a str,
}

/// Everything a file does that the house does not allow, one line each.
pub(crate) fn offences(file: &File) -> Vec<String> {
    let code = blank(file.text);
    let mut found = Vec::new();
    found.extend(wrong_name(file.path));
    found.extend(no_module_doc(file.text));
    found.extend(too_long(file));
    found.extend(too_wide(file.text));
    found.extend(unfit_functions(&code));
    found.extend(banned_words(&code));
    found.extend(machine_paths(file.text));
    found.extend(unsafe_without_reason(file));
    found.into_iter().map(|offence| format!("{}: {offence}", file.path)).collect()
}

fn wrong_name(path: &str) -> Option<String> {
    let vague = ["utils", "util", "common", "prelude", "helpers", "misc"];
    let mut parts = path.split(['/', '.']);
    parts.find(|part| vague.contains(part)).map(|part| format!("`{part}` says nothing"))
}

fn no_module_doc(text: &str) -> Option<String> {
    (!text.starts_with("//!")).then(|| "does not begin with a module doc (`//!`)".to_owned())
}

/// Tests do not count: neither what follows `#[cfg(test)]` nor a file in a `tests` directory.
fn too_long(file: &File) -> Option<String> {
    if file.path.contains("/tests/") || file.path.ends_with("/tests.rs") {
        return None;
    }
    let lines = file.text.lines().take_while(|line| !line.starts_with("#[cfg(test)]")).count();
    (lines > FILE_LINES).then(|| format!("{lines} lines without tests (at most {FILE_LINES})"))
}

fn too_wide(text: &str) -> impl Iterator<Item = String> {
    text.lines().enumerate().filter_map(|(at, line)| {
        let width = line.chars().count();
        (width > WIDTH).then(|| format!("line {}: {width} wide (at most {WIDTH})", at + 1))
    })
}

fn unfit_functions(code: &str) -> impl Iterator<Item = String> {
    functions(code).into_iter().filter_map(|function| {
        let (name, line) = (&function.name, function.line);
        if function.length > FUNCTION_LINES {
            let length = function.length;
            Some(format!("line {line}: `{name}` has {length} lines (at most {FUNCTION_LINES})"))
        } else if function.depth > NESTING {
            let depth = function.depth;
            Some(format!("line {line}: `{name}` nests {depth} blocks (at most {NESTING})"))
        } else {
            None
        }
    })
}

fn banned_words(code: &str) -> impl Iterator<Item = String> {
    let banned = [
        ("#[ignore", "a test that does not run tests nothing"),
        ("#![ignore", "a test that does not run tests nothing"),
        ("todo!(", "write it or say in the issue that it is missing"),
        ("unimplemented!(", "write it or say in the issue that it is missing"),
        ("#[allow(", "write `#[expect(..., reason = \"...\")]`"),
        ("#![allow(", "write `#![expect(..., reason = \"...\")]`"),
    ];
    banned.into_iter().filter_map(|(word, instead)| {
        let at = code.find(word)?;
        let line = code[..at].matches('\n').count() + 1;
        Some(format!("line {line}: `{word}`: {instead}"))
    })
}

/// Paths that exist on one machine only.
pub(crate) fn machine_paths(text: &str) -> impl Iterator<Item = String> {
    // `/work/REGION` is a path that a forwarding unit serves.
    let roots = [concat!("/ho", "me/"), concat!("/ro", "ot/"), concat!("/wo", "rk/ma", "in")];
    roots
        .into_iter()
        .filter(|root| text.contains(root))
        .map(|root| format!("holds a path of one machine, `{root}...`"))
}

/// A library forbids unsafe code, or says on a line `// unsafe: ...` why it cannot.
fn unsafe_without_reason(file: &File) -> Option<String> {
    let states_it =
        file.text.contains("#![forbid(unsafe_code)]") || file.text.contains("\n// unsafe: ");
    (file.path.ends_with("/src/lib.rs") && !states_it)
        .then(|| "neither forbids unsafe code nor says why not (`// unsafe: ...`)".to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The offences of a file that is in order but for what it is given.
    fn caught(path: &str, text: &str) -> String {
        offences(&File { path, text }).join("\n")
    }

    fn body(lines: usize, line: &str) -> String {
        format!("//! Doc.\nfn f() {{\n{}}}\n", format!("    {line}\n").repeat(lines))
    }

    #[test]
    fn a_file_in_order_passes() {
        let text = "//! Doc.\n#![forbid(unsafe_code)]\n\nfn f() {\n    if a { b }\n}\n";
        assert_eq!(caught("crates/x/src/lib.rs", text), "");
    }

    #[test]
    fn a_vague_name_is_caught() {
        assert!(caught("crates/x/src/utils.rs", "//! Doc.").contains("says nothing"));
        assert!(caught("crates/x/src/common/a.rs", "//! Doc.").contains("says nothing"));
        assert_eq!(caught("crates/x/src/commoner.rs", "//! Doc."), "");
    }

    #[test]
    fn a_missing_module_doc_is_caught() {
        assert!(caught("a.rs", "fn f() {}").contains("module doc"));
    }

    #[test]
    fn a_long_file_is_caught_and_its_tests_are_free() {
        let long = format!("//! Doc.\n{}", "use a;\n".repeat(600));
        assert!(caught("src/a.rs", &long).contains("601 lines"));
        let tested = format!("//! Doc.\n#[cfg(test)]\n{}", "use a;\n".repeat(600));
        assert_eq!(caught("src/a.rs", &tested), "");
        assert_eq!(caught("crates/x/tests/a.rs", &long), "");
    }

    #[test]
    fn a_long_function_is_caught_and_its_comments_are_free() {
        assert!(caught("a.rs", &body(71, "a();")).contains("`f` has 71 lines"));
        assert_eq!(caught("a.rs", &body(70, "a();")), "");
        assert_eq!(caught("a.rs", &body(90, "// Why.")), "");
    }

    #[test]
    fn deep_nesting_is_caught() {
        let nested = |depth| format!("{}{}", "if a { ".repeat(depth), "}".repeat(depth));
        assert!(caught("a.rs", &body(1, &nested(5))).contains("`f` nests 5 blocks"));
        assert_eq!(caught("a.rs", &body(1, &nested(4))), "");
    }

    #[test]
    fn a_wide_line_is_caught_even_in_a_comment() {
        let wide = format!("//! Doc.\n// {}\n", "x".repeat(98));
        assert!(caught("a.rs", &wide).contains("line 2: 101 wide"));
    }

    #[test]
    fn banned_words_are_caught_in_code_and_free_in_text() {
        for word in ["#[ignore]", "#[ignore = \"slow\"]", "#[allow(dead_code)]", "todo!()"] {
            let line = format!("//! Doc.\n\n{word} // said\n");
            assert!(caught("a.rs", &line).contains("line 3"), "{word}");
            assert_eq!(caught("a.rs", &format!("//! Doc: {word}.\n")), "");
        }
    }

    #[test]
    fn a_path_of_one_machine_is_caught() {
        let text = format!("//! Doc.\nconst A: &str = \"{}\";\n", concat!("/ho", "me/me/a"));
        assert!(caught("a.rs", &text).contains("path of one machine"));
    }

    #[test]
    fn a_library_that_allows_unsafe_code_gives_its_reason() {
        let text = "//! Doc.\n";
        assert!(caught("crates/x/src/lib.rs", text).contains("forbids unsafe"));
        assert_eq!(caught("crates/x/src/a.rs", text), "");
        let reasoned = "//! Doc.\n// unsafe: the allocator counts.\n";
        assert_eq!(caught("crates/x/src/lib.rs", reasoned), "");
    }
}
