// Plots of lines: latency distributions, periods, power.

import uPlot from "uplot";
import { choice, css, duration, element, variantColor } from "./dom";
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
  const width = Math.max(280, holder.clientWidth);
  const plot = new uPlot({ width, ...options }, data, holder);
  new ResizeObserver(() => {
    const wide = Math.max(280, holder.clientWidth);
    if (Math.abs(wide - plot.width) > 1) plot.setSize({ width: wide, height: options.height });
  }).observe(holder);
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

export function distributions(report: Report): HTMLElement {
  const holder = element("div", { class: "plot", role: "img" });
  const show = (row: number) => {
    const one = report.distributions[row];
    holder.replaceChildren();
    holder.setAttribute("aria-label", `Latency distribution of ${one.name}: see the table for its percentiles`);
    const present = one.curves.map((curve, index) => ({ curve, index })).filter(({ curve }) => curve !== null);
    const series: uPlot.Series[] = [{ label: "below", value: (_, value) => (value == null ? "–" : below(value)) }];
    for (const { index } of present) {
      series.push({
        label: report.variants[index].name,
        stroke: variantColor(index),
        width: 2,
        dash: index === 0 ? [6, 4] : [],
        spanGaps: true,
        points: { show: false },
        value: (_, value) => (value == null ? "–" : duration(value)),
      });
    }
    draw(
      holder,
      {
        height: 320,
        series,
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
          axis("latency", {
            filter: (_, splits) => splits.map((us) => (us && isPower(us) ? us : null)),
            grid: { stroke: css("--line"), width: 1, filter: (_: uPlot, splits: number[]) => splits.map((us) => (isTen(us) ? us : null)) },
            size: 72, values: (_, splits) => splits.map((us) => (us ? duration(us) : "")),
          }),
        ],
      },
      align(one.curves),
    );
  };
  const names = report.distributions.map((one) => one.name);
  const box = element("div", {}, choice("latency of", names, show), holder);
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

/** What a period had beyond its quota, where saving is allowed. */
function saved(periods: Periods, settings: GroupSettings | undefined): number[] | null {
  if (!settings?.burst_us || settings.quota_us === null) return null;
  const quota = settings.quota_us / 1e3;
  return periods.granted_ms.map((granted) => Math.max(0, granted - quota));
}

function periodPlot(holder: HTMLElement, periods: Periods, settings: GroupSettings | undefined, title: string, most: number, length: number): void {
  const caption = element("h3", {}, title);
  const plot = element("div", { class: "plot", role: "img", "aria-label": `Periods of ${title}` });
  holder.append(caption, plot);
  const ms = (_: uPlot, value: number | null) => (value == null ? "–" : `${value.toFixed(1)} ms`);
  const balance = saved(periods, settings);
  const stepped = uPlot.paths.stepped?.({ align: -1 });
  draw(
    plot,
    {
      height: 210,
      cursor: { sync: { key: "periods" } },
      scales: { x: { time: false, range: () => [0, length / 1e3] }, y: { range: () => [0, most * 1.08] } },
      axes: [axis("time of the run, s"), axis("ms per period", { size: 60 })],
      series: [
        { label: "at", value: (_, value) => (value == null ? "–" : `${value.toFixed(2)} s`) },
        { label: "used", stroke: css("--run"), fill: css("--run-soft"), width: 1.5, paths: stepped, points: { show: false }, value: ms },
        { label: "wanted", stroke: css("--wait"), width: 2, dash: [3, 3], paths: stepped, points: { show: false }, value: ms },
        { label: "allowed", stroke: css("--text"), width: 1.5, paths: stepped, points: { show: false }, value: ms },
        { label: "throttled (all CPUs)", stroke: css("--throttled"), fill: css("--throttled-soft"), width: 1.5, paths: stepped, points: { show: false }, value: ms },
        ...(balance ? [{ label: "of it saved before (burst)", stroke: css("--burst"), width: 2, paths: stepped, points: { show: false }, value: ms }] : []),
      ],
    },
    [periods.at_ms.map((at) => at / 1e3), periods.used_ms, periods.wanted_ms, periods.granted_ms, periods.throttled_ms, ...(balance ? [balance] : [])],
  );
}

function limited(report: Report): string[] {
  const paths = report.scenes.flatMap((scene) => scene.periods.map((one) => scene.groups[one.group]));
  return [...new Set(paths)];
}

export function hasPeriods(report: Report): boolean {
  return limited(report).length > 0;
}

export function periods(report: Report): HTMLElement {
  const paths = limited(report);
  const holder = element("div");
  const of = (scene: Scene, path: string) => scene.periods.find((one) => scene.groups[one.group] === path);
  const show = (row: number) => {
    holder.replaceChildren();
    const found = report.scenes.map((scene) => of(scene, paths[row]));
    const most = Math.max(
      ...found.flatMap((one) => (one ? [...one.used_ms, ...one.wanted_ms, ...one.granted_ms, ...one.throttled_ms] : [])),
    );
    const length = Math.max(...report.scenes.map((scene) => scene.length_ms));
    found.forEach((one, variant) => {
      const name = report.variants[variant].name;
      if (!one) {
        holder.append(element("h3", {}, name), element("p", { class: "help" }, "not limited"));
        return;
      }
      const merged = one.merged > 1 ? ` (each point is the mean of ${one.merged} periods)` : "";
      const settings = report.variants[variant].groups.find((group) => group.path === paths[row]);
      periodPlot(holder, one, settings, name + merged, most, length);
    });
  };
  requestAnimationFrame(() => show(0));
  return element("div", {}, choice("group", paths, show), holder);
}

export function power(report: Report): HTMLElement {
  const holder = element("div", { class: "plot", role: "img", "aria-label": "Power and clock over time" });
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
    const series: uPlot.Series[] = [{ label: "at", value: (_, value) => (value == null ? "–" : `${value.toFixed(2)} s`) }];
    curves.forEach((curve, index) => {
      if (curve)
        series.push({
          label: report.variants[index].name,
          stroke: variantColor(index),
          width: 1.5,
          spanGaps: true,
          points: { show: false },
          value: (_, value) => (value == null ? "–" : `${value.toFixed(1)} ${unit}`),
        });
    });
    draw(holder, { height: 220, scales: { x: { time: false } }, axes: [axis("time of the run, s"), axis(label, { size: 64 })], series }, align(curves));
  };
  requestAnimationFrame(() => show(0));
  return element("div", {}, choice("show", kinds.map(([, label]) => label), show), holder);
}
