// One query: its editor, its answer as a chart, a table or JSON, its plan, and the comparison.
import { useEffect, useRef, useState } from 'preact/hooks';
import { aborted, ask, Failure, type Fields } from '../lib/api';
import { compare, query, type Queried } from '../lib/query';
import { countOf, seriesOf } from '../lib/values';
import { absolute, aligned, resolve, stepOf, wrong } from '../lib/range';
import { change, changePanel, get, record, reshape, run, runNumber, useStore, wait, zoomBack, zoomIn, type Panel as PanelState, type State } from '../lib/store';
import { bytes, duration, many, milliseconds } from '../lib/format';
import { remembered, type Explanation } from '../lib/explain';
import { Editor, type Handle } from './editor';
import { Chart } from './chart';
import { Notes, Problem, Raw, Table } from './answer';
import { Explorer } from './explorer';
import { Plan } from './plan';
import { Comparison, type Theirs } from './compare';
import { arrows } from './arrows';

interface Asked {
  path: string;
  fields: Fields;
  start: number;
  end: number;
  step: number;
}

interface Result {
  asked: Asked;
  answer?: Queried;
  error?: unknown;
  theirs?: Theirs;
  /** That of the answer, or of a run in which everything was evaluated anew. */
  plan?: Explanation;
  /** What that run took. */
  anew?: number;
  planError?: unknown;
  /** After how many ms the user cancelled it. */
  cancelled?: number;
}

/** What the server says of a query's cost, as far as it is shown. */
interface Cost {
  estimate: { seriesTouched: number; samplesRead: number };
  complete: boolean;
  fetch_bytes: number;
  cores_us: { now: { total: number } } | null;
  gpu_us?: { now: { total: number } };
  dominates?: { selector: string; phase: string };
}

/** What a query would cost, in a sentence; or what is wrong with it. */
async function costOf(a: Asked): Promise<string> {
  try {
    const { data: c, warnings } = await ask<Cost>(`${a.path}_cost`, a.fields);
    if (!c.complete) return warnings.join('; ') || 'Its cost is not known.';
    const time = c.gpu_us ?? c.cores_us;
    return [
      `It reads ${many(c.estimate.seriesTouched, 'series', 'series')} and ${many(c.estimate.samplesRead, 'sample', 'samples')}`,
      c.fetch_bytes > 0 ? `fetches ${bytes(c.fetch_bytes)}` : 'fetches nothing',
      time && `takes about ${milliseconds(time.now.total / 1000)}`,
      c.dominates && `most of it to ${c.dominates.phase} ${c.dominates.selector}`,
    ].filter(Boolean).join(', ') + '.';
  } catch (error) {
    if (error instanceof Failure) return error.message;
    throw error;
  }
}

/** Why a run ends that the user cancels, and not one that another takes the place of. */
const byUser = new DOMException('cancelled', 'AbortError');
const replaced = (signal: AbortSignal) => signal.aborted && signal.reason !== byUser;

function asked(s: State, p: PanelState): Asked {
  const { start, end } = resolve(s);
  const step = stepOf(s.step, start, end);
  const grid = aligned(s, step);
  return p.mode === 'range'
    ? { path: '/api/v1/query_range', fields: { query: p.expr, start: String(grid.start), end: String(grid.end), step: String(step) }, ...grid, step }
    : { path: '/api/v1/query', fields: { query: p.expr, time: String(end / 1000) }, start: end / 1000, end: end / 1000, step };
}

