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
    for table in [
        "dependencies",
        "dev-dependencies",
        "build-dependencies",
        "target.'cfg(unix)'.dependencies",
    ] {
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
