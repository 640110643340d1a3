// The GPUs: their memory, what was done on them against what they can do, and where the cores lose.
import { useEffect, useRef } from 'preact/hooks';
import uPlot from 'uplot';
import { door, metrics, total, useLive, type Metrics } from '../lib/live';
import { bytes, count, milliseconds, percent, rem, short } from '../lib/format';
import { Problem } from '../parts/answer';
import { Bar } from '../parts/plan';
import { coloursOf, useScheme } from '../parts/chart';

interface Device {
  ordinal: number;
  name: string;
  pci_bus_id: string;
  compute_capability: string;
  multiprocessors: number;
  memory_bytes: number;
  reason?: string;
  leaves: number;
  typical_seconds: number;
  taken_bytes: number;
  resident_limit_bytes: number;
  resident_bytes: number;
  link_bytes_per_second: number;
  memory_bytes_per_second: number;
}

interface Crossing {
  samples: number;
  cores_seconds: number;
  gpu_resident_seconds: number;
  gpu_copied_seconds: number;
}

interface Report {
  reason?: string;
  devices: Device[];
  constants?: { cores: { sample_ns: number }; device: { sample_ns: number; fixed_ns: number }; link_bytes_per_second: number };
  crossover?: Crossing[];
}

export function Devices() {
  const report = useLive(door<Report>('/api/v1/status/gpus'), 5000);
  const m = useLive(metrics, 5000);
  const r = report.data;
  if (report.error !== undefined && !r) return <Problem error={report.error} retry={report.again} />;
  if (!r) return <p class="empty">Loading…</p>;
  return (
    <>
      {r.devices.length === 0 && (
        <section class="panel sheet">
          <h2>No GPU is used</h2>
          <p>{r.reason}</p>
          <p class="hint">The CPU cores evaluate all queries. <code>promwarp devices</code> says what this machine has.</p>
        </section>
      )}
      {r.devices.map((d) => <One key={d.ordinal} d={d} m={m.data} />)}
      {r.devices.length > 0 && m.data && <Stages m={m.data} link={r.constants?.link_bytes_per_second ?? 0} memory={r.devices[0]!.memory_bytes_per_second} />}
      {r.crossover && <Crossover points={r.crossover} />}
      {m.data && <Declined m={m.data} />}
    </>
  );
}

function One({ d, m }: { d: Device; m?: Metrics }) {
  return (
    <section class="panel sheet">
      <header>
        <h2>GPU {d.ordinal}: {d.name}</h2>
        <span class="hint">compute capability {d.compute_capability}, {d.multiprocessors} multiprocessors, PCI {d.pci_bus_id}</span>
        <span class="spring" />
        <span class={`badge ${d.reason ? 'prometheus' : 'gpu'}`}>{d.reason ? 'not used' : 'in use'}</span>
      </header>
      {d.reason && <p class="problem">{d.reason}</p>}
      <dl class="facts gauges">
        <dt>Device memory</dt>
        <dd><Bar parts={[['taken', d.taken_bytes, 'all']]} scale={d.memory_bytes} /><span>{bytes(d.taken_bytes)} of {bytes(d.memory_bytes)} taken by promwarp</span></dd>
        <dt>Resident chunks</dt>
        <dd><Bar parts={[['resident', d.resident_bytes, 'all']]} scale={d.resident_limit_bytes || 1} /><span>{bytes(d.resident_bytes)} of {bytes(d.resident_limit_bytes)}</span></dd>
        <dt>Work</dt>
        <dd class="plain">{count(d.leaves)} under way, {count(total(m, 'promwarp_gpu_jobs_total', { gpu: String(d.ordinal) }))} done{d.typical_seconds > 0 && `, typically in ${milliseconds(1000 * d.typical_seconds)}`}; {count(total(m, 'promwarp_gpu_faults_total', { gpu: String(d.ordinal) }))} failures</dd>
      </dl>
    </section>
  );
}

/** What all GPUs' stages took, and the rates of those that link and memory bound. */
function Stages({ m, link, memory }: { m: Metrics; link: number; memory: number }) {
  const seconds = (stage: string) => total(m, 'promwarp_gpu_seconds_total', { stage });
  const stages: [string, string][] = [['prepare', 'prepare, on cores'], ['copy', 'copy'], ['decode', 'decode'], ['window', 'window'], ['fold', 'reduce'], ['result', 'fetch results']];
  const scale = Math.max(...stages.map(([s]) => seconds(s)), 1e-9);
  const rate = (n: number, s: number) => (s > 0 ? n / s : 0);
  const copied = rate(total(m, 'promwarp_gpu_bytes_copied_total'), seconds('copy'));
  const samples = total(m, 'promwarp_gpu_samples_decoded_total');
  // Decoding reads the chunks and writes a time and a value of 8 bytes each.
  const decoded = rate(total(m, 'promwarp_gpu_chunk_bytes_total') + 16 * samples, seconds('decode'));
  if (!samples) return null;
  return (
    <section class="panel sheet">
      <header><h2>Stages</h2><span class="hint">of all jobs since the start; they run beside each other</span></header>
      <dl class="facts gauges">
        {stages.map(([s, name]) => <><dt>{name}</dt><dd><Bar parts={[[name, seconds(s), 'all']]} scale={scale} /><span>{milliseconds(1000 * seconds(s))}</span></dd></>)}
      </dl>
      <h3>Against the ceilings</h3>
      <dl class="facts gauges">
        <dt>Link</dt>
        <dd><Bar parts={[['copied', copied, 'all']]} scale={link || 1} /><span>{(copied / 1e9).toFixed(1)} of {(link / 1e9).toFixed(1)} GB/s measured, {percent(link ? copied / link : 0)}</span></dd>
        <dt>Memory, decode</dt>
        {memory > 0
          ? <dd><Bar parts={[['decoded', decoded, 'all']]} scale={memory} /><span>{(decoded / 1e9).toFixed(0)} of {(memory / 1e9).toFixed(0)} GB/s by its clock, {percent(decoded / memory)}</span></dd>
          : <dd class="plain">{(decoded / 1e9).toFixed(1)} GB/s; the driver does not say what the memory can do</dd>}
        <dt>Decoded</dt>
        <dd class="plain">{short(rate(samples, seconds('decode')))} samples a second</dd>
      </dl>
    </section>
  );
}

