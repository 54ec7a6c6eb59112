//! A copy of the repository with some of its files changed, and cargo in it.
//!
//! It stays where it is between runs, so that only what has changed is built again. It has a
//! target directory of its own: in that of the repository its crates would take the place of the
//! repository's, for cargo tells packages apart by their paths within a workspace. What it needs
//! of other people's crates is linked from there.

use std::{
    collections::BTreeMap,
    env, fs, io,
    path::{Path, PathBuf},
    process::Command,
};

/// A copy in which one test is built, and what that needs.
pub(crate) struct Copy {
    pub(crate) repository: PathBuf,
    target: PathBuf,
    test: &'static str,
}

impl Copy {
    /// Makes or renews the copy for a test, with `edited` files in the place of those at `root`.
    pub(crate) fn of(root: &Path, test: &'static str, edited: &BTreeMap<String, String>) -> Self {
        let copy = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("copy-{test}"));
        let (repository, target) = (copy.join("repository"), copy.join("target"));
        renew(root, &repository, edited);
        let program = env::current_exe().unwrap();
        let built = program.ancestors().nth(2).unwrap();
        for (folder, prefix) in [("deps", "lib"), (".fingerprint", ""), ("build", "")] {
            let own = format!("{prefix}loadline");
            // Programs of the repository are in `deps` as well: a linker may write into them.
            let is_of_others = |name: &str| name.starts_with(prefix) && !name.starts_with(&own);
            link(&built.join(folder), &target.join("debug").join(folder), &is_of_others).unwrap();
        }
        Self { repository, target, test }
    }

    /// The binary, once [`cargo`](Self::cargo) has built it.
    pub(crate) fn binary(&self) -> PathBuf {
        self.target.join("debug/loadline")
    }

    /// `cargo test` of the test, and nothing of this run in its environment. That all of the
    /// workspace is named has it take the features with which other people's crates were built.
    pub(crate) fn cargo(&self, settings: &[&str]) -> Command {
        let mut cargo = Command::new(env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
        cargo.args(["test", "--workspace", "--test", self.test, "--offline"]);
        let crates = fs::read_dir(self.repository.join("crates")).unwrap();
        for name in crates.map(|it| it.unwrap().file_name().into_string().unwrap()) {
            let package = if name == "cli" { "loadline" } else { &format!("loadline-{name}") };
            for setting in settings {
                cargo.args(["--config", &format!("profile.dev.package.{package}.{setting}")]);
            }
        }
        for (name, _) in env::vars_os() {
            let name = name.to_string_lossy();
            if OF_THIS_RUN.iter().any(|prefix| name.starts_with(prefix)) {
                cargo.env_remove(&*name);
            }
        }
        cargo.env("CARGO_TARGET_DIR", &self.target).current_dir(&self.repository);
        cargo
    }
}

fn renew(root: &Path, copy: &Path, edited: &BTreeMap<String, String>) {
    let mut git = Command::new("git");
    git.args(["ls-files", "-z", "--cached", "--others", "--exclude-standard"]).current_dir(root);
    let listed = git.output().unwrap();
    assert!(listed.status.success(), "{}", String::from_utf8_lossy(&listed.stderr));
    let names = String::from_utf8(listed.stdout).unwrap();
    let mut wanted: BTreeMap<&str, Vec<u8>> = names
        .split_terminator('\0')
        .filter_map(|name| Some((name, fs::read(root.join(name)).ok()?)))
        .collect();
    wanted.extend(edited.iter().map(|(name, text)| (&**name, text.clone().into_bytes())));
    remove_others(copy, copy, &wanted);
    for (name, content) in &wanted {
        let path = copy.join(name);
        if fs::read(&path).ok().as_ref() != Some(content) {
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(&path, content).unwrap();
        }
    }
}

/// Removes what an earlier run copied and the repository no longer has.
fn remove_others(copy: &Path, dir: &Path, wanted: &BTreeMap<&str, Vec<u8>>) {
    for path in fs::read_dir(dir).into_iter().flatten().map(|entry| entry.unwrap().path()) {
        let name = path.strip_prefix(copy).unwrap().to_str().unwrap();
        if path.is_dir() {
            remove_others(copy, &path, wanted);
        } else if !wanted.contains_key(name) {
            fs::remove_file(&path).unwrap();
        }
    }
}

/// Links what `wanted` names into `to`, whole directories too, unless it is there already.
fn link(from: &Path, to: &Path, wanted: &dyn Fn(&str) -> bool) -> io::Result<()> {
    fs::create_dir_all(to)?;
    for entry in fs::read_dir(from)? {
        let entry = entry?;
        let target = to.join(entry.file_name());
        if !wanted(&entry.file_name().to_string_lossy()) || target.exists() {
            continue;
        }
        if entry.file_type()?.is_dir() {
            link(&entry.path(), &target, &|_| true)?;
        } else {
            fs::hard_link(entry.path(), target)?;
        }
    }
    Ok(())
}

/// What cargo tells the test that it runs, and nobody else.
const OF_THIS_RUN: [&str; 5] =
    ["CARGO_PKG_", "CARGO_MANIFEST_", "CARGO_BIN_", "CARGO_CRATE_", "CARGO_PRIMARY_"];
