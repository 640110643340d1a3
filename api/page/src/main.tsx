// The page: its views, their navigation, and keys.
import { render } from 'preact';
import { useEffect, useState } from 'preact/hooks';
import { change, recall, remember, run, useStore, zoomBack } from './lib/store';
import { scale, shift } from './lib/range';
import { get } from './lib/store';
import { Query } from './views/query';
import { Resample } from './views/resample';
import { Backtest } from './views/backtest';
import { Cache } from './views/cache';
import { Devices } from './views/devices';
import { Status } from './views/status';

const views: [name: string, title: string, view: () => preact.JSX.Element][] = [
  ['query', 'Query', Query],
  ['resample', 'Resample', Resample],
  ['backtest', 'Backtest', Backtest],
  ['cache', 'Cache', Cache],
  ['devices', 'Devices', Devices],
  ['status', 'Status', Status],
];

type Theme = 'auto' | 'light' | 'dark';

function applyTheme(theme: Theme) {
  if (theme === 'auto') delete document.documentElement.dataset.theme;
  else document.documentElement.dataset.theme = theme;
  dispatchEvent(new Event('themechange'));
}

const keys: [key: string, text: string][] = [
  ['Enter', 'run the expression'], ['Shift Enter', 'a new line in it'], ['Esc', 'cancel what is running'], ['/', 'to the first editor'], ['m', 'find a metric'],
  ['r', 'run everything again'], ['c', 'compare with Prometheus'], ['t', 'time range'], ['[  ]', 'earlier, later'], ['-', 'zoom out'], ['z', 'back from a zoom'], ['1 – 6', 'views'], ['?', 'these keys'],
];

function App() {
  const s = useStore();
  const [theme, setTheme] = useState<Theme>(recall<Theme>('theme', 'auto'));
  const [help, setHelp] = useState(false);
  useEffect(() => {
    applyTheme(theme);
    remember('theme', theme);
  }, [theme]);
  useEffect(() => {
    const press = (e: KeyboardEvent) => {
      if (e.key === 'Escape') {
        setHelp(false);
        document.querySelectorAll<HTMLElement>('button.cancel').forEach((b) => b.click());
        return;
      }
      const at = e.composedPath()[0] as HTMLElement;
      if (e.ctrlKey || e.metaKey || e.altKey || at.isContentEditable || /^(INPUT|TEXTAREA|SELECT)$/.test(at.tagName)) return;
      const act: Record<string, () => void> = {
        '?': () => setHelp((h) => !h),
        '/': () => document.querySelector('.editor')?.shadowRoot?.querySelector<HTMLElement>('.cm-content')?.focus(),
        m: () => document.querySelector<HTMLElement>('.metrics-button')?.click(),
        r: run,
        c: () => change({ compare: !get().compare }),
        t: () => document.getElementById('range')?.click(),
        '[': () => change(shift(get(), -0.5)),
        ']': () => change(shift(get(), 0.5)),
        '-': () => change(scale(get(), 2)),
        z: zoomBack,
      };
      views.forEach(([name], i) => (act[String(i + 1)] = () => change({ page: name })));
      if (act[e.key]) {
        e.preventDefault();
        act[e.key]!();
      }
    };
    document.addEventListener('keydown', press);
    return () => document.removeEventListener('keydown', press);
  }, []);
  const [name, title, View] = views.find(([n]) => n === s.page) ?? views[0]!;
  useEffect(() => {
    document.title = `${title} · promwarp`;
  }, [title]);
  const nextTheme: Record<Theme, Theme> = { auto: 'light', light: 'dark', dark: 'auto' };
  return (
    <>
      <header class="top">
        <a class="name" href="#/query">promwarp</a>
        <nav aria-label="Views">
          {views.map(([n, t]) => (
            <a key={n} href={`#/${n}`} aria-current={n === name ? 'page' : undefined} onClick={(e) => (e.preventDefault(), change({ page: n }))}>{t}</a>
          ))}
        </nav>
        <span class="spring" />
        <button class="quiet" onClick={() => setTheme(nextTheme[theme])} title="Colours: as the system, light, dark">{{ auto: 'Auto', light: 'Light', dark: 'Dark' }[theme]}</button>
        <button class="quiet" onClick={() => setHelp(!help)} aria-expanded={help} aria-label="Keys" title="Keys ( ? )">?</button>
      </header>
      {help && (
        <div class="popover keys" role="dialog" aria-label="Keys">
          <dl>{keys.map(([k, t]) => <><dt><kbd>{k}</kbd></dt><dd>{t}</dd></>)}</dl>
        </div>
      )}
      <main class={name}><View /></main>
    </>
  );
}

render(<App />, document.getElementById('app')!);
