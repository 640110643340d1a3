// What an owner of slow dashboards does on the page, by the clicks and keys of a person.
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { at, page, shot, visit, world } from './session.mjs';
import { faintTexts, hostile, waitFor } from './world.mjs';

const end = () => Date.now() - 600_000;
const editor = () => page.locator('.editor .cm-content');
const text = async (locator) => (await locator.innerText()).replaceAll('\u202f', '');
/** Opens the page over an hour in which no more samples arrive. */
const open = (fields = {}, options = {}) => visit(at('query', { from: end() - 3_600_000, to: end(), ...fields }), options);
const ask = async (expr) => {
  await editor().fill(expr);
  await editor().press('Enter');
  await page.locator('.chart .u-over').waitFor();
};
/** The demonstration's Prometheus knows nothing of its metrics; others do. */
const metadata = {
  http_requests_total: [{ type: 'counter', help: 'Requests that were answered.', unit: '' }],
  http_request_duration_seconds: [{ type: 'histogram', help: 'Time to answer a request.', unit: 'seconds' }],
  node_memory_bytes: [{ type: 'gauge', help: 'Memory of the machine by what it is used for.', unit: 'bytes' }],
};
const know = () => page.route('**/api/v1/metadata*', (route) => route.fulfill({ json: { status: 'success', data: metadata } }));
const explore = async (name) => {
  await page.getByRole('button', { name: 'Metrics', exact: true }).click();
  await page.getByLabel('Search names and help').fill(name);
  await page.getByRole('region', { name: 'Metrics' }).getByRole('button', { name: new RegExp(`^${name}`) }).first().click();
};

test('the page of a server that has not been asked yet is painted within half a second, before its code is there', async () => {
  const painted = () => page.evaluate(() => new Promise((done) => {
    new PerformanceObserver((l) => l.getEntriesByName('first-contentful-paint').forEach((e) => done(e.startTime))).observe({ type: 'paint', buffered: true });
  }));
  let took = Infinity;
  for (let tries = 0; tries < 5 && took >= 500; tries++) { // a machine that others share stalls now and then
    await visit(world.base);
    took = await painted();
    await editor().waitFor();
    console.log(`first paint after ${Math.round(took)} ms, the editor after ${Math.round(await page.evaluate(() => performance.now()))} ms at most`);
  }
  assert.ok(took < 500, `first paint after ${took} ms`);
  // What the document itself names is little, and is enough to paint.
  const sizes = await page.evaluate(() => [...document.querySelectorAll('script, link[rel=stylesheet]')].map((e) => performance.getEntriesByName(e.src ?? e.href)[0].encodedBodySize));
  assert.ok(sizes.length >= 2 && sizes.every((n) => n > 0) && sizes.reduce((a, b) => a + b) < 16_000, `${sizes} bytes`);
  await visit('about:blank');
  let code = () => {};
  const held = new Promise((done) => (code = done));
  await page.route(/assets.(main|codemirror)-/, (route) => held.then(() => route.continue()));
  await page.goto(world.base, { waitUntil: 'commit' });
  await painted();
  await page.getByRole('link', { name: 'Status' }).waitFor();
  assert.equal(await editor().count(), 0);
  code();
  await editor().waitFor();
});

test('why a panel is slow: the plan of the very run says which part takes the time, and where its samples are from', async () => {
  await open();
  const asked = [];
  page.on('request', (r) => /query_range|explain/.test(r.url()) && asked.push(r.url()));
  await ask('sum(rate(node_memory_bytes[5m])) / sum(quantile_over_time(0.9, http_requests_total[1h]))');
  const plan = page.getByRole('complementary', { name: 'Plan' });
  await plan.getByText('of this run').waitFor();
  assert.equal(asked.length, 1, 'one request has the answer and its plan');
  assert.match(await text(plan), /waiting[\s\S]*fetching[\s\S]*evaluating[\s\S]*encoding[\s\S]*on the way/);
  const nodes = await plan.locator('.node').evaluateAll((all) => all.map((n) => ({
    expr: n.querySelector('code').textContent, said: n.textContent, ms: parseFloat(n.querySelector('.beside b')?.textContent.replace(' µs', 'e-3') ?? 'NaN'),
  })));
  const slowest = nodes.filter((n) => !Number.isNaN(n.ms)).sort((a, b) => b.ms - a.ms)[0];
  assert.match(slowest.expr, /^quantile_over_time/);
  assert.match(slowest.said, /adding up included/);
  assert.match(slowest.said, /\d+ samples? decoded/);
  assert.match(slowest.said, /[1-9]\d* fetched/);
  await shot('owner-slow');
  // Asked again, nothing is fetched, and the sum of rates was remembered.
  await page.getByRole('button', { name: 'Refresh' }).click();
  await plan.getByText('remembered', { exact: true }).waitFor();
  assert.match(await text(plan), /0 fetched[\s\S]*steps? remembered from earlier queries[\s\S]*not evaluated: the results above it were remembered/);
  assert.doesNotMatch(await text(plan), /[1-9]\d* fetched/);
});

