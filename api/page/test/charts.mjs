// Charts and tables: what is drawn of many series, how, how fast, and as which file.
import assert from 'node:assert/strict';
import { readFileSync, writeFileSync } from 'node:fs';
import { test } from 'node:test';
import { shot, visit, world } from './session.mjs';
import { waitFor } from './world.mjs';

const memory = 'node_memory_bytes';

const query = (fields, base = world.base) => `${base}#/query?${new URLSearchParams(fields)}`;
const chart = (expr, shape = '', fields = {}) => query({ ...fields, e: expr, m: 'range', v: 'chart', s: shape });
const drawn = (page) => page.waitForFunction(() => performance.getEntriesByName('draw', 'measure').length > 0);
const draw = async (page, act) => {
  await page.evaluate(() => performance.clearMeasures('draw'));
  await act();
  await drawn(page);
  return page.evaluate(() => performance.getEntriesByName('draw', 'measure')[0].duration);
};
const names = (page) => page.locator('.legend button.series').allInnerTexts();
const download = async (page, act) => {
  const [d] = await Promise.all([page.waitForEvent('download'), act()]);
  return { name: d.suggestedFilename(), content: readFileSync(await d.path()) };
};
/** How long tasks of a page's own thread took during something, in ms that the thread ran: other programs use the machine, too. */
const tasks = async (page, act) => {
  const session = await page.context().newCDPSession(page);
  const events = [];
  session.on('Tracing.dataCollected', (e) => events.push(...e.value));
  await session.send('Tracing.start', { transferMode: 'ReportEvents', traceConfig: { includedCategories: ['toplevel', '__metadata'] } });
  await act();
  const done = new Promise((resolve) => session.once('Tracing.tracingComplete', resolve));
  await session.send('Tracing.end');
  await done;
  const threads = new Set(events.filter((e) => e.name === 'thread_name' && e.args.name === 'CrRendererMain').map((e) => `${e.pid}/${e.tid}`));
  return events.filter((e) => /RunTask$/.test(e.name) && threads.has(`${e.pid}/${e.tid}`)).map((e) => (e.tdur ?? 0) / 1000);
};
/** How many pixels of the lines have a colour. */
const inked = (page) => page.evaluate(() => {
  const c = document.querySelector('.plot .layer');
  return new Uint32Array(c.getContext('2d').getImageData(0, 0, c.width, c.height).data.buffer).filter((p) => p !== 0).length;
});

test('a chart has its unit by the name of the metric, or the one that is chosen', async () => {
  const page = await visit(chart(memory));
  await drawn(page);
  assert.ok((await inked(page)) > 500);
  assert.match(await page.locator('.legend tbody td.last').first().innerText(), /^[\d.]+ [KMG]iB$/);
  assert.match(await page.getByLabel('Unit').locator('option').first().innerText(), /Bytes, by name/);
  await page.getByLabel('Unit').selectOption('percent');
  await page.waitForURL(/s=unit%3Dpercent/);
  assert.match(await page.locator('.legend tbody td.last').first().innerText(), /%$/);
  for (const [expr, unit] of [
    ['rate(http_request_duration_seconds_sum[5m]) / rate(http_request_duration_seconds_count[5m])', 'Seconds, by name'],
    ['histogram_quantile(0.99, sum by (le) (rate(http_request_duration_seconds_bucket[5m])))', 'Seconds, by name'],
    ['rate(node_memory_bytes[5m])', 'Bytes per second, by name'], ['sum(node_memory_bytes) / sum(node_memory_bytes)', 'Percent of 1, by name'],
    ['time() - process_start_time_seconds or node_memory_bytes * 0', 'Unit by name'], ['count(node_memory_bytes)', 'Unit by name'],
    ['100 * (node_memory_bytes / 1e9)', 'Unit by name'], ['node_memory_bytes > 5', 'Bytes, by name'], ['-(node_memory_bytes)', 'Bytes, by name'],
  ]) {
    await page.goto(chart(expr));
    await page.locator('.summary b').waitFor();
    await waitFor(`${expr} in ${unit}`, async () => (await page.getByLabel('Unit').locator('option').first().innerText()) === unit);
  }
});

