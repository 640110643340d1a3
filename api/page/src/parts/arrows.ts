/** Lets the arrow keys choose among the buttons of a group, one of which Tab reaches. */
export function arrows(e: KeyboardEvent) {
  const by = { ArrowLeft: -1, ArrowRight: 1 }[e.key];
  const all = [...(e.currentTarget as HTMLElement).querySelectorAll('button')];
  const at = all.indexOf(e.target as HTMLButtonElement);
  if (!by || at < 0) return;
  const next = all[(at + by + all.length) % all.length]!;
  next.focus();
  next.click();
}
