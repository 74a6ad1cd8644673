// Forecasts of other limits: the latency against the quota, a line for each burst; below it the
// price for the neighbours.

import { scaleOf, css, duration, element, number } from "./dom";
import { onPromise, percentileOf, promise, promised } from "./promise";
import { apart, download, downloadPng, EndLabel, Range, shape } from "./svg";
import { Frontier, FrontierLine, FrontierPoint, Grant } from "./types";

/** A limit that was set with the controls or pinned, and what came of it. */
export interface Chosen {
  /** Text beside its mark. */
  name: string;
  limit: Grant;
  /** By full name of the metric, in its own unit. */
  values: Map<string, number>;
}

const TALL = 300;
const PRICE_TALL = 84;
const LEFT = 62;
const TOP = 26;
const GAP = 46;
const BOTTOM = 40;
const ROOM = 15;

function ms(us: number): string {
  return `${Number((us / 1e3).toPrecision(6))} ms`;
}

/** A limit in the units that people type. */
export function limitText(limit: Grant): string {
  if (limit.quota_us === null) return "no limit";
  const milli = Math.ceil((limit.quota_us * 1000) / limit.period_us);
  const burst = limit.burst_us ? `, burst ${ms(limit.burst_us)}` : "";
  return `${ms(limit.quota_us)} in ${ms(limit.period_us)} = ${milli}m${burst}`;
}

export function lineName(line: FrontierLine): string {
  return line.burst_us ? `burst ${ms(line.burst_us)}` : "no burst";
}

function cpus(limit: Grant): number {
  return limit.quota_us === null ? Infinity : limit.quota_us / limit.period_us;
}

function same(one: Grant, other: Grant): boolean {
  return one.quota_us === other.quota_us && one.period_us === other.period_us && one.burst_us === other.burst_us;
}

function keeps(point: FrontierPoint, measure: number, limit: number, fromAbove: boolean): boolean {
  const value = point.values[measure];
  if (!value || point.falls_behind !== null || (value.at_least && fromAbove)) return false;
  return fromAbove ? value.interval[1] < limit : value.interval[0] > limit;
}

/** Of the drawn limits that keep the promise the one that grants least, then the one with least
 * burst. */
export function cheapest(frontier: Frontier): FrontierPoint | null {
  const { measure, limit } = promised;
  if (limit === null) return null;
  const points = frontier.lines.flatMap((line) => line.points);
  const fromAbove = frontier.measures[measure].from_above;
  const kept = points.filter((point) => keeps(point, measure, limit, fromAbove));
  kept.sort((left, right) => cpus(left) - cpus(right) || left.burst_us - right.burst_us);
  return kept[0] ?? null;
}

/** A value of a measure, in words. */
function words(frontier: Frontier, measure: number, value: number): string {
  return frontier.measures[measure].unit === "us" ? duration(value) : `${Number(value.toPrecision(4))}`;
}

function describe(frontier: Frontier, line: FrontierLine | null, point: FrontierPoint): string {
  const { measure } = promised;
  const value = point.values[measure];
  const name = percentileOf(frontier.measures[measure].name);
  const parts = [line ? limitText(point) : "no limit"];
  if (value) {
    const bound = value.at_least ? "at least " : "";
    const [low, high] = value.interval.map((end) => words(frontier, measure, end));
    parts.push(`${name} ${bound}${words(frontier, measure, value.mean)}, in 95 of 100 runs ${low} to ${high}`);
  }
  if (point.falls_behind) parts.push(`it falls behind: ${point.falls_behind}`);
  parts.push(`${number(100 * point.periods_throttled, 1)} % of the periods are throttled`);
  if (point.price) parts.push(`${point.price.threads} pays ${signed(point.price.growth)}`);
  return parts.join("; ");
}

function signed(share: number): string {
  return `${share < 0 ? "−" : "+"}${number(Math.abs(100 * share), 1)} %`;
}

