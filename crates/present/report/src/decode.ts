// Numbers that were packed as varints in base64.

function bytes(text: string): Uint8Array {
  const raw = atob(text);
  const out = new Uint8Array(raw.length);
  for (let row = 0; row < raw.length; row++) out[row] = raw.charCodeAt(row);
  return out;
}

function integers(text: string): number[] {
  const out: number[] = [];
  let value = 0;
  let scale = 1;
  for (const byte of bytes(text)) {
    value += (byte & 127) * scale;
    if (byte & 128) {
      scale *= 128;
    } else {
      out.push(value);
      value = 0;
      scale = 1;
    }
  }
  return out;
}

/** Runs of threads on one CPU, in ms. */
export interface Runs {
  from: Float64Array;
  to: Float64Array;
  name: Uint32Array;
}

export function runs(text: string, tickNs: number): Runs {
  const all = integers(text);
  const count = all.length / 3;
  const out = { from: new Float64Array(count), to: new Float64Array(count), name: new Uint32Array(count) };
  let at = 0;
  for (let row = 0; row < count; row++) {
    at += all[3 * row];
    out.from[row] = (at * tickNs) / 1e6;
    at += all[3 * row + 1];
    out.to[row] = (at * tickNs) / 1e6;
    out.name[row] = all[3 * row + 2];
  }
  return out;
}

/** Waits of threads in the order of their ends, in ms; kind 1 is throttled. */
export interface Held extends Runs {
  kind: Uint8Array;
}

export function held(text: string, tickNs: number): Held {
  const all = integers(text);
  const count = all.length / 3;
  const out = { from: new Float64Array(count), to: new Float64Array(count), name: new Uint32Array(count), kind: new Uint8Array(count) };
  let end = 0;
  for (let row = 0; row < count; row++) {
    end += all[3 * row];
    out.to[row] = (end * tickNs) / 1e6;
    out.from[row] = ((end - all[3 * row + 1]) * tickNs) / 1e6;
    out.name[row] = all[3 * row + 2] >> 1;
    out.kind[row] = all[3 * row + 2] & 1;
  }
  return out;
}

/** Throttled spans of a group's queues, in ms. */
export interface Span {
  cpu: number;
  from: number;
  to: number;
}

export function spans(text: string, tickNs: number): Span[] {
  const all = integers(text);
  const out: Span[] = [];
  let at = 0;
  for (let row = 0; row + 2 < all.length; row += 3) {
    at += all[row + 1];
    out.push({ cpu: all[row], from: (at * tickNs) / 1e6, to: ((at + all[row + 2]) * tickNs) / 1e6 });
  }
  return out;
}

/** How many threads did something in each bucket: twice a value in hundredths, or twice a number
 * of zeros and one. */
export function load(text: string): number[] {
  const out: number[] = [];
  for (const one of integers(text)) {
    if (one % 2 === 0) out.push(one / 200);
    else for (let zeros = (one - 1) / 2; zeros > 0; zeros--) out.push(0);
  }
  return out;
}

export function shares(text: string): Uint8Array {
  return bytes(text);
}
