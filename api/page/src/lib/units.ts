// Units of values: which an expression has by the names of its metrics, and how values are written with them.
import { parser } from '@prometheus-io/lezer-promql';
import type { SyntaxNode } from '@lezer/common';
import { bytes, short } from './format';

/** Units that can be chosen, with their names. */
export const units = { number: 'Number', bytes: 'Bytes', 'bytes/s': 'Bytes per second', seconds: 'Seconds', percent: 'Percent of 1', percent100: 'Percent of 100' };

/** Writes a value with its unit. */
export function writer(unit: string): (v: number) => string {
  switch (unit) {
    case 'bytes': return sized;
    case 'bytes/s': return (v) => `${sized(v)}/s`;
    case 'seconds': return lasting;
    case 'percent': case 'percent100': return (v) => `${short(unit === 'percent' ? Number((100 * v).toPrecision(12)) : v)}${Number.isFinite(v) ? ' %' : ''}`;
    default: return short;
  }
}

function sized(v: number): string {
  if (!Number.isFinite(v)) return short(v);
  return `${v < 0 ? '−' : ''}${Math.abs(v) < 10 ? `${short(Math.abs(v))} B` : bytes(Math.abs(v)).replace(/\.?0+ (?=.i)/, (zeros) => (zeros[0] === '.' ? ' ' : zeros))}`;
}

function lasting(v: number): string {
  const a = Math.abs(v);
  if (!Number.isFinite(v) || v === 0) return short(v);
  for (const [size, unit] of [[86400, 'd'], [3600, 'h'], [60, 'min'], [1, 's'], [1e-3, 'ms'], [1e-6, 'µs']] as const) {
    if (a >= size * 0.9999) return `${Number((v / size).toPrecision(4))} ${unit}`;
  }
  return `${Number((v * 1e9).toPrecision(4))} ns`;
}

/** Distances between an axis's marks that are round in a unit; nothing where decimal ones are. */
export function distances(unit: string): number[] | undefined {
  if (unit.startsWith('bytes')) return Array.from({ length: 72 }, (_, i) => 2 ** (i - 8));
  if (unit !== 'seconds') return undefined;
  const below = Array.from({ length: 11 }, (_, i) => [1, 2, 5].map((n) => Number(`${n}e${i - 9}`))).flat().filter((s) => s < 60);
  return [...below, 60, 120, 300, 600, 900, 1800, 3600, 7200, 10800, 21600, 43200, ...Array.from({ length: 30 }, (_, i) => 86400 * 2 ** i)];
}

/** The unit that an expression's values have by the names of its metrics; empty where they do not say. */
export function unitOf(expr: string): string {
  const top = parser.parse(expr).topNode.firstChild;
  const unit = (top && measure(top, expr)) ?? '';
  return unit in units ? unit : '';
}

/** Functions and aggregations whose values have the unit of what they are given. */
const keeping = /^(abs|ceil|floor|round|clamp(_m..)?|i?delta|increase|sort\w*|label_\w+|scalar|predict_linear|(avg|min|max|sum|last|first|quantile|stddev|mad)_over_time|sum|avg|min|max|quantile|stddev|topk|bottomk|limitk)$/;

/** A unit in units or per second, "moment" for seconds since the epoch, empty for none that is known, or undefined for a plain number. */
function measure(node: SyntaxNode, expr: string): string | undefined {
  const text = (n: SyntaxNode | null) => (n ? expr.slice(n.from, n.to) : '');
  switch (node.name) {
    case 'NumberDurationLiteral': return undefined;
    case 'VectorSelector': return named(text(node.getChild('Identifier')));
    case 'ParenExpr': case 'UnaryExpr': case 'OffsetExpr': case 'StepInvariantExpr': case 'MatrixSelector': case 'SubqueryExpr': {
      const inner = node.name === 'UnaryExpr' ? node.lastChild : node.firstChild;
      return inner ? measure(inner, expr) : '';
    }
    case 'FunctionCall': case 'AggregateExpr': {
      const name = text(node.firstChild);
      if (name === 'time') return 'moment';
      let given = '';
      for (let a = node.getChild('FunctionCallBody')?.firstChild; a; a = a.nextSibling) given ||= measure(a, expr) ?? '';
      if (/^(i?rate|deriv)$/.test(name)) return `${given}/s`;
      if (/^histogram_(quantile|avg|stddev)$/.test(name)) return given.replace(/\/s$/, '');
      if (name === 'histogram_fraction') return 'percent';
      return keeping.test(name) ? given : '';
    }
    case 'BinaryExpr': return combined(node, expr);
    default: return '';
  }
}

function combined(node: SyntaxNode, expr: string): string | undefined {
  const [first, last] = [node.firstChild!, node.lastChild!];
  const [a, b] = [measure(first, expr), measure(last, expr)];
  const number = Number(expr.slice(a === undefined ? first.from : last.from, a === undefined ? first.to : last.to));
  switch (node.childAfter(first.to)?.name) {
    case 'Add': case 'Sub':
      if (a === undefined || b === undefined) return a ?? b;
      return a !== b ? '' : a === 'moment' ? 'seconds' : a;
    case 'Mul': return a === undefined && b === undefined ? undefined : number === 100 && (a ?? b) === 'percent' ? 'percent100' : '';
    case 'Div':
      if (a === undefined || b === undefined) return a === b ? undefined : '';
      if (a === b) return a === '' || a === '/s' ? '' : 'percent';
      return (b === '' || b === '/s') && a.endsWith('/s') === b.endsWith('/s') && /_count\b/.test(expr.slice(last.from, last.to)) ? a.replace(/\/s$/, '') : '';
    case 'Eql': case 'EqlC': case 'Neq': case 'Gtr': case 'Lss': case 'Gte': case 'Lte':
      return node.getChild('BoolModifier') ? '' : (a ?? b);
    case 'And': case 'Unless': return a;
    case 'Or': return a === b ? a : '';
    default: return '';
  }
}

/** The unit that a metric's name says. */
function named(metric: string): string {
  if (/(start_time|boot_time|timestamp)_seconds$/.test(metric)) return 'moment';
  const found = metric.match(/(?:^|[_:])(bytes|seconds|ratio|percent)(?:_(?:total|sum|bucket|max|min|avg))?(?::|$)/)?.[1] ?? '';
  return { ratio: 'percent', percent: 'percent100' }[found] ?? found;
}
