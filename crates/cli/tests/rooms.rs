//! The crates of the workspace stand in one order, and each uses only those before it.
//!
//! Cargo refuses a cycle of dependencies, but neither an arrow upwards without a cycle nor a cycle
//! through the dependencies of tests.

use std::path::Path;

/// From the lowest crate to the highest.
const ORDER: [&str; 14] = [
    "base", "kernel", "trace", "sim", "host", "workload", "tree", "lab", "advise", "present",
    "verify", "python", "cli", "fuzz",
];

/// The crates of this workspace in the `dependencies`, `dev-dependencies` and
/// `build-dependencies` of a manifest, of every target.
fn used(manifest: &toml::Table) -> Vec<String> {
    let mut found = Vec::new();
    for (key, value) in manifest {
        let Some(table) = value.as_table() else {
            continue;
        };
        if key.ends_with("dependencies") {
            let names = table
                .keys()
                .filter_map(|name| name.strip_prefix("schedcast-"));
            found.extend(names.map(str::to_string));
        } else if key == "target" {
            let targets = table.values().filter_map(toml::Value::as_table);
            found.extend(targets.flat_map(used));
        }
    }
    found
}

/// The dependencies of the crate `name` that do not stand before it.
fn upwards(name: &str, manifest: &str) -> Vec<String> {
    let place = |name: &str| ORDER.iter().position(|one| *one == name);
    let own = place(name).unwrap_or_else(|| panic!("crates/{name} has no place in ORDER"));
    let mut found = used(&manifest.parse().unwrap());
    found.retain(|other| place(other).is_none_or(|other| other >= own));
    found
}

#[test]
fn each_crate_uses_only_those_before_it() {
    let crates = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    let mut seen = 0;
    for entry in std::fs::read_dir(crates).unwrap() {
        let folder = entry.unwrap().path();
        let Ok(manifest) = std::fs::read_to_string(folder.join("Cargo.toml")) else {
            continue;
        };
        let name = folder.file_name().unwrap().to_str().unwrap();
        let wrong = upwards(name, &manifest);
        assert!(
            wrong.is_empty(),
            "crates/{name} uses {wrong:?}, which do not stand before it"
        );
        seen += 1;
    }
    assert_eq!(seen, ORDER.len(), "each crate of ORDER has a folder");
}

#[test]
fn an_arrow_upwards_is_found_in_every_kind_of_dependency() {
    let texts = "dependencies dev-dependencies build-dependencies target.'cfg(unix)'.dependencies";
    for table in texts.split(' ') {
        let manifest = format!(
            "[{table}]\nschedcast-verify.workspace = true\nschedcast-sim.workspace = true\n"
        );
        assert_eq!(upwards("lab", &manifest), ["verify"], "{table}");
        assert!(upwards("cli", &manifest).is_empty(), "{table}");
    }
}

#[test]
fn every_place_on_the_page_of_architecture_exists() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let page = std::fs::read_to_string(root.join("docs/architecture.md")).unwrap();
    let quoted = page.split('`').skip(1).step_by(2);
    let place = |text: &str| {
        let first = text.split('/').next()?;
        let folder = if ORDER.contains(&first) { "crates" } else { "" };
        (text.contains("/src/") || text.starts_with("crates/"))
            .then(|| root.join(folder).join(text))
    };
    // Capitals stand for any name.
    let places = quoted.filter_map(place);
    let places: Vec<_> = places
        .map(
            |place| match place.ends_with("NAME") || place.ends_with("FORMAT") {
                true => place.parent().unwrap().to_path_buf(),
                false => place,
            },
        )
        .collect();
    assert!(places.len() > 30, "{}", places.len());
    for place in places {
        assert!(place.exists(), "{}", place.display());
    }
}

/// How often `text` defines `word`.
fn definitions(text: &str, word: &str) -> usize {
    let kinds = [
        "fn", "struct", "enum", "trait", "const", "static", "type", "mod",
    ];
    let words = |line: &str| {
        let code = line.split("//").next().unwrap_or_default().to_string();
        let parts = code.split(|c: char| !c.is_alphanumeric() && c != '_');
        parts.map(str::to_string).collect::<Vec<_>>()
    };
    let defines = |pair: &[String]| kinds.contains(&&*pair[0]) && pair[1] == word;
    let lines = text.lines().map(words);
    lines
        .map(|line| line.windows(2).filter(|pair| defines(pair)).count())
        .sum()
}

/// The question, file and word of each answer in the table of the page.
#[test]
fn every_look_up_of_the_page_ends_at_one_definition() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let page = std::fs::read_to_string(root.join("docs/architecture.md")).unwrap();
    let (_, table) = page.split_once("| question | file | word |\n").unwrap();
    let rows = table
        .lines()
        .skip(1)
        .take_while(|line| line.starts_with('|'));
    let mut answered = 0;
    for row in rows {
        let cells: Vec<&str> = row.split('|').map(str::trim).collect();
        let [_, question, file, word, _] = cells[..] else {
            panic!("not three cells: {row}");
        };
        let text = std::fs::read_to_string(root.join(file.trim_matches('`')));
        let text = text.unwrap_or_else(|error| panic!("{question}: {file}: {error}"));
        let found = definitions(&text, word.trim_matches('`'));
        assert_eq!(found, 1, "{question}: definitions of {word} in {file}");
        answered += 1;
    }
    assert!(answered >= 12, "{answered} look-ups");
}

#[test]
fn a_definition_is_told_from_a_use() {
    let text =
        "struct Core;\n// the struct Core\nfn of(core: Core) {}\nmod core;\nlet core = Core;";
    assert_eq!(definitions(text, "Core"), 1);
    assert_eq!(definitions(text, "of"), 1);
    assert_eq!(definitions(text, "core"), 1);
    assert_eq!(definitions(text, "text"), 0);
}
