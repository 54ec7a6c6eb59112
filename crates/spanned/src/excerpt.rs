//! What is printed of a file for one problem: the lines round its place, the long ones cut.
//!
//! A list of thousands of servers on one line would fill a log, and miette, which fills lines up
//! to the place with spaces, cannot write more than 65,535 of them.

use miette::{MietteError, MietteSpanContents, NamedSource, SourceCode, SourceSpan, SpanContents};

use crate::place::Span;

/// Lines of a file, the long ones cut.
#[derive(Clone, Debug)]
pub(crate) struct Excerpt {
    text: NamedSource<String>,
    /// The place in `text`.
    span: Span,
    /// How many lines of the file come before.
    lines_before: usize,
    /// How many bytes of its line come before the place.
    column: usize,
}

impl Excerpt {
    /// The lines round `place`, which is in the line `number`, counted from 1. None where all of
    /// them are short.
    pub(crate) fn new(file: &NamedSource<String>, place: &Span, number: usize) -> Option<Self> {
        let text = file.inner().as_str();
        let start = text.floor_char_boundary(place.start);
        let end = text.floor_char_boundary(place.end).max(start);
        let first = line_start(text, start);
        let begin = (0..NEAR).fold(first, |at, _| line_start(text, at.saturating_sub(1)));
        let lines = lines_to(text, begin, end);
        if lines.iter().all(|line| line.len() <= LINE_MAX) {
            return None;
        }
        let (shown, span) = cut(text, lines, &(start..end));
        let before = text[begin..first].matches('\n').count();
        Some(Self {
            text: NamedSource::new(file.name(), shown).with_language("TOML"),
            span,
            lines_before: number.saturating_sub(before + 1),
            column: start - first,
        })
    }

    /// The place in the excerpt.
    pub(crate) const fn span(&self) -> &Span {
        &self.span
    }
}

impl SourceCode for Excerpt {
    fn read_span<'a>(
        &'a self,
        span: &SourceSpan,
        lines_before: usize,
        lines_after: usize,
    ) -> Result<Box<dyn SpanContents<'a> + 'a>, MietteError> {
        let read = self.text.read_span(span, lines_before, lines_after)?;
        let line = self.lines_before + read.line();
        // What begins with a whole line begins at its first column.
        let column = if lines_before == 0 { self.column } else { 0 };
        let name = self.text.name().to_owned();
        let contents = MietteSpanContents::new_named(
            name,
            read.data(),
            *read.span(),
            line,
            column,
            read.line_count(),
        );
        Ok(Box::new(contents.with_language("TOML")))
    }
}

/// Where the line of a byte begins.
fn line_start(text: &str, byte: usize) -> usize {
    text[..byte].rfind('\n').map_or(0, |newline| newline + 1)
}

/// The lines from `begin` to that of `end` and those near it, each with its line break.
fn lines_to(text: &str, begin: usize, end: usize) -> Vec<Span> {
    let mut at = begin;
    let lines = text[begin..].split_inclusive('\n').map(|line| {
        at += line.len();
        at - line.len()..at
    });
    let mut after = 0;
    let is_near = |line: &Span| {
        after += usize::from(line.start >= end);
        after <= NEAR
    };
    lines.take_while(is_near).collect()
}

/// The lines, the long ones cut, and where in them `place` is.
fn cut(text: &str, lines: Vec<Span>, place: &Span) -> (String, Span) {
    let mut shown = String::new();
    let mut moved = 0..0;
    for line in lines {
        let content = text[line.clone()].trim_end_matches(['\r', '\n']);
        let content = line.start..line.start + content.len();
        let kept = kept(text, &content, near(&line, place));
        if kept.start > content.start {
            shown.push_str(CUT);
        }
        let begin = shown.len();
        shown.push_str(&text[kept.clone()]);
        let to_shown = |byte: usize| begin + byte.clamp(kept.start, kept.end) - kept.start;
        let (start, mut end) = (to_shown(place.start), to_shown(place.end));
        if kept.end < content.end {
            shown.push_str(CUT);
            end = if place.end > kept.end { shown.len() } else { end };
        }
        if line.start <= place.start {
            moved = start..end;
        } else if line.start < place.end {
            moved.end = end;
        }
        shown.push_str(&text[content.end..line.end]);
    }
    (shown, moved)
}

/// Where `place` begins or ends in a line; where the line begins if it does neither.
fn near(line: &Span, place: &Span) -> usize {
    let is_in = |byte: &usize| (line.start..=line.end).contains(byte);
    [place.start, place.end].into_iter().find(is_in).unwrap_or(line.start)
}

