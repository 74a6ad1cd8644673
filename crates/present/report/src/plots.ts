// Plots of lines: latency distributions, periods, power.

import uPlot from "uplot";
import { choice, css, duration, element, number, perVariant, scaleOf, variantColor } from "./dom";
import { isWhole, onRange, show as showRange, showAll, shown } from "./range";
import { apart } from "./svg";
import { GroupSettings, Periods, Report, Scene } from "./types";

function axis(label: string, extra: Partial<uPlot.Axis> = {}): uPlot.Axis {
  return {
    label,
    stroke: css("--text-soft"),
    grid: { stroke: css("--line"), width: 1 },
    ticks: { stroke: css("--line"), width: 1 },
    font: "12px system-ui, sans-serif",
    labelFont: "12px system-ui, sans-serif",
    ...extra,
  };
}

/** Least number of periods that stand side by side, and of points of a curve. */
const LEAST_POINTS = 12;

/**
 * Has a plot over time, whose points are `apart` ms apart, follow the range of the page; what
 * the timeline shows is shaded where that is less. A dragged range becomes that of the page, a
 * click is told to `click`.
 */
function followed(apart: number, click?: (row: number | null | undefined) => void): Pick<uPlot.Options, "cursor" | "hooks"> & { scale: uPlot.Scale } {
  let dragged = false;
  const range = (): [number, number] => {
    const room = Math.min(shown.length, Math.max(shown.to - shown.from, apart * LEAST_POINTS));
    const from = Math.min(Math.max(0, (shown.from + shown.to - room) / 2), shown.length - room);
    return [from / 1e3, (from + room) / 1e3];
  };
  const apply = (plot: uPlot) => {
    const [min, max] = range();
    plot.setScale("x", { min, max });
  };
  return {
    scale: { time: false, range },
    cursor: { sync: { key: "time" }, drag: { x: true, y: false, setScale: false }, bind: { dblclick: () => () => (showAll(), null) } },
    hooks: {
      ready: [
        (plot) => {
          onRange(() => plot.root.isConnected && apply(plot));
          plot.over.addEventListener("click", () => {
            if (!dragged) click?.(plot.cursor.idx);
            dragged = false;
          });
        },
      ],
      setSelect: [
        (plot) => {
          const { left, width } = plot.select;
          if (width < 4) return;
          dragged = true;
          plot.setSelect({ left: 0, top: 0, width: 0, height: 0 }, false);
          showRange(plot.posToVal(left, "x") * 1e3, plot.posToVal(left + width, "x") * 1e3);
        },
      ],
      drawClear: [
        (plot) => {
          if (isWhole()) return;
          const [from, to] = [shown.from, shown.to].map((ms) => plot.valToPos(ms / 1e3, "x", true));
          plot.ctx.save();
          plot.ctx.fillStyle = css("--shade");
          plot.ctx.fillRect(from, plot.bbox.top, Math.max(2, to - from), plot.bbox.height);
          plot.ctx.restore();
        },
      ],
    },
  };
}

/** Says that only a part of the run is shown, and leads back. */
function wholeRun(): HTMLElement {
  const back = element("button", { type: "button" }, "whole run");
  back.addEventListener("click", showAll);
  const text = element("span", {});
  const line = element("span", { class: "part-of-run" }, text, back);
  const tell = () => {
    line.style.visibility = isWhole() ? "hidden" : "visible";
    text.textContent = `shaded: ${number(shown.from / 1e3, 3)} to ${number(shown.to / 1e3, 3)} s, as in the timeline `;
  };
  onRange(tell);
  tell();
  return line;
}

function draw(holder: HTMLElement, options: Omit<uPlot.Options, "width">, data: uPlot.AlignedData): void {
  const width = Math.max(240, holder.clientWidth);
  const plot = new uPlot({ width, legend: { show: false }, ...options }, data, holder);
  new ResizeObserver(() => {
    const wide = Math.max(240, holder.clientWidth);
    if (Math.abs(wide - plot.width) > 1) plot.setSize({ width: wide, height: options.height });
  }).observe(holder);
}

const NAME_FONT = "12px system-ui, sans-serif";
/** A mark before a name, and the gaps around it. */
const MARK_ROOM = 22;
/** Height of a line of a name. */
const NAME_LINE = 14;

/** Words in lines that are as wide as there is room; a long word stays whole. */
function wrapped(context: CanvasRenderingContext2D, text: string, room: number): string[] {
  const lines: string[] = [];
  for (const word of text.split(" ")) {
    const longer = `${lines[lines.length - 1]} ${word}`;
    if (lines.length && context.measureText(longer).width <= room) lines[lines.length - 1] = longer;
    else lines.push(word);
  }
  return lines;
}