/** The sentence below the picture: what the promise costs. */
function answer(frontier: Frontier): string {
  if (promised.limit === null) return "Type a promise to see the cheapest of these limits that keeps it.";
  const best = cheapest(frontier);
  const { measure } = promised;
  if (!best) return "None of these limits keeps the promise with the upper end of its band.";
  const value = best.values[measure];
  const becomes = value ? `${words(frontier, measure, value.mean)}, at most ${words(frontier, measure, value.interval[1])} in 95 of 100 runs` : "";
  const left = number(100 * best.periods_throttled, 1);
  const pays = best.price ? `; ${best.price.threads} pays ${signed(best.price.growth)}` : "";
  const stays = same(best, frontier.recorded) ? " It is the recorded one." : "";
  return `The cheapest of these limits that keeps the promise is ${limitText(best)}: ${percentileOf(frontier.measures[measure].name)} becomes ${becomes}; ${left} % of the periods are still throttled${pays}.${stays}`;
}

class Picture {
  private readonly x: Range;
  private readonly y: Range;
  private readonly right: number;
  readonly svg: SVGElement;
  readonly spots: { x: number; y: number; text: string }[] = [];

  constructor(
    private readonly frontier: Frontier,
    private readonly width: number,
    private readonly chosen: Chosen[],
  ) {
    const { measure, limit } = promised;
    const points = [...frontier.lines.flatMap((line) => line.points), frontier.unlimited];
    const values = points.flatMap((point) => (point.values[measure] ? [point.values[measure].mean, ...point.values[measure].interval] : []));
    const seen = frontier.measured.flatMap((one) => one.values[measure] ?? []);
    const set = chosen.map((one) => one.values.get(frontier.measures[measure].metric) ?? 0);
    const grants = points.map(cpus).concat(frontier.used_cpus, chosen.map((one) => cpus(one.limit)));
    this.x = Range.of(grants) ?? new Range(0.1, 1);
    this.y = Range.of([...values, ...seen, limit ?? 0, ...set, frontier.measures[measure].seen ?? 0]) ?? new Range(1, 10);
    this.right = width < 560 ? 92 : 130;
    const high = TOP + TALL + GAP + PRICE_TALL + BOTTOM;
    const name = frontier.measures[measure].name;
    this.svg = shape("svg", { viewBox: `0 0 ${width} ${high}`, width, height: high, role: "img", tabindex: 0, "font-family": "system-ui, sans-serif", "font-size": 12 });
    this.svg.setAttribute("aria-label", `${name} of ${frontier.target} against its limit, a line for each burst. The arrow keys go from point to point; the same numbers stand in the table below.`);
    this.draw();
  }

  private across(limit: number): number {
    return LEFT + this.x.share(limit) * (this.width - LEFT - this.right);
  }

  private up(value: number): number {
    return TOP + TALL - this.y.share(value) * TALL;
  }

  private put(tag: string, attributes: Record<string, string | number>, text = ""): void {
    this.svg.append(shape(tag, attributes, text));
  }

  private text(x: number, y: number, text: string, anchor = "start", color = css("--text-soft")): void {
    this.put("text", { x, y, "text-anchor": anchor, fill: color, stroke: css("--card"), "stroke-width": 3, "paint-order": "stroke" }, text);
  }

  /** The name of a line at its end, behind a mark of its colour. */
  private name(edge: number, label: EndLabel): void {
    this.put("rect", { x: edge + 6, y: label.at - 4, width: 8, height: 8, rx: 2, fill: label.color });
    this.text(edge + 18, label.at + 4, label.text, "start", css("--text"));
  }

  private draw(): void {
    const { frontier } = this;
    const measure = frontier.measures[promised.measure];
    const edge = this.width - this.right;
    this.put("rect", { width: "100%", height: "100%", fill: css("--card") });
    const used = this.across(frontier.used_cpus);
    if (used > LEFT + 4) this.put("rect", { x: LEFT, y: TOP, width: used - LEFT, height: TALL, fill: css("--lane") });
    this.axes(measure.unit, measure.name, edge);
    const labels: EndLabel[] = [];
    frontier.lines.forEach((line, row) => this.band(line, css(`--variant-${row + 1}`)));
    const without = frontier.unlimited.values[promised.measure];
    if (without) {
      this.across_line(this.up(without.mean), css("--text-soft"), "2 4", edge);
      labels.push({ at: this.up(without.mean), text: "no limit", color: css("--text-soft") });
      this.spots.push({ x: edge, y: this.up(without.mean), text: describe(frontier, null, frontier.unlimited) });
    }
    if (promised.limit !== null) {
      this.across_line(this.up(promised.limit), css("--throttled"), "7 4", edge);
      labels.push({ at: this.up(promised.limit), text: "promised", color: css("--throttled") });
    }
    frontier.lines.forEach((line, row) => this.line(line, row, labels));
    this.measured();
    this.marked();
    for (const label of apart(labels, TOP + 4, TOP + TALL, ROOM)) this.name(edge, label);
    this.prices(edge);
  }

