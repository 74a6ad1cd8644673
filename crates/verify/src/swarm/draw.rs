//! Drawing worlds: a seed first says which features its world uses, then what they are.
//!
//! A world is an experiment's file in pieces, so that a shorter world is one with pieces taken
//! away, and the last one left is a file that `schedcast run` reads.

use schedcast_kernel::rules::changes;
use schedcast_kernel::rules::{FEATURES, FairClass, KernelChoice, Problem, Rules, Version};
use schedcast_sim::random::{SplitMix, name_hash};

/// Releases, the oldest and the newest among them, and stable ones that took changes back.
const VERSIONS: &[&str] = &[
    "4.5", "4.9", "4.14", "4.18", "4.19", "5.0", "5.4", "5.10", "5.13", "5.14", "5.15", "5.16",
    "5.18", "5.19", "6.0", "6.1", "6.1.140", "6.3", "6.4", "6.5", "6.6", "6.6.90", "6.8", "6.11",
    "6.12", "6.12.40", "6.13", "6.14", "6.15", "6.16", "6.17", "6.18", "6.19", "7.0", "7.1", "7.2",
    "7.3",
];

/// Machines.
const MACHINES: &[&str] = &[
    "generic-8",
    "client-4",
    "hikey960",
    "hwp-desktop-8",
    "dev-vm",
    "power10-8x8",
    "epyc-2x64x2",
    "spr-2x56x2",
    "icl-2x32x2",
];

/// Paths of groups, parents before children.
const PATHS: &[&str] = &["/a", "/a/b", "/a/b/c", "/d", "/d/e", "/f"];

schedcast_base::named! {
    /// Feature that a world may use. Each seed draws some of them.
    #[derive(Clone, Copy, PartialEq, Eq, Debug)]
    pub enum Feature {
        /// Patches of the kernel, there or taken away.
        Patches = "patches",
        /// Switches of `sched/features`.
        Switches = "switches",
        /// Tunables.
        Tunables = "tunables",
        /// Preemption model, HZ, interrupt time, autogroups.
        Built = "built",
        /// A topology of its own.
        Topology = "topology",
        /// Contended lines.
        Lines = "lines",
        /// Late timer interrupts.
        LateTimers = "late timers",
        /// Cost of a migration.
        Migration = "migration",
        /// Governors of clocks and idle states.
        Governors = "governors",
        /// Groups with weights.
        Groups = "groups",
        /// Limits.
        Limits = "limits",
        /// Bursts.
        Bursts = "bursts",
        /// Idle groups.
        IdleGroups = "idle groups",
        /// CPUs of groups.
        Cpusets = "cpusets",
        /// Changes of groups during the run.
        Changes = "changes",
        /// Changes of the kernel during the run.
        KernelChanges = "kernel changes",
        /// CPUs of programs.
        Affinities = "affinities",
        /// Real-time, batch and idle policies, nice values.
        Policies = "policies",
        /// Programs that start while the others run.
        LateStarts = "late starts",
        /// Statistics that begin late.
        WarmUp = "warm up",
        /// Phases and prices drawn by the seed, as `compare` does.
        Chance = "chance",
    }
}

/// An experiment in pieces.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Drawn {
    /// The seed that drew it, and that its run has.
    pub seed: u64,
    /// Whether the run draws phases and prices.
    pub chance: bool,
    /// Keys of `[machine]` and whole tables of it.
    pub machine: Vec<String>,
    /// Keys of `[kernel]`.
    pub kernel: Vec<String>,
    /// Dotted keys of groups.
    pub groups: Vec<String>,
    /// Whole `[[program]]` tables.
    pub programs: Vec<String>,
    /// Changes: when, ns, and dotted keys.
    pub changes: Vec<(u64, String)>,
    /// Length, ns.
    pub duration_ns: u64,
    /// Statistics begin then, ns.
    pub warmup_ns: u64,
}

impl Drawn {
    /// The experiment's file.
    pub fn text(&self) -> String {
        let mut text = format!("title = \"Swarm world {}\"\n\n[machine]\n", self.seed);
        let lines = |text: &mut String, lines: &[String]| {
            for line in lines {
                *text += line;
                *text += "\n";
            }
        };
        lines(&mut text, &self.machine);
        text += "\n[kernel]\n";
        lines(&mut text, &self.kernel);
        text += "\n[cgroup]\n";
        lines(&mut text, &self.groups);
        lines(&mut text, &self.programs);
        for (at_ns, keys) in &self.changes {
            text += &format!("\n[[at]]\ntime = \"{at_ns}ns\"\n{keys}\n");
        }
        text += &format!(
            "\n[run]\nseeds = 1\nduration = \"{}ns\"\n",
            self.duration_ns
        );
        if self.warmup_ns > 0 {
            text += &format!("warmup = \"{}ns\"\n", self.warmup_ns);
        }
        text
    }
}

