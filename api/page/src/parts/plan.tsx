// The plan of a query as a tree: who evaluates which part, why, and what that took.
import type { CacheWork, Decision, Explanation, Stages } from '../lib/explain';
import { bytes, count, many, milliseconds } from '../lib/format';

const names: Record<string, string> = { cpu: 'CPU', gpu: 'GPU', prometheus: 'Prometheus' };

export function Badge({ executor }: { executor: string }) {
  return <span class={`badge ${executor}`}>{names[executor] ?? executor}</span>;
}

/** The longest time that a part of the plan took, in µs. */
function longestOf(d: Decision): number {
  const own = d.work ? d.work.fetch_us + d.work.eval_us : 0;
  return Math.max(own, ...(d.children ?? []).map(longestOf));
}

/** Executors of the parts that have work of their own, outermost first. */
export function executorsOf(d: Decision): string[] {
  return [...new Set([d.executor, ...(d.children ?? []).flatMap(executorsOf)])];
}

export function Plan({ e }: { e: Explanation }) {
  const scale = Math.max(longestOf(e.plan), e.total_us ?? 0, 1);
  return (
    <div class="plan">
      {e.analyzed && <Totals e={e} scale={scale} />}
      <ul class="tree">
        <Node d={e.plan} scale={scale} above={null} />
      </ul>
      {e.settings?.map((s) => <p class="hint" key={s}>{s}</p>)}
    </div>
  );
}

function Totals({ e, scale }: { e: Explanation; scale: number }) {
  return (
    <dl class="facts">
      <dt>Total</dt>
      <dd><b>{milliseconds((e.total_us ?? 0) / 1000)}</b><Bar parts={[['total', e.total_us ?? 0, 'all']]} scale={scale} /></dd>
      {e.cache && <CacheLine c={e.cache} name="Cache" />}
      {e.upstreams?.map((u) => (
        <CacheLine key={u.name} c={u.cache} name={u.name} failure={u.failure} />
      ))}
    </dl>
  );
}

function CacheLine({ c, name, failure }: { c?: CacheWork; name: string; failure?: string }) {
  if (!c) return <><dt>{name}</dt><dd>{failure ? <span class="problem">{failure}</span> : 'not asked'}</dd></>;
  const tiles = c.tiles_kept + c.tiles_subsumed + c.tiles_fetched;
  return (
    <>
      <dt>{name}</dt>
      <dd>
        {tiles > 0 && <Bar parts={[['kept', c.tiles_kept, 'kept'], ['of a wider selector', c.tiles_subsumed, 'subsumed'], ['fetched', c.tiles_fetched, 'fetched']]} scale={tiles} />}
        <span>
          {many(c.tiles_kept + c.tiles_subsumed, 'tile', 'tiles')} kept{c.tiles_subsumed > 0 && ` (${count(c.tiles_subsumed)} of a wider selector)`}, {count(c.tiles_fetched)} fetched
          {c.fetches > 0 && <> · {many(c.fetches, 'request', 'requests')} brought {bytes(c.fetched_bytes)} · waited {milliseconds(c.wait_us / 1000)}</>}
          {c.shared_fetches > 0 && ` · ${count(c.shared_fetches)} shared`}
        </span>
        {failure && <span class="problem">{failure}</span>}
      </dd>
    </>
  );
}

/** Lengths beside each other, on a scale that all bars of a plan share. */
export function Bar({ parts, scale }: { parts: [name: string, n: number, kind: string][]; scale: number }) {
  return (
    <span class="bar" aria-hidden="true">
      {parts.filter(([, n]) => n > 0).map(([name, n, kind]) => (
        <i key={name} class={kind} style={{ width: `${Math.max(0.4, (100 * n) / scale)}%` }} title={name} />
      ))}
    </span>
  );
}