  private across_line(at: number, color: string, dash: string, edge: number): void {
    this.put("path", { d: `M${LEFT} ${at}H${edge}`, stroke: color, "stroke-width": 1.5, "stroke-dasharray": dash, fill: "none" });
  }

  private axes(unit: string, name: string, edge: number): void {
    const scale = unit === "us" ? scaleOf(this.y.high) : { divisor: 1, unit };
    this.text(4, 14, `↑ ${name}${scale.unit ? `, ${scale.unit}` : ""}`);
    for (const mark of this.y.marks()) {
      this.put("path", { d: `M${LEFT} ${this.up(mark)}H${edge}`, stroke: css("--line") });
      this.text(LEFT - 7, this.up(mark) + 4, `${Number((mark / scale.divisor).toPrecision(4))}`, "end");
    }
    const floor = TOP + TALL + GAP + PRICE_TALL;
    let free = 0;
    const period = this.frontier.recorded.period_us;
    for (const mark of this.x.marks()) {
      const x = this.across(mark);
      this.put("path", { d: `M${x} ${TOP}V${TOP + TALL}M${x} ${TOP + TALL + GAP}V${floor}`, stroke: css("--line") });
      if (x < free) continue;
      this.text(x, floor + 16, String(mark), "middle");
      free = x + 36;
    }
    this.text((LEFT + edge) / 2, floor + 34, `limit in CPUs → (1 is ${ms(period)} in ${ms(period)})`, "middle");
  }

  private places(line: FrontierLine): { point: FrontierPoint; x: number; y: number }[] {
    const places = [];
    for (const point of line.points) {
      const value = point.values[promised.measure];
      if (value) places.push({ point, x: this.across(cpus(point)), y: this.up(value.mean) });
    }
    return places;
  }

  private band(line: FrontierLine, color: string): void {
    const ends = (side: 0 | 1) =>
      line.points.flatMap((point) => {
        const value = point.values[promised.measure];
        return value ? [`${this.across(cpus(point))},${this.up(value.interval[side])}`] : [];
      });
    this.put("polygon", { points: [...ends(1), ...ends(0).reverse()].join(" "), fill: color, "fill-opacity": 0.13 });
  }

  private line(line: FrontierLine, row: number, labels: EndLabel[]): void {
    const color = css(`--variant-${row + 1}`);
    const places = this.places(line);
    this.put("polyline", { points: places.map(({ x, y }) => `${x},${y}`).join(" "), fill: "none", stroke: color, "stroke-width": 2.25, "stroke-dasharray": ["", "9 3", "3 3", "12 3 3 3"][row % 4] });
    for (const { point, x, y } of places) {
      const hollow = point.falls_behind !== null || point.values[promised.measure]?.at_least;
      this.put("circle", { cx: x, cy: y, r: 3.5, fill: hollow ? css("--card") : color, stroke: color, "stroke-width": 1.5 });
      this.spots.push({ x, y, text: describe(this.frontier, line, point) });
    }
    const last = places[places.length - 1];
    if (last) labels.push({ at: last.y, text: lineName(line), color });
  }

  private measured(): void {
    const { frontier } = this;
    for (const one of frontier.measured) {
      const value = one.values[promised.measure];
      if (!value || one.quota_us === null) continue;
      const row = frontier.lines.findIndex((line) => Math.min(line.burst_us, one.quota_us ?? 0) === one.burst_us);
      const color = row < 0 ? css("--text") : css(`--variant-${row + 1}`);
      const [median, least, most] = value;
      const x = this.across(cpus(one));
      this.put("path", { d: `M${x} ${this.up(least)}V${this.up(most)}`, stroke: color, "stroke-width": 1.5 });
      this.put("rect", { x: x - 4.5, y: this.up(median) - 4.5, width: 9, height: 9, fill: css("--card"), stroke: color, "stroke-width": 2 });
      const [shown, from, to] = [median, least, most].map((value) => words(frontier, promised.measure, value));
      this.spots.push({ x, y: this.up(median), text: `${limitText(one)}, measured: ${shown}, from ${from} to ${to}` });
    }
  }

