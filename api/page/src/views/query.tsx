// PromQL: panels that share a time range.
import { useEffect, useRef, useState } from 'preact/hooks';
import { change, changePanel, examples, get, newPanel, recall, remember, useAgain, useStore } from '../lib/store';
import { Controls, Picker } from '../parts/picker';
import { Panel } from '../parts/panel';
import { arrows } from '../parts/arrows';

export function Query() {
  const s = useStore();
  const [past, setPast] = useState(false);
  const panels = useRef<HTMLDivElement>(null);
  const [added, setAdded] = useState(0);
  useAgain(s.every);
  useEffect(() => void (added && panels.current!.querySelector<HTMLElement>('.panel:last-child .editor')?.shadowRoot?.querySelector<HTMLElement>('.cm-content')?.focus()), [added]);
  const add = () => (change({ panels: [...get().panels, newPanel()] }), setAdded(added + 1));
  const fresh = s.panels.every((p) => !p.expr);
  const use = (expr: string) => {
    const empty = get().panels.find((p) => !p.expr);
    if (empty) changePanel(empty.id, { expr });
    else change({ panels: [...get().panels, newPanel(expr)] });
    setPast(false);
  };
  return (
    <>
      <div class="toolbar">
        <Picker />
        <Controls step compare again executors={['auto', 'cpu', 'gpu', 'prometheus']} />
      </div>
      <div class={`panels ${s.columns > 1 ? 'in-columns' : !s.columns && s.panels.length > 1 ? 'by-width' : ''}`} style={{ '--columns': String(Math.min(s.columns, s.panels.length)) }} ref={panels}>
        {s.panels.map((p, i) => <Panel key={p.id} panel={p} index={i} alone={s.panels.length === 1} />)}
      </div>
      <div class="below">
        <button id="add" onClick={add}>Add panel</button>
        {s.panels.length > 1 && (
          <div class="segments layout" role="radiogroup" aria-label="Panels beside each other" onKeyDown={arrows}>
            {[0, 1, 2, 3].map((n) => <button key={n} role="radio" aria-checked={s.columns === n} tabIndex={s.columns === n ? 0 : -1} onClick={() => change({ columns: n })}>{n ? String(n) : 'Columns by width'}</button>)}
          </div>
        )}
        {!fresh && <button aria-expanded={past} onClick={() => setPast(!past)}>History</button>}
      </div>
      {(past || fresh) && <Past use={use} />}
    </>
  );
}

function Past({ use }: { use: (expr: string) => void }) {
  const [saved, setSaved] = useState(recall<string[]>('saved', []));
  const save = (all: string[]) => {
    remember('saved', all);
    setSaved(all);
  };
  const offered = examples();
  const recent = recall<string[]>('past', []).filter((e) => !saved.includes(e) && !offered.includes(e));
  const list = (title: string, all: string[], verb?: string, act?: (e: string) => void) => all.length > 0 && (
    <section class="panel sheet">
      <h3>{title}</h3>
      <ul>
        {all.map((e) => (
          <li key={e}>
            <button class="expr" onClick={() => use(e)}><code>{e}</code></button>
            {verb && <button class="link" aria-label={`${verb} ${e}`} onClick={() => act!(e)}>{verb}</button>}
          </li>
        ))}
      </ul>
    </section>
  );
  return (
    <div class="past">
      {list('Saved', saved, 'Forget', (e) => save(saved.filter((x) => x !== e)))}
      {list('Examples', offered)}
      {list('Recent', recent, 'Save', (e) => save([...saved, e]))}
      {!saved.length && !recent.length && !offered.length && <p class="empty">Write an expression and press Enter, or find a metric with <kbd>m</kbd>. Queries that you have run are listed here, in this browser alone.</p>}
    </div>
  );
}
