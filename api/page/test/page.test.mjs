// The page in a browser, in front of real servers.
import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { test } from 'node:test';
import { at, page, shot, visit, world } from './session.mjs';
import { faintTexts, waitFor } from './world.mjs';
import './charts.mjs';

const rate = 'sum by (job) (rate(http_requests_total[5m]))';
const asked = (expr, fields = {}) => at('query', { from: 'now-1h', ...fields, e: expr, m: fields.m ?? 'range', v: fields.v ?? 'chart' });
const editor = (n = 0) => page.locator('.editor').nth(n).locator('.cm-content');
const panel = (n = 0) => page.locator('.panel').nth(n);
const text = (locator) => locator.innerText();

test('the address that the demo prints has its queries', async () => {
  await visit(world.address);
  await page.getByText('histogram_quantile(0.99').waitFor();
  await page.getByText('sum by (job, code) (increase(').click();
  await page.locator('.chart .u-over').waitFor();
  assert.match(await text(editor()), /sum by \(job, code\)/);
  await page.getByRole('button', { name: 'History' }).click();
  assert.equal(await page.locator('.past li').count(), 9);
});

test('an expression is typed with completion, checked, and run', async () => {
  await visit(world.base);
  await editor().click();
  await page.keyboard.type('sum by (job) (rate(http_requests_t', { delay: 15 });
  const option = page.locator('.cm-tooltip-autocomplete li', { hasText: 'http_requests_total' }).first();
  await option.waitFor();
  await option.click();
  await page.keyboard.type('[5m]');
  await page.keyboard.press('End');
  await page.keyboard.press('Control+Enter');
  await page.locator('.chart .u-over').waitFor();
  assert.equal(await text(editor()), rate);
  assert.match(await text(panel().locator('.summary')), /ms[\s\S]*series[\s\S]*values/);
  assert.match(decodeURIComponent(page.url()), /e=sum\+by/);
  assert.equal(await page.locator('.legend tbody tr').count(), 4);

  // Enter runs a name that is complete, though others that begin like it are offered.
  await editor().fill('');
  await page.keyboard.type('node_memory_bytes', { delay: 15 });
  await page.locator('.cm-tooltip-autocomplete li[aria-selected]', { hasText: 'node_memory_bytes' }).waitFor();
  await page.keyboard.press('Enter');
  await page.waitForURL(/e=node_memory_bytes/);
  assert.equal(await page.locator('.cm-tooltip-autocomplete').count(), 0);

  await editor().press('Control+a');
  await page.keyboard.type('sum(rate(up))');
  await page.locator('.cm-lintRange-error').waitFor();
});

test('dragging zooms, and Back leads out again', async () => {
  await visit(asked(rate));
  const over = page.locator('.u-over');
  await over.waitFor();
  const box = await over.boundingBox();
  await page.mouse.move(box.x + box.width * 0.3, box.y + 50);
  await page.mouse.down();
  await page.mouse.move(box.x + box.width * 0.6, box.y + 60, { steps: 8 });
  await page.mouse.up();
  await page.waitForURL(/from=\d{13}&to=\d{13}/);
  const [, from, to] = page.url().match(/from=(\d+)&to=(\d+)/).map(Number);
  assert.ok(Math.abs((to - from) / (3600e3 * 0.3) - 1) < 0.1, `a third of an hour: ${to - from} ms`);
  await page.goBack();
  await page.getByRole('button', { name: 'Last 1h' }).waitFor();
});

test('the calendar and the texts choose a range', async () => {
  await visit(at('query'));
  await editor().waitFor(); // then keys are listened to
  await page.keyboard.press('t');
  const dialog = page.getByRole('dialog', { name: 'Time range' });
  await dialog.locator('.days button:not(:disabled)').last().click();
  await dialog.getByLabel('From').fill('tomorrow');
  assert.match(await text(dialog.getByRole('alert')), /is no time/);
  assert.ok(await dialog.getByRole('button', { name: 'Apply' }).isDisabled());
  await dialog.getByLabel('From').fill('now-30m');
  await dialog.getByLabel('To').fill('now');
  await dialog.getByRole('button', { name: 'Apply' }).click();
  await page.waitForURL(/from=now-30m/);
  await page.keyboard.press('-');
  await page.getByRole('button', { name: 'Last 1h' }).waitFor();
});

