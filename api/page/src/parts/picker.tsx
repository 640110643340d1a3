// The time range: presets, a calendar, texts, and the buttons that move it.
import { useEffect, useRef, useState } from 'preact/hooks';
import { change, isZoomed, run, useStore, zoomBack } from '../lib/store';
import { absolute, presets, resolve, scale, shift, title, wrong } from '../lib/range';
import { calendar, dayAt, duration, moment, zone } from '../lib/format';

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
    document.getElementById('range')!.focus();
  };
  const move = (share: number) => change(shift(s, share));
  return (
    <div class="picker" ref={box}>
      <div class="joined">
        <button onClick={() => move(-0.5)} title="Earlier by half ( [ )" aria-label="Earlier">‹</button>
        <button class="range-title" id="range" aria-haspopup="dialog" aria-expanded={open} onClick={() => setOpen(!open)} title="Time range ( t )">{title(s)}{s.utc && ' UTC'}</button>
        <button onClick={() => move(0.5)} title="Later by half ( ] )" aria-label="Later">›</button>
        <button onClick={() => change(scale(s, 2))} title="Zoom out ( - )" aria-label="Zoom out">−</button>
        {isZoomed() && <button onClick={zoomBack} title="Back from the zoom ( z, or a double click in a chart )">Zoom back</button>}
      </div>
      {open && <Dialog key={String(s.utc)} from={s.from} to={s.to} use={use} />}
    </div>
  );
}

function Dialog(props: { from: string; to: string; use: (from: string, to: string) => void }) {
  const ends = resolve(props);
  const text = (given: string, ms: number) => (given.startsWith('now') || Number.isNaN(ms) ? given : moment(ms));
  const [from, setFrom] = useState(text(props.from, ends.start));
  const [to, setTo] = useState(text(props.to, ends.end));
  const problem = wrong({ from, to });
  const box = useRef<HTMLDivElement>(null);
  useEffect(() => (box.current!.querySelector<HTMLElement>('.chosen') ?? box.current!.querySelector('input'))!.focus(), []);
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
    <div class="popover range-dialog" role="dialog" aria-label="Time range" ref={box}>
      <div class="presets">
        {presets.map((p) => (
          <button key={p} class={props.to === 'now' && props.from === `now-${p}` ? 'chosen' : ''} onClick={() => props.use(`now-${p}`, 'now')}>Last {p}</button>
        ))}
      </div>
      <form onSubmit={apply}>
        <Calendar from={from} to={to} pick={pick} />
        <label>From<input value={from} onInput={(e) => setFrom(e.currentTarget.value)} autocomplete="off" spellcheck={false} /></label>
        <label>To<input value={to} onInput={(e) => setTo(e.currentTarget.value)} autocomplete="off" spellcheck={false} /></label>
        {problem ? <p class="problem" role="alert">{problem}</p> : <p class="hint">Times are in {zone.name()}. <code>now-6h</code> works too.</p>}
        <label class="switch"><input type="checkbox" checked={zone.utc} onChange={(e) => change({ utc: e.currentTarget.checked })} /><span>UTC</span></label>
        <button class="primary" disabled={!!problem}>Apply</button>
      </form>
    </div>
  );
}

/** A month: the first click is the first day, the second the last. */
function Calendar(props: { from: string; to: string; pick: (from: string, to: string) => void }) {
  const ends = resolve(props);
  const [month, setMonth] = useState(() => {
    const [year, month] = calendar(Number.isNaN(ends.end) ? Date.now() : ends.end);
    return [year, month] as const;
  });
  const [first, setFirst] = useState<number | null>(null);
  const [y, m] = month;
  const turn = (by: number) => setMonth([y + Math.floor((m + by) / 12), (m + by + 12) % 12]);
  const lead = (new Date(y, m, 1).getDay() + 6) % 7; // weeks begin on Monday
  const days = new Date(y, m + 1, 0).getDate();
  const choose = (day: number) => {
    const at = dayAt(y, m, day);
    const [a, b] = first === null ? [at, at] : [Math.min(first, at), Math.max(first, at)];
    setFirst(first === null ? at : null);
    const [year, month, last] = calendar(b);
    const end = dayAt(year, month, last + 1);
    props.pick(moment(a).slice(0, 10), end > Date.now() ? 'now' : moment(end));
  };
  return (
    <div class="calendar">
      <div class="month">
        <button type="button" aria-label="Month before" onClick={() => turn(-1)}>‹</button>
        <strong aria-live="polite">{new Date(y, m, 1).toLocaleDateString('en', { month: 'long', year: 'numeric' })}</strong>
        <button type="button" aria-label="Month after" onClick={() => turn(1)}>›</button>
      </div>
      <div class="days">
        {['Mo', 'Tu', 'We', 'Th', 'Fr', 'Sa', 'Su'].map((d) => <span key={d}>{d}</span>)}
        {Array.from({ length: lead }, (_, i) => <span key={`lead${i}`} />)}
        {Array.from({ length: days }, (_, i) => {
          const start = dayAt(y, m, i + 1);
          const inside = start < ends.end && dayAt(y, m, i + 2) > ends.start;
          return (
            <button type="button" key={i} class={inside ? 'inside' : ''} disabled={start > Date.now()} onClick={() => choose(i + 1)}
              aria-label={new Date(y, m, i + 1).toLocaleDateString('en', { dateStyle: 'long' })} aria-pressed={inside}>{i + 1}</button>
          );
        })}
      </div>
    </div>
  );
}

/** Step, executor, comparison, and the button that asks everything again. */
export function Controls(props: { step?: boolean; compare?: boolean; again?: boolean; executors: string[] }) {
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
      <span class="joined">
        <button onClick={run} title="Ask everything again ( r )">Refresh</button>
        {props.again && (
          <select aria-label="Refresh by itself" title="Refresh by itself, while this page is visible" value={String(s.every)} onChange={(e) => change({ every: Number(e.currentTarget.value) })}>
            {[...new Set([0, 5, 15, 30, 60, 300, s.every])].map((n) => <option key={n} value={String(n)}>{n ? `every ${duration(n)}` : 'by hand'}</option>)}
          </select>
        )}
      </span>
    </>
  );
}