/** Expected time by the number of samples, on cores and on a GPU, both axes logarithmic. */
function Crossover({ points }: { points: Crossing[] }) {
  const host = useRef<HTMLDivElement>(null);
  const scheme = useScheme();
  const at = (of: (c: Crossing) => number) => points.find((p) => of(p) < p.cores_seconds)?.samples;
  const [resident, copied] = [at((p) => p.gpu_resident_seconds), at((p) => p.gpu_copied_seconds)];
  useEffect(() => {
    const box = host.current!;
    const unit = rem();
    const { line, muted, text, accent, mid } = coloursOf(box);
    const axis: uPlot.Axis = { stroke: muted, grid: { stroke: line, width: 1 }, ticks: { show: false }, font: `${Math.round(1.2 * unit)}px ${getComputedStyle(box).fontFamily}` };
    const tens = (_u: uPlot, _axis: number, min: number, max: number) => {
      const all: number[] = [];
      for (let e = Math.ceil(Math.log10(min) - 1e-9); e <= Math.log10(max) + 1e-9; e++) all.push(10 ** e);
      return all;
    };
    const inSeconds = (s: number) => (s >= 1 ? `${Math.round(s)} s` : s > 0.0009 ? `${Math.round(1000 * s)} ms` : `${Math.round(1e6 * s)} µs`);
    const u = new uPlot({
      width: box.clientWidth, height: 28 * unit, padding: [12, 16, 0, 0], legend: { show: false }, cursor: { drag: { x: false, y: false }, points: { size: 6 } },
      scales: { x: { time: false, distr: 3, range: [points[0]!.samples, points.at(-1)!.samples] }, y: { distr: 3 } },
      axes: [
        { ...axis, size: 2.8 * unit, splits: tens, values: (_u, all) => all.map((n) => (n === null ? '' : short(n))) },
        { ...axis, size: 6.4 * unit, splits: tens, values: (_u, all) => all.map((n) => (n === null ? '' : inSeconds(n))) },
      ],
      series: [{}, { stroke: text, width: 2, points: { show: false } }, { stroke: accent, width: 2, points: { show: false } }, { stroke: mid, width: 2, dash: [6, 4], points: { show: false } }],
    }, [points.map((p) => p.samples), points.map((p) => p.cores_seconds), points.map((p) => p.gpu_resident_seconds), points.map((p) => p.gpu_copied_seconds)], box);
    const watch = new ResizeObserver(() => u.setSize({ width: box.clientWidth, height: 28 * unit }));
    watch.observe(box);
    return () => {
      watch.disconnect();
      u.destroy();
    };
  }, [JSON.stringify(points), scheme]);
  const from = (n: number | undefined) => (n === undefined ? `at no size up to ${short(points.at(-1)!.samples)} samples` : n === points[0]!.samples ? 'at all sizes' : `from ${short(n)} samples on`);
  return (
    <section class="panel sheet">
      <header><h2>Crossover</h2><span class="hint">expected of rate[5m] over an hour of samples every 15 s, a step a minute; made from what was measured at the start</span></header>
      <p>A GPU that has the chunks is faster {from(resident)}; one that must copy them, {from(copied)}.</p>
      <p class="hint keys-line"><span>Time by samples of a query:</span> <span><i class="key line text" /> CPU cores</span> <span><i class="key line accent" /> GPU, resident</span> <span><i class="key line dashed" /> GPU, copied</span></p>
      <div ref={host} role="img" aria-label="Expected time by samples" />
    </section>
  );
}

function Declined({ m }: { m: Metrics }) {
  const all = [...(m.get('promwarp_gpu_declined_total') ?? [])].sort((a, b) => b.value - a.value);
  if (!all.length) return null;
  return (
    <section class="panel sheet">
      <header><h2>Left to the cores</h2><span class="hint">windows, by reason</span></header>
      <table class="data">
        <tbody>{all.map((s) => <tr key={s.labels.reason}><td class="wrap">{s.labels.reason}</td><td class="num">{count(s.value)}</td></tr>)}</tbody>
      </table>
    </section>
  );
}
