// Queries, which a worker asks and compares.
import { Failure, type Answer, type Fields } from './api';
import type { QueryData, Series, Verdict } from './values';
import type { Said, Task } from './worker';

/** The answer to a query, with its body as it came. */
export type Queried<T = QueryData> = Answer<T> & { body: Blob };

const idle: Worker[] = [];
/** A worker that had a body of more bytes ends, so that its memory is free at once. */
const heavy = 8 << 20;

/** Has a worker do a task, and hands over what it says until a result is made of it. Giving up ends the worker, and so its request. */
function perform<T>(task: Task, hear: (said: Said) => T | undefined, signal?: AbortSignal): Promise<T> {
  return new Promise((resolve, reject) => {
    signal?.throwIfAborted();
    const worker = idle.pop() ?? new Worker(new URL('./worker.ts', import.meta.url), { type: 'module' });
    const finish = (keep: boolean) => {
      signal?.removeEventListener('abort', abort);
      worker.onmessage = worker.onerror = null;
      if (keep) idle.push(worker);
      else worker.terminate();
    };
    const abort = () => (finish(false), reject(signal!.reason));
    signal?.addEventListener('abort', abort);
    let most = 0;
    worker.onmessage = ({ data: said }: MessageEvent<Said>) => {
      if ('received' in said) most = said.received;
      const result = hear(said);
      if (result === undefined && !('failure' in said)) return;
      finish(most < heavy && !('verdict' in said));
      if (result !== undefined) return resolve(result);
      const { message, status, kind, field, hint } = (said as Extract<Said, { failure: object }>).failure;
      reject(new Failure(message, status, kind, field, hint));
    };
    worker.onerror = (e) => {
      finish(false);
      reject(new Failure(`The page's worker failed: ${e.message || 'its script cannot be loaded; load the page again'}.`, 0, 'page'));
    };
    worker.postMessage(task);
  });
}

/** Asks a query. Throws as ask does. */
export function query<T = QueryData>(path: string, fields: Fields, signal?: AbortSignal, progress?: (bytes: number) => void): Promise<Queried<T>> {
  const result: Series[] = [];
  return perform({ path, fields }, (said) => {
    if ('received' in said) progress?.(said.received);
    if ('series' in said) for (const s of said.series) result.push(s);
    return 'answer' in said ? ({ ...said.answer, data: { ...said.answer.data, result } } as Queried<T>) : undefined;
  }, signal);
}

/** Whether two answers are the same to the bit. */
export const compare = (ours: Blob, theirs: Blob, signal?: AbortSignal): Promise<Verdict> =>
  perform({ ours, theirs }, (said) => ('verdict' in said ? said.verdict : undefined), signal);
