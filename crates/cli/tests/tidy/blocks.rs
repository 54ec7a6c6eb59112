//! How long a function is and how deep its blocks nest, by counting braces in blanked source.
//!
//! A brace is a block, an item, a `match` or a value (a struct literal, a pattern). Depth counts
//! the blocks inside the function's own: `if`, `else`, loops, closures, `unsafe`, the blocks of
//! match arms. A `match` does not count beside its arms, as in clippy's `excessive_nesting`, whose
//! threshold cannot be as exact because it counts the `mod` and `impl` around a function too.
//! Length is in lines of code between the braces: blank lines and comments are free, as in
//! clippy's `too_many_lines`.

/// One function as found in a file.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Function {
    pub(crate) name: String,
    /// The line of its opening brace, from 1.
    pub(crate) line: usize,
    /// Lines of code in its body.
    pub(crate) length: usize,
    /// The deepest nesting of blocks in its body.
    pub(crate) depth: usize,
}

/// Every function with a body, innermost first. The source must have been blanked.
pub(crate) fn functions(blanked: &str) -> Vec<Function> {
    let mut scan = Scan::default();
    for (at, c) in blanked.char_indices() {
        match c {
            '{' => scan.open(blanked, at),
            '}' => scan.close(blanked, at),
            '(' | '[' => scan.parens += 1,
            ')' | ']' => scan.parens = scan.parens.saturating_sub(1),
            ';' | ',' if scan.parens == scan.floor() => scan.segment = at + 1,
            _ => {}
        }
    }
    scan.found
}

#[derive(Default)]
struct Scan {
    braces: Vec<Brace>,
    parens: usize,
    /// Where the statement began whose text says what the next brace is.
    segment: usize,
    found: Vec<Function>,
}

struct Brace {
    kind: Kind,
    opened_at: usize,
    segment: usize,
    parens: usize,
    deepest: usize,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum Kind {
    Function(String),
    Item,
    Match,
    Block,
    Value,
}

impl Scan {
    /// How many parentheses were open around the innermost brace.
    fn floor(&self) -> usize {
        self.braces.last().map_or(0, |brace| brace.parens)
    }

    fn open(&mut self, text: &str, at: usize) {
        let kind = kind(&text[self.segment..at]);
        let deepest = 0;
        let brace =
            Brace { kind, opened_at: at, segment: self.segment, parens: self.parens, deepest };
        self.braces.push(brace);
        let inside = self.braces.iter().rposition(|brace| matches!(brace.kind, Kind::Function(_)));
        if let Some(function) = inside {
            let blocks = self.braces[function..].iter().filter(|b| b.kind == Kind::Block).count();
            self.braces[function].deepest = self.braces[function].deepest.max(blocks);
        }
        self.segment = at + 1;
    }

