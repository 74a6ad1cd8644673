// Who ran where: CPUs and groups of the first seed of every variant, on one time axis that zooms.

import { css, element, number, perVariant } from "./dom";
import { SHOW_TIME } from "./plots";
import { load as loadOf, Runs, runs, shares, Span, spans } from "./decode";
import { Report, Scene } from "./types";

const GUTTER = 96;
const AXIS = 22;
const GROUP_HEIGHT = 46;
/** With less room than this for each run, in pixels, a CPU is drawn as how busy it was. */
const RUN_ROOM = 2.5;

interface View {
  from: number;
  to: number;
}

interface Lanes {
  scene: Scene;
  runs: Runs[];
  busy: Uint8Array[];
  throttled: Span[][];
  load: number[][][];
  cpuHeight: number;
  groups: number[];
}

function cpuHeight(cpus: number): number {
  return cpus <= 8 ? 18 : cpus <= 24 ? 12 : cpus <= 64 ? 7 : 3;
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

function lanes(scene: Scene): Lanes {
  const load = scene.group_load.map((kinds) => kinds.map(loadOf));
  return {
    scene,
    load,
    runs: scene.slices.map((text) => runs(text, scene.tick_ns)),
    busy: scene.busy.map(shares),
    throttled: scene.throttled.map((text) => spans(text, scene.tick_ns)),
    cpuHeight: cpuHeight(scene.cpus),
    groups: busyGroups(scene, load),
  };
}

/** First row whose end is behind `at`. */
function firstBehind(ends: Float64Array, at: number): number {
  let low = 0;
  let high = ends.length;
  while (low < high) {
    const middle = (low + high) >> 1;
    if (ends[middle] <= at) low = middle + 1;
    else high = middle;
  }
  return low;
}

/** A path that fits beside its lane: its end. */
function short(text: string): string {
  if (text.length <= 13) return text;
  const last = text.slice(text.lastIndexOf("/"));
  return `…${last.length > 12 ? last.slice(-12) : last}`;
}

class Drawing {
  readonly canvas: HTMLCanvasElement;
  private width = 0;

  constructor(
    readonly lanes: Lanes,
    readonly title: string,
    private readonly colors: Map<string, string>,
  ) {
    const { scene } = lanes;
    this.canvas = element("canvas", {
      tabindex: "0",
      role: "img",
      "aria-label": `Timeline of ${title}: ${scene.cpus} CPUs, ${number(scene.length_ms / 1e3, 2)} seconds. Arrow keys move, plus and minus zoom, 0 shows all.`,
    });
  }

  height(): number {
    return this.lanes.scene.cpus * this.lanes.cpuHeight + 8 + this.lanes.groups.length * GROUP_HEIGHT + AXIS;
  }

  draw(view: View): void {
    const ratio = window.devicePixelRatio || 1;
    this.width = this.canvas.clientWidth;
    const height = this.height();
    this.canvas.width = this.width * ratio;
    this.canvas.height = height * ratio;
    this.canvas.style.height = `${height}px`;
    const context = this.canvas.getContext("2d");
    if (!context) return;
    context.scale(ratio, ratio);
    context.font = "11px system-ui, sans-serif";
    context.textBaseline = "middle";
    const { scene } = this.lanes;
    for (let cpu = 0; cpu < scene.cpus; cpu++) this.cpu(context, view, cpu);
    this.lanes.groups.forEach((group, row) => this.group(context, view, group, row));
    this.axis(context, view);
    if (!scene.complete) this.outside(context, view);
  }

  private x(view: View, ms: number): number {
    return GUTTER + ((ms - view.from) / (view.to - view.from)) * (this.width - GUTTER);
  }

  private label(context: CanvasRenderingContext2D, text: string, y: number): void {
    context.fillStyle = css("--text-soft");
    context.textAlign = "right";
    context.fillText(short(text), GUTTER - 8, y);
  }

  private cpu(context: CanvasRenderingContext2D, view: View, cpu: number): void {
    const { scene, cpuHeight } = this.lanes;
    const top = cpu * cpuHeight;
    const every = Math.max(1, Math.ceil(12 / cpuHeight));
    if (cpu % every === 0) this.label(context, `CPU ${cpu}`, top + cpuHeight / 2);
    context.fillStyle = css("--lane");
    context.fillRect(GUTTER, top, this.width - GUTTER, cpuHeight - 1);
    const of = this.lanes.runs[cpu];
    const first = firstBehind(of.to, view.from);
    const last = firstBehind(of.from, view.to);
    const inside = view.from >= scene.window_ms[0] - 0.001 && view.to <= scene.window_ms[1] + 0.001;
    const crowded = (last - first) * RUN_ROOM > this.width - GUTTER;
    if (crowded || (!scene.complete && !inside)) {
      this.busy(context, view, cpu, top);
      if (crowded) return;
    }
    let edge = -1;
    for (let row = first; row < last; row++) {
      const from = Math.max(GUTTER, this.x(view, of.from[row]));
      const to = Math.max(from + 0.7, this.x(view, of.to[row]));
      if (to <= edge) continue;
      context.fillStyle = this.colors.get(scene.names[of.name[row]]) ?? css("--text-soft");
      context.fillRect(Math.max(from, edge), top, to - Math.max(from, edge), cpuHeight - 1);
      edge = to;
    }
  }

  private busy(context: CanvasRenderingContext2D, view: View, cpu: number, top: number): void {
    const { scene, cpuHeight } = this.lanes;
    context.fillStyle = css("--run");
    const first = Math.max(0, Math.floor(view.from / scene.bucket_ms));
    const last = Math.min(this.lanes.busy[cpu].length, Math.ceil(view.to / scene.bucket_ms));
    for (let bucket = first; bucket < last; bucket++) {
      const share = this.lanes.busy[cpu][bucket] / 255;
      if (share === 0) continue;
      const from = Math.max(GUTTER, this.x(view, bucket * scene.bucket_ms));
      const to = this.x(view, (bucket + 1) * scene.bucket_ms);
      context.fillRect(from, top + (cpuHeight - 1) * (1 - share), Math.max(0.5, to - from), (cpuHeight - 1) * share);
    }
  }

  private group(context: CanvasRenderingContext2D, view: View, group: number, row: number): void {
    const { scene } = this.lanes;
    const top = scene.cpus * this.lanes.cpuHeight + 8 + row * GROUP_HEIGHT;
    const height = GROUP_HEIGHT - 14;
    this.label(context, scene.groups[group], top + height / 2);
    context.fillStyle = css("--lane");
    context.fillRect(GUTTER, top, this.width - GUTTER, height);
    const load = this.lanes.load[group];
    if (!load[0].length) return;
    const first = Math.max(0, Math.floor(view.from / scene.bucket_ms));
    const last = Math.min(load[0].length, Math.ceil(view.to / scene.bucket_ms));
    let most = 1;
    for (let bucket = 0; bucket < load[0].length; bucket++) most = Math.max(most, load[0][bucket] + load[1][bucket] + load[2][bucket]);
    const colors = [css("--run"), css("--wait"), css("--throttled")];
    for (let bucket = first; bucket < last; bucket++) {
      const from = Math.max(GUTTER, this.x(view, bucket * scene.bucket_ms));
      const wide = Math.max(0.5, this.x(view, (bucket + 1) * scene.bucket_ms) - from);
      let base = top + height;
      for (let kind = 0; kind < 3; kind++) {
        const tall = (load[kind][bucket] / most) * height;
        if (tall === 0) continue;
        context.fillStyle = colors[kind];
        context.fillRect(from, base - tall, wide, tall);
        base -= tall;
      }
    }
    context.fillStyle = css("--throttled");
    for (const span of this.lanes.throttled[group]) {
      if (span.to < view.from || span.from > view.to) continue;
      const from = Math.max(GUTTER, this.x(view, span.from));
      context.fillRect(from, top + height + 2, Math.max(0.7, this.x(view, span.to) - from), 4);
    }
    context.fillStyle = css("--text-soft");
    context.textAlign = "left";
    context.fillText(most === 1 ? "1 thread" : `${Number(most.toPrecision(2))} threads`, GUTTER + 4, top + 7);
  }

  private axis(context: CanvasRenderingContext2D, view: View): void {
    const span = view.to - view.from;
    const room = Math.max(2, Math.floor((this.width - GUTTER) / 90));
    const raw = span / room;
    const power = 10 ** Math.floor(Math.log10(raw));
    const step = [1, 2, 5, 10].map((factor) => factor * power).find((one) => one >= raw) ?? 10 * power;
    const y = this.height() - AXIS / 2;
    context.textAlign = "center";
    for (let tick = Math.ceil(view.from / step) * step; tick <= view.to; tick += step) {
      const x = this.x(view, tick);
      context.fillStyle = css("--line");
      context.fillRect(x, 0, 1, this.height() - AXIS);
      context.fillStyle = css("--text-soft");
      const digits = Math.max(0, -Math.floor(Math.log10(step) + 1e-9));
      const text = step >= 100 ? `${number(tick / 1e3, step >= 1000 ? 0 : 1)} s` : `${number(tick, Math.min(digits, 4))} ms`;
      if (x > GUTTER + 16 && x < this.width - 20) context.fillText(text, x, y);
    }
  }

  /** What lies outside the kept window is only known in buckets. */
  private outside(context: CanvasRenderingContext2D, view: View): void {
    const { scene } = this.lanes;
    context.fillStyle = css("--text-soft");
    for (const edge of scene.window_ms) {
      const x = this.x(view, edge);
      if (x > GUTTER && x < this.width) context.fillRect(x, 0, 1, scene.cpus * this.lanes.cpuHeight);
    }
  }

  at(view: View, x: number): number {
    return view.from + ((x - GUTTER) / (this.width - GUTTER)) * (view.to - view.from);
  }

  /** What lies under a point, in words. */
  under(view: View, x: number, y: number): string {
    if (x < GUTTER) return "";
    const { scene, cpuHeight } = this.lanes;
    const ms = this.at(view, x);
    const when = `${number(ms, 3)} ms`;
    const cpu = Math.floor(y / cpuHeight);
    if (cpu < scene.cpus) {
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
    const group = this.lanes.groups[Math.floor((y - scene.cpus * cpuHeight - 8) / GROUP_HEIGHT)];
    if (group === undefined) return "";
    const bucket = Math.floor(ms / scene.bucket_ms);
    const mean = this.lanes.load[group].map((kind) => number(kind[bucket] ?? 0, 2));
    return `${scene.groups[group]}, ${when}: threads running ${mean[0]}, waiting ${mean[1]}, throttled ${mean[2]}`;
  }
}

/** A colour for every thread name, the same in all variants; the busiest get the most distinct ones. */
function nameColors(all: Lanes[]): Map<string, string> {
  const time = new Map<string, number>();
  for (const { scene, runs } of all)
    for (const of of runs)
      for (let row = 0; row < of.name.length; row++) {
        const name = scene.names[of.name[row]];
        time.set(name, (time.get(name) ?? 0) + of.to[row] - of.from[row]);
      }
  const sorted = [...time.keys()].sort((left, right) => (time.get(right) ?? 0) - (time.get(left) ?? 0));
  return new Map(sorted.map((name, row) => [name, css(`--thread-${Math.min(row, 9)}`)]));
}

function legend(colors: Map<string, string>): HTMLElement {
  const box = element("div", { class: "legend" });
  const add = (name: string, color: string) => {
    const dot = element("span", { class: "dot", "aria-hidden": "true" });
    dot.style.background = color;
    box.append(element("span", { class: "part" }, dot, name));
  };
  const names = [...colors];
  for (const [name, color] of names.slice(0, 9)) add(name, color);
  if (names.length > 9) add("others", css("--thread-9"));
  box.append(element("span", { class: "part" }, "· groups:"));
  add("running", css("--run"));
  add("waiting", css("--wait"));
  add("throttled", css("--throttled"));
  return box;
}

export function timeline(report: Report): HTMLElement {
  const all = report.scenes.map(lanes);
  const colors = nameColors(all);
  const length = Math.max(...report.scenes.map((scene) => scene.length_ms));
  const view: View = { from: 0, to: length };
  const drawings = all.map((one, row) => new Drawing(one, report.variants[row].name, colors));
  const info = element("p", { class: "info", role: "status", "aria-live": "polite" }, " ");
  let planned = false;
  const redraw = () => {
    if (planned) return;
    planned = true;
    requestAnimationFrame(() => {
      planned = false;
      for (const drawing of drawings) if (drawing.canvas.clientWidth) drawing.draw(view);
    });
  };
  const set = (from: number, to: number) => {
    const span = Math.min(length, Math.max(0.02, to - from));
    view.from = Math.min(Math.max(0, from), length - span);
    view.to = view.from + span;
    redraw();
  };
  const zoom = (at: number, factor: number) => set(at - (at - view.from) * factor, at + (view.to - at) * factor);
  const button = (text: string, label: string, act: () => void) => {
    const made = element("button", { type: "button", "aria-label": label, title: label }, text);
    made.addEventListener("click", act);
    return made;
  };
  const middle = () => (view.from + view.to) / 2;
  const tools = element(
    "div",
    { class: "tools" },
    button("−", "Zoom out", () => zoom(middle(), 2)),
    button("+", "Zoom in", () => zoom(middle(), 0.5)),
    button("all", "Show the whole run", () => set(0, length)),
  );
  const first = report.scenes[0];
  if (first && !first.complete) tools.append(button("detail", "Show the part with every run of a thread", () => set(...first.window_ms)));
  const worst = first?.worst;
  if (worst) {
    const [at, long, who] = worst;
    const label = `Longest wait of ${report.variants[0].name}: ${who}, ${number(long, 2)} ms`;
    tools.append(button("longest wait", label, () => set(at - long * 0.5, at + long * 1.5)));
  }
  const box = element("div", { class: "timeline" }, tools, info);
  const make = (row: number) => {
    const drawing = drawings[row];
    hands(drawing, view, set, zoom, info);
    new ResizeObserver(redraw).observe(drawing.canvas);
    return element("div", {}, element("h3", {}, drawing.title), drawing.canvas);
  };
  const lanesOf = perVariant(report.variants.map((one) => one.name), report.cheapest, make);
  lanesOf.classList.add("stacked");
  box.append(lanesOf);
  document.addEventListener(SHOW_TIME, (event) => {
    const { from, to } = (event as CustomEvent<View>).detail;
    if (!box.isConnected) return;
    set(from, to);
    box.scrollIntoView({ block: "start" });
  });
  box.append(legend(colors));
  redraw();
  return box;
}

/** Mouse, touch and keys. */
function hands(
  drawing: Drawing,
  view: View,
  set: (from: number, to: number) => void,
  zoom: (at: number, factor: number) => void,
  info: HTMLElement,
): void {
  const { canvas } = drawing;
  let held: { x: number; from: number; to: number } | null = null;
  canvas.addEventListener(
    "wheel",
    (event) => {
      if (!event.ctrlKey && !event.shiftKey && document.activeElement !== canvas) return;
      event.preventDefault();
      zoom(drawing.at(view, event.offsetX), event.deltaY > 0 ? 1.25 : 0.8);
    },
    { passive: false },
  );
  canvas.addEventListener("pointerdown", (event) => {
    held = { x: event.offsetX, from: view.from, to: view.to };
    canvas.setPointerCapture(event.pointerId);
  });
  canvas.addEventListener("pointerup", () => (held = null));
  canvas.addEventListener("pointermove", (event) => {
    if (held) {
      const moved = ((event.offsetX - held.x) / (canvas.clientWidth - GUTTER)) * (held.to - held.from);
      set(held.from - moved, held.to - moved);
    } else {
      info.textContent = drawing.under(view, event.offsetX, event.offsetY) || " ";
    }
  });
  canvas.addEventListener("dblclick", (event) => zoom(drawing.at(view, event.offsetX), 0.25));
  canvas.addEventListener("keydown", (event) => {
    const span = view.to - view.from;
    const middle = (view.from + view.to) / 2;
    const act: Record<string, () => void> = {
      ArrowLeft: () => set(view.from - span / 8, view.to - span / 8),
      ArrowRight: () => set(view.from + span / 8, view.to + span / 8),
      "+": () => zoom(middle, 0.5),
      "=": () => zoom(middle, 0.5),
      "-": () => zoom(middle, 2),
      "0": () => set(0, Infinity),
    };
    if (!act[event.key]) return;
    event.preventDefault();
    act[event.key]();
  });
}
