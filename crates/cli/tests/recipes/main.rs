//! The recipes of `ARCHITECTURE.md` ("To add ..."), followed: each takes the files that it names
//! and no more, and what was added is there.
#![expect(clippy::unwrap_used, reason = "a test that cannot go on should say where")]

#[path = "../copied/mod.rs"]
mod copied;
mod edge;
mod edits;

use std::{
    collections::BTreeMap,
    fs,
    path::{Path, PathBuf},
    process::{Command, Output},
};

use copied::Copy;
use edge::Edge;
use edits::RECIPES;
use loadline_core::fleet::PolicyKind;

#[test]
fn each_recipe_takes_the_files_that_it_names_and_no_more() {
    let page = fs::read_to_string(root().join("ARCHITECTURE.md")).unwrap();
    let named = recipes(&page);
    assert_eq!(named.len(), RECIPES.len(), "{:?}", named.keys());
    for recipe in RECIPES {
        let lines = named.get(recipe.title).expect(recipe.title);
        let mut files: Vec<&str> = recipe.edits.iter().map(|edit| edit.file).collect();
        files.dedup();
        let alike = lines
            .iter()
            .zip(&files)
            .filter(|(line, file)| line.iter().any(|pattern| fits(pattern, file)));
        let (title, most) = (recipe.title, recipe.most);
        assert!(
            alike.count() == files.len() && lines.len() == files.len(),
            "{title}: {lines:?} are named, {files:?} are edited"
        );
        assert!(files.len() <= most, "{title} takes {} files, {most} at most", files.len());
    }
}

#[test]
fn the_readme_names_every_policy_and_every_command() {
    let readme = fs::read_to_string(root().join("README.md")).unwrap();
    let policies = PolicyKind::ALL.iter().map(|policy| policy.name());
    let help = text(&run(Path::new(env!("CARGO_BIN_EXE_loadline")), &["--help"]).stdout);
    for name in policies.chain(commands(&help)) {
        assert!(readme.contains(name), "README.md does not name `{name}`");
    }
}

#[test]
fn what_the_recipes_add_is_there() {
    let mut edited = edited();
    // A test of this name makes cargo build the binary with the same features as this one.
    let stub = "//! Nothing to try.\n".to_owned();
    edited.insert("crates/cli/tests/recipes/main.rs".to_owned(), stub);
    let copy = Copy::of(&root(), "recipes", &edited);
    // What is built here is tried once: it need not be fast.
    let built = copy.cargo(&["opt-level=0", "debug=false"]).arg("--no-run").output().unwrap();
    assert!(built.status.success(), "the recipes do not build:\n{}", text(&built.stderr));
    let binary = Built { binary: copy.binary(), repository: copy.repository };

    let reference = binary.prints(&["schema", "--markdown"]);
    let key = "| `hedge_delay` | Time after which a request without a response goes to a second \
               server too; 0s switches it off. |";
    assert!(reference.contains(key), "{reference}");
    assert!(reference.contains("- `\"first\"`: The first server in the order"), "{reference}");
    keys_and_policies_are_read(&binary);

    let help = binary.prints(&["--help"]);
    assert!(commands(&help).any(|name| name == "policies"), "{help}");
    assert!(binary.prints(&["policies", "--help"]).contains("  loadline policies\n"));
    assert!(binary.prints(&["policies"]).contains("first: The first server in the order"));

    metrics_are_told(&binary);
    let studies = binary.prints(&["lab", "list"]);
    assert!(studies.contains("near: Ten milliseconds\n"), "{studies}");
    let records = binary.prints(&["schema", "--records", "--markdown"]);
    assert!(records.contains("| `listeners` | Listeners in it; 0 where it is wrong. |"));
}

fn keys_and_policies_are_read(binary: &Built) {
    let file = binary.repository.join("added.toml");
    let config = "[[listener]]\nbind = \"127.0.0.1:0\"\nservice = \"web\"\n\
        [service.web]\npolicy = \"first\"\nhedge_delay = \"50ms\"\n\
        [[service.web.group]]\nservers = [\"127.0.0.1:1\"]\n";
    fs::write(&file, config).unwrap();
    let file_name = file.to_str().unwrap();
    assert!(binary.prints(&["check", file_name]).contains("in a group: first\n"));
    assert!(binary.prints(&["check", "--json", file_name]).contains("\"listeners\": 1"));
    for (right, wrong, place) in [("50ms", "soon", ":6:15"), ("\"first\"", "\"frist\"", ":5:10")] {
        fs::write(&file, config.replace(right, wrong)).unwrap();
        let refused = run(&binary.binary, &["check", file_name]);
        let said = text(&refused.stderr);
        assert_eq!(refused.status.code(), Some(1), "{said}");
        assert!(said.contains(place), "{wrong} is not pointed at: {said}");
    }
}

