// Time ranges: as texts in the address ("now-1h", ms since the epoch), and as moments.
import { dayAt, duration, moment, zone } from './format';

export interface Range {
  from: string;
  to: string;
}

const units: Record<string, number> = { ms: 1, s: 1e3, m: 60e3, h: 3600e3, d: 86400e3, w: 7 * 86400e3, y: 365 * 86400e3 };

/** A length such as 1h30m in ms, or NaN. */
export function lengthOf(text: string): number {
  const parts = text.trim().match(/^(?:\d+(?:\.\d+)?(?:ms|[smhdwy]))+$/);
  if (!parts) return /^\d+(\.\d+)?$/.test(text.trim()) ? Number(text) * 1000 : NaN;
  let ms = 0;
  for (const [, n, unit] of text.matchAll(/(\d+(?:\.\d+)?)(ms|[smhdwy])/g)) ms += Number(n) * units[unit!]!;
  return ms;
}

/** A moment in ms, or NaN: now, now-1h, ms since the epoch, or a date that people write. */
export function momentOf(text: string, now = Date.now()): number {
  const t = text.trim();
  if (t === 'now') return now;
  if (t.startsWith('now-')) return now - lengthOf(t.slice(4));
  if (/^\d{12,}$/.test(t)) return Number(t);
  if (/^\d{9,11}(\.\d+)?$/.test(t)) return Number(t) * 1000;
  const day = t.match(/^(\d{4})-(\d\d)-(\d\d)$/);
  if (day) return dayAt(Number(day[1]), Number(day[2]) - 1, Number(day[3]));
  return Date.parse(t.replace(' ', 'T') + (zone.utc && !/(Z|[+-]\d\d:?\d\d)$/i.test(t) ? 'Z' : ''));
}

/** Both ends in ms. */
export function resolve(r: Range, now = Date.now()): { start: number; end: number } {
  return { start: momentOf(r.from, now), end: momentOf(r.to, now) };
}

/** What is wrong with a range, or nothing. */
export function wrong(r: Range): string {
  const { start, end } = resolve(r);
  if (Number.isNaN(start)) return `“${r.from}” is no time. Write 2026-01-31 12:00, or now-1h.`;
  if (Number.isNaN(end)) return `“${r.to}” is no time. Write 2026-01-31 12:00, or now.`;
  return start < end ? '' : 'The range must end after it begins.';
}

export const presets = ['15m', '1h', '3h', '6h', '12h', '1d', '2d', '7d', '14d', '30d', '90d', '365d'];

/** A range as people say it. */
export function title(r: Range): string {
  if (wrong(r)) return 'Choose a range';
  if (r.to === 'now' && r.from.startsWith('now-')) return `Last ${duration(lengthOf(r.from.slice(4)) / 1000)}`;
  const { start, end } = resolve(r);
  const [a, b] = [moment(start), moment(end)];
  return a.slice(0, 10) === b.slice(0, 10) ? `${a} – ${b.slice(11)}` : `${a} – ${b}`;
}

/** A range of at least a second. */
const absolute = (start: number, end: number): Range => ({ from: String(Math.round(start)), to: String(Math.round(Math.max(end, start + 1000))) });

/** The range moved by a share of its length; one that would end after now ends now. */
export function shift(r: Range, share: number): Range {
  if (wrong(r)) return r;
  const { start, end } = resolve(r);
  const by = Math.min((end - start) * share, Date.now() - end);
  return absolute(start + by, end + by);
}

/** The range that is so many times as long, around the same middle. */
export function scale(r: Range, by: number): Range {
  if (wrong(r)) return r;
  const { start, end } = resolve(r);
  if (r.to === 'now' && r.from.startsWith('now-')) return { from: `now-${duration(((end - start) * by) / 1000)}`, to: 'now' };
  const more = ((end - start) * (by - 1)) / 2;
  return absolute(start - more, Math.min(end + more, Date.now()));
}

export { absolute };

const nice = [1, 2, 5, 10, 15, 30, 60, 120, 300, 600, 900, 1800, 3600, 7200, 10800, 21600, 43200, 86400, 604800];

/** The step in seconds: the one that was given, or a round one that makes some 300 to 700 points. */
export function stepOf(given: string, start: number, end: number): number {
  const ms = lengthOf(given);
  if (ms > 0) return ms / 1000;
  const least = (end - start) / 1000 / 700;
  return nice.find((s) => s >= least) ?? Math.ceil(least / 604800) * 604800;
}

/** Start and end in seconds at multiples of the step, so that asking again finds what is remembered. */
export function aligned(r: Range, step: number): { start: number; end: number } {
  const { start, end } = resolve(r);
  const s = Math.floor(start / 1000 / step) * step;
  return { start: s, end: Math.max(s, Math.floor(end / 1000 / step) * step) };
}
