// The page's worker: it asks queries, parses and compares their answers, so that the page stays quick with large ones.
import { aborted, ask, Failure, type Answer, type Fields } from './api';
import { compare, unpack, type Body, type Series, type Verdict } from './values';

/** What the worker is asked: a query, or whether two bodies say the same. */
export type Task = { path: string; fields: Fields } | { ours: Blob; theirs: Blob };

/** What it says: bytes received, some series, the rest of the answer with its body, a verdict, or what went wrong. */
export type Said =
  | { received: number }
  | { series: Series[] }
  | { answer: Answer<object> & { body: Blob } }
  | { verdict: Verdict }
  | { failure: { message: string; status: number; kind: string; field?: string; hint?: string } };

const say = (said: Said, transfer: Transferable[] = []) => postMessage(said, { transfer });

onmessage = async ({ data: task }: MessageEvent<Task>) => {
  try {
    if ('ours' in task) say({ verdict: compare(JSON.parse(await task.ours.text()), JSON.parse(await task.theirs.text())) });
    else await query(task.path, task.fields);
  } catch (e) {
    if (aborted(e)) return;
    const { message, status = 0, kind = 'page', field, hint } = e as Failure;
    say({ failure: { message, status, kind, field, hint } });
  }
};

async function query(path: string, fields: Fields) {
  const { data, text, ...rest } = await ask<Body>(path, fields, undefined, (received) => say({ received }));
  for (const [series, buffers] of unpack(data)) say({ series }, buffers);
  const { result: _, ...without } = data;
  say({ answer: { ...rest, data: without, body: new Blob([text]) } });
}
