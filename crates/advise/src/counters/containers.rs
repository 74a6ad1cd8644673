//! All containers of a dump of counters: the answers of `query_range` for a namespace, a node or a
//! cluster.
//!
//! A container is what has the same labels in all counters but for `cpu`. cAdvisor counts the pod
//! and the slices above it, too: where some series name a `container`, those that name none (or
//! `POD`, the pause container) are such sums and are left aside.

use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;

use super::Known;
use super::prometheus::{ANSWERS, Beyond, CORES, PERIODS, Points, Range, THROTTLED, USAGE, series};
use schedcast_lab::error::Result;
use schedcast_lab::simulator::bad_input;

/// Labels of a series.
pub(crate) type Labels = BTreeMap<String, String>;

/// One container.
#[derive(Clone, Debug, PartialEq)]
pub struct Container {
    /// `namespace/pod/container`, as far as its labels tell it, and the labels that tell it from
    /// others of that name.
    pub name: String,
    /// Labels that the series of the container share, without `cpu`.
    pub labels: Labels,
    /// Counters of the container, or the reason why they say nothing.
    pub known: std::result::Result<Known, String>,
}

/// Containers of a dump.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Dump {
    /// In order of their labels.
    pub containers: Vec<Container>,
    /// Sums over containers, which were left aside.
    pub sums: usize,
}

/// Labels that tell which machine a series is of.
const MACHINE: [&str; 2] = ["instance", "node"];

impl Dump {
    /// All containers in the files. `cpus` are those of every machine; otherwise the files must
    /// tell them.
    ///
    /// # Errors
    /// Files that cannot be read or are no ranges of counters, a file that is named twice, no
    /// counters at all.
    pub fn open(paths: &[PathBuf], cpus: Option<u32>) -> Result<Dump> {
        let mut all = Joined::new();
        for path in paths {
            let text = schedcast_base::whole::expected_text(path, ANSWERS)?;
            add(&mut all, &path.display().to_string(), &text)?;
        }
        Dump::sorted(&all, cpus)
    }

    /// The same of a text; `source` is what it came from.
    ///
    /// # Errors
    /// As [`Dump::open`].
    pub fn read(source: &str, text: &str, cpus: Option<u32>) -> Result<Dump> {
        let mut all = Joined::new();
        add(&mut all, source, text)?;
        Dump::sorted(&all, cpus)
    }

    fn sorted(all: &Joined, cpus: Option<u32>) -> Result<Dump> {
        let mut by_container: BTreeMap<Labels, BTreeMap<String, Vec<Points>>> = BTreeMap::new();
        for (name, series) in all.iter().filter(|(name, _)| *name != CORES) {
            for (labels, points) in series {
                let mut labels = labels.clone();
                labels.remove("cpu");
                let own = by_container.entry(labels).or_default();
                own.entry(name.clone()).or_default().push(points.clone());
            }
        }
        by_container.retain(|_, own| [USAGE, PERIODS].iter().any(|name| own.contains_key(*name)));
        let named = |labels: &Labels| labels.get("container").is_some_and(|one| !one.is_empty());
        let mut dump = Dump::default();
        if by_container.keys().any(named) {
            let before = by_container.len();
            by_container.retain(|labels, _| named(labels) && labels["container"] != "POD");
            dump.sums = before - by_container.len();
        }
        if by_container.is_empty() {
            return Err(bad_input(format!(
                "no counters of containers; ask for {USAGE}, {PERIODS} and {THROTTLED}"
            )));
        }
        let no_cores = BTreeMap::new();
        let cores = all.get(CORES).unwrap_or(&no_cores);
        for (labels, mut own) in by_container {
            let machine = cores.iter().filter(|(of, _)| same_machine(of, &labels));
            let of_machine: Vec<Points> = machine.map(|(_, points)| points.clone()).collect();
            own.insert(CORES.to_owned(), of_machine);
            let beyond = Beyond {
                cpus,
                ..Beyond::default()
            };
            let known = Range { all: own }.known(&beyond).and_then(|known| {
                known.refuse_silence().map_err(|error| error.to_string())?;
                Ok(known)
            });
            dump.containers.push(Container {
                name: name(&labels),
                labels,
                known,
            });
        }
        tell_apart(&mut dump.containers);
        Ok(dump)
    }
}

/// Series by counter and labels, of all sources.
type Joined = BTreeMap<String, BTreeMap<Labels, Points>>;

/// Adds all series of a text.
fn add(all: &mut Joined, source: &str, text: &str) -> Result<()> {
    let wrong = |message: String| bad_input(format!("{source}: {message}"));
    let mut twice = None;
    let mut is_new = false;
    for (name, many) in series(text).map_err(wrong)? {
        let known = all.entry(name.clone()).or_default();
        for points in many {
            match join(known, &name, points) {
                Some(why) => twice = Some(why),
                None => is_new = true,
            }
        }
    }
    match twice {
        Some(why) if !is_new => Err(wrong(why)),
        _ => Ok(()),
    }
}

