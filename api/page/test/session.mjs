// What a file of tests has: a world, which is there from before the first of its tests until after the last, and a page,
// which is closed after each test and must have found nothing wrong.
import assert from 'node:assert/strict';
import { mkdirSync } from 'node:fs';
import { after, afterEach, before } from 'node:test';
import { openPage, openWorld } from './world.mjs';

export let world;
export let page;
before(async () => {
  world = await openWorld();
}, { timeout: 180_000 });
after(() => world?.close());
afterEach(async () => {
  const wrong = page?.wrong ?? [];
  await page?.close();
  page = undefined;
  assert.deepEqual(wrong, [], 'the browser found nothing wrong');
});

/** Opens an address in the page of the test, in place of one that is open. */
export async function visit(address, options) {
  await page?.close();
  page = await openPage(world, address, options);
  return page;
}

/** The address of a view. */
export const at = (view, fields = {}) => `${world.base}#/${view}?${new URLSearchParams(fields)}`;

/** Keeps a picture of the page where pictures are wanted. */
export async function shot(name) {
  if (!process.env.SHOTS) return;
  mkdirSync(process.env.SHOTS, { recursive: true });
  await page.screenshot({ path: `${process.env.SHOTS}/${name}.png`, fullPage: true });
}
