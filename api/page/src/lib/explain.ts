// What /explain answers: see plan.Explanation in the Go sources.

export interface CacheWork {
  tiles_kept: number;
  tiles_subsumed: number;
  tiles_fetched: number;
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
  remembered?: { kept_steps: number; evaluated_steps: number };
  children?: Decision[];
}

export interface Explanation {
  executor: string;
  /** How far values of some function may be from Prometheus's, relative. */
  tolerance?: number;
  analyzed: boolean;
  total_us?: number;
  cache?: CacheWork;
  upstreams?: { name: string; cache?: CacheWork; failure?: string }[];
  settings?: string[];
  plan: Decision;
}
