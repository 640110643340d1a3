// What the page shows, which is what its address says after the #. So it can be sent to somebody,
// and Back goes back. The server never sees it.
import { useEffect, useState } from 'preact/hooks';
import { zone } from './format';
import { scale, wrong, type Range } from './range';
import { readShape, writeShape, type Shape } from './shape';

export type Mode = 'range' | 'instant';
export type View = 'chart' | 'table' | 'json';

export interface Panel {
  id: number;
  expr: string;
  mode: Mode;
  view: View;
  /** How its chart shows its series. */
  shape: Shape;
}

export interface State {
  page: string;
  from: string;
  to: string;
  step: string;
  executor: string;
  compare: boolean;
  /** How exact answers are: bits, or empty for as the server is set. */
  exact: string;
  panels: Panel[];
  /** What the cache's selectors are searched for. */
  find: string;
  /** Panels beside each other; 0 is as the window has room. */
  columns: number;
  /** After how many seconds everything is asked again; 0 is never. */
  every: number;
  utc: boolean;
  /** Fields of the form of resample requests. */
  resample: Record<string, string>;
  /** The text of rules that are tried on the past. */
  rules: string;
}

let nextID = 1;

export function newPanel(expr = '', mode: Mode = 'range', view: View = 'chart', shape = readShape('')): Panel {
  return { id: nextID++, expr, mode, view, shape };
}

/** Reads an address. */
export function read(hash: string): State {
  const [path, query = ''] = hash.replace(/^#\/?/, '').split('?', 2) as [string, string?];
  const p = new URLSearchParams(query);
  const modes = p.getAll('m');
  const views = p.getAll('v');
  const shapes = p.getAll('s');
  const panels = p.getAll('e').map((expr, i) =>
    newPanel(expr, modes[i] === 'instant' ? 'instant' : 'range', (['chart', 'table', 'json'] as const).find((v) => v === views[i]) ?? 'chart', readShape(shapes[i] ?? '')));
  const resample: Record<string, string> = {};
  for (const [k, v] of p) if (k.startsWith('r.')) resample[k.slice(2)] = v;
  return {
    page: path || 'query',
    from: p.get('from') ?? 'now-1h',
    to: p.get('to') ?? 'now',
    step: p.get('step') ?? '',
    executor: p.get('executor') ?? 'auto',
    compare: p.get('compare') === '1',
    exact: p.get('exact') === 'bits' ? 'bits' : '',
    find: p.get('find') ?? '',
    panels: panels.length ? panels : [newPanel()],
    columns: Math.min(4, Math.max(0, Math.floor(Number(p.get('columns'))) || 0)),
    every: Number(p.get('every')) >= 1 ? Number(p.get('every')) : 0,
    utc: p.get('tz') === 'utc',
    resample,
    rules: p.get('rules') ?? '',
  };
}

/** Writes an address. What is as usual is left out. */
export function write(s: State): string {
  const p = new URLSearchParams();
  const put = (name: string, value: string, usual: string) => value !== usual && p.append(name, value);
  put('from', s.from, 'now-1h');
  put('to', s.to, 'now');
  put('step', s.step, '');
  put('executor', s.executor, 'auto');
  put('compare', s.compare ? '1' : '', '');
  put('exact', s.exact, '');
  if (s.page === 'cache') put('find', s.find, '');
  put('columns', String(s.columns), '0');
  put('every', String(s.every), '0');
  put('tz', s.utc ? 'utc' : '', '');
  if (s.panels.length > 1 || s.panels[0]?.expr) {
    const shapes = s.panels.map((panel) => writeShape(panel.shape));
    for (const panel of s.panels) {
      p.append('e', panel.expr);
      p.append('m', panel.mode);
      p.append('v', panel.view);
    }
    if (shapes.some(Boolean)) for (const shape of shapes) p.append('s', shape);
  }
  put('rules', s.rules, '');
  for (const [k, v] of Object.entries(s.resample)) if (v) p.append(`r.${k}`, v);
  const query = p.toString();
  return `#/${s.page}${query ? `?${query}` : ''}`;
}

let state = read(location.hash);
/** Grows when everything is to be asked again. */
let runs = 0;
const listeners = new Set<() => void>();
const tell = () => {
  zone.utc = state.utc;
  listeners.forEach((l) => l());
};
zone.utc = state.utc;

addEventListener('popstate', () => {
  if (location.hash === write(state)) return;
  state = read(location.hash);
  tell();
});

export const get = (): State => state;
export const runNumber = (): number => runs;

/** Changes the state and the address; the former address is where Back leads. */
export function change(patch: Partial<State>, replace = false) {
  state = { ...state, ...patch };
  const address = write(state);
  if (address !== location.hash) history[replace ? 'replaceState' : 'pushState'](null, '', address);
  tell();
}

export function changePanel(id: number, patch: Partial<Panel>, replace = false) {
  change({ panels: state.panels.map((p) => (p.id === id ? { ...p, ...patch } : p)) }, replace);
}

/** Changes how a panel's chart shows its series, to which Back does not lead. */
export const reshape = ({ id, shape }: Panel, patch: Partial<Shape>) => changePanel(id, { shape: { ...shape, ...patch } }, true);

/** Ranges that were zoomed into, outermost first. */
const zooms: Range[] = [];

export function zoomIn(r: Range) {
  zooms.push({ from: state.from, to: state.to });
  change(r);
}

/** Leads out of the latest zoom, or to twice the time where there was none. */
export function zoomBack() {
  let r = zooms.pop();
  while (r && r.from === state.from && r.to === state.to) r = zooms.pop();
  change(r ?? scale(state, 2));
}

export const isZoomed = (): boolean => zooms.length > 0;

/** Parts of the page that wait for an answer. */
const waiting = new Set<unknown>();

export const wait = (who: unknown, waits: boolean) => void (waits ? waiting.add(who) : waiting.delete(who));

/** Asks everything again after some seconds, and again, while the page is visible, once all answers are there. */
export function useAgain(seconds: number) {
  useEffect(() => {
    if (!seconds) return;
    const timer = setInterval(() => !document.hidden && !waiting.size && !wrong(state) && run(), seconds * 1000);
    return () => clearInterval(timer);
  }, [seconds]);
}

/** Asks everything again. */
export function run() {
  runs++;
  tell();
}

/** The state, for components that show it. */
export function useStore(): State {
  const [, again] = useState(0);
  const shown = state;
  useEffect(() => {
    const l = () => again((n) => n + 1);
    listeners.add(l);
    if (state !== shown) l(); // it changed before it was listened to
    return () => void listeners.delete(l);
  }, []);
  return state;
}

// What the browser remembers between visits. Where it may not, nothing is remembered.

export function recall<T>(name: string, otherwise: T): T {
  try {
    return JSON.parse(localStorage.getItem(`promwarp.${name}`) ?? '') as T;
  } catch {
    return otherwise;
  }
}

export function remember(name: string, value: unknown) {
  try {
    localStorage.setItem(`promwarp.${name}`, JSON.stringify(value));
  } catch {
    // a private window
  }
}

const longest = 50;

/** Puts a query at the front of those that were run. */
export function record(expr: string) {
  const past = recall<string[]>('past', []).filter((e) => e !== expr);
  remember('past', [expr, ...past].slice(0, longest));
}

/** Queries that the server offers. */
export const examples = (): string[] => [...document.querySelectorAll('template.example')].map((t) => (t as HTMLTemplateElement).content.textContent ?? '');
