// One variant of the timeline: a lane for each CPU, and one for each group with its threads that
// run and wait.

import { held as heldOf, Held, load as loadOf, Runs, runs, shares, Span, spans } from "./decode";
import { css, element, number } from "./dom";
import { shown } from "./range";
import { Scene } from "./types";

/** Room left of the lanes for the names of CPUs. */
export const GUTTER = 54;
const AXIS = 22;
const GROUP_TALL = 32;
/** Above a group's lane: its path. */
const GROUP_HEAD = 17;
const GROUP_HEIGHT = GROUP_HEAD + GROUP_TALL + 9;
/** With less room than this for each run, in pixels, a CPU is drawn as how busy it was. */
const RUN_ROOM = 2.5;
/** CPUs that stand in the timeline together. */
export const MOST_CPUS = 16;

interface Lanes {
  scene: Scene;
  runs: Runs[];
  held: Held;
  busy: Uint8Array[];
  throttled: Span[][];
  load: number[][][];
  groups: number[];
  /** Of each group in `groups`: which rows of the names are within it. */
  within: boolean[][];
  /** Of each group in `groups`: most threads at a time. */
  most: number[];
  /** Of each group in `groups`: whether its waits are known one by one. */
  exact: boolean[];
}

/** Groups that did something, the root only when there is no other. */
function busyGroups(scene: Scene, all: number[][][]): number[] {
  const limited = new Set(scene.periods.map((one) => one.group));
  const load = all.map((kinds) => kinds.reduce((sum, kind) => sum + kind.reduce((all, value) => all + value, 0), 0));
  const most = Math.max(...load.slice(1), 0);
  const rows = scene.groups.map((_, row) => row).filter((row) => row > 0 && load[row] > 0 && (limited.has(row) || load[row] > most / 100));
  rows.sort((left, right) => Number(limited.has(right)) - Number(limited.has(left)) || load[right] - load[left]);
  return rows.length ? rows.slice(0, 6) : [0];
}

export function lanes(scene: Scene, target: string | null): Lanes {
  const load = scene.group_load.map((kinds) => kinds.map(loadOf));
  const groups = busyGroups(scene, load);
  const isWithin = (path: string, above: string) => above === "/" || path === above || path.startsWith(`${above}/`);
  const most = groups.map((group) => {
    const [running, waiting, throttled] = load[group];
    // Whole threads, also where means are known only; each of the three is rounded to hundredths.
    return Math.ceil(-0.03 + running.reduce((most, one, bucket) => Math.max(most, one + waiting[bucket] + throttled[bucket]), 1));
  });
  return {
    scene,
    load,
    groups,
    most,
    runs: scene.slices.map((text) => runs(text, scene.tick_ns)),
    held: heldOf(scene.held, scene.tick_ns),
    busy: scene.busy.map(shares),
    throttled: scene.throttled.map((text) => spans(text, scene.tick_ns)),
    within: groups.map((group) => scene.name_groups.map((of) => isWithin(scene.groups[of], scene.groups[group]))),
    exact: groups.map((group) => target === null || isWithin(scene.groups[group], target)),
  };
}

/** First row whose end is behind `at`. */
export function firstBehind(ends: Float64Array, at: number): number {
  let low = 0;
  let high = ends.length;
  while (low < high) {
    const middle = (low + high) >> 1;
    if (ends[middle] <= at) low = middle + 1;
    else high = middle;
  }
  return low;
}

export class Drawing {
  readonly canvas: HTMLCanvasElement;
  private width = 0;
  /** The first CPU that is shown, and the first that is not any more. */
  private first = 0;
  private last: number;

  constructor(
    readonly lanes: Lanes,
    readonly title: string,
    private readonly colors: Map<string, string>,
    /** The thread that is looked for: the others are pale. */
    private readonly sought: () => string,
  ) {
    const { scene } = lanes;
    this.last = Math.min(scene.cpus, MOST_CPUS);
    this.canvas = element("canvas", {
      tabindex: "0",
      role: "img",
      "aria-label": `Timeline of ${title}: ${scene.cpus} CPUs, ${number(scene.length_ms / 1e3, 2)} seconds. Arrow keys move, plus and minus zoom, 0 shows all.`,
    });
  }