test('what a query would cost is said before it runs', async () => {
  await visit(asked(rate));
  await page.locator('.chart .u-over').waitFor();
  await page.getByRole('button', { name: 'Cost', exact: true }).click();
  const said = panel().locator('p.hint[role=status]');
  await said.waitFor();
  assert.match(await text(said), /^It reads .* series and .* samples, fetches .*, most of it to (fetch|decode|evaluate) http_requests_total\.$/);
});

test('the executor is chosen, and the plan says who evaluates what and why', async () => {
  await visit(asked(rate, { executor: 'gpu' }));
  const plan = page.locator('.side');
  await plan.locator('.badge.gpu').first().waitFor();
  assert.match(await text(plan), /stages beside each other[\s\S]*decode/);
  assert.match(await text(plan), /tiles? kept/);
  await page.getByLabel('Executor').selectOption('prometheus');
  await plan.getByText('the request asked for Prometheus’s engine'.replace('’', "'")).first().waitFor();
  assert.equal(await plan.locator('.badge.gpu').count(), 0);
  assert.match(page.url(), /executor=prometheus/);
});

test('answers are compared with Prometheus’s to the bit', async () => {
  // Of a range in which no more samples arrive between the two requests.
  const end = Date.now() - 600_000;
  await visit(asked(rate, { compare: '1', from: end - 3_600_000, to: end }));
  await page.getByText('Identical to the bit').waitFor();
  assert.match(await text(page.locator('.verdict')), /promwarp[\s\S]*Prometheus[\s\S]*4 series/);
  // One digit of one value is another.
  await page.route('**/api/v1/query_range', async (route) => {
    if (!route.request().postData().includes('executor=prometheus')) return route.continue();
    const response = await route.fetch();
    const body = await response.json();
    const point = body.data.result[2].values[5];
    point[1] += point[1].includes('.') ? '1' : '.1';
    await route.fulfill({ response, json: body });
  });
  await page.getByRole('button', { name: 'Refresh' }).click();
  await page.getByText('The answers differ').waitFor();
  assert.match(await text(page.locator('.verdict')), /in 1 place[\s\S]*\{job="job-2"\} at \d+/);
  await page.getByText('of this run').waitFor();
  assert.equal(await page.getByRole('button', { name: 'Ask with exact=bits' }).count(), 0, 'rate has Prometheus’s bits');
});

test('where a function stays within 1e-12, differing answers are asked for again with Prometheus’s bits', async () => {
  const end = Date.now() - 600_000;
  let bits = false;
  await visit(at('query'));
  await page.route('**/api/v1/query_range', async (route) => {
    const sent = route.request().postData();
    bits ||= sent.includes('exact=bits');
    if (bits || !sent.includes('executor=prometheus')) return route.continue();
    const response = await route.fetch();
    const body = await response.json();
    body.data.result[0].values[5][1] += '1';
    await route.fulfill({ response, json: body });
  });
  await page.goto(asked('avg(avg_over_time(http_requests_total[10m]))', { compare: '1', from: end - 3_600_000, to: end }));
  await page.getByRole('button', { name: 'Ask with exact=bits' }).click();
  await page.getByText('Identical to the bit').waitFor();
  assert.ok(bits);
  assert.match(page.url(), /exact=bits/);
  assert.ok(await page.getByLabel('Bits').isChecked());
});

