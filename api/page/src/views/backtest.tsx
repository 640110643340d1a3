// Alerting rules tried on the past: when alerts would have been pending and firing, and with another threshold.
import { useEffect, useRef, useState } from 'preact/hooks';
import { aborted, ask, Failure, type Fields } from '../lib/api';
import { change, run, runNumber, useStore } from '../lib/store';
import { resolve, wrong } from '../lib/range';
import { count, duration, many, milliseconds, moment } from '../lib/format';
import { Picker } from '../parts/picker';
import { Notes, Problem } from '../parts/answer';

interface Spell { state: 'pending' | 'firing'; start: number; end: number; open?: boolean; value: string }
interface Totals { fired: number; flapped: number; calmed: number; pending_seconds: number; firing_seconds: number; longest_firing_seconds: number }
interface Alert extends Totals { labels: Record<string, string>; spells: Spell[] }
interface Report extends Totals {
  group: string;
  alert: string;
  expr: string;
  threshold?: { op: string; value: string; compared: string };
  interval: number;
  for: number;
  keep_firing_for: number;
  start: number;
  end: number;
  failed_steps?: number;
  failure?: string;
  notes?: string[];
  error?: string;
  alerts: Alert[] | null;
}
interface Answer { rules: Report[] }

const path = '/api/v1/backtest';
const durations = [0, 30, 60, 120, 180, 300, 600, 900, 1800, 3600, 7200, 14_400, 28_800, 86_400];
/** The most alerts, and firings, of a rule that are shown. */
const mostShown = 50;
/** How long a slider rests before the server is asked, in ms. */
const rest = 60;
const example = 'groups:\n- name: load\n  interval: 1m\n  rules:\n  - alert: HighLoad\n    expr: node_load1 > 0.9\n    for: 10m';

export function Backtest() {
  const s = useStore();
  const [draft, setDraft] = useState(s.rules);
  const [state, setState] = useState<{ reports?: Report[]; fields?: Fields; error?: unknown; warnings?: string[] }>({});
  const [busy, setBusy] = useState(false);
  const [chosen, choose] = useState(0);
  const controller = useRef<AbortController | null>(null);
  const runs = runNumber();
  useEffect(() => setDraft(s.rules), [s.rules]);
  useEffect(() => {
    if (!s.rules) return;
    if (wrong(s)) return setState({ error: new Failure(wrong(s), 0, 'range') });
    const c = (controller.current = new AbortController());
    const { start, end } = resolve(s);
    const fields = { rules: s.rules, start: String(start / 1000), end: String(end / 1000), executor: s.executor }; // all requests are for the same times
    setBusy(true);
    ask<Answer>(path, fields, c.signal)
      .then((a) => setState({ reports: a.data.rules, fields, warnings: a.warnings }), (error) => aborted(error) || setState({ error }))
      .finally(() => !c.signal.aborted && setBusy(false));
    return () => c.abort();
  }, [s.rules, s.from, s.to, s.executor, runs]);
  const submit = () => (draft === s.rules ? run() : change({ rules: draft }));
  const { reports = [], fields, error } = state;
  const report = reports[Math.min(chosen, reports.length - 1)];
  return (
    <>
      <div class="toolbar"><Picker /></div>
      <section class="panel sheet">
        <label class="field">Rules, as in a rule file of Prometheus
          <textarea name="rules" rows={9} spellcheck={false} placeholder={example} value={draft} onInput={(e) => setDraft(e.currentTarget.value)} onKeyDown={(e) => e.key === 'Enter' && (e.ctrlKey || e.metaKey) && submit()} />
        </label>
        <div>{busy ? <button class="cancel" onClick={() => { controller.current?.abort(); setBusy(false); }}>Cancel</button> : <button class="primary run" disabled={!draft.trim()} onClick={submit}>Try</button>}</div>
        <div class={`progress ${busy ? 'on' : ''}`} role="progressbar" aria-label="Trying" aria-hidden={!busy} />
        {error !== undefined && <Problem error={error} retry={run} />}
        <Notes warnings={state.warnings ?? []} infos={[]} />
        {reports.length > 1 && (
          <fieldset class="chips"><legend>Alerts</legend>
            {reports.map((r, i) => <button key={i} aria-pressed={r === report} onClick={() => choose(i)}>{r.alert}: {r.error ? 'failed' : count(r.fired)}</button>)}
          </fieldset>
        )}
        {!report && error === undefined && <p class="empty">Write alerting rules: what they would have done in the time above is shown, and moved by sliders.</p>}
        {report && fields && <Tried key={JSON.stringify([fields, report.group, report.alert])} first={report} fields={fields} />}
      </section>
    </>
  );
}