/// The part of a line that is shown: all of a short one, of others what is round `at`.
fn kept(text: &str, line: &Span, at: usize) -> Span {
    if line.len() <= LINE_MAX {
        return line.clone();
    }
    let at = at.min(line.end);
    let from = text.ceil_char_boundary(at.saturating_sub(AROUND).max(line.start));
    from..text.floor_char_boundary((at + AROUND).min(line.end))
}

/// Stands for what was cut out of a line, in letters that every locale has.
const CUT: &str = "...";

/// A line of more bytes is cut.
const LINE_MAX: usize = 400;

/// So many bytes of a long line are shown before where a place begins, and after.
const AROUND: usize = 200;

/// Lines before and after a place that may be printed with it.
const NEAR: usize = 2;

#[cfg(test)]
mod tests {
    use miette::{GraphicalReportHandler, GraphicalTheme};

    use crate::{FileKind, Problems, Source};

    enum Configuration {}

    impl FileKind for Configuration {
        const NAME: &'static str = "configuration";
        const REFERENCE: &'static str = "";
    }

    /// What is printed of an error at `word` of `text`.
    fn printed(text: &str, word: &str) -> String {
        let start = text.find(word).expect("the word is there");
        let mut problems = Problems::default();
        problems.error(&(start..start + word.len()), "wrong", "this", "write it right");
        let errors = problems.into_errors(&Source::new::<Configuration>("a.toml", text.to_owned()));
        let handler = GraphicalReportHandler::new_themed(GraphicalTheme::unicode_nocolor());
        let mut page = String::new();
        handler.with_wrap_lines(false).render_report(&mut page, &errors).expect("it is printed");
        page
    }

    /// A list of `count` servers on the third line, of which the last is `last`.
    fn list(count: usize, last: &str) -> String {
        let servers = "\"10.0.0.1:80\", ".repeat(count);
        format!("# é\n[[service.web.group]]\nservers = [{servers}{last}]\nregion = \"a\"\n")
    }

    #[test]
    fn an_error_at_the_end_of_a_line_of_megabytes_is_printed_with_its_place() {
        for end in ["\n", "\r\n"] {
            let page = printed(&list(100_000, "\"é:port\"").replace('\n', end), "\"é:port\"");
            assert!(page.contains("[a.toml:3:1500012]"), "{page}");
            let shown: Vec<&str> = page.lines().filter(|line| line.contains("...")).collect();
            let [line] = shown.as_slice() else { panic!("{page}") };
            assert!(line.starts_with(" 3 │ ...") && line.ends_with(", \"é:port\"]"), "{line}");
            assert!(page.len() < 2_000, "{page}");
            let column = |line: &str, mark: char| line.chars().position(|it| it == mark);
            let below = page.lines().find(|line| line.contains('┬')).expect("the place");
            assert_eq!(column(below, '─'), column(line, 'é').map(|at| at - 1), "{page}");
        }
    }

    #[test]
    fn a_place_of_megabytes_is_printed_with_where_it_begins() {
        let text = list(100_000, "1");
        let end = text.find("\nregion").expect("the line after the list");
        let page = printed(&text, &text[text.find("[\"").expect("the list")..end]);
        assert!(page.contains("[a.toml:3:11]") && page.len() < 2_000, "{page}");
        assert!(page.contains(" 3 │ servers = [\"10.0.0.1:80\""), "{page}");
        assert!(page.contains(" 4 │ region = \"a\"\n"), "{page}");
    }

    #[test]
    fn a_long_line_beside_a_place_is_cut_and_short_ones_stay() {
        let text = list(1_000, "1") + "wrong = 1\nlast = 2\n";
        let page = printed(&text, "wrong");
        let end = " 4 │ region = \"a\"\n 5 │ wrong = 1\n";
        assert!(page.contains("[a.toml:5:1]") && page.contains(end), "{page}");
        let page = printed(&text, "region");
        assert!(page.contains("[a.toml:4:1]") && page.contains(" 3 │ ..."), "{page}");
        assert!(page.len() < 2_000, "{page}");
    }

    #[test]
    fn a_place_over_several_lines_is_printed_with_both_ends() {
        let middle = "\"10.0.0.1:80\", ".repeat(1_000);
        let text = format!("servers = [1,\n{middle}\n{middle}2]\nlast = 1\n");
        let page = printed(&text, &text[10..text.len() - 10]);
        assert!(page.contains("[a.toml:1:11]") && page.contains("2]\n"), "{page}");
        assert!(page.contains("servers = [1,\n") && page.len() < 3_000, "{page}");
    }
}