/// Adds a series to those that are known: later points of a known one go behind it. Returns why
/// they do not, which the container's answer says, too.
fn join(known: &mut BTreeMap<Labels, Points>, name: &str, more: Points) -> Option<String> {
    let Some(points) = known.get_mut(&more.labels) else {
        known.insert(more.labels.clone(), more);
        return None;
    };
    let last = points.points.last().map_or(0, |point| point.0);
    if more.points.first().is_none_or(|point| point.0 > last) {
        points.points.extend(more.points);
        points.wrong = points.wrong.take().or(more.wrong);
        return None;
    }
    let labels = more.labels.iter();
    let labels: Vec<String> = labels.map(|(k, v)| format!("{k}={v}")).collect();
    let why = format!(
        "{name}: two series of {} at the same times; name each file once, in order of time",
        labels.join(",")
    );
    points.wrong = Some(why.clone());
    Some(why)
}

/// Puts behind names that several containers have the labels that tell these apart: that of the
/// machine if it does, else all that differ. Worked example: `shop/twin-0/app` of two nodes are
/// `shop/twin-0/app (node=n1)` and `shop/twin-0/app (node=n2)`.
fn tell_apart(containers: &mut [Container]) {
    let mut named: BTreeMap<String, Vec<usize>> = BTreeMap::new();
    for (index, one) in containers.iter().enumerate() {
        named.entry(one.name.clone()).or_default().push(index);
    }
    for same in named.into_values().filter(|same| same.len() > 1) {
        let values = |label: &str| -> BTreeSet<Option<&String>> {
            same.iter()
                .map(|at| containers[*at].labels.get(label))
                .collect()
        };
        let all = same.iter().flat_map(|at| containers[*at].labels.keys());
        let differing: BTreeSet<&str> = all.map(String::as_str).collect();
        let differing = differing
            .into_iter()
            .filter(|label| values(label).len() > 1);
        let mut telling: Vec<&str> = differing.collect();
        let machine = MACHINE.into_iter().rev();
        if let Some(label) = machine
            .into_iter()
            .find(|one| values(one).len() == same.len())
        {
            telling = vec![label];
        }
        let behind = |at: usize| {
            let own = telling.iter().filter_map(|label| {
                let value = containers[at].labels.get(*label)?;
                Some(format!("{label}={value}"))
            });
            (at, own.collect::<Vec<_>>().join(", "))
        };
        let behind: Vec<(usize, String)> = same.iter().map(|at| behind(*at)).collect();
        for (at, labels) in behind {
            containers[at].name += &format!(" ({labels})");
        }
    }
}

/// True if what tells the machine is equal in both, as far as both tell it.
fn same_machine(one: &Labels, other: &Labels) -> bool {
    let both = MACHINE
        .iter()
        .filter_map(|label| one.get(*label).zip(other.get(*label)));
    let (same, differing): (Vec<_>, Vec<_>) = both.partition(|(one, other)| one == other);
    !same.is_empty() || differing.is_empty()
}

/// Name of a container: namespace, pod and container, else its name or id.
fn name(labels: &Labels) -> String {
    let told: Vec<&str> = ["namespace", "pod", "container"]
        .iter()
        .filter_map(|label| labels.get(*label).map(String::as_str))
        .filter(|value| !value.is_empty())
        .collect();
    if !told.is_empty() {
        return told.join("/");
    }
    let other = ["name", "id"].iter().find_map(|label| labels.get(*label));
    other.cloned().unwrap_or_else(|| "container".to_owned())
}

/// Label with the name of a container's pod.
const POD: &str = "pod";

/// Labels that change when a container starts anew: rules that outlive it must not name them.
const PASSING: [&str; 8] = [
    POD, "id", "name", "image", "instance", "node", "uid", "endpoint",
];

/// A value in PromQL, which escapes as JSON does.
pub(crate) fn quoted(value: &str) -> String {
    serde_json::Value::from(value).to_string()
}

/// Whether PromQL takes it for the name of a label without quotes; what is none would be read as
/// part of the query.
fn is_label(name: &str) -> bool {
    let mut letters = name.chars();
    letters
        .next()
        .is_some_and(|first| first.is_ascii_alphabetic() || first == '_')
        && letters.all(|letter| letter.is_ascii_alphanumeric() || letter == '_')
}

/// Whether each letter of `text` is one that Kubernetes makes up names of: digits without 0, 1 and
/// 3, and consonants without y, so that no word comes out (`k8s.io/apimachinery/pkg/util/rand`,
/// `alphanums`).
fn is_made_up(text: &str) -> bool {
    text.chars()
        .all(|one| "bcdfghjklmnpqrstvwxz2456789".contains(one))
}

