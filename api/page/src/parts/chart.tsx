// A chart of series over time, drawn by uPlot on a canvas.
import { useEffect, useMemo, useRef, useState } from 'preact/hooks';
import uPlot from 'uplot';
import 'uplot/dist/uPlot.min.css';
import { nameOf, pointsOf, type Series } from '../lib/values';
import { count, moment, short } from '../lib/format';

const light = ['#2563c9', '#b8480f', '#167a3f', '#8b3fd1', '#a3660a', '#0e7490', '#b81d6b', '#56750f', '#55606f', '#c62b2b'];
const dark = ['#74a9ff', '#fb9a5c', '#56d68a', '#c79bff', '#f0bd4e', '#43cfe6', '#f58fc0', '#afd95a', '#a9b4c2', '#fb8585'];

/** So many series are drawn unless all are asked for. */
const usual = 100;

export const schemeOf = () => (document.documentElement.dataset.theme ?? (matchMedia('(prefers-color-scheme: dark)').matches ? 'dark' : 'light'));

/** The number of the scheme that is shown, which changes when the user changes it. */
export function useScheme(): string {
  const [scheme, set] = useState(schemeOf());
  useEffect(() => {
    const changed = () => set(schemeOf());
    const query = matchMedia('(prefers-color-scheme: dark)');
    query.addEventListener('change', changed);
    addEventListener('themechange', changed);
    return () => {
      query.removeEventListener('change', changed);
      removeEventListener('themechange', changed);
    };
  }, []);
  return scheme;
}

/** The colours of an element's scheme, as a canvas takes them. */
export function coloursOf(el: HTMLElement) {
  const probe = document.createElement('i');
  el.append(probe);
  const colour = (name: string) => {
    probe.style.color = `var(${name})`;
    return getComputedStyle(probe).color;
  };
  const all = { line: colour('--grid'), muted: colour('--muted'), text: colour('--text'), accent: colour('--accent'), mid: colour('--accent-mid') };
  probe.remove();
  return all;
}

interface Props {
  series: Series[];
  start: number; // seconds, first of the grid
  end: number;
  step: number;
  /** Whether times are as they come, as calendars make them, and not on the grid. */
  loose?: boolean;
  onZoom: (start: number, end: number) => void;
  onZoomOut: () => void;
}

/** Moments of an axis: the time of the day, and the day where it is another than before. */
function clock(_u: uPlot, all: number[]): string[] {
  let day = '';
  return all.map((t) => {
    const text = moment(t * 1000);
    const [date, time] = [text.slice(5, 10), text.slice(11)];
    if (date === day) return time;
    day = date;
    return time === '00:00' ? date : `${time}\n${date}`;
  });
}

/** Times, and a row of values or null for each series. */
function align(all: Series[], start: number, end: number, step: number, loose?: boolean): uPlot.AlignedData {
  if (loose) {
    const times = [...new Set(all.flatMap((s) => pointsOf(s).map(([t]) => t)))].sort((a, b) => a - b);
    const rows = all.map((s) => {
      const at = new Map(pointsOf(s).map(([t, v]) => [t, v === null ? NaN : Number(v)]));
      return times.map((t) => (Number.isFinite(at.get(t)) ? at.get(t)! : null));
    });
    return [times, ...rows] as uPlot.AlignedData;
  }
  const n = Math.round((end - start) / step) + 1;
  const times = Array.from({ length: n }, (_, i) => start + i * step);
  const rows = all.map((s) => {
    const row: (number | null)[] = new Array(n).fill(null);
    for (const [t, v] of pointsOf(s)) {
      const value = v === null ? NaN : Number(v);
      const i = Math.round((t - start) / step);
      if (Number.isFinite(value) && i >= 0 && i < n) row[i] = value;
    }
    return row;
  });
  return [times, ...rows] as uPlot.AlignedData;
}

