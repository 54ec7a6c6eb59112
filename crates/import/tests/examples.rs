//! What is made of the configurations in `examples/`, line by line, and what is said of wrong ones.
#![expect(clippy::unwrap_used, reason = "a test that cannot go on should say where")]

use std::{env, fs, io, path::PathBuf};

use loadline_import::{Imported, Kind, import};

fn examples() -> Vec<PathBuf> {
    let root = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("tests/examples");
    let folders =
        ["haproxy", "nginx", "caddy"].map(|folder| fs::read_dir(root.join(folder)).unwrap());
    let files = folders.into_iter().flatten().map(|entry| entry.unwrap().path());
    let mut all: Vec<_> = files.filter(|path| !path.to_string_lossy().ends_with(".toml")).collect();
    all.sort();
    all
}

fn read(name: &str, text: &str) -> Result<Imported, String> {
    let kind = Kind::of(name, text).unwrap();
    let none = |_: &str| Err(io::ErrorKind::NotFound.into());
    import(kind, name, text.to_owned(), &none).map_err(|errors| {
        let told: Vec<_> = errors
            .errors()
            .iter()
            .map(|it| {
                format!("{}:{}: {} ({})", it.line(), it.column(), it.message(), it.help_text())
            })
            .collect();
        told.join("\n")
    })
}

#[test]
fn each_example_becomes_the_file_beside_it() {
    let examples = examples();
    let count =
        |folder: &str| examples.iter().filter(|it| it.parent().unwrap().ends_with(folder)).count();
    assert!(count("haproxy") >= 10 && count("nginx") >= 10 && count("caddy") >= 2);
    let mut differing = Vec::new();
    for path in &examples {
        let name = path.file_name().unwrap().to_str().unwrap();
        let made = read(name, &fs::read_to_string(path).unwrap()).unwrap();
        let beside = PathBuf::from(format!("{}.toml", path.display()));
        if env::var_os("UPDATE").is_some() {
            fs::write(&beside, &made.text).unwrap();
        }
        if fs::read_to_string(&beside).unwrap_or_default() != made.text {
            differing.push(format!("{}\n{}", beside.display(), made.text));
        }
    }
    assert!(differing.is_empty(), "{}", differing.join("\n"));
}

#[test]
fn each_line_that_is_not_carried_over_is_a_comment_with_its_reason() {
    for path in examples() {
        let text = fs::read_to_string(&path).unwrap();
        let name = path.file_name().unwrap().to_str().unwrap();
        let made = read(name, &text).unwrap();
        let lines: Vec<_> = text.lines().collect();
        for remark in &made.remarks {
            let place = format!("# line {}: ", remark.line);
            assert!(made.text.contains(&place), "{name}: {remark:?}\n{}", made.text);
            let first = remark.text.split_whitespace().next().unwrap_or("{");
            assert!(lines[remark.line - 1].contains(first), "{name}: {remark:?}");
            assert!(!remark.why.is_empty());
        }
        let lost = made.remarks.iter().filter(|remark| !remark.differs).count();
        assert_eq!(lost, made.lost, "{name}");
        assert!(made.lost < made.lines, "{name}");
    }
}

#[test]
fn a_file_tells_which_program_it_is_for() {
    for path in examples() {
        let expected = match path.parent().unwrap().file_name().unwrap().to_str().unwrap() {
            "haproxy" => Kind::Haproxy,
            "nginx" => Kind::Nginx,
            _ => Kind::Caddy,
        };
        let text = fs::read_to_string(&path).unwrap();
        assert_eq!(Kind::of("some.conf", &text), Some(expected), "{}", path.display());
    }
    assert_eq!(Kind::of("x", "a b\nc d\n"), None);
}

