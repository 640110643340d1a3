// Takes the pictures of the page that documents show, into a folder: `make pictures`.
import { writeFileSync } from 'node:fs';
import { openPage, openWorld, waitFor } from './world.mjs';

const [, , folder] = process.argv;
const world = await openWorld([], 600); // the size that users see
const base = world.address.split('#')[0];
const rate = 'sum by (job) (rate(http_requests_total[5m]))';
const address = (view, fields) => `${base}#/${view}?${new URLSearchParams(fields)}`;

/** Opens a view, has it made ready, and keeps its upper part, which WebP takes a third of PNG's bytes for. */
async function take(name, url, height, ready) {
  const page = await openPage(world, url, { viewport: { width: 1200, height }, colorScheme: 'light' });
  await ready(page);
  await page.waitForFunction(() => !document.querySelector('.progress.on'));
  await page.evaluate(() => new Promise((done) => requestAnimationFrame(() => setTimeout(done, 300))));
  const session = await page.context().newCDPSession(page);
  const { data } = await session.send('Page.captureScreenshot', { format: 'webp', quality: 82 });
  writeFileSync(`${folder}/${name}.webp`, Buffer.from(data, 'base64'));
  await page.close();
}

try {
  await take('query', address('query', { from: 'now-1d', e: rate, m: 'range', v: 'chart', compare: '1' }), 820, async (page) => {
    await page.getByText('Identical to the bit').waitFor({ timeout: 300_000 });
    const again = page.locator('.verdict').getByRole('button', { name: 'Evaluate all steps' });
    if (await again.count()) await again.click();
    await page.getByText(/all steps anew/).waitFor({ timeout: 300_000 });
  });
  await take('resample', address('resample', { from: 'now-1d', 'r.match': 'node_memory_bytes', 'r.every': '30m', 'r.aggregates': 'mean,max', 'r.by': 'job' }), 760,
    (page) => page.locator('.chart .u-over').waitFor());
  const now = Math.floor(Date.now() / 1000);
  for (const [query, hours] of [['sum(rate(node_cpu_seconds_total{mode!="idle"}[5m]))', 12], ['sum(http_request_duration_seconds_bucket)', 23], ['sum(kube_pod_memory_working_set_bytes)', 6]]) {
    const answer = await fetch(`${base}api/v1/query_range?${new URLSearchParams({ query, start: now - hours * 3600, end: now, step: 300 })}`);
    if (!answer.ok) throw new Error(await answer.text());
  }
  await take('cache', address('cache', {}), 450, (page) => waitFor('the selectors', async () => (await page.locator('.tiles tbody tr').count()) >= 5));
} finally {
  await world.close();
}
