//! Lists of names, of which `lists.txt` has a section each.

use std::collections::BTreeMap;
use std::sync::LazyLock;

use schedcast_base::rows;

/// The names of a section.
pub(crate) fn list(section: &str) -> &'static [&'static str] {
    static LISTS: LazyLock<BTreeMap<&str, Vec<&str>>> =
        LazyLock::new(|| rows::sections(include_str!("lists.txt")));
    &LISTS[section]
}
