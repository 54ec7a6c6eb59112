//! A configuration in several files: what each adds, and errors in the right one.

use std::{fs, os::unix::fs::symlink};

use loadline_control::{included, load};
use tempfile::TempDir;

const MAIN: &str = "include = [\"conf.d/*.toml\"]\n[edge]\nregion = \"local\"\n\
    [[listener]]\nbind = \":8080\"\nservice = \"web\"\n";
const WEB: &str = "[[service.web.group]]\nservers = [\"10.0.0.1:80\"]\n";
const API: &str = "[[listener]]\nbind = \":8081\"\nservice = \"api\"\n\
    [[service.api.group]]\nservers = [\"10.0.0.2:80\"]\n";

/// A folder with `main.toml` and what it includes.
fn folder(main: &str, web: &str, api: &str) -> TempDir {
    let folder = tempfile::tempdir().expect("a folder");
    fs::create_dir(folder.path().join("conf.d")).expect("a folder");
    for (name, text) in
        [("main.toml", main), ("conf.d/a-web.toml", web), ("conf.d/b-api.toml", api)]
    {
        fs::write(folder.path().join(name), text).expect("a file");
    }
    folder
}

#[test]
fn included_files_add_their_listeners_and_services() {
    let folder = folder(MAIN, WEB, API);
    fs::write(folder.path().join("conf.d/notes.txt"), "no TOML").expect("a file");
    let loaded = load(&folder.path().join("main.toml")).unwrap();
    assert!(loaded.warnings.is_empty(), "{:?}", loaded.warnings);
    let names: Vec<_> = loaded.fleet.services.iter().map(|it| it.name.as_str()).collect();
    assert_eq!(names, ["web", "api"]);
    assert_eq!(loaded.fleet.listeners.len(), 2);
}

#[test]
fn a_star_in_a_folder_that_is_not_there_matches_nothing() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("main.toml");
    fs::write(&path, format!("{MAIN}{WEB}")).expect("a file");
    assert_eq!(load(&path).unwrap().fleet.services.len(), 1);
    for wrong in ["conf.d", "conf.d/a.toml", "conf*/*.toml"] {
        fs::write(&path, format!("{MAIN}{WEB}").replace("conf.d/*.toml", wrong)).expect("a file");
        let errors = load(&path).expect_err(wrong).errors().to_vec();
        assert!(errors[0].message().contains("cannot read"), "{wrong}: {errors:?}");
    }
}

#[test]
fn a_folder_is_a_configuration_too() {
    let folder =
        folder("", &format!("{WEB}[[listener]]\nbind = \":8080\"\nservice = \"web\"\n"), API);
    let loaded = load(&folder.path().join("conf.d")).unwrap();
    assert_eq!((loaded.fleet.services.len(), loaded.fleet.listeners.len()), (2, 2));
    let empty = tempfile::tempdir().expect("a folder");
    let errors = load(empty.path()).expect_err("no file").errors().to_vec();
    assert!(errors[0].message().contains("ends in .toml"), "{errors:?}");
}

#[test]
fn a_file_that_cannot_be_read_is_not_left_out_of_a_folder() {
    for target in ["nowhere.toml", "c-shop.toml"] {
        for pattern in ["conf.d/*.toml", "conf.d"] {
            let folder = folder(&MAIN.replace("conf.d/*.toml", pattern), WEB, API);
            let link = folder.path().join("conf.d/c-shop.toml");
            symlink(target, &link).expect("a link");
            let main = folder.path().join("main.toml");
            let errors = load(&main).expect_err(target).errors().to_vec();
            let [error] = errors.as_slice() else { panic!("{errors:?}") };
            let told = format!("cannot read `{}`: ", link.display());
            assert!(error.message().starts_with(&told), "{error}");
            assert_eq!((error.line(), error.column()), (1, 12), "{target}, {pattern}");
            assert!(included(&main).contains(&link), "a reload sees when it is mended");
            let errors = load(&folder.path().join("conf.d")).expect_err(target).errors().to_vec();
            assert!(errors[0].message().starts_with(&told), "{errors:?}");
        }
    }
}

#[test]
fn of_an_included_file_that_is_not_utf_8_the_place_is_told() {
    let folder = folder(MAIN, WEB, API);
    let text = format!("# Z\u{fc}rich\n{API}# Z");
    let bytes = [text.as_bytes(), b"\xfcrich\n"].concat();
    fs::write(folder.path().join("conf.d/b-api.toml"), bytes).expect("a file");
    for path in ["main.toml", "conf.d"] {
        let errors = load(&folder.path().join(path)).expect_err(path).errors().to_vec();
        let [error] = errors.as_slice() else { panic!("{errors:?}") };
        assert_eq!((error.line(), error.column()), (7, 4), "{error}");
        assert!(error.file().ends_with("conf.d/b-api.toml"), "{}", error.file());
    }
}

