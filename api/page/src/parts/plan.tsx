// The plan of a query as a tree: who evaluates which part, why, and what that took.
import { ownTime, remembered, stagesOf, type CacheWork, type Decision, type Explanation, type Stages } from '../lib/explain';
import { bytes, count, many, milliseconds } from '../lib/format';

const names: Record<string, string> = { cpu: 'CPU', gpu: 'GPU', prometheus: 'Prometheus' };

export function Badge({ executor }: { executor: string }) {
  return <span class={`badge ${executor}`}>{names[executor] ?? executor}</span>;
}

/** Executors of the parts that have work of their own, outermost first. */
export function executorsOf(d: Decision): string[] {
  return [...new Set([d.executor, ...(d.children ?? []).flatMap(executorsOf)])];
}

/** A plan, and of a query that was run where its time went, of which the browser saw so many ms. */
export function Plan({ e, took }: { e: Explanation; took: number | undefined }) {
  return (
    <div class="plan">
      {e.analyzed && <Totals e={e} took={took ?? 0} />}
      <ul class="tree" aria-label="Parts of the query">
        <Node d={e.plan} scale={Math.max(e.evaluated_us ?? 0, 1)} above={null} parent={null} />
      </ul>
      {e.settings?.map((s) => <p class="hint" key={s}>{s}</p>)}
    </div>
  );
}

function Totals({ e, took }: { e: Explanation; took: number }) {
  const stages = stagesOf(e, took);
  const total = stages.reduce((n, [, ms]) => n + ms, 0);
  const { kept, evaluated } = remembered(e);
  const work = e.plan.work;
  return (
    <dl class="facts stages-of">
      {stages.map(([name, ms, kind]) => (
        <><dt>{name}</dt><dd class="beside"><Bar parts={[[name, ms, kind]]} scale={total || 1} /><b>{milliseconds(ms)}</b></dd></>
      ))}
      {kept > 0 && <><dt>remembered</dt><dd>{count(kept)} of {many(kept + evaluated, 'step', 'steps')}, from earlier queries: they were not evaluated</dd></>}
      {work && work.samples + work.kept > 0 && (
        <><dt>samples</dt><dd>{count(work.samples)} decoded, {bytes(work.bytes)}{work.kept > 0 && ` · ${count(work.kept)} decoded earlier`}</dd></>
      )}
      {work?.device && <><dt>on GPUs</dt><dd>{many(work.device.leaves, 'window', 'windows')}, {count(work.device.samples)} samples, {bytes(work.device.bytes)} in {milliseconds(work.device.us / 1000)}</dd></>}
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
          {sourceOf(c)}
          {c.fetches > 0 && <> · {many(c.fetches, 'request', 'requests')} brought {bytes(c.fetched_bytes)} · waited {milliseconds(c.wait_us / 1000)}</>}
          {c.shared_fetches > 0 && ` · ${count(c.shared_fetches)} shared`}
        </span>
        {failure && <span class="problem">{failure}</span>}
      </dd>
    </>
  );
}

/** Where tiles came from, in words. */
function sourceOf(c: CacheWork): string {
  const { tiles_kept: kept, tiles_subsumed: wider, tiles_fetched: fetched, tiles_read: disk = 0 } = c;
  if (!kept && !wider && !fetched) return 'no whole tile';
  const of = [wider > 0 && `${count(wider)} of a wider selector`, disk > 0 && `${count(disk)} from disk`].filter(Boolean).join(', ');
  return `${many(kept + wider, 'tile', 'tiles')} kept${of && ` (${of})`}, ${count(fetched)} fetched`;
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

/** What else the time of a part is of, since it is evaluated in the same loop, or why it has none. */
function shared(d: Decision, parent: Decision | null): string {
  if (!d.node) return d.children?.length && d.executor !== 'prometheus' ? 'evaluated with its input' : '';
  return d.kind === 'window' && parent?.kind === 'aggregate' ? ', adding up included' : '';
}

function Node({ d, scale, above, parent }: { d: Decision; scale: number; above: string | null; parent: Decision | null }) {
  const [own, n, with_] = [ownTime(d), d.node, shared(d, parent)];
  const r = d.remembered;
  const ahead = (parent?.remembered?.ahead_steps ?? 0) > 0;
  return (
    <li>
      <div class="node">
        <div class="what"><Badge executor={d.executor} /><code title={d.kind}>{d.expr}</code></div>
        {d.reason && d.reason !== above && <p class="why">{d.reason}</p>}
        {own !== undefined && parent?.remembered?.evaluated_steps === 0 ? <p class="work"><span>not evaluated: the results above it were remembered</span></p> : own !== undefined && (
          <div class="work">
            <span class="beside"><Bar parts={[['itself', own, 'all']]} scale={scale} /><b>{milliseconds(own / 1000)}</b></span>
            <span>itself{with_}{ahead && ', some of it during the fetch, in several passes'}{d.children?.length && n!.us > own ? `, ${milliseconds(n!.us / 1000)} with the parts below` : ''}</span>
            {(!d.children?.length || d.kind === 'window') && n!.samples + n!.kept > 0 && <span>{many(n!.series, 'series', 'series')} · {many(n!.samples, 'sample', 'samples')} decoded{n!.kept > 0 && `, ${count(n!.kept)} decoded earlier`}</span>}
            {n!.cache && <span>{sourceOf(n!.cache)}</span>}
          </div>
        )}
        {own === undefined && with_ && scale > 1 && <p class="work"><span>{with_}</span></p>}
        {r && (r.kept_steps > 0 || r.ahead_steps) && (
          <p class="work"><span>{many(r.kept_steps, 'step', 'steps')} remembered from earlier queries, {count(r.evaluated_steps)} evaluated{r.ahead_steps ? `, ${count(r.ahead_steps)} of them during the fetch` : ''}</span></p>
        )}
        {d.work && <p class="work"><span>{many(d.work.series, 'series', 'series')}{d.work.chunks > 0 && ` in ${many(d.work.chunks, 'chunk', 'chunks')}`} → {count(d.work.result_series)} × {d.steps ? count(d.steps) : '1'} ({many(d.work.result_points, 'point', 'points')})</span></p>}
        {d.choice && <Choice c={d.choice} />}
      </div>
      {d.children && <ul>{d.children.map((c, i) => <Node key={i} d={c} scale={scale} above={d.reason ?? above} parent={d} />)}</ul>}
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
