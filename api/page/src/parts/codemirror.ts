// The editor of PromQL, CodeMirror. It lives in a shadow tree, where its styles are sheets that the document's
// policy allows: in the document they would be style elements.
import { EditorState, Prec } from '@codemirror/state';
import { EditorView, keymap, placeholder, drawSelection } from '@codemirror/view';
import { defaultKeymap, history, historyKeymap, insertNewlineAndIndent } from '@codemirror/commands';
import { acceptCompletion, autocompletion, closeBrackets, closeBracketsKeymap, closeCompletion, completionKeymap, selectedCompletion } from '@codemirror/autocomplete';
import { bracketMatching, HighlightStyle, indentOnInput, syntaxHighlighting } from '@codemirror/language';
import { lintKeymap } from '@codemirror/lint';
import { highlightSelectionMatches } from '@codemirror/search';
import { tags } from '@lezer/highlight';
import { PromQLExtension } from '@prometheus-io/codemirror-promql';
import { newCompleteStrategy } from '@prometheus-io/codemirror-promql/dist/esm/complete';
import { HTTPPrometheusClient, CachedPrometheusClient } from '@prometheus-io/codemirror-promql/dist/esm/client/prometheus';
import { base } from '../lib/api';
import { examples, recall } from '../lib/store';
import type { CompletionContext, CompletionResult } from '@codemirror/autocomplete';
import type { Props } from './editor';

// One client for all editors: it remembers names and labels for some minutes.
const client = new CachedPrometheusClient(new HTTPPrometheusClient({ url: base, httpErrorHandler: () => {} }));
const metrics = newCompleteStrategy({ remote: client });

/** Completes names, labels, functions, and in an empty editor what was run before. */
const complete = {
  async promQL(context: CompletionContext): Promise<CompletionResult | null> {
    if (context.pos === 0 && context.state.doc.length === 0) {
      const past = [...recall<string[]>('saved', []), ...recall<string[]>('past', []), ...examples()];
      const options = [...new Set(past)].map((label) => ({ label, type: 'text', detail: 'history' }));
      return options.length ? { from: 0, options, filter: false } : null;
    }
    // Where an expression may end, Enter runs it: operators are offered to who asks (Ctrl-Space) or types one.
    if (!context.explicit && /[)\]}]\s*$/.test(context.state.sliceDoc(0, context.pos))) return null;
    return metrics.promQL(context);
  },
};

const colours = HighlightStyle.define([
  { tag: tags.number, color: 'var(--code-number)' },
  { tag: tags.string, color: 'var(--code-string)' },
  { tag: tags.keyword, color: 'var(--code-word)', fontWeight: '600' },
  { tag: tags.function(tags.variableName), color: 'var(--code-word)' },
  { tag: tags.labelName, color: 'var(--code-label)' },
  { tag: tags.operator, color: 'var(--text)' },
  { tag: tags.modifier, color: 'var(--code-word)' },
  { tag: tags.invalid, color: 'var(--bad)' },
  { tag: tags.comment, color: 'var(--muted)', fontStyle: 'italic' },
]);

