// What the Rust side puts on the page: `schedcast.report/1` (crates/lab/src/report/data.rs, scene.rs).

export interface Report {
  schema: string;
  title: string;
  schedcast: string;
  source: string;
  machine: string;
  seeds: number;
  tier: string | null;
  target: string | null;
  warnings: string[];
  sentence: string;
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
  ci95: [number, number] | null;
  recorded: number | null;
  change: number | null;
  change_ci95: [number, number] | null;
  significant: boolean;
  measured: [number, number, number] | null;
}

export interface FitRow {
  metric: string;
  unit: string;
  digits: number;
  predicted: number;
  seen: number;
}

export interface Distribution {
  name: string;
  counts: number[];
  curves: ([number[], number[]] | null)[];
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
  left_ms: number[];
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
  throttled: string[];
  bucket_ms: number;
  busy: string[];
  group_load: [number[], number[], number[]][];
  periods: Periods[];
  watts: number[];
  mhz: number[];
  hardware: Hardware | null;
  worst: [number, number, string] | null;
}

/** What a served page can change. */
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
}