test('areas are stacked, a log scale takes what is above 0, and both are in the address', async () => {
  const page = await visit(chart(memory));
  await drawn(page);
  const lines = await inked(page);
  await draw(page, () => page.getByRole('button', { name: 'Stacked' }).click());
  assert.ok((await inked(page)) > 4 * lines, 'areas are filled');
  assert.match(page.url(), /s=stacked%3D1/);
  await shot('stacked');
  await draw(page, () => page.getByRole('button', { name: 'Log' }).click());
  assert.match(page.url(), /s=log%3D1/);
  assert.equal(await page.getByRole('button', { name: 'Stacked' }).getAttribute('aria-pressed'), 'false');
  await page.goto(chart('-node_memory_bytes', 'log=1'));
  await page.locator('.summary b').waitFor();
  await drawn(page);
  assert.equal(await inked(page), 0);
  await page.goto(chart('node_memory_bytes / 0'));
  await page.getByText('no series has a finite number').waitFor();
});

test('of many series the top n are drawn, searched, sorted and chosen, and the address has the choice', async () => {
  const page = await visit(query({ e: 'lines_250', m: 'range', v: 'chart', step: '60' }, world.below));
  await drawn(page);
  assert.equal(await page.locator('.legend table').getAttribute('aria-rowcount'), '100');
  await page.getByText('100 drawn, 150 more in the table').waitFor();
  await page.getByLabel('How many series are drawn').selectOption('10');
  await page.getByLabel('Ranked by').selectOption('max');
  await page.getByRole('button', { name: 'max', exact: true }).click();
  await waitFor('ten rows', async () => (await names(page)).length === 10);
  assert.match((await names(page))[0], /number="249"/);
  await page.getByLabel('Filter series').fill('job-3 number="1');
  await waitFor('filtering', async () => (await names(page)).every((n) => n.includes('job-3') && n.includes('number="1')));
  const [, second] = await names(page);
  await page.locator('button.series').nth(1).click();
  await page.waitForURL(/only%3D\w+/);
  const copy = await world.browser.newPage();
  await copy.goto(page.url());
  await copy.locator('button.series[aria-pressed="true"]').waitFor();
  assert.equal(await copy.locator('button.series[aria-pressed="true"]').innerText(), second);
  assert.equal(await copy.getByLabel('Filter series').inputValue(), 'job-3 number="1');
  await copy.close();
  await page.getByRole('button', { name: 'Show all again' }).click();
  await page.getByLabel('Filter series').fill('nothing has this');
  await page.getByText('No series has these words').waitFor();
});

test('3 200 lines are drawn at once and followed by the cursor; of 20 000 the top 100, without a freeze', async (t) => {
  const page = await visit('about:blank');
  await page.goto(query({ e: 'lines_3200', m: 'range', v: 'chart', step: '10', s: 'top=5000' }, world.below));
  await drawn(page);
  // Other work on the machine takes time from attempts, so the best of three counts, against twice what an idle core may take.
  let took;
  let own = Infinity;
  for (let attempt = 0; attempt < 3 && own >= 600; attempt++) {
    const drawing = await tasks(page, async () => (took = await draw(page, () => page.getByRole('button', { name: 'Log' }).click())));
    own = Math.min(own, drawing.reduce((a, b) => a + b, 0));
  }
  const move = () => page.evaluate(async () => {
    const over = document.querySelector('.u-over');
    const { left, top } = over.getBoundingClientRect();
    const all = [];
    for (let i = 0; i < 60; i++) {
      const begin = performance.now();
      over.dispatchEvent(new MouseEvent('mousemove', { bubbles: true, clientX: left + 20 + i * 12, clientY: top + 20 + ((i * 37) % 190) }));
      if (!document.querySelector('.tip').getBoundingClientRect().width) throw new Error('no tip');
      all.push(performance.now() - begin);
      await new Promise((done) => requestAnimationFrame(() => setTimeout(done)));
    }
    return all.sort((a, b) => a - b);
  });
  let moves = [];
  for (let attempt = 0; attempt < 3 && !(moves[30] < 30); attempt++) moves = await move();
  assert.match(await page.locator('.tip').innerText(), /number="\d+"/);
  t.diagnostic(`3200 lines: ${took.toFixed(0)} ms, of which the page's thread ran ${own.toFixed(0)} ms; a move: ${moves[30].toFixed(1)} ms, at most ${moves.at(-1).toFixed(1)} ms`);
  assert.ok(own > 0 && own < 600, `3200 lines are drawn in ${own} ms`);
  assert.ok(moves[30] < 30, `a move takes ${moves} ms`);
  await shot('lines-3200');
  let longest = Infinity;
  for (let attempt = 0; attempt < 3 && longest >= 400; attempt++) {
    await page.goto('about:blank');
    const all = await tasks(page, async () => {
      await page.goto(query({ e: 'lines_20000', m: 'range', v: 'chart', step: '30' }, world.below));
      await drawn(page);
      await page.getByText('100 drawn, 19 900 more in the table'.replace('9 9', '9\u202f9')).waitFor();
      await page.getByLabel('Filter series').fill('number="19999"');
      await waitFor('the series that is searched', async () => (await names(page)).length === 1);
      await page.getByRole('tab', { name: 'Table' }).click();
      await page.locator('td.value').first().waitFor();
    });
    longest = Math.min(longest, Math.max(...all));
  }
  t.diagnostic(`20000 lines: the longest task ${longest.toFixed(0)} ms`);
  assert.ok(longest > 0 && longest < 400, `a task of ${longest} ms`);
});