/** One rule, and what moves it. */
function Tried({ first, fields }: { first: Report; fields: Fields }) {
  const own = { threshold: first.threshold?.value, for: String(first.for), keep_firing_for: String(first.keep_firing_for) };
  const [moved, setMoved] = useState(own);
  const [state, setState] = useState<{ report: Report; took?: number; error?: unknown }>({ report: first });
  const set = (patch: Partial<typeof own>) => setMoved({ ...moved, ...patch });
  useEffect(() => {
    if (first.error) return;
    const c = new AbortController();
    const timer = setTimeout(() => {
      ask<Answer>(path, { ...fields, alert: first.alert, rule_group: first.group, what_if: 'true', ...moved }, c.signal)
        .then((a) => setState({ report: a.data.rules[0]!, took: a.took }), (error) => aborted(error) || setState({ ...state, error }));
    }, rest);
    return () => {
      clearTimeout(timer);
      c.abort();
    };
  }, [moved]);
  const r = state.report;
  const alerts = r.alerts ?? [];
  if (r.error) return <Problem error={new Failure(r.error, 422, 'execution')} />;
  const t = Number(own.threshold);
  const reach = Math.abs(t) || 1;
  const slider = (name: 'for' | 'keep_firing_for') => {
    const all = [...new Set([...durations, Number(own[name])])].sort((a, b) => a - b);
    return (
      <label class="field">{name}: {Number(moved[name]) ? duration(Number(moved[name])) : 'none'}
        <input type="range" name={name} min={0} max={all.length - 1} value={all.indexOf(Number(moved[name]))} aria-valuetext={duration(Number(moved[name]))} onInput={(e) => set({ [name]: String(all[Number(e.currentTarget.value)]) })} />
      </label>
    );
  };
  const fact = (name: string, value: string, note: string) => <div><dt>{name}</dt><dd><b>{value}</b><span>{note}</span></dd></div>;
  const firings = alerts.flatMap((a) => a.spells.filter((x) => x.state === 'firing').map((x) => ({ ...x, labels: a.labels }))).sort((a, b) => a.start - b.start);
  return (
    <>
      <h3>{r.alert} of {r.group}, every {duration(r.interval)}: <code>{r.expr}</code></h3>
      <div class="fields">
        {r.threshold && own.threshold !== undefined && Number.isFinite(t) && (
          <label class="field">threshold: {r.threshold.op} {moved.threshold}
            <input type="range" name="threshold" min={t - reach} max={t + reach} step={reach / 100} value={moved.threshold} onInput={(e) => set({ threshold: String(Number(Number(e.currentTarget.value).toPrecision(6))) })} />
          </label>
        )}
        {slider('for')}
        {slider('keep_firing_for')}
        <div class="field">{state.took === undefined ? 'asking' : `answered in ${milliseconds(state.took)}`}<button onClick={() => setMoved(own)}>As in the file</button></div>
      </div>
      {state.error !== undefined && <Problem error={state.error} />}
      <Notes warnings={[...(r.failed_steps ? [`${many(r.failed_steps, 'evaluation fails', 'evaluations fail')}: ${r.failure}`] : []), ...(r.notes ?? [])]} infos={[]} />
      <dl class="figures">
        {fact('Fired', count(r.fired), `${count(r.flapped)} within an hour of the last end`)}
        {fact('Firing', duration(r.firing_seconds), `the longest ${duration(r.longest_firing_seconds)}`)}
        {fact('Pending', duration(r.pending_seconds), `calmed down ${count(r.calmed)} times`)}
      </dl>
      {alerts.length > 0 && (
        <div class="scroll">
          <table class="data tiles">
            <thead><tr><th>Alert</th><th class="strip-head"><span>{moment(r.start * 1000).slice(5, 16)}</span><span>{moment(r.end * 1000).slice(5, 16)}</span></th><th class="num">fired</th><th class="num">firing</th></tr></thead>
            <tbody>
              {alerts.slice(0, mostShown).map((a) => (
                <tr key={nameOf(a.labels)}><td class="expr" title={nameOf(a.labels)}>{nameOf(a.labels)}</td><td><Strip alert={a} from={r.start} to={r.end} /></td><td class="num">{count(a.fired)}</td><td class="num">{duration(a.firing_seconds)}</td></tr>
              ))}
            </tbody>
          </table>
          <p class="hint keys-line"><span><i class="key firing" /> firing</span> <span><i class="key pending" /> pending</span> {alerts.length > mostShown && <span>{count(alerts.length - mostShown)} more alerts</span>}</p>
        </div>
      )}
      {firings.length > 0 && (
        <details><summary>{many(firings.length, 'firing', 'firings')}</summary>
          <div class="scroll"><table class="data">
            <thead><tr><th>from</th><th class="num">for</th><th class="num">value</th><th>alert</th></tr></thead>
            <tbody>{firings.slice(0, mostShown).map((x, i) => <tr key={i}><td>{moment(x.start * 1000)}</td><td class="num">{duration(x.end - x.start)}{x.open && ' and on'}</td><td class="num">{x.value}</td><td class="expr">{nameOf(x.labels)}</td></tr>)}</tbody>
          </table></div>
        </details>
      )}
    </>
  );
}

const nameOf = ({ alertname, ...rest }: Record<string, string>) => Object.entries(rest).map(([k, v]) => `${k}="${v}"`).join(', ') || alertname!;

/** When an alert was pending and firing, over the whole time. Each state is one path, so that thousands of spells are drawn at once. */
function Strip({ alert, from, to }: { alert: Alert; from: number; to: number }) {
  const at = (t: number) => (1000 * (t - from)) / Math.max(to - from, 1);
  const draw = (state: string) => alert.spells.filter((x) => x.state === state).map((x) => `M${at(x.start).toFixed(1)} 0h${Math.max(at(x.end) - at(x.start), 1).toFixed(1)}v1H${at(x.start).toFixed(1)}z`).join('');
  return (
    <svg class="spells" viewBox="0 0 1000 1" preserveAspectRatio="none" role="img" aria-label={`fired ${alert.fired} times`}>
      <path class="pending" d={draw('pending')} /><path class="firing" d={draw('firing')} />
    </svg>
  );
}
