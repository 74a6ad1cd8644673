// The page: sections in the order in which people ask.

import uplotStyle from "uplot/dist/uPlot.min.css";
import { cpuTime, idleStates, waits } from "./bars";
import { chosenOf, controls, Freshness, rowOfSet } from "./controls";
import { element, number, section } from "./dom";
import { Chosen, frontierView, limitText } from "./frontier";
import { distributions, hasPeriods, periods, power } from "./plots";
import { start as startPromise } from "./promise";
import { begin as beginRange } from "./range";
import { table, turbostat } from "./table";
import { timeline } from "./timeline";
import { Choice, Controls, Report } from "./types";

function json<T>(id: string): T | null {
  const holder = document.getElementById(id);
  return holder?.textContent ? (JSON.parse(holder.textContent) as T) : null;
}

function meta(report: Report): string {
  const kernels = [...new Set(report.variants.map((variant) => variant.kernel))];
  const parts = [
    report.source,
    report.machine,
    `kernel${kernels.length > 1 ? "s" : ""} ${kernels.join(", ")}`,
    report.tier ? `tier ${report.tier}` : "",
    `${report.seeds} seed${report.seeds === 1 ? "" : "s"}`,
    `schedcast ${report.schedcast}`,
  ];
  return parts.filter((part) => part && part !== report.subject).join(" · ");
}

function fit(report: Report): HTMLElement | null {
  if (!report.fit.length) return null;
  const parts = report.fit.map((row) => {
    const error = row.error ? ` (${row.error})` : "";
    const unit = row.unit ? ` ${row.unit}` : "";
    const name = row.metric.slice(row.metric.lastIndexOf("/") + 1);
    return element("li", {}, element("b", {}, name), ` ${number(row.predicted, row.digits)}${unit} re-simulated, ${number(row.seen, row.digits)}${unit} recorded${error}`);
  });
  return element("details", { class: "fit" }, element("summary", {}, "Fit to the recording: the recorded limit, re-simulated, beside what the recording shows"), element("ul", {}, ...parts));
}

function copy(text: string): HTMLElement {
  const button = element("button", { type: "button" }, "copy");
  button.addEventListener("click", () => {
    void navigator.clipboard?.writeText(text).then(() => (button.textContent = "copied"));
  });
  return element("div", { class: "command" }, element("code", {}, text), button);
}

function variantDetails(report: Report): HTMLElement {
  const box = element("div", { class: "variants" });
  report.variants.forEach((variant, row) => {
    const groups = variant.groups.map((group) =>
      element("li", {}, element("code", {}, group.path), ` cpu.max "${group.cpu_max}"${group.burst_us ? `, cpu.max.burst ${group.burst_us}` : ""}, shares ${group.shares}`),
    );
    const how = variant.dialects.length ? variant.dialects.map(([tool, words]) => `# ${tool}\n${words}`).join("\n") : variant.apply.join("\n");
    box.append(
      element(
        "details",
        { class: "variant" },
        element("summary", {}, element("span", { class: `mark mark-${row % 10}`, "aria-hidden": "true" }), variant.name),
        element("p", {}, `kernel ${variant.kernel}, HZ ${variant.hz}, ${variant.cpus} CPUs · event hash `, element("code", {}, variant.event_hash)),
        element("ul", {}, ...groups),
        how ? copy(how) : null,
      ),
    );
  });
  return box;
}

const FRONTIER_HELP =
  "Simulated latency against the limit, a line for each burst. The band is where one run lies in 95 of 100 cases, with what the re-simulated recording missed. Grey: less than the service used on average.";

function results(report: Report): HTMLElement[] {
  const parts: HTMLElement[] = [];
  beginRange(Math.max(...report.scenes.map((scene) => scene.length_ms)));
  if (hasPeriods(report))
    parts.push(section("periods", "Demand against limit, period by period", "The first variant and the advised one. What the group used in each period, what it would have used had none of its threads ever waited (wanted), what the limit allowed it (quota and what it had saved), and how long its queues were throttled. First seed. A click on a period shows it in the timeline; a dragged range is that of all charts over time.", periods(report)));
  parts.push(
    section(
      "table",
      "Results",
      `Mean of ${report.seeds} seeds ± half the 95 % interval ${report.tier === "trace" ? "of one run, wherever its periods fall and however the machine drifts" : "of the mean"}; below it the change against the first column, with * where it differs for certain (99 %, paired).`,
      table(report),
      fit(report),
    ),
  );
  if (report.distributions.length)
    parts.push(section("latency", "Latency", "Each curve says how long the slowest take: at p99, one in a hundred takes at least this long. All seeds together.", distributions(report)));
  parts.push(
    section("timeline", "Timeline", "Which thread ran where, and how many threads of each group ran or waited; the red line below a group marks throttled queues. First seed. Drag moves; double click, Ctrl with the wheel, or the wheel after a click zooms; so do the keys + − 0 and the arrows.", timeline(report)),
  );
  if (report.waits.length)
    parts.push(section("waiting", "Running and waiting", "Time of all threads of a name: running, runnable while others had the CPU, runnable while the group was throttled. Mean of all seeds.", waits(report)));
  parts.push(section("overheads", "Where CPU time went", "Shares of the time of all CPUs: tasks, each operation of the scheduler, idle. Mean of all seeds.", cpuTime(report)));
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
  parts.push(section("variants", "Variants, and how to get this again", "What each column is, and the lines that apply its limit. Equal event hashes mean equal runs.", variantDetails(report), report.reproduce ? copy(report.reproduce) : null));
  return parts;
}

