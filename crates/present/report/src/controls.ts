// The panel of a served page: what it is set to is simulated anew. It stays where it is while
// results come and go.

import { Chosen, limitText, promiseFields } from "./frontier";
import { element, number } from "./dom";
import { inAddress, onPromise } from "./promise";
import { Choice, Controls, Frontier, Report } from "./types";

/** Periods that the slider offers, us; the number beside it takes any. */
const PERIODS_US = [1000, 2000, 5000, 10000, 20000, 25000, 40000, 50000, 100000, 200000, 250000, 500000, 1000000];
const WEIGHTS = [1, 10, 25, 50, 75, 100, 150, 200, 400, 800, 2000, 10000];
/** Steps of the quota's slider: from a hundredth of a CPU to all of them, each a like factor
 * more. */
const QUOTA_STEPS = 200;
/** Most columns that are kept, as the server has it. */
const MOST_PINNED = 6;
/** How long a control rests before the server is asked, ms. */
const REST_MS = 25;

/** State of the page while its numbers are not those of the settings. */
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

/** Settings in the words of an address; what is missing is as in `start`. */
function settings(words: Iterable<[string, string]>, start: Choice): Partial<Choice> {
  const out: Record<string, string | number | null> = {};
  for (const [key, text] of words) {
    if (!(key in start)) continue;
    const value = Number(text);
    if (key === "kernel" || key === "cgroup") out[key] = text;
    else if (text === "max") out[key] = null;
    else if (Number.isFinite(value)) out[key] = value;
  }
  return out as Partial<Choice>;
}

/** Settings and pins, from the address behind #. */
function fromAddress(start: Choice): { set: Partial<Choice>; pinned: Choice[] } {
  const words = new URLSearchParams(location.hash.slice(1));
  const pinned = words.getAll("pin").map((text) => ({ ...start, ...settings(new URLSearchParams(text), start) }));
  return { set: settings(words, start), pinned: pinned.slice(0, MOST_PINNED) };
}

function inWords(state: Choice, start: Choice): URLSearchParams {
  const changed = Object.entries(state).filter(([key, value]) => key !== "pinned" && value !== start[key as keyof Choice]);
  return new URLSearchParams(changed.map(([key, value]) => [key, value === null ? "max" : String(value)]));
}

function toAddress(state: Choice, pinned: Choice[], start: Choice, frontier: Frontier | null): void {
  const text = inWords(state, start);
  for (const one of pinned) text.append("pin", inWords({ ...one, seeds: start.seeds }, start).toString());
  const promise = inAddress(frontier);
  if (promise) text.set("promise", promise);
  history.replaceState(null, "", text.size ? `#${text}` : location.pathname);
}

function sameSettings(one: Choice, other: Choice): boolean {
  const keys = Object.keys(one).filter((key) => key !== "seeds" && key !== "pinned") as (keyof Choice)[];
  return keys.every((key) => one[key] === other[key]);
}

/** Row of the variant that is what was set: the last, or the pinned column that is the same. */
export function rowOfSet(report: Report, state: Choice): number {
  const pinned = (state.pinned ?? []).findIndex((one) => sameSettings(one, state));
  return pinned >= 0 ? pinned + 1 : report.variants.length - 1;
}

/** The limits of a report that were pinned and set, where nothing else differs from the start. */
export function chosenOf(report: Report, state: Choice, start: Choice): Chosen[] {
  const isLimitOnly = (one: Choice) => one.kernel === start.kernel && one.period_us === start.period_us && one.weight === start.weight && one.cgroup === start.cgroup;
  const of = (one: Choice, row: number, name: string): Chosen => {
    const values = new Map<string, number>();
    for (const line of report.table) {
      const cell = line.cells[row];
      if (cell) values.set(line.metric, cell.mean * (line.unit === "s" ? 1e6 : line.unit === "ms" ? 1e3 : 1));
    }
    return { name, limit: { quota_us: one.quota_us, period_us: one.period_us, burst_us: one.burst_us }, values };
  };
  const set = rowOfSet(report, state);
  const all: [Choice, number, string][] = (state.pinned ?? []).map((one, row) => [one, row + 1, `pinned ${row + 1}`]);
  if (set > all.length) all.push([state, set, "what you set"]);
  return all.filter(([one, row]) => row > 0 && row < report.variants.length && isLimitOnly(one)).map((one) => of(...one));
}

/** The rows whose numbers stand in the panel: the percentiles of the first latency, and
 * throttled periods. */
function told(report: Report): Report["table"] {
  const latency = report.table.find((row) => /latency\.p\d+$/.test(row.name));
  const family = latency ? latency.metric.slice(0, latency.metric.lastIndexOf(".") + 1) : "?";
  const percentiles = report.table.filter((row) => row.metric.startsWith(family) && /\.p(50|95|99)$/.test(row.name));
  const throttled = report.table.find((row) => row.name === "nr_throttled");
  return throttled ? [...percentiles, throttled] : percentiles;
}

