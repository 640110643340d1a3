// A chart of series over time: what is drawn of them and how, the plot, the legend, and both as files.
import { useEffect, useMemo, useRef, useState } from 'preact/hooks';
import type { Series } from '../lib/values';
import { align } from '../lib/lines';
import { most, ranks, select, type Rank, type Shape } from '../lib/shape';
import { distances, unitOf, units, writer } from '../lib/units';
import { csv, picture, save, stamp } from '../lib/save';
import { count, many, moment, zone } from '../lib/format';
import { Legend } from './legend';
import { plot, type Plot } from './plot';

const light = ['#2563c9', '#b8480f', '#167a3f', '#8b3fd1', '#a3660a', '#0e7490', '#b81d6b', '#56750f', '#55606f', '#c62b2b'];
const dark = ['#74a9ff', '#fb9a5c', '#56d68a', '#c79bff', '#f0bd4e', '#43cfe6', '#f58fc0', '#afd95a', '#a9b4c2', '#fb8585'];

const named = 20; // series at most in a picture

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
  const all = { line: colour('--grid'), muted: colour('--muted'), text: colour('--text'), accent: colour('--accent'), mid: colour('--accent-mid'), raised: colour('--raised') };
  probe.remove();
  return all;
}

interface Props {
  series: Series[];
  /** What they are of: a PromQL expression. */
  expr: string;
  start: number; // seconds, first of the grid
  end: number;
  step: number;
  /** Whether times are as they come, as calendars make them, and not on the grid. */
  loose?: boolean;
  shape: Shape;
  onShape: (patch: Partial<Shape>) => void;
  onZoom: (start: number, end: number) => void;
  onZoomOut: () => void;
}

export function Chart({ series, expr, start, end, step, loose, shape, onShape, onZoom, onZoomOut }: Props) {
  const host = useRef<HTMLDivElement>(null);
  const tip = useRef<HTMLDivElement>(null);
  const plotted = useRef<Plot | null>(null);
  const [problem, setProblem] = useState('');
  const scheme = useScheme();
  const palette = scheme === 'dark' ? dark : light;
  const byName = useMemo(() => unitOf(expr), [expr]);
  const unit = shape.unit in units ? shape.unit : byName;
  const write = useMemo(() => writer(unit), [unit]);
  const { matching, drawn, chosen } = useMemo(() => select(series, shape), [series, shape.top, shape.by, shape.find, shape.only.join()]);
  const data = useMemo(() => align(drawn, start, end, step, loose), [drawn, start, end, step]);
  const places = useMemo(() => new Map(drawn.map((s, i) => [s, i])), [drawn]);
  const colour = (s: Series) => palette[places.get(s)! % palette.length]!;
  const shown = chosen.size ? drawn.filter((s) => chosen.has(s)) : drawn;
  const zoom = useRef({ onZoom, onZoomOut });
  zoom.current = { onZoom, onZoomOut };

  useEffect(() => {
    const p = plot(host.current!, tip.current!, {
      ...data, names: drawn.map((s) => s.name), colours: drawn.map((s) => (chosen.size && !chosen.has(s) ? undefined : colour(s))), start, end,
      stacked: shape.stacked, log: shape.log && !shape.stacked, write, distances: distances(unit),
      onZoom: (a, b) => zoom.current.onZoom(a, b), onZoomOut: () => zoom.current.onZoomOut(),
    });
    plotted.current = p;
    return () => {
      p.destroy();
      plotted.current = null;
    };
  }, [data, chosen, shape.stacked, shape.log, unit, scheme, zone.utc]);

  const file = (kind: string) => `${(expr.match(/[a-zA-Z_:][\w:]{3,}(?!\w*\s*\()/)?.[0] ?? 'promwarp').slice(0, 60)}-${stamp(end).replace(/[:Z]/g, '')}.${kind}`;
  const table = async () => {
    const rows = shown.map((s) => data.rows[places.get(s)!]!);
    const text = (v: number) => (Number.isNaN(v) ? '' : v);
    save(file('csv'), await csv(['time', ...shown.map((s) => s.name)], data.times.length, (i) => [stamp(data.times[i]!), ...rows.map((r) => text(r[i]!))]));
  };
  const image = async () => {
    const names = shown.slice(0, named).map((s): [string, string] => [s.name, colour(s)]);
    save(file('png'), await picture(expr, host.current!, names, shown.length > named ? `and ${many(shown.length - named, 'other', 'others')}` : ''));
  };
  const told = (act: () => Promise<void>) => () => act().then(() => setProblem(''), (e) => setProblem(`It cannot be saved: ${e.message}`));
  const empty = !shown.some((s) => !Number.isNaN(s.last));
  const why = !drawn.length ? 'No series has these words in its name.' : shown.some((s) => s.size > s.times.length) ?
    'Native histograms are not drawn: ask for histogram_quantile(0.9, …), histogram_avg(…) or histogram_count(…) of them.' : 'Nothing here can be drawn: no series has a finite number.';
  const all = Math.min(series.length, most);
  const tops = [...new Set([10, 100, 1000, shape.top].filter((n) => n < series.length).concat(all))].sort((a, b) => a - b);

  return (
    <div class="chart">
      <div class="chart-bar">
        {series.length > 10 && (
          <span class="inline">Top
            <select aria-label="How many series are drawn" value={String(Math.min(shape.top, all))} onChange={(e) => onShape({ top: Number(e.currentTarget.value) === all ? most : Number(e.currentTarget.value) })}>
              {tops.map((n) => <option key={n} value={String(n)}>{count(n)}</option>)}
            </select>
            of {count(matching.length)} by
            <select aria-label="Ranked by" value={shape.by} onChange={(e) => onShape({ by: e.currentTarget.value as Rank })}>
              {ranks.filter((r) => r !== 'min').map((r) => <option key={r} value={r}>{r}</option>)}
            </select>
          </span>
        )}
        <span class="tools">
        <select aria-label="Unit" title="Unit of the values" value={shape.unit} onChange={(e) => onShape({ unit: e.currentTarget.value })}>
          <option value="">{byName ? `${units[byName as keyof typeof units]}, by name` : 'Unit by name'}</option>
          {Object.entries(units).map(([id, name]) => <option key={id} value={id}>{name}</option>)}
        </select>
        <button aria-pressed={shape.stacked} onClick={() => onShape({ stacked: !shape.stacked, log: false })}>Stacked</button>
        <button aria-pressed={shape.log} onClick={() => onShape({ log: !shape.log, stacked: false })}>Log</button>
        <span class="joined">
          <button title="Save the lines that are drawn as a table" onClick={told(table)}>CSV</button>
          <button title="Save the chart as a picture" onClick={told(image)}>PNG</button>
        </span>
        </span>
      </div>
      {problem && <p class="problem" role="alert">{problem}</p>}
      <div class="plot" ref={host} tabIndex={0} role="application" aria-roledescription="chart"
        aria-label={`${many(shown.length, 'series', 'series')} from ${moment(start * 1000)} to ${moment(end * 1000)}. Arrow keys read values.`}>
        <div class="tip" ref={tip} hidden />
        {empty && <p class="empty"><span>{why}</span></p>}
      </div>
      <Legend {...{ drawn, chosen, colour, write, shape, onShape }} of={series.length} matching={matching.length} onPoint={(s) => plotted.current?.point(s && places.get(s)!)} />
    </div>
  );
}