  /** Rings around the recorded limit and the cheapest that keeps the promise, and what the
   * controls are set to. */
  private marked(): void {
    const { frontier, chosen } = this;
    const { measure } = promised;
    const at = (point: FrontierPoint) => {
      const value = point.values[measure];
      return value ? { x: this.across(cpus(point)), y: this.up(value.mean) } : null;
    };
    const all = frontier.lines.flatMap((line) => line.points);
    const ring = (place: { x: number; y: number }, color: string, text: string, above: boolean) => {
      this.put("circle", { cx: place.x, cy: place.y, r: 8, fill: "none", stroke: color, "stroke-width": 2.5 });
      const late = place.x > this.width - this.right - 110;
      this.text(place.x + (late ? -12 : 12), place.y + (above ? -9 : 18), text, late ? "end" : "start", color);
    };
    const best = cheapest(frontier);
    const recorded = all.find((point) => same(point, frontier.recorded));
    const place = recorded && at(recorded);
    if (place) ring(place, css("--text"), recorded === best ? "recorded limit, keeps the promise" : "recorded limit", true);
    const kept = best && best !== recorded && at(best);
    if (kept) ring(kept, css("--accent"), "cheapest that keeps it", false);
    for (const one of chosen) {
      const value = one.values.get(frontier.measures[measure].metric);
      if (!value || one.limit.quota_us === null) continue;
      const [x, y] = [this.across(cpus(one.limit)), this.up(value)];
      const late = x > this.width - this.right - 90;
      this.put("path", { d: `M${x} ${y - 9}l9 9l-9 9l-9 -9z`, fill: css("--accent"), stroke: css("--card"), "stroke-width": 1.5 });
      const name = this.width < 560 ? one.name.replace("pinned ", "").replace("what you set", "set") : one.name;
      this.text(x + (late ? -13 : 13), y - 8, name, late ? "end" : "start", css("--accent"));
      this.spots.push({ x, y, text: `${one.name}, ${limitText(one.limit)}: ${words(frontier, measure, value)}` });
    }
  }

  private prices(edge: number): void {
    const top = TOP + TALL + GAP;
    const all = [...this.frontier.lines.flatMap((line) => line.points), this.frontier.unlimited];
    const growths = all.flatMap((point) => (point.price ? [point.price.growth] : []));
    if (!growths.length) {
      this.text(4, top - 10, "No neighbour used enough CPU time to pay for another limit.");
      return;
    }
    const payers = [...new Set(all.flatMap((point) => (point.price ? [point.price.threads] : [])))];
    const who = payers.length === 1 ? `what “${payers[0]}” pays` : "what the neighbour that loses most pays";
    const narrow = this.width < 560 ? who.replace("the neighbour that loses most", "the poorest neighbour") : who;
    this.text(4, top - 10, `↑ ${narrow}, %`);
    const most = Math.max(0.05, ...growths.map(Math.abs));
    const middle = top + PRICE_TALL / 2;
    const y = (growth: number) => middle - (growth / most) * (PRICE_TALL / 2);
    for (const growth of [-most, 0, most]) {
      this.put("path", { d: `M${LEFT} ${y(growth)}H${edge}`, stroke: css("--line") });
      this.text(LEFT - 7, y(growth) + 4, signed(growth).replace(/\.\d+ %/, ""), "end");
    }
    const labels: EndLabel[] = [];
    this.frontier.lines.forEach((line, row) => {
      const color = css(`--variant-${row + 1}`);
      const places = line.points.filter((point) => point.price).map((point) => [this.across(cpus(point)), y(point.price?.growth ?? 0)]);
      this.put("polyline", { points: places.map((place) => place.join(",")).join(" "), fill: "none", stroke: color, "stroke-width": 2 });
      const last = places[places.length - 1];
      if (last) labels.push({ at: last[1], text: lineName(line), color });
    });
    for (const label of apart(labels, top + 4, top + PRICE_TALL, ROOM)) this.name(edge, label);
  }
}

