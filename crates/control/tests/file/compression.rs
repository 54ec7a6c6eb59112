//! `compress` of a service: a switch or a table, and what it cannot be.

use loadline_control::parse;
use loadline_core::{compress::Algorithm, fleet::Compression};

fn file(compress: &str) -> String {
    format!(
        "[[listener]]\nbind = \":80\"\nservice = \"web\"\n\
         [service.web]\ncompress = {compress}\n\
         [[service.web.group]]\nservers = [\"10.0.0.1:80\"]\n"
    )
}

fn read(compress: &str) -> Option<Compression> {
    parse("compress.toml", &file(compress)).expect("a right file").fleet.services[0]
        .compression
        .clone()
}

#[test]
fn a_switch_is_enough_and_a_table_says_more() {
    assert_eq!(read("true"), Some(Compression::default()));
    assert_eq!(read("{}"), Some(Compression::default()));
    assert_eq!(read("false"), None);
    let read = read(
        "{ algorithms = [\"br\", \"gzip\"], types = [\"Text/*\", \"application/*+json\"], \
         min_size = \"2kB\", levels = { br = 5, gzip = 6 }, credentials = true }",
    );
    let compression = read.unwrap();
    assert_eq!(compression.algorithms, [Algorithm::Brotli, Algorithm::Gzip]);
    let types: Vec<_> = compression.types.iter().map(ToString::to_string).collect();
    assert_eq!(types, ["text/*", "application/*+json"]);
    let levels = compression.levels;
    assert_eq!((levels.brotli, levels.gzip, levels.zstd), (5, 6, 3));
    assert_eq!((compression.min_size.get(), compression.credentials), (2_000, true));
}

#[test]
fn a_level_of_an_algorithm_that_is_not_used_is_warned_of() {
    let given = "{ algorithms = [\"gzip\"], levels = { gzip = 5, br = 5 } }";
    let warnings = parse("compress.toml", &file(given)).unwrap().warnings;
    let [warning] = &warnings[..] else { panic!("{warnings:?}") };
    assert_eq!((warning.line(), warning.message().contains("a level of `br`")), (5, true));
}

#[test]
fn what_it_cannot_be_is_said_at_its_place() {
    for (compress, message) in [
        ("\"on\"", "true, false, or a table"),
        ("{ algorithms = [] }", "without an algorithm"),
        ("{ algorithms = [\"deflate\"] }", "deflate"),
        ("{ types = [\"html\"] }", "`html` is not a media type"),
        ("{ levels = { zstd = 13 } }", "1 to 12"),
        ("{ min_size = 1000 }", "in quotes"),
    ] {
        let errors = parse("compress.toml", &file(compress)).expect_err(compress);
        let errors = errors.errors();
        let says = |it: &str| it.contains(message);
        let found = errors.iter().any(|it| it.line() == 5 && says(&format!("{it:?}")));
        assert!(found, "{compress}: {errors:?}");
    }
    let stream =
        file("true").replace("service = \"web\"\n", "service = \"web\"\nprotocol = \"tcp\"\n");
    let errors = parse("compress.toml", &stream).expect_err("a stream");
    let found = errors.errors().iter().any(|it| it.message().contains("needs HTTP"));
    assert!(found, "{:?}", errors.errors());
}
