// custom_runs: the states of a custom aggregate of the runs of a batch of series, or its results.
//
// Computes: for each series s and bucket k the program's state after its samples of
//   starts[k] <= t < ends[k], one after the other, see ../resample/state.h; or with `results` the result of that
//   state, fields[s*buckets+k]. n[s*buckets+k] = the number of samples. points[s] += the number of
//   runs.
// Grid: x tiles of 32 series, four a block of 128 threads; y ranges of buckets.
// A thread owns one series at `length` neighbouring buckets, and walks as count_uniqs does. The
//   state is in registers.
// Bytes per sample: reads 16 in columns, 2 to 12 in packed tiles, in rows of 32. Writes 4 a run, and 8 a
//   field or a result.
// Operations per sample: those of the program, and 10.
#include "../resample/stored.h"
#include "custom.h"

// A run while a program has its state. See walk_runs in ../resample/walk.h.
struct CustomRun {
  const Buckets& buckets;
  StateLines& out;
  bool results;
  u32 n;
  double last;
  i64 last_at;

  static constexpr bool timed = true, ends = false, blocks = false;

  DEVICE CustomRun(const Buckets& buckets, StateLines& out, bool results) : buckets(buckets), out(out), results(results) {}

  DEVICE u32 samples() const { return n; }

  DEVICE void begin() {
    n = 0;
    last = 0;
    last_at = 0;
    custom_begin();
  }

  DEVICE void from(i64) {}
  DEVICE void first(double) {}
  DEVICE void added(u32) {}
  DEVICE void upto(i64) {}

  DEVICE void add(i64 t, double v) {
    custom_add(v, t, last, last_at, n);
    n++;
    last = v;
    last_at = t;
  }

  DEVICE void end(u32 k) {
    if (n > 0 && results) *out.state() = custom_result(buckets.opens(k), buckets.closes(k));
    if (n > 0 && !results) custom_store(out.state(), out.apart());
    out.end(n);
  }
};

// 96 registers a thread, of which a program with many fields takes no notice.
#define CUSTOM_THREADS MAX_THREADS_AND_BLOCKS(128, 5)

KERNEL CUSTOM_THREADS custom_runs(RUNS_PARAMETERS, u32* __restrict__ n, double* __restrict__ fields, u32 many,
                                    Flag results, u32* __restrict__ points) {
  RunsJob job = RUNS_JOB;
  if (!job.owns(tiles)) return;
  auto out = lines_of<kRoom>(job, n, fields, many, results ? buckets : field_at(1, 0, buckets, many));
  CustomRun run(job.buckets, out, results);
  if (job.differences) {
    count_runs<true>(job, points, run);
  } else {
    count_runs<false>(job, points, run);
  }
}
