// Plots of lines: latency distributions, periods, power.

import uPlot from "uplot";
import { choice, css, duration, element, number, perVariant, scaleOf, variantColor } from "./dom";
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

function draw(holder: HTMLElement, options: Omit<uPlot.Options, "width">, data: uPlot.AlignedData): void {
  const width = Math.max(240, holder.clientWidth);
  const plot = new uPlot({ width, legend: { show: false }, ...options }, data, holder);
  new ResizeObserver(() => {
    const wide = Math.max(240, holder.clientWidth);
    if (Math.abs(wide - plot.width) > 1) plot.setSize({ width: wide, height: options.height });
  }).observe(holder);
}

/** Room for the names of lines at their ends. */
const NAMES = 128;

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
        plot.ctx.font = `${12 * ratio}px system-ui, sans-serif`;
        plot.ctx.textBaseline = "middle";
        plot.ctx.textAlign = "left";
        for (const label of apart(labels, top + 6 * ratio, top + height - 6 * ratio, 14 * ratio)) {
          plot.ctx.fillStyle = label.color;
          plot.ctx.fillRect(left + width + 5 * ratio, label.at - 4 * ratio, 8 * ratio, 8 * ratio);
          plot.ctx.fillStyle = css("--text");
          plot.ctx.fillText(fitted(plot.ctx, label.text, (NAMES - 20) * ratio), left + width + 17 * ratio, label.at);
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

/** A text that is cut where there is no room for it. */
function fitted(context: CanvasRenderingContext2D, text: string, room: number): string {
  if (context.measureText(text).width <= room) return text;
  let kept = text;
  while (kept.length > 1 && context.measureText(`${kept}…`).width > room) kept = kept.slice(0, -1);
  return `${kept}…`;
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
        padding: [null, NAMES, null, null],
        series,
        hooks: named(info, (rarity) => `${below(rarity)} take less`, duration),
        scales: { x: { time: false }, y: { distr: 3 } },
        axes: [
          axis("percentile", {
            splits: (plot) => {
              const most = Math.ceil(plot.scales.x.max ?? 3);
              return Array.from({ length: most + 1 }, (_, nines) => nines).flatMap((nines) =>
                nines === 0 ? [0, Math.log10(2)] : [nines],
              );
            },
            values: (_, splits) => splits.map((rarity) => (rarity > 0 && rarity < 1 ? "p50" : percentile(rarity))),
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

/** The event that has the timeline show a time of the run, in ms. */
export const SHOW_TIME = "schedcast-show-time";

/** What a period had beyond its quota, where saving is allowed. */
function saved(periods: Periods, settings: GroupSettings | undefined): number[] | null {
  if (!settings?.burst_us || settings.quota_us === null) return null;
  const quota = settings.quota_us / 1e3;
  return periods.granted_ms.map((granted) => Math.max(0, granted - quota));
}

interface Frame {
  most: number;
  length: number;
}

function periodPlot(periods: Periods, settings: GroupSettings | undefined, title: string, frame: Frame): HTMLElement {
  const plot = element("div", { class: "plot", role: "img", "aria-label": `Periods of ${title}` });
  const info = element("p", { class: "info" }, " ");
  const balance = saved(periods, settings);
  const stepped = uPlot.paths.stepped?.({ align: -1 });
  const line = (label: string, more: Partial<uPlot.Series>): uPlot.Series => ({ label, width: 1.5, paths: stepped, points: { show: false }, ...more });
  const of = named(info, (at) => `${number(at, 2)} s`, (value) => `${number(value, 1)} ms`);
  const make = () =>
    draw(
      plot,
      {
        height: 210,
        cursor: { sync: { key: "periods" } },
        hooks: { setCursor: of.setCursor, ready: [(made) => made.over.addEventListener("click", () => jump(periods, made.cursor.idx))] },
        scales: { x: { time: false, range: () => [0, frame.length / 1e3] }, y: { range: () => [0, frame.most * 1.08] } },
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
  document.dispatchEvent(new CustomEvent(SHOW_TIME, { detail: { from: Math.max(0, from - edge), to: to + edge } }));
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
    const frame = {
      most: all.flat().reduce((most, value) => Math.max(most, value), 0),
      length: Math.max(...report.scenes.map((scene) => scene.length_ms)),
    };
    const make = (variant: number) => {
      const one = found[variant];
      const name = report.variants[variant].name;
      if (!one) return element("div", {}, element("h3", {}, name), element("p", { class: "help" }, "This variant has no limit."));
      const merged = one.merged > 1 ? ` (each point is the mean of ${one.merged} periods)` : "";
      const settings = report.variants[variant].groups.find((group) => group.path === paths[row]);
      return periodPlot(one, settings, name + merged, frame);
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
    draw(holder, { height: 220, padding: [null, NAMES, null, null], hooks, scales: { x: { time: false } }, axes: [axis("time of the run, s"), axis(label, { size: 64 })], series }, align(curves));
  };
  requestAnimationFrame(() => show(0));
  return element("div", {}, choice("show", kinds.map(([, label]) => label), show), holder, info);
}
