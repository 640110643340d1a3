// A chart's legend: its series with their values, to search, to sort, and to choose from. Only the rows in sight are made.
import { useRef, useState } from 'preact/hooks';
import { digestOf, ordered, type Rank, type Shape } from '../lib/shape';
import { count, many, rem } from '../lib/format';
import type { Series } from '../lib/values';

const columns = ['min', 'mean', 'max', 'last'] as const satisfies Rank[];
const few = 8; // rows that need no filter
const most = 28; // rows in sight
const more = 6; // rows that are made on either side of those

export function Legend({ drawn, of, matching, chosen, colour, write, shape, onShape, onPoint }: {
  drawn: Series[]; of: number; matching: number; chosen: Set<Series>; colour: (s: Series) => string; write: (v: number) => string;
  shape: Shape; onShape: (patch: Partial<Shape>) => void; onPoint: (s: Series | null) => void;
}) {
  const [top, setTop] = useState(0);
  const box = useRef<HTMLDivElement>(null);
  const height = 2.6 * rem(); // of a row
  const rows = ordered(drawn, shape.sort);
  const first = Math.max(0, Math.min(Math.floor(top / height), rows.length - most) - more);
  const visible = rows.slice(first, first + most + 2 * more);
  const toggle = (s: Series, besides: boolean) => {
    const d = digestOf(s.name);
    const rest = shape.only.filter((x) => x !== d);
    const add = rest.length < shape.only.length && (besides || !rest.length) ? [] : [d];
    onShape({ only: besides ? [...rest, ...add] : add });
  };
  const head = (by: string, text: string) => {
    const [down, up] = [shape.sort === `-${by}`, shape.sort === by];
    const next = by === 'name' ? (up ? '-name' : down ? '' : 'name') : down ? by : up ? '' : `-${by}`;
    return (
      <th class={by === 'name' ? '' : `num ${by}`} aria-sort={down ? 'descending' : up ? 'ascending' : 'none'}>
        <button class="link" onClick={() => onShape({ sort: next })}>{text}{down ? ' ↓' : up ? ' ↑' : ''}</button>
      </th>
    );
  };
  const arrow = (e: KeyboardEvent) => {
    const by = { ArrowDown: 1, ArrowUp: -1 }[e.key];
    const at = Number((e.target as HTMLElement).closest('tr')?.ariaRowIndex ?? 0) + (by ?? 0);
    if (!by || at < 1 || !(e.target as HTMLElement).matches('button.series')) return;
    e.preventDefault();
    box.current!.querySelector<HTMLElement>(`tr[aria-rowindex="${at}"] button`)?.focus();
  };
  return (
    <div class="legend">
      {(of > few || shape.find || shape.only.length > 0) && <div class="legend-bar">
        {(of > few || shape.find) && <input type="search" value={shape.find} placeholder={`Filter ${count(of)} series`} aria-label="Filter series" spellcheck={false} autocomplete="off"
          onInput={(e) => onShape({ find: e.currentTarget.value })} />}
        {shape.only.length > 0 && <button class="link" onClick={() => onShape({ only: [] })}>Show all again</button>}
        <span class="hint" role="status">
          {drawn.length < matching ? `${count(drawn.length)} drawn, ${count(matching - drawn.length)} more in the table` : shape.find && many(drawn.length, 'series has these words', 'series have these words')}
        </span>
      </div>}
      <div class="rows" ref={box} onScroll={(e) => setTop(e.currentTarget.scrollTop)} onKeyDown={arrow}>
        <table aria-label="Series" aria-rowcount={rows.length}>
          <thead><tr>{head('name', 'Series')}{columns.map((r) => head(r, r))}</tr></thead>
          <tbody onMouseLeave={() => onPoint(null)}>
            {first > 0 && <tr aria-hidden="true" style={{ height: `${first * height}px` }} />}
            {visible.map((s, i) => (
              <tr key={s.name} aria-rowindex={first + i + 1} class={chosen.size && !chosen.has(s) ? 'off' : ''} onMouseEnter={() => onPoint(s)}>
                <td>
                  <button class="series" aria-pressed={chosen.has(s)} title={`${s.name}\nShow it alone; with Ctrl or ⌘, besides others`}
                    onClick={(e) => toggle(s, e.ctrlKey || e.metaKey)} onFocus={() => onPoint(s)} onBlur={() => onPoint(null)}>
                    <i style={{ background: colour(s) }} /><span>{s.name}</span>
                  </button>
                </td>
                {columns.map((r) => <td class={`num ${r}`} key={r}>{Number.isNaN(s[r]) ? '–' : write(s[r])}</td>)}
              </tr>
            ))}
            {first + visible.length < rows.length && <tr aria-hidden="true" style={{ height: `${(rows.length - first - visible.length) * height}px` }} />}
          </tbody>
        </table>
      </div>
    </div>
  );
}