#[test]
fn folders_and_special_files_in_a_folder_are_no_configuration() {
    let folder = folder(MAIN, WEB, API);
    fs::create_dir(folder.path().join("conf.d/old.toml")).expect("a folder");
    symlink("/dev/null", folder.path().join("conf.d/null.toml")).expect("a link");
    assert_eq!(load(&folder.path().join("main.toml")).unwrap().fleet.services.len(), 2);
}

#[test]
fn an_error_names_the_file_that_it_is_in() {
    for (main, web, api, file, line, message) in [
        (MAIN, WEB, API.replace(":8081", "8081"), "b-api.toml", 2, "`8081` is not an address"),
        (MAIN, WEB, API.replace("= \"api\"", "= \"apy\""), "b-api.toml", 3, "no service `apy`"),
        (MAIN, WEB, API.replace("8081", "8080"), "b-api.toml", 2, "bound by a listener above"),
        (MAIN, "[[service.web", API.to_owned(), "a-web.toml", 1, "not TOML"),
        (MAIN, WEB, API.replace(".api.", ".web."), "b-api.toml", 4, "in another file too"),
        (MAIN, WEB, format!("{API}[edge]\nregion = \"b\"\n"), "b-api.toml", 7, "another file"),
        (MAIN, WEB, format!("include = [\"x\"]\n{API}"), "main.toml", 1, "includes others"),
        ("include = [\"none.toml\"]", WEB, API.to_owned(), "main.toml", 1, "cannot read"),
    ] {
        let folder = folder(main, web, &api);
        let errors = load(&folder.path().join("main.toml")).expect_err(message);
        let found = errors.errors().iter().find(|it| it.message().contains(message));
        let found = found.unwrap_or_else(|| panic!("{message}: {errors:?}"));
        assert!(found.file().ends_with(file), "{message}: {}", found.file());
        assert_eq!(found.line(), line, "{message}");
    }
}

#[test]
fn variables_are_put_in_with_the_type_that_the_key_wants() {
    let main = MAIN.replace("\":8080\"", "\":${LOADLINE_TEST_UNSET:-8088}\"").replace(
        "service = \"web\"\n",
        "service = \"web\"\nmax_connections = \"${LOADLINE_TEST_UNSET:-77}\"\n\
         accept_proxy = \"${LOADLINE_TEST_UNSET:-true}\"\n",
    );
    let folder = folder(&main, WEB, API);
    let loaded = load(&folder.path().join("main.toml")).unwrap();
    let listener = &loaded.fleet.listeners[0];
    assert_eq!((listener.bind.port(), listener.max_connections), (8088, 77));
    assert!(listener.accept_proxy);
}

#[test]
fn a_variable_may_be_a_number_in_many_places() {
    let servers = (0..120).map(|n| {
        format!("{{ address = \"10.0.1.{n}:80\", weight = \"${{LOADLINE_TEST_UNSET:-7}}\" }}")
    });
    let servers = servers.collect::<Vec<_>>().join(", ");
    let web = WEB.replace("\"10.0.0.1:80\"", &servers);
    let folder = folder(MAIN, &web, API);
    let loaded = load(&folder.path().join("main.toml")).unwrap();
    assert_eq!(loaded.fleet.services[0].groups[0].servers.len(), 120);
}

#[test]
fn a_default_may_have_an_escape() {
    let api = API.replace("10.0.0.2:80", "${LOADLINE_TEST_UNSET:-10.0.0.2\\u003A80}");
    let folder = folder(MAIN, WEB, &api);
    load(&folder.path().join("main.toml")).unwrap();
}

#[test]
fn a_variable_that_is_not_set_is_an_error_where_it_stands() {
    let api = API.replace("10.0.0.2:80", "${LOADLINE_TEST_UNSET}:80");
    let folder = folder(MAIN, WEB, &api);
    let errors = load(&folder.path().join("main.toml")).expect_err("not set");
    let [error] = errors.errors() else { panic!("{errors:?}") };
    assert!(error.message().contains("`LOADLINE_TEST_UNSET` is not set"), "{error}");
    assert!(error.file().ends_with("b-api.toml"), "{}", error.file());
    assert_eq!(error.line(), 5);
}

#[test]
fn a_file_for_each_of_two_thousand_virtual_hosts_is_included() {
    let folder = folder(MAIN, WEB, API);
    for nth in 0..2_000 {
        let text = WEB.replace(".web.", &format!(".site-{nth}."));
        fs::write(folder.path().join(format!("conf.d/site-{nth}.toml")), text).expect("a file");
    }
    let loaded = load(&folder.path().join("main.toml")).unwrap();
    assert_eq!(loaded.fleet.services.len(), 2_002);
}

#[test]
fn a_file_that_includes_others_is_told_at_the_entry_that_names_it() {
    let main = MAIN.replace("[\"conf.d/*.toml\"]", "[\"conf.d/a-web.toml\", \"conf.d/*.toml\"]");
    let folder = folder(&main, &format!("include = [\"x\"]\n{WEB}"), API);
    let errors = load(&folder.path().join("main.toml")).expect_err("a file includes others");
    let columns: Vec<usize> =
        errors.errors().iter().map(loadline_spanned::FileError::column).collect();
    assert_eq!(columns, [12], "{errors:?}");
}
