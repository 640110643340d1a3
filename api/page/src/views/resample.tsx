// Stored samples by buckets: the form of /query, its answer, and downloads.
import { useEffect, useRef, useState } from 'preact/hooks';
import { aborted, base, Failure, form, type Fields } from '../lib/api';
import { query, type Queried } from '../lib/query';
import { change, run, runNumber, useStore, zoomBack, zoomIn } from '../lib/store';
import { usual } from '../lib/shape';
import { resolve, wrong } from '../lib/range';
import { bytes, count, many, milliseconds } from '../lib/format';
import { countOf, type QueryData } from '../lib/values';
import { absolute } from '../lib/range';
import { Controls, Picker } from '../parts/picker';
import { Editor, type Handle } from '../parts/editor';
import { Chart } from '../parts/chart';
import { Notes, Problem, Raw, Table } from '../parts/answer';
import { Badge, Bar } from '../parts/plan';
import { arrows } from '../parts/arrows';

interface Explanation {
  executor: string;
  reason: string;
  buckets: number;
  every: string;
  period: string;
  passes: { of: string; aggregates: string[]; parts: string[]; note?: string }[];
  note?: string;
  work?: { series: number; groups: number; chunks: number; samples: number; bytes: number; runs: number; values: number; stages: { name: string; micros: number }[] | null };
}

type Data = QueryData & { explanation: Explanation };

const aggregates = ['count', 'sum', 'mean', 'min', 'max', 'median', '95pct', 'std', 'first', 'last', 'nunique', 'rate:sum'];

const names = ['match', 'every', 'aggregates', 'by', 'without', 'reaggregate', 'fill', 'period', 'timezone', 'origin', 'offset', 'closed', 'label', 'limit'];