/** Room for the names of lines at their ends: all of them, or a quarter of the plot and lines
 * that are broken. */
function namesRoom(names: string[], width: number): number {
  const context = document.createElement("canvas").getContext("2d");
  if (!context) return 0;
  context.font = NAME_FONT;
  const widest = (texts: string[]) => Math.max(0, ...texts.map((text) => context.measureText(text).width));
  const least = widest(names.flatMap((name) => name.split(" ")));
  return MARK_ROOM + Math.ceil(Math.max(least, Math.min(widest(names), width / 4)));
}

/** Names of the lines at their ends, and under the pointer what they say there. */
function named(info: HTMLElement, at: (value: number) => string, value: (value: number) => string): uPlot.Hooks.Arrays {
  const place = (plot: uPlot, series: number) => {
    const values = plot.data[series] as (number | null | undefined)[];
    for (let row = values.length - 1; row >= 0; row--) {
      const found = values[row];
      if (found != null) return plot.valToPos(found, "y", true);
    }
    return null;
  };
  return {
    draw: [
      (plot) => {
        const ratio = uPlot.pxRatio;
        const labels = plot.series.flatMap((series, row) => {
          const where = row > 0 && series.show ? place(plot, row) : null;
          return where === null ? [] : [{ at: where, text: String(series.label), color: String((series as { color?: string }).color ?? css("--text")) }];
        });
        const { left, top, width, height } = plot.bbox;
        plot.ctx.save();
        plot.ctx.font = NAME_FONT.replace("12", String(12 * ratio));
        plot.ctx.textBaseline = "middle";
        plot.ctx.textAlign = "left";
        const room = plot.ctx.canvas.width - left - width - MARK_ROOM * ratio;
        const lines = new Map(labels.map((label) => [label.text, wrapped(plot.ctx, label.text, room)]));
        const most = Math.max(1, ...[...lines.values()].map((one) => one.length));
        const half = ((most * NAME_LINE) / 2) * ratio;
        for (const label of apart(labels, top + half, top + height - half, most * NAME_LINE * ratio)) {
          const parts = lines.get(label.text) ?? [];
          const first = label.at - ((parts.length - 1) / 2) * NAME_LINE * ratio;
          plot.ctx.fillStyle = label.color;
          plot.ctx.fillRect(left + width + 5 * ratio, first - 4 * ratio, 8 * ratio, 8 * ratio);
          plot.ctx.fillStyle = css("--text");
          parts.forEach((part, row) => plot.ctx.fillText(part, left + width + 17 * ratio, first + row * NAME_LINE * ratio));
        }
        plot.ctx.restore();
      },
    ],
    setCursor: [
      (plot) => {
        const row = plot.cursor.idx;
        if (row == null) {
          info.textContent = "point at the picture to read its values";
          return;
        }
        const parts = plot.series.slice(1).flatMap((series, index) => {
          const found = plot.data[index + 1][row];
          return found == null ? [] : [`${series.label} ${value(found)}`];
        });
        info.textContent = `${at(plot.data[0][row])}: ${parts.join(" · ")}`;
      },
    ],
  };
}

function percentile(rarity: number): string {
  if (rarity === 0) return "min";
  const nines = Math.floor(rarity);
  return nines === 1 ? "p90" : `p${"9".repeat(2)}${nines > 2 ? "." + "9".repeat(nines - 2) : ""}`;
}

/** The share of values below, from its rarity: 2 is 99 %. */
function below(rarity: number): string {
  const percent = 100 * (1 - 10 ** -rarity);
  return `${Number(percent.toPrecision(Math.max(3, Math.floor(rarity) + 2)))} %`;
}

/** All variants' curves on one list of rarities. */
function align(curves: ([number[], number[]] | null)[]): uPlot.AlignedData {
  const tables = curves.filter((curve): curve is [number[], number[]] => curve !== null);
  return uPlot.join(tables.map((curve) => curve as unknown as uPlot.AlignedData));
}

/** Points of a distribution's curve for each factor of ten in rarity, as in report/data.rs. */
const POINTS_PER_DECADE = 24;

/** Patterns of lines: the first variant is dashed, and none of ten is the same in grey. */
function dash(row: number): number[] {
  return [[6, 4], [], [2, 3], [10, 3], [10, 3, 2, 3]][row % 5];
}

