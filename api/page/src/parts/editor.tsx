// The editor of an expression. CodeMirror, which it is, comes after the page; until then the expression is shown as text.
import { useEffect, useRef, useState } from 'preact/hooks';
import type { EditorView } from '@codemirror/view';

export interface Handle {
  focus(): void;
  set(text: string): void;
  /** Puts text where the cursor is, in place of what is selected. */
  insert(text: string): void;
  text(): string;
}

export interface Props {
  value: string;
  onRun: (expr: string) => void;
  handle?: (h: Handle | null) => void;
  label: string;
  placeholder?: string;
}

let open: typeof import('./codemirror').open | undefined;
const loading = import('./codemirror').then((all) => void (open = all.open));

export function Editor(props: Props) {
  const host = useRef<HTMLDivElement>(null);
  const view = useRef<EditorView | null>(null);
  const latest = useRef(props);
  latest.current = props;
  const [ready, setReady] = useState(!!open);
  useEffect(() => void loading.then(() => setReady(true)), []);

  useEffect(() => {
    if (!ready) return;
    const v = (view.current = open!(host.current!, latest));
    latest.current.handle?.({
      focus: () => v.focus(),
      set: (text) => v.dispatch({ changes: { from: 0, to: v.state.doc.length, insert: text } }),
      insert: (text) => v.dispatch(v.state.replaceSelection(text), { scrollIntoView: true }),
      text: () => v.state.doc.toString(),
    });
    return () => {
      latest.current.handle?.(null);
      v.destroy();
    };
  }, [ready]);

  // Back and a link bring another expression.
  useEffect(() => {
    const v = view.current;
    if (v && v.state.doc.toString() !== props.value) v.dispatch({ changes: { from: 0, to: v.state.doc.length, insert: props.value } });
  }, [props.value]);

  return <div class="editor" ref={host}><code>{props.value}</code></div>;
}
