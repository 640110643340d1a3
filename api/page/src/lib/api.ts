// Requests to the server that the page came from.
import type { Explanation } from './explain';

/** Where the server's doors are: where the page is, or above its worker's script; without a slash at the end. */
export const base = (globalThis.document ? new URL('.', document.baseURI) : new URL('..', location.href)).href.replace(/\/$/, '');

/** What the server, or the way to it, says is wrong. */
export class Failure extends Error {
  constructor(
    message: string,
    readonly status: number,
    readonly kind: string,
    readonly field?: string,
    readonly hint?: string,
  ) {
    super(message);
  }
}

/** An answer and what it took. */
export interface Answer<T> {
  data: T;
  warnings: string[];
  infos: string[];
  /** Milliseconds from sending the request to the answer's last byte, as the browser's network saw it. */
  took: number;
  /** Bytes of the answer, decompressed. */
  bytes: number;
  /** How the answer came about, where the request asked for it; it is not in the text. */
  explanation?: Explanation;
}

export type Fields = Record<string, string | string[] | undefined>;

export function form(fields: Fields): URLSearchParams {
  const out = new URLSearchParams();
  for (const [name, value] of Object.entries(fields)) {
    for (const v of Array.isArray(value) ? value : [value]) {
      if (v !== undefined) out.append(name, v);
    }
  }
  return out;
}

/** Asks a door that answers in Prometheus's form. Throws a Failure, or an AbortError. */
export async function ask<T>(
  path: string,
  fields: Fields | undefined,
  signal?: AbortSignal,
  progress?: (bytes: number) => void,
): Promise<Answer<T> & { text: string }> {
  const start = performance.now();
  const response = await send(path, fields === undefined ? undefined : form(fields), signal);
  const { text, bytes } = await body(response, progress);
  const took = (await measured(response.url, start)) ?? performance.now() - start;
  let parsed: any;
  try {
    parsed = JSON.parse(text);
  } catch {
    throw new Failure(text.trim().slice(0, 500) || response.statusText, response.status, 'no JSON');
  }
  if (parsed.status !== 'success') {
    throw new Failure(parsed.error ?? response.statusText, response.status, parsed.errorType ?? '', parsed.field, parsed.hint);
  }
  const answer = { data: parsed.data, warnings: parsed.warnings ?? [], infos: parsed.infos ?? [], took };
  if (!parsed.explanation) return { ...answer, bytes, text };
  const plain = `${text.slice(0, text.lastIndexOf(',"explanation":'))}}`;
  return { ...answer, bytes: bytes - new Blob([text.slice(plain.length - 1, -1)]).size, text: plain, explanation: parsed.explanation };
}

/** What the browser measured of a request that began then, without what else kept the page busy. */
async function measured(url: string, start: number): Promise<number | undefined> {
  await new Promise((done) => setTimeout(done));
  const all = performance.getEntriesByName(url, 'resource') as PerformanceResourceTiming[];
  const mine = all.filter((e) => e.startTime >= start - 1 && e.requestStart > 0).sort((a, b) => a.startTime - b.startTime)[0];
  if (performance.getEntriesByType('resource').length > 200) performance.clearResourceTimings(); // it keeps 250
  return mine && mine.responseEnd - mine.requestStart;
}

/** Sends a form by POST, or a GET where there is none. */
async function send(path: string, fields: URLSearchParams | undefined, signal?: AbortSignal): Promise<Response> {
  try {
    return await fetch(base + path, { method: fields ? 'POST' : 'GET', body: fields, signal, cache: 'no-store' });
  } catch (e) {
    if (signal?.aborted) throw e;
    throw new Failure(`The server cannot be reached: ${(e as Error).message}.`, 0, 'network');
  }
}

/** Reads a body as text and says on the way how much there is. */
async function body(response: Response, progress?: (bytes: number) => void): Promise<{ text: string; bytes: number }> {
  if (!response.body) return { text: '', bytes: 0 };
  const reader = response.body.getReader();
  const decoder = new TextDecoder();
  const parts: string[] = [];
  let bytes = 0;
  for (;;) {
    const { done, value } = await reader.read();
    if (done) break;
    bytes += value.length;
    parts.push(decoder.decode(value, { stream: true }));
    progress?.(bytes);
  }
  parts.push(decoder.decode());
  return { text: parts.join(''), bytes };
}

/** Whether an error says that somebody gave the request up. */
export function aborted(e: unknown): boolean {
  return e instanceof DOMException && e.name === 'AbortError';
}
