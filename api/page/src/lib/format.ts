// Numbers, bytes, durations and times for reading.

const whole = new Intl.NumberFormat('en', { maximumFractionDigits: 0 });

/** A count with its digits in groups, by thin spaces. */
export function count(n: number): string {
  return whole.format(n).replace(/,/g, '\u202f');
}

/** A number in at most five characters and a letter for its power of ten. */
export function short(n: number): string {
  const a = Math.abs(n);
  if (!Number.isFinite(n)) return Number.isNaN(n) ? 'NaN' : n > 0 ? '+Inf' : '−Inf';
  if (a === 0) return '0';
  if (a >= 1e15 || a < 1e-4) return n.toExponential(2).replace('e+', 'e');
  for (const [size, unit] of [[1e12, 'T'], [1e9, 'G'], [1e6, 'M'], [1e4, 'k']] as const) {
    if (a >= size) return `${digits(n / (unit === 'k' ? 1e3 : size))}${unit}`;
  }
  return digits(n);
}

function digits(n: number): string {
  return String(Number(n.toPrecision(4)));
}

export function bytes(n: number): string {
  for (const [size, unit] of [[2 ** 40, 'TiB'], [2 ** 30, 'GiB'], [2 ** 20, 'MiB'], [2 ** 10, 'KiB']] as const) {
    if (n >= size) return `${n < 999.5 * size ? (n / size).toPrecision(3) : Math.round(n / size)} ${unit}`;
  }
  return `${Math.round(n)} B`;
}

/** A size as settings write it, such as 5GiB303MiB766KiB920B, to three digits; other text as it is. */
export function size(text: string): string {
  if (!/^(\d+([KMGTPE]i)?B){2,}$/.test(text)) return text;
  let n = 0;
  for (const [, digits, unit] of text.matchAll(/(\d+)([KMGTPE]?)i?B/g)) n += Number(digits) * 1024 ** ' KMGTPE'.indexOf(unit || ' ');
  return bytes(n);
}

/** A time in milliseconds, as it was taken. */
export function milliseconds(ms: number): string {
  if (ms < 0.1) return `${Math.round(ms * 1e3)} µs`;
  if (ms < 10) return `${ms.toFixed(2)} ms`;
  if (ms < 100) return `${ms.toFixed(1)} ms`;
  if (ms < 1000) return `${Math.round(ms)} ms`;
  if (ms < 60_000) return `${(ms / 1000).toFixed(2)} s`;
  return `${Math.floor(ms / 60_000)} min ${Math.round((ms % 60_000) / 1000)} s`;
}

/** A length of time in seconds as PromQL writes it. */
export function duration(seconds: number): string {
  let out = '';
  for (const [size, unit] of [[86400, 'd'], [3600, 'h'], [60, 'm'], [1, 's']] as const) {
    const n = Math.floor(seconds / size);
    if (n > 0) out += `${n}${unit}`;
    seconds -= n * size;
  }
  return out || `${Math.round(seconds * 1000)}ms`;
}

const two = (n: number) => String(n).padStart(2, '0');

/** Whether times are shown and read in UTC, not in local time. The store sets it. */
export const zone = { utc: false, name: () => (zone.utc ? 'UTC' : Intl.DateTimeFormat().resolvedOptions().timeZone) };

/** Year, month from 0, day, hour, minute and second of a moment. */
export function calendar(ms: number): [number, number, number, number, number, number] {
  const d = new Date(ms);
  if (zone.utc) return [d.getUTCFullYear(), d.getUTCMonth(), d.getUTCDate(), d.getUTCHours(), d.getUTCMinutes(), d.getUTCSeconds()];
  return [d.getFullYear(), d.getMonth(), d.getDate(), d.getHours(), d.getMinutes(), d.getSeconds()];
}

/** The moment at which a day begins; days and months beyond the calendar's count on. */
export const dayAt = (year: number, month: number, day: number): number => (zone.utc ? Date.UTC(year, month, day) : new Date(year, month, day).getTime());

/** A moment to the second; the seconds are left out where they are 0. */
export function moment(ms: number): string {
  if (Number.isNaN(ms)) return '–';
  const [year, month, day, hour, minute, second] = calendar(ms);
  return `${year}-${two(month + 1)}-${two(day)} ${two(hour)}:${two(minute)}${second ? `:${two(second)}` : ''}`;
}

export function percent(share: number): string {
  return `${(100 * share).toFixed(share >= 0.1 || share === 0 ? 0 : 1)} %`;
}

/** "1 series", "2 panels": n and the word for so many. */
export function many(n: number, one: string, more: string): string {
  return `${count(n)} ${n === 1 ? one : more}`;
}

/** A rem of the page's styles in pixels, a tenth of the height of a line of text or so. */
export const rem = (): number => parseFloat(getComputedStyle(document.documentElement).fontSize);