test('a table is exported, and a chart as a table and as a picture', async () => {
  const page = await visit(world.base);
  await page.locator('.editor').click();
  await page.keyboard.type('sum by (job) (node_memory_bytes)', { delay: 5 });
  await page.keyboard.press('Control+Enter');
  await drawn(page);
  await shot('export-1');
  const rows = ({ content }) => content.toString().trim().split('\r\n');
  const lines = await download(page, () => page.getByRole('button', { name: 'CSV' }).click());
  assert.match(lines.name, /^node_memory_bytes-[\d-]+T\d+\.csv$/);
  assert.match(rows(lines)[0], /^time,"{job=""job-0""}",/);
  assert.match(rows(lines)[1], /^\d{4}-\d\d-\d\dT[\d:]+Z,/);
  assert.ok(rows(lines).length > 300);
  const image = await download(page, () => page.getByRole('button', { name: 'PNG' }).click());
  assert.equal(image.content.subarray(1, 4).toString(), 'PNG');
  assert.ok(image.content.readUInt32BE(16) > 600 && image.content.length > 5000);
  if (process.env.SHOTS) writeFileSync(`${process.env.SHOTS}/export-picture.png`, image.content);
  await page.getByRole('tab', { name: 'Table' }).click();
  await page.getByRole('button', { name: 'value' }).click();
  await shot('export-2');
  const table = await download(page, () => page.getByRole('button', { name: 'CSV' }).click());
  assert.equal(rows(table)[0], 'job,values,time,value');
  const shown = await page.locator('table.data td.value').allInnerTexts();
  assert.deepEqual(rows(table).slice(1).map((r) => r.split(',').at(-1)), shown, 'in the order that is shown');
});

test('panels stand beside each other, share a range, and a zoom leads back', async () => {
  const page = await visit(query([['e', memory], ['e', 'up'], ['m', 'range'], ['m', 'range'], ['v', 'chart'], ['v', 'chart']]));
  await page.locator('.u-over').nth(1).waitFor();
  await page.getByRole('radio', { name: '2', exact: true }).click();
  await page.waitForURL(/columns=2/);
  const [a, b] = await Promise.all([0, 1].map((i) => page.locator('.panel').nth(i).boundingBox()));
  assert.ok(b.x > a.x + a.width - 1 && Math.abs(a.y - b.y) < 2, 'beside each other');
  await page.waitForFunction(() => !document.querySelector('.progress.on'));
  await waitFor('the chart in its new size', async () => (await page.locator('.u-over').first().boundingBox()).width < a.width);
  await page.locator('.u-over').first().scrollIntoViewIfNeeded();
  const box = await page.locator('.u-over').first().boundingBox();
  await page.mouse.move(box.x + box.width * 0.4, box.y + 50);
  await page.mouse.down();
  await page.mouse.move(box.x + box.width * 0.6, box.y + 60, { steps: 6 });
  await page.mouse.up();
  await page.waitForURL(/from=\d{13}/);
  await page.getByRole('button', { name: 'Zoom back' }).click();
  await page.getByRole('button', { name: 'Last 1h' }).waitFor();
  assert.equal(await page.getByRole('button', { name: 'Zoom back' }).count(), 0);
  await page.getByRole('button', { name: 'Add panel' }).click();
  await waitFor('the focus', async () => page.evaluate(() => document.activeElement === document.querySelectorAll('.editor')[2]));
  await page.keyboard.type('vector(1');
  await waitFor('typing into the new panel', async () => (await page.locator('.editor').nth(2).locator('.cm-content').innerText()).startsWith('vector(1'));
});

