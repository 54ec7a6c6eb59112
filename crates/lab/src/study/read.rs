//! From text to a study that can be run: every error is found before anything starts.

use std::path::{Path, PathBuf};

use loadline_measure::record::StudyRow;
use loadline_spanned::{At, FileErrors, FileKind, Problems, Source, known};

use super::{
    file::{File, RowEntry, ToolEntry},
    judge,
    plan::{Places, Plan, plan_row},
};

/// A study that can be run.
#[derive(Clone, Debug)]
pub struct Study {
    name: String,
    text: String,
    folder: PathBuf,
    quick: bool,
    pub(crate) file: File,
    rows: Vec<StudyRow>,
    tools: Vec<Tool>,
}

/// Whether a study is shortened.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mode {
    /// As published.
    Full,
    /// Shortened: what the keys called `quick` say.
    Quick,
}

/// A program that has to be installed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Tool {
    /// As the file calls it.
    pub name: String,
    /// The command that prints its version; its first word is the program.
    pub version: Vec<String>,
    /// How it is installed.
    pub install: String,
}

impl Study {
    /// Reads the file at `path`.
    ///
    /// # Errors
    /// Everything that is wrong with it, in the order of the file; or why it cannot be read.
    pub fn load(path: &Path, mode: Mode) -> Result<Self, FileErrors> {
        let name = path.display().to_string();
        let folder = path.parent().unwrap_or(Path::new("")).to_owned();
        let help = "name a study of `loadline lab list`, or a file that can be read";
        let text = loadline_spanned::load::<StudyFile>(path, help)?;
        Self::parse_in(&name, &text, folder, mode)
    }

    /// Reads `text`, which errors call `name`; files it names are beside the working directory.
    ///
    /// # Errors
    /// Everything that is wrong with it, in the order of the file.
    pub fn parse(name: &str, text: &str, mode: Mode) -> Result<Self, FileErrors> {
        Self::parse_in(name, text, PathBuf::new(), mode)
    }

    fn parse_in(name: &str, text: &str, folder: PathBuf, mode: Mode) -> Result<Self, FileErrors> {
        let source = Source::new::<StudyFile>(name, text.to_owned());
        let mut problems = Problems::default();
        let file = loadline_spanned::read::<StudyFile, File>(text, &mut problems);
        // What follows from keys that cannot be read is not told.
        let Some(At { value: file, .. }) = file.filter(|_| !problems.failed()) else {
            return Err(problems.into_errors(&source));
        };
        let rows = rows(&file, &mut problems);
        let tools = tools(&file);
        let quick = mode == Mode::Quick;
        let name = name.to_owned();
        let study = Self { name, text: text.to_owned(), folder, quick, file, rows, tools };
        study.check(&mut problems);
        problems.settle(&source).map(|_| study)
    }

    /// What it is called.
    #[must_use]
    pub fn title(&self) -> &str {
        self.file.title.as_ref().map_or("", |title| &title.value)
    }

    /// The name of its file, without folder and ending.
    #[must_use]
    pub fn short_name(&self) -> &str {
        Path::new(&self.name).file_stem().and_then(|stem| stem.to_str()).unwrap_or(&self.name)
    }

    /// The text of its file.
    #[must_use]
    pub fn text(&self) -> &str {
        &self.text
    }

    /// The folder of its file.
    #[must_use]
    pub fn folder(&self) -> &Path {
        &self.folder
    }

    /// What it is about, a paragraph each.
    #[must_use]
    pub fn about(&self) -> Vec<String> {
        let words = |text: &str| text.split_whitespace().collect::<Vec<_>>().join(" ");
        let paragraphs = self.file.about.split("\n\n").map(words);
        paragraphs.filter(|paragraph| !paragraph.is_empty()).collect()
    }

    /// The documents that published it.
    #[must_use]
    pub fn sources(&self) -> &[String] {
        &self.file.sources
    }

