// Lines of many series on a canvas: their values by columns, stacks, drawing, and which is nearest to a point.
import type { Series } from './values';

/** Moments in seconds, and for each series its values then; NaN is a gap. */
export interface Rows {
  times: Float64Array;
  rows: Float64Array[];
}

/** Puts values on the grid of the query, or where they are loose, as calendars make them, at all of their times. */
export function align(all: Series[], start: number, end: number, step: number, loose?: boolean): Rows {
  const times = loose
    ? Float64Array.from(new Set(all.flatMap((s) => [...s.times]))).sort()
    : Float64Array.from({ length: Math.max(0, Math.round((end - start) / step)) + 1 }, (_, i) => start + i * step);
  const columns = loose && new Map([...times].map((t, i) => [t, i]));
  const rows = all.map((s) => {
    const row = new Float64Array(times.length).fill(NaN);
    const { times: at, values } = s;
    for (let k = 0; k < at.length; k++) {
      const i = columns ? columns.get(at[k]!)! : Math.round((at[k]! - start) / step);
      const v = values[k]!;
      if (i >= 0 && i < row.length && v - v === 0) row[i] = v; // finite ones
    }
    return row;
  });
  return { times, rows };
}

/** The areas of rows on top of each other: values below 0 go down from 0. A gap is no height. */
export function stack(rows: Float64Array[]): { lower: Float64Array[]; upper: Float64Array[] } {
  const n = rows[0]?.length ?? 0;
  const [up, down] = [new Float64Array(n), new Float64Array(n)];
  const lower: Float64Array[] = [];
  const upper = rows.map((row) => {
    const [from, to] = [new Float64Array(n), new Float64Array(n)];
    for (let i = 0; i < n; i++) {
      const pile = row[i]! < 0 ? down : up;
      from[i] = pile[i]!;
      to[i] = pile[i]! += row[i]! || 0;
    }
    lower.push(from);
    return to;
  });
  return { lower, upper };
}

/** The least and the greatest value; only what has a place on a log scale if that is asked for. */
export function extent(rows: Float64Array[], log = false): [number, number] {
  let [min, max] = [Infinity, -Infinity];
  for (const row of rows) {
    for (const v of row) {
      if (v < min && (!log || v > 0)) min = v;
      if (v > max && (!log || v > 0)) max = v;
    }
  }
  return [min, max];
}

/** The place of a value, in pixels from the top; NaN where it has none. */
export type Place = (v: number) => number;
export function placing(low: number, high: number, height: number, log: boolean): Place {
  if (!log) return (v) => height - ((v - low) / (high - low)) * height;
  const [a, b] = [Math.log10(low), Math.log10(high)];
  return (v) => (v > 0 ? height - ((Math.log10(v) - a) / (b - a)) * height : NaN);
}

/** Draws a line through the values of a row. Where there are more columns than pixels, each pixel has its least and greatest. */
export function trace(g: CanvasRenderingContext2D, xs: Float64Array, row: Float64Array, y: Place) {
  const dense = xs.length > 2 * (xs.at(-1)! - xs[0]!);
  const alone: number[] = [];
  let at = 0, low = 0, high = 0, run = 0;
  g.beginPath();
  for (let i = 0; i <= row.length; i++) {
    const py = i < row.length ? y(row[i]!) : NaN;
    if (Number.isNaN(py)) {
      if (run === 1) alone.push(at, high);
      else if (run && low !== high) g.lineTo(at, high), g.lineTo(at, low);
      run = 0;
      continue;
    }
    const px = dense ? Math.floor(xs[i]!) : xs[i]!;
    if (run && px === at) {
      if (py < high) high = py;
      if (py > low) low = py;
      run++;
      continue;
    }
    if (run && low !== high) g.lineTo(at, high), g.lineTo(at, low);
    if (run) g.lineTo(px, py);
    else g.moveTo(px, py);
    [at, low, high] = [px, py, py];
    run++;
  }
  g.stroke();
  for (let i = 0; i < alone.length; i += 2) g.fillRect(alone[i]! - 2, alone[i + 1]! - 2, 4, 4);
}

/** Fills the area between two rows, a column for each pixel. */
export function fill(g: CanvasRenderingContext2D, xs: Float64Array, lower: Float64Array, upper: Float64Array, y: Place) {
  const by = Math.max(1, Math.floor(xs.length / (xs.at(-1)! - xs[0]! + 1)));
  g.beginPath();
  for (let i = 0; i < xs.length; i += by) g.lineTo(xs[i]!, y(upper[i]!));
  for (let i = xs.length - 1 - ((xs.length - 1) % by); i >= 0; i -= by) g.lineTo(xs[i]!, y(lower[i]!));
  g.fill();
}

/** The row that is nearest to a height in a column, or whose area is there; −1 if no row has a value. */
export function nearest(upper: Float64Array[], lower: Float64Array[] | undefined, column: number, top: number, y: Place): number {
  let found = -1, least = Infinity;
  for (let k = 0; k < upper.length; k++) {
    const py = y(upper[k]![column]!);
    const far = lower && (y(lower[k]![column]!) - top) * (py - top) <= 0 ? -1 : Math.abs(py - top);
    if (far < least) [found, least] = [k, far];
  }
  return found;
}

/** Does something n times in slices, so that a key or a click in between is answered. Returns what stops it. */
export function inSlices(n: number, one: (i: number) => void, done?: () => void): () => void {
  let i = 0, frame = 0;
  const some = () => {
    for (const until = performance.now() + 24; i < n && performance.now() < until; ) one(i++);
    if (i < n) frame = requestAnimationFrame(some);
    else done?.();
  };
  some();
  return () => cancelAnimationFrame(frame);
}