#[test]
fn what_cannot_be_read_is_an_error_at_its_place() {
    for (name, text, expected) in [
        ("haproxy.cfg", "frontend f\n    bind\n", "2:5: `bind` without an address"),
        ("haproxy.cfg", "frontend f\n  bind :80x\n", "2:8: `80x` is no port"),
        ("haproxy.cfg", "frontend f\n  log-format \"a\n", "2:14: a quote that does not end"),
        ("haproxy.cfg", "frontend f\n default_backend b\n", "2:18: there is no backend `b`"),
        (
            "haproxy.cfg",
            "backend b\n server s 10.0.0.1:80 weight many\n",
            "2:30: `many` is no whole number",
        ),
        (
            "haproxy.cfg",
            "frontend f\n use_backend b if nobody\nbackend b\n",
            "2:19: there is no acl `nobody`",
        ),
        ("haproxy.cfg", "backend b\n use_backend b if { path /a\n", "2:19: a condition that"),
        ("haproxy.cfg", "defaults a from b\n", "1:1: there are no defaults `b`"),
        ("nginx.conf", "http {\n  server { listen 80; }\n", "1:6: a block that does not end"),
        ("nginx.conf", "events { }\n}\n;", "2:1: a brace that closes nothing"),
        ("nginx.conf", "user a;\nhttp { listen 80 }\n", "2:15: `listen` does not end"),
        ("nginx.conf", "http { limit_req_zone $a; }", "1:8: a limit without `zone=`"),
        ("Caddyfile", "a.example {\n  respond \"x\n}\n", "2:11: a quote that does not end"),
        ("Caddyfile", "a.example {\n", "1:11: a block that does not end"),
        ("Caddyfile", "http://a:b {\n}\n", "1:1: `b` is no port"),
        ("nginx.conf", "# nothing;\n", "1:1: nothing is configured"),
    ] {
        let kind = Kind::of(name, text).unwrap_or(Kind::Nginx);
        let none = |_: &str| Err(io::ErrorKind::NotFound.into());
        let errors = import(kind, name, text.to_owned(), &none).unwrap_err();
        let first = &errors.errors()[0];
        let told = format!("{}:{}: {}", first.line(), first.column(), first.message());
        assert!(told.starts_with(expected), "{text}\n{told}");
        assert!(!first.help_text().is_empty());
    }
}

#[test]
fn included_files_are_read_and_named() {
    let text = "http { include conf.d/*.conf; }";
    let more = |pattern: &str| {
        assert_eq!(pattern, "conf.d/*.conf");
        let one = "server {\n  listen 80;\n  expires max;\n  return 404;\n}\n";
        Ok(vec![("conf.d/a.conf".to_owned(), one.to_owned())])
    };
    let made = import(Kind::Nginx, "nginx.conf", text.to_owned(), &more).unwrap();
    assert_eq!(made.remarks[0].file.as_deref(), Some("conf.d/a.conf"));
    assert_eq!((made.remarks[0].line, made.remarks[0].column), (3, 3));
    assert!(made.text.contains("# conf.d/a.conf:3: expires max"), "{}", made.text);
    assert!(made.text.contains("deny = 404"), "{}", made.text);
}

/// The parsers never panic, whatever is cut off or changed.
#[test]
fn files_that_are_cut_or_changed_anywhere_are_read_or_refused() {
    for path in examples() {
        let text = fs::read_to_string(&path).unwrap();
        let name = path.file_name().unwrap().to_str().unwrap();
        let kind = Kind::of(name, &text).unwrap();
        let none = |_: &str| Err(io::ErrorKind::NotFound.into());
        for at in (0..text.len()).step_by(29).filter(|at| text.is_char_boundary(*at)) {
            let _ = import(kind, name, text[..at].to_owned(), &none);
            let rest = text[at..].chars().skip(1).collect::<String>();
            for put in ["", "{", "}", "\"", "\\", "é", "$", "\n", ";", "% ", "!"] {
                let changed = format!("{}{put}{rest}", &text[..at]);
                let _ = import(kind, name, changed, &none);
            }
        }
    }
}
