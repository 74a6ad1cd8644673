//! The group that a command line means, on this host or in a recording.

use std::path::Path;

use schedcast_host::groups::{Groups, NamedGroup, Wanted};
use schedcast_host::{CpuHierarchy, HostError};
use schedcast_lab::error::{Error, Result};
use schedcast_lab::question::Subject;

use crate::arguments::target::Target;

/// The group of this host that is meant, if any is named. A path that no group has is given back as
/// it is: the code that opens it says what is there instead.
pub(crate) fn on_host(target: &Target) -> Result<Option<NamedGroup>> {
    let Some(wanted) = target.wanted() else {
        return Ok(None);
    };
    let hierarchy = CpuHierarchy::detect()?;
    let groups = Groups::read(&hierarchy, Path::new("/"))?;
    match (groups.find(&wanted), wanted) {
        (Err(HostError::UnknownCgroup { .. }), Wanted::Path(path)) => Ok(Some(NamedGroup {
            path,
            ..NamedGroup::default()
        })),
        (found, _) => found.map(Some).map_err(Error::from),
    }
}

/// The path of the group in `subject` that is meant, if any is named. An experiment knows its
/// groups by their paths only.
pub(crate) fn in_subject(target: &Target, subject: &Subject) -> Result<Option<String>> {
    let Some(wanted) = target.wanted() else {
        return Ok(None);
    };
    match (subject, wanted) {
        (Subject::Recording(recorded), wanted) => recorded.find(&wanted).map(Some),
        (_, Wanted::Path(path)) => Ok(Some(path)),
        (_, _) => Err(Error::usage(
            "an experiment has neither units nor containers, pods or processes",
        )
        .hint("name its group by its path: --cgroup PATH")),
    }
}