const theme = EditorView.theme({
  '&': { fontSize: '1.4rem', color: 'var(--text)', backgroundColor: 'transparent' },
  '&.cm-focused': { outline: 'none' },
  '.cm-content': { fontFamily: 'var(--mono)', padding: '0.9rem 0', caretColor: 'var(--text)', lineHeight: '1.5' },
  '.cm-line': { padding: '0 1.2rem' },
  '.cm-cursor': { borderLeftColor: 'var(--text)' },
  '.cm-placeholder': { color: 'var(--muted)' },
  '&.cm-focused > .cm-scroller > .cm-selectionLayer .cm-selectionBackground, .cm-selectionBackground': { background: 'var(--accent-soft)' },
  '.cm-matchingBracket, &.cm-focused .cm-matchingBracket': { backgroundColor: 'var(--accent-soft)', outline: 'none' },
  '.cm-selectionMatch': { backgroundColor: 'var(--accent-soft)' },
  '.cm-tooltip': { backgroundColor: 'var(--raised)', border: '1px solid var(--line)', borderRadius: '0.8rem', boxShadow: 'var(--shadow)', overflow: 'hidden', zIndex: '50' },
  '.cm-tooltip.cm-tooltip-autocomplete > ul': { fontFamily: 'var(--mono)', fontSize: '1.3rem', maxHeight: '18em', maxWidth: 'min(90vw, 72rem)' },
  '.cm-tooltip.cm-tooltip-autocomplete > ul > li': { padding: '3px 1rem', lineHeight: '1.5' },
  '.cm-tooltip-autocomplete ul li[aria-selected]': { background: 'var(--accent)', color: 'var(--on-accent)' },
  '.cm-tooltip-autocomplete ul li[aria-selected] .cm-completionDetail': { color: 'inherit' },
  '.cm-completionMatchedText': { textDecoration: 'none', fontWeight: '700' },
  '.cm-completionDetail': { color: 'var(--muted)', fontStyle: 'normal', marginLeft: '1em' },
  '.cm-completionIcon': { display: 'none' },
  '.cm-tooltip.cm-completionInfo': { padding: '0.8rem 1.2rem', maxWidth: '32rem', fontSize: '1.3rem', color: 'var(--muted)' },
  '.cm-diagnostic': { padding: '0.6rem 1.2rem', fontSize: '1.3rem', borderLeftWidth: '3px' },
  // In place of images, which the policy does not let an editor bring.
  '.cm-lintRange': { backgroundImage: 'none', textDecoration: 'underline wavy var(--muted) 1px', textUnderlineOffset: '3px' },
  '.cm-lintRange-error': { backgroundImage: 'none', textDecorationColor: 'var(--bad)' },
  '.cm-lintRange-warning, .cm-lintRange-info, .cm-lintRange-hint': { backgroundImage: 'none' },
  '.cm-diagnostic-error': { borderLeftColor: 'var(--bad)' },
});

/** Whether the completion that is selected is a name that stands before the cursor already. */
function written(state: EditorState): boolean {
  const c = selectedCompletion(state);
  return c?.type === 'constant' && c.label === state.sliceDoc(0, state.selection.main.head).match(/[\w:]+$/)?.[0];
}

/** Makes an editor in an element. What is asked of the props is asked of the latest ones. */
export function open(host: HTMLElement, latest: { readonly current: Props }): EditorView {
  const root = host.shadowRoot ?? host.attachShadow({ mode: 'open', delegatesFocus: true });
  const run = () => {
    closeCompletion(v);
    latest.current.onRun(v.state.doc.toString());
    return true;
  };
  const promql = new PromQLExtension().setComplete({ completeStrategy: complete });
  const v = new EditorView({
    parent: root,
    root,
    state: EditorState.create({
      doc: latest.current.value,
      extensions: [
        history(), drawSelection(), bracketMatching(), closeBrackets(), indentOnInput(), highlightSelectionMatches(),
        autocompletion({ icons: false, defaultKeymap: false }), syntaxHighlighting(colours), EditorView.lineWrapping, theme,
        EditorView.contentAttributes.of({ 'aria-label': latest.current.label, spellcheck: 'false', autocapitalize: 'off' }),
        placeholder(latest.current.placeholder ?? 'Expression, such as sum by (job) (rate(http_requests_total[5m]))'),
        Prec.highest(keymap.of([
          { key: 'Mod-Enter', run },
          { key: 'Enter', run: () => (!written(v.state) && acceptCompletion(v)) || run() }, // a completion that has only just come is not accepted
          { key: 'Shift-Enter', run: insertNewlineAndIndent },
          ...completionKeymap,
        ])),
        keymap.of([...closeBracketsKeymap, ...defaultKeymap, ...historyKeymap, ...lintKeymap]),
        promql.asExtension(),
      ],
    }),
  });
  return v;
}
