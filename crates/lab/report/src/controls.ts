// The panel of a served page: what it is set to is simulated anew. It stays where it is while results come and go.

import { Chosen, promiseFields } from "./frontier";
import { element, number } from "./dom";
import { inAddress, onPromise } from "./promise";
import { Choice, Controls, Frontier, Report } from "./types";

/** Periods that the slider offers, us; the number beside it takes any. */
const PERIODS_US = [1000, 2000, 5000, 10000, 20000, 25000, 40000, 50000, 100000, 200000, 250000, 500000, 1000000];
const WEIGHTS = [1, 10, 25, 50, 75, 100, 150, 200, 400, 800, 2000, 10000];
/** Steps of the quota's slider: from a hundredth of a CPU to all of them, each a like factor more. */
const QUOTA_STEPS = 200;
/** How long a control rests before the server is asked, ms. */
const REST_MS = 60;

/** What the page shows while the numbers are not those of what is set. */
export type Freshness = "fresh" | "simulating" | "failed";

interface Knob {
  box: HTMLElement;
  show: (value: number) => void;
}

function nearest(values: number[], value: number): number {
  let best = 0;
  values.forEach((one, row) => {
    if (Math.abs(one - value) < Math.abs(values[best] - value)) best = row;
  });
  return best;
}

/** A number beside a slider. The slider moves in steps of its own, the number takes any value. */
function knob(id: string, label: string, unit: string, least: number, steps: number, toStep: (value: number) => number, ofStep: (step: number) => number, set: (value: number) => void): Knob {
  const slider = element("input", { id, type: "range", min: "0", max: String(steps), step: "1", "aria-label": `${label}, slider` });
  const field = element("input", { id: `${id}-number`, type: "number", min: String(least), step: "any", inputmode: "decimal", "aria-label": `${label}${unit ? `, ${unit}` : ""}` });
  const show = (value: number) => {
    if (document.activeElement !== field) field.value = String(value);
    slider.value = String(toStep(value));
  };
  slider.addEventListener("input", () => {
    const value = ofStep(Number(slider.value));
    field.value = String(value);
    set(value);
  });
  field.addEventListener("input", () => {
    const value = Number(field.value);
    const wrong = field.value === "" || !Number.isFinite(value) || value < least;
    field.setAttribute("aria-invalid", String(wrong));
    if (wrong) return;
    slider.value = String(toStep(value));
    set(value);
  });
  const box = element("div", { class: "field", role: "group", "aria-label": label }, element("span", { class: "field-label" }, label), slider, field, element("span", { class: "field-unit" }, unit));
  return { box, show };
}

function line(label: string, control: HTMLElement): HTMLElement {
  return element("label", { class: "field" }, element("span", { class: "field-label" }, label), control);
}

/** Settings that stand in the address behind #: a link to what was set. */
function fromAddress(start: Choice): Partial<Choice> {
  const out: Record<string, string | number | null> = {};
  for (const [key, text] of new URLSearchParams(location.hash.slice(1))) {
    if (!(key in start)) continue;
    const value = Number(text);
    if (key === "kernel" || key === "cgroup") out[key] = text;
    else if (text === "max") out[key] = null;
    else if (Number.isFinite(value)) out[key] = value;
  }
  return out as Partial<Choice>;
}

function toAddress(state: Choice, start: Choice, frontier: Frontier | null): void {
  const changed = Object.entries(state).filter(([key, value]) => value !== start[key as keyof Choice]);
  const text = new URLSearchParams(changed.map(([key, value]) => [key, value === null ? "max" : String(value)]));
  const promise = inAddress(frontier);
  if (promise) text.set("promise", promise);
  history.replaceState(null, "", text.size ? `#${text}` : location.pathname);
}

/** What the second variant of a report is: the limit that was set, and what came of it. */
export function chosenOf(report: Report, state: Choice): Chosen | null {
  if (report.variants.length < 2) return null;
  const values = new Map<string, number>();
  for (const row of report.table) {
    const cell = row.cells[1];
    if (cell) values.set(row.metric, cell.mean * (row.unit === "s" ? 1e6 : row.unit === "ms" ? 1e3 : 1));
  }
  return { limit: { quota_us: state.quota_us, period_us: state.period_us, burst_us: state.burst_us }, values };
}

/** The rows whose numbers stand in the panel: the percentiles of the first latency, and throttled periods. */
function told(report: Report): Report["table"] {
  const latency = report.table.find((row) => /latency\.p\d+$/.test(row.name));
  const family = latency ? latency.metric.slice(0, latency.metric.lastIndexOf(".") + 1) : "?";
  const percentiles = report.table.filter((row) => row.metric.startsWith(family) && /\.p(50|95|99)$/.test(row.name));
  const throttled = report.table.find((row) => row.name === "nr_throttled");
  return throttled ? [...percentiles, throttled] : percentiles;
}

