// The page: sections in the order in which people ask.

import uplotStyle from "uplot/dist/uPlot.min.css";
import { cpuTime, idleStates, waits } from "./bars";
import { controls } from "./controls";
import { element, number, section } from "./dom";
import { distributions, hasPeriods, periods, power } from "./plots";
import { table, turbostat } from "./table";
import { timeline } from "./timeline";
import { Controls, Report } from "./types";

function json<T>(id: string): T | null {
  const holder = document.getElementById(id);
  return holder?.textContent ? (JSON.parse(holder.textContent) as T) : null;
}

function meta(report: Report): string {
  const kernels = [...new Set(report.variants.map((variant) => variant.kernel))];
  const parts = [
    report.title ? report.source : "",
    report.machine,
    `kernel${kernels.length > 1 ? "s" : ""} ${kernels.join(", ")}`,
    report.tier ? `tier ${report.tier}` : "",
    `${report.seeds} seed${report.seeds === 1 ? "" : "s"}`,
    `schedcast ${report.schedcast}`,
  ];
  return parts.filter((part) => part).join(" · ");
}

function fit(report: Report): HTMLElement | null {
  if (!report.fit.length) return null;
  const parts = report.fit.map((row) => {
    const error = row.seen ? ` (${row.predicted >= row.seen ? "+" : "−"}${Math.abs(100 * (row.predicted / row.seen - 1)).toFixed(1)} %)` : "";
    const unit = row.unit ? ` ${row.unit}` : "";
    const name = row.metric.slice(row.metric.lastIndexOf("/") + 1);
    return element("li", {}, element("b", {}, name), ` ${number(row.predicted, row.digits)}${unit} simulated, ${number(row.seen, row.digits)}${unit} recorded${error}`);
  });
  return element("div", { class: "fit" }, element("h3", {}, "Fit to the recording"), element("ul", {}, ...parts));
}

function copy(text: string): HTMLElement {
  const button = element("button", { type: "button" }, "copy");
  button.addEventListener("click", () => {
    void navigator.clipboard?.writeText(text).then(() => (button.textContent = "copied"));
  });
  return element("div", { class: "command" }, element("code", {}, text), button);
}

function variantDetails(report: Report): HTMLElement {
  const box = element("div", { class: "details" });
  report.variants.forEach((variant, row) => {
    const groups = variant.groups.map((group) =>
      element("li", {}, element("code", {}, group.path), ` cpu.max "${group.cpu_max}"${group.burst_us ? `, cpu.max.burst ${group.burst_us}` : ""}, shares ${group.shares}`),
    );
    box.append(
      element(
        "div",
        { class: "variant" },
        element("h3", {}, element("span", { class: `mark mark-${row % 6}`, "aria-hidden": "true" }), variant.name),
        element("p", {}, `kernel ${variant.kernel}, HZ ${variant.hz}, ${variant.cpus} CPUs · event hash `, element("code", {}, variant.event_hash)),
        element("ul", {}, ...groups),
        variant.apply.length ? copy(variant.apply.join("\n")) : null,
      ),
    );
  });
  return box;
}

function results(report: Report): HTMLElement[] {
  const parts: HTMLElement[] = [];
  parts.push(
    section(
      "table",
      "Results",
      "Mean over seeds ± half its 95 % interval; the change against the first column, with * where the paired 95 % interval excludes zero.",
      table(report),
      fit(report),
    ),
  );
  if (report.distributions.length)
    parts.push(section("latency", "Latency", "Each curve says how long the slowest take: at p99, one in a hundred takes at least this long. All seeds together.", distributions(report)));
  if (hasPeriods(report))
    parts.push(section("periods", "Demand against limit, period by period", "What the group used in each period, what it would have used had none of its threads ever waited (wanted), what the limit allowed it (quota and what it had saved), and how long its queues were throttled. First seed.", periods(report)));
  parts.push(
    section("timeline", "Timeline", "Which thread ran where, and how many threads of each group ran or waited; the red line below a group marks throttled queues. First seed. Drag moves; double click, or the wheel after a click, zooms; so do the keys + − 0 and the arrows.", timeline(report)),
  );
  if (report.waits.length)
    parts.push(section("waiting", "Running and waiting", "Time of all threads of a name: running, runnable while others had the CPU, runnable while the group was throttled. Mean over seeds.", waits(report)));
  parts.push(section("overheads", "Where CPU time went", "Shares of the time of all CPUs: tasks, each operation of the scheduler, idle. Mean over seeds.", cpuTime(report)));
  if (report.scenes.some((scene) => scene.hardware))
    parts.push(
      section(
        "hardware",
        "Clocks, idle states, power",
        "As the machine's model has them; most: in the interval with the most of each. First seed.",
        idleStates(report),
        turbostat(report),
        report.scenes.some((scene) => scene.watts.length || scene.mhz.length) ? power(report) : null,
      ),
    );
  parts.push(section("variants", "Variants, and how to get this again", "Equal event hashes mean equal runs.", variantDetails(report), report.reproduce ? copy(report.reproduce) : null));
  return parts;
}

function start(): void {
  const page = document.getElementById("page");
  let report = json<Report>("data");
  if (!page || !report) return;
  document.head.append(element("style", {}, uplotStyle));
  const given = json<Controls>("controls");
  const main = element("main");
  const head = element("header");
  const build = () => {
    if (!report) return;
    const sentence = element("p", { class: "sentence", id: "sentence" }, report.sentence);
    const warnings = report.warnings.map((warning) => element("p", { class: "sentence" }, element("b", {}, "Warning: "), warning));
    const title = element("h1", {}, report.title || report.source);
    head.replaceChildren(title, element("p", { class: "meta" }, meta(report)), ...warnings, sentence);
    if (report.target) head.append(element("p", { class: "meta" }, `target ${report.target}`));
    const at = window.scrollY;
    main.replaceChildren(...results(report));
    window.scrollTo(0, at);
  };
  page.append(element("a", { class: "skip", href: "#table" }, "skip to the results"), head);
  if (given)
    page.append(
      controls(given, (fresh) => {
        report = fresh;
        build();
      }),
    );
  page.append(main);
  build();
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", build);
}

start();