export function Panel({ panel, index, alone }: { panel: PanelState; index: number; alone: boolean }) {
  const s = useStore();
  const [result, setResult] = useState<Result | null>(null);
  const [stage, setStage] = useState('');
  const [received, setReceived] = useState(0);
  const [exploring, explore] = useState(false);
  const [cost, setCost] = useState('');
  const controller = useRef<AbortController | null>(null);
  const handle = useRef<Handle | null>(null);
  const runs = runNumber();

  useEffect(() => {
    if (!panel.expr.trim()) {
      setResult(null);
      return;
    }
    const a = asked(s, panel);
    if (wrong(s)) {
      setResult({ asked: a, error: new Failure(wrong(s), 0, 'range') });
      return;
    }
    const c = new AbortController();
    controller.current = c;
    void perform(a, s, c.signal, setResult, setStage, setReceived);
    return () => {
      c.abort();
      controller.current!.abort(); // it may be another run of all steps
    };
  }, [panel.expr, panel.mode, s.from, s.to, s.step, s.executor, s.compare, s.exact, runs]);

  useEffect(() => {
    wait(panel.id, stage !== '');
    return () => wait(panel.id, false);
  }, [stage]);

  const submit = (expr: string) => {
    setCost('');
    if (expr.trim()) record(expr);
    if (expr === panel.expr) run();
    else changePanel(panel.id, { expr, shape: { ...panel.shape, find: '', only: [] } });
  };
  const anew = async () => {
    const c = (controller.current = new AbortController());
    setStage('Evaluating all steps');
    await again(result!, s, c.signal, setResult);
    if (!replaced(c.signal)) setStage('');
  };
  const answer = result?.answer;
  const view = panel.mode === 'instant' && panel.view === 'chart' ? 'table' : panel.view;
  const drawable = answer?.data.resultType === 'matrix';
  const tab = (v: PanelState['view'], text: string) => (
    <button role="tab" aria-selected={view === v} tabIndex={view === v ? 0 : -1} onClick={() => changePanel(panel.id, { view: v })}>{text}</button>
  );

  return (
    <section class="panel" aria-label={`Panel ${index + 1}`}>
      <div class="ask">
        <Editor value={panel.expr} onRun={submit} handle={(h) => (handle.current = h)} label={`Expression of panel ${index + 1}`} />
        <div class="ask-side">
          <button class="quiet metrics-button" aria-expanded={exploring} title="Find a metric" onClick={() => explore(!exploring)}>Metrics</button>
          <button class="quiet" title="What would it cost?" onClick={async () => setCost(await costOf(asked(s, { ...panel, expr: handle.current?.text() ?? panel.expr })))}>Cost</button>
          {stage ? (
            <button onClick={() => controller.current?.abort(byUser)} class="cancel" title="Esc">Cancel</button>
          ) : (
            <button class="primary run" onClick={() => submit(handle.current?.text() ?? panel.expr)} title="Enter">Run</button>
          )}
          {!alone && (
            <button class="quiet" aria-label={`Remove panel ${index + 1}`} title="Remove this panel"
              onClick={() => { change({ panels: get().panels.filter((p) => p.id !== panel.id) }); document.getElementById('add')?.focus(); }}>×</button>
          )}
        </div>
      </div>
      {cost && <p class="hint" role="status">{cost}</p>}
      {exploring && <Explorer editor={() => handle.current} close={() => (explore(false), handle.current?.focus())} />}
      {(result || stage) && <div class={`progress ${stage ? 'on' : ''}`} role="progressbar" aria-label="Asking" aria-hidden={!stage} />}
      {(result || stage) && <div class="strip">
        <div class="tabs" role="tablist" onKeyDown={arrows}>
          {panel.mode === 'range' && tab('chart', 'Chart')}
          {tab('table', 'Table')}
          {tab('json', 'JSON')}
        </div>
        <div class="segments" role="radiogroup" aria-label="Kind of query" onKeyDown={arrows}>
          {(['range', 'instant'] as const).map((m) => (
            <button key={m} role="radio" aria-checked={panel.mode === m} tabIndex={panel.mode === m ? 0 : -1} onClick={() => changePanel(panel.id, { mode: m })}>{m === 'range' ? 'Range' : 'Instant'}</button>
          ))}
        </div>
        <Summary result={result} stage={stage} received={received} executor={s.executor} exact={s.exact} />
      </div>}
      {result && (
        <div class="answer"><div class={`body ${(result.error ?? result.cancelled) !== undefined && !result.plan ? 'alone' : ''}`}>
          <div class="main">
            {result.error !== undefined && <Problem error={result.error} retry={run} />}
            {result.cancelled !== undefined && <p class="empty">Cancelled after {milliseconds(result.cancelled)}. <button class="link" onClick={run}>Ask again</button></p>}
            {answer && <Notes warnings={answer.warnings} infos={answer.infos} />}
            {result.theirs && <Comparison ours={{ took: result.anew ?? answer!.took, plan: result.plan }} theirs={result.theirs} anew={stage ? undefined : anew} />}
            {answer && view === 'chart' && (drawable && seriesOf(answer.data).length > 0 ? (
              <Chart series={seriesOf(answer.data)} expr={panel.expr} start={result.asked.start} end={result.asked.end} step={result.asked.step}
                shape={panel.shape} onShape={(patch) => reshape(panel, patch)} onZoom={(a, b) => zoomIn(absolute(a * 1000, b * 1000))} onZoomOut={zoomBack} />
            ) : <Table data={answer.data} />)}
            {answer && view === 'table' && <Table data={answer.data} />}
            {answer && view === 'json' && <Raw body={answer.body} />}
          </div>
          {((result.error ?? result.cancelled) === undefined || result.plan) && <aside class="side" aria-label="Plan">
            <header>
              <h3>Plan</h3>
              {result.plan && <span class="hint">{result.anew ? 'of a run of all steps' : result.plan.analyzed ? 'of this run' : 'not run'}</span>}
              {!result.anew && result.plan && remembered(result.plan).kept > 0 && !stage && <button class="link" onClick={anew}>Evaluate all steps</button>}
            </header>
            {result.plan && <Plan e={result.plan} took={result.anew ?? answer?.took} />}
            {result.planError !== undefined && <Problem error={result.planError} />}
            {!result.plan && result.planError === undefined && <p class="hint">{stage ? 'Comes after the answer.' : 'The answer came without its plan.'}</p>}
          </aside>}
        </div></div>
      )}
    </section>
  );
}

