// What /explain answers: see plan.Explanation in the Go sources.

export interface CacheWork {
  tiles_kept: number;
  tiles_subsumed: number;
  tiles_fetched: number;
  /** Of those kept, from disk. */
  tiles_read?: number;
  fetches: number;
  shared_fetches: number;
  fetched_bytes: number;
  wait_us: number;
}

export interface Stages {
  batches: number;
  copied_bytes: number;
  resident_bytes: number;
  waited_us: number;
  prepare_us: number;
  copy_us: number;
  decode_us: number;
  window_us: number;
  fold_us: number;
  result_us: number;
  copy_bytes_per_second: number;
}

export interface Decision {
  expr: string;
  kind: string;
  executor: string;
  reason?: string;
  steps?: number;
  work?: {
    series: number;
    chunks: number;
    samples: number;
    kept: number;
    bytes: number;
    fetch_us: number;
    eval_us: number;
    result_series: number;
    result_points: number;
    device?: { leaves: number; chunks: number; samples: number; bytes: number; us: number };
  };
  choice?: { estimated_cpu_us: number; estimated_gpu_us: number; took_us: number; gpu?: number; stages?: Stages };
  remembered?: { kept_steps: number; evaluated_steps: number; ahead_steps?: number };
  /** What the node took together with those below it. */
  node?: { us: number; series: number; samples: number; kept: number; cache?: CacheWork };
  children?: Decision[];
}

export interface Explanation {
  executor: string;
  /** How far values of some function may be from Prometheus's, relative. */
  tolerance?: number;
  analyzed: boolean;
  total_us?: number;
  waited_us?: number;
  fetched_us?: number;
  evaluated_us?: number;
  /** Encoding and sending, of an answer that has its own explanation. */
  encoded_us?: number;
  cache?: CacheWork;
  upstreams?: { name: string; cache?: CacheWork; failure?: string }[];
  settings?: string[];
  plan: Decision;
}

/** Everything at and below a node. */
export const nodesOf = (d: Decision): Decision[] => [d, ...(d.children ?? []).flatMap(nodesOf)];

/** What the nearest measured nodes below took. */
const below = (d: Decision): number => (d.children ?? []).reduce((sum, c) => sum + (c.node?.us ?? below(c)), 0);

/** What a node took without those below it, in µs; nothing of one that is evaluated with another. */
export const ownTime = (d: Decision): number | undefined => d.node && Math.max(0, d.node.us - below(d));

/** Times of a run one after the other, in ms. */
export function stagesOf(e: Explanation, took: number): [name: string, ms: number, kind: string][] {
  const [waited, fetched, evaluated, encoded] = [e.waited_us, e.fetched_us, e.evaluated_us, e.encoded_us].map((us) => (us ?? 0) / 1000) as [number, number, number, number];
  return [
    ['waiting', waited, 'waited'], ['fetching', fetched, 'fetched'], ['evaluating', evaluated, 'all'],
    ['encoding', encoded, 'subsumed'], ['on the way', Math.max(0, took - waited - fetched - evaluated - encoded), 'waited'],
  ];
}

/** Steps that were remembered from earlier queries, of all aggregations, and those that were evaluated. */
export function remembered(e: Explanation): { kept: number; evaluated: number } {
  const all = nodesOf(e.plan).flatMap((d) => d.remembered ?? []);
  return { kept: all.reduce((n, r) => n + r.kept_steps, 0), evaluated: all.reduce((n, r) => n + r.evaluated_steps, 0) };
}
