// What is cached: how full it is, how often it answered, and each selector's tiles over time.
import { useEffect, useState } from 'preact/hooks';
import { change, get, useStore } from '../lib/store';
import { ask } from '../lib/api';
import { door, isAdmin, metrics, total, useLive, type Metrics } from '../lib/live';
import { bytes, count, duration, many, moment, percent } from '../lib/format';
import { Problem } from '../parts/answer';
import { Confirm } from '../parts/confirm';
import { Bar } from '../parts/plan';

interface Selector {
  selector: string;
  series: number;
  samples: number;
  host_bytes: number;
  disk_bytes: number;
  device_bytes: number;
  in_memory_ms: [number, number][] | null;
  on_disk_ms: [number, number][] | null;
}

interface Contents {
  name?: string;
  tile_ms: number;
  host_bytes: number;
  host_limit_bytes: number;
  disk_bytes: number;
  disk_limit_bytes: number;
  count: number;
  selectors: Selector[];
}

/** The most selectors that are searched; without a search fewer are listed. */
const mostSearched = 10_000;

export function Cache() {
  const { find } = useStore();
  const all = useLive((signal) => door<Contents[]>(`/api/v1/status/cache${get().find ? `?limit=${mostSearched}` : ''}`)(signal), 5000);
  useEffect(() => all.again(), [find === '']);
  const m = useLive(metrics, 5000);
  const flags = useLive(door<Record<string, string>>('/api/v1/status/flags'), 0);
  const [problem, setProblem] = useState<unknown>(null);
  const [done, setDone] = useState('');
  const admin = isAdmin(flags.data);
  const drop = async (fields: Record<string, string>) => {
    setProblem(null);
    try {
      const { data } = await ask<{ selectors: number; tiles: number }>('/api/v1/admin/cache/drop', fields);
      setDone(`Dropped ${many(data.tiles, 'tile', 'tiles')} of ${many(data.selectors, 'selector', 'selectors')}.`);
    } catch (e) {
      setProblem(e);
    }
    all.again();
  };
  if (all.error !== undefined && !all.data) return <Problem error={all.error} retry={all.again} />;
  return (
    <>
      {problem !== null && <Problem error={problem} />}
      {done && <p class="hint" role="status">{done}</p>}
      <Rates m={m.data} />
      {all.data?.map((c) => <One key={c.name ?? ''} c={c} admin={admin} drop={drop} />)}
      {all.data?.length === 0 && <p class="empty">There is no cache.</p>}
      {flags.data && !admin && <p class="hint">Dropping takes <code>--web.enable-admin-api</code>.</p>}
    </>
  );
}

function Rates({ m }: { m?: Metrics }) {
  const n = (name: string) => total(m, `promwarp_cache_${name}`);
  const [hits, subsumed, misses] = [n('tile_hits_total'), n('subsumed_tiles_total'), n('tile_misses_total')];
  const [restored, fetches] = [n('disk_restored_tiles_total'), n('fetches_total')];
  const asked = hits + subsumed + misses;
  const fact = (name: string, value: string, note: string) => <div><dt>{name}</dt><dd><b>{value}</b><span>{note}</span></dd></div>;
  return (
    <dl class="figures">
      {fact('Hit rate', asked ? percent((hits + subsumed) / asked) : '–', `${many(asked, 'tile', 'tiles')} asked for`)}
      {fact('From memory', count(hits), `${count(subsumed)} more of wider selectors`)}
      {fact('Not there', count(misses), `${count(restored)} of them read from disk`)}
      {fact('Requests upstream', count(fetches), `${bytes(n('fetched_bytes_total'))}, ${count(n('fetch_failures_total'))} failed`)}
      {fact('Evicted', count(n('evicted_tiles_total')), `${count(n('dropped_tiles_total'))} dropped by hand`)}
    </dl>
  );
}