export function distributions(report: Report): HTMLElement {
  const holder = element("div", { class: "plot", role: "img" });
  const info = element("p", { class: "info" }, " ");
  const show = (row: number) => {
    const one = report.distributions[row];
    holder.replaceChildren();
    holder.setAttribute("aria-label", `Latency distribution of ${one.name}: see the table for its percentiles`);
    const present = one.curves.flatMap((curve, index) => (curve ? [{ curve, index }] : []));
    const series: uPlot.Series[] = [{}];
    for (const { index } of present)
      series.push({ label: report.variants[index].name, stroke: variantColor(index), color: variantColor(index), width: 2, dash: dash(index), spanGaps: true, points: { show: false } } as uPlot.Series);
    const scale = scaleOf(Math.max(...present.flatMap(({ curve }) => curve)));
    const curves = present.map(({ curve }): [number[], number[]] => [curve.map((_, step) => step / POINTS_PER_DECADE), curve]);
    draw(
      holder,
      {
        height: 320,
        padding: [null, namesRoom(present.map(({ index }) => report.variants[index].name), holder.clientWidth), null, null],
        series,
        hooks: named(info, (rarity) => `${below(rarity)} take less`, duration),
        scales: { x: { time: false }, y: { distr: 3 } },
        axes: [
          axis("percentile", {
            splits: (plot) => {
              const most = Math.floor(plot.scales.x.max ?? 3);
              return Array.from({ length: most + 1 }, (_, nines) => nines).flatMap((nines) =>
                nines === 0 ? [0, Math.log10(2)] : [nines],
              );
            },
            // On a narrow page p50 stands where the least does.
            values: (plot, splits) => splits.map((rarity) => (rarity > 0 && rarity < 1 ? "p50" : rarity === 0 && plot.width < 560 ? "" : percentile(rarity))),
          }),
          axis(`latency, ${scale.unit}`, {
            filter: (_, splits) => splits.map((us) => (us && isPower(us) ? us : null)),
            grid: { stroke: css("--line"), width: 1, filter: (_: uPlot, splits: number[]) => splits.map((us) => (isTen(us) ? us : null)) },
            size: 72,
            values: (_, splits) => splits.map((us) => (us ? String(Number((us / scale.divisor).toPrecision(3))) : "")),
          }),
        ],
      },
      align(curves),
    );
  };
  const names = report.distributions.map((one) => one.name);
  const box = element("div", {}, choice("latency of", names, show), holder, info);
  requestAnimationFrame(() => show(0));
  return box;
}

function isTen(us: number): boolean {
  return Math.abs(Math.log10(us) - Math.round(Math.log10(us))) < 1e-9;
}

/** Powers of ten, and 2 and 5 times them, get a label. */
function isPower(us: number): boolean {
  const mantissa = Number((us / 10 ** Math.floor(Math.log10(us) + 1e-9)).toPrecision(3));
  return mantissa === 1 || mantissa === 2 || mantissa === 5;
}

/** Runtime of a period beyond its quota, where saving is allowed. */
function saved(periods: Periods, settings: GroupSettings | undefined): number[] | null {
  if (!settings?.burst_us || settings.quota_us === null) return null;
  const quota = settings.quota_us / 1e3;
  return periods.granted_ms.map((granted) => Math.max(0, granted - quota));
}

function periodPlot(periods: Periods, settings: GroupSettings | undefined, title: string, most: number): HTMLElement {
  const plot = element("div", { class: "plot", role: "img", "aria-label": `Periods of ${title}` });
  const info = element("p", { class: "info" }, " ");
  const balance = saved(periods, settings);
  const stepped = uPlot.paths.stepped?.({ align: -1 });
  const line = (label: string, more: Partial<uPlot.Series>): uPlot.Series => ({ label, width: 1.5, paths: stepped, points: { show: false }, ...more });
  const of = named(info, (at) => `${number(at, 2)} s`, (value) => `${number(value, 1)} ms`);
  const [first, second] = periods.at_ms;
  const follow = followed((second ?? 2 * first) - first, (row) => jump(periods, row));
  const make = () =>
    draw(
      plot,
      {
        height: 210,
        cursor: follow.cursor,
        hooks: { ...follow.hooks, setCursor: of.setCursor },
        scales: { x: follow.scale, y: { range: () => [0, most * 1.08] } },
        axes: [axis("time of the run, s"), axis("ms per period", { size: 60 })],
        series: [
          {},
          line("used", { stroke: css("--run"), fill: css("--run-soft") }),
          line("wanted", { stroke: css("--wait"), width: 2, dash: [3, 3] }),
          line("allowed", { stroke: css("--text") }),
          line("throttled", { stroke: css("--throttled"), fill: css("--throttled-soft") }),
          ...(balance ? [line("of it saved before", { stroke: css("--burst"), width: 2 })] : []),
        ],
      },
      [periods.at_ms.map((at) => at / 1e3), periods.used_ms, periods.wanted_ms, periods.granted_ms, periods.throttled_ms, ...(balance ? [balance] : [])],
    );
  requestAnimationFrame(make);
  return element("div", {}, element("h3", {}, title), plot, info);
}