test('times are in UTC or local, and answers are asked for again by themselves', async () => {
  const page = await visit(chart(memory), { timezoneId: 'Asia/Kolkata' });
  await drawn(page);
  await page.keyboard.press('t');
  const dialog = page.getByRole('dialog', { name: 'Time range' });
  assert.match(await dialog.innerText(), /Asia\/(Kolkata|Calcutta)/);
  await dialog.getByLabel('From').fill('2026-01-31 12:00');
  await dialog.getByLabel('To').fill('2026-01-31 13:00');
  await dialog.getByRole('button', { name: 'Apply' }).click();
  await page.waitForURL(new RegExp(`from=${Date.UTC(2026, 0, 31, 6, 30)}`));
  await page.keyboard.press('t');
  await dialog.getByLabel('UTC').check();
  await page.waitForURL(/tz=utc/);
  assert.equal(await dialog.getByLabel('From').inputValue(), '2026-01-31 06:30');
  await page.keyboard.press('Escape');
  await page.getByRole('button', { name: '2026-01-31 06:30 – 07:30 UTC' }).waitFor();
  let asked = 0;
  page.on('request', (r) => (asked += r.url().endsWith('/query_range') ? 1 : 0));
  await page.goto(chart(memory, '', { every: '1' }));
  await waitFor('three requests', async () => asked >= 3);
  await page.getByLabel('Refresh by itself').selectOption('0');
  assert.doesNotMatch(page.url(), /every/);
});

test('the chart and its legend are read and used by keys alone', async () => {
  const page = await visit(query({ e: 'lines_250', m: 'range', v: 'chart', step: '60' }, world.below));
  await drawn(page);
  const plot = page.getByRole('application', { name: /^100 series from/ });
  await plot.focus();
  await page.keyboard.press('End');
  const tip = page.locator('.tip');
  const first = await tip.innerText();
  await page.keyboard.press('ArrowLeft');
  const second = await tip.innerText();
  assert.notEqual(second.split('\n')[0], first.split('\n')[0], 'another moment');
  assert.equal(second.split('\n')[2], first.split('\n')[2], 'the same series');
  await page.keyboard.press('ArrowDown');
  assert.notEqual((await tip.innerText()).split('\n')[2], second.split('\n')[2], 'another series');
  assert.equal(await tip.getAttribute('aria-live'), 'polite');
  await page.keyboard.press('Escape');
  await tip.waitFor({ state: 'hidden' });
  await page.locator('button.series').first().focus();
  await waitFor('the row', async () => { // a key that comes before the next row is there moves nothing
    await page.keyboard.press('ArrowDown');
    return (await page.evaluate(() => document.activeElement.closest('tr')?.ariaRowIndex)) === '31';
  });
  await page.keyboard.press('Enter');
  await page.locator('button.series[aria-pressed="true"]').waitFor();
  const half = await page.evaluate(() => {
    const rows = document.querySelector('.legend .rows');
    return (rows.clientHeight - document.querySelector('.legend thead').offsetHeight) % 26;
  });
  assert.ok(half < 1, 'whole rows of the legend are in sight');
});

test('a range that is none is said, and the value is in sight on a phone', async () => {
  const page = await visit(query({ from: 'then', to: 'now', e: memory, m: 'range', v: 'chart' }), { viewport: { width: 320, height: 640 } });
  await page.getByText('“then” is no time').waitFor();
  await page.getByRole('button', { name: 'Choose a range' }).waitFor();
  for (const key of ['-', '[', ']']) await page.keyboard.press(key);
  assert.doesNotMatch(await page.locator('body').innerText(), /NaN/);
  await page.goto(query({ from: 'now', to: 'now', e: memory, m: 'range', v: 'chart' }));
  await page.getByText('must end after it begins').waitFor();
  await page.goto(query({ e: 'http_requests_total', m: 'instant', v: 'table' }));
  const cell = await page.locator('td.value').first().boundingBox();
  assert.ok(cell.x >= 0 && cell.x + cell.width <= 320, 'the value is in sight');
});
