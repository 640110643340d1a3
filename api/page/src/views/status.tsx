// The server: what it is, what it reads from, what runs on it now, how it is set.
import { useState } from 'preact/hooks';
import { ask, base } from '../lib/api';
import { door, isAdmin, metrics, total, useLive } from '../lib/live';
import { bytes, count, duration, many, milliseconds, moment, percent, size } from '../lib/format';
import { Problem } from '../parts/answer';
import { Confirm } from '../parts/confirm';

interface Running {
  id: number;
  query: string;
  door: string;
  executor: string;
  seconds: number;
  stage: string;
  samples: number;
  samples_evaluated: number;
  tiles_kept: number;
  tiles_fetched: number;
  fetched_bytes: number;
}

interface Runtime {
  startTime: string;
  hostname: string;
  goroutineCount: number;
  GOMAXPROCS: number;
  GOMEMLIMIT: number;
  reloadConfigSuccess: boolean;
  lastConfigTime: string;
}

async function ready(signal: AbortSignal): Promise<{ ok: boolean; lines: string[] }> {
  const r = await fetch(`${base}/-/ready`, { signal, cache: 'no-store' });
  return { ok: r.ok, lines: (await r.text()).trim().split('\n') };
}

export function Status() {
  const flags = useLive(door<Record<string, string>>('/api/v1/status/flags'), 0);
  return (
    <>
      <Server />
      <Queries admin={isAdmin(flags.data)} />
      <Upstreams />
      <Features />
      {flags.error !== undefined ? <Problem error={flags.error} /> : <Settings flags={flags.data ?? {}} />}
      <p class="hint">This page is made of free software: <a href={`${base}/assets/licences.md`}>licences</a>. The API is described in <a href={`${base}/openapi.json`}>openapi.json</a>.</p>
    </>
  );
}

function Server() {
  const runtime = useLive(door<Runtime>('/api/v1/status/runtimeinfo'), 10_000);
  const build = useLive(door<Record<string, string>>('/api/v1/status/buildinfo'), 0);
  const m = useLive(metrics, 5000);
  const r = runtime.data;
  const b = build.data;
  if (runtime.error !== undefined && !r) return <Problem error={runtime.error} retry={runtime.again} />;
  const requests = total(m.data, 'promwarp_http_request_duration_seconds_count');
  const failed = (m.data?.get('promwarp_http_request_duration_seconds_count') ?? []).filter((s) => (s.labels.code ?? '') >= '500').reduce((n, s) => n + s.value, 0);
  const fact = (name: string, value: string, note: string) => <div><dt>{name}</dt><dd><b>{value}</b><span>{note}</span></dd></div>;
  return (
    <dl class="figures">
      {fact('promwarp', b?.applicationVersion ?? '…', `with the engine of Prometheus ${b?.version ?? '…'}`)}
      {fact('Up for', r ? upFor(Date.now() - Date.parse(r.startTime)) : '…', r ? `since ${moment(Date.parse(r.startTime))}` : '')}
      {fact('Memory', bytes(total(m.data, 'process_resident_memory_bytes')), r && r.GOMEMLIMIT < 2 ** 62 ? `of ${bytes(r.GOMEMLIMIT)}` : 'no limit')}
      {fact('Cores', r ? String(r.GOMAXPROCS) : '…', r ? many(r.goroutineCount, 'goroutine', 'goroutines') : '')}
      {fact('Requests', count(requests), `${count(failed)} failed on this side${requests ? `, ${percent(failed / requests)}` : ''}`)}
    </dl>
  );
}

/** How long the server has been up, in minutes once there are any. */
function upFor(ms: number): string {
  const seconds = Math.max(Math.floor(ms / 1000), 1);
  return duration(seconds < 60 ? seconds : Math.floor(seconds / 60) * 60);
}