struct Drawing {
    dice: SplitMix,
    used: Vec<Feature>,
    drawn: Drawn,
    cpus: u64,
    version: Version,
    /// Of the kernel with its drawn patches.
    fair: FairClass,
}

/// The world of a seed, and the features that it uses.
pub fn draw(seed: u64) -> (Drawn, Vec<Feature>) {
    let mut dice = SplitMix(seed ^ name_hash("swarm"));
    let share = dice.between(1, 3);
    let used = Feature::ALL
        .into_iter()
        .filter(|_| dice.below(4) < share)
        .collect();
    let version = dice.pick(VERSIONS);
    let mut drawing = Drawing {
        dice,
        used,
        drawn: Drawn {
            seed,
            kernel: vec![format!("version = \"{version}\"")],
            ..Drawn::default()
        },
        cpus: 8,
        version: version.parse().unwrap_or(schedcast_kernel::rules::DEFAULT),
        fair: FairClass::Cfs,
    };
    drawing.drawn.chance = drawing.uses(Feature::Chance);
    drawing.drawn.duration_ns = drawing.dice.scale(1_000_000, 64_000_000);
    drawing.machine();
    drawing.kernel();
    drawing.groups();
    drawing.programs();
    drawing.changes();
    if drawing.uses(Feature::WarmUp) {
        let duration_ns = drawing.drawn.duration_ns;
        drawing.drawn.warmup_ns = drawing.dice.between(1, duration_ns - 1);
    }
    (drawing.drawn, drawing.used)
}

impl Drawing {
    fn uses(&self, feature: Feature) -> bool {
        self.used.contains(&feature)
    }

    /// A key of the machine.
    fn part(&mut self, line: impl Into<String>) {
        self.drawn.machine.push(line.into());
    }

    fn machine(&mut self) {
        let preset = self.dice.pick(MACHINES);
        self.part(format!("preset = \"{preset}\""));
        self.cpus = match preset {
            "client-4" => 4,
            "dev-vm" => 2,
            _ => 8,
        };
        self.topology(preset);
        if self.uses(Feature::Lines) {
            self.lines();
        }
        if self.uses(Feature::LateTimers) {
            let (least, most) = (self.dice.below(2_000), self.dice.scale(2_000, 500_000));
            let (kept, median) = (self.dice.below(101), (least + most) / 2);
            self.part(format!(
                "timer_interrupt = {{ late_quantiles_ns = [{least}, {median}, {most}], \
                 late_kept_percent = {kept} }}"
            ));
        }
        if self.uses(Feature::Migration) {
            let speed = self.dice.between(20, 99);
            let [core, llc, far, node] = [(); 4].map(|()| self.dice.scale(100, 100_000));
            self.part(format!(
                "migration = {{ cold_speed_percent = {speed}, same_core_refill_ns = {core}, \
                 same_llc_refill_ns = {llc}, other_llc_refill_ns = {far}, \
                 other_node_refill_ns = {node} }}"
            ));
        }
        if self.uses(Feature::Governors) {
            self.governors(preset);
        }
        if self.dice.one_in(3) {
            let exit = self.dice.scale(1, 200_000);
            let line = match self.dice.below(3) {
                0 => format!("latency.idle_exit_ns = {exit}"),
                1 => format!("latency.ipi_stall_ns = {}", exit / 10),
                _ => format!("latency.wakeup_mark_ns = {}", exit / 100),
            };
            self.part(line);
        }
    }

    fn topology(&mut self, preset: &str) {
        // Hundreds of CPUs take hundreds of times as long to look at.
        let large = matches!(
            preset,
            "power10-8x8" | "epyc-2x64x2" | "spr-2x56x2" | "icl-2x32x2"
        );
        if !large && (!self.uses(Feature::Topology) || preset == "hikey960") {
            return;
        }
        let smt = match preset {
            "generic-8" | "dev-vm" => 1,
            _ => 2,
        };
        let (sockets, llcs) = (self.dice.between(1, 2), self.dice.between(1, 2));
        let (cores, threads) = (self.dice.between(1, 4), self.dice.between(1, smt));
        self.cpus = sockets * llcs * cores * threads;
        let distances = match (large, sockets) {
            (true, 1) => ", node_distances = [[10]]",
            (true, _) => ", node_distances = [[10, 21], [21, 10]]",
            (false, _) => "",
        };
        self.part(format!(
            "topology = {{ sockets = {sockets}, llcs_per_socket = {llcs}, \
             cores_per_llc = {cores}, threads_per_core = {threads}{distances} }}"
        ));
        if smt > 1 && threads == 1 {
            self.part("smt = { thread_speed_1000ths = [1000] }");
        } else if preset == "power10-8x8" {
            self.part("smt = { thread_speed_1000ths = [1000, 700] }");
        }
    }