    fn close(&mut self, text: &str, at: usize) {
        let Some(brace) = self.braces.pop() else { return };
        self.parens = brace.parens;
        // After a value the statement goes on: `if let Point { x } = p {` is still an `if`.
        self.segment = if brace.kind == Kind::Value { brace.segment } else { at + 1 };
        if let Kind::Function(name) = brace.kind {
            let body = &text[brace.opened_at + 1..at];
            let length = body.lines().filter(|line| !line.trim().is_empty()).count();
            let line = text[..brace.opened_at].matches('\n').count() + 1;
            self.found.push(Function { name, line, length, depth: brace.deepest });
        }
    }
}

/// What a brace opens, told by the statement before it.
fn kind(before: &str) -> Kind {
    let words: Vec<&str> = words(before);
    if let Some(at) = words.iter().position(|word| *word == "fn") {
        return Kind::Function(words.get(at + 1).map_or_else(String::new, ToString::to_string));
    }
    let is_item = |word: &str| {
        matches!(word, "impl" | "trait" | "struct" | "enum" | "union" | "mod" | "use" | "extern")
    };
    if words.iter().any(|word| is_item(word)) {
        return Kind::Item;
    }
    let innermost = after_open_paren(before);
    let end = innermost.trim_end();
    if end.is_empty() || end.ends_with(['=', '>', '|', '(', '[', '!', ':']) {
        return Kind::Block;
    }
    kind_by_keyword(innermost)
}

fn kind_by_keyword(statement: &str) -> Kind {
    let words = words(statement);
    let is_keyword = |word: &&&str| {
        matches!(
            **word,
            "if" | "else" | "for" | "while" | "loop" | "unsafe" | "async" | "const" | "match"
        )
    };
    let in_pattern = statement.rfind("let ").is_some_and(|at| !statement[at..].contains('='));
    let let_else = words.last() == Some(&"else");
    match words.iter().rev().find(is_keyword) {
        Some(_) if in_pattern && !let_else => Kind::Value,
        Some(&"match") => Kind::Match,
        Some(_) => Kind::Block,
        None if is_typed_closure(statement) => Kind::Block,
        None => Kind::Value,
    }
}

/// `|x| -> Type {` ends like a struct literal does.
fn is_typed_closure(statement: &str) -> bool {
    statement.rsplit_once("->").is_some_and(|(head, _)| head.trim_end().ends_with('|'))
}

/// The part of a statement after its last parenthesis that is still open.
fn after_open_paren(statement: &str) -> &str {
    let mut closed = 0;
    for (at, c) in statement.char_indices().rev() {
        match c {
            ')' | ']' => closed += 1,
            '(' | '[' if closed == 0 => return &statement[at + 1..],
            '(' | '[' => closed -= 1,
            _ => {}
        }
    }
    statement
}

fn words(text: &str) -> Vec<&str> {
    text.split(|c: char| !c.is_alphanumeric() && c != '_').filter(|word| !word.is_empty()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn only(source: &str) -> Function {
        let mut found = functions(source);
        assert_eq!(found.len(), 1, "{found:?}");
        found.remove(0)
    }

    #[test]
    fn length_leaves_out_blank_lines() {
        let found =
            only("impl A {\n    fn f() -> [u8; 3] {\n        a();\n\n        b();\n    }\n}");
        assert_eq!(found, Function { name: "f".into(), line: 2, length: 2, depth: 0 });
    }

    #[test]
    fn each_block_counts_once() {
        let cases = [
            ("fn f() { a(); }", 0),
            ("fn f() { if a { b } else { c } }", 1),
            ("fn f() { for x in y { if a { b } } }", 2),
            ("fn f() { match x { A => b, C { d } if d => { if e { g } } } }", 2),
            ("fn f() { let x = match y { A => B { c: 1 }, }; }", 0),
            ("fn f() { x.map(|a| { if a { b } }) }", 2),
            ("fn f() { x.map(|a| -> T { b }) }", 1),
            ("fn f() { x.map(|a| Foo { a }) }", 0),
            ("fn f() { if let Some(P { x }) = y { while z { } } }", 2),
            ("fn f() { if let P { x } = y { while z { } } }", 2),
            ("fn f() { while let Some(x) = g(Bar { x }) { if a { } } }", 2),
            ("fn f() { let Some(x) = y else { return; }; }", 1),
            ("fn f() { let P { x } = y else { return; }; }", 1),
            ("fn f() { spawn(async move { loop { a } }) }", 2),
            ("fn f() { select! { a => { if b { } } } }", 3),
        ];
        for (source, depth) in cases {
            assert_eq!(only(source).depth, depth, "of {source}");
        }
    }

    #[test]
    fn a_function_inside_a_function_is_its_own() {
        let found = functions("fn outer() { if a { fn inner() { if b { c } } } }");
        let depths: Vec<_> = found.iter().map(|f| (f.name.as_str(), f.depth)).collect();
        assert_eq!(depths, [("inner", 1), ("outer", 1)]);
    }
}