export function Resample() {
  const s = useStore();
  const [draft, setDraft] = useState<Record<string, string>>({ every: '5m', aggregates: 'mean', ...s.resample });
  const [state, setState] = useState<{ answer?: Queried<Data>; error?: unknown; fields?: Fields }>({});
  const [busy, setBusy] = useState(false);
  const [shape, setShape] = useState(usual);
  const [view, setView] = useState<'chart' | 'table' | 'json'>('chart');
  const controller = useRef<AbortController | null>(null);
  const handle = useRef<Handle | null>(null);
  const field = (name: string) => draft[name] ?? '';
  const set = (name: string, value: string) => setDraft((d) => ({ ...d, [name]: value }));
  const address = JSON.stringify(s.resample);
  const runs = runNumber();

  useEffect(() => setDraft({ every: '5m', aggregates: 'mean', ...s.resample }), [address]);
  useEffect(() => {
    if (!s.resample.match) return;
    if (wrong(s)) return setState({ error: new Failure(wrong(s), 0, 'range') });
    const c = (controller.current = new AbortController());
    const { match, executor: _, ...rest } = s.resample;
    const { start, end } = resolve(s);
    const fields: Fields = { 'match[]': match, ...rest, start: String(start / 1000), end: String(end / 1000), executor: s.executor === 'prometheus' ? 'auto' : s.executor };
    if (rest.by === '()') fields.by = ''; // one group of all
    setBusy(true);
    query<Data>('/query', { ...fields, explain: 'true' }, c.signal)
      .then((answer) => setState({ answer, fields }), (error) => aborted(error) || setState({ error, fields }))
      .finally(() => !c.signal.aborted && setBusy(false));
    return () => {
      c.abort();
      setBusy(false);
    };
  }, [address, s.from, s.to, s.executor, runs]);

  const submit = (e?: Event) => {
    e?.preventDefault();
    const next: Record<string, string> = {};
    for (const n of names) if (field(n).trim()) next[n] = field(n).trim();
    next.match = handle.current?.text().trim() ?? next.match ?? '';
    if (JSON.stringify(next) === address) run();
    else change({ resample: next });
  };
  const listed = field('aggregates').split(',').map((a) => a.trim()).filter(Boolean);
  const toggle = (a: string) => set('aggregates', (listed.includes(a) ? listed.filter((x) => x !== a) : [...listed, a]).join(','));
  const input = (name: string, label: string, place: string, list?: string[]) => (
    <label class="field">{label}
      <input name={name} value={field(name)} placeholder={place} list={list && `list-${name}`} autocomplete="off" spellcheck={false} onInput={(e) => set(name, e.currentTarget.value)} />
      {list && <datalist id={`list-${name}`}>{list.map((v) => <option key={v} value={v} />)}</datalist>}
    </label>
  );
  const select = (name: string, label: string, values: string[]) => (
    <label class="field">{label}
      <select name={name} value={field(name)} onChange={(e) => set(name, e.currentTarget.value)}>{values.map((v) => <option key={v} value={v}>{v || '–'}</option>)}</select>
    </label>
  );
  const answer = state.answer;
  const series = answer?.data.result ?? [];
  const { start, end } = resolve(s);

  return (
    <>
      <div class="toolbar"><Picker /><Controls executors={['auto', 'cpu', 'gpu']} /></div>
      <section class="panel">
        <div class="ask">
          <Editor value={field('match')} label="Selector" placeholder="Selector, such as http_requests_total{job=&quot;api&quot;}" onRun={(match) => { set('match', match); submit(); }} handle={(h) => (handle.current = h)} />
          <div class="ask-side">
            {busy ? <button class="cancel" onClick={() => { controller.current?.abort(); setBusy(false); }}>Cancel</button> : <button class="primary run" onClick={() => submit()}>Resample</button>}
          </div>
        </div>
        <div class={`progress ${busy ? 'on' : ''}`} role="progressbar" aria-label="Asking" aria-hidden={!busy} />
        <form class="form" onSubmit={submit}>
          <fieldset class="chips">
            <legend>Aggregates</legend>
            {aggregates.map((a) => <button type="button" key={a} aria-pressed={listed.includes(a)} onClick={() => toggle(a)}>{a}</button>)}
            <input name="aggregates" aria-label="Aggregates, separated by commas" value={field('aggregates')} autocomplete="off" spellcheck={false} onInput={(e) => set('aggregates', e.currentTarget.value)} />
          </fieldset>
          <div class="fields">
            {input('every', 'Every', '5m, 1h, 1d, 1M', ['1m', '5m', '15m', '1h', '6h', '24h', '1d', '1w', '1M'])}
            {input('by', 'Group by', 'job,instance or ()')}
            {input('without', 'or without', 'labels')}
            {select('reaggregate', 'Over the series', ['', 'count', 'sum', 'mean', 'min', 'max', 'std', 'var', 'median'])}
            {input('fill', 'Fill', 'none', ['none', 'null', 'prev', 'linear', '0'])}
          </div>
          <details open={['period', 'timezone', 'origin', 'offset', 'closed', 'label', 'limit'].some((n) => !!s.resample[n])}>
            <summary>More fields</summary>
            <div class="fields">
              {input('period', 'Window', 'as long as a bucket')}
              {input('timezone', 'Time zone', 'UTC', [Intl.DateTimeFormat().resolvedOptions().timeZone, 'UTC'])}
              {input('origin', 'Origin', 'epoch')}
              {input('offset', 'Offset', '0s')}
              {select('closed', 'Closed', ['', 'left', 'right'])}
              {select('label', 'Label', ['', 'left', 'right'])}
              {input('limit', 'Most series', 'all')}
            </div>
          </details>
          <button class="unseen" tabIndex={-1} aria-hidden="true">Resample</button>
        </form>
        {(answer || state.error !== undefined) && (
          <>
            <div class="strip">
              <div class="tabs" role="tablist" onKeyDown={arrows}>
                {(['chart', 'table', 'json'] as const).map((v) => <button key={v} role="tab" aria-selected={view === v} tabIndex={view === v ? 0 : -1} onClick={() => setView(v)}>{{ chart: 'Chart', table: 'Table', json: 'JSON' }[v]}</button>)}
              </div>
              {answer && state.fields && <Downloads fields={state.fields} />}
              {answer && <p class="summary" role="status"><b>{milliseconds(answer.took)}</b><span>{many(series.length, 'series', 'series')}</span><span>{many(countOf(series), 'value', 'values')}</span><span>{bytes(answer.bytes)}</span></p>}
            </div>
            <div class="answer"><div class="body">
              <div class="main">
                {state.error !== undefined && <Problem error={state.error} retry={run} />}
                {answer && <Notes warnings={answer.warnings} infos={answer.infos} />}
                {answer && view === 'chart' && (series.length ? <Chart loose series={series} expr={s.resample.match ?? ''} start={start / 1000} end={end / 1000} step={1} shape={shape} onShape={(patch) => setShape({ ...shape, ...patch })} onZoom={(a, b) => zoomIn(absolute(a * 1000, b * 1000))} onZoomOut={zoomBack} /> : <Table data={answer.data} />)}
                {answer && view === 'table' && <Table data={answer.data} />}
                {answer && view === 'json' && <Raw body={answer.body} />}
              </div>
              <aside class="side" aria-label="Plan">
                <header><h3>Plan</h3>{answer && <span class="hint">measured in this run</span>}</header>
                {answer && <Plan x={answer.data.explanation} took={answer.took} />}
              </aside>
            </div></div>
          </>
        )}
        {!answer && state.error === undefined && <p class="empty">Name a selector, what is made of its samples, and how long a bucket is.</p>}
      </section>
    </>
  );
}

