// The time range: presets, a calendar, texts, and the buttons that move it.
import { useEffect, useRef, useState } from 'preact/hooks';
import { change, run, useStore } from '../lib/store';
import { absolute, presets, resolve, scale, shift, title, wrong } from '../lib/range';
import { moment } from '../lib/format';

export function Picker() {
  const s = useStore();
  const [open, setOpen] = useState(false);
  const box = useRef<HTMLDivElement>(null);
  useEffect(() => {
    if (!open) return;
    const outside = (e: Event) => !box.current!.contains(e.target as Node) && setOpen(false);
    const escape = (e: KeyboardEvent) => e.key === 'Escape' && (setOpen(false), box.current!.querySelector<HTMLElement>('.range-title')!.focus());
    document.addEventListener('pointerdown', outside);
    document.addEventListener('keydown', escape);
    return () => {
      document.removeEventListener('pointerdown', outside);
      document.removeEventListener('keydown', escape);
    };
  }, [open]);
  const use = (from: string, to: string) => {
    change({ from, to });
    setOpen(false);
  };
  const move = (share: number) => change(shift(s, share));
  return (
    <div class="picker" ref={box}>
      <div class="joined">
        <button onClick={() => move(-0.5)} title="Earlier by half ( [ )" aria-label="Earlier">‹</button>
        <button class="range-title" id="range" aria-haspopup="dialog" aria-expanded={open} onClick={() => setOpen(!open)} title="Time range ( t )">{title(s)}</button>
        <button onClick={() => move(0.5)} title="Later by half ( ] )" aria-label="Later">›</button>
        <button onClick={() => change(scale(s, 2))} title="Zoom out ( - )" aria-label="Zoom out">−</button>
      </div>
      {open && <Dialog from={s.from} to={s.to} use={use} />}
    </div>
  );
}

function Dialog(props: { from: string; to: string; use: (from: string, to: string) => void }) {
  const ends = resolve(props);
  const text = (given: string, ms: number) => (given.startsWith('now') ? given : moment(ms));
  const [from, setFrom] = useState(text(props.from, ends.start));
  const [to, setTo] = useState(text(props.to, ends.end));
  const problem = wrong({ from, to });
  const apply = (e: Event) => {
    e.preventDefault();
    if (problem) return;
    const r = resolve({ from, to });
    const a = absolute(r.start, r.end);
    props.use(from.trim().startsWith('now') ? from.trim() : a.from, to.trim().startsWith('now') ? to.trim() : a.to);
  };
  const pick = (a: string, b: string) => {
    setFrom(`${a} 00:00`);
    setTo(b);
  };
  return (
    <div class="popover range-dialog" role="dialog" aria-label="Time range">
      <div class="presets">
        {presets.map((p) => (
          <button key={p} class={props.to === 'now' && props.from === `now-${p}` ? 'chosen' : ''} onClick={() => props.use(`now-${p}`, 'now')}>Last {p}</button>
        ))}
      </div>
      <form onSubmit={apply}>
        <Calendar from={from} to={to} pick={pick} />
        <label>From<input value={from} onInput={(e) => setFrom(e.currentTarget.value)} autocomplete="off" spellcheck={false} /></label>
        <label>To<input value={to} onInput={(e) => setTo(e.currentTarget.value)} autocomplete="off" spellcheck={false} /></label>
        {problem ? <p class="problem" role="alert">{problem}</p> : <p class="hint">Local time ({Intl.DateTimeFormat().resolvedOptions().timeZone}). <code>now-6h</code> works too.</p>}
        <button class="primary" disabled={!!problem}>Apply</button>
      </form>
    </div>
  );
}

/** A month: the first click is the first day, the second the last. */
function Calendar(props: { from: string; to: string; pick: (from: string, to: string) => void }) {
  const ends = resolve(props);
  const [month, setMonth] = useState(() => {
    const d = new Date(Number.isNaN(ends.end) ? Date.now() : ends.end);
    return new Date(d.getFullYear(), d.getMonth(), 1);
  });
  const [first, setFirst] = useState<number | null>(null);
  const y = month.getFullYear();
  const m = month.getMonth();
  const lead = (month.getDay() + 6) % 7; // weeks begin on Monday
  const days = new Date(y, m + 1, 0).getDate();
  const choose = (day: number) => {
    const at = new Date(y, m, day).getTime();
    const [a, b] = first === null ? [at, at] : [Math.min(first, at), Math.max(first, at)];
    setFirst(first === null ? at : null);
    const last = new Date(b);
    const end = new Date(last.getFullYear(), last.getMonth(), last.getDate() + 1).getTime();
    props.pick(moment(a).slice(0, 10), end > Date.now() ? 'now' : moment(end));
  };
  return (
    <div class="calendar">
      <div class="month">
        <button type="button" aria-label="Month before" onClick={() => setMonth(new Date(y, m - 1, 1))}>‹</button>
        <strong aria-live="polite">{month.toLocaleDateString('en', { month: 'long', year: 'numeric' })}</strong>
        <button type="button" aria-label="Month after" onClick={() => setMonth(new Date(y, m + 1, 1))}>›</button>
      </div>
      <div class="days">
        {['Mo', 'Tu', 'We', 'Th', 'Fr', 'Sa', 'Su'].map((d) => <span key={d}>{d}</span>)}
        {Array.from({ length: lead }, (_, i) => <span key={`lead${i}`} />)}
        {Array.from({ length: days }, (_, i) => {
          const start = new Date(y, m, i + 1).getTime();
          const inside = start < ends.end && new Date(y, m, i + 2).getTime() > ends.start;
          return (
            <button type="button" key={i} class={inside ? 'inside' : ''} disabled={start > Date.now()} onClick={() => choose(i + 1)}
              aria-label={new Date(start).toLocaleDateString('en', { dateStyle: 'long' })} aria-pressed={inside}>{i + 1}</button>
          );
        })}
      </div>
    </div>
  );
}

/** Step, executor, comparison, and the button that asks everything again. */
export function Controls(props: { step?: boolean; compare?: boolean; executors: string[] }) {
  const s = useStore();
  return (
    <>
      {props.step && (
        <label class="inline">Step
          <input class="step" value={s.step} placeholder="auto" aria-label="Step" spellcheck={false} autocomplete="off" onChange={(e) => change({ step: e.currentTarget.value.trim() })} />
        </label>
      )}
      <label class="inline">Executor
        <select value={s.executor} onChange={(e) => change({ executor: e.currentTarget.value })} aria-label="Executor">
          {props.executors.map((x) => <option key={x} value={x}>{x}</option>)}
        </select>
      </label>
      {props.compare && (
        <label class="switch" title="Ask Prometheus's own engine the same, and compare to the bit">
          <input type="checkbox" checked={s.compare} onChange={(e) => change({ compare: e.currentTarget.checked })} />
          <span>Compare</span>
        </label>
      )}
      {props.compare && (
        <label class="switch" title="Prometheus's very bits, also of functions that may differ by 1e-12: exact=bits">
          <input type="checkbox" checked={s.exact === 'bits'} onChange={(e) => change({ exact: e.currentTarget.checked ? 'bits' : '' })} />
          <span>Bits</span>
        </label>
      )}
      <button onClick={run} title="Ask everything again ( r )">Refresh</button>
    </>
  );
}
