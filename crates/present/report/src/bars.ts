// Where time went, as stacked bars with their numbers in words.

import { element, perVariant } from "./dom";
import { Report } from "./types";

interface Part {
  name: string;
  share: number;
  text: string;
  kind: string;
}

function bar(label: string, parts: Part[]): HTMLElement {
  const strip = element("div", { class: "strip", "aria-hidden": "true" });
  for (const part of parts) {
    const piece = element("span", { class: `piece ${part.kind}`, title: `${part.name}: ${part.text}` });
    piece.style.width = `${Math.max(0, part.share) * 100}%`;
    strip.append(piece);
  }
  const words = parts.map((part) =>
    element("span", { class: "part" }, element("span", { class: `dot ${part.kind}`, "aria-hidden": "true" }), `${part.name} ${part.text}`),
  );
  return element("div", { class: "bar" }, element("div", { class: "bar-label" }, label), strip, element("div", { class: "parts" }, ...words));
}

function seconds(value: number): string {
  return value >= 0.1 || value === 0 ? `${Number(value.toPrecision(3))} s` : `${Number((value * 1e3).toPrecision(3))} ms`;
}

export function waits(report: Report): HTMLElement {
  const box = element("div");
  for (const row of report.waits) {
    const sums = row.seconds.map((one) => (one ? one[0] + one[1] + one[2] : 0));
    const most = Math.max(...sums) || 1;
    box.append(element("h3", {}, row.name));
    const make = (variant: number) => {
      const one = row.seconds[variant];
      if (!one) return null;
      const kinds = ["run", "wait", "throttled"];
      const names = ["running", "waiting for others", "waiting while throttled"];
      const parts = one.map((value, kind) => ({ name: names[kind], share: value / most, text: seconds(value), kind: kinds[kind] }));
      return bar(report.variants[variant].name, parts);
    };
    box.append(perVariant(report.variants.map((one) => one.name), report.cheapest, make));
  }
  return box;
}

function percent(share: number): string {
  const value = share * 100;
  return `${value >= 10 ? value.toFixed(1) : Number(value.toPrecision(2))} %`;
}

export function cpuTime(report: Report): HTMLElement {
  const make = (variant: number) => {
    const one = report.cpu_time[variant];
    const largest = one.overheads.slice(0, 5);
    const rest = one.overheads.slice(5).reduce((sum, [, share]) => sum + share, 0);
    const parts: Part[] = [{ name: "tasks", share: one.tasks, text: percent(one.tasks), kind: "run" }];
    largest.forEach(([name, share], row) =>
      parts.push({ name: name.replaceAll("_", " "), share, text: percent(share), kind: `cost-${row}` }),
    );
    if (rest > 0) parts.push({ name: "other costs", share: rest, text: percent(rest), kind: "cost-5" });
    parts.push({ name: "idle", share: one.idle, text: percent(one.idle), kind: "idle" });
    return bar(report.variants[variant].name, parts);
  };
  return perVariant(report.variants.map((one) => one.name), report.cheapest, make);
}

export function idleStates(report: Report): HTMLElement {
  const make = (variant: number) => {
    const hardware = report.scenes[variant].hardware;
    if (!hardware) return null;
    const asleep = hardware.residency.reduce((sum, share) => sum + share, 0);
    const parts: Part[] = [{ name: "awake", share: 1 - asleep, text: percent(1 - asleep), kind: "run" }];
    hardware.idle_states.forEach((name, row) =>
      parts.push({ name, share: hardware.residency[row], text: percent(hardware.residency[row]), kind: `depth-${Math.min(row, 5)}` }),
    );
    return bar(report.variants[variant].name, parts);
  };
  return perVariant(report.variants.map((one) => one.name), report.cheapest, make);
}
