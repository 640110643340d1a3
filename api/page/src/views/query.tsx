// PromQL: panels that share a time range.
import { useState } from 'preact/hooks';
import { change, changePanel, get, newPanel, recall, useStore } from '../lib/store';
import { Controls, Picker } from '../parts/picker';
import { Panel } from '../parts/panel';

export function Query() {
  const s = useStore();
  const [past, setPast] = useState(false);
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
        <Controls step compare executors={['auto', 'cpu', 'gpu', 'prometheus']} />
      </div>
      {s.panels.map((p, i) => <Panel key={p.id} panel={p} index={i} alone={s.panels.length === 1} />)}
      <div class="below">
        <button onClick={() => change({ panels: [...s.panels, newPanel()] })}>Add panel</button>
        {!fresh && <button aria-expanded={past} onClick={() => setPast(!past)}>History</button>}
      </div>
      {(past || fresh) && <Past use={use} />}
    </>
  );
}

function Past({ use }: { use: (expr: string) => void }) {
  const saved = recall<string[]>('saved', []);
  const recent = recall<string[]>('past', []).filter((e) => !saved.includes(e));
  const list = (title: string, all: string[]) => all.length > 0 && (
    <>
      <h3>{title}</h3>
      <ul>{all.map((e) => <li key={e}><button class="expr" onClick={() => use(e)}><code>{e}</code></button></li>)}</ul>
    </>
  );
  return (
    <div class="past">
      {list('Saved', saved)}
      {list('Recent', recent)}
      {!saved.length && !recent.length && <p class="empty">Write an expression and press Enter. Queries that you have run are listed here, in this browser alone.</p>}
    </div>
  );
}