function Node({ d, scale, above }: { d: Decision; scale: number; above: string | null }) {
  const w = d.work;
  return (
    <li>
      <div class="node">
        <div class="what"><Badge executor={d.executor} /><code title={d.kind}>{d.expr}</code></div>
        {d.reason && d.reason !== above && <p class="why">{d.reason}</p>}
        {w && (
          <div class="work">
            <Bar parts={[['fetching', w.fetch_us, 'fetched'], ['evaluating', w.eval_us, 'all']]} scale={scale} />
            <span><b>{milliseconds((w.fetch_us + w.eval_us) / 1000)}</b>: fetched in {milliseconds(w.fetch_us / 1000)}, evaluated in {milliseconds(w.eval_us / 1000)}</span>
            {w.samples + w.kept > 0 && <span>{many(w.samples, 'sample', 'samples')} · {bytes(w.bytes)} decoded{w.kept > 0 && ` · ${count(w.kept)} kept decoded`}</span>}
            <span>{many(w.series, 'series', 'series')}{w.chunks > 0 && ` in ${many(w.chunks, 'chunk', 'chunks')}`} → {count(w.result_series)} × {d.steps ? count(d.steps) : '1'} ({many(w.result_points, 'point', 'points')})</span>
            {w.device && <span>On GPUs: {many(w.device.leaves, 'window', 'windows')}, {count(w.device.samples)} samples, {bytes(w.device.bytes)} in {milliseconds(w.device.us / 1000)}</span>}
          </div>
        )}
        {d.remembered && (
          <p class="work"><span>{many(d.remembered.kept_steps, 'step', 'steps')} remembered from earlier queries, {count(d.remembered.evaluated_steps)} evaluated</span></p>
        )}
        {d.choice && <Choice c={d.choice} />}
      </div>
      {d.children && <ul>{d.children.map((c, i) => <Node key={i} d={c} scale={scale} above={d.reason ?? above} />)}</ul>}
    </li>
  );
}

/** What was expected of cores and GPU, and what happened. */
function Choice({ c }: { c: NonNullable<Decision['choice']> }) {
  const scale = Math.max(c.estimated_cpu_us, c.estimated_gpu_us, c.took_us, 1);
  const row = (name: string, us: number, kind: string) => (
    <><dt>{name}</dt><dd><Bar parts={[[name, us, kind]]} scale={scale} /><span>{milliseconds(us / 1000)}</span></dd></>
  );
  return (
    <>
      <dl class="facts small">
        {row('expected, CPU', c.estimated_cpu_us, 'subsumed')}
        {row('expected, GPU', c.estimated_gpu_us, 'subsumed')}
        {row('took', c.took_us, 'all')}
      </dl>
      {c.stages && <DeviceStages s={c.stages} gpu={c.gpu} />}
    </>
  );
}

export function DeviceStages({ s, gpu }: { s: Stages; gpu?: number }) {
  const stages: [string, number][] = [
    ['waited', s.waited_us], ['prepare', s.prepare_us], ['copy', s.copy_us], ['decode', s.decode_us],
    ['window', s.window_us], ['reduce', s.fold_us], ['result', s.result_us],
  ];
  const scale = Math.max(...stages.map(([, us]) => us), 1);
  return (
    <div class="stages">
      <p class="hint">{gpu !== undefined && `GPU ${gpu}: `}{many(s.batches, 'batch', 'batches')}, stages beside each other</p>
      <dl class="facts small">
        {stages.map(([name, us]) => (
          <><dt>{name}</dt><dd><Bar parts={[[name, us, 'all']]} scale={scale} /><span>{milliseconds(us / 1000)}</span></dd></>
        ))}
      </dl>
      <p class="hint">
        {bytes(s.copied_bytes)} copied, {bytes(s.resident_bytes)} there already
        {s.copy_bytes_per_second > 0 && ` · ${(s.copy_bytes_per_second / 1e9).toFixed(1)} GB/s`}
      </p>
    </div>
  );
}
