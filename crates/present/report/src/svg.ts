// Small helpers for pictures that are drawn as SVG.

const NAMESPACE = "http://www.w3.org/2000/svg";

export function shape(tag: string, attributes: Record<string, string | number>, text = ""): SVGElement {
  const made = document.createElementNS(NAMESPACE, tag);
  for (const [name, value] of Object.entries(attributes)) made.setAttribute(name, String(value));
  if (text) made.textContent = text;
  return made;
}

/** A range on a logarithmic axis: where a value lies from 0 at the low end to 1 at the high one. */
export class Range {
  constructor(
    readonly low: number,
    readonly high: number,
  ) {}

  static of(values: number[]): Range | null {
    const known = values.filter((value) => value > 0 && Number.isFinite(value));
    if (!known.length) return null;
    const [low, high] = [Math.min(...known), Math.max(...known)];
    return high / low < 1.01 ? new Range(low / 1.2, high * 1.2) : new Range(low, high);
  }

  share(value: number): number {
    return Math.min(1, Math.max(0, Math.log(value / this.low) / Math.log(this.high / this.low)));
  }

  /** Round values between the ends, more of them where 1, 2 and 5 times powers of ten are few. */
  marks(): number[] {
    const rounded = (mantissas: number[]) => {
      const marks: number[] = [];
      for (let power = Math.floor(Math.log10(this.low)); power <= Math.ceil(Math.log10(this.high)); power++)
        for (const mantissa of mantissas) marks.push(Number((mantissa * 10 ** power).toPrecision(3)));
      return marks.filter((mark) => mark >= this.low * 0.999 && mark <= this.high * 1.001);
    };
    const coarse = rounded([1, 2, 5]);
    return coarse.length >= 3 ? coarse : rounded([1, 1.5, 2, 3, 4, 5, 6, 8]);
  }
}

export interface EndLabel {
  at: number;
  text: string;
  color: string;
}

/** Moves labels apart that would be printed over each other, and keeps them between the edges. */
export function apart(labels: EndLabel[], top: number, bottom: number, room: number): EndLabel[] {
  const sorted = labels.map((label) => ({ ...label })).sort((left, right) => left.at - right.at);
  let free = top;
  for (const label of sorted) {
    label.at = Math.max(label.at, free);
    free = label.at + room;
  }
  let most = bottom;
  for (const label of [...sorted].reverse()) {
    label.at = Math.min(label.at, most);
    most = label.at - room;
  }
  return sorted;
}

/** Pixels of a saved picture for each of the screen's. */
const PNG_SCALE = 2;

function offer(address: string, name: string): void {
  const link = document.createElement("a");
  link.href = address;
  link.download = name;
  link.click();
}

/** A drawing as the text of a file. */
function fileOf(svg: SVGElement): string {
  const copy = svg.cloneNode(true) as SVGElement;
  copy.setAttribute("xmlns", NAMESPACE);
  return new XMLSerializer().serializeToString(copy);
}

/** Offers a drawing as a file. */
export function download(svg: SVGElement, name: string): void {
  const address = URL.createObjectURL(new Blob([fileOf(svg)], { type: "image/svg+xml" }));
  offer(address, name);
  URL.revokeObjectURL(address);
}

/** Offers a drawing as a picture of pixels. */
export function downloadPng(svg: SVGElement, name: string): void {
  const picture = new Image();
  picture.onload = () => {
    const canvas = document.createElement("canvas");
    canvas.width = picture.width * PNG_SCALE;
    canvas.height = picture.height * PNG_SCALE;
    canvas.getContext("2d")?.drawImage(picture, 0, 0, canvas.width, canvas.height);
    offer(canvas.toDataURL("image/png"), name);
  };
  // The policy of the page allows pictures from data, and no others.
  picture.src = `data:image/svg+xml;charset=utf-8,${encodeURIComponent(fileOf(svg))}`;
}
