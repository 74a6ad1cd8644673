//! A change on the way between two kernels, and what the stable series of its ends make of it.

use schedcast_kernel::rules::changes::of_its_series;
use schedcast_kernel::rules::changes::path::Step;
use schedcast_kernel::rules::{Origin, Version};
use serde::Serialize;

use crate::experiment::Scenario;

/// A change of the kernel as it lies on the way.
#[derive(Clone, Debug, Serialize)]
pub struct Link {
    /// Name of the patch in experiments, with `-` in front where the way takes it back.
    pub patch: String,
    /// Commit, where it is known.
    pub commit: Option<String>,
    /// Release that brought it, or that took it back.
    pub release: Option<String>,
    /// Effect of the change, in a sentence.
    pub description: String,
    /// Release that brought it, whichever way it is made.
    #[serde(skip)]
    pub merged_in: Option<String>,
    /// The newer kernel of the way, where it has the change although `release` came after it: its
    /// stable series took it.
    #[serde(skip)]
    pub carried_by: Option<String>,
    /// Patch level in the series of the kernel that has the change which no longer has it.
    #[serde(skip)]
    pub mended_in: Option<String>,
}

impl Link {
    /// Two lines, the first behind `indent` and the second two columns further.
    pub(crate) fn text(&self, indent: &str) -> String {
        let release = match (&self.release, &self.carried_by, &self.merged_in) {
            (Some(release), Some(kernel), _) => format!("{kernel} has it of {release}"),
            (Some(release), None, _) => release.clone(),
            (None, _, Some(release)) => format!("merged in {release}"),
            (None, _, None) => "never merged".to_owned(),
        };
        let commit = self.commit.as_deref().unwrap_or("dated by its release");
        let mended = self.mended_in.as_ref();
        let mended = mended.map_or_else(String::new, |level| format!("  mended in {level}"));
        format!(
            "{indent}{release}  {}  {commit}{mended}\n{indent}  {}\n",
            self.patch, self.description
        )
    }
}

/// The change of a step from one scenario to the other.
pub(super) fn link(step: &Step, (from, to): (&Scenario, &Scenario), backwards: bool) -> Link {
    let newer = from.kernel.version.max(to.kernel.version);
    let made = step.on != backwards;
    let sign = if made { "" } else { "-" };
    let having = if made { to } else { from };
    Link {
        patch: format!("{sign}{}", step.change.name),
        commit: match step.change.origin {
            Origin::Commit(id) => Some(id.to_string()),
            Origin::Release | Origin::Posted | Origin::Unpublished => None,
        },
        release: step.release.map(|release| release.to_string()),
        description: step.change.description.to_string(),
        merged_in: step.change.since.map(|since| since.release.to_string()),
        carried_by: (step.release > Some(newer)).then(|| newer.to_string()),
        mended_in: step
            .change
            .mended_behind(having.kernel.version)
            .map(|level| level.to_string()),
    }
}

/// A release as tagged whose stable series has changes of its own.
#[derive(Clone, Debug)]
pub struct FirstRelease {
    /// The release.
    release: Version,
    /// The last patch level that brought any.
    last: Version,
    /// Changes between the two.
    changes: usize,
}

impl FirstRelease {
    /// The note on `release`, if it is one.
    pub(super) fn of(release: Version) -> Option<Self> {
        let (last, changes) = of_its_series(release)?;
        Some(Self {
            release,
            last,
            changes,
        })
    }

    /// A line of text.
    pub(super) fn text(&self) -> String {
        let (release, last) = (self.release, self.last);
        let changes = match self.changes {
            1 => "1 change".to_owned(),
            count => format!("{count} changes"),
        };
        format!(
            "{release} is its first release; {last} (the newest known patch level) differs from it in {changes}: \
             name {last} for those\n"
        )
    }
}