  /** Shows CPUs from `first` on, as many as `count`. */
  only(first: number, count: number): void {
    this.first = Math.min(first, this.lanes.scene.cpus);
    this.last = Math.min(first + count, this.lanes.scene.cpus);
  }

  private get cpuHeight(): number {
    const cpus = this.last - this.first;
    return cpus <= 8 ? 18 : cpus <= 16 ? 13 : cpus <= 64 ? 8 : 4;
  }

  private get cpusHeight(): number {
    return (this.last - this.first) * this.cpuHeight + 6;
  }

  private get height(): number {
    return this.cpusHeight + this.lanes.groups.length * GROUP_HEIGHT + AXIS;
  }

  draw(): void {
    const ratio = window.devicePixelRatio || 1;
    this.width = this.canvas.clientWidth;
    const { height } = this;
    this.canvas.width = this.width * ratio;
    this.canvas.height = height * ratio;
    this.canvas.style.height = `${height}px`;
    const context = this.canvas.getContext("2d");
    if (!context) return;
    context.scale(ratio, ratio);
    context.font = "11px system-ui, sans-serif";
    context.textBaseline = "middle";
    for (let cpu = this.first; cpu < this.last; cpu++) this.cpu(context, cpu);
    this.lanes.groups.forEach((_, row) => this.group(context, row));
    this.axis(context);
    if (!this.lanes.scene.complete) this.edges(context);
  }

  private x(ms: number): number {
    return GUTTER + ((ms - shown.from) / (shown.to - shown.from)) * (this.width - GUTTER);
  }

  /** Whether every run in the range is known. */
  private get isInside(): boolean {
    const [from, to] = this.lanes.scene.window_ms;
    return shown.from >= from - 0.001 && shown.to <= to + 0.001;
  }

  private cpu(context: CanvasRenderingContext2D, cpu: number): void {
    const { scene } = this.lanes;
    const { cpuHeight } = this;
    const top = (cpu - this.first) * cpuHeight;
    const every = Math.ceil(12 / cpuHeight);
    if ((cpu - this.first) % every === 0) {
      context.fillStyle = css("--text-soft");
      context.textAlign = "right";
      context.fillText(`CPU ${cpu}`, GUTTER - 6, top + Math.max(6, cpuHeight / 2));
    }
    context.fillStyle = css("--lane");
    context.fillRect(GUTTER, top, this.width - GUTTER, cpuHeight - 1);
    const of = this.lanes.runs[cpu];
    const first = firstBehind(of.to, shown.from);
    const last = firstBehind(of.from, shown.to);
    const crowded = (last - first) * RUN_ROOM > this.width - GUTTER;
    if (crowded || (!scene.complete && !this.isInside)) this.busy(context, cpu, top);
    const sought = this.sought();
    if (crowded && !sought) return;
    let edge = -1;
    for (let row = first; row < last; row++) {
      const name = scene.names[of.name[row]];
      if (crowded && name !== sought) continue;
      const from = Math.max(GUTTER, this.x(of.from[row]));
      const to = Math.max(from + (name === sought ? 1.5 : 0.7), this.x(of.to[row]));
      if (to <= edge) continue;
      context.globalAlpha = sought && name !== sought ? 0.25 : 1;
      context.fillStyle = this.colors.get(name) ?? css("--text-soft");
      context.fillRect(Math.max(from, edge), top, to - Math.max(from, edge), cpuHeight - 1);
      edge = to;
    }
    context.globalAlpha = 1;
  }

  private busy(context: CanvasRenderingContext2D, cpu: number, top: number): void {
    const { scene } = this.lanes;
    const tall = this.cpuHeight - 1;
    context.globalAlpha = this.sought() ? 0.3 : 1;
    context.fillStyle = css("--run");
    const first = Math.max(0, Math.floor(shown.from / scene.bucket_ms));
    const last = Math.min(this.lanes.busy[cpu].length, Math.ceil(shown.to / scene.bucket_ms));
    for (let bucket = first; bucket < last; bucket++) {
      const share = this.lanes.busy[cpu][bucket] / 255;
      if (share === 0) continue;
      const from = Math.max(GUTTER, this.x(bucket * scene.bucket_ms));
      const to = this.x((bucket + 1) * scene.bucket_ms);
      context.fillRect(from, top + tall * (1 - share), Math.max(0.5, to - from), tall * share);
    }
    context.globalAlpha = 1;
  }