function One({ c, admin, drop }: { c: Contents; admin: boolean; drop: (fields: Record<string, string>) => Promise<void> }) {
  const { find } = useStore();
  const found = c.selectors.filter((s) => s.selector.toLowerCase().includes(find.toLowerCase()));
  const all = found.flatMap((s) => [...(s.in_memory_ms ?? []), ...(s.on_disk_ms ?? [])]);
  const from = Math.min(...all.map(([a]) => a));
  const to = Math.max(...all.map(([, b]) => b));
  const device = found.some((s) => s.device_bytes > 0);
  const disk = c.disk_limit_bytes > 0;
  return (
    <section class="panel sheet">
      <header>
        <h2>{c.name ?? 'Selectors'}</h2>
        <span class="hint">{many(c.count, 'selector', 'selectors')} kept in tiles of {duration(c.tile_ms / 1000)}{c.count > c.selectors.length && `, the largest ${c.selectors.length} listed`}</span>
        <span class="spring" />
        <input type="search" aria-label="Search selectors" placeholder="Search selectors" value={find} onInput={(e) => change({ find: e.currentTarget.value }, true)} />
        {admin && <Confirm text="Drop all" question="Drop everything?" act={() => drop({ all: 'true' })} />}
      </header>
      <dl class="facts gauges">
        <dt>Memory</dt>
        <dd><Bar parts={[['used', c.host_bytes, 'all']]} scale={c.host_limit_bytes || 1} /><span>{bytes(c.host_bytes)} of {bytes(c.host_limit_bytes)}</span></dd>
        {disk && <><dt>Disk</dt><dd><Bar parts={[['used', c.disk_bytes, 'all']]} scale={c.disk_limit_bytes} /><span>{bytes(c.disk_bytes)} of {bytes(c.disk_limit_bytes)}</span></dd></>}
      </dl>
      {found.length === 0 ? <p class="empty">{find ? `Nothing is kept of “${find}”.` : 'Nothing is kept yet. Run a query.'}</p> : (
        <div class="scroll">
          <table class="data tiles">
            <thead>
              <tr>
                <th>Selector</th>
                <th class="strip-head"><span>{moment(from).slice(5, 16)}</span><span>{moment(to).slice(5, 16)}</span></th>
                <th class="num">series</th><th class="num">samples</th><th class="num">memory</th>
                {disk && <th class="num">disk</th>}
                {device && <th class="num">device</th>}
                {admin && <th />}
              </tr>
            </thead>
            <tbody>
              {found.map((s) => (
                <tr key={s.selector}>
                  <td class="expr" title={s.selector}>{s.selector}</td>
                  <td><Strip s={s} from={from} to={to} /></td>
                  <td class="num">{count(s.series)}</td>
                  <td class="num">{count(s.samples)}</td>
                  <td class="num">{bytes(s.host_bytes)}</td>
                  {disk && <td class="num">{bytes(s.disk_bytes)}</td>}
                  {device && <td class="num">{bytes(s.device_bytes)}</td>}
                  {admin && <td><Confirm text="Drop" label={`Drop ${s.selector}`} question="Drop?" act={() => drop({ 'match[]': s.selector })} /></td>}
                </tr>
              ))}
            </tbody>
          </table>
          <p class="hint keys-line"><span><i class="key all" /> in memory</span> <span><i class="key fetched" /> on disk alone</span></p>
        </div>
      )}
    </section>
  );
}

/** Which stretches are kept, as a strip over time. */
function Strip({ s, from, to }: { s: Selector; from: number; to: number }) {
  const scale = Math.max(1, to - from);
  const piece = (kind: string) => ([a, b]: [number, number]) => (
    <i key={`${kind}${a}`} class={kind} title={`${moment(a)} – ${moment(b)}`} style={{ left: `${(100 * (a - from)) / scale}%`, width: `max(1px, ${(100 * (b - a)) / scale}%)` }} />
  );
  return <div class="tile-strip" role="img" aria-label={`${(s.in_memory_ms ?? []).length} stretches in memory, ${(s.on_disk_ms ?? []).length} on disk`}>{(s.on_disk_ms ?? []).map(piece('fetched'))}{(s.in_memory_ms ?? []).map(piece('all'))}</div>;
}
