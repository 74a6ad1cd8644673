//! The group that a name stands for.

use std::fmt;

use super::{GroupNames, NamedGroup, canonical};
use crate::names::nearest;

/// Beginnings of a container id shorter than this are taken for names only.
const ID_SHORTEST: usize = 4;
/// Names that a refusal lists at most.
const MOST_LISTED: usize = 12;

/// A group as the user named it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Wanted {
    /// The path of a group, the directory it has in a file system, or the end of its path.
    Path(String),
    /// A systemd unit; `.service` may be left out.
    Unit(String),
    /// A container by its name, its id or the beginning of its id.
    Container(String),
    /// `namespace/name`, `namespace/name/container`, the name of a pod alone, or its uid.
    Pod(String),
    /// The group of a process or thread.
    Pid(i32),
}

impl Wanted {
    /// The kind, as a refusal names it.
    fn kind(&self) -> &'static str {
        match self {
            Wanted::Path(_) => "cgroup",
            Wanted::Unit(_) => "unit",
            Wanted::Container(_) => "container",
            Wanted::Pod(_) => "pod",
            Wanted::Pid(_) => "process",
        }
    }

    fn text(&self) -> String {
        match self {
            Wanted::Path(text)
            | Wanted::Unit(text)
            | Wanted::Container(text)
            | Wanted::Pod(text) => text.clone(),
            Wanted::Pid(pid) => pid.to_string(),
        }
    }
}

impl fmt::Display for Wanted {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} `{}`", self.kind(), self.text())
    }
}

/// Why no group was chosen.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Miss {
    /// None is called so.
    #[error("there is no {wanted}")]
    Unknown {
        /// Name that was asked for.
        wanted: Wanted,
        /// Advice: the nearest name, or all of them.
        hint: String,
    },
    /// Several are called so.
    #[error("{} groups are called {wanted}", .candidates.len())]
    Ambiguous {
        /// Name that was asked for.
        wanted: Wanted,
        /// Each of them, by what names it alone.
        candidates: Vec<String>,
    },
}

impl Miss {
    /// Advice on a line of its own.
    pub fn hint(&self) -> String {
        match self {
            Miss::Unknown { hint, .. } => hint.clone(),
            Miss::Ambiguous { candidates, .. } => {
                let shown: Vec<&str> = candidates
                    .iter()
                    .take(MOST_LISTED)
                    .map(String::as_str)
                    .collect();
                let more = match candidates.len().saturating_sub(MOST_LISTED) {
                    0 => String::new(),
                    more => format!(", or one of {more} more"),
                };
                format!("name one of them: {}{more}", shown.join(", or "))
            }
        }
    }
}

/// The one group among `groups` that is meant.
///
/// An exact name comes before a beginning or an end of one. Worked example: among the pods
/// `shop/web-7c9f` and `shop/web`, `shop/web` is the second; without it, `shop/web` is the
/// beginning of the first, up to a hyphen, and means that.
///
/// # Errors
/// No group is called so, or several are.
pub fn find<'a>(wanted: &Wanted, groups: &'a [NamedGroup]) -> Result<&'a NamedGroup, Miss> {
    let mut ranks: Vec<(u8, &NamedGroup)> = groups
        .iter()
        .filter_map(|group| Some((rank(wanted, group)?, group)))
        .collect();
    ranks.sort_by_key(|(rank, _)| *rank);
    let best = ranks.first().map(|(rank, _)| *rank);
    let mut found: Vec<&NamedGroup> = ranks
        .into_iter()
        .filter(|(rank, _)| Some(*rank) == best)
        .map(|(_, group)| group)
        .collect();
    // A thread that moved while groups were read is in the last one.
    if let (Wanted::Pid(_), Some(last)) = (wanted, found.last().copied()) {
        found = vec![last];
    }
    match found.as_slice() {
        [] => Err(unknown(wanted, groups)),
        [one] => Ok(one),
        several => Err(Miss::Ambiguous {
            wanted: wanted.clone(),
            candidates: several
                .iter()
                .map(|group| alone(group, wanted, groups))
                .collect(),
        }),
    }
}

/// Name of a group: its own, or the name of what it is a part of and its place therein. `None`
/// where nothing around it has a name.
pub fn label_of(path: &str, groups: &[NamedGroup]) -> Option<String> {
    let named = |path: &str| {
        let group = groups.iter().find(|group| group.path == path);
        match group {
            Some(group) => group.names.label(),
            None => GroupNames::of_path(path).label(),
        }
    };
    if let Some(label) = named(path) {
        return Some(label);
    }
    let mut end = path.rfind('/').filter(|end| *end > 0);
    while let Some(at) = end {
        if let Some(label) = named(&path[..at]) {
            return Some(format!("{label}{}", &path[at..]));
        }
        end = path[..at].rfind('/').filter(|end| *end > 0);
    }
    None
}

/// How well a group fits, 0 for an exact name; `None` if it does not.
fn rank(wanted: &Wanted, group: &NamedGroup) -> Option<u8> {
    let names = &group.names;
    match wanted {
        Wanted::Path(text) => path_rank(text, &group.path),
        Wanted::Unit(text) => unit_rank(text, names.unit.as_deref()?),
        Wanted::Container(text) => container_rank(text, names),
        Wanted::Pod(text) => pod_rank(text, names),
        Wanted::Pid(pid) => group.tasks.contains(pid).then_some(0),
    }
}

fn path_rank(text: &str, path: &str) -> Option<u8> {
    let wanted = canonical(text);
    if wanted == path {
        return Some(0);
    }
    if let Some(below) = below_mount(&wanted, path) {
        return Some(below);
    }
    (path.ends_with(&wanted) && wanted != "/").then_some(3)
}