function numbers(report: Report, isSet: boolean): HTMLElement {
  const rows = told(report).map((row) => {
    const [before, after] = [row.cells[0], row.cells[1]].map((cell) => (cell ? `${cell.at_least ? "≥" : ""}${number(cell.mean, row.digits)}` : "–"));
    const name = row.name.slice(row.name.lastIndexOf(".") + 1).replace("nr_throttled", "throttled periods");
    const unit = row.unit ? element("span", { class: "unit" }, ` ${row.unit}`) : null;
    return element("tr", {}, element("th", { scope: "row" }, name, unit), element("td", {}, before), element("td", {}, element("b", {}, isSet ? after : "–")));
  });
  const head = element("tr", {}, element("th", { scope: "col" }, ""), element("th", { scope: "col" }, "re-simulated"), element("th", { scope: "col" }, "what you set"));
  return element("table", { class: "numbers" }, element("thead", {}, head), element("tbody", {}, ...rows));
}

/** What the server says to a choice. */
async function simulated(choice: Choice): Promise<Report> {
  const reply = await fetch("simulate", { method: "POST", headers: { "content-type": "application/json" }, body: JSON.stringify(choice) });
  const text = await reply.text();
  if (!reply.ok) throw new Error(text.trim());
  return JSON.parse(text) as Report;
}

/** Builds the panel. `show` gets each new report, `mark` what the results on the page are. */
export function controls(given: Controls, report: Report, show: (report: Report, state: Choice) => void, mark: (freshness: Freshness, why: string) => void): HTMLElement {
  const linked = fromAddress(given.start);
  const state: Choice = { ...given.start, ...linked };
  const status = element("p", { class: "info", id: "status", role: "status", "aria-live": "polite" }, "move a control, or type a number");
  const outcome = element("div", { class: "outcome" }, numbers(report, false));
  const apply = element("pre", { class: "apply", tabindex: "0", "aria-label": "how to apply what is set" }, "");
  let running = false;
  let again = false;
  let timer = 0;
  const send = async () => {
    if (running) {
      again = true;
      return;
    }
    running = true;
    const begin = performance.now();
    const sent = { ...state };
    const tell = (fresh: Report) => outcome.replaceChildren(numbers(fresh, fresh.variants.length > 1));
    const milliseconds = () => `${number(performance.now() - begin, 0)} ms`;
    try {
      // One seed answers first, in the panel only; the server keeps its run for the whole answer.
      if (sent.seeds > 1) {
        const first = await simulated({ ...sent, seeds: 1 });
        if (!again) {
          tell(first);
          status.textContent = `one seed in ${milliseconds()}, ${sent.seeds} seeds follow`;
        }
      }
      const fresh = again ? null : await simulated(sent);
      if (fresh && !again) {
        tell(fresh);
        outcome.classList.remove("stale");
        const mine = fresh.variants[fresh.variants.length - 1];
        apply.textContent = mine.dialects.map(([tool, how]) => `${tool}\n  ${how}`).join("\n") || mine.apply.join("\n") || "nothing to change";
        show(fresh, sent);
        mark("fresh", "");
        status.textContent = `${sent.seeds} seed${sent.seeds === 1 ? "" : "s"} in ${milliseconds()}`;
      }
    } catch (error) {
      // The browser's own words for a server that does not answer differ, and say nothing to a reader.
      const why = error instanceof TypeError ? "the server does not answer" : error instanceof Error ? error.message : String(error);
      status.textContent = why;
      if (!again) mark("failed", why);
    }
    running = false;
    if (again) {
      again = false;
      void send();
    }
  };
  const changed = () => {
    toAddress(state, given.start, report.frontier);
    status.textContent = "simulating…";
    outcome.classList.add("stale");
    mark("simulating", "");
    if (running) again = true;
    clearTimeout(timer);
    timer = window.setTimeout(() => void send(), REST_MS);
  };
  const grid = element("div", { class: "fields" });
  const refresh: (() => void)[] = [];
  if (given.groups.length) limits(given, state, grid, refresh, changed);
  const kernel = element("select", { id: "kernel" });
  for (const version of given.kernels) kernel.append(element("option", { value: version }, version));
  kernel.addEventListener("change", () => {
    state.kernel = kernel.value;
    changed();
  });
  grid.append(line("kernel", kernel));
  const count = (id: string, label: string, most: number, get: () => number | null, set: (value: number) => void) => {
    const field = element("input", { id, type: "number", min: "1", max: String(most), step: "1" });
    field.addEventListener("input", () => {
      const value = Math.round(Number(field.value));
      if (value >= 1 && value <= most) {
        set(value);
        changed();
      }
    });
    refresh.push(() => (field.value = String(get() ?? "")));
    grid.append(line(label, field));
  };
  if (!given.fixed_cpus) count("cpus", "CPUs", given.most_cpus, () => state.cpus, (value) => (state.cpus = value));
  count("seeds", "seeds", 50, () => state.seeds, (value) => (state.seeds = value));
  refresh.push(() => (kernel.value = state.kernel));
  const reset = element("button", { type: "button", id: "reset" }, "reset");
  reset.addEventListener("click", () => {
    Object.assign(state, given.start);
    for (const one of refresh) one();
    changed();
  });
  const link = element("button", { type: "button", id: "link" }, "copy link");
  link.addEventListener("click", () => void navigator.clipboard?.writeText(location.href).then(() => (status.textContent = "the address of these settings is copied")));
  for (const one of refresh) one();
  if (report.frontier) {
    grid.append(promiseFields(report.frontier));
    onPromise(() => toAddress(state, given.start, report.frontier));
  }
  if (Object.keys(linked).length) changed();
  return element(
    "aside",
    { class: "controls", "aria-label": "settings" },
    element("h2", {}, "What if"),
    grid,
    element("div", { class: "tools" }, reset, link),
    status,
    outcome,
    element("h3", {}, "How to apply it"),
    apply,
  );
}