test('an error is said in words, and can be tried again', async () => {
  await visit(asked('sum(rate(http_requests_total'));
  const error = page.getByRole('alert');
  await error.waitFor();
  assert.match(await text(error), /The request is wrong[\s\S]*parse error[\s\S]*HTTP 400/);
  await page.route('**/api/v1/query_range', (route) => route.abort());
  await page.getByRole('button', { name: 'Refresh' }).click();
  await page.getByText('The server cannot be reached').waitFor();
  await page.unroute('**/api/v1/query_range');
  await editor().fill('up');
  await editor().press('Enter');
  await page.locator('.chart .u-over').waitFor();
  assert.equal(await page.getByRole('alert').count(), 0);
});

test('what is running shows progress and is cancelled', async () => {
  await visit(world.base);
  let release;
  const held = new Promise((resolve) => (release = resolve));
  await page.route('**/api/v1/query_range', async (route) => {
    await held;
    await route.abort().catch(() => {});
  });
  await editor().fill('up');
  await editor().press('Enter');
  await page.getByText('Evaluating…').waitFor();
  // Another run takes its place, and is still under way once the first is given up.
  await editor().fill('vector(2)');
  await editor().press('Enter');
  await page.waitForURL(/vector/);
  await page.waitForTimeout(300);
  assert.match(await text(page.locator('.summary')), /Evaluating…/);
  await page.keyboard.press('Escape');
  await page.getByText(/^Cancelled after/).waitFor();
  await page.getByRole('button', { name: 'Run', exact: true }).waitFor();
  assert.equal(await page.getByRole('alert').count(), 0);
  release();
  await page.unroute('**/api/v1/query_range');
  await page.getByRole('button', { name: 'Ask again' }).click();
  await page.locator('.chart .u-over').waitFor();
  assert.equal(await page.getByText(/^Cancelled after/).count(), 0);
});

test('instant queries, tables and JSON, in several panels', async () => {
  await visit(asked(rate, { m: 'instant', v: 'table' }));
  await page.locator('table.data tbody tr').first().waitFor();
  assert.equal(await page.locator('table.data tbody tr').count(), 4);
  await page.getByRole('button', { name: 'value' }).click();
  const values = (await page.locator('td.value').allInnerTexts()).map(Number);
  assert.deepEqual(values, [...values].sort((a, b) => b - a), 'sorted by value');
  await page.getByRole('tab', { name: 'Table' }).press('ArrowRight');
  assert.equal(JSON.parse(await text(page.locator('pre'))).status, 'success');
  await page.getByRole('button', { name: 'Add panel' }).click();
  await editor(1).fill('count(up)');
  await editor(1).press('Enter');
  await panel(1).locator('.chart .u-over').waitFor();
  await page.getByRole('button', { name: 'Remove panel 1' }).click();
  assert.equal(await page.locator('.panel').count(), 1);
  assert.equal(await text(editor()), 'count(up)');
});

test('samples are resampled and downloaded', async () => {
  await visit(at('resample'));
  await editor().fill('node_memory_bytes');
  await page.getByRole('button', { name: 'max', exact: true }).click();
  await page.getByLabel('Group by').fill('job');
  await page.getByLabel('Fill').fill('null');
  await page.getByRole('button', { name: 'Resample' }).first().click();
  await page.locator('.chart .u-over').waitFor();
  assert.match(page.url(), /r\.aggregates=mean%2Cmax/);
  assert.match(await text(page.locator('.side')), /buckets of[\s\S]*samples[\s\S]*decode/);
  const download = async (name) => {
    const [d] = await Promise.all([page.waitForEvent('download'), page.getByRole('link', { name, exact: true }).click()]);
    return readFileSync(await d.path());
  };
  const [head, ...rows] = (await download('CSV')).toString().trim().split('\n');
  assert.equal(head.trim(), 'job,timestamp,mean,max');
  assert.ok(rows.length > 4);
  assert.equal((await download('Parquet')).subarray(0, 4).toString(), 'PAR1');
  assert.equal((await download('Arrow')).readUInt32LE(0), 0xffffffff);
  await page.getByLabel('Group by').fill('()');
  await page.getByRole('button', { name: 'Resample' }).first().click();
  await waitFor('one group', async () => (await page.locator('.legend tbody tr').count()) === 2);
  await page.getByLabel('Every').fill('often');
  await page.getByRole('button', { name: 'Resample' }).first().click();
  await page.getByRole('alert').waitFor();
  assert.match(await text(page.getByRole('alert')), /every/);
});

