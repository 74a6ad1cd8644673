// Timeline of CPUs and groups of the first seed of every variant, on one time axis that zooms.

import { css, element, number, perVariant } from "./dom";
import { Drawing, GUTTER, lanes, MOST_CPUS } from "./lanes";
import { onRange, show, showAll, shown, zoom } from "./range";
import { Report } from "./types";

/** A colour for every thread name, the same in all variants; the busiest get the most distinct
 * ones. */
function nameColors(all: ReturnType<typeof lanes>[]): Map<string, string> {
  const time = new Map<string, number>();
  for (const { scene, runs } of all)
    for (const of of runs)
      for (let row = 0; row < of.name.length; row++) {
        const name = scene.names[of.name[row]];
        time.set(name, (time.get(name) ?? 0) + of.to[row] - of.from[row]);
      }
  const sorted = [...time.keys()].sort((left, right) => (time.get(right) ?? 0) - (time.get(left) ?? 0));
  return new Map(sorted.map((name, row) => [name, css(`--thread-${Math.min(row, 9)}`)]));
}

function legend(colors: Map<string, string>): HTMLElement {
  const box = element("div", { class: "legend" });
  const add = (name: string, color: string) => {
    const dot = element("span", { class: "dot", "aria-hidden": "true" });
    dot.style.background = color;
    box.append(element("span", { class: "part" }, dot, name));
  };
  const names = [...colors];
  for (const [name, color] of names.slice(0, 9)) add(name, color);
  if (names.length > 9) add("others", css("--thread-9"));
  box.append(element("span", { class: "part" }, "· groups:"));
  add("running", css("--run"));
  add("waiting", css("--wait"));
  add("throttled", css("--throttled"));
  return box;
}

function button(text: string, title: string, act: () => void): HTMLButtonElement {
  const made = element("button", { type: "button", title }, text);
  made.addEventListener("click", act);
  return made;
}

/** Goes from one of the target's longest waits in the first variant to the next. */
function longestWaits(report: Report, info: HTMLElement): HTMLElement | null {
  const waits = report.scenes[0]?.waits ?? [];
  if (!waits.length) return null;
  let next = 0;
  const made = button("longest wait", `Longest waits of ${report.variants[0].name}, one after the other`, () => {
    const [at, long, who] = waits[next];
    show(at - long * 0.5, at + long * 1.5);
    info.textContent = `Wait ${next + 1} of the ${waits.length} longest of ${report.variants[0].name}: ${who} waited ${number(long, 2)} ms from ${number(at, 2)} ms on.`;
    next = (next + 1) % waits.length;
    made.textContent = next ? "next longest wait" : "longest wait";
  });
  return made;
}

/** Looks for the runs of a thread by its name. */
function search(drawings: Drawing[], colors: Map<string, string>, info: HTMLElement, seek: (name: string) => void): HTMLElement {
  const names = element("datalist", { id: "threads" });
  for (const name of colors.keys()) names.append(element("option", { value: name }));
  const field = element("input", { id: "thread", type: "search", list: "threads", placeholder: "name of a thread", autocomplete: "off", spellcheck: "false" });
  const found = () => {
    const typed = field.value.trim();
    if (!typed) return "";
    const all = [...colors.keys()];
    return all.find((name) => name === typed) ?? all.find((name) => name.toLowerCase().includes(typed.toLowerCase())) ?? "";
  };
  /** The runs of the thread in the first variant that has any, in the order of time. */
  const runsOf = (name: string) => {
    for (const { lanes, title } of drawings) {
      const all = lanes.runs.flatMap((of, cpu) => [...of.name].flatMap((row, one) => (lanes.scene.names[row] === name ? [{ cpu, from: of.from[one], to: of.to[one] }] : [])));
      if (all.length) return { title, all: all.sort((left, right) => left.from - right.from) };
    }
    return null;
  };
  const tell = () => {
    const name = found();
    seek(name);
    field.setAttribute("aria-invalid", String(field.value.trim() !== "" && !name));
    info.textContent = !field.value.trim() ? " " : name ? `${name} is bright, the others are pale. Enter goes to its next run.` : `No thread is called “${field.value.trim()}”.`;
  };
  const go = (forward: boolean) => {
    const name = found();
    const of = name ? runsOf(name) : null;
    if (!of) return tell();
    const middle = (shown.from + shown.to) / 2;
    const { all } = of;
    const row = forward ? all.findIndex((one) => one.from > middle + 0.001) : all.filter((one) => one.to < middle - 0.001).length - 1;
    const one = all[row < 0 ? (forward ? 0 : all.length - 1) : row];
    const half = Math.max(Math.min(shown.to - shown.from, shown.length / 20) / 2, (one.to - one.from) * 0.75);
    const center = (one.from + one.to) / 2;
    show(center - half, center + half);
    info.textContent = `${name}, ${of.title}: run ${all.indexOf(one) + 1} of ${all.length} that are known, on CPU ${one.cpu} from ${number(one.from, 3)} ms on, for ${number(one.to - one.from, 3)} ms.`;
  };
  field.addEventListener("input", tell);
  field.addEventListener("keydown", (event) => {
    if (event.key === "Enter") go(!event.shiftKey);
  });
  const label = element("label", { class: "choice" }, element("span", {}, "thread"), field);
  return element("div", { class: "tools" }, label, names, button("previous run", "The run before", () => go(false)), button("next run", "The run after", () => go(true)));
}