test('that it is right: both runs beside each other, and a speed-up of work that was done alone', async () => {
  await open();
  await ask('sum by (job, code) (rate(http_requests_total[10m]))');
  await page.getByLabel('Compare').check();
  const verdict = page.locator('.verdict');
  await verdict.getByText('Identical to the bit').waitFor();
  assert.match(await text(verdict), /promwarp[\s\S]*evaluating[\s\S]*Prometheus[\s\S]*evaluating/);
  assert.match(await text(verdict), /promwarp remembered \d+ of \d+ steps, so these times say nothing of speed/);
  assert.doesNotMatch(await text(verdict), /× as/);
  await shot('owner-remembered');
  await verdict.getByRole('button', { name: 'Evaluate all steps' }).click();
  await verdict.getByText('all steps anew').waitFor();
  assert.match(await text(verdict), /Evaluated \d+\.\d× as (fast|slow), all steps anew; \d+ samples? had been decoded|from encoded chunks/);
  await page.getByText('of a run of all steps').waitFor();
  await shot('owner-right');
});

test('a metric is found by its help, and clicks make matchers of its labels', async () => {
  await open();
  await know();
  await editor().waitFor(); // then keys are listened to
  await page.keyboard.press('m');
  const metrics = page.getByRole('region', { name: 'Metrics' });
  await page.keyboard.type('answered');
  await metrics.getByText('1 of 10 metrics').waitFor();
  assert.match(await text(metrics.getByRole('list', { name: 'Metrics found' })), /http_requests_total[\s\S]*counter[\s\S]*Requests that were answered/);
  await page.getByLabel('Type').selectOption('histogram');
  await metrics.getByText('0 of 10 metrics').waitFor();
  await page.getByLabel('Type').selectOption('');
  await page.getByLabel('Search names and help').press('ArrowDown');
  await page.keyboard.press('Enter');
  const details = page.getByRole('region', { name: 'http_requests_total' });
  await details.getByRole('button', { name: /^job\s*\d+ values/ }).waitFor();
  await details.getByRole('button', { name: 'Insert rate' }).click();
  assert.equal(await text(editor()), 'rate(http_requests_total[5m])');
  await details.getByRole('button', { name: /^job\s/ }).click();
  await details.getByRole('button', { name: 'job=job-1' }).click();
  assert.equal(await text(editor()), 'rate(http_requests_total{job="job-1"}[5m])');
  await details.getByLabel('Matcher').selectOption('!=');
  await details.getByRole('button', { name: /^code\s/ }).click();
  await details.getByRole('button', { name: 'code!=500' }).click();
  assert.equal(await text(editor()), 'rate(http_requests_total{job="job-1", code!="500"}[5m])');
  await metrics.getByText('code!="500" is in the query').waitFor();
  await details.getByRole('button', { name: /^job\s/ }).click();
  await details.getByRole('button', { name: 'job!=job-2' }).click();
  assert.equal(await text(editor()), 'rate(http_requests_total{job!="job-2", code!="500"}[5m])');
  await shot('owner-explorer');
  await page.keyboard.press('Escape');
  assert.equal(await metrics.count(), 0);
  await page.keyboard.press('End');
  await page.keyboard.press('Enter'); // the focus is in the editor again
  await page.locator('.chart .u-over').waitFor();
  assert.match(decodeURIComponent(page.url()), /job!="job-2"/);
});