/** The numbers of the first variant, and of the one in row `set`, if there is one. */
function numbers(report: Report, set: number): HTMLElement {
  const rows = told(report).map((row) => {
    const [before, after] = [row.cells[0], row.cells[set]].map((cell) => (cell ? `${cell.at_least ? "≥" : ""}${number(cell.mean, row.digits)}` : "–"));
    const name = row.name.slice(row.name.lastIndexOf(".") + 1).replace("nr_throttled", "throttled periods");
    const unit = row.unit ? element("span", { class: "unit" }, ` ${row.unit}`) : null;
    return element("tr", {}, element("th", { scope: "row" }, name, unit), element("td", {}, before), element("td", {}, element("b", {}, set > 0 ? after : "–")));
  });
  const head = element("tr", {}, element("th", { scope: "col" }, element("span", { class: "unseen" }, "figure")), element("th", { scope: "col" }, "re-simulated"), element("th", { scope: "col" }, "what you set"));
  return element("table", { class: "numbers" }, element("thead", {}, head), element("tbody", {}, ...rows));
}

/** Answer of the server to a choice. */
async function simulated(choice: Choice): Promise<Report> {
  const reply = await fetch("simulate", { method: "POST", headers: { "content-type": "application/json" }, body: JSON.stringify(choice) });
  const text = await reply.text();
  if (!reply.ok) throw new Error(text.trim());
  return JSON.parse(text) as Report;
}

/** Builds the panel. `show` gets each new report, `mark` what the results on the page are. */
export function controls(given: Controls, report: Report, show: (report: Report, state: Choice) => void, mark: (freshness: Freshness, why: string) => void): HTMLElement {
  const linked = fromAddress(given.start);
  const state: Choice = { ...given.start, ...linked.set };
  const { pinned } = linked;
  const status = element("p", { class: "info", id: "status", role: "status", "aria-live": "polite" }, "move a control, or type a number");
  const outcome = element("div", { class: "outcome" }, numbers(report, 0));
  const apply = element("pre", { class: "apply", tabindex: "0", role: "region", "aria-label": "how to apply what is set" }, "");
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
    const sent = { ...state, pinned: [...pinned] };
    const tell = (fresh: Report) => outcome.replaceChildren(numbers(fresh, rowOfSet(fresh, sent)));
    const milliseconds = () => `${number(performance.now() - begin, 0)} ms`;
    try {
      // One seed answers first, in the panel only; the server keeps its run for the whole answer.
      if (sent.seeds > 1) {
        const first = await simulated({ ...sent, seeds: 1, pinned: [] });
        if (!again) {
          outcome.replaceChildren(numbers(first, first.variants.length - 1));
          status.textContent = `one seed in ${milliseconds()}, ${sent.seeds} seeds follow`;
        }
      }
      const fresh = again ? null : await simulated(sent);
      if (fresh && !again) {
        tell(fresh);
        outcome.classList.remove("stale");
        const mine = fresh.variants[rowOfSet(fresh, sent)];
        apply.textContent = mine.dialects.map(([tool, how]) => `${tool}\n  ${how}`).join("\n") || mine.apply.join("\n") || "nothing to change";
        show(fresh, sent);
        mark("fresh", "");
        status.textContent = `${sent.seeds} seed${sent.seeds === 1 ? "" : "s"} in ${milliseconds()}`;
      }
    } catch (error) {
      // The browser's own words for a server that does not answer differ, and say nothing to a
      // reader.
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
    toAddress(state, pinned, given.start, report.frontier);
    status.textContent = "simulating…";
    showPins();
    outcome.classList.add("stale");
    mark("simulating", "");
    if (running) again = true;
    clearTimeout(timer);
    timer = window.setTimeout(() => void send(), REST_MS);
  };
  const pins = element("ul", { class: "pins", "aria-label": "pinned columns" });
  const pin = element("button", { type: "button", id: "pin", title: "Keeps what is set as a column of its own" }, "pin as a column");
  const showPins = () => {
    pin.disabled = pinned.length >= MOST_PINNED || [given.start, ...pinned].some((one) => sameSettings(one, state));
    const line = (one: Choice, row: number) => {
      const gone = element("button", { type: "button", "aria-label": `unpin ${row + 1}` }, "×");
      gone.addEventListener("click", () => {
        pinned.splice(row, 1);
        changed();
      });
      return element("li", {}, element("span", {}, `${row + 1}: ${limitText(one)}${one.kernel === given.start.kernel ? "" : `, kernel ${one.kernel}`}`), gone);
    };
    pins.replaceChildren(...pinned.map(line));
  };
  pin.addEventListener("click", () => {
    pinned.push({ ...state });
    changed();
  });
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
    pinned.length = 0;
    Object.assign(state, given.start);
    for (const one of refresh) one();
    changed();
  });
  const link = element("button", { type: "button", id: "link" }, "copy link");
  link.addEventListener("click", () => void navigator.clipboard?.writeText(location.href).then(() => (status.textContent = "the address of these settings is copied")));
  for (const one of refresh) one();
  if (report.frontier) {
    grid.append(promiseFields(report.frontier));
    onPromise(() => toAddress(state, pinned, given.start, report.frontier));
  }
  if (Object.keys(linked.set).length || pinned.length) changed();
  else showPins();
  return element(
    "aside",
    { class: "controls", "aria-label": "settings" },
    element("h2", {}, "What if"),
    grid,
    element("div", { class: "tools" }, pin, reset, link),
    status,
    outcome,
    element("h3", {}, "How to apply it"),
    apply,
    pins,
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
