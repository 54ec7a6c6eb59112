//! Pages for errors and for maintenance: what is in their files, and of what type it is.

use std::{fs, path::Path};

use loadline_core::fleet::{ErrorPages, Maintenance, Page, Pages, Statuses};
use loadline_spanned::{Key, Named, Problems};

use super::set;
use crate::{
    file,
    value::{label::FilePath, one_or_more::OneOrMore},
};

/// Error pages by their statuses.
pub(super) fn error_pages(
    given: &Key<Named<OneOrMore<FilePath>>>,
    problems: &mut Problems,
) -> ErrorPages {
    let mut all = Vec::new();
    for (name, files) in given.get().into_iter().flat_map(Named::iter) {
        match statuses(&name.value) {
            Some(statuses) => all.push((statuses, pages(&files.value))),
            None => {
                let message = format!("`{}` is no status of an error", name.value);
                let help = "write a number from 400 to 599, \"4xx\" or \"5xx\"".to_owned();
                problems.error(&name.span, message, "this status", help);
            }
        }
    }
    ErrorPages(all)
}

/// What a service says of its maintenance.
pub(super) fn maintenance(given: &Key<file::Maintenance>) -> Option<Maintenance> {
    let file = given.get()?;
    let mut maintenance = Maintenance {
        enabled: false,
        retry_after: file.retry_after.get().map(|time| time.0.0),
        pages: file.page.get().map(pages).unwrap_or_default(),
        allow: file.allow.get().map(|all| all.iter().map(|it| it.0).collect()),
    };
    set(&file.enabled, |on| on, &mut maintenance.enabled);
    Some(maintenance)
}

fn statuses(text: &str) -> Option<Statuses> {
    match text {
        "4xx" => Some(Statuses::Class(4)),
        "5xx" => Some(Statuses::Class(5)),
        _ if text.len() == 3 => {
            text.parse().ok().filter(|it| (400..600).contains(it)).map(Statuses::One)
        }
        _ => None,
    }
}

/// The pages in the files. A file that cannot be read is left out, and reported by `outside`.
fn pages(files: &OneOrMore<FilePath>) -> Pages {
    Pages(files.iter().filter_map(|path| read(Path::new(&path.0)).ok()).collect())
}

/// A page, and its type by the end of its name.
///
/// # Errors
/// Why it cannot be one.
pub(crate) fn read(path: &Path) -> Result<Page, String> {
    let body = fs::read(path).map_err(|error| error.to_string())?;
    if body.len() > PAGE_MAX {
        return Err(format!("it has {} bytes, and 1 MiB is the most", body.len()));
    }
    let extension = path.extension().and_then(|it| it.to_str()).unwrap_or_default();
    let content_type = match extension.to_ascii_lowercase().as_str() {
        "html" | "htm" => "text/html; charset=utf-8",
        "json" => "application/json",
        "txt" => "text/plain; charset=utf-8",
        "xml" => "application/xml",
        _ => return Err("its name does not end with .html, .json, .txt or .xml".to_owned()),
    };
    Ok(Page { content_type: content_type.to_owned(), body: body.into() })
}

/// Far more than anybody looks at while something is broken.
const PAGE_MAX: usize = 1 << 20;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_page_is_of_the_type_that_its_name_says() {
        let folder = tempfile::tempdir().unwrap();
        let page = |name: &str, size: usize| {
            let path = folder.path().join(name);
            fs::write(&path, "x".repeat(size)).unwrap();
            read(&path).map(|page| page.content_type)
        };
        assert_eq!(page("a.html", 3).as_deref(), Ok("text/html; charset=utf-8"));
        assert_eq!(page("a.JSON", 3).as_deref(), Ok("application/json"));
        assert!(page("a.exe", 3).unwrap_err().contains("does not end with"));
        assert!(page("b.html", PAGE_MAX + 1).unwrap_err().contains("1 MiB is the most"));
        assert!(read(&folder.path().join("none.html")).is_err());
        assert_eq!(
            [statuses("503"), statuses("5xx")],
            [Some(Statuses::One(503)), Some(Statuses::Class(5))]
        );
        for text in ["200", "6xx", "50", "600", "+50", "abc"] {
            assert_eq!(statuses(text), None, "{text}");
        }
    }
}
