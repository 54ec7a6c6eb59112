//! What a study leaves behind: its folder, and its page for the documentation.

use std::{env, fs, io::ErrorKind, path::Path};

use anyhow::Context as _;
use loadline_lab::study::Study;
use loadline_measure::record::{Document, Record, StudyRecord};
use loadline_report::{Page, agreement_page, keep_written, study_page};

use crate::commands::output_file::OutputFile;

/// Record, verdicts, page and the command that repeats it; gives the record's text.
pub(super) fn write(folder: &Path, text: &str, record: StudyRecord) -> anyhow::Result<String> {
    let write = |name: &str, text: &str| {
        let path = folder.join(name);
        fs::write(&path, text).with_context(|| format!("cannot write {}", path.display()))
    };
    let page = study_page(&record).context("cannot draw the report")?;
    let json = serde_json::to_string_pretty(&Document::new(Record::Study(record)))? + "\n";
    write("record.json", &json)?;
    write("report.html", &page.html())?;
    write("result.txt", text)?;
    let command: Vec<_> = env::args().collect();
    write("command.txt", &(command.join(" ") + "\n"))?;
    Ok(json)
}

/// Looks before a run whether a page can be written where it is to go.
pub(super) fn check_page(file: Option<&Path>) -> anyhow::Result<()> {
    file.map(OutputFile::open_in_folder).transpose().map(drop)
}

/// The page for the documentation, its pictures beside it. What people wrote into it stays.
pub(super) fn write_markdown(
    file: &Path,
    study: &Study,
    record: &StudyRecord,
) -> anyhow::Result<()> {
    let page = study_page(record).context("cannot draw the report")?;
    write_page(file, study.short_name(), &page)
}

/// The page of several studies in the lab and in the simulator. What people wrote into it stays.
pub(super) fn write_agreement(file: &Path, records: &[StudyRecord]) -> anyhow::Result<()> {
    let name = file.file_stem().and_then(|name| name.to_str()).unwrap_or("agreement");
    write_page(file, name, &agreement_page(records))
}

fn write_page(file: &Path, name: &str, page: &Page) -> anyhow::Result<()> {
    let (text, pictures) = page.markdown(name);
    let folder = file.parent().unwrap_or(Path::new(""));
    if !folder.as_os_str().is_empty() {
        fs::create_dir_all(folder).with_context(|| format!("cannot make {}", folder.display()))?;
    }
    let text = match fs::read_to_string(file) {
        Ok(before) => keep_written(&text, &before),
        Err(error) if error.kind() == ErrorKind::NotFound => text,
        Err(error) => return Err(error).with_context(|| format!("cannot read {}", file.display())),
    };
    let pictures = pictures.iter().map(|(name, svg)| (folder.join(name), svg));
    for (path, text) in pictures.chain([(file.to_owned(), &text)]) {
        fs::write(&path, text).with_context(|| format!("cannot write {}", path.display()))?;
    }
    Ok(())
}
