// What is shown, as a file.

export function save(name: string, content: Blob) {
  const a = document.createElement('a');
  a.href = URL.createObjectURL(content);
  a.download = name;
  a.click();
  setTimeout(() => URL.revokeObjectURL(a.href), 60_000);
}

const cell = (v: string | number) => (typeof v === 'string' && /[",\r\n]/.test(v) ? `"${v.replaceAll('"', '""')}"` : String(v));

/** A table as RFC 4180 has it. The page can do something else between its rows. */
export async function csv(head: string[], rows: number, row: (i: number) => (string | number)[]): Promise<Blob> {
  const parts = [`${head.map(cell).join(',')}\r\n`];
  let until = performance.now() + 20;
  for (let i = 0; i < rows; i++) {
    parts.push(`${row(i).map(cell).join(',')}\r\n`);
    if (performance.now() < until) continue;
    await new Promise((done) => setTimeout(done));
    until = performance.now() + 20;
  }
  return new Blob(parts, { type: 'text/csv' });
}

/** A moment in seconds as tables have it. */
export const stamp = (seconds: number): string => new Date(seconds * 1000).toISOString().replace('.000Z', 'Z');

/** A picture with a title, what canvases show, and names with their colours below. */
export function picture(title: string, from: HTMLElement, names: [name: string, colour: string][], more: string): Promise<Blob> {
  const box = from.getBoundingClientRect();
  const dpr = devicePixelRatio;
  const line = 20;
  const { backgroundColor, color, fontFamily } = getComputedStyle(from.closest('.panel') ?? from);
  const out = document.createElement('canvas');
  Object.assign(out, { width: (box.width + 32) * dpr, height: (box.height + 56 + line * (names.length + (more ? 1 : 0))) * dpr });
  const g = out.getContext('2d')!;
  g.scale(dpr, dpr);
  g.fillStyle = backgroundColor;
  g.fillRect(0, 0, out.width, out.height);
  g.fillStyle = color;
  g.font = `600 14px ${fontFamily}`;
  g.fillText(title, 16, 26, box.width);
  for (const c of from.querySelectorAll('canvas')) {
    const at = c.getBoundingClientRect();
    g.drawImage(c, 16 + at.left - box.left, 40 + at.top - box.top, at.width, at.height);
  }
  g.font = `12px ${fontFamily}`;
  names.forEach(([name, colour], i) => {
    const y = box.height + 56 + i * line;
    g.fillStyle = colour;
    g.fillRect(16, y - 5, 12, 3);
    g.fillStyle = color;
    g.fillText(name, 36, y, box.width - 20);
  });
  g.fillText(more, 36, box.height + 56 + names.length * line);
  return new Promise((done, fail) => out.toBlob((b) => (b ? done(b) : fail(new Error('The browser makes no picture of this size.'))), 'image/png'));
}