  private group(context: CanvasRenderingContext2D, row: number): void {
    const { scene, groups, most } = this.lanes;
    const group = groups[row];
    const head = this.cpusHeight + row * GROUP_HEIGHT;
    const top = head + GROUP_HEAD;
    context.fillStyle = css("--lane");
    context.fillRect(GUTTER, top, this.width - GUTTER, GROUP_TALL);
    const steps = this.lanes.exact[row] && this.isInside ? this.steps(row) : null;
    const peak = steps ? Math.max(most[row], ...steps.map((one) => one.counts[0] + one.counts[1] + one.counts[2])) : most[row];
    if (steps) for (const one of steps) this.stack(context, one.from, one.to, one.counts, peak, top);
    else this.means(context, group, peak, top);
    context.fillStyle = css("--throttled");
    for (const span of this.lanes.throttled[group]) {
      if (span.to < shown.from || span.from > shown.to) continue;
      const from = Math.max(GUTTER, this.x(span.from));
      context.fillRect(from, top + GROUP_TALL + 2, Math.max(0.7, this.x(span.to) - from), 4);
    }
    const height = `  full height: ${peak} ${peak === 1 ? "thread" : "threads"}${steps ? "" : `, means of ${number(scene.bucket_ms, scene.bucket_ms < 1 ? 2 : 0)} ms`}`;
    context.textAlign = "left";
    context.fillStyle = css("--text");
    const path = this.fitted(context, scene.groups[group], this.width - 8);
    context.fillText(path, 2, head + 9);
    const behind = 2 + context.measureText(path).width;
    context.fillStyle = css("--text-soft");
    if (behind + context.measureText(height).width < this.width) context.fillText(height, behind, head + 9);
  }

  /** A path without its middle, where there is no room for all of it. */
  private fitted(context: CanvasRenderingContext2D, path: string, room: number): string {
    if (context.measureText(path).width <= room) return path;
    let keep = path.length - 2;
    const cut = () => `${path.slice(0, Math.ceil(keep / 3))}…${path.slice(-Math.floor((2 * keep) / 3))}`;
    while (keep > 4 && context.measureText(cut()).width > room) keep -= 1;
    return cut();
  }

  private stack(context: CanvasRenderingContext2D, begin: number, end: number, counts: number[], peak: number, top: number): void {
    const from = Math.max(GUTTER, this.x(begin));
    const wide = Math.max(0.5, this.x(end) - from);
    let base = top + GROUP_TALL;
    [css("--run"), css("--wait"), css("--throttled")].forEach((color, kind) => {
      const tall = (counts[kind] / peak) * GROUP_TALL;
      if (tall === 0) return;
      context.fillStyle = color;
      context.fillRect(from, base - tall, wide, tall);
      base -= tall;
    });
  }

  private means(context: CanvasRenderingContext2D, group: number, peak: number, top: number): void {
    const { scene } = this.lanes;
    const load = this.lanes.load[group];
    const first = Math.max(0, Math.floor(shown.from / scene.bucket_ms));
    const last = Math.min(load[0].length, Math.ceil(shown.to / scene.bucket_ms));
    for (let bucket = first; bucket < last; bucket++) {
      const counts = load.map((kind) => kind[bucket]);
      this.stack(context, bucket * scene.bucket_ms, (bucket + 1) * scene.bucket_ms, counts, peak, top);
    }
  }

  /** How many threads of a group ran and waited, change by change; null where there is no room
   * to draw each. */
  private steps(row: number): { from: number; to: number; counts: number[] }[] | null {
    const { within, runs, held } = this.lanes;
    const events: [number, number, number][] = [];
    const add = (from: number, to: number, kind: number) => {
      events.push([Math.max(from, shown.from), kind, 1], [Math.min(to, shown.to), kind, -1]);
    };
    for (const of of runs)
      for (let one = firstBehind(of.to, shown.from); one < of.to.length && of.from[one] < shown.to; one++)
        if (within[row][of.name[one]]) add(of.from[one], of.to[one], 0);
    for (let one = firstBehind(held.to, shown.from); one < held.to.length; one++)
      if (held.from[one] < shown.to && within[row][held.name[one]]) add(held.from[one], held.to[one], 1 + held.kind[one]);
    if (events.length > 2 * (this.width - GUTTER)) return null;
    events.sort((left, right) => left[0] - right[0]);
    const counts = [0, 0, 0];
    const steps: { from: number; to: number; counts: number[] }[] = [];
    let at = shown.from;
    for (const [when, kind, change] of events) {
      if (when > at && counts.some((count) => count > 0)) steps.push({ from: at, to: when, counts: [...counts] });
      counts[kind] += change;
      at = when;
    }
    return steps;
  }

