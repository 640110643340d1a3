// Values of queries as the API sends them, and their comparison.

export type Labels = Record<string, string>;
type Point = [number, string | null];
type Histogram = { count: string; sum: string; buckets?: [number, string, string, string][] };

/** A series as the API sends it. */
type Sent = { metric: Labels; value?: Point; values?: Point[]; histogram?: [number, Histogram]; histograms?: [number, Histogram][] };

/** What the API sends. */
export type Body = { resultType: 'matrix' | 'vector' | 'scalar' | 'string'; result: Sent[] | Point };

/** What it sends around it. */
type Whole = { data: Body; warnings?: string[]; infos?: string[] };

/** A series as the page has it. Numbers are in arrays of their own type, which a worker hands over without a copy. */
export interface Series {
  metric: Labels;
  name: string;
  /** Seconds, and the value then; NaN where it is null. */
  times: Float64Array;
  values: Float64Array;
  /** How many values it has, histograms among them. */
  size: number;
  /** The newest value as it was sent, and its time in seconds. */
  newest: { at: number; text: string };
  /** Of the values that can be drawn, which are finite; NaN where there are none. */
  min: number;
  mean: number;
  max: number;
  last: number;
}

export type QueryData = { resultType: Body['resultType']; result: Series[] };

export const seriesOf = (data: QueryData): Series[] => data.result;

/** The series of an answer; a scalar or string is one without labels. */
const sentOf = (data: Body): Sent[] =>
  data.resultType === 'matrix' || data.resultType === 'vector' ? (data.result as Sent[]) : [{ metric: {}, value: data.result as Point }];

/** The points of a series of either kind of query, floats alone. */
const pointsOf = (s: Sent): Point[] => s.values ?? (s.value ? [s.value] : []);
const histogramsOf = (s: Sent) => s.histograms ?? (s.histogram ? [s.histogram] : []);

/** How many values an answer has. */
export const countOf = (all: Series[]): number => all.reduce((n, s) => n + s.size, 0);

/** How many series are handed over at once. In between the page can do something else. */
const slice = 1000;

/** Turns series as they were sent into those that the page has, some at a time, each time with the buffers that they are in. */
export function* unpack(data: Body): Generator<[Series[], ArrayBuffer[]]> {
  const all = sentOf(data);
  for (let i = 0; i < all.length; i += slice) {
    const some = all.slice(i, i + slice);
    const size = some.reduce((n, s) => n + pointsOf(s).length, 0);
    const times = new Float64Array(size);
    const values = new Float64Array(size);
    let at = 0;
    const series = some.map((s) => {
      const from = at;
      let min = Infinity, max = -Infinity, sum = 0, n = 0, last = NaN;
      for (const [t, text] of pointsOf(s)) {
        const v = text === null ? NaN : text.endsWith('Inf') ? (text[0] === '-' ? -Infinity : Infinity) : Number(text);
        times[at] = t;
        values[at++] = v;
        if (!Number.isFinite(v)) continue;
        if (v < min) min = v;
        if (v > max) max = v;
        sum += last = v;
        n++;
      }
      const [newest, h] = [pointsOf(s).at(-1), histogramsOf(s).at(-1)];
      return {
        metric: s.metric, name: nameOf(s.metric), times: times.subarray(from, at), values: values.subarray(from, at),
        size: at - from + histogramsOf(s).length,
        newest: { at: newest?.[0] ?? h?.[0] ?? 0, text: newest ? (newest[1] ?? '–') : h ? `histogram: count ${h[1].count}, sum ${h[1].sum}` : '' },
        min: n ? min : NaN, mean: n ? sum / n : NaN, max: n ? max : NaN, last,
      };
    });
    yield [series, [times.buffer, values.buffer]];
  }
}

/** Marks that turn the direction of the text around them, with which a value could pass itself off as another. */
const turning = /[\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069]/g;
const quoted = (text: string) => JSON.stringify(text).replace(turning, (c) => `\\u${c.charCodeAt(0).toString(16).padStart(4, '0')}`);

/** Labels as PromQL writes them. */
export function nameOf(metric: Labels): string {
  const { __name__: name = '', ...rest } = metric;
  const plain = /^[a-zA-Z_:][\w:]*$/.test(name);
  const inside = Object.keys(rest).sort().map((k) => `${/^[a-zA-Z_]\w*$/.test(k) ? k : quoted(k)}=${quoted(rest[k]!)}`);
  if (name && !plain) inside.unshift(quoted(name));
  if (!inside.length) return name || '{}';
  return `${plain ? name : ''}{${inside.join(', ')}}`;
}

/** What comparing two answers found. */
export interface Verdict {
  same: boolean;
  series: number;
  values: number;
  /** The first differences, a sentence each. */
  differences: string[];
  /** How many there are in all. */
  count: number;
}

const shown = 8;

/**
 * Compares two answers to the bit: types, labels, order, timestamps and the texts of values, which
 * name a float64 exactly, and warnings. The order of series counts too.
 */
export function compare(ours: Whole, theirs: Whole): Verdict {
  const differences: string[] = [];
  let count = 0;
  const note = (text: string) => {
    count++;
    if (differences.length < shown) differences.push(text);
  };
  if (ours.data.resultType !== theirs.data.resultType) {
    note(`promwarp answers with a ${ours.data.resultType}, Prometheus with a ${theirs.data.resultType}.`);
  }
  const a = sentOf(ours.data);
  const b = sentOf(theirs.data);
  const byName = new Map(b.map((s) => [nameOf(s.metric), s]));
  let ordered = true;
  a.forEach((s, i) => {
    const name = nameOf(s.metric);
    const other = byName.get(name);
    if (!other) {
      note(`Prometheus has no ${name}.`);
      return;
    }
    byName.delete(name);
    if (b[i] !== other) ordered = false;
    compareSeries(name, s, other, note);
  });
  for (const name of byName.keys()) note(`promwarp has no ${name}.`);
  if (!ordered && count === 0) note('The series come in another order.');
  if (JSON.stringify(ours.warnings) !== JSON.stringify(theirs.warnings)) note('The warnings differ.');
  if (JSON.stringify(ours.infos) !== JSON.stringify(theirs.infos)) note('The notes (infos) differ.');
  return { same: count === 0, series: a.length, values: a.reduce((n, s) => n + pointsOf(s).length + histogramsOf(s).length, 0), differences, count };
}

function compareSeries(name: string, a: Sent, b: Sent, note: (text: string) => void) {
  const p = pointsOf(a);
  const q = pointsOf(b);
  const at = new Map(q.map(([t, v]) => [t, v]));
  for (const [t, v] of p) {
    if (!at.has(t)) note(`${name}: Prometheus has no value at ${t}.`);
    else if (at.get(t) !== v) note(`${name} at ${t}: promwarp has ${v}, Prometheus ${at.get(t)}.`);
    at.delete(t);
  }
  for (const t of at.keys()) note(`${name}: promwarp has no value at ${t}.`);
  const h = JSON.stringify(a.histograms ?? a.histogram);
  if (h !== JSON.stringify(b.histograms ?? b.histogram)) note(`${name}: the histograms differ.`);
}
