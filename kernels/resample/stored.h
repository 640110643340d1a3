// Runs of stored samples whose states are stored.
#pragma once
#include "lines.h"
#include "walk.h"

// A run whose state is stored, with the parts that there are of those that are made.
template <Parts made, bool differences>
struct StoredRun {
  const RunsJob& job;
  StateLines& out;
  Parts parts;
  Run<made> run;

  static constexpr bool timed = Run<made>::timed, ends = Run<made>::ends, blocks = Run<made>::blocks;

  DEVICE StoredRun(const RunsJob& job, StateLines& out, Parts parts) : job(job), out(out), parts(parts) {}

  DEVICE u32 samples() const { return run.s.n; }
  DEVICE void begin() { run.begin(); }
  DEVICE void from(i64 t) { run.from(t); }
  DEVICE void first(double v) { run.first(v); }
  DEVICE void add(i64 t, double v) { run.add(t, v); }
  DEVICE void added(u32 many) { run.added(many); }
  DEVICE void upto(i64 t) { run.upto(t); }

  DEVICE void end(u32 k) {
    if (run.s.n > 0) {
      run.end(job.buckets.closes(k));
      if (!run.sure()) sums_again<differences>(job, k).give(run.s, job.buckets.closes(k));
      run.square();
      States::store_fields(run.s, made, parts, out.state(), out.apart());
    }
    out.end(run.s.n);
  }
};

// Where a warp's states go, of so many fields, in rows of so many.
template <u32 room>
DEVICE StateLines lines_of(const RunsJob& job, u32* n, double* fields, u32 many, u64 row) {
  u32 first = job.mine.tile * 32, count = job.buckets.count;
  u32 width = room == kRoomOfSums || many <= 4 ? 8 : many <= 9 ? 4 : 2;
  return StateLines{n + (u64)first * count, fields + first * row, row, count,              many,
                    width,                  job.mine.from,        0,   state_room<room>()};
}

// The same of states with those parts.
template <u32 room>
DEVICE StateLines lines_of(const RunsJob& job, u32* n, double* fields, Parts parts) {
  u32 many = fields_of(parts);
  return lines_of<room>(job, n, fields, many, field_at(1, 0, job.buckets.count, many));
}

// Counts the runs of this thread's series, of which r takes the samples of each.
template <bool differences, class R>
DEVICE void count_runs(const RunsJob& job, u32* points, R&& r) {
  u32 runs = walk_runs<differences>(job, r);
  store_states(r.out);
  if (runs) atomic_add(points + job.series(), runs);
}

// 128 registers a thread, so that 16 warps of a multiprocessor wait for samples at once.
#define COUNT_THREADS MAX_THREADS_AND_BLOCKS(128, 4)
