// Small helpers around the document.

type Child = Node | string | null;

export function element<K extends keyof HTMLElementTagNameMap>(
  tag: K,
  attributes: Record<string, string> = {},
  ...children: Child[]
): HTMLElementTagNameMap[K] {
  const made = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) made.setAttribute(name, value);
  for (const child of children) if (child !== null) made.append(child);
  return made;
}

/** A long name that may be broken behind its dots, slashes and underscores. */
export function breakable(name: string): HTMLElement {
  const parts = name.split(/(?<=[._/:])/);
  return element("span", {}, ...parts.flatMap((part, row) => (row ? [element("wbr"), part] : [part])));
}

export function section(id: string, title: string, help: string, ...children: Child[]): HTMLElement {
  return element(
    "section",
    { id, "aria-labelledby": `${id}-title` },
    element("h2", { id: `${id}-title` }, title),
    element("p", { class: "help" }, help),
    ...children,
  );
}

/** A labelled choice; calls `changed` with the row that was chosen. */
export function choice(label: string, options: string[], changed: (row: number) => void): HTMLElement {
  const select = element("select");
  options.forEach((option, row) => select.append(element("option", { value: String(row) }, option)));
  select.addEventListener("change", () => changed(Number(select.value)));
  return element("label", { class: "choice" }, element("span", {}, label), select);
}

export function css(name: string): string {
  return getComputedStyle(document.documentElement).getPropertyValue(name).trim();
}

export function variantColor(row: number): string {
  return css(`--variant-${row % 10}`);
}

/** A number as the table prints it: digits behind the point, thousands apart. */
export function number(value: number, digits: number): string {
  return value.toLocaleString("en-US", {
    minimumFractionDigits: digits,
    maximumFractionDigits: digits,
  });
}

/** The unit of times up to `largest` microseconds, as the tables of the terminal have it. */
export function scaleOf(largest: number): { divisor: number; unit: string } {
  if (largest >= 1e7) return { divisor: 1e6, unit: "s" };
  return largest >= 1e4 ? { divisor: 1e3, unit: "ms" } : { divisor: 1, unit: "us" };
}

/** Microseconds in the unit that the tables would choose, to four digits. */
export function duration(us: number): string {
  const { divisor, unit } = scaleOf(us);
  const value = us / divisor;
  const digits = value >= 1000 ? 0 : value >= 100 ? 1 : value >= 10 || value === 0 ? 2 : 3;
  return `${number(value, digits)} ${unit}`;
}

/**
 * One part for each variant: the first, and the one that is advised (else the second), side by
 * side; the others behind a line that opens them, and are made then.
 */
export function perVariant(names: string[], advised: number | null, make: (variant: number) => HTMLElement | null): HTMLElement {
  const open = names.length > 1 ? [0, advised ?? 1] : [0];
  const side = element("div", { class: "side-by-side" }, ...open.map(make));
  const others = names.map((_, variant) => variant).filter((variant) => !open.includes(variant));
  if (!others.length) return side;
  const fold = element("details", { class: "others" }, element("summary", {}, `${others.length === 1 ? "one more variant" : `${others.length} more variants`}: ${others.map((variant) => names[variant]).join(", ")}`));
  fold.addEventListener("toggle", () => {
    if (fold.children.length === 1) fold.append(element("div", { class: "side-by-side" }, ...others.map(make)));
  });
  return element("div", {}, side, fold);
}
