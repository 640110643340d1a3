// Finding a metric: a search over names and help, the labels of one with their values, and clicks that
// put them into the query.
import { useEffect, useMemo, useRef, useState } from 'preact/hooks';
import { aborted } from '../lib/api';
import { change, get } from '../lib/store';
import { labelsOf, metricsOf, search, selectorOf, withMatcher, type Metric, type Values } from '../lib/metrics';
import { resolve } from '../lib/range';
import { count, many } from '../lib/format';
import { Problem } from './answer';
import type { Handle } from './editor';

const page = 100;
const types = ['counter', 'gauge', 'histogram', 'summary', 'unknown'];

/** Moves through the buttons of a list by the arrow keys; up from the first leads to where it came from. */
function walk(e: KeyboardEvent, back?: HTMLElement | null) {
  const all = [...(e.currentTarget as HTMLElement).querySelectorAll<HTMLElement>('li > button')];
  const at = all.indexOf(e.target as HTMLElement);
  const by = { ArrowDown: 1, ArrowUp: -1 }[e.key];
  if (!by || at < 0) return;
  e.preventDefault();
  (all[at + by] ?? (by < 0 ? back : null))?.focus();
}

export function Explorer({ editor, close }: { editor: () => Handle | null; close: () => void }) {
  const range = useMemo(() => resolve(get()), []);
  const [all, setAll] = useState<Metric[] | null>(null);
  const [error, setError] = useState<unknown>(undefined);
  const [text, setText] = useState('');
  const [type, setType] = useState('');
  const [shown, setShown] = useState(page);
  const [chosen, choose] = useState<Metric | null>(null);
  const [said, say] = useState('');
  const box = useRef<HTMLElement>(null);
  const input = useRef<HTMLInputElement>(null);
  useEffect(() => {
    const c = new AbortController();
    metricsOf(range, c.signal).then(setAll, (e) => !aborted(e) && setError(e));
    input.current?.focus();
    return () => c.abort();
  }, []);
  const found = useMemo(() => (all ? search(all, text, type) : []), [all, text, type]);
  const stop = found.find((m) => m.name === chosen?.name) ?? found[0]; // of the Tab key; arrows lead to the others
  const put = (what: string, expr: string) => {
    editor()?.set(expr);
    say(`${what} is in the query.`);
  };
  const insert = (what: string) => {
    editor()?.insert(what);
    say(`${what} is in the query.`);
  };
  const add = (label: string, op: string, value: string) => {
    const query = editor()?.text() ?? '';
    const matcher = `${label}${op}${JSON.stringify(value)}`;
    const next = withMatcher(query, chosen!.name, label, op, value);
    if (next !== null) put(matcher, next);
    else insert(selectorOf(chosen!.name, matcher));
  };
  const keys = (e: KeyboardEvent) => {
    if (e.key !== 'Escape') return;
    e.stopPropagation();
    close();
  };
  return (
    <section class="explorer" aria-label="Metrics" ref={box} onKeyDown={keys}>
      <div class="find">
        <input type="search" ref={input} aria-label="Search names and help" placeholder="Search names and help" value={text} autocomplete="off" spellcheck={false}
          onInput={(e) => (setText(e.currentTarget.value), setShown(page))}
          onKeyDown={(e) => e.key === 'ArrowDown' && (e.preventDefault(), box.current!.querySelector<HTMLElement>('.metrics button')?.focus())} />
        <select aria-label="Type" value={type} onChange={(e) => setType(e.currentTarget.value)}>
          <option value="">All types</option>
          {types.map((t) => <option key={t} value={t}>{t}</option>)}
        </select>
        <span class="hint" role="status">{said || (all ? `${count(found.length)} of ${many(all.length, 'metric', 'metrics')}` : error === undefined ? 'Asking…' : '')}</span>
        <button class="quiet" aria-label="Close metrics" title="Close (Esc)" onClick={close}>×</button>
      </div>
      {error !== undefined && <Problem error={error} />}
      <div class="found">
        <ul class="metrics" aria-label="Metrics found" onKeyDown={(e) => walk(e, input.current)}>
          {found.slice(0, shown).map((m) => (
            <li key={m.name}>
              <button aria-pressed={chosen?.name === m.name} tabIndex={m === stop ? 0 : -1} onClick={() => choose(m)}>
                <code>{m.name}</code> <span class="type">{m.type}</span>
                {m.help && <span class="help">{m.help}</span>}
              </button>
            </li>
          ))}
          {found.length > shown && <li><button class="link" onClick={() => setShown(shown + page)}>{count(found.length - shown)} more</button></li>}
          {all && !found.length && <li class="hint">No metric has that in its name or help.</li>}
        </ul>
        {chosen ? <Details key={chosen.name} m={chosen} range={range} insert={insert} add={add} /> : <p class="hint pick">Choose a metric to see its labels.</p>}
      </div>
    </section>
  );
}