/// A pattern for the pods that have the owner of the pod `name`, whatever they are called after it;
/// `None` where no owner numbers or draws such names.
///
/// | owner | a pod | pattern |
/// |---|---|---|
/// | ReplicaSet of a Deployment | `php-7d9f6c5b4-x2k7p` | `php-[b-df-hj-np-tv-xz2-9]{6,10}-[a-z0-9]{5}` |
/// | Job of a CronJob | `dump-29312345-x2k7p` | `dump-[0-9]{8,10}-[a-z0-9]{5}` |
/// | DaemonSet, Job, ReplicaSet | `agent-x2k7p` | `agent-[a-z0-9]{5}` |
/// | StatefulSet | `redis-0` | `redis-[0-9]+` |
fn siblings(name: &str) -> Option<String> {
    let is_plain =
        |one: char| one.is_ascii_lowercase() || one.is_ascii_digit() || "-.".contains(one);
    let (before, last) = name
        .rsplit_once('-')
        .filter(|_| name.chars().all(is_plain))?;
    let digits = |text: &str| !text.is_empty() && text.chars().all(|one| one.is_ascii_digit());
    let is_short = last.len() == 5 && !last.contains('.');
    let (owner, ending) = match before.rsplit_once('-') {
        Some((owner, hash)) if is_short && (6..=10).contains(&hash.len()) && is_made_up(hash) => {
            (owner, "-[b-df-hj-np-tv-xz2-9]{6,10}-[a-z0-9]{5}")
        }
        Some((owner, minute)) if is_short && (8..=10).contains(&minute.len()) && digits(minute) => {
            (owner, "-[0-9]{8,10}-[a-z0-9]{5}")
        }
        _ if is_short && is_made_up(last) => (before, "-[a-z0-9]{5}"),
        _ if digits(last) => (before, "-[0-9]+"),
        _ => return None,
    };
    Some(owner.replace('.', "[.]") + ending)
}

/// A selector of Prometheus for the container and those that come after it:
/// `{container="web",namespace="shop",pod=~"php-[0-9]+"}`. A pod without an owner that is known by
/// its name keeps that.
pub(crate) fn selector(labels: &Labels) -> String {
    let passing: BTreeSet<&str> = PASSING.into_iter().collect();
    let known = || labels.keys().filter(|label| is_label(label));
    let lasting = |label: &&String| !passing.contains(label.as_str()) || *label == POD;
    let mut kept: Vec<&String> = known().filter(lasting).collect();
    if kept.iter().all(|label| *label == POD) {
        kept = known().collect();
    }
    let pairs = kept.iter().map(|label| {
        let value = &labels[*label];
        match siblings(value).filter(|_| *label == POD) {
            Some(pattern) => format!("{label}=~{}", quoted(&pattern)),
            None => format!("{label}={}", quoted(value)),
        }
    });
    format!("{{{}}}", pairs.collect::<Vec<_>>().join(","))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_label_of_a_dump_becomes_a_query() {
        let labels = [
            ("container", "web\"} or vector(1) # \u{1b}[31m\n"),
            ("x=\"\"} or vector(1) #", "1"),
        ];
        let labels: Labels = labels
            .into_iter()
            .map(|(name, value)| (name.to_owned(), value.to_owned()))
            .collect();
        assert_eq!(
            selector(&labels),
            r#"{container="web\"} or vector(1) # \u001b[31m\n"}"#
        );
    }

    /// `node-exporter` is a word, and no hash of a template.
    #[test]
    fn pods_are_known_by_the_pattern_of_their_owner() {
        for (pod, pattern) in [
            (
                "php-7d9f6c5b4-x2b1p",
                Some("php-[b-df-hj-np-tv-xz2-9]{6,10}-[a-z0-9]{5}"),
            ),
            ("dump-29312345-x2k7p", Some("dump-[0-9]{8,10}-[a-z0-9]{5}")),
            ("node-exporter-x2k7p", Some("node-exporter-[a-z0-9]{5}")),
            ("redis-0", Some("redis-[0-9]+")),
            ("a.b-12", Some("a[.]b-[0-9]+")),
            ("web-nginx", None),
            ("web", None),
            ("a\"|.*-0", None),
        ] {
            assert_eq!(siblings(pod).as_deref(), pattern, "{pod}");
        }
    }

    /// A stranger's seven deployments of one namespace had one selector.
    #[test]
    fn two_workloads_of_a_namespace_have_two_selectors() {
        let of = |pod: &str| {
            let labels = [
                ("container", "app"),
                ("namespace", "shop"),
                ("pod", pod),
                ("node", "n1"),
            ];
            let labels = labels.map(|(name, value)| (name.to_owned(), value.to_owned()));
            selector(&labels.into())
        };
        let redis = r#"{container="app",namespace="shop",pod=~"redis-[0-9]+"}"#;
        assert_eq!(of("redis-0"), redis);
        assert_eq!(of("redis-1"), redis);
        assert_eq!(
            of("lone"),
            r#"{container="app",namespace="shop",pod="lone"}"#
        );
        assert_ne!(of("php-7d9f6c5b4-x2k7p"), of("web-7d9f6c5b4-x2k7p"));
    }

    #[test]
    fn labels_of_promql_begin_with_a_letter_or_an_underscore() {
        let found = ["web", "_web", "w_1", "1web", "-web", "w-1", ""].map(is_label);
        assert_eq!(found, [true, true, true, false, false, false, false]);
    }
}
