//! Maps: variables that the file defines, and its mistakes at their places.

use std::fs;

use loadline_control::{Moment, load, parse};

/// A file with these maps and these routes; both begin at the first line.
fn file(maps: &str, routes: &str) -> String {
    format!(
        "{maps}\n[[listener]]\nbind = \":8080\"\nservice = \"web\"\nroutes = [{routes}]\n\
         [[service.web.group]]\nservers = [\"10.0.0.1:80\"]\n"
    )
}

const TAGGED: &str =
    "{ service = \"web\", request_headers = { set = { X-Tag = \"v1-$backend_tag\" } } }";

#[test]
fn a_map_is_a_variable_of_headers_and_of_the_location_of_a_redirect() {
    let maps = concat!(
        "[maps.backend_tag]\nof = \"$host\"\nkind = \"suffix\"\ndefault = \"none\"\n",
        "values = { \".a.test\" = \"blue\" }\n",
        "[maps.moved]\nof = \"$host$path\"\nvalues = { \"a.test/old\" = \"/new\" }\n",
    );
    let redirect = "{ redirect = { location = \"https://b.test$moved\", status = 301 } },";
    let loaded = parse("maps.toml", &file(maps, &format!("{redirect} {TAGGED}"))).unwrap();
    assert!(loaded.warnings.is_empty(), "{:?}", loaded.warnings);
    let rules = loaded.fleet.listeners[0].routes.rules();
    let (_, tagged) = &rules[1];
    assert_eq!(tagged.request.set[0].1.to_string(), "v1-$backend_tag");
    let map = tagged.request.set[0].1.maps().next().unwrap();
    assert_eq!((map.find(b"x.a.test"), map.find(b"a.test")), ("blue", "none"));
}

#[test]
fn a_key_with_capitals_is_no_host_and_is_a_warning() {
    let map = |of: &str| {
        format!("[maps.backend_tag]\nof = \"{of}\"\nvalues = {{ \"A.test\" = \"blue\" }}")
    };
    let loaded = parse("maps.toml", &file(&map("$host"), TAGGED)).unwrap();
    let [warning] = &loaded.warnings[..] else { panic!("{:?}", loaded.warnings) };
    assert!(warning.message().contains("`A.test` is no `$host`"), "{warning}");
    assert_eq!((warning.line(), warning.help_text()), (3, "write `a.test`"));
    let loaded = parse("maps.toml", &file(&map("$path"), TAGGED)).unwrap();
    assert!(loaded.warnings.is_empty(), "{:?}", loaded.warnings);
}

#[test]
fn what_is_wrong_with_a_map_is_told_at_its_place() {
    let map = |keys: &str| format!("[maps.backend_tag]\n{keys}");
    let values = "values = { a = \"b\" }";
    let of = "of = \"$host\"";
    for (maps, place, words) in [
        (map(values), (1, 1), &["does not say what is looked up", "$host"][..]),
        (map(of), (1, 1), &["has no entries", "`file`"]),
        (map(&format!("of = \"$hots\"\n{values}")), (2, 6), &["`$hots`", "`host`"]),
        (map(&format!("of = \"host\"\n{values}")), (2, 6), &["same for every request"]),
        (map(&format!("{of}\n{values}\nkind = \"glob\"")), (4, 8), &["glob", "`prefix`"]),
        (map(&format!("{of}\nvalues = {{ a = \"\u{e9}\" }}")), (3, 16), &["not allowed"]),
        (
            map(&format!("{of}\nkind = \"regex\"\nvalues = {{ \"(\" = \"b\" }}")),
            (4, 12),
            &["no regular expression"],
        ),
        (
            format!("[maps.Tag]\n{of}\n{values}\n{}", map(&format!("{of}\n{values}"))),
            (1, 7),
            &["not the name of a variable", "[maps.backend_tag]"],
        ),
        (
            format!("[maps.host]\n{of}\n{values}\n{}", map(&format!("{of}\n{values}"))),
            (1, 7),
            &["variable of every request"],
        ),
        (
            format!("[maps.jwt_claim_role]\n{of}\n{values}\n{}", map(&format!("{of}\n{values}"))),
            (1, 7),
            &["is a claim of a JSON Web Token", "another name"],
        ),
    ] {
        let errors = parse("maps.toml", &file(&maps, TAGGED)).unwrap_err();
        let error = &errors.errors()[0];
        assert_eq!((error.line(), error.column()), place, "{maps}: {error}");
        let said = format!("{error}; {}", error.help_text());
        assert!(words.iter().all(|word| said.contains(word)), "{said}");
    }
}

#[test]
fn a_variable_that_is_none_is_told_by_the_name_that_is_meant() {
    let maps = "[maps.backend_tag]\nof = \"$host\"\nvalues = { a = \"b\" }";
    for (text, meant) in [
        ("$backend_tags", "backend_tag"),
        ("$remote_addr", "client_address"),
        ("$http_host", "host"),
        ("$ssl_protocol", "tls_version"),
        ("$request_idd", "request_id"),
    ] {
        let routes = format!("{{ answer = {{ headers = {{ X-A = \"{text}\" }} }} }}, {TAGGED}");
        let errors = parse("maps.toml", &file(maps, &routes)).unwrap_err();
        let [error] = errors.errors() else { panic!("{text}: {errors:?}") };
        let place = (error.line(), error.column());
        assert_eq!(place, (7, 42), "{error}");
        let help = error.help_text();
        assert!(help.contains(&format!("did you mean `{meant}`?")), "{text}: {help}");
    }
}

