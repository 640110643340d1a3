// What a browser loads before it paints: the styles, and the colours that the user chose. The page's code is asked for
// once the header is painted, however long a busy machine takes to send and compile it.
import 'uplot/dist/uPlot.min.css';
import './style/base.css';
import './style/parts.css';
import './style/views.css';
import './style/owner.css';

try {
  const theme = JSON.parse(localStorage.getItem('promwarp.theme') ?? '""') as string;
  if (theme === 'light' || theme === 'dark') document.documentElement.dataset.theme = theme;
} catch {
  // a private window
}

/** A page that is not in sight is not painted. */
const painted = new Promise<void>((done) => (document.hidden ? done() : requestAnimationFrame(() => setTimeout(done))));
painted.then(() => Promise.all([import('./main'), import('./parts/codemirror')])).catch(() => {
  document.querySelector('main')!.textContent = 'The script of this page cannot be loaded: load the page again.';
});