    fn lines(&mut self) {
        let mut ns = |most| self.dice.between(1, most);
        let (core, llc, far, node) = (ns(20), ns(100), ns(200), ns(2000));
        let (read, write) = (ns(100), ns(100));
        let mut flag = || self.dice.one_in(2);
        let (words, lock, hints) = (flag(), flag(), flag());
        let load = !words && !lock && !hints || flag();
        self.part(format!(
            "lines = {{ same_core_transfer_ns = {core}, same_llc_transfer_ns = {llc}, \
             other_llc_transfer_ns = {far}, other_node_transfer_ns = {node}, \
             read_service_percent = {read}, write_service_percent = {write}, \
             tg_load_avg = {load}, rq_lock = {lock}, llc_idle_hints = {hints}, \
             words = {words} }}"
        ));
    }

    fn governors(&mut self, preset: &str) {
        let governors: &[&str] = match preset {
            "epyc-2x64x2" | "power10-8x8" => &["schedutil", "ondemand", "performance", "powersave"],
            "client-4" | "hwp-desktop-8" | "spr-2x56x2" | "icl-2x32x2" => {
                &["powersave", "performance"]
            }
            "dev-vm" => {
                let most = self.dice.scale(1, 400_000);
                return self.part(format!("idle.guest_halt_poll_ns = {most}"));
            }
            _ => return,
        };
        let governor = self.dice.pick(governors);
        self.part(format!("frequency.governor = \"{governor}\""));
        let governor = self.dice.pick(&["menu", "teo"]);
        self.part(format!("idle.governor = \"{governor}\""));
    }

    fn kernel(&mut self) {
        let rules = Rules::of(self.version, self.cpus as u32, 250);
        self.fair = rules.fair;
        let mut keys = Vec::new();
        if self.uses(Feature::Patches) {
            let mut names = Vec::new();
            for patch in changes::all() {
                let fits = patch.needs.is_none_or(|class| class == rules.fair);
                if fits && self.dice.one_in(16) {
                    let sign = if patch.is_in(&rules) { "-" } else { "" };
                    names.push(format!("{sign}{}", patch.name));
                }
            }
            self.fair = self.resolved(&mut names).fair;
            let quoted = names.iter().map(|name| format!("\"{name}\""));
            keys.push(format!(
                "patches = [{}]",
                quoted.collect::<Vec<_>>().join(", ")
            ));
        }
        if self.uses(Feature::Switches) {
            let mut names = Vec::new();
            for switch in FEATURES {
                let known = switch.exists(self.version) && switch.is_modelled(self.version);
                if known && self.dice.one_in(4) {
                    let sign = if switch.default_in(self.version) {
                        "NO_"
                    } else {
                        ""
                    };
                    names.push(format!("\"{sign}{}\"", switch.name));
                }
            }
            keys.push(format!("features = [{}]", names.join(", ")));
        }
        if self.uses(Feature::Built) {
            let hz = self.dice.pick(&[100, 250, 300, 1000]);
            keys.push(format!("hz = {hz}"));
            let model = match self.version.since(6, 13) {
                true => self.dice.pick(&["none", "voluntary", "full", "lazy"]),
                false => self.dice.pick(&["none", "voluntary", "full"]),
            };
            if !(self.version.since(7, 0) && ["none", "voluntary"].contains(&model)) {
                keys.push(format!("preempt = \"{model}\""));
            }
            keys.push(format!("irq_time_accounting = {}", self.dice.one_in(2)));
            keys.push(format!("autogroup = {}", self.dice.one_in(2)));
        }
        if self.uses(Feature::Tunables) {
            keys.push(self.tunable());
        }
        self.drawn.kernel.extend(keys);
    }

    /// The rules with the drawn patches. Those that the others leave without what they need, or
    /// nothing to change, are taken out.
    fn resolved(&self, names: &mut Vec<String>) -> Rules {
        loop {
            let patches: Vec<&str> = names.iter().map(String::as_str).collect();
            let resolved = Rules::resolve(&KernelChoice {
                patches: &patches,
                ..KernelChoice::released(self.version, self.cpus as u32)
            });
            let error = match resolved {
                Ok(rules) => return rules,
                Err(error) => error,
            };
            let culprits = match error.problem {
                Problem::PatchBuildsOn(other) => [error.word, format!("-{other}")],
                _ => [error.word.clone(), error.word],
            };
            let drawn = names.len();
            names.retain(|name| !culprits.contains(name));
            assert!(names.len() < drawn, "{culprits:?} were not drawn");
        }
    }