#[test]
fn a_location_stands_alone_and_is_looked_up_by_what_routes_know() {
    let maps = "[maps.moved]\nof = \"$server_name\"\nvalues = { a = \"b\" }";
    for (redirect, words) in [
        ("location = \"$moved\"", ["`of` `$server_name`", "$client_address"]),
        ("location = \"/a\", scheme = \"https\"", ["all of where to", "leave out"]),
        ("rewrite = { map = \"moved\" }", ["`of` `$server_name`", "$client_address"]),
    ] {
        let errors = parse("maps.toml", &file(maps, &format!("{{ redirect = {{ {redirect} }} }}")))
            .unwrap_err();
        let error = &errors.errors()[0];
        assert_eq!(error.line(), 7, "{error}");
        let said = format!("{error}; {}", error.help_text());
        assert!(words.iter().all(|word| said.contains(word)), "{said}");
    }
}

#[test]
fn a_path_by_a_map_is_not_cached_for_other_clients_and_the_map_is_there() {
    let maps = "[maps.inside]\nof = \"$client_address\"\nvalues = { a = \"/b\" }";
    for (rewrite, words) in [
        ("{ map = \"inside\" }, cache = true", "others get what is cached"),
        ("{ map = \"insides\" }", "no map `insides`"),
        ("{ map = \"inside\", path = \"/a\" }", "does not say what becomes of the path"),
    ] {
        let routes = format!("{{ service = \"web\", rewrite = {rewrite} }}");
        let errors = parse("maps.toml", &file(maps, &routes)).unwrap_err();
        let error = &errors.errors()[0];
        assert_eq!(error.line(), 7, "{error}");
        assert!(error.to_string().contains(words), "{error}");
    }
}

#[test]
fn a_map_of_paths_has_no_query_in_any_value() {
    for (values, wrong) in [
        ("values = { a = \"/b\", c = \"/d?e\" }", "/d?e"),
        ("values = { a = \"/b\" }\ndefault = \"/f#g\"", "/f#g"),
        ("kind = \"prefix\"\nvalues = { a = \"/b?\" }", "/b?"),
        ("kind = \"regex\"\nvalues = { a = \"/b?\" }", "/b?"),
    ] {
        let maps = format!("[maps.moved]\nof = \"$path\"\n{values}");
        let routes = "{ redirect = { rewrite = { map = \"moved\" } } }";
        let errors = parse("maps.toml", &file(&maps, routes)).unwrap_err();
        let [error] = errors.errors() else { panic!("{values}: {errors:?}") };
        let told = format!("the map `moved` has `{wrong}`, which is not a path");
        assert_eq!(error.message(), told, "{values}");
        let location = "{ redirect = { location = \"$moved\" } }";
        assert!(parse("maps.toml", &file(&maps, location)).is_ok(), "{values}");
    }
}

#[test]
fn a_map_that_nobody_uses_is_warned_of() {
    let maps = "[maps.backend_tag]\nof = \"$host\"\nvalues = { a = \"b\" }";
    let loaded = parse("maps.toml", &file(maps, "{ service = \"web\" }")).unwrap();
    let [warning] = &loaded.warnings[..] else { panic!("{:?}", loaded.warnings) };
    assert!(warning.to_string().contains("no route uses the map `backend_tag`"), "{warning}");
}

#[test]
fn a_map_file_is_read_from_beside_the_configuration_and_told_with_line_and_column() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("loadline.toml");
    let maps = "[maps.backend_tag]\nof = \"$host\"\nfile = \"hosts.map\"\nvalues = { b = \"red\" }";
    fs::write(&path, file(maps, TAGGED)).unwrap();
    let listed = |text: &str| {
        fs::write(folder.path().join("hosts.map"), text).unwrap();
        load(&path).and_then(|loaded| loaded.tried(Moment::Check, vec![]))
    };
    let loaded = listed("# tags\na.test  blue\n").unwrap();
    let (_, rule) = &loaded.fleet.listeners[0].routes.rules()[0];
    let map = rule.request.set[0].1.maps().next().unwrap();
    assert_eq!((map.find(b"a.test"), map.find(b"b"), map.find(b"c")), ("blue", "red", ""));
    for (text, place, words) in [
        ("a.test blue\n  b.test\n", (3, 8), "line 2, column 9: `b.test` has no value"),
        ("a.test blue\na.test red\n", (3, 8), "line 2: the key of line 1"),
        ("b blue\n", (4, 12), "the key is in the file too"),
    ] {
        let errors = listed(text).unwrap_err();
        let error = &errors.errors()[0];
        assert_eq!((error.line(), error.column()), place, "{error}");
        assert!(error.to_string().contains(words), "{error}");
    }
    fs::remove_file(folder.path().join("hosts.map")).unwrap();
    let missing = load(&path).and_then(|loaded| loaded.tried(Moment::Check, vec![]));
    assert_eq!(missing.unwrap_err().errors()[0].line(), 3);
}
