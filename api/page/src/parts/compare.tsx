// Both engines beside each other: where the time of each run went, whether the answers are the same,
// and how much faster promwarp did the same work.
import { change } from '../lib/store';
import { nodesOf, remembered, stagesOf, type Explanation } from '../lib/explain';
import { count, many, milliseconds } from '../lib/format';
import type { Verdict } from '../lib/values';
import { Problem } from './answer';
import { Bar } from './plan';

/** A run of a query, and its plan where it has one. */
export interface Ran {
  took: number;
  plan?: Explanation;
}

export interface Theirs extends Ran {
  verdict?: Verdict;
  error?: unknown;
}

/** Time that an engine worked on samples that were there, in ms. */
const worked = (r: Ran) => (r.plan?.evaluated_us ?? 0) / 1000;

export function Comparison({ ours, theirs, anew }: { ours: Ran; theirs: Theirs; anew: (() => void) | undefined }) {
  const v = theirs.verdict;
  const scale = Math.max(ours.took, theirs.took);
  const row = (name: string, r: Ran) => {
    const stages: [string, number, string][] = r.plan?.analyzed ? stagesOf(r.plan, r.took) : [['in all', r.took, 'all']];
    return (
      <>
        <dt>{name}</dt>
        <dd>
          <Bar parts={stages} scale={scale} /><b>{milliseconds(r.took)}</b>
          <span class="stages-line">{stages.filter(([, ms]) => ms >= 0.05).map(([stage, ms]) => <span key={stage}>{stage} {milliseconds(ms)}</span>)}</span>
        </dd>
      </>
    );
  };
  return (
    <div class={`verdict ${v ? (v.same ? 'same' : 'differs') : 'failed'}`} role="status">
      <dl class="facts">
        {row('promwarp', ours)}
        {row('Prometheus', theirs)}
      </dl>
      {v?.same && <p><strong>Identical to the bit.</strong> {count(v.series)} series, {count(v.values)} values. Both read the samples from promwarp’s cache.</p>}
      {v?.same && <Speed ours={ours} theirs={theirs} anew={anew} />}
      {v && !v.same && (
        <>
          <p><strong>The answers differ</strong> in {many(v.count, 'place', 'places')}.</p>
          {ours.plan?.tolerance && <p>A function in it may stay within {ours.plan.tolerance} of Prometheus. <button class="link" onClick={() => change({ exact: 'bits' })}>Ask with exact=bits</button></p>}
          <ul>{v.differences.map((d) => <li key={d}>{d}</li>)}</ul>
        </>
      )}
      {theirs.error !== undefined && <Problem error={theirs.error} />}
    </div>
  );
}

/** How much faster the same work was done. What was remembered was not done, so nothing is said of it. */
function Speed({ ours, theirs, anew }: { ours: Ran; theirs: Ran; anew: (() => void) | undefined }) {
  if (!ours.plan || !worked(ours) || !worked(theirs)) return null;
  const { kept, evaluated } = remembered(ours.plan);
  if (kept > 0) {
    return (
      <p class="speed">
        promwarp remembered {count(kept)} of {many(kept + evaluated, 'step', 'steps')}, so these times say nothing of speed.{' '}
        {anew && <button class="link" onClick={anew}>Evaluate all steps</button>}
      </p>
    );
  }
  const ratio = worked(theirs) / worked(ours);
  const decoded = nodesOf(ours.plan.plan).reduce((n, d) => n + (d.children?.length ? 0 : (d.node?.kept ?? 0)), 0);
  return (
    <p class="speed">
      Evaluated {ratio >= 1 ? <b>{ratio.toFixed(1)}× as fast</b> : <b>{(1 / ratio).toFixed(1)}× as slow</b>}, all steps anew
      {decoded > 0 ? `; ${many(decoded, 'sample', 'samples')} had been decoded for earlier queries.` : ', from encoded chunks.'}
    </p>
  );
}