    /// Whether it is shortened.
    #[must_use]
    pub fn is_quick(&self) -> bool {
        self.quick
    }

    /// By how much it is faster than what was published.
    #[must_use]
    pub fn speed(&self) -> f64 {
        let speed = self.file.quick.speed.as_ref().filter(|_| self.quick);
        speed.map_or(1.0, |speed| speed.value)
    }

    /// The variants, in the order of the file.
    #[must_use]
    pub fn rows(&self) -> &[StudyRow] {
        &self.rows
    }

    /// The programs that have to be installed.
    #[must_use]
    pub fn tools(&self) -> &[Tool] {
        &self.tools
    }

    /// What is to be done for the row called `row`; an empty plan where there is none.
    #[must_use]
    pub fn plan(&self, row: &str, places: &Places) -> Plan {
        plan_row(self, row, places, &mut Problems::default())
    }

    /// Notes a row that there is not.
    pub(crate) fn check_row(&self, row: &At<String>, problems: &mut Problems) {
        let names: Vec<&str> = self.rows.iter().map(|row| row.name.as_str()).collect();
        if !names.contains(&row.value.as_str()) {
            let message = format!("there is no row `{}`", row.value);
            problems.error(&row.span, message, "here", known(&row.value, &names));
        }
    }

    fn check(&self, problems: &mut Problems) {
        let whole = 0..self.text.len().min(1);
        if self.title().is_empty() {
            problems.error(&whole, "the study has no title", "here", "write `title = \"...\"`");
        }
        if self.file.host.is_empty() {
            problems.error(&whole, "the study has no hosts", "here", "write `[host.client]`");
        }
        if self.file.phase.is_empty() {
            let help = "write a `[[phase]]` with `name`, `host` and `run`";
            problems.error(&whole, "the study has no phases", "here", help);
        }
        if let Some(speed) = &self.file.quick.speed
            && !(speed.value.is_finite() && speed.value > 0.0)
        {
            problems.error(&speed.span, "a speed is above zero", "here", "write `speed = 10`");
        }
        for row in &self.rows {
            plan_row(self, &row.name, &Places::default(), problems);
        }
        judge::check(self, problems);
    }
}

fn rows(file: &File, problems: &mut Problems) -> Vec<StudyRow> {
    let row = |(name, row): &(At<String>, At<RowEntry>)| {
        let row = &row.value;
        let tools: Vec<&str> = file.tool.iter().map(|(name, _)| name.value.as_str()).collect();
        if let Some(peer) = &row.peer
            && !tools.contains(&peer.value.as_str())
        {
            let help = format!("{}; a peer is a `[tool.NAME]`", known(&peer.value, &tools));
            problems.error(&peer.span, format!("there is no tool `{}`", peer.value), "here", help);
        }
        StudyRow {
            name: name.value.clone(),
            title: row.title.clone().unwrap_or_else(|| name.value.clone()),
            peer: row.peer.as_ref().map(|peer| peer.value.clone()),
            skipped: None,
        }
    };
    let rows: Vec<_> = file.row.iter().map(row).collect();
    if !rows.is_empty() {
        return rows;
    }
    let title = "loadline".to_owned();
    vec![StudyRow { name: title.clone(), title, ..StudyRow::default() }]
}

fn tools(file: &File) -> Vec<Tool> {
    let tool = |(name, tool): &(At<String>, At<ToolEntry>)| {
        let (name, tool) = (&name.value, &tool.value);
        let version = match tool.version.as_slice() {
            [] => vec![name.clone(), "--version".to_owned()],
            given => given.to_vec(),
        };
        let install = format!("apt-get install {name}");
        Tool { name: name.clone(), version, install: tool.install.clone().unwrap_or(install) }
    };
    file.tool.iter().map(tool).collect()
}

enum StudyFile {}

impl FileKind for StudyFile {
    const NAME: &'static str = "study";
    const REFERENCE: &'static str = "docs/lab.md has every key of a study";
}
