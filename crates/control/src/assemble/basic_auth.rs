//! Basic authentication: the users in the configuration and those in a file.

use std::{collections::BTreeMap, path::Path};

use loadline_core::rules::{BasicAuth, PasswordHash};
use loadline_spanned::{Named, Problems, Span};

use super::{authentication::REALM, read_text, set};
use crate::file;

/// What the file says of it.
pub(super) fn basic_auth(
    (file, span): (&file::BasicAuth, &Span),
    problems: &mut Problems,
) -> BasicAuth {
    let mut auth = BasicAuth {
        realm: file.realm.get().map_or_else(|| REALM.to_owned(), |realm| realm.0.0.clone()),
        users: BTreeMap::new(),
        pass_authorization: false,
    };
    set(&file.pass_authorization, |on| on, &mut auth.pass_authorization);
    let mut can_be_read = true;
    if let Some(path) = file.users_file.get() {
        // What tries it (`outside`) says what is wrong with it; nobody comes in then.
        let listed = read(Path::new(&path.0.0));
        can_be_read = listed.is_ok();
        auth.users = listed.unwrap_or_default();
    }
    for (name, hash) in file.users.get().into_iter().flat_map(Named::iter) {
        if let Err(why) = check_name(&name.value) {
            let help = "take the colon and control characters out".to_owned();
            problems.error(&name.span, why, "this name", help);
        }
        auth.users.insert(name.value.clone(), hash.value.0.0.clone());
    }
    if !file.users.given() && !file.users_file.given() {
        let help = "say `users` or `users_file`".to_owned();
        let message = "`basic_auth` without users: nobody could come in".to_owned();
        problems.absent(span, span, message, help);
    } else if auth.users.is_empty() && can_be_read {
        warn_of_nobody(file, span, problems);
    }
    auth
}

/// Where a list of users is there, and nobody is on it.
fn warn_of_nobody(file: &file::BasicAuth, span: &Span, problems: &mut Problems) {
    let users = file.users.at().map(|at| &at.span);
    if users.is_some_and(|users| problems.is_damaged(users)) || problems.is_damaged(span) {
        return;
    }
    let listed = file.users_file.at();
    let (key, place) = match (listed, users) {
        (Some(listed), _) => ("users_file", &listed.span),
        (None, users) => ("users", users.unwrap_or(span)),
    };
    let message = format!("`{key}` has no user: nobody can come in");
    problems.warning(place, message, "nobody", "add one: htpasswd -nB NAME".to_owned());
}

/// The users in a file, one a line.
///
/// # Errors
/// What is wrong with it, with the line.
pub(crate) fn read(path: &Path) -> Result<BTreeMap<String, PasswordHash>, String> {
    let text = read_text(path)?;
    let mut users = BTreeMap::new();
    for (index, line) in text.lines().enumerate() {
        let line = line.trim();
        if line.is_empty() || line.starts_with('#') {
            continue;
        }
        let told = |why: String| format!("line {}: {why}", index + 1);
        let Some((name, hash)) = line.split_once(':') else {
            return Err(told("this is not NAME:HASH".to_owned()));
        };
        check_name(name).map_err(told)?;
        let hash = PasswordHash::parse(hash).map_err(|why| told(why.to_string()))?;
        if users.insert(name.to_owned(), hash).is_some() {
            return Err(told(format!("`{name}` is there twice")));
        }
    }
    Ok(users)
}

fn check_name(name: &str) -> Result<(), String> {
    if name.is_empty() {
        return Err("a user without a name".to_owned());
    }
    match name.chars().find(|c| c.is_control() || *c == ':') {
        Some(_) => Err(format!("`{}` is no name of a user", name.escape_debug())),
        None => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    const BCRYPT: &str = "$2y$05$c4WoMPo3SXsafkva.HHa6uXQZWr7oboPiC2bT/r7q1BB8I2s0BRqC";

    #[test]
    fn a_list_has_a_user_a_line_and_an_error_names_the_line_and_no_hash() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("htpasswd");
        fs::write(&path, format!("# staff\n\nalice:{BCRYPT}\nbob:{BCRYPT}\n")).unwrap();
        let names: Vec<String> = read(&path).unwrap().into_keys().collect();
        assert_eq!(names, ["alice", "bob"]);
        fs::write(&path, format!("\u{feff}alice:{BCRYPT}\n")).unwrap();
        assert!(read(&path).unwrap().contains_key("alice"), "the mark of an editor is in no name");
        for (text, expected) in [
            ("alice\n".to_owned(), "line 1: this is not NAME:HASH"),
            (format!("alice:{BCRYPT}\nalice:{BCRYPT}"), "line 2: `alice` is there twice"),
            (format!(":{BCRYPT}"), "line 1: a user without a name"),
            ("alice:secret".to_owned(), "line 1: this is no hash of a password"),
            ("alice:$apr1$a$b".to_owned(), "line 1: a hash that is quick to guess"),
        ] {
            fs::write(&path, &text).unwrap();
            let told = read(&path).unwrap_err();
            assert!(told.starts_with(expected) && !told.contains("secret"), "{text}: {told}");
        }
        assert!(read(&folder.path().join("none")).is_err());
    }
}