test('the editor completes labels and their values', async () => {
  await open();
  await know();
  await editor().click();
  await page.keyboard.type('http_requests_total{co', { delay: 15 });
  const option = (name) => page.locator('.cm-tooltip-autocomplete li', { hasText: name }).first();
  await option('code').click();
  await page.keyboard.type('="', { delay: 15 });
  await option('500').click();
  assert.match(await text(editor()), /^http_requests_total\{code="500"/);
  await editor().fill('');
  await page.keyboard.type('http_requests_t', { delay: 15 });
  await option('http_requests_total').waitFor();
  assert.match(await text(page.locator('.cm-completionInfo, .cm-tooltip-autocomplete').last()), /counter|Requests that were answered/);
});

test('what promwarp keeps of a metric is one click from it', async () => {
  await open();
  await ask('sum(rate(http_requests_total[5m]))');
  await ask('avg(node_memory_bytes)');
  await explore('http_requests_total');
  await page.getByRole('link', { name: 'What is kept of it' }).click();
  const rows = page.locator('.tiles tbody tr');
  await rows.first().waitFor();
  assert.match(page.url(), /find=http_requests_total/);
  for (const row of await rows.all()) assert.match(await text(row), /http_requests_total[\s\S]*\d (B|[KM]iB)/);
  await shot('owner-kept');
  await page.getByLabel('Search selectors').fill('no such metric');
  await page.getByText('Nothing is kept of “no such metric”').waitFor();
  await page.getByLabel('Search selectors').fill('');
  await waitFor('all selectors', async () => (await text(page.locator('.tiles'))).includes('node_memory_bytes'));
});

test('the four tasks are done by keys alone', async () => {
  await open();
  await know();
  await editor().waitFor(); // then keys are listened to
  const press = async (...keys) => {
    for (const key of keys) await page.keyboard.press(key);
  };
  const focused = () => page.evaluate(() => document.activeElement.textContent || document.activeElement.ariaLabel);
  /** Presses Tab until something has the focus, some times at most. */
  const tab = async (name, most, key = 'Tab') => {
    for (let i = 0; i < most && (await focused()) !== name; i++) await press(key);
    assert.equal(await focused(), name);
  };
  // Why it is slow, and that it is right.
  await press('/');
  await page.keyboard.type('sum(rate(node_memory_bytes[5m]))');
  await press('End', 'Enter');
  const plan = page.getByRole('complementary', { name: 'Plan' });
  await plan.getByText('of this run').waitFor();
  await tab('Metrics', 2);
  await press('c');
  await page.locator('.verdict').getByText('Identical to the bit').waitFor();
  // A table.
  await tab('Chart', 3);
  await press('ArrowRight');
  await page.locator('td.value').first().waitFor();
  await tab('CSV', 6);
  const [saved] = await Promise.all([page.waitForEvent('download'), press('Enter')]);
  assert.match(saved.suggestedFilename(), /\.csv$/);
  // A range: the focus is in the dialog, and comes back.
  await press('t');
  await page.getByRole('dialog', { name: 'Time range' }).waitFor();
  await waitFor('the focus in the dialog', () => page.evaluate(() => !!document.activeElement.closest('[role=dialog]')));
  await press('Escape');
  assert.equal(await page.evaluate(() => document.activeElement.id), 'range');
  // What is kept: one Tab leads out of the list of metrics.
  await press('m');
  await page.getByRole('region', { name: 'Metrics' }).getByText('10 of 10 metrics').waitFor();
  await press('ArrowDown', 'ArrowDown', 'Enter');
  await tab('What is kept of it', 3);
  await press('Enter');
  await page.waitForURL(/#\/cache/);
});

test('a query of some seconds is cancelled, in the server too', async () => {
  const running = async () => (await (await fetch(`${world.base}api/v1/status/queries`)).json()).data.length;
  await open({ executor: 'prometheus', step: '1' });
  await editor().fill('sum(quantile_over_time(0.5, http_requests_total[1h:1s]))');
  await editor().press('Enter');
  await page.getByText(/Evaluating… ([3-9]|\d\d+)\.\d s/).waitFor();
  assert.equal(await running(), 1);
  await page.keyboard.press('Escape');
  await page.getByText(/^Cancelled after (([3-9]|\d\d+)\.\d+ s|\d+ min)/).waitFor();
  await waitFor('the end of it', async () => (await running()) === 0);
});

test('hostile labels are text, numbers that cannot be drawn are told, and long values stay in their place', async () => {
  const made = (e, more = {}) => visit(`${world.below}#/query?${new URLSearchParams({ e, m: 'range', v: 'chart', ...more })}`);
  await made('hostile', { m: 'instant', v: 'table' });
  await page.locator('td.value').nth(hostile.length - 1).waitFor();
  assert.deepEqual(await page.locator('tbody td:nth-child(4)').evaluateAll((all) => all.map((td) => td.textContent)), hostile);
  const edge = await page.evaluate(() => [...document.querySelectorAll('td.value')].every((td) => td.getBoundingClientRect().right <= document.querySelector('.side').getBoundingClientRect().left));
  assert.ok(edge, 'values are in sight beside a label of 3 000 characters');
  await made('hostile');
  await page.locator('button.series').nth(hostile.length - 1).waitFor();
  const names = await page.locator('button.series').evaluateAll((all) => all.map((b) => b.textContent));
  assert.match(names[2], /value="\\"quoted\\" \\\\ \\n second line"}$/, 'names are PromQL');
  assert.match(names[4], /value="עברית \\u200f\\u202eabc"}$/, 'marks of direction are written out');
  assert.equal(new Set(names).size, hostile.length);
  await shot('owner-hostile');
  await made('native');
  await page.getByText('Native histograms are not drawn: ask for histogram_quantile').waitFor();
  await page.getByRole('tab', { name: 'Table' }).click();
  assert.match(await text(page.locator('td.value')), /^histogram: count \d+, sum 12.5$/);
  for (const shape of ['', 'log=1', 'stacked=1']) {
    await made('numbers', { s: shape });
    await page.waitForFunction(() => performance.getEntriesByName('draw', 'measure').length > 0);
    const lines = await page.evaluate(() => {
      const c = document.querySelector('.plot .layer');
      return new Uint32Array(c.getContext('2d').getImageData(0, 0, c.width, c.height).data.buffer).filter((p) => p !== 0).length;
    });
    assert.ok(lines > 300, `${lines} pixels of ${shape}`);
    assert.match(await text(page.locator('.legend')), /kind="nan"}\s+–[\s\S]*kind="inf"}\s+–[\s\S]*3.61e302/);
  }
});