    /// A tunable that the kernel has.
    fn tunable(&mut self) -> String {
        let slice_ns = self.dice.scale(100_000, 50_000_000);
        let of_class = match self.fair {
            FairClass::Eevdf => format!("base_slice_ns = {slice_ns}"),
            FairClass::Cfs => format!("min_granularity_ns = {slice_ns}"),
        };
        match self.dice.below(5) {
            0 => format!("migration_cost_ns = {}", self.dice.scale(1, 5_000_000)),
            1 => format!("nr_migrate = {}", self.dice.scale(1, 64)),
            2 => format!(
                "sched_cfs_bandwidth_slice_us = {}",
                self.dice.scale(1, 20_000)
            ),
            3 => format!("sched_rt_runtime_us = {}", self.dice.scale(10_000, 950_000)),
            _ => of_class,
        }
    }

    fn groups(&mut self) {
        if !self.uses(Feature::Groups) {
            return;
        }
        let count = self.dice.between(1, PATHS.len() as u64) as usize;
        for path in &PATHS[..count] {
            let mut lines = vec![format!("\"{path}\" = {{}}")];
            if self.dice.one_in(2) {
                let weight = self.dice.scale(1, 10_000);
                lines.push(format!("\"{path}\".\"cpu.weight\" = {weight}"));
            }
            let has_limit = self.uses(Feature::Limits) && self.dice.one_in(2);
            if has_limit {
                let (limit, quota_us) = self.limit();
                lines.push(format!("\"{path}\".\"cpu.max\" = \"{limit}\""));
                if self.uses(Feature::Bursts) && self.version.since(5, 14) && self.dice.one_in(2) {
                    let burst = self.dice.below(quota_us + 1);
                    lines.push(format!("\"{path}\".\"cpu.max.burst\" = {burst}"));
                }
            }
            if self.uses(Feature::IdleGroups) && self.version.since(5, 15) && self.dice.one_in(4) {
                // Group weights are not told apart from idle ones: one or the other.
                lines.retain(|line| !line.contains("cpu.weight"));
                lines.push(format!("\"{path}\".\"cpu.idle\" = 1"));
            }
            if self.uses(Feature::Cpusets) && self.dice.one_in(4) && !path[1..].contains('/') {
                let list = self.list();
                lines.push(format!("\"{path}\".\"cpuset.cpus\" = \"{list}\""));
            }
            if lines.len() > 1 {
                lines.remove(0);
            }
            self.drawn.groups.extend(lines);
        }
    }

    /// Quota and period in µs, and the quota.
    fn limit(&mut self) -> (String, u64) {
        let period = self.dice.scale(1_000, 100_000);
        let quota = (period * self.dice.scale(5, 100 * self.cpus) / 100).max(1_000);
        (format!("{quota} {period}"), quota)
    }

    /// A list of CPUs.
    fn list(&mut self) -> String {
        let first = self.dice.below(self.cpus);
        let last = self.dice.between(first, self.cpus - 1);
        format!("{first}-{last}")
    }

    fn programs(&mut self) {
        let count = self.dice.between(1, 4);
        for row in 0..count {
            let command = self.command();
            let prefix = self.prefix();
            let mut text = format!("\n[[program]]\nname = \"p{row}\"\nrun = \"{prefix}{command}\"");
            if self.uses(Feature::Groups) && !self.drawn.groups.is_empty() && !self.dice.one_in(4) {
                let row = self.dice.below(self.drawn.groups.len() as u64) as usize;
                let path = self.drawn.groups[row].split('"').nth(1).unwrap_or("/");
                text += &format!("\ncgroup = \"{path}\"");
            }
            if self.uses(Feature::LateStarts) {
                let most = self.drawn.duration_ns;
                let close = self.dice.one_in(2);
                let start = self.dice.below(if close { 2_000 } else { most });
                let start = if close { most / 2 + start } else { start };
                text += &format!("\nstart = \"{start}ns\"");
            }
            self.drawn.programs.push(text);
        }
    }

