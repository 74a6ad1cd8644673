// The controls of a served page: what they are set to is simulated anew while they move.

import { element, number } from "./dom";
import { Choice, Controls, Report } from "./types";

function field(label: string, control: HTMLElement, value: HTMLElement | null = null): HTMLElement {
  return element("label", { class: "field" }, element("span", { class: "field-label" }, label), control, value);
}

/** Periods people use, and the ends of what kernels accept. */
const PERIODS_US = [1000, 2000, 5000, 10000, 20000, 25000, 40000, 50000, 100000, 200000, 250000, 500000, 1000000];
const WEIGHTS = [1, 10, 25, 50, 75, 100, 150, 200, 400, 800, 2000, 10000];

function nearest(values: number[], value: number): number {
  let best = 0;
  values.forEach((one, row) => {
    if (Math.abs(one - value) < Math.abs(values[best] - value)) best = row;
  });
  return best;
}

function slider(id: string, most: number, value: number): HTMLInputElement {
  return element("input", { id, type: "range", min: "0", max: String(most), step: "1", value: String(value) });
}

/** Builds the controls; every change is sent to the server, and `show` gets the new report. */
export function controls(given: Controls, show: (report: Report) => void): HTMLElement {
  const linked = fromAddress(given.start);
  const state: Choice = { ...given.start, ...linked };
  const status = element("p", { class: "info", id: "status", role: "status", "aria-live": "polite" }, "move a control");
  let running = false;
  let again = false;
  const send = async () => {
    if (running) {
      again = true;
      return;
    }
    running = true;
    toAddress(state, given.start);
    const begin = performance.now();
    status.textContent = "simulating…";
    try {
      const answer = await fetch("simulate", {
        method: "POST",
        headers: { "content-type": "application/json" },
        body: JSON.stringify(state),
      });
      const text = await answer.text();
      if (!answer.ok) throw new Error(text);
      show(JSON.parse(text) as Report);
      status.textContent = `simulated in ${number(performance.now() - begin, 0)} ms`;
    } catch (error) {
      status.textContent = error instanceof Error ? error.message : String(error);
    }
    running = false;
    if (again) {
      again = false;
      void send();
    }
  };
  const box = element("section", { class: "controls", "aria-label": "controls" }, element("h2", {}, "What if"));
  const grid = element("div", { class: "fields" });
  box.append(grid, status);
  if (given.groups.length) limits(given, state, grid, () => void send());
  const kernel = element("select", { id: "kernel" });
  for (const version of given.kernels) kernel.append(element("option", { value: version }, version));
  kernel.value = state.kernel;
  kernel.addEventListener("change", () => {
    state.kernel = kernel.value;
    void send();
  });
  grid.append(field("kernel", kernel));
  if (!given.fixed_cpus) {
    const cpus = element("input", { id: "cpus", type: "number", min: "1", max: String(given.most_cpus), value: String(state.cpus ?? "") });
    cpus.addEventListener("change", () => {
      state.cpus = Number(cpus.value) || null;
      void send();
    });
    grid.append(field("CPUs", cpus));
  }
  const seeds = element("input", { id: "seeds", type: "number", min: "1", max: "50", value: String(state.seeds) });
  seeds.addEventListener("change", () => {
    state.seeds = Math.max(1, Number(seeds.value) || 1);
    void send();
  });
  grid.append(field("seeds", seeds));
  if (Object.keys(linked).length) void send();
  return box;
}

/** Settings that stand in the address behind #: a link to what was set. */
function fromAddress(start: Choice): Partial<Choice> {
  const out: Record<string, string | number | null> = {};
  for (const [key, text] of new URLSearchParams(location.hash.slice(1))) {
    if (!(key in start)) continue;
    out[key] = key === "kernel" || key === "cgroup" ? text : text === "max" ? null : Number(text);
  }
  return out as Partial<Choice>;
}

function toAddress(state: Choice, start: Choice): void {
  const changed = Object.entries(state).filter(([key, value]) => value !== start[key as keyof Choice]);
  const text = new URLSearchParams(changed.map(([key, value]) => [key, value === null ? "max" : String(value)]));
  history.replaceState(null, "", changed.length ? `#${text}` : location.pathname);
}

function limits(given: Controls, state: Choice, grid: HTMLElement, send: () => void): void {
  const group = element("select", { id: "group" });
  for (const path of given.groups) group.append(element("option", { value: path }, path));
  group.value = state.cgroup ?? given.groups[0];
  state.cgroup = group.value;
  group.addEventListener("change", () => {
    state.cgroup = group.value;
    send();
  });
  // Shares of one CPU in steps of 5 %; the last step is no limit.
  const steps = given.most_cpus * 20 + 1;
  const toStep = (quota: number | null) => (quota === null ? steps : Math.max(1, Math.round((quota / state.period_us) * 20)));
  const quota = slider("quota", steps, toStep(state.quota_us));
  quota.min = "1";
  const burst = slider("burst", 100, state.quota_us ? Math.round((100 * state.burst_us) / state.quota_us) : 0);
  const period = slider("period", PERIODS_US.length - 1, nearest(PERIODS_US, state.period_us));
  const weight = slider("weight", WEIGHTS.length - 1, nearest(WEIGHTS, state.weight ?? 100));
  const words = [0, 1, 2, 3].map(() => element("output"));
  let weighed = state.weight !== null;
  const read = () => {
    state.period_us = PERIODS_US[Number(period.value)];
    const step = Number(quota.value);
    state.quota_us = step >= steps ? null : Math.max(1000, Math.round((step * state.period_us) / 20));
    state.burst_us = state.quota_us === null ? 0 : Math.round((state.quota_us * Number(burst.value)) / 100);
    state.weight = weighed ? WEIGHTS[Number(weight.value)] : null;
    say();
  };
  const say = () => {
    const cpus = (state.quota_us ?? 0) / state.period_us;
    words[0].textContent = state.quota_us === null ? "no limit" : `${number(state.quota_us / 1e3, 1)} ms = ${number(cpus, 2)} CPUs`;
    words[1].textContent = `${number(state.period_us / 1e3, 0)} ms`;
    words[2].textContent = `${number(state.burst_us / 1e3, 1)} ms`;
    words[3].textContent = weighed ? String(state.weight) : "as it was";
  };
  weight.addEventListener("input", () => (weighed = true));
  for (const control of [quota, period, burst, weight])
    control.addEventListener("input", () => {
      read();
      send();
    });
  say();
  grid.append(
    field("cgroup", group),
    field("quota", quota, words[0]),
    field("period", period, words[1]),
    field("burst", burst, words[2]),
    field("weight", weight, words[3]),
  );
}
