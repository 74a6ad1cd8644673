//! Builds the object of a tree: `cargo run -p schedcast-tree --example build-tree TREE [CONFIG]`.

use schedcast_tree::{Builder, config::Config};

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mut arguments = std::env::args().skip(1);
    let tree = arguments.next().ok_or("usage: build-tree TREE [CONFIG]")?;
    let config = match arguments.next() {
        Some(path) => Config::of(&std::fs::read_to_string(path)?),
        None => Config::default(),
    };
    let object = Builder::new(tree.as_ref(), config)?.object()?;
    eprintln!("{}", object.display());
    Ok(())
}
