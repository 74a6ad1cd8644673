// Data that the Rust side puts on the page: `schedcast.report/1`
// (crates/present/src/report/data.rs, scene.rs).

export interface Report {
  schema: string;
  title: string;
  schedcast: string;
  source: string;
  machine: string;
  seeds: number;
  tier: string | null;
  target: string | null;
  /** Subject of the answer: the heading of the page. */
  subject: string;
  warnings: string[];
  sentences: string[];
  /** The variant of the cheapest change that helps; on a served page what is set. */
  cheapest: number | null;
  frontier: Frontier | null;
  reproduce: string;
  variants: Variant[];
  table: Row[];
  fit: FitRow[];
  distributions: Distribution[];
  waits: Waits[];
  cpu_time: CpuTime[];
  scenes: Scene[];
}

export interface Variant {
  name: string;
  kernel: string;
  hz: number;
  cpus: number;
  machine: string;
  event_hash: string;
  groups: GroupSettings[];
  apply: string[];
  /** The same limit for every tool. */
  dialects: [string, string][];
}

export interface GroupSettings {
  path: string;
  cpu_max: string;
  quota_us: number | null;
  period_us: number;
  burst_us: number;
  shares: number;
}

export interface Row {
  section: string | null;
  metric: string;
  subject: string;
  name: string;
  unit: string;
  better: "lower" | "higher" | "none";
  digits: number;
  cells: (Cell | null)[];
}

export interface Cell {
  mean: number;
  /** The mean is a lower bound. */
  at_least: boolean;
  /** The interval in the words of the terminal, such as `±3.2` or `≤7.5`; empty for none. */
  spread: string;
  recorded: number | null;
  /** In words: per cent, large ones as factors. */
  change: string | null;
  change_ci95: [string, string] | null;
  direction: -1 | 0 | 1;
  significant: boolean;
  measured: [number, number, number] | null;
}

export interface FitRow {
  metric: string;
  unit: string;
  digits: number;
  predicted: number;
  seen: number;
  error: string | null;
}

export interface Distribution {
  name: string;
  counts: number[];
  /** Latencies in us at rarities 0, 1/24, 2/24 and so on. */
  curves: (number[] | null)[];
}

export interface Waits {
  name: string;
  seconds: ([number, number, number] | null)[];
}

export interface CpuTime {
  tasks: number;
  idle: number;
  overheads: [string, number][];
}

export interface Periods {
  group: number;
  merged: number;
  at_ms: number[];
  granted_ms: number[];
  used_ms: number[];
  wanted_ms: number[];
  throttled_ms: number[];
}

export interface Hardware {
  /** turbostat's columns: mean of the run, most in an interval. */
  columns: { name: string; mean: number; most: number }[];
  idle_states: string[];
  residency: number[];
}

export interface Scene {
  length_ms: number;
  cpus: number;
  groups: string[];
  names: string[];
  name_groups: number[];
  tick_ns: number;
  window_ms: [number, number];
  complete: boolean;
  slices: string[];
  /** Waits of the target's threads. */
  held: string;
  throttled: string[];
  bucket_ms: number;
  busy: string[];
  group_load: [string, string, string][];
  periods: Periods[];
  watts: number[];
  mhz: number[];
  hardware: Hardware | null;
  /** Begin and length of the target's longest waits, ms, and whose they were. */
  waits: [number, number, string][];
}

/** `schedcast.frontier/1` (crates/advise/src/frontier). */
export interface Frontier {
  target: string;
  seeds: number;
  used_cpus: number;
  recorded: Grant;
  measures: { metric: string; name: string; unit: string; seen: number | null; promised: number | null; from_above: boolean }[];
  lines: FrontierLine[];
  unlimited: FrontierPoint;
  measured: (Grant & { values: ([number, number, number] | null)[] })[];
}

export interface Grant {
  quota_us: number | null;
  period_us: number;
  burst_us: number;
}

export interface FrontierLine {
  burst_us: number;
  points: FrontierPoint[];
}

export interface FrontierPoint extends Grant {
  values: ({ mean: number; at_least: boolean; interval: [number, number] } | null)[];
  falls_behind: string | null;
  price: { threads: string; growth: number; growth_at_most: number | null } | null;
  periods_throttled: number;
}

/** Settings that a served page can change. */
export interface Controls {
  kernels: string[];
  groups: string[];
  most_cpus: number;
  fixed_cpus: boolean;
  seeds: number;
  start: Choice;
}

export interface Choice {
  cgroup: string | null;
  quota_us: number | null;
  period_us: number;
  burst_us: number;
  weight: number | null;
  kernel: string;
  cpus: number | null;
  seeds: number;
  /** Earlier settings that are kept as columns. */
  pinned?: Choice[];
}