export function Chart({ series, start, end, step, loose, onZoom, onZoomOut }: Props) {
  const host = useRef<HTMLDivElement>(null);
  const tip = useRef<HTMLDivElement>(null);
  const plot = useRef<uPlot | null>(null);
  const [all, setAll] = useState(false);
  const [only, setOnly] = useState<ReadonlySet<number>>(new Set());
  const [order, setOrder] = useState<'as is' | 'last'>('as is');
  const scheme = useScheme();
  const palette = scheme === 'dark' ? dark : light;
  const drawn = useMemo(() => (all ? series : series.slice(0, usual)), [series, all]);
  const data = useMemo(() => align(drawn, start, end, step, loose), [drawn, start, end, step]);
  const zoom = useRef({ onZoom, onZoomOut });
  zoom.current = { onZoom, onZoomOut };
  useEffect(() => setOnly(new Set()), [series]);

  useEffect(() => {
    const css = getComputedStyle(host.current!);
    const { muted, line } = coloursOf(host.current!);
    const axis: uPlot.Axis = {
      stroke: muted, font: `12px ${css.fontFamily}`, grid: { stroke: line, width: 1 }, ticks: { show: false },
    };
    const box = host.current!;
    const width = () => box.clientWidth;
    const height = () => (width() < 520 ? 220 : 300);
    const u = new uPlot({
      width: width(), height: height(), padding: [12, 12, 0, 0],
      cursor: { y: false, drag: { x: true, y: false, setScale: false }, focus: { prox: 24 }, points: { size: 7 } },
      focus: { alpha: drawn.length > 1 ? 0.35 : 1 },
      legend: { show: false },
      scales: { x: { time: true, range: [start, Math.max(end, start + step)] } },
      axes: [{ ...axis, values: clock }, { ...axis, size: 58, values: (_u, ticks) => ticks.map((t) => (t === null ? '' : short(t))) }],
      series: [{}, ...drawn.map((_s, i) => {
        const stroke = palette[i % palette.length]!;
        return { stroke, width: 1.5, points: { show: drawn[i] && pointsOf(drawn[i]!).length === 1 ? true : undefined, size: 5, fill: stroke }, spanGaps: false };
      })],
      hooks: {
        setSelect: [(u) => {
          if (u.select.width > 4) zoom.current.onZoom(u.posToVal(u.select.left, 'x'), u.posToVal(u.select.left + u.select.width, 'x'));
          u.setSelect({ left: 0, top: 0, width: 0, height: 0 }, false);
        }],
        setCursor: [(u) => showTip(u, tip.current!, drawn, palette)],
        setSeries: [(u) => showTip(u, tip.current!, drawn, palette)],
      },
    }, data, host.current!);
    u.over.addEventListener('dblclick', () => zoom.current.onZoomOut());
    plot.current = u;
    const watch = new ResizeObserver(() => u.setSize({ width: width(), height: height() }));
    watch.observe(host.current!);
    return () => {
      watch.disconnect();
      u.destroy();
      plot.current = null;
    };
  }, [data, scheme]);

  useEffect(() => {
    const u = plot.current;
    if (!u) return;
    u.batch(() => drawn.forEach((_s, i) => u.setSeries(i + 1, { show: only.size === 0 || only.has(i) })));
  }, [only, data, scheme]);

  const rows = useMemo(() => drawn.map((s, i) => ({ i, name: nameOf(s.metric), ...summary(data[i + 1] as (number | null)[]) })), [data]);
  const listed = order === 'last' ? [...rows].sort((a, b) => (b.last ?? -Infinity) - (a.last ?? -Infinity)) : rows;
  const toggle = (i: number, more: boolean) => {
    const next = new Set(more ? only : []);
    if (only.has(i) && (more || only.size === 1)) next.delete(i);
    else next.add(i);
    setOnly(next);
  };

  return (
    <div class="chart">
      <div class="plot" ref={host}>
        <div class="tip" ref={tip} hidden />
      </div>
      {series.length > usual && (
        <p class="hint">
          {all ? `All ${count(series.length)} series are drawn. ` : `The first ${usual} of ${count(series.length)} series are drawn. `}
          <button class="link" onClick={() => setAll(!all)}>{all ? `Draw ${usual}` : 'Draw all'}</button>
        </p>
      )}
      <div class="legend" role="group" aria-label="Series">
        <table>
          <thead>
            <tr>
              <th>Series</th><th class="num">min</th><th class="num">mean</th><th class="num">max</th>
              <th class="num" aria-sort={order === 'last' ? 'descending' : 'none'}>
                <button class="link" onClick={() => setOrder(order === 'last' ? 'as is' : 'last')}>last{order === 'last' ? ' ↓' : ''}</button>
              </th>
            </tr>
          </thead>
          <tbody>
            {listed.map((r) => (
              <tr key={r.i} class={only.size && !only.has(r.i) ? 'off' : ''}
                onMouseEnter={() => plot.current?.setSeries(r.i + 1, { focus: true })} onMouseLeave={() => plot.current?.setSeries(null as any, { focus: false })}>
                <td>
                  <button class="series" aria-pressed={only.has(r.i)} title="Show this series alone; with Ctrl or ⌘, besides others"
                    onClick={(e) => toggle(r.i, e.ctrlKey || e.metaKey)}>
                    <i style={{ background: palette[r.i % palette.length] }} />
                    <span>{r.name}</span>
                  </button>
                </td>
                {[r.min, r.mean, r.max, r.last].map((v, k) => <td class="num" key={k}>{v === null ? '–' : short(v)}</td>)}
              </tr>
            ))}
          </tbody>
        </table>
      </div>
    </div>
  );
}

function summary(row: (number | null)[]) {
  let min: number | null = null, max: number | null = null, last: number | null = null, sum = 0, n = 0;
  for (const v of row) {
    if (v === null) continue;
    if (min === null || v < min) min = v;
    if (max === null || v > max) max = v;
    last = v;
    sum += v;
    n++;
  }
  return { min, max, last, mean: n ? sum / n : null };
}

/** Says beside the cursor when it is and what the nearest series has there. */
function showTip(u: uPlot, el: HTMLDivElement, drawn: Series[], palette: string[]) {
  const { left = -1, top = -1, idx } = u.cursor;
  const k = u.series.findIndex((s, i) => i > 0 && (s as any)._focus === true);
  const at = idx === null || idx === undefined ? undefined : u.data[0]![idx];
  if (left < 0 || at === undefined) {
    el.hidden = true;
    return;
  }
  el.replaceChildren();
  const line = (cls: string, text: string) => {
    const d = document.createElement('div');
    d.className = cls;
    d.textContent = text;
    el.append(d);
    return d;
  };
  line('when', moment(at * 1000));
  const value = k > 0 ? u.data[k]![idx!] : null;
  if (k > 0 && value !== null && value !== undefined) {
    line('value', String(value)).style.color = palette[(k - 1) % palette.length]!;
    line('name', nameOf(drawn[k - 1]!.metric));
  }
  el.hidden = false;
  const wide = u.over.clientWidth;
  const flip = left > wide / 2;
  el.style.left = `${u.over.offsetLeft + left + (flip ? -12 - el.offsetWidth : 12)}px`;
  el.style.top = `${Math.max(0, Math.min(top, u.over.clientHeight - el.offsetHeight))}px`;
}
