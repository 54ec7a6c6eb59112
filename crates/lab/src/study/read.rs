//! From text to a study that can be run: every error is found before anything starts.

use std::{
    fs,
    path::{Path, PathBuf},
};

use loadline_measure::record::StudyRow;
use serde::Deserialize as _;

use super::{
    error::{Problems, StudyErrors, known},
    file::File,
    judge,
    place::Text,
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
    pub fn load(path: &Path, mode: Mode) -> Result<Self, StudyErrors> {
        let name = path.display().to_string();
        let folder = path.parent().unwrap_or(Path::new("")).to_owned();
        match fs::read_to_string(path) {
            Ok(text) => Self::parse_in(&name, &text, folder, mode),
            Err(error) => {
                let mut problems = Problems::default();
                let help = "name a study of `loadline lab list`, or a file that can be read";
                problems.note(0..0, format!("cannot read `{name}`: {error}"), help);
                Err(problems.into_errors(&name, ""))
            }
        }
    }

    /// Reads `text`, which errors call `name`; files it names are beside the working directory.
    ///
    /// # Errors
    /// Everything that is wrong with it, in the order of the file.
    pub fn parse(name: &str, text: &str, mode: Mode) -> Result<Self, StudyErrors> {
        Self::parse_in(name, text, PathBuf::new(), mode)
    }

    fn parse_in(name: &str, text: &str, folder: PathBuf, mode: Mode) -> Result<Self, StudyErrors> {
        let mut problems = Problems::default();
        let Some(file) = read(text, &mut problems) else {
            return Err(problems.into_errors(name, text));
        };
        let rows = rows(&file, &mut problems);
        let tools = tools(&file);
        let quick = mode == Mode::Quick;
        let name = name.to_owned();
        let study = Self { name, text: text.to_owned(), folder, quick, file, rows, tools };
        study.check(&mut problems);
        if problems.is_empty() { Ok(study) } else { Err(problems.into_errors(&study.name, text)) }
    }

    /// What it is called.
    #[must_use]
    pub fn title(&self) -> &str {
        self.file.title.as_ref().map_or("", |title| title.get_ref())
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
        speed.map_or(1.0, |speed| *speed.get_ref())
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

    fn check(&self, problems: &mut Problems) {
        let whole = 0..self.text.len().min(1);
        if self.title().is_empty() {
            problems.note(whole.clone(), "the study has no title", "write `title = \"...\"`");
        }
        if self.file.host.0.is_empty() {
            problems.note(whole.clone(), "the study has no hosts", "write `[host.client]`");
        }
        if self.file.phase.is_empty() {
            let help = "write a `[[phase]]` with `name`, `host` and `run`";
            problems.note(whole, "the study has no phases", help);
        }
        if let Some(speed) = &self.file.quick.speed
            && !(speed.get_ref().is_finite() && *speed.get_ref() > 0.0)
        {
            problems.note(speed.span(), "a speed is above zero", "write `speed = 10`");
        }
        for row in &self.rows {
            plan_row(self, &row.name, &Places::default(), problems);
        }
        judge::check(self, problems);
    }
}

/// The first error of the reader is told; what follows from it is not.
fn read(text: &str, problems: &mut Problems) -> Option<File> {
    let file = toml::Deserializer::parse(text).and_then(File::deserialize);
    file.map_err(|error| {
        let span = error.span().unwrap_or(0..0);
        let message = error.message();
        match message.strip_prefix("unknown field ") {
            Some(names) => {
                let mut names = names.split('`').skip(1).step_by(2);
                let typed = names.next().unwrap_or_default();
                problems.note(span, format!("unknown key `{typed}`"), known(typed, names));
            }
            None => problems.note(span, message, "docs/lab.md has every key of a study"),
        }
    })
    .ok()
}

fn rows(file: &File, problems: &mut Problems) -> Vec<StudyRow> {
    let row = |(name, row): &(Text, serde_spanned::Spanned<super::file::RowEntry>)| {
        let row = row.get_ref();
        let tools = || file.tool.0.iter().map(|(name, _)| name.get_ref().as_str());
        if let Some(peer) = &row.peer
            && !tools().any(|tool| tool == peer.get_ref())
        {
            let help = format!("{}; a peer is a `[tool.NAME]`", known(peer.get_ref(), tools()));
            problems.note(peer.span(), format!("there is no tool `{}`", peer.get_ref()), help);
        }
        StudyRow {
            name: name.get_ref().clone(),
            title: row.title.clone().unwrap_or_else(|| name.get_ref().clone()),
            peer: row.peer.as_ref().map(|peer| peer.get_ref().clone()),
            skipped: None,
        }
    };
    let rows: Vec<_> = file.row.0.iter().map(row).collect();
    if !rows.is_empty() {
        return rows;
    }
    let title = "loadline".to_owned();
    vec![StudyRow { name: title.clone(), title, ..StudyRow::default() }]
}

fn tools(file: &File) -> Vec<Tool> {
    let tool = |(name, tool): &(Text, serde_spanned::Spanned<super::file::ToolEntry>)| {
        let (name, tool) = (name.get_ref(), tool.get_ref());
        let version = match tool.version.as_slice() {
            [] => vec![name.clone(), "--version".to_owned()],
            given => given.to_vec(),
        };
        let install = format!("apt-get install {name}");
        Tool { name: name.clone(), version, install: tool.install.clone().unwrap_or(install) }
    };
    file.tool.0.iter().map(tool).collect()
}
