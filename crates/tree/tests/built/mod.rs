//! Objects of the trees that are at hand.

use schedcast_tree::{BuildError, Builder, config::Config, trees};

/// The object of a tree built by a configuration, or why the test is skipped.
pub(crate) fn object(version: &str, config: Config) -> Option<std::path::PathBuf> {
    let skip = |why: String| {
        eprintln!("skipped: {why}");
        None
    };
    let Some(tree) = trees::find(version) else {
        let folder = trees::folder();
        return skip(format!(
            "no tree of {version} in {} (SCHEDCAST_TREES)",
            folder.display()
        ));
    };
    let built = Builder::new(&tree, config).and_then(|builder| builder.object());
    match built {
        Ok(object) => Some(object),
        Err(error @ (BuildError::Machine(_) | BuildError::NoProgram(..))) => {
            skip(error.to_string())
        }
        Err(error) => panic!("{error}"),
    }
}
