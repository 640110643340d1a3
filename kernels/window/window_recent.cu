// window_recent: deviations, variances and lines of windows that overlap and hold few samples, of which a thread keeps
// the last 32 (recent.h). window_statistic has the formulas, and is for all other windows.
//
// Grid: x tiles of 32 series, two a block of 64 threads; y ranges of steps.
// A thread owns one series at `length` steps. It computes two windows at once. Where samples have no room, are
//   not at regular times or not plain, it goes through those of the two one by one.
// Bytes per sample: reads its value, 2 to 8, once; writes 8 a step, and adds to
//   the series' counts.
// Operations: 40 a sample; for each window that holds it 33 for the variance, 25 for the line; 250 a window.
#include "job.h"
#include "line.h"
#include "variance.h"

// What the window up to `end` comes to, of its samples one by one.
NOINLINE Found anew(WindowJob job, Beginning at, i64 end) {
  Line line;
  Welford welford;
  line.begin(at);
  welford.begin(at);
  bool lines = at.kind == kSlope || at.kind == kPrediction;
  u32 n = 0;
  for (Walker w = behind(job, end - job.width); w.t <= end; next(w, job.c), n++) {
    double v = value_at(w);
    lines ? line.add(n, w.t, v) : welford.add(n, w.t, v);
  }
  if (n == 0) return Found{kAbsent, 0};
  return lines ? line.found(n, 0, 0) : welford.found(n, 0, 0);
}

const u32 kWait = 16;  // steps after which recent samples are tried again

KERNEL RECENT_THREADS window_recent(WINDOW_PARAMETERS, Statistic kind, double param, double trend, i64 step,
                                    i64 step_interval) {
  if (thread_x() < kRecent) count_at(thread_x()) = few_count(thread_x() + 1);
  barrier();
  WindowJob job = WINDOW_JOB;
  if (!job.owns(tiles)) return;
  Walker w{};
  auto to = results_of<kRecentThreads, kRecentLine>(job, out, counts);
  forget_spread<kRecentThreads>();
  Recent r{};
  u32 ahead = 0;
  bool fits = false;
  NO_UNROLL for (u32 k = job.mine.from; k < job.mine.to; k += 2) {
    bool one = k + 1 == job.mine.to;  // is taken twice
    const i64 end[2] = {job.end(k), job.end(one ? k : k + 1)};
    Beginning at[2] = {{step + (i64)k * step_interval, param, trend, nullptr, kind}, {}};
    at[1] = at[0];
    at[1].step += one ? 0 : step_interval;
    if (!fits && k % kWait == 0) {
      w = behind(job, end[0] - width);
      r = Recent{};
      ahead = w.every > 0 ? (u32)interval / w.every : 0;
      fits = true;
    }
    Recent before = r;
    u64 v[2] = {kAbsent, kAbsent};
    u32 n[2] = {0, 0};
    if (fits && !one && r.steady(w, end[0] - interval, width, interval, ahead)) {
      i64 t = r.t + interval;
      n[0] = n[1] = before.next - before.first;
      before.first += ahead;
      before.next += ahead;
      before.t = t;
      before.change = r.add_steady(w, 2 * ahead, before.next);
      r.first += 2 * ahead;
      r.t = t + interval;
    } else {
      NO_UNROLL for (u32 j = 0; j < 2 && fits; j++) {
        i64 e = j ? end[1] : end[0];
        before = r;
        r.drop(e - width);
        fits = r.go_on(job.c, w, e, j ? before.first : r.first);
        n[0] = n[1];
        n[1] = r.next - r.first;
      }
    }
    if (fits) {
      bool line = kind == kSlope || kind == kPrediction;
      fits = line ? before.found<Line::Few>(r, at, v, n) : before.found<Welford::Few>(r, at, v, n);
    }
    NO_UNROLL for (u32 j = 0; j < 2; j++) {
      u64 x = j ? v[1] : v[0];
      u32 many = j ? n[1] : n[0];
      if (!fits) {
        Found f = anew(job, j ? at[1] : at[0], j ? end[1] : end[0]);
        x = f.value;
        many = f.held;
      }
      if (j == 0 || !one) emit(to, x, many);
    }
  }
  finish(to);
}