/** Which CPUs are shown, where there are many. */
function cpuChoice(cpus: number, drawings: Drawing[], redraw: () => void): HTMLElement | null {
  if (cpus <= MOST_CPUS) return null;
  const select = element("select", { id: "cpus-shown" });
  for (let first = 0; first < cpus; first += MOST_CPUS) select.append(element("option", { value: `${first} ${MOST_CPUS}` }, `${first} to ${Math.min(cpus, first + MOST_CPUS) - 1}`));
  select.append(element("option", { value: `0 ${cpus}` }, `all ${cpus}`));
  select.addEventListener("change", () => {
    const [first, count] = select.value.split(" ").map(Number);
    for (const drawing of drawings) drawing.only(first, count);
    redraw();
  });
  return element("label", { class: "choice" }, element("span", {}, "CPUs"), select);
}

export function timeline(report: Report): HTMLElement {
  // The target's path stands in front of what is said about it.
  const target = report.target?.split(", ")[0] ?? null;
  const all = report.scenes.map((scene) => lanes(scene, target));
  const colors = nameColors(all);
  let sought = "";
  const drawings = all.map((one, row) => new Drawing(one, report.variants[row].name, colors, () => sought));
  const info = element("p", { class: "info", role: "status", "aria-live": "polite" }, " ");
  let planned = false;
  const redraw = () => {
    if (planned) return;
    planned = true;
    requestAnimationFrame(() => {
      planned = false;
      for (const drawing of drawings) if (drawing.canvas.clientWidth) drawing.draw();
    });
  };
  const middle = () => (shown.from + shown.to) / 2;
  const tools = element(
    "div",
    { class: "tools" },
    button("zoom out", "Half as near", () => zoom(middle(), 2)),
    button("zoom in", "Twice as near", () => zoom(middle(), 0.5)),
    button("whole run", "All of it, in all charts", showAll),
  );
  const first = report.scenes[0];
  if (first && !first.complete) tools.append(button("detail", "The part with every run of a thread", () => show(...first.window_ms)));
  const waits = longestWaits(report, info);
  if (waits) tools.append(waits);
  const chosen = cpuChoice(Math.max(...report.scenes.map((scene) => scene.cpus)), drawings, redraw);
  if (chosen) tools.append(chosen);
  const seek = (name: string) => {
    sought = name;
    redraw();
  };
  const tip = element("div", { class: "tip", "aria-hidden": "true" });
  tip.hidden = true;
  const box = element("div", { class: "timeline" }, tools, search(drawings, colors, info, seek), info, tip);
  const make = (row: number) => {
    const drawing = drawings[row];
    hands(drawing, box, tip);
    new ResizeObserver(redraw).observe(drawing.canvas);
    return element("div", {}, element("h3", {}, drawing.title), drawing.canvas);
  };
  const lanesOf = perVariant(report.variants.map((one) => one.name), report.cheapest, make);
  lanesOf.classList.add("stacked");
  box.append(lanesOf, legend(colors));
  onRange(redraw);
  redraw();
  return box;
}

/** Mouse, touch and keys. */
function hands(drawing: Drawing, box: HTMLElement, tip: HTMLElement): void {
  const { canvas } = drawing;
  let held: { x: number; from: number; to: number } | null = null;
  const point = (event: MouseEvent, text: string) => {
    tip.hidden = !text;
    tip.textContent = text;
    if (!text) return;
    const around = box.getBoundingClientRect();
    const left = event.clientX - around.left + 14;
    tip.style.left = `${Math.max(0, Math.min(left, around.width - tip.offsetWidth))}px`;
    tip.style.top = `${event.clientY - around.top + 18}px`;
  };
  canvas.addEventListener(
    "wheel",
    (event) => {
      // The wheel alone moves the page, until the chart was clicked.
      if (!event.ctrlKey && !event.shiftKey && document.activeElement !== canvas) return point(event, "The wheel zooms with Ctrl, or after a click.");
      event.preventDefault();
      zoom(drawing.at(event.offsetX), (event.deltaY || event.deltaX) > 0 ? 1.25 : 0.8);
    },
    { passive: false },
  );
  canvas.addEventListener("pointerdown", (event) => {
    held = { x: event.offsetX, from: shown.from, to: shown.to };
    canvas.setPointerCapture(event.pointerId);
  });
  canvas.addEventListener("pointerup", () => (held = null));
  canvas.addEventListener("pointerleave", () => (tip.hidden = true));
  canvas.addEventListener("pointermove", (event) => {
    if (!held) return point(event, drawing.under(event.offsetX, event.offsetY));
    const moved = ((event.offsetX - held.x) / (canvas.clientWidth - GUTTER)) * (held.to - held.from);
    show(held.from - moved, held.to - moved);
  });
  canvas.addEventListener("dblclick", (event) => zoom(drawing.at(event.offsetX), 0.25));
  canvas.addEventListener("keydown", (event) => {
    const span = shown.to - shown.from;
    const middle = (shown.from + shown.to) / 2;
    const act: Record<string, () => void> = {
      ArrowLeft: () => show(shown.from - span / 8, shown.to - span / 8),
      ArrowRight: () => show(shown.from + span / 8, shown.to + span / 8),
      "+": () => zoom(middle, 0.5),
      "=": () => zoom(middle, 0.5),
      "-": () => zoom(middle, 2),
      "0": showAll,
      // As in the Perfetto viewer.
      w: () => zoom(middle, 0.5),
      s: () => zoom(middle, 2),
      a: () => show(shown.from - span / 8, shown.to - span / 8),
      d: () => show(shown.from + span / 8, shown.to + span / 8),
    };
    if (!act[event.key] || event.ctrlKey || event.metaKey || event.altKey) return;
    event.preventDefault();
    act[event.key]();
  });
}
