//! Which group is meant, by the names that operators use.

use clap::Args;
use schedcast_base::groups::Wanted;

/// A group by its path, or by what it is called.
#[derive(Clone, Debug, Default, Args)]
#[group(id = "target", multiple = false)]
pub struct Target {
    /// The group, by its path or the end of its path
    #[arg(long, value_name = "PATH")]
    pub cgroup: Option<String>,
    /// The group of this systemd unit, such as nginx
    #[arg(long, value_name = "NAME")]
    pub unit: Option<String>,
    /// The group of this docker, containerd, CRI-O or podman container: name, id or its beginning
    #[arg(long, value_name = "ID|NAME")]
    pub container: Option<String>,
    /// The group of this Kubernetes pod, or of one container in it
    #[arg(long, value_name = "NAMESPACE/POD[/CONTAINER]")]
    pub pod: Option<String>,
    /// The group that this process is in
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(i32).range(1..))]
    pub pid: Option<i32>,
}

impl Target {
    /// Group named on the command line by path, unit, container, pod or PID; `None` if no option
    /// names one.
    pub(crate) fn wanted(&self) -> Option<Wanted> {
        let text = |text: &Option<String>, kind: fn(String) -> Wanted| text.clone().map(kind);
        text(&self.cgroup, Wanted::Path)
            .or_else(|| text(&self.unit, Wanted::Unit))
            .or_else(|| text(&self.container, Wanted::Container))
            .or_else(|| text(&self.pod, Wanted::Pod))
            .or_else(|| self.pid.map(Wanted::Pid))
    }
}
