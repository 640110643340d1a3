// A button that asks before it acts.
import { useEffect, useState } from 'preact/hooks';

export function Confirm(props: { text: string; question: string; label?: string; act: () => Promise<unknown> }) {
  const [asking, setAsking] = useState(false);
  const [busy, setBusy] = useState(false);
  useEffect(() => {
    if (!asking) return;
    const timer = setTimeout(() => setAsking(false), 8000);
    return () => clearTimeout(timer);
  }, [asking]);
  const act = async () => {
    setBusy(true);
    try {
      await props.act();
    } finally {
      setBusy(false);
      setAsking(false);
    }
  };
  if (!asking) return <button class="danger" aria-label={props.label} onClick={() => setAsking(true)}>{props.text}</button>;
  return (
    <span class="joined">
      <button class="danger" disabled={busy} onClick={act}>{props.question}</button>
      <button onClick={() => setAsking(false)}>No</button>
    </span>
  );
}
