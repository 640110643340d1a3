// What the tests of the page run on: a promwarp with a little data, another in front of it that has
// the admin API, a disk and a GPU (the host build of the driver), and a browser.
import { spawn } from 'node:child_process';
import { mkdtempSync, rmSync } from 'node:fs';
import http from 'node:http';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { chromium } from 'playwright-core';

const patience = 60_000;

/** Starts a program that is ready once its output matches, or never where there is nothing to match. */
function start(program, args, until, seconds = 120) {
  const child = spawn(program, args, { stdio: ['ignore', 'pipe', 'pipe'] });
  const ready = new Promise((resolve, reject) => {
    let output = '';
    const read = (b) => {
      output += b;
      const m = until && output.match(until);
      if (m) resolve(m);
    };
    child.stdout.on('data', read);
    child.stderr.on('data', read);
    child.on('exit', (code) => reject(new Error(`${program} ${args[0]} ended with ${code}:\n${output}`)));
    if (until) setTimeout(() => reject(new Error(`${program} ${args[0]} is not ready:\n${output}`)), seconds * 1000).unref();
  });
  return { child, ready };
}

/** A free port of this machine. */
function freePort() {
  return new Promise((resolve) => {
    const s = http.createServer().listen(0, '127.0.0.1', () => {
      const { port } = s.address();
      s.close(() => resolve(port));
    });
  });
}

export async function waitFor(what, check) {
  for (const end = Date.now() + patience; Date.now() < end; ) {
    const got = await check().catch(() => undefined);
    if (got) return got;
    await new Promise((r) => setTimeout(r, 50));
  }
  throw new Error(`${what} did not happen`);
}

/** Moments of a range query, or the one of an instant query. */
const momentsOf = (asked) => {
  const [start, end, step] = ['start', 'end', 'step'].map((f) => Number(asked.get(f)));
  return asked.has('time') ? [Number(asked.get('time'))] : Array.from({ length: Math.round((end - start) / step) + 1 }, (_, i) => start + i * step);
};

/** Answers a range query with n series, whose values rise with their number. */
async function answerLines(r, n, asked) {
  const times = momentsOf(asked);
  r.writeHead(200, { 'Content-Type': 'application/json' });
  r.write('{"status":"success","data":{"resultType":"matrix","result":[');
  for (let k = 0; k < n; k++) {
    const values = times.map((t, i) => `[${t},"${(k + 40 * Math.sin(i / 9 + k)).toFixed(3)}"]`);
    const more = r.write(`${k ? ',' : ''}{"metric":{"__name__":"lines","instance":"host-${k % 400}:9100","job":"job-${k % 7}","number":"${k}"},"values":[${values}]}`);
    if (!more) await new Promise((done) => r.once('drain', done));
  }
  r.end(']}}');
}

/** Values of labels that a page might trip over. */
export const hostile = [
  '<script>throw Error("run")</script>', '<img src=x onerror="throw Error(1)">', '"quoted" \\ \n second line', 'x'.repeat(3000), 'עברית ‏\u202eabc', '😀 👩‍👩‍👧', '', '=cmd()',
];

/** Answers to metrics that no exporter of the demonstration has: the series of a name, each with its value at a moment. */
const made = {
  hostile: hostile.map((value, k) => [{ value, ['__proto__']: 'x', constructor: 'y' }, () => String(k)]),
  numbers: [['nan', () => 'NaN'], ['inf', (i) => (i % 2 ? '+Inf' : '-Inf')], ['huge', (i) => String(1e300 * (i + 1))], ['tiny', () => '5e-324'], ['holes', (i) => (i % 3 ? null : String(i))]].map(([kind, of]) => [{ kind }, of]),
  native: [[{ job: 'a' }, (i) => ({ count: String(10 + i), sum: '12.5', buckets: [[0, '0.5', '1', '4'], [0, '1', '2', String(6 + i)]] })]],
};

/** Answers with the series of a name in made. A value that is null is left out. */
function answerMade(r, name, asked) {
  const times = momentsOf(asked);
  const [one, many] = name === 'native' ? ['histogram', 'histograms'] : ['value', 'values'];
  const result = made[name].map(([metric, of]) => {
    const points = times.map((t, i) => [t, of(i)]).filter(([, v]) => v !== null);
    return { metric: { __name__: name, ...metric }, ...(asked.has('time') ? { [one]: points[0] } : { [many]: points }) };
  });
  r.writeHead(200, { 'Content-Type': 'application/json' });
  r.end(JSON.stringify({ status: 'success', data: { resultType: asked.has('time') ? 'vector' : 'matrix', result }, warnings: [`PromQL warning: of ${name} <b>`] }));
}

