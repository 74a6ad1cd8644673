// The part of the run that all charts over time show: one range for the page.

/** Least length of the range, ms. */
const LEAST_MS = 0.02;

export const shown = { from: 0, to: 0, length: 0 };
let watchers: (() => void)[] = [];

/** Begins a page of runs of this length; the range stays where the length does. */
export function begin(length: number): void {
  watchers = [];
  if (length === shown.length) return;
  Object.assign(shown, { from: 0, to: length, length });
}

export function onRange(act: () => void): void {
  watchers.push(act);
}

export function show(from: number, to: number): void {
  const span = Math.min(shown.length, Math.max(LEAST_MS, to - from));
  shown.from = Math.min(Math.max(0, from), shown.length - span);
  shown.to = shown.from + span;
  for (const act of watchers) act();
}

export function showAll(): void {
  show(0, shown.length);
}

export function isWhole(): boolean {
  return shown.to - shown.from >= shown.length * 0.999;
}

export function zoom(at: number, factor: number): void {
  show(at - (at - shown.from) * factor, at + (shown.to - at) * factor);
}