function Details({ m, range, insert, add }: { m: Metric; range: { start: number; end: number }; insert: (text: string) => void; add: (label: string, op: string, value: string) => void }) {
  const [labels, setLabels] = useState<Map<string, Values | null> | null>(null);
  const [error, setError] = useState<unknown>(undefined);
  const [open, setOpen] = useState('');
  const [op, setOp] = useState('=');
  useEffect(() => {
    const c = new AbortController();
    const tell = (label: string, values: Values | null) => setLabels((all) => new Map(all ?? []).set(label, values));
    labelsOf(m.name, range, c.signal, tell).then(() => setLabels((all) => all ?? new Map()), (e) => !aborted(e) && setError(e));
    return () => c.abort();
  }, []);
  const name = selectorOf(m.name);
  return (
    <section class="details" aria-label={m.name}>
      <h4>{m.name}</h4>
      <p class="hint">{m.type}{m.unit && `, in ${m.unit}`}{m.help && ` · ${m.help}`}</p>
      <p class="use">
        <button onClick={() => insert(name)}>Insert name</button>
        {m.type === 'counter' && <button onClick={() => insert(`rate(${name}[5m])`)}>Insert rate</button>}
        <a href={`#/cache?find=${encodeURIComponent(m.name)}`} onClick={(e) => (e.preventDefault(), change({ page: 'cache', find: m.name }))}>What is kept of it</a>
      </p>
      {error !== undefined && <Problem error={error} />}
      {labels && labels.size === 0 && <p class="hint">It has no labels.</p>}
      {labels && labels.size > 0 && (
        <>
          <p class="hint">A value that you click becomes a matcher: <select aria-label="Matcher" value={op} onChange={(e) => setOp(e.currentTarget.value)}><option value="=">= is</option><option value="!=">!= is not</option></select></p>
          <ul class="labels">
            {[...labels].map(([label, v]) => (
              <li key={label}>
                <button aria-expanded={open === label} disabled={!v} onClick={() => setOpen(open === label ? '' : label)}>
                  <code>{label}</code> <span class="hint">{v ? `${v.more ? 'over ' : ''}${many(v.values.length, 'value', 'values')}` : '…'}</span>
                </button>
                {open === label && v && <ValueList label={label} v={v} op={op} add={add} />}
              </li>
            ))}
          </ul>
        </>
      )}
    </section>
  );
}

function ValueList({ label, v, op, add }: { label: string; v: Values; op: string; add: (label: string, op: string, value: string) => void }) {
  const [text, setText] = useState('');
  const found = v.values.filter((value) => value.toLowerCase().includes(text.toLowerCase()));
  return (
    <div class="values">
      {v.values.length > 20 && <input type="search" aria-label={`Search values of ${label}`} placeholder="Search" value={text} onInput={(e) => setText(e.currentTarget.value)} />}
      {found.slice(0, page).map((value) => <button key={value} aria-label={`${label}${op}${value}`} onClick={() => add(label, op, value)}>{value || '“”'}</button>)}
      {found.length > page && <span class="hint">{count(found.length - page)} more: search for them.</span>}
    </div>
  );
}