  private axis(context: CanvasRenderingContext2D): void {
    const span = shown.to - shown.from;
    const raw = span / Math.max(2, Math.floor((this.width - GUTTER) / 90));
    const power = 10 ** Math.floor(Math.log10(raw));
    const step = [1, 2, 5, 10].map((factor) => factor * power).find((one) => one >= raw) ?? 10 * power;
    const y = this.height - AXIS / 2;
    context.textAlign = "center";
    for (let tick = Math.ceil(shown.from / step) * step; tick <= shown.to; tick += step) {
      const x = this.x(tick);
      context.fillStyle = css("--line");
      // Not through the headings of groups.
      context.fillRect(x, 0, 1, this.cpusHeight - 6);
      this.lanes.groups.forEach((_, row) => context.fillRect(x, this.cpusHeight + row * GROUP_HEIGHT + GROUP_HEAD, 1, GROUP_TALL));
      context.fillStyle = css("--text-soft");
      const digits = Math.max(0, -Math.floor(Math.log10(step) + 1e-9));
      const text = step >= 100 ? `${number(tick / 1e3, step >= 1000 ? 0 : 1)} s` : `${number(tick, Math.min(digits, 4))} ms`;
      const half = context.measureText(text).width / 2;
      if (x - half >= 0 && x + half <= this.width) context.fillText(text, x, y);
    }
  }

  /** Runs outside the kept window are only known in buckets. */
  private edges(context: CanvasRenderingContext2D): void {
    context.fillStyle = css("--text-soft");
    for (const edge of this.lanes.scene.window_ms) {
      const x = this.x(edge);
      if (x > GUTTER && x < this.width) context.fillRect(x, 0, 1, this.cpusHeight - 6);
    }
  }

  at(x: number): number {
    return shown.from + ((x - GUTTER) / (this.width - GUTTER)) * (shown.to - shown.from);
  }

  /** Description of the run or bucket under a point. */
  under(x: number, y: number): string {
    if (x < GUTTER) return "";
    const { scene } = this.lanes;
    const ms = this.at(x);
    const when = `${number(ms, 3)} ms`;
    const cpu = this.first + Math.floor(y / this.cpuHeight);
    if (cpu < this.last) {
      const of = this.lanes.runs[cpu];
      const row = firstBehind(of.to, ms);
      if (row < of.to.length && of.from[row] <= ms) {
        const name = scene.names[of.name[row]];
        const group = scene.groups[scene.name_groups[of.name[row]]];
        return `CPU ${cpu}, ${when}: ${name} (${group}) for ${number(of.to[row] - of.from[row], 3)} ms`;
      }
      const bucket = this.lanes.busy[cpu][Math.floor(ms / scene.bucket_ms)] ?? 0;
      const known = ms >= scene.window_ms[0] && ms <= scene.window_ms[1];
      return known ? `CPU ${cpu}, ${when}: idle` : `CPU ${cpu}, ${when}: ${Math.round(bucket / 2.55)} % busy`;
    }
    const row = Math.floor((y - this.cpusHeight) / GROUP_HEIGHT);
    const group = this.lanes.groups[row];
    if (group === undefined) return "";
    const steps = this.lanes.exact[row] && this.isInside ? this.steps(row) : null;
    const now = steps?.find((one) => one.from <= ms && one.to > ms)?.counts ?? [0, 0, 0];
    const bucket = Math.floor(ms / scene.bucket_ms);
    const [running, waiting, throttled] = steps ? now.map(String) : this.lanes.load[group].map((kind) => number(kind[bucket] ?? 0, 2));
    return `${scene.groups[group]}, ${when}: threads running ${running}, waiting ${waiting}, throttled ${throttled}`;
  }
}