/** The same numbers as text. */
function asTable(frontier: Frontier): HTMLElement {
  const { measure } = promised;
  const head = element("tr", {}, element("th", { scope: "col" }, "quota"));
  for (const line of frontier.lines) head.append(element("th", { scope: "col" }, lineName(line)));
  const rows = element("tbody");
  frontier.lines[0]?.points.forEach((first, row) => {
    const cells = frontier.lines.map((line) => {
      const value = line.points[row]?.values[measure];
      const text = value ? `${value.at_least ? "≥" : ""}${words(frontier, measure, value.mean)} (${value.interval.map((end) => words(frontier, measure, end)).join(" to ")})` : "–";
      return element("td", { "data-name": lineName(line) }, text);
    });
    rows.append(element("tr", {}, element("th", { scope: "row" }, ms(first.quota_us ?? 0)), ...cells));
  });
  const table = element("table", {}, element("thead", {}, head), rows);
  return element("div", { class: "scroll", tabindex: "0", role: "region", "aria-label": "the frontier as a table" }, table);
}

/** Which percentile is promised, and how long it may be. */
export function promiseFields(frontier: Frontier): HTMLElement {
  const select = element("select", { id: "percentile", "aria-label": "promised percentile" });
  frontier.measures.forEach((one, row) => select.append(element("option", { value: String(row) }, percentileOf(one.name))));
  select.value = String(promised.measure);
  const input = element("input", { id: "promise", type: "number", min: "0", step: "any", inputmode: "decimal", placeholder: "none", "aria-label": "promised to take less than, ms", value: promised.limit === null ? "" : String(promised.limit / 1e3) });
  const tell = () => promise({ measure: Number(select.value), limit: Number(input.value) > 0 ? Number(input.value) * 1e3 : null });
  select.addEventListener("change", tell);
  input.addEventListener("input", tell);
  return element("div", { class: "promise" }, element("span", {}, "promise"), select, element("span", {}, "<"), input, element("span", {}, "ms"));
}

/** The picture with its controls; `chosen` is what the controls of a served page are and were
 * set to. */
export function frontierView(frontier: Frontier, fields: boolean, chosen: () => Chosen[]): { box: HTMLElement; redraw: () => void } {
  const holder = element("div", { class: "frontier" });
  const said = element("p", { class: "info", id: "frontier-point" }, "");
  const verdict = element("p", { class: "answer", id: "frontier-answer", "aria-live": "polite" });
  const numbers = element("details", {}, element("summary", {}, "the same as a table"));
  let picture: Picture | null = null;
  let spot = -1;
  const hint = "□ measured · ○ falls behind · point at the picture to read its values";
  const say = (row: number) => {
    spot = row;
    said.textContent = picture?.spots[row]?.text ?? hint;
  };
  const draw = () => {
    const width = Math.max(280, holder.clientWidth);
    const focused = holder.contains(document.activeElement);
    picture = new Picture(frontier, width, chosen());
    holder.replaceChildren(picture.svg);
    if (focused) picture.svg.focus();
    verdict.textContent = answer(frontier);
    if (numbers.open) numbers.replaceChildren(numbers.children[0], asTable(frontier));
    say(-1);
  };
  holder.addEventListener("pointermove", (event) => {
    const box = holder.getBoundingClientRect();
    const far = (one: { x: number; y: number }) => Math.hypot(one.x - (event.clientX - box.left), one.y - (event.clientY - box.top));
    const spots = picture?.spots ?? [];
    const near = spots.reduce((best, one, row) => (far(one) < far(spots[best]) ? row : best), 0);
    say(spots[near] && far(spots[near]) < 60 ? near : -1);
  });
  holder.addEventListener("keydown", (event) => {
    const step = { ArrowRight: 1, ArrowLeft: -1, ArrowDown: 1, ArrowUp: -1 }[event.key];
    if (!step || !picture) return;
    event.preventDefault();
    const count = picture.spots.length;
    say((spot + step + count) % count);
  });
  numbers.addEventListener("toggle", draw);
  onPromise(draw);
  let wide = 0;
  new ResizeObserver(() => {
    if (Math.abs(holder.clientWidth - wide) < 2) return;
    wide = holder.clientWidth;
    draw();
  }).observe(holder);
  holder.style.minHeight = `${TOP + TALL + GAP + PRICE_TALL + BOTTOM}px`;
  const save = element("button", { type: "button" }, "save as SVG");
  save.addEventListener("click", () => picture && download(picture.svg, "frontier.svg"));
  const savePng = element("button", { type: "button" }, "as PNG");
  savePng.addEventListener("click", () => picture && downloadPng(picture.svg, "frontier.png"));
  const head = element("div", { class: "tools" }, ...(fields ? [promiseFields(frontier)] : []), save, savePng);
  return { box: element("div", {}, head, verdict, holder, said, numbers), redraw: draw };
}
