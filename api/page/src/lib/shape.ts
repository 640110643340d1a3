// How a chart shows its series, as a text in the address, and which series it draws.
import type { Series } from './values';

export const ranks = ['last', 'max', 'mean', 'min'] as const;
export type Rank = (typeof ranks)[number];

export interface Shape {
  /** A key of units, or empty for by the metric's name. */
  unit: string;
  stacked: boolean;
  log: boolean;
  /** The most series that are drawn, and what ranks them. */
  top: number;
  by: Rank;
  /** Words that names of series must have. */
  find: string;
  /** Series that are drawn alone, by digestOf their names. */
  only: string[];
  /** The legend's order: name or a rank, a minus before it for downwards; empty for as they come. */
  sort: string;
}

export const usual: Shape = { unit: '', stacked: false, log: false, top: 100, by: 'last', find: '', only: [], sort: '' };

/** The most lines of any chart. */
export const most = 5000;

export function readShape(text: string): Shape {
  const p = new URLSearchParams(text);
  const top = Number(p.get('top'));
  return {
    unit: p.get('unit') ?? '', stacked: p.has('stacked'), log: p.has('log'), top: top >= 1 ? Math.min(Math.floor(top), most) : usual.top,
    by: ranks.find((r) => r === p.get('by')) ?? usual.by, find: p.get('find') ?? '',
    only: p.get('only')?.split('.').filter(Boolean) ?? [], sort: p.get('sort') ?? '',
  };
}

/** Writes what is not as usual. */
export function writeShape(s: Shape): string {
  const p = new URLSearchParams();
  for (const [name, value] of Object.entries(s)) {
    if (String(value) !== String(usual[name as keyof Shape])) p.set(name, Array.isArray(value) ? value.join('.') : value === true ? '1' : String(value));
  }
  return p.toString();
}

/** A short name of a series for the address: FNV-1a of its name. */
export function digestOf(name: string): string {
  let h = 0x811c9dc5;
  for (let i = 0; i < name.length; i++) h = Math.imul(h ^ name.charCodeAt(i), 0x01000193);
  return (h >>> 0).toString(36);
}

/** The series whose names have the words, and of these, in their order, the first of the rank and the chosen ones. */
export function select(all: Series[], shape: Shape): { matching: Series[]; drawn: Series[]; chosen: Set<Series> } {
  const words = shape.find.toLowerCase().split(/\s+/).filter(Boolean);
  const matching = words.length ? all.filter((s) => words.every((w) => s.name.toLowerCase().includes(w))) : all;
  const only = new Set(shape.only);
  const chosen = new Set(only.size ? matching.filter((s) => only.has(digestOf(s.name))) : []);
  if (matching.length <= shape.top) return { matching, drawn: matching, chosen };
  const first = new Set(ordered(matching, `-${shape.by}`).slice(0, shape.top));
  return { matching, drawn: matching.filter((s) => first.has(s) || chosen.has(s)), chosen };
}

/** Series in an order of Shape.sort. Those without values come last. */
export function ordered(all: Series[], sort: string): Series[] {
  const by = sort.replace('-', '');
  const sign = sort.startsWith('-') ? -1 : 1;
  if (by === 'name') return [...all].sort((a, b) => (a.name < b.name ? -sign : sign));
  const rank = ranks.find((r) => r === by);
  if (!rank) return all;
  return [...all].sort((a, b) => (Number.isNaN(a[rank]) ? 1 : Number.isNaN(b[rank]) ? -1 : sign * (a[rank] - b[rank])));
}