/** Links that ask for the same as a table. */
function Downloads({ fields }: { fields: Fields }) {
  const link = (format: string, layout: string | undefined, text: string, file: string) => (
    <a key={text} href={`${base}/query?${form({ ...fields, format, layout })}`} download={file}>{text}</a>
  );
  return (
    <p class="downloads"><span>Download</span>
      {link('csv', undefined, 'CSV', 'resampled.csv')}
      {link('arrow', 'long', 'Arrow', 'resampled.arrow')}
      {link('arrow', 'wide', 'Arrow, wide', 'resampled-wide.arrow')}
      {link('parquet', 'long', 'Parquet', 'resampled.parquet')}
    </p>
  );
}

function Plan({ x, took }: { x: Explanation; took: number }) {
  const w = x.work;
  const stages = w?.stages ?? [];
  const scale = Math.max(took * 1000, ...stages.map((s) => s.micros), 1);
  return (
    <div class="plan">
      <div class="node">
        <div class="what"><Badge executor={x.executor} /><code>{many(x.buckets, 'bucket', 'buckets')} of {x.every}{x.period !== x.every && `, windows of ${x.period}`}</code></div>
        <p class="why">{x.reason}</p>
        {w && <div class="work"><span>{many(w.series, 'series', 'series')} in {many(w.groups, 'group', 'groups')} · {many(w.chunks, 'chunk', 'chunks')}, {bytes(w.bytes)}</span><span>{many(w.samples, 'sample', 'samples')} · {many(w.runs, 'run', 'runs')} → {many(w.values, 'value', 'values')}</span></div>}
      </div>
      {stages.length > 0 && <dl class="facts small">{stages.map((s) => <><dt>{s.name}</dt><dd><Bar parts={[[s.name, s.micros, 'all']]} scale={scale} /><span>{milliseconds(s.micros / 1000)}</span></dd></>)}</dl>}
      {x.passes.map((p, i) => <p class="why" key={i}>{p.aggregates.join(', ')} of {p.of}: one pass that keeps {p.parts.join(', ') || 'nothing'}{p.note && `; ${p.note}`}</p>)}
      {x.note && <p class="why">{x.note}</p>}
      <p class="hint">{count(Math.round(took))} ms with sending and reading JSON</p>
    </div>
  );
}
