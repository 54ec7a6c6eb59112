//! The everyday tasks of `docs/recipes.md` are right files, and what leads to a section finds it.

use std::{collections::BTreeSet, fs, path::PathBuf, process::Command};

use crate::runs::text;

fn page(name: &str) -> String {
    let docs = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../docs");
    fs::read_to_string(docs.join(name)).unwrap()
}

/// The directory that the files of the page stand in, with all that they name.
fn directory() -> tempfile::TempDir {
    let directory = tempfile::tempdir().unwrap();
    let tls = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../examples/tls/localhost.pem");
    for name in ["www.pem", "site.pem", "shop.crt", "shop.key"] {
        fs::copy(&tls, directory.path().join(name)).unwrap();
    }
    let user = "alice:$2y$05$c4WoMPo3SXsafkva.HHa6uXQZWr7oboPiC2bT/r7q1BB8I2s0BRqC\n";
    for (name, content) in [
        ("htpasswd", user),
        ("token", "0f1e2d3c4b5a69788796a5b4c3d2e1f0\n"),
        ("busy.html", "busy\n"),
        ("busy.json", "{}\n"),
        ("error.html", "error\n"),
        ("back.html", "back soon\n"),
    ] {
        fs::write(directory.path().join(name), content).unwrap();
    }
    directory
}

#[test]
fn every_recipe_is_a_right_file() {
    let (page, directory) = (page("recipes.md"), directory());
    let recipes: Vec<&str> = page.split("\n## ").skip(1).collect();
    assert!(recipes.len() >= 15, "{}", recipes.len());
    let file = directory.path().join("a.toml");
    for recipe in recipes {
        let (title, rest) = recipe.split_once('\n').unwrap();
        let (_, block) = rest.split_once("```toml\n").expect(title);
        let (block, rest) = block.split_once("```\n").unwrap();
        assert!(rest.contains("More") && !rest.contains("```"), "{title}: {rest}");
        // The directory that it keeps them in by itself is that of a package.
        let block = block.replace("names = [", "state_dir = \"acme\", names = [");
        fs::write(&file, block).unwrap();
        let mut check = Command::new(env!("CARGO_BIN_EXE_loadline"));
        let told = check.arg("check").arg(&file).output().unwrap();
        let warned = text(&told.stderr);
        assert!(told.status.success(), "{title}: {warned}");
        // Of this machine: who runs the test may not have these ports, nor so many descriptors.
        let of_machine = ["ports below", "the kernel keeps", "descriptors may be open"];
        let warnings = warned.lines().filter(|line| line.contains('⚠'));
        let other = warnings.filter(|line| !of_machine.iter().any(|it| line.contains(it))).count();
        assert_eq!(other, 0, "{title}: {warned}");
    }
}

/// What leads to a heading on a page.
fn anchor(heading: &str) -> String {
    let kept = heading.chars().filter(|c| c.is_alphanumeric() || " -_".contains(*c));
    kept.collect::<String>().to_lowercase().replace(' ', "-")
}

fn anchors(page: &str) -> BTreeSet<String> {
    let headings = page.lines().filter(|line| line.starts_with('#'));
    headings.map(|line| anchor(line.trim_start_matches('#').trim())).collect()
}

#[test]
fn what_leads_from_a_recipe_to_a_section_finds_it() {
    let recipes = page("recipes.md");
    for target in ["configuration.md", "operation.md", ""] {
        let there = anchors(&page(if target.is_empty() { "recipes.md" } else { target }));
        let opening = format!("]({target}#");
        let links = recipes.split(&opening).skip(1);
        let links: Vec<&str> = links.map(|link| link.split(')').next().unwrap()).collect();
        assert!(links.len() > 5, "{target}: {links:?}");
        let lost: Vec<_> = links.iter().filter(|link| !there.contains(**link)).collect();
        assert!(lost.is_empty(), "{target}: {lost:?}");
    }
}

#[test]
fn pages_list_all_of_their_sections_at_the_top() {
    for name in ["operation.md", "recipes.md"] {
        let page = page(name);
        let (top, sections) = page.split_once("\n## ").unwrap();
        let sections = format!("\n## {sections}");
        let missing: Vec<&str> = sections
            .split("\n## ")
            .skip(1)
            .filter_map(|section| section.lines().next())
            .filter(|title| !top.contains(&format!("](#{})", anchor(title))))
            .collect();
        assert!(missing.is_empty(), "{name}: {missing:?}");
    }
}
