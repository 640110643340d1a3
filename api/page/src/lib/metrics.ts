// What metrics there are: names, what Prometheus knows of them, their labels; and queries that get
// another matcher.
import { parser } from '@prometheus-io/lezer-promql';
import type { SyntaxNode } from '@lezer/common';
import { ask } from './api';

export interface Metric {
  name: string;
  type: string;
  help: string;
  unit: string;
}

/** Values of a label, and whether there are more than those. */
export interface Values {
  values: string[];
  more: boolean;
}

type Metadata = Record<string, { type: string; help: string; unit: string }[]>;

const mostNames = 20_000;
const mostValues = 1_000;
const times = (range: { start: number; end: number }) => `start=${Math.floor(range.start / 1000)}&end=${Math.ceil(range.end / 1000)}`;

async function get<T>(path: string, signal: AbortSignal): Promise<T> {
  return (await ask<T>(path, undefined, signal)).data;
}

/** All metrics of a time range. What is not known of one is empty. */
export async function metricsOf(range: { start: number; end: number }, signal: AbortSignal): Promise<Metric[]> {
  const [names, metadata] = await Promise.all([
    get<string[]>(`/api/v1/label/__name__/values?${times(range)}&limit=${mostNames}`, signal),
    get<Metadata>('/api/v1/metadata?limit_per_metric=1', signal).catch((e) => {
      if (signal.aborted) throw e;
      return {} as Metadata; // there are upstreams without
    }),
  ]);
  return names.map((name) => {
    const family = metadata[name] ?? metadata[name.replace(/_(bucket|sum|count|total|created)$/, '')];
    const { type = 'unknown', help = '', unit = '' } = family?.[0] ?? {};
    return { name, type: type === 'unknown' ? guess(name) : type, help, unit };
  });
}

/** What a name says of a metric of which nothing else is known. */
const guess = (name: string) => (/_(total|count|sum)$/.test(name) ? 'counter' : name.endsWith('_bucket') ? 'histogram' : 'unknown');

/** Metrics that have all words in their names or help, those first whose names begin with the text. */
export function search(all: Metric[], text: string, type: string): Metric[] {
  const words = text.toLowerCase().split(/\s+/).filter(Boolean);
  const rank = (m: Metric) => {
    const name = m.name.toLowerCase();
    const help = m.help.toLowerCase();
    if (!words.every((w) => name.includes(w) || help.includes(w))) return -1;
    return words.every((w) => name.includes(w)) ? (name.startsWith(words[0] ?? '') ? 2 : 1) : 0;
  };
  const found = all.flatMap((m) => (type && m.type !== type ? [] : [{ m, r: rank(m) }])).filter(({ r }) => r >= 0);
  return found.sort((a, b) => b.r - a.r).map(({ m }) => m);
}

/** The labels of a metric with their values, each told when it has come. */
export async function labelsOf(metric: string, range: { start: number; end: number }, signal: AbortSignal, tell: (label: string, values: Values | null) => void) {
  const match = `match[]=${encodeURIComponent(selectorOf(metric))}&${times(range)}`;
  const names = (await get<string[]>(`/api/v1/labels?${match}`, signal)).filter((n) => n !== '__name__');
  for (const name of names) tell(name, null);
  const next = names.values();
  await Promise.all([0, 1, 2, 3].map(async () => {
    for (const name of next) {
      const values = await get<string[]>(`/api/v1/label/${escaped(name)}/values?${match}&limit=${mostValues + 1}`, signal);
      tell(name, { values: values.slice(0, mostValues), more: values.length > mostValues });
    }
  }));
}

/** A label's name as it stands in a path, where one that is no plain name has Prometheus's own form. */
const escaped = (name: string) => (plain.test(name) ? name : `U__${[...name].map((c) => (/[a-zA-Z0-9]/.test(c) ? c : c === '_' ? '__' : `_${c.codePointAt(0)!.toString(16)}_`)).join('')}`);

const plain = /^[a-zA-Z_]\w*$/;
const plainMetric = /^[a-zA-Z_:][\w:]*$/;

/** A metric as PromQL writes it. */
export const selectorOf = (metric: string, matcher = '') =>
  plainMetric.test(metric) ? (matcher ? `${metric}{${matcher}}` : metric) : `{${JSON.stringify(metric)}${matcher && `, ${matcher}`}}`;

const quoted = (name: string) => (plain.test(name) ? name : JSON.stringify(name));

/**
 * A query in which all selectors of a metric have a matcher, which takes the place of one of the same
 * label; nothing where it has none. A single selector of nothing else becomes the metric's.
 */
export function withMatcher(query: string, metric: string, label: string, op: string, value: string): string | null {
  const matcher = `${quoted(label)}${op}${JSON.stringify(value)}`;
  const edits: { from: number; to: number; text: string }[] = [];
  parser.parse(query).iterate({
    enter: (n) => {
      if (n.name !== 'VectorSelector') return;
      const text = (of: { from: number; to: number }) => query.slice(of.from, of.to);
      const list = n.node.getChild('LabelMatchers');
      const name = n.node.getChild('Identifier') ?? list?.getChild('QuotedLabelName') ?? null;
      if (!name || unquoted(text(name)) !== metric) return;
      if (!list) {
        edits.push({ from: name.to, to: name.to, text: `{${matcher}}` });
        return;
      }
      const all = [...list.getChildren('UnquotedLabelMatcher'), ...list.getChildren('QuotedLabelMatcher')];
      const old = all.find((m: SyntaxNode) => unquoted(text(m.firstChild!)) === label);
      const end = text(list).endsWith('}') ? list.to - 1 : list.to;
      const before = query.slice(list.from + 1, end).trimEnd();
      edits.push(old ? { from: old.from, to: old.to, text: matcher } : { from: end, to: end, text: `${before && !before.endsWith(',') ? ', ' : ''}${matcher}` });
    },
  });
  if (!edits.length) return null;
  return edits.reverse().reduce((q, e) => q.slice(0, e.from) + e.text + q.slice(e.to), query);
}

/** A name without its quotes. */
function unquoted(text: string): string {
  if (!/^["'`]/.test(text)) return text;
  try {
    return JSON.parse(text.startsWith('"') ? text : `"${text.slice(1, -1)}"`) as string;
  } catch {
    return text.slice(1, -1);
  }
}