/// `/sys/fs/cgroup/cpu,cpuacct/pg` and `/sys/fs/cgroup/pg` are `/pg`.
fn below_mount(wanted: &str, path: &str) -> Option<u8> {
    let below = wanted.strip_prefix("/sys/fs/cgroup")?;
    if canonical(below) == path {
        return Some(1);
    }
    let (_, rest) = below
        .strip_prefix('/')?
        .split_once('/')
        .unwrap_or((below, ""));
    (canonical(rest) == path).then_some(2)
}

/// systemd writes a hyphen within a name as `\x2d`.
fn unescaped(unit: &str) -> String {
    unit.replace("\\x2d", "-")
}

fn unit_rank(text: &str, unit: &str) -> Option<u8> {
    let text = unescaped(text);
    let unit = unescaped(unit);
    if text == unit {
        return Some(0);
    }
    let (stem, kind) = unit.rsplit_once('.')?;
    let by_kind = match kind {
        "service" => 1,
        "scope" => 2,
        _ => 3,
    };
    (stem == text).then_some(by_kind)
}

fn container_rank(text: &str, names: &GroupNames) -> Option<u8> {
    let id = names.container_id.as_deref().unwrap_or("");
    if names.container.as_deref() == Some(text) || (id == text && !id.is_empty()) {
        return Some(0);
    }
    let begins = text.len() >= ID_SHORTEST && id.starts_with(&text.to_ascii_lowercase());
    begins.then_some(1)
}

/// Exact names before beginnings up to a hyphen: a pod of a deployment is called `NAME-HASH-HASH`.
fn pod_rank(text: &str, names: &GroupNames) -> Option<u8> {
    let uid = names.pod_uid.as_deref()?;
    let parts: Vec<&str> = text.split('/').collect();
    let (namespace, name, container) = match parts[..] {
        [name] => (None, name, None),
        [namespace, name] => (Some(namespace), name, None),
        [namespace, name, container] => (Some(namespace), name, Some(container)),
        _ => return None,
    };
    match container {
        None if names.is_container() => return None,
        Some(container) if names.container.as_deref() != Some(container) => return None,
        _ => {}
    }
    let by_uid = name == uid || name.strip_prefix("pod") == Some(uid);
    if by_uid && namespace.is_none() {
        return Some(0);
    }
    let pod = names.pod.as_deref()?;
    let (known_namespace, known) = match pod.split_once('/') {
        Some((namespace, name)) => (Some(namespace), name),
        None => (None, pod),
    };
    // Where only the name is known, any namespace may be the right one.
    if namespace.is_some() && known_namespace.is_some() && namespace != known_namespace {
        return None;
    }
    if known == name {
        return Some(1);
    }
    let begins = known
        .strip_prefix(name)
        .is_some_and(|rest| rest.starts_with('-'));
    begins.then_some(2)
}

/// Option that names `group` alone: its flag, if no other group has the same, or its path.
fn alone(group: &NamedGroup, wanted: &Wanted, groups: &[NamedGroup]) -> String {
    let by_path = || format!("--cgroup {}", group.path);
    let Some(flag) = group.names.flag() else {
        return by_path();
    };
    let same = groups
        .iter()
        .filter(|other| other.names.flag().as_ref() == Some(&flag));
    // A unit is its own name: its author saw it.
    let repeats = flag == format!("--{} {}", wanted.kind(), wanted.text());
    match same.count() > 1 || repeats || matches!(wanted, Wanted::Path(_)) {
        true => by_path(),
        false => flag,
    }
}

fn unknown(wanted: &Wanted, groups: &[NamedGroup]) -> Miss {
    let of = |names: &GroupNames| -> Option<String> {
        match wanted {
            Wanted::Unit(text) => {
                let unit = unescaped(names.unit.as_deref()?);
                match text.contains('.') {
                    true => Some(unit),
                    false => Some(unit.strip_suffix(".service").unwrap_or(&unit).to_owned()),
                }
            }
            Wanted::Container(_) => match (&names.container, &names.container_id) {
                (Some(name), _) => Some(name.clone()),
                (None, Some(_)) => names.label().map(|label| last_part(&label)),
                (None, None) => None,
            },
            Wanted::Pod(text) => {
                let whole = text.matches('/').count() == 2;
                (names.pod_uid.is_some() && whole == names.is_container())
                    .then(|| names.label())
                    .flatten()
            }
            Wanted::Path(_) | Wanted::Pid(_) => None,
        }
    };
    let mut known: Vec<String> = match wanted {
        Wanted::Path(_) => groups.iter().map(|group| group.path.clone()).collect(),
        _ => groups.iter().filter_map(|group| of(&group.names)).collect(),
    };
    known.sort();
    known.dedup();
    let near = nearest(&wanted.text(), known.iter().map(String::as_str));
    let hint = match (near, wanted) {
        (_, Wanted::Pid(_)) => "no group here has a process or thread of this number".to_owned(),
        (Some(near), _) => format!("the nearest is `{near}`"),
        (None, _) if known.is_empty() => {
            let kind = wanted.kind();
            format!("no group here is known to be a {kind}; `schedcast top --all` shows all groups")
        }
        (None, _) => {
            let names: Vec<&str> = known.iter().map(String::as_str).collect();
            format!("there are {}", crate::names::listed(&names))
        }
    };
    Miss::Unknown {
        wanted: wanted.clone(),
        hint,
    }
}

fn last_part(label: &str) -> String {
    label.rsplit('/').next().unwrap_or(label).to_owned()
}
