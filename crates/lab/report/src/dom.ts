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
  return css(`--variant-${row % 6}`);
}

/** A number as the table prints it: digits behind the point, thousands apart. */
export function number(value: number, digits: number): string {
  return value.toLocaleString("en-US", {
    minimumFractionDigits: digits,
    maximumFractionDigits: digits,
  });
}

/** Microseconds in the unit people would say. */
export function duration(us: number): string {
  const [value, unit] = us >= 1e6 ? [us / 1e6, "s"] : us >= 1e3 ? [us / 1e3, "ms"] : us >= 1 ? [us, "µs"] : [us * 1e3, "ns"];
  return `${Number(value.toPrecision(3))} ${unit}`;
}
