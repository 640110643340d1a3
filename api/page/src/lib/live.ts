// Answers that are asked for again and again while they are shown, and metrics.
import { useEffect, useState } from 'preact/hooks';
import { aborted, ask, base } from './api';

export interface Live<T> {
  data?: T;
  error?: unknown;
  again: () => void;
}

/** Asks a door, and again every so many ms while the page is visible; 0 is once. */
export function useLive<T>(get: (signal: AbortSignal) => Promise<T>, every: number): Live<T> {
  const [state, set] = useState<{ data?: T; error?: unknown }>({});
  const [asked, again] = useState(0);
  useEffect(() => {
    const c = new AbortController();
    let timer = 0;
    const once = async () => {
      try {
        if (!document.hidden) set({ data: await get(c.signal) });
      } catch (error) {
        if (aborted(error)) return;
        set((s) => ({ ...s, error }));
      }
      if (every && !c.signal.aborted) timer = setTimeout(once, every) as unknown as number;
    };
    void once();
    return () => {
      c.abort();
      clearTimeout(timer);
    };
  }, [asked]);
  return { ...state, again: () => again((n) => n + 1) };
}

/** Asks a door of Prometheus's form. */
export const door = <T>(path: string) => (signal: AbortSignal) => ask<T>(path, undefined, signal).then((a) => a.data);

/** A sample of /metrics. */
export interface Sample {
  labels: Record<string, string>;
  value: number;
}

export type Metrics = Map<string, Sample[]>;

export async function metrics(signal: AbortSignal): Promise<Metrics> {
  const text = await (await fetch(`${base}/metrics`, { signal, cache: 'no-store', headers: { Accept: 'text/plain' } })).text();
  const all: Metrics = new Map();
  for (const line of text.split('\n')) {
    const m = line.match(/^([a-zA-Z_:][\w:]*)(?:\{(.*)\})? ([^ ]+)/);
    if (!m) continue;
    const labels: Record<string, string> = {};
    for (const [, k, v] of (m[2] ?? '').matchAll(/(\w+)="((?:[^"\\]|\\.)*)"/g)) labels[k!] = v!;
    if (!all.has(m[1]!)) all.set(m[1]!, []);
    all.get(m[1]!)!.push({ labels, value: Number(m[3]) });
  }
  return all;
}

/** The sum of a metric's samples, of those with the given labels. */
export function total(m: Metrics | undefined, name: string, labels: Record<string, string> = {}): number {
  let sum = 0;
  for (const s of m?.get(name) ?? []) if (Object.entries(labels).every(([k, v]) => s.labels[k] === v)) sum += s.value;
  return sum;
}

/** Whether the server lets its admin doors be used. */
export const isAdmin = (flags: Record<string, string> | undefined) => flags?.['web.enable-admin-api'] === 'true';