const rules = 'groups:\n- name: g\n  interval: 15s\n  rules:\n  - alert: Busy\n    expr: sum by (job) (rate(http_requests_total[5m])) > 0.001\n    for: 5m\n  - alert: Never\n    expr: node_memory_bytes < 0\n';

test('alerts are tried on the past, and moved by sliders', async () => {
  await visit(at('backtest', { from: 'now-1h' }));
  await page.getByLabel('Rules, as in').fill(rules);
  await page.getByRole('button', { name: 'Try', exact: true }).click();
  const asked = [];
  page.on('request', (r) => r.url().includes('backtest') && asked.push(new URLSearchParams(r.postData())));
  await page.locator('.spells .firing[d*=M]').first().waitFor({ state: 'attached' });
  await page.getByText(/answered in/).waitFor();
  const fired = () => text(page.locator('.figures b').first());
  assert.ok(Number(await fired()) >= 1);
  assert.match(page.url(), /rules=groups/);
  // A slider that moves fast asks once it rests, for the same times.
  const slider = page.getByLabel(/^threshold/);
  for (let k = 0; k < 5; k++) await slider.press('ArrowRight');
  await waitFor('another threshold', async () => asked.some((a) => Number(a.get('threshold')) > 0.001));
  assert.equal(new Set(asked.map((a) => a.get('end'))).size, 1);
  await page.getByLabel(/^for:/).press('End'); // a day, in an hour
  await waitFor('nothing fires', async () => (await fired()) === '0');
  await page.getByRole('button', { name: 'As in the file' }).click();
  await waitFor('it fires again', async () => Number(await fired()) >= 1);
  await page.getByText(/^\d+ firings?$/).click();
  await page.locator('details td', { hasText: 'job=' }).first().waitFor();
  await page.getByRole('button', { name: 'Never: 0' }).click();
  await page.getByText('node_memory_bytes < 0').last().waitFor();
  await waitFor('none', async () => (await fired()) === '0');
  await page.getByLabel('Rules, as in').fill('groups: [');
  await page.getByLabel('Rules, as in').press('Control+Enter');
  assert.match(await text(page.getByRole('alert')), /rules.*yaml/);
});

test('the cache shows its selectors, and drops one', async () => {
  await visit(asked(rate));
  await page.locator('.chart .u-over').waitFor();
  await page.getByRole('link', { name: 'Cache' }).click();
  const row = page.locator('.tiles tbody tr', { hasText: 'http_requests_total' });
  await row.locator('.tile-strip i').first().waitFor({ state: 'attached' });
  assert.match(await text(row), /\d (B|[KM]iB)/);
  await page.getByRole('button', { name: 'Drop http_requests_total' }).click();
  await page.getByRole('button', { name: 'Drop?' }).click();
  await page.getByText(/Dropped \d+ tiles? of 1 selector/).waitFor();
  await row.waitFor({ state: 'detached' });
});

test('devices show their memory, stages and the crossover', async () => {
  await (await fetch(`${world.base}api/v1/query?executor=gpu&query=${encodeURIComponent(rate)}`)).text();
  await visit(at('devices'));
  await page.getByText('GPU 0: promwarp host device 0').waitFor();
  await page.getByText('taken by promwarp').waitFor();
  await page.getByText('Against the ceilings').waitFor();
  await page.getByText('A GPU that has the chunks is faster').waitFor();
  await page.getByRole('img', { name: 'Expected time by samples' }).locator('canvas').waitFor();
});

