// Promise: a percentile and its upper bound. It stands in the address as `promise=p95<40ms`.

import { Frontier } from "./types";

export interface Promised {
  /** Row of the frontier's measures. */
  measure: number;
  /** In the measure's unit; null: nothing is promised. */
  limit: number | null;
}

const UNITS: [string, number][] = [
  ["us", 1],
  ["µs", 1],
  ["ms", 1e3],
  ["s", 1e6],
];

export const promised: Promised = { measure: 0, limit: null };
const watchers: (() => void)[] = [];

export function onPromise(act: () => void): void {
  watchers.push(act);
}

export function promise(change: Partial<Promised>): void {
  Object.assign(promised, change);
  for (const act of watchers) act();
}

/** The percentile of a measure: p95 of request_latency.p95. */
export function percentileOf(name: string): string {
  return name.slice(name.lastIndexOf(".") + 1);
}

/** Promise in the address, else that of the command line. */
export function start(frontier: Frontier): void {
  const asked = frontier.measures.findIndex((one) => one.promised !== null);
  promised.measure = asked >= 0 ? asked : frontier.measures.findIndex((one) => one.name.endsWith(".p99"));
  promised.limit = asked >= 0 ? frontier.measures[asked].promised : null;
  const text = new URLSearchParams(location.hash.slice(1)).get("promise");
  const match = text?.match(/^\s*([\w.]+)\s*<\s*([\d.]+)\s*(us|µs|ms|s)\s*$/);
  if (!match) return;
  const row = frontier.measures.findIndex((one) => percentileOf(one.name) === match[1] || one.name === match[1]);
  const unit = UNITS.find(([name]) => name === match[3]);
  if (row < 0 || !unit) return;
  promised.measure = row;
  promised.limit = Number(match[2]) * unit[1];
}

/** The promise as it stands in the address; empty without one. */
export function inAddress(frontier: Frontier | null): string {
  if (!frontier || promised.limit === null) return "";
  return `${percentileOf(frontier.measures[promised.measure].name)}<${promised.limit / 1e3}ms`;
}
