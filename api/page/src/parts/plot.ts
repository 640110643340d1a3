// A plot of lines or stacked areas over time. uPlot makes axes, cursor and selection; the lines are on canvases of
// their own: one that is drawn in slices of a frame, and one above it for what the cursor points at.
import uPlot from 'uplot';
import { extent, fill, inSlices, nearest, placing, stack, trace, type Rows } from '../lib/lines';
import { moment, rem, zone } from '../lib/format';
import { coloursOf } from './chart';

export interface Plotted extends Rows {
  names: string[];
  /** Where a row is drawn at all, its colour. */
  colours: (string | undefined)[];
  start: number;
  end: number;
  stacked: boolean;
  log: boolean;
  write: (v: number) => string;
  distances?: number[];
  onZoom: (start: number, end: number) => void;
  onZoomOut: () => void;
}

/** A plot that is there; point brings out the line of a row, or none. */
export type Plot = { point(row: number | null): void; destroy(): void };

/** Every plot of the page, which is told where in time the cursor is in another. */
const plots = new Set<(time: number | null) => void>();

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

export function plot(host: HTMLElement, tip: HTMLElement, p: Plotted): Plot {
  performance.mark('draw');
  const css = getComputedStyle(host);
  const { muted, line, raised } = coloursOf(host);
  const shown = p.rows.map((_, i) => i).filter((i) => p.colours[i] !== undefined);
  const rows = shown.map((i) => p.rows[i]!);
  const areas = p.stacked ? stack(rows) : undefined;
  const upper = areas?.upper ?? rows;
  const [min, max] = extent(areas ? [...areas.lower, ...upper] : rows, p.log);
  const [low, high] = (min > max ? [p.log ? 1 : 0, 10] : p.log ? uPlot.rangeLog(Math.max(min, 1e-300), max, 10, true) : uPlot.rangeNum(min, max, 0.1, true)) as [number, number];
  const far = 10 ** Math.floor(Math.log10((high - low) / 4)); // uPlot itself has distances of 1e-32 to 1e32
  const wide = () => host.clientWidth;
  const unit = rem();
  const tall = () => Math.round(wide() < 520 ? 22 * unit : Math.min(72 * unit, Math.max(30 * unit, innerHeight * 0.4))); // as the legend's in parts.css
  const axis: uPlot.Axis = { stroke: muted, font: `${Math.round(1.2 * unit)}px ${css.fontFamily}`, size: 5 * unit, space: 5 * unit, grid: { stroke: line, width: 1 }, ticks: { show: false } };
  const [under, above] = [0, 1].map(() => Object.assign(document.createElement('canvas'), { className: 'layer' })) as [HTMLCanvasElement, HTMLCanvasElement];
  let stop = () => {};
  let xs = new Float64Array();
  let place = placing(low, high, 1, p.log);
  let pointed = -1; // of shown
  const last = Math.max(p.end, p.start + (p.times[1] ?? p.start + 1) - (p.times[0] ?? p.start));

  /** Makes the layers as large as the plot's inside, and empty. */
  const fit = (c: HTMLCanvasElement) => {
    const dpr = devicePixelRatio;
    const [w, h] = [u.over.clientWidth, u.over.clientHeight];
    Object.assign(c.style, { left: `${u.over.offsetLeft}px`, top: `${u.over.offsetTop}px`, width: `${w}px`, height: `${h}px` });
    c.width = w * dpr;
    c.height = h * dpr;
    const g = c.getContext('2d')!;
    g.scale(dpr, dpr);
    g.lineJoin = 'round';
    return g;
  };
  const draw = () => {
    stop();
    xs = p.times.map((t) => ((t - p.start) / (last - p.start)) * u.over.clientWidth);
    place = placing(low, high, u.over.clientHeight, p.log);
    const g = fit(under);
    fit(above);
    g.lineWidth = shown.length > 300 ? 1 / devicePixelRatio : 1.5; // a line of a pixel takes no outline
    stop = inSlices(shown.length, (k) => {
      g.strokeStyle = g.fillStyle = p.colours[shown[k]!]!;
      g.globalAlpha = 0.5;
      if (areas) fill(g, xs, areas.lower[k]!, upper[k]!, place);
      g.globalAlpha = 1;
      trace(g, xs, upper[k]!, place);
    }, () => {
      performance.clearMeasures('draw');
      performance.measure('draw', 'draw');
    });
  };
  /** Draws what is pointed at: a line, a moment, and the value then. */
  const bring = (k: number, column: number, time: number | null) => {
    const g = above.getContext('2d')!;
    g.clearRect(0, 0, u.over.clientWidth, u.over.clientHeight);
    g.fillStyle = muted;
    if (time !== null) g.fillRect(((time - p.start) / (last - p.start)) * u.over.clientWidth, 0, 1, u.over.clientHeight);
    pointed = k;
    if (k < 0) return;
    for (const [colour, width] of [[raised, 6], [p.colours[shown[k]!]!, 2.5]] as const) {
      g.strokeStyle = g.fillStyle = colour;
      g.lineWidth = width;
      if (rows.length > 1) trace(g, xs, upper[k]!, place);
      if (column < 0) continue;
      g.beginPath();
      g.arc(xs[column]!, place(upper[k]![column]!), width + 1.5, 0, 7);
      g.fill();
    }
  };
  /** Says beside the cursor when it is and what the nearest series has then. */
  const hover = () => {
    const { left = -1, top = -1, idx } = u.cursor;
    const column = left < 0 || !xs.length ? -1 : (idx ?? -1);
    const time = column < 0 ? null : p.times[column]!;
    const k = column < 0 ? -1 : nearest(upper, areas?.lower, column, top, place);
    bring(k, column, null);
    for (const tell of plots) if (tell !== told) tell(time);
    tip.hidden = column < 0;
    if (column < 0) return;
    const lines: [cls: string, text: string][] = [['when', moment(time! * 1000)]];
    if (k >= 0) lines.push(['value', p.write(rows[k]![column]!)], ['name', p.names[shown[k]!]!]);
    if (k >= 0 && areas) lines.push(['when', `${p.write(upper[k]![column]!)} with what is below`]);
    tip.replaceChildren(...lines.map(([cls, text]) => Object.assign(document.createElement('div'), { className: cls, textContent: text })));
    if (k >= 0) (tip.children[1] as HTMLElement).style.color = p.colours[shown[k]!]!;
    const flip = left > u.over.clientWidth / 2;
    tip.style.left = `${u.over.offsetLeft + left + (flip ? -12 - tip.offsetWidth : 12)}px`;
    tip.style.top = `${Math.max(0, Math.min(top, u.over.clientHeight - tip.offsetHeight))}px`;
  };
  const told = (time: number | null) => bring(-1, -1, time);

  const u: uPlot = new uPlot({
    width: wide(), height: tall(), padding: [12, 20, 0, 0],
    cursor: { y: false, drag: { x: true, y: false, setScale: false }, points: { show: false } },
    legend: { show: false },
    ...(zone.utc && { tzDate: (t: number) => uPlot.tzDate(new Date(t * 1e3), 'Etc/UTC') }),
    scales: { x: { time: true, range: [p.start, last] }, y: { range: [low, high], distr: p.log ? 3 : 1 } },
    axes: [{ ...axis, values: clock }, {
      ...axis, space: 3.6 * unit, incrs: p.log ? undefined : far > 1e30 || far < 1e-30 ? [far, 2 * far, 5 * far] : p.distances,
      values: (_u, ticks) => ticks.map((t) => (t === null ? '' : p.write(t))),
      size: (_u, texts) => unit * Math.max(4.4, 1.6 + 0.7 * Math.max(0, ...(texts ?? []).map((t) => t.length))),
    }],
    series: [{}, { paths: () => null, points: { show: false } }],
    hooks: {
      setSelect: [() => {
        if (u.select.width > 4) p.onZoom(u.posToVal(u.select.left, 'x'), u.posToVal(u.select.left + u.select.width, 'x'));
        u.setSelect({ left: 0, top: 0, width: 0, height: 0 }, false);
      }],
      setCursor: [hover],
      draw: [() => queueMicrotask(draw)], // then the inside has its new size
    },
  }, [p.times, p.times.map(() => low)], host);
  u.over.before(under, above);
  u.over.addEventListener('dblclick', () => p.onZoomOut());
  plots.add(told);
  /** The cursor by keys: to the columns beside it, and to the lines above and below. */
  const press = (e: KeyboardEvent) => {
    const by = { ArrowLeft: [-1, 0], ArrowRight: [1, 0], ArrowUp: [0, -1], ArrowDown: [0, 1], Home: [-Infinity, 0], End: [Infinity, 0], Escape: [0, 0] }[e.key];
    if (!by || !xs.length || e.ctrlKey || e.metaKey || e.altKey) return;
    e.preventDefault();
    const [sideways, down] = by as [number, number];
    let { left = -1, top = -1 } = u.cursor;
    const column = Math.max(0, Math.min(xs.length - 1, (left < 0 ? (sideways > 0 ? -1 : xs.length) : u.posToIdx(left)) + sideways));
    const tops = upper.map((row) => place(row[column]!)).filter((y) => !Number.isNaN(y)).sort((a, b) => a - b);
    if (pointed >= 0 && sideways) top = place(upper[pointed]![column]!);
    if (down) top = (down > 0 ? tops.find((y) => y > top + 0.5) : tops.findLast((y) => y < top - 0.5)) ?? top;
    left = e.key === 'Escape' ? -10 : xs[column]!;
    tip.ariaLive = 'polite';
    u.setCursor({ left, top: Number.isNaN(top) || top < 0 ? (tops[0] ?? 0) : top });
  };
  host.addEventListener('keydown', press);
  u.over.addEventListener('pointermove', () => (tip.ariaLive = 'off'));
  const watch = new ResizeObserver(() => wide() > 0 && (wide() !== u.width || tall() !== u.height) && u.setSize({ width: wide(), height: tall() }));
  watch.observe(host);
  return {
    point: (row) => bring(row === null ? -1 : shown.indexOf(row), -1, null),
    destroy() {
      stop();
      watch.disconnect();
      plots.delete(told);
      host.removeEventListener('keydown', press);
      tip.hidden = true;
      u.destroy();
    },
  };
}