test('status shows the settings, and a query that is cancelled', async () => {
  await visit(at('status'));
  await page.getByText('--web.enable-admin-api').waitFor();
  await page.getByLabel('Filter settings').fill('cache.fresh');
  await waitFor('filtering', async () => (await page.getByText('--web.enable-admin-api').count()) === 0);
  await page.getByText('histogram_quantile', { exact: true }).waitFor();
  const slow = 'quantile_over_time(0.5, http_requests_total[2h:1s])';
  const now = Math.floor(Date.now() / 1000);
  const form = new URLSearchParams({ query: slow, start: now - 7200, end: now, step: 2, executor: 'prometheus' });
  const answered = fetch(`${world.base}api/v1/query_range`, { method: 'POST', body: form });
  await page.getByText(slow).waitFor();
  await page.getByText('evaluating', { exact: true }).waitFor();
  await page.getByRole('button', { name: /^Cancel query/ }).click();
  await page.getByRole('button', { name: 'Cancel it?' }).click();
  assert.equal((await (await answered).json()).errorType, 'canceled');
  await page.getByText('None at the moment').waitFor();
});

test('keys lead through the page', async () => {
  await visit(at('query'));
  await editor().waitFor();
  await page.keyboard.press('?');
  await page.getByRole('dialog', { name: 'Keys' }).waitFor();
  await page.keyboard.press('Escape');
  assert.equal(await page.getByRole('dialog').count(), 0);
  await page.keyboard.press('2');
  await page.waitForURL(/#\/resample/);
  await page.keyboard.press('1');
  await page.waitForURL(/#\/query/);
  await editor().waitFor();
  await page.keyboard.press('/');
  await page.keyboard.type('vector(1');
  await waitFor('typing', async () => (await text(editor())).startsWith('vector(1'));
});

test('it works below a path', async () => {
  await visit(`${world.below}#/query?${new URLSearchParams({ e: rate })}`);
  await page.locator('.chart .u-over').waitFor();
  await page.getByRole('link', { name: 'Status' }).click();
  await page.getByText('--upstream.url').waitFor();
});

const views = () => ({
  query: asked(rate, { compare: '1' }), error: asked('sum('), instant: asked(rate, { m: 'instant', v: 'table' }),
  beside: `${world.base}#/query?${new URLSearchParams([['columns', '2'], ['e', rate], ['e', 'node_memory_bytes'], ['m', 'range'], ['m', 'range'], ['v', 'chart'], ['v', 'chart'], ['s', 'stacked=1'], ['s', 'top=10&sort=-last']])}`,
  resample: at('resample', { 'r.match': 'node_memory_bytes', 'r.every': '5m', 'r.aggregates': 'mean,max', 'r.by': 'job' }),
  backtest: at('backtest', { from: 'now-1h', rules }), cache: at('cache'), devices: at('devices'), status: at('status'),
});

for (const [name, options] of Object.entries({
  light: { colorScheme: 'light' }, dark: { colorScheme: 'dark' }, phone: { viewport: { width: 390, height: 780 } }, narrow: { viewport: { width: 320, height: 640 } }, '4k': { viewport: { width: 3840, height: 2160 } }, ...(process.env.SHOTS && { 'phone, dark': { viewport: { width: 390, height: 780 }, colorScheme: 'dark' } }),
})) {
  test(`every view is legible: ${name}`, async () => {
    await visit(world.base, options);
    for (const [view, address] of Object.entries(views())) {
      await page.goto('about:blank');
      await page.goto(address, { waitUntil: 'networkidle' });
      await page.locator('main *').first().waitFor();
      await page.waitForFunction(() => !document.querySelector('.progress.on'));
      const wide = await page.evaluate(() => document.documentElement.scrollWidth - innerWidth);
      assert.ok(wide <= 0, `${view} is ${wide} px wider than the window`);
      assert.deepEqual(await page.evaluate(faintTexts), [], view);
      await shot(`${view}-${name.replace(', ', '-')}`);
    }
  });
}
