// Answers as a table and as JSON, errors and warnings.
import { useEffect, useMemo, useState } from 'preact/hooks';
import { Failure } from '../lib/api';
import { seriesOf, type QueryData, type Series } from '../lib/values';
import { bytes, count, many, moment } from '../lib/format';
import { csv, save, stamp } from '../lib/save';

const page = 200;
const inOrder = new Intl.Collator('en', { numeric: true }).compare;

/** Rows of labels and the newest value; of a range the number of values, too. */
export function Table({ data }: { data: QueryData }) {
  const all = seriesOf(data);
  const [shown, setShown] = useState(page);
  const [sort, setSort] = useState<{ by: string; down: boolean } | null>(null);
  const labels = useMemo(() => {
    const names = new Set<string>();
    for (const s of all) for (const k of Object.keys(s.metric)) names.add(k);
    return [...names].sort((a, b) => Number(b === '__name__') - Number(a === '__name__') || (a < b ? -1 : 1));
  }, [data]);
  const rows = useMemo(() => {
    if (!sort) return all;
    const sign = sort.down ? -1 : 1;
    return [...all].sort((a, b) => {
      if (sort.by !== '') return sign * inOrder(a.metric[sort.by] ?? '', b.metric[sort.by] ?? '');
      const [x, y] = [a.values.at(-1) ?? NaN, b.values.at(-1) ?? NaN];
      return Number.isNaN(x) ? 1 : Number.isNaN(y) ? -1 : sign * (x - y);
    });
  }, [data, sort]);
  if (!all.length) return <p class="empty">The answer is empty: no series has a value then.</p>;
  const range = data.resultType === 'matrix';
  const head = (by: string, text: string, cls = '') => (
    <th class={cls} aria-sort={sort?.by === by ? (sort.down ? 'descending' : 'ascending') : 'none'}>
      <button class="link" onClick={() => setSort({ by, down: sort?.by === by ? !sort.down : by === '' })}>
        {text}{sort?.by === by ? (sort.down ? ' ↓' : ' ↑') : ''}
      </button>
    </th>
  );
  const row = (s: Series) => [...labels.map((l) => s.metric[l] ?? ''), ...(range ? [s.size] : []), stamp(s.newest.at), s.newest.text];
  const download = async () => save('table.csv', await csv([...labels, ...(range ? ['values'] : []), 'time', 'value'], rows.length, (i) => row(rows[i]!)));
  return (
    <div class="scroll">
      <div class="chart-bar">
        <span class="hint">{range ? 'The newest value of each series' : many(rows.length, 'row', 'rows')}</span>
        <button class="tools" title="Save all rows as a table" onClick={() => void download()}>CSV</button>
      </div>
      <table class="data">
        <thead>
          <tr>
            {labels.map((l) => head(l, l))}
            {range && <th class="num">values</th>}
            <th class="num">at</th>
            {head('', 'value', 'num value')}
          </tr>
        </thead>
        <tbody>
          {rows.slice(0, shown).map((s) => (
            <tr key={s.name}>
              {labels.map((l) => <td key={l} title={s.metric[l]}>{s.metric[l] ?? ''}</td>)}
              {range && <td class="num">{count(s.size)}</td>}
              <td class="num">{moment(1000 * s.newest.at)}</td>
              <td class="num value" title={s.newest.text}>{s.newest.text}</td>
            </tr>
          ))}
        </tbody>
      </table>
      {rows.length > shown && (
        <p class="hint">{count(shown)} of {count(rows.length)} rows. <button class="link" onClick={() => setShown(shown + 5 * page)}>Show more</button></p>
      )}
    </div>
  );
}

const longestJSON = 200_000;

/** The body as it came, with line breaks where it is short. */
export function Raw({ body }: { body: Blob }) {
  const [pretty, setPretty] = useState('');
  const [copied, setCopied] = useState(false);
  useEffect(() => {
    let gone = false;
    void body.slice(0, longestJSON).text().then((text) => gone || setPretty(body.size < longestJSON ? JSON.stringify(JSON.parse(text), null, 2) : text));
    setCopied(false);
    return () => void (gone = true);
  }, [body]);
  const copy = () => body.text().then((text) => navigator.clipboard.writeText(text)).then(() => setCopied(true));
  return (
    <div class="raw">
      <p class="hint">
        {bytes(body.size)}{body.size >= longestJSON && `, of which the first ${bytes(longestJSON)} are shown`}
        {isSecureContext && <> · <button class="link" onClick={copy}>{copied ? 'Copied' : 'Copy all'}</button></>}
      </p>
      {pretty && <pre tabIndex={0}>{pretty}</pre>}
    </div>
  );
}

const kinds: Record<string, string> = {
  bad_data: 'The request is wrong', execution: 'The query cannot be computed', timeout: 'The time is up', canceled: 'The query was canceled',
  unavailable: 'Not available now', range: 'The time range is wrong', internal: 'promwarp made a mistake', network: 'No answer', not_found: 'Not there',
};

/** An error, in words first. */
export function Problem({ error, retry }: { error: unknown; retry?: () => void }) {
  const f = error instanceof Failure ? error : new Failure(String((error as Error)?.message ?? error), 0, 'page');
  return (
    <div class="error" role="alert">
      <strong>{kinds[f.kind] ?? 'It failed'}</strong>
      <p>{f.message}</p>
      {f.hint && !f.message.includes(f.hint) && <p>{f.hint}</p>}
      {f.message.includes('exceeded maximum resolution') && <p>Without a step of yours, the page chooses one that fits the range.</p>}
      <p class="hint">{f.status ? `HTTP ${f.status}, ${f.kind || 'no type'}` : f.kind}{retry && <> · <button class="link" onClick={retry}>Try again</button></>}</p>
    </div>
  );
}

export function Notes({ warnings, infos }: { warnings: string[]; infos: string[] }) {
  if (!warnings.length && !infos.length) return null;
  return (
    <ul class="notes">
      {warnings.map((w) => <li key={w} class="warning">{w}</li>)}
      {infos.map((w) => <li key={w}>{w}</li>)}
    </ul>
  );
}