/** Opens the world, with a demonstration of that size. */
export async function openWorld(demo = ['--series=300', '--hours=2'], seconds = 120) {
  const program = process.env.PROMWARP;
  const dir = mkdtempSync(join(tmpdir(), 'promwarp-page-'));
  const ends = [() => rmSync(dir, { recursive: true, force: true })];
  const close = async () => {
    for (const end of ends.splice(0).reverse()) await end();
  };
  /** Starts promwarp, which ends with the world. */
  const begin = (args, until) => {
    const { child, ready } = start(program, args, until, seconds);
    ends.push(async () => {
      if (child.exitCode !== null) return;
      ready.catch(() => {});
      const gone = new Promise((resolve) => child.on('exit', resolve));
      child.kill('SIGTERM');
      await gone;
    });
    return ready;
  };
  try {
    const [, address, prometheus] = await begin(['demo', ...demo, '--listen=127.0.0.1:0'], /Browser\s+(\S+)[\s\S]*reads from is at (\S+)/);
    const port = await freePort();
    const base = `http://127.0.0.1:${port}/`;
    const ended = begin([
      'serve', `--upstream.url=${prometheus}`, `--web.listen-address=127.0.0.1:${port}`, '--web.enable-admin-api', `--cache.path=${dir}/cache`,
      '--gpu.mode=require', `--gpu.library=${process.env.CUDA}`,
    ]);
    await Promise.race([waitFor('promwarp', async () => (await fetch(`${base}-/ready`)).ok), ended]);
    ended.catch(() => {}); // at the end

    // A proxy that serves it below a path, as reverse proxies do. It answers itself for metrics lines_N, which have N
    // series, and for those that are made.
    const proxy = http.createServer(async (q, r) => {
      if (!q.url.startsWith('/some/where/')) {
        r.writeHead(404).end();
        return;
      }
      const sent = [];
      for await (const part of q) sent.push(part);
      const body = Buffer.concat(sent);
      const asked = new URLSearchParams(body.toString());
      const query = (/\/query(_range)?$/.test(q.url) && asked.get('query')) || '';
      if (query in made) return answerMade(r, query, asked);
      const lines = query.match(/^lines_(\d+)$/);
      if (lines) return answerLines(r, Number(lines[1]), asked);
      const to = http.request(`${base}${q.url.slice('/some/where/'.length)}`, { method: q.method, headers: q.headers }, (a) => a.pipe(r.writeHead(a.statusCode, a.headers)));
      to.end(body);
    });
    await new Promise((resolve) => proxy.listen(0, '127.0.0.1', resolve));
    ends.push(() => {
      proxy.closeAllConnections();
      proxy.close();
    });

    const browser = await chromium.launch({ executablePath: process.env.CHROMIUM, args: ['--no-sandbox'] });
    ends.push(() => browser.close());
    return { address, base, browser, below: `http://127.0.0.1:${proxy.address().port}/some/where/`, close };
  } catch (e) {
    await close();
    throw e;
  }
}

/** Opens a page that notes what goes wrong in it. */
export async function openPage(world, address, options = {}) {
  const page = await world.browser.newPage({ viewport: { width: 1300, height: 850 }, reducedMotion: 'reduce', ...options });
  page.wrong = [];
  page.setDefaultTimeout(patience);
  page.on('pageerror', (e) => page.wrong.push(e.message));
  // Where a coloured word of the editor is replaced, Chromium itself wants to style what is typed, and
  // the policy does not let it, which changes nothing: the editor colours the text.
  await page.addInitScript(() => document.addEventListener('securitypolicyviolation', (e) => {
    if (e.effectiveDirective !== 'style-src-attr' || !e.target?.matches?.('.editor')) console.error(`POLICY ${e.effectiveDirective} ${e.blockedURI}`);
  }));
  page.on('console', (m) => m.type() === 'error' && !/Failed to load resource|violates the following Content Security Policy/.test(m.text()) && page.wrong.push(m.text()));
  await page.goto(address);
  return page;
}

/** Texts whose contrast with what is behind them is less than WCAG's AA asks for. */
export function faintTexts() {
  // A canvas turns any colour into bytes.
  const context = Object.assign(document.createElement('canvas'), { width: 1, height: 1 }).getContext('2d', { willReadFrequently: true });
  const rgba = (colour) => {
    context.clearRect(0, 0, 1, 1);
    context.fillStyle = colour;
    context.fillRect(0, 0, 1, 1);
    return [...context.getImageData(0, 0, 1, 1).data];
  };
  const luminance = ([r, g, b]) => {
    const [x, y, z] = [r, g, b].map((v) => (v / 255 <= 0.04045 ? v / 255 / 12.92 : ((v / 255 + 0.055) / 1.055) ** 2.4));
    return 0.2126 * x + 0.7152 * y + 0.0722 * z;
  };
  const behind = (el) => {
    for (let e = el; e; e = e.parentElement ?? e.getRootNode().host) {
      const c = rgba(getComputedStyle(e).backgroundColor);
      if (c[3] === 255) return c;
    }
    return [255, 255, 255];
  };
  const faint = [];
  const look = (root) => {
    for (const el of root.querySelectorAll('*')) {
      if (el.shadowRoot) look(el.shadowRoot);
      const own = [...el.childNodes].some((n) => n.nodeType === 3 && n.textContent.trim());
      if (!own || el.closest(':disabled, .off, [hidden]') || !el.checkVisibility?.()) continue;
      const [a, b] = [luminance(rgba(getComputedStyle(el).color)), luminance(behind(el))];
      const contrast = (Math.max(a, b) + 0.05) / (Math.min(a, b) + 0.05);
      if (contrast < 4.5) faint.push(`${contrast.toFixed(2)} ${el.tagName}.${el.className}: ${el.textContent.trim().slice(0, 40)}`);
    }
  };
  look(document);
  return faint;
}