    fn prefix(&mut self) -> String {
        let mut prefix = String::new();
        if self.uses(Feature::Affinities) && self.dice.one_in(2) {
            let list = self.list();
            prefix += &format!("taskset -c {list} ");
        }
        if self.uses(Feature::Policies) {
            match self.dice.below(6) {
                0 => prefix += "chrt -b 0 ",
                1 => prefix += "chrt -i 0 ",
                2 => {
                    let kind = self.dice.pick(&["-f", "-r"]);
                    prefix += &format!("chrt {kind} {} ", self.dice.between(1, 90));
                }
                3 | 4 => {
                    let nice = self.dice.below(40) as i64 - 20;
                    prefix += &format!("nice -n {nice} ");
                }
                _ => {}
            }
        }
        prefix
    }

    fn command(&mut self) -> String {
        let dice = &mut self.dice;
        match dice.below(12) {
            0 => format!(
                "hackbench {}-g {} -f {} -l {}",
                dice.pick(&["", "-p ", "-T ", "-T -p "]),
                dice.between(1, 3),
                dice.between(1, 4),
                dice.scale(1, 200)
            ),
            1 => format!(
                "schbench -m {} -t {} -r 1 -F {} -s {}",
                dice.between(1, 2),
                dice.between(1, 6),
                dice.scale(4, 256),
                dice.scale(10, 2_000)
            ),
            2 => format!(
                "schbench-classic -m 1 -t {} -r 1 -c {} -s {}",
                dice.between(1, 6),
                dice.scale(100, 10_000),
                dice.scale(100, 10_000)
            ),
            3 => format!("perf bench sched pipe -l {}", dice.scale(1, 2_000)),
            4 | 5 => format!(
                "stress-ng --cpu {} --cpu-load {} --cpu-load-slice {} -t 1",
                dice.between(1, 8),
                dice.between(1, 100),
                dice.pick(&[-64, -1, 2, 20, 0])
            ),
            6 | 7 => format!(
                "cyclictest -t {} -i {} -d {} -D 1 -q --latency {}",
                dice.between(1, 8),
                dice.scale(50, 8_000),
                dice.below(500),
                dice.pick(&[0, 50, 100_000])
            ),
            8 => format!(
                "netperf -t {} -l 1 --pairs {}",
                dice.pick(&["UDP_RR", "TCP_RR", "UDP_STREAM", "TCP_STREAM"]),
                dice.between(1, 3)
            ),
            9 => format!(
                "pgbench -c {} -j {} -T 1 {}",
                dice.between(1, 6),
                1,
                dice.pick(&["-S", "-N", ""])
            ),
            10 => format!(
                "http-service --rate {} --threads {} --work {} --lock {} --duration 1s{}",
                dice.scale(100, 20_000),
                dice.between(1, 8),
                dice.scale(20, 2_000),
                dice.pick(&[0, 10]),
                dice.pick(&["", " --fan-out 3 --helpers 2"]),
            ),
            _ => format!("sysbench cpu --threads={} --time=1 run", dice.between(1, 8)),
        }
    }

    fn changes(&mut self) {
        let mut changes = Vec::new();
        let paths: Vec<String> = self.drawn.groups.iter().map(|line| path(line)).collect();
        if self.uses(Feature::Changes) && !paths.is_empty() {
            for _ in 0..self.dice.between(1, 6) {
                let row = self.dice.below(paths.len() as u64) as usize;
                let path = &paths[row];
                let key = match self.dice.below(2) {
                    0 if self.uses(Feature::Limits) => {
                        let limit = match self.dice.one_in(4) {
                            true => "max".to_string(),
                            false => self.limit().0,
                        };
                        let burst = match self.version.since(5, 14) {
                            true => format!("cgroup.\"{path}\".\"cpu.max.burst\" = 0\n"),
                            false => String::new(),
                        };
                        format!("{burst}cgroup.\"{path}\".\"cpu.max\" = \"{limit}\"")
                    }
                    _ if self
                        .drawn
                        .groups
                        .contains(&format!("\"{path}\".\"cpu.idle\" = 1")) =>
                    {
                        continue;
                    }
                    _ => {
                        let weight = self.dice.scale(1, 10_000);
                        format!("cgroup.\"{path}\".\"cpu.weight\" = {weight}")
                    }
                };
                changes.push((self.dice.below(self.drawn.duration_ns), key));
            }
        }
        if self.uses(Feature::KernelChanges) {
            for _ in 0..self.dice.between(1, 2) {
                let tunable = self.tunable();
                let at_ns = self.dice.below(self.drawn.duration_ns);
                changes.push((at_ns, format!("kernel.{tunable}")));
            }
        }
        changes.sort();
        changes.dedup_by_key(|(at_ns, _)| *at_ns);
        self.drawn.changes = changes;
    }
}

/// The group that a dotted key belongs to.
fn path(line: &str) -> String {
    line.split('"').nth(1).unwrap_or("/").to_string()
}