/** Who evaluates, and how exactly. */
const chosen = (s: State): Fields => ({ executor: s.executor, ...(s.exact && { exact: s.exact }) });

/** Asks for the answer, for Prometheus's where they are compared, and for the plan. */
async function perform(a: Asked, s: State, signal: AbortSignal, show: (r: Result) => void, stage: (text: string) => void, received: (n: number) => void) {
  let result: Result = { asked: a };
  const begin = performance.now();
  const put = (patch: Partial<Result>) => {
    result = { ...result, ...patch };
    if (!signal.aborted) show(result);
  };
  try {
    stage('Evaluating');
    received(0);
    let answer: Queried;
    try {
      answer = await query(a.path, { ...a.fields, ...chosen(s), explain: 'true' }, signal, received);
    } catch (error) {
      if (aborted(error)) throw error;
      put({ error });
      await explain(result, s, signal, show);
      return;
    }
    put({ answer, plan: answer.explanation });
    if (s.compare) {
      stage('Evaluating on Prometheus’s engine');
      const sent = performance.now();
      try {
        const theirs = await query(a.path, { ...a.fields, executor: 'prometheus', explain: 'true' }, signal, received);
        put({ theirs: { took: theirs.took, plan: theirs.explanation, verdict: await compare(answer.body, theirs.body, signal) } });
      } catch (error) {
        if (aborted(error)) throw error;
        put({ theirs: { took: performance.now() - sent, error } });
      }
    }
  } catch (error) {
    if (!aborted(error)) throw error;
    if (!replaced(signal) && !result.answer && result.error === undefined) show({ ...result, cancelled: performance.now() - begin });
  } finally {
    if (!replaced(signal)) stage('');
  }
}

/** Asks for the plan of a query that failed. */
async function explain(r: Result, s: State, signal: AbortSignal, show: (r: Result) => void) {
  try {
    const e = await ask<Explanation>('/explain', { ...r.asked.fields, ...chosen(s) }, signal);
    if (!signal.aborted) show({ ...r, plan: e.data });
  } catch (error) {
    // An error that the query has, too, need not be shown twice.
    if (!aborted(error) && !(error instanceof Failure)) throw error;
  }
}

/** Asks again, for statistics, which only an evaluation of all steps has. */
async function again(r: Result, s: State, signal: AbortSignal, show: (r: Result) => void) {
  try {
    const all = await query(r.asked.path, { ...r.asked.fields, ...chosen(s), explain: 'true', stats: 'true' }, signal);
    if (!signal.aborted) show({ ...r, plan: all.explanation, anew: all.took });
  } catch (planError) {
    if (!aborted(planError) && !signal.aborted) show({ ...r, planError });
  }
}

function Summary({ result, stage, received, executor, exact }: { result: Result | null; stage: string; received: number; executor: string; exact: string }) {
  const [elapsed, setElapsed] = useState(0);
  useEffect(() => {
    if (!stage) return;
    const begin = performance.now();
    setElapsed(0);
    const timer = setInterval(() => setElapsed(performance.now() - begin), 100);
    return () => clearInterval(timer);
  }, [stage]);
  const answer = result?.answer;
  return (
    <p class="summary" role="status">
      {stage
        ? `${stage}… ${(elapsed / 1000).toFixed(1)} s${received ? `, ${bytes(received)}` : ''}`
        : answer && (
          <>
            <b class="took">{milliseconds(answer.took)}</b>
            <span>{many(seriesOf(answer.data).length, 'series', 'series')}</span>
            <span>{many(countOf(seriesOf(answer.data)), 'value', 'values')}</span>
            <span>{bytes(answer.bytes)}</span>
            {result.asked.path.endsWith('range') && <span>step {duration(result.asked.step)}</span>}
            {executor !== 'auto' && <span>{executor}</span>}
            {exact && <span>exact={exact}</span>}
          </>
        )}
    </p>
  );
}
