// The table: one row a metric, one column a variant.

import { breakable, element, number } from "./dom";
import { Cell, Report, Row } from "./types";

function verdict(row: Row, cell: Cell): string {
  if (!cell.significant || cell.direction === 0 || row.better === "none") return "";
  return cell.direction < 0 === (row.better === "lower") ? "better" : "worse";
}

function body(row: Row, cell: Cell | null, name: string): HTMLElement {
  if (cell === null) return element("td", { class: "none", "data-name": name }, "–");
  const td = element("td", { "data-name": name }, element("b", {}, `${cell.at_least ? "≥" : ""}${number(cell.mean, row.digits)}`));
  if (cell.spread !== "") td.append(element("span", { class: "spread" }, ` ${cell.spread}`));
  if (cell.change !== null) {
    const ends = cell.change_ci95;
    const title = ends ? `95 % interval of the paired change: ${ends[0]} to ${ends[1]}` : "one seed: no interval";
    const kind = verdict(row, cell);
    const text = cell.change + (cell.significant ? " *" : "");
    td.append(element("span", { class: `change ${kind}`, title }, text, kind ? element("span", { class: "unseen" }, ` (${kind})`) : null));
  }
  if (cell.recorded !== null) {
    td.append(element("span", { class: "measured" }, `recorded ${number(cell.recorded, row.digits)}`));
  }
  if (cell.measured) {
    const [median, least, most] = cell.measured.map((value) => number(value, row.digits));
    td.append(element("span", { class: "measured" }, `measured ${median}`), element("span", { class: "measured" }, `${least} to ${most}`));
  }
  return td;
}

/** turbostat's columns as rows: of each variant the mean, and the most in an interval. */
export function turbostat(report: Report): HTMLElement {
  const names = [...new Set(report.scenes.flatMap((scene) => scene.hardware?.columns.map((column) => column.name) ?? []))];
  const head = element("tr", {}, element("th", { scope: "col" }, "turbostat"));
  report.variants.forEach((variant, row) => {
    const mark = element("span", { class: `mark mark-${row % 10}`, "aria-hidden": "true" });
    head.append(element("th", { scope: "col" }, mark, variant.name, element("span", { class: "unit" }, " mean (most)")));
  });
  const rows = element("tbody");
  for (const name of names) {
    const cells = report.scenes.map((scene, row) => {
      const column = scene.hardware?.columns.find((one) => one.name === name);
      if (!column) return element("td", { class: "none" }, "–");
      const digits = name === "Bzy_MHz" ? 0 : 1;
      const most = element("span", { class: "spread" }, ` (${number(column.most, digits)})`);
      return element("td", { "data-name": report.variants[row].name }, element("b", {}, number(column.mean, digits)), most);
    });
    rows.append(element("tr", {}, element("th", { scope: "row" }, name), ...cells));
  }
  return element(
    "div",
    { class: "scroll", tabindex: "0", role: "region", "aria-label": "turbostat's columns" },
    element("table", {}, element("thead", {}, head), rows),
  );
}

export function table(report: Report): HTMLElement {
  const head = element("tr", {}, element("th", { scope: "col" }, "metric"));
  report.variants.forEach((variant, row) => {
    const mark = element("span", { class: `mark mark-${row % 10}`, "aria-hidden": "true" });
    head.append(element("th", { scope: "col" }, mark, variant.name));
  });
  const rows = element("tbody");
  const span = String(report.variants.length + 1);
  let subject = "";
  let section = report.table[0]?.section ?? null;
  for (const row of report.table) {
    if (row.section !== section) {
      section = row.section;
      subject = "";
      if (section) rows.append(element("tr", { class: "part-of" }, element("th", { scope: "rowgroup", colspan: span }, section)));
    }
    if (row.subject !== subject && row.subject !== section) {
      subject = row.subject;
      rows.append(element("tr", { class: "subject" }, element("th", { scope: "rowgroup", colspan: span }, subject)));
    }
    const unit = row.unit ? element("span", { class: "unit" }, ` ${row.unit}`) : null;
    rows.append(element("tr", {}, element("th", { scope: "row" }, breakable(row.name), unit), ...row.cells.map((cell, index) => body(row, cell, report.variants[index].name))));
  }
  return element(
    "div",
    { class: "scroll", tabindex: "0", role: "region", "aria-label": "table of results" },
    element("table", {}, element("thead", {}, head), rows),
  );
}