function limits(given: Controls, state: Choice, grid: HTMLElement, refresh: (() => void)[], changed: () => void): void {
  const group = element("select", { id: "group" });
  for (const path of given.groups) group.append(element("option", { value: path }, path));
  group.addEventListener("change", () => {
    state.cgroup = group.value;
    changed();
  });
  state.cgroup ??= given.groups[0];
  const most = Math.max(1, given.most_cpus);
  // A like factor from step to step: a hundredth of a CPU and 64 of them are equally easy to reach.
  const share = (step: number) => 0.01 * (most / 0.01) ** (step / QUOTA_STEPS);
  const stepOf = (cpus: number) => Math.round((QUOTA_STEPS * Math.log(Math.max(cpus, 0.01) / 0.01)) / Math.log(most / 0.01));
  const unlimited = element("input", { id: "unlimited", type: "checkbox" });
  let last = state.quota_us ?? state.period_us;
  const burstFits = () => {
    state.burst_us = state.quota_us === null ? 0 : Math.min(state.burst_us, state.quota_us);
    burst.show(state.burst_us / 1e3);
  };
  const quota = knob(
    "quota", "quota", "ms", 1, QUOTA_STEPS,
    (ms) => stepOf((ms * 1e3) / state.period_us),
    (step) => Math.max(1, Math.round((share(step) * state.period_us) / 1e3)),
    (ms) => {
      state.quota_us = last = Math.round(ms * 1e3);
      unlimited.checked = false;
      burstFits();
      changed();
    },
  );
  const period = knob(
    "period", "period", "ms", 1, PERIODS_US.length - 1,
    (ms) => nearest(PERIODS_US, ms * 1e3),
    (step) => PERIODS_US[step] / 1e3,
    (ms) => {
      state.period_us = Math.round(ms * 1e3);
      changed();
    },
  );
  const burst = knob(
    "burst", "burst", "ms", 0, 100,
    (ms) => (state.quota_us ? Math.round((1e5 * ms) / state.quota_us) : 0),
    (step) => Math.round(((state.quota_us ?? 0) * step) / 1e5),
    (ms) => {
      state.burst_us = Math.round(ms * 1e3);
      changed();
    },
  );
  const weight = knob(
    "weight", "weight", "", 1, WEIGHTS.length - 1,
    (value) => nearest(WEIGHTS, value),
    (step) => WEIGHTS[step],
    (value) => {
      state.weight = Math.round(value);
      changed();
    },
  );
  unlimited.addEventListener("change", () => {
    state.quota_us = unlimited.checked ? null : last;
    burstFits();
    changed();
  });
  refresh.push(() => {
    group.value = state.cgroup ?? given.groups[0];
    unlimited.checked = state.quota_us === null;
    quota.show((state.quota_us ?? last) / 1e3);
    period.show(state.period_us / 1e3);
    burst.show(state.burst_us / 1e3);
    weight.show(state.weight ?? 100);
  });
  const tick = element("label", { class: "field tick" }, element("span", { class: "field-label" }, ""), element("span", {}, unlimited, " no limit"));
  grid.append(line("cgroup", group), quota.box, tick, period.box, burst.box, weight.box);
}