test('on a large screen a chart has its legend beside it, and two panels stand beside each other', async () => {
  const screen = { viewport: { width: 3840, height: 2160 } };
  await open({}, screen);
  await ask('node_memory_bytes');
  const box = (selector) => page.locator(selector).first().boundingBox();
  const [panel, over, legend] = [await box('.panel'), await box('.u-over'), await box('.legend')];
  assert.ok(panel.width > 3700, `the panel is ${panel.width} px wide`);
  assert.ok(legend.x > over.x + over.width && over.width > 1500 && over.height > 500, 'the legend is beside a large chart');
  await page.getByRole('button', { name: 'Add panel' }).click();
  await waitFor('two columns', async () => {
    const [a, b] = await Promise.all([0, 1].map((i) => page.locator('.panel').nth(i).boundingBox()));
    return b.x > a.x + a.width - 1 && Math.abs(a.y - b.y) < 2;
  });
});

/** Controls that a screen reader has no name for. */
function nameless() {
  return [...document.querySelectorAll('button, input, select, a, [role=dialog], [role=tablist], [role=radiogroup]')].filter((e) => e.checkVisibility() && e.tabIndex >= 0)
    .filter((e) => !(e.getAttribute('aria-label') || e.labels?.length || e.textContent.trim())).map((e) => e.outerHTML.slice(0, 80));
}

for (const [name, options] of Object.entries({
  '320 px, light': { viewport: { width: 320, height: 700 }, colorScheme: 'light' }, '320 px, dark': { viewport: { width: 320, height: 700 }, colorScheme: 'dark' },
  '4k, light': { viewport: { width: 3840, height: 2160 }, colorScheme: 'light' }, '4k, dark': { viewport: { width: 3840, height: 2160 }, colorScheme: 'dark' },
})) {
  test(`the plan, the comparison and the metrics are legible and named: ${name}`, async () => {
    await open({ compare: '1' }, options);
    await know();
    await ask('sum by (job) (rate(http_requests_total[5m])) / 2');
    await page.locator('.verdict .speed').waitFor();
    await explore('http_requests_total');
    await page.getByRole('button', { name: /^job\s/ }).click();
    await page.getByRole('button', { name: 'job=job-1' }).waitFor();
    await shot(`owner-${name.replace(', ', '-').replace(' px', '')}`);
    const wide = await page.evaluate(() => document.documentElement.scrollWidth - innerWidth);
    const beyond = () => [...document.querySelectorAll('main *')].filter((e) => e.getBoundingClientRect().right > innerWidth && !e.closest('.scroll')).map((e) => `${e.tagName}.${e.className}`);
    assert.ok(wide <= 0, `${wide} px wider than the window: ${(await page.evaluate(beyond)).join(' ')}`);
    assert.deepEqual(await page.evaluate(faintTexts), []);
    assert.deepEqual(await page.evaluate(nameless), []);
  });
}