/** Has the timeline show a period, with a tenth of its length on both sides. */
function jump(periods: Periods, row: number | null | undefined): void {
  if (row == null) return;
  const to = periods.at_ms[row];
  const from = row > 0 ? periods.at_ms[row - 1] : to - (periods.at_ms[1] ?? to) + periods.at_ms[0];
  const edge = (to - from) / 10;
  showRange(from - edge, to + edge);
  document.getElementById("timeline")?.scrollIntoView({ block: "start" });
}

function limited(report: Report): string[] {
  const paths = report.scenes.flatMap((scene) => scene.periods.map((one) => scene.groups[one.group]));
  return [...new Set(paths)];
}

export function hasPeriods(report: Report): boolean {
  return limited(report).length > 0;
}

function swatch(color: string, text: string): HTMLElement {
  return element("span", { class: "part" }, element("span", { class: `dot ${color}`, "aria-hidden": "true" }), text);
}

export function periods(report: Report): HTMLElement {
  const paths = limited(report);
  const of = (scene: Scene, path: string) => scene.periods.find((one) => scene.groups[one.group] === path);
  const holder = element("div");
  const show = (row: number) => {
    const found = report.scenes.map((scene) => of(scene, paths[row]));
    const all = found.flatMap((one) => (one ? [one.used_ms, one.wanted_ms, one.granted_ms, one.throttled_ms] : []));
    const most = all.flat().reduce((most, value) => Math.max(most, value), 0);
    const make = (variant: number) => {
      const one = found[variant];
      const name = report.variants[variant].name;
      if (!one) return element("div", {}, element("h3", {}, name), element("p", { class: "help" }, "This variant has no limit."));
      const merged = one.merged > 1 ? ` (each point is the mean of ${one.merged} periods)` : "";
      const settings = report.variants[variant].groups.find((group) => group.path === paths[row]);
      return periodPlot(one, settings, name + merged, most);
    };
    holder.replaceChildren(perVariant(report.variants.map((one) => one.name), report.cheapest, make));
  };
  show(0);
  const legend = element(
    "div",
    { class: "legend" },
    swatch("run", "used"),
    swatch("wait", "wanted: what no limit would show"),
    swatch("allowed", "allowed"),
    swatch("throttled", "throttled, all CPUs together"),
    swatch("burst", "of it saved before (burst)"),
    wholeRun(),
  );
  return element("div", {}, paths.length > 1 ? choice("group", paths, show) : null, legend, holder);
}

export function power(report: Report): HTMLElement {
  const holder = element("div", { class: "plot", role: "img", "aria-label": "Power and clock over time" });
  const info = element("p", { class: "info" }, " ");
  const kinds: ["watts" | "mhz", string, string][] = [
    ["watts", "package power, W", "W"],
    ["mhz", "mean clock of all CPUs, MHz", "MHz"],
  ];
  const show = (row: number) => {
    holder.replaceChildren();
    const [kind, label, unit] = kinds[row];
    const curves = report.scenes.map((scene): [number[], number[]] | null =>
      scene[kind].length
        ? [scene[kind].map((_, bucket) => ((bucket + 0.5) * scene.bucket_ms) / 1e3), scene[kind]]
        : null,
    );
    const series: uPlot.Series[] = [{}];
    curves.forEach((curve, index) => {
      if (curve)
        series.push({ label: report.variants[index].name, stroke: variantColor(index), color: variantColor(index), width: 1.5, dash: dash(index), spanGaps: true, points: { show: false } } as uPlot.Series);
    });
    const hooks = named(info, (at) => `${number(at, 2)} s`, (value) => `${number(value, 1)} ${unit}`);
    const follow = followed(Math.max(...report.scenes.map((scene) => scene.bucket_ms)));
    draw(holder, { height: 220, padding: [null, namesRoom(report.variants.map((one) => one.name), holder.clientWidth), null, null], cursor: follow.cursor, hooks: { ...follow.hooks, ...hooks }, scales: { x: follow.scale }, axes: [axis("time of the run, s"), axis(label, { size: 64 })], series }, align(curves));
  };
  requestAnimationFrame(() => show(0));
  return element("div", {}, choice("show", kinds.map(([, label]) => label), show), holder, info);
}