/** A sentence with its first word, now or the cheapest change, in bold. */
function sentence(text: string, row: number): HTMLElement {
  const colon = text.indexOf(": ");
  const attributes: Record<string, string> = row === 0 ? { class: "sentence", id: "sentence" } : { class: "sentence" };
  // A number keeps its unit on its line.
  const whole = `${text.charAt(0).toUpperCase()}${text.slice(1)}`.replace(/(\d) (%|ms|us|s)(?![a-z])/g, "$1\u00a0$2");
  if (colon < 0 || colon > 40) return element("p", attributes, whole);
  return element("p", attributes, element("b", {}, whole.slice(0, colon + 2)), whole.slice(colon + 2));
}

function start(): void {
  const page = document.getElementById("page");
  let report = json<Report>("data");
  if (!page || !report) return;
  performance.mark("begin");
  document.head.append(element("style", {}, uplotStyle));
  const given = json<Controls>("controls");
  // The frontier is about the recording: settings that are simulated later are marked on it.
  const { frontier } = report;
  if (frontier) startPromise(frontier);
  let set: { chosen: Chosen[]; choice: Choice } | null = null;
  const main = element("main", { id: "results" });
  const head = element("header");
  const banner = element("p", { class: "banner", role: "alert" });
  banner.hidden = true;
  const body = element("div", { class: "parts-of-page" });
  const build = () => {
    if (!report) return;
    const warnings = report.warnings.map((warning) => element("p", { class: "warning" }, element("b", {}, "Warning: "), warning));
    const target = report.target ? element("p", { class: "meta" }, `target ${report.target}`) : null;
    head.replaceChildren(element("h1", {}, report.subject), element("p", { class: "meta" }, meta(report)), ...(target ? [target] : []), ...warnings, ...report.sentences.map(sentence));
    const at = window.scrollY;
    body.style.minHeight = `${body.offsetHeight}px`;
    body.replaceChildren(...results(report));
    main.classList.toggle("framed", frontier !== null && hasPeriods(report));
    main.classList.toggle("many", report.variants.length > 3);
    body.style.minHeight = "";
    window.scrollTo(0, at);
  };
  let redraw = () => {};
  const mark = (freshness: Freshness, why: string) => {
    main.classList.toggle("stale", freshness !== "fresh");
    main.setAttribute("aria-busy", String(freshness === "simulating"));
    banner.hidden = freshness !== "failed";
    const of = set ? `for ${limitText(set.choice)}` : "as the question was asked";
    banner.textContent = freshness === "failed" ? `Out of date: ${why}. The results below are those ${of}, not those of what is set.` : "";
  };
  page.append(element("a", { class: "skip", href: "#results" }, "skip to the results"));
  const side = given
    ? controls(
        given,
        report,
        (fresh, choice) => {
          report = fresh;
          report.cheapest = rowOfSet(fresh, choice);
          set = { chosen: chosenOf(fresh, choice, given.start), choice };
          build();
          redraw();
        },
        mark,
      )
    : null;
  if (side) page.classList.add("served");
  if (frontier) {
    const view = frontierView(frontier, !given, () => set?.chosen ?? []);
    redraw = view.redraw;
    main.append(banner, head, section("frontier", "What other limits would do", FRONTIER_HELP, view.box), body);
  } else main.append(banner, head, body);
  if (side) page.append(side);
  page.append(main);
  build();
  // Plots are made in the first frame; measure.py reads how long all of it took.
  requestAnimationFrame(() => requestAnimationFrame(() => performance.measure("drawn", "begin")));
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => {
    build();
    redraw();
  });
}

start();