function Queries({ admin }: { admin: boolean }) {
  const live = useLive(door<Running[]>('/api/v1/status/queries'), 1000);
  const [problem, setProblem] = useState<unknown>(null);
  const cancel = async (id: number) => {
    setProblem(null);
    try {
      await ask('/api/v1/admin/queries/cancel', { id: String(id) });
    } catch (e) {
      setProblem(e);
    }
    live.again();
  };
  const all = live.data ?? [];
  return (
    <section class="panel sheet">
      <header><h2>Queries under way</h2><span class="hint">{all.length ? many(all.length, 'query', 'queries') : ''}</span></header>
      {problem !== null && <Problem error={problem} />}
      {live.error !== undefined && !live.data && <Problem error={live.error} retry={live.again} />}
      {all.length === 0 ? <p class="empty">None at the moment.</p> : (
        <div class="scroll">
          <table class="data">
            <thead><tr><th>Query</th><th>door</th><th>executor</th><th>stage</th><th class="num">for</th><th class="num">samples, about</th><th class="num">tiles</th><th class="num">fetched</th>{admin && <th />}</tr></thead>
            <tbody>
              {all.map((q) => (
                <tr key={q.id}>
                  <td class="wrap">{q.query}</td><td>{q.door}</td><td>{q.executor}</td><td>{q.stage}</td>
                  <td class="num">{milliseconds(1000 * q.seconds)}</td>
                  <td class="num">{count(q.samples)} selected, {count(q.samples_evaluated)} evaluated</td>
                  <td class="num">{count(q.tiles_kept)} kept, {count(q.tiles_fetched)} fetched</td><td class="num">{bytes(q.fetched_bytes)}</td>
                  {admin && <td><Confirm text="Cancel" label={`Cancel query ${q.id}`} question="Cancel it?" act={() => cancel(q.id)} /></td>}
                </tr>
              ))}
            </tbody>
          </table>
        </div>
      )}
      {!admin && <p class="hint">Cancelling takes <code>--web.enable-admin-api</code>.</p>}
    </section>
  );
}

function Upstreams() {
  const state = useLive(ready, 10_000);
  const config = useLive(door<{ yaml: string }>('/api/v1/status/config'), 0);
  const [first, ...lines] = state.data?.lines ?? [];
  return (
    <section class="panel sheet">
      <header><h2>Upstreams</h2><span class="spring" />{state.data && <span class={`badge ${state.data.ok ? 'cpu' : 'prometheus'}`}>{state.data.ok ? 'ready' : 'not ready'}</span>}</header>
      {state.data && !state.data.ok && <p class="problem">{first}</p>}
      {state.error !== undefined && <Problem error={state.error} retry={state.again} />}
      <ul class="lines">{lines.map((l) => <li key={l}>{l}</li>)}</ul>
      {config.data && <details><summary>Configuration, without secrets</summary><pre class="yaml" tabIndex={0}>{config.data.yaml}</pre></details>}
    </section>
  );
}

function Features() {
  const features = useLive(door<Record<string, Record<string, boolean>>>('/api/v1/features'), 0);
  if (!features.data) return features.error !== undefined ? <Problem error={features.error} /> : null;
  return (
    <section class="panel sheet">
      <header><h2>Features</h2><span class="hint">what is off is struck through</span></header>
      <dl class="features">
        {Object.entries(features.data).filter(([, of]) => Object.keys(of).length > 0).map(([category, of]) => (
          <><dt>{category.replaceAll('_', ' ')}</dt><dd>{Object.entries(of).map(([name, on]) => (on ? <span key={name}>{name}</span> : <s key={name}>{name}</s>))}</dd></>
        ))}
      </dl>
    </section>
  );
}

function Settings({ flags }: { flags: Record<string, string> }) {
  const [filter, setFilter] = useState('');
  const all = Object.entries(flags).filter(([k, v]) => `${k} ${v}`.toLowerCase().includes(filter.toLowerCase()));
  return (
    <section class="panel sheet">
      <header><h2>Settings</h2><span class="spring" /><input type="search" placeholder="Filter" aria-label="Filter settings" value={filter} onInput={(e) => setFilter(e.currentTarget.value)} /></header>
      <table class="data pairs"><tbody>{all.map(([k, v]) => <tr key={k}><td>--{k}</td><td class="wrap" title={v}>{size(v) || '–'}</td></tr>)}</tbody></table>
    </section>
  );
}
