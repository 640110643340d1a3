// Values of queries as the API sends them, and their comparison.

export type Labels = Record<string, string>;
export type Point = [number, string | null];
export type Histogram = { count: string; sum: string; buckets?: [number, string, string, string][] };

export interface Series {
  metric: Labels;
  value?: Point;
  values?: Point[];
  histogram?: [number, Histogram];
  histograms?: [number, Histogram][];
}

export interface QueryData {
  resultType: 'matrix' | 'vector' | 'scalar' | 'string';
  result: Series[] | Point;
}

/** The series of an answer; a scalar or string is one without labels. */
export function seriesOf(data: QueryData): Series[] {
  if (data.resultType === 'matrix' || data.resultType === 'vector') return data.result as Series[];
  return [{ metric: {}, value: data.result as Point }];
}

/** The points of a series of either kind of query, floats alone. */
export function pointsOf(s: Series): Point[] {
  return s.values ?? (s.value ? [s.value] : []);
}

/** How many values an answer has. */
export function countOf(all: Series[]): number {
  let n = 0;
  for (const s of all) n += pointsOf(s).length + (s.histograms?.length ?? (s.histogram ? 1 : 0));
  return n;
}

/** Labels as PromQL writes them. */
export function nameOf(metric: Labels): string {
  const { __name__: name = '', ...rest } = metric;
  const inside = Object.keys(rest).sort().map((k) => `${k}="${rest[k]}"`).join(', ');
  if (!inside) return name || '{}';
  return `${name}{${inside}}`;
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
export function compare(
  ours: { data: QueryData; warnings: string[]; infos: string[] },
  theirs: { data: QueryData; warnings: string[]; infos: string[] },
): Verdict {
  const differences: string[] = [];
  let count = 0;
  const note = (text: string) => {
    count++;
    if (differences.length < shown) differences.push(text);
  };
  if (ours.data.resultType !== theirs.data.resultType) {
    note(`promwarp answers with a ${ours.data.resultType}, Prometheus with a ${theirs.data.resultType}.`);
  }
  const a = seriesOf(ours.data);
  const b = seriesOf(theirs.data);
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
  return { same: count === 0, series: a.length, values: countOf(a), differences, count };
}

function compareSeries(name: string, a: Series, b: Series, note: (text: string) => void) {
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