fn metrics_are_told(binary: &Built) {
    let row = "| `loadline_server_error_responses_total` | counter | `service` | Responses with a \
               status of 500 or above |";
    assert!(binary.prints(&["schema", "--metrics"]).contains(row));
    let edge = Edge::start(&binary.binary, &binary.repository.join("edge.toml"));
    // Nobody listens on the port of the only server.
    let answer = edge::get(&edge.traffic, "/");
    assert!(answer.starts_with("HTTP/1.1 50"), "{answer}");
    let metrics = edge::get(&edge.admin, "/metrics");
    let sample = "\nloadline_server_error_responses_total{service=\"web\"} 1\n";
    assert!(metrics.contains(sample), "{metrics}");
    let state = edge::get(&edge.admin, "/api/services/web");
    assert!(state.contains("\"server_errors\":1"), "{state}");
    let description = edge::get(&edge.admin, "/openapi.json");
    assert!(description.contains("\"server_errors\""), "{description}");
}

/// A binary, and the directory in which it runs.
struct Built {
    binary: PathBuf,
    repository: PathBuf,
}

impl Built {
    /// What it prints, and that it succeeds.
    fn prints(&self, args: &[&str]) -> String {
        let mut command = Command::new(&self.binary);
        let output = command.args(args).current_dir(&self.repository).output().unwrap();
        assert!(output.status.success(), "{args:?}: {}", text(&output.stderr));
        text(&output.stdout)
    }
}

fn run(binary: &Path, args: &[&str]) -> Output {
    Command::new(binary).args(args).output().unwrap()
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

/// The commands that `--help` lists.
fn commands(help: &str) -> impl Iterator<Item = &str> {
    let list = help.split_once("Commands:\n").unwrap().1.split_once("\n\n").unwrap().0;
    let named = list.lines().filter(|line| line.starts_with("  ") && !line.starts_with("   "));
    named.filter_map(|line| line.split_whitespace().next()).filter(|name| *name != "help")
}

/// Every edited file with its new text.
fn edited() -> BTreeMap<String, String> {
    let mut files: BTreeMap<String, String> = BTreeMap::new();
    for edit in RECIPES.iter().flat_map(|recipe| recipe.edits) {
        let path = root().join(edit.file);
        let file = files.entry(edit.file.to_owned()).or_insert_with(|| match edit.after {
            "" => String::new(),
            _ => fs::read_to_string(&path).expect(edit.file),
        });
        let found: Vec<_> = file.match_indices(edit.after).collect();
        assert!(found.len() == 1 || edit.after.is_empty(), "{}: {:?}", edit.file, edit.after);
        assert!(!edit.after.is_empty() || !path.exists(), "{} is no new file", edit.file);
        let at = found[0].0 + edit.after.len();
        file.insert_str(at, edit.text);
    }
    files
}

/// For each recipe of the page the paths that each of its lines names.
fn recipes(page: &str) -> BTreeMap<&str, Vec<Vec<&str>>> {
    let section = page.split_once("\n## To add ...\n").unwrap().1;
    let section = section.split_once("\n## ").unwrap().0;
    let recipe = |part| {
        let (title, lines): (&str, &str) = str::split_once(part, '\n').unwrap();
        let numbered = lines.lines().filter(|line| line.starts_with(|c: char| c.is_ascii_digit()));
        let named = numbered.map(|line| line.split_once(": ").unwrap_or((line, "")).0);
        let paths = named.map(|named| named.split('`').skip(1).step_by(2).collect());
        (title, paths.collect())
    };
    section.split("\n### ").skip(1).map(recipe).collect()
}

/// Whether a path is one that a recipe names, where words in capitals stand for any name.
fn fits(pattern: &str, path: &str) -> bool {
    let part_fits = |pattern: &str, name: &str| match pattern.split_once('.') {
        Some((word, ending)) if OPEN.contains(&word) => {
            name.split_once('.').is_some_and(|(_, it)| it == ending)
        }
        _ => pattern == name,
    };
    pattern.split('/').count() == path.split('/').count()
        && pattern.split('/').zip(path.split('/')).all(|(word, name)| part_fits(word, name))
}

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").canonicalize().unwrap()
}

/// The words that stand for a name.
const OPEN: [&str; 6] = ["NAME", "TABLE", "STEP", "KIND", "COMMAND", "PART"];
