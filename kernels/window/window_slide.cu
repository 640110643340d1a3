// window_slide: sums and means of windows that share much, of what window_totals has made and of samples.
//
// Computes: out[k] = out[k-1] + the samples that come - those that leave. The first of a range of steps is
//   the sum of panes k/length*per and the next span-1.
// Grid: x tiles of 32 series, four a block of 128 threads; y ranges of steps.
// A thread owns one series at `length` steps. The last bits of a mean may depend on that number, so it
//   follows from the query alone.
// Bytes per step: reads the samples that come and those that leave, 2 to 8 each, and their times where these
//   are not regular; writes 8; adds to the series' counts. A sum whose bits are uncertain, as where values
//   of magnitudes far apart cancel out, it makes again from the samples, as Prometheus does, and goes on
//   from there: so values that have left do not keep those behind uncertain.
// Operations: 20 a sample that comes or leaves, 13 of them in float64; 300 a step.
#include "job.h"
#include "sums.h"

// 16 warps a multiprocessor, in 128 registers a thread: with fewer, what is loaded ahead is spilled.
#define SLIDE_THREADS MAX_THREADS_AND_BLOCKS(128, 4)

// The total of a window, and its sum or mean by Prometheus's operations.
struct Again {
  Total s;
  double v;
};

// That of the samples after begin up to end.
NOINLINE Again anew(WindowJob job, bool mean, i64 begin, i64 end) {
  State all{0, 0, 0, 0};
  Total s{};
  for (Walker w = behind(job, begin); w.t <= end; next(w, job.c)) {
    double v = value_at(w);
    move<false>(s, v);
    mean ? add_over_time<kAvg>(all, v) : add_over_time<kSum>(all, v);
  }
  return {s, mean ? result<kAvg>(all) : result<kSum>(all)};
}

KERNEL SLIDE_THREADS window_slide(WINDOW_PARAMETERS, u32 per, u32 count, u32 span, Operator op, const Total* totals) {
  WindowJob job = WINDOW_JOB;
  if (!job.owns(tiles)) return;
  Total s{};
  totals += ((u64)job.mine.tile * count + block_y() * per) * 32 + job.mine.lane;
  for (u32 p = 0; p < span; p++) s.join(totals[p * 32]);
  Walker old = behind(job, job.end(job.mine.from) - width), fresh = behind(job, job.end(job.mine.from));
  Results to = results_of(job, out, counts);
  i64 end = job.end(job.mine.from);
  NextRows<kRowsAtOnce> leaving, coming;
  for (u32 k = job.mine.from; k < job.mine.to; k++) {
    for (bool done = false; !done;) {
      move<true>(s, old, leaving);
      move<false>(s, fresh, coming);
      leaving.pass(old, job.c);
      coming.pass(fresh, job.c);
      done = old.t > end - width && fresh.t > end;
      // Those of the next step are loaded while this one's value is made.
      i64 next = done ? end + interval : end;
      leaving.load(old, next - width);
      coming.load(fresh, next);
    }
    double v;
    if (s.count > 0 && !over_time(s, op == kAvg, v)) {
      Again again = anew(job, op == kAvg, end - width, end);
      s = again.s;
      v = again.v;
    }
    emit(to, s.count > 0 ? as_bits(v) : kAbsent, s.count);
    end += interval;
  }
  finish(to);
}
