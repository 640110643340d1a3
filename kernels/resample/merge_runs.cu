// merge_runs: merges the numbers of samples, sums, and squared distances from the mean that a batch's runs
// have into those of their groups.
//
// Computes: the state of group g at bucket k = its merger with that of each series of group g in bucket k, in
//   the order of the series, as far as group_parts has it.
// Grid: x 8 or 32 buckets, a block of as many threads by up to 32 or 8, in whole warps; y the groups that have a part
//   in the batch, in strides of the grid.
// A thread owns one group at one bucket, and one or two series of each round of its block. Three warps go through the
//   series one after the other, each through another round, but do no more than what must be in their order: three
//   chains of additions. All load the next round, and make what the chains add: what each sum loses by rounding, and
//   what each run adds to the squares, from the count and the sum that it was merged into.
//
//	states ──► sums ───► what they ──► lost sums ──► terms of ──► squares
//	           warp 0    lose   all    warp 1        squares all  warp 2
//	           round r   round r       round r-1     round r-1    round r-2
//
// Bytes per run: reads 4, 16 for sums, and 8 for squares, or a value. Reads and writes a state a group and bucket.
// Operations per run: 10 for sums, 60 for squares.
#include "group_series.h"

// A run of a round.
struct Cell {
  double sum;   // its sum; then what it was added to; then what that lost
  double lost;  // what its sum lacks; then that of what it was merged into; then a term of squares
  u32 n;        // samples; then those of what it was merged into

  DEVICE RunState run() const {
    RunState s{};
    s.sum = sum, s.lost = lost, s.n = n;
    return s;
  }
  DEVICE void set(const RunState& s) { sum = s.sum, lost = s.lost, n = s.n; }
};

// Two rounds, of which the rows of a bucket lie side by side, in other banks than those of its neighbours; and what
// two warps have of the states.
struct Merging {
  Cell cells[2][kWarps * 32 * 2 + 32];
  u32 unsure[2];  // not 0 if a sum is not finite
  double lost[32], squares[32];
};

// Merges runs one by one, and leaves what each was merged into.
NOINLINE RunState merge_each(RunState s, Cell* at, u32 count) {
  for (Cell* end = at + count; at < end; at++) {
    RunState o = at->run();
    at->set(s);
    if (o.n == 0) continue;
    if (s.n == 0) {
      s.sum = o.sum, s.lost = o.lost, s.n = o.n;
      if (!is_finite(s.sum)) s.set_sum(s.lost, s.n);  // only the sum of a run is Prometheus's
    } else {
      merge(s, o, kSumPart);
    }
  }
  return s;
}

// squares_of_merging where that takes divisions.
NOINLINE double squares_again(u32 n, double sum, double lost, u32 o_n, double o_sum, double o_lost, double o_squares) {
  RunState s{}, o{};
  s.n = n, s.sum = sum, s.lost = lost;
  o.n = o_n, o.sum = o_sum, o.lost = o_lost, o.squares = o_squares;
  return squares_of_merging(s, o);
}

// Calls take(cell, load(cell)) for the cells of `count` rows, or of up to kRows - 1 more. A row is loaded when the one
// kRows before it is taken.
template <class Load, class Take>
DEVICE void chain(Cell* at, u32 count, Load&& load, Take&& take) {
  decltype(load(*at)) ahead[kRows];
  UNROLL for (u32 j = 0; j < kRows; j++) ahead[j] = load(at[j]);
  NO_UNROLL for (Cell* end = at + count; at < end; at += kRows) {
    const Cell* next = at + kRows < end ? at + kRows : at;
    UNROLL for (u32 j = 0; j < kRows; j++) {
      auto now = ahead[j];
      ahead[j] = load(next[j]);
      take(at[j], now);
    }
  }
}

// A run's sum and samples; what adding it lost and what its sum lacks.
struct Counted {
  double sum;
  u32 n;
};
struct Losses {
  double rounded, lost;
};

// Merges the runs of a group's series from `from` to `end` into its state, that of the first row of threads. Where
// nothing is, -0 is added to sums, which changes none. `each` is how many series of a round a thread has: two with
// squares would not fit into its registers.
template <Parts read, u32 each = read & kSquaresPart ? 1 : 2>
DEVICE void merge_group(const MergeJob& job, u32 from, u32 end, Merging& m, RunState& s) {
  const bool squared = (read & kSquaresPart) != 0;
  u32 lane = thread_x(), y = thread_y(), mine = y * each, all = threads_y() * each;
  u32 rows = 32 / threads_x(), warps = threads_y() / rows;
  bool sums = y == 0, losses = y == 1 % warps * rows, squares = squared && y == 2 % warps * rows;
  u32 rounds = (end - from + all - 1) / all, row[each], first = lane * (all + 1);
  Cell *here = m.cells[0] + first, *before = m.cells[1] + first;
  RunState had[each]{}, now[each]{}, next[each]{};
  double into[each]{};
  auto find = [&](u32 r) {
    UNROLL for (u32 j = 0; j < each; j++) {
      u32 i = from + r * all + mine + j;
      row[j] = job.rows[i < end ? i : end - 1];
    }
  };
  auto load = [&](RunState (&o)[each]) {  // and does not look at it
    UNROLL for (u32 j = 0; j < each; j++) {
      u64 cell = job.runs.count_at(row[j], job.k);
      if (job.values) {
        o[j].sum = job.values[cell];
      } else {
        o[j] = job.runs.load_fields(row[j], job.k, read);
      }
      o[j].n = job.runs.n[cell];
    }
  };
  auto count = [&](u32 r) { return r + 1 < rounds ? all : end - from - r * all; };
  auto begin = [&](u32 r, Cell* round) {  // has round r ready for the first chain
    UNROLL for (u32 j = 0; j < each; j++) {
      u32 n = from + r * all + mine + j < end ? now[j].n : 0;
      if (job.values) now[j] = state_of(now[j].sum);
      now[j].n = job.values && n > 0 ? 1 : n;
      if (n == 0) now[j].sum = now[j].lost = -0.0;
      round[mine + j].sum = now[j].sum;
      round[mine + j].n = now[j].n;
    }
    if (sums) m.unsure[r % 2] = 0;
  };
  find(0);
  load(now);
  find(1);
  barrier();  // all that was there is read
  if (sums) m.lost[lane] = s.lost, m.squares[lane] = s.squares;
  begin(0, here);
  barrier();
  for (u32 r = 0;; r++) {
    if (r + 1 < rounds) {
      load(next);
      find(r + 2);
    }
    if (sums && r < rounds) {
      auto load = [](const Cell& c) { return Counted{c.sum, c.n}; };
      chain(here, count(r), load, [&](Cell& c, const Counted& o) {
        c.sum = s.sum;
        s.sum += o.sum;
        c.n = s.n;
        s.n += o.n;
      });
      if (!is_finite(s.sum)) m.unsure[r % 2] = 1;
    }
    if (losses && r - 1 < rounds && !m.unsure[(r + 1) % 2]) {
      double lost = m.lost[lane];
      auto load = [](const Cell& c) { return Losses{c.sum, c.lost}; };
      chain(before, count(r - 1), load, [&](Cell& c, const Losses& o) {
        if (squared) c.lost = lost;
        lost += o.rounded;
        lost += o.lost;
      });
      m.lost[lane] = lost;
    }
    if (squares && r - 2 < rounds) {
      double sum = m.squares[lane];
      auto load = [](const Cell& c) { return c.lost; };
      chain(here, count(r - 2), load, [&](Cell&, double term) { sum += term; });  // never -0
      m.squares[lane] = sum;
    }
    barrier();
    if (r == rounds + squared) break;
    bool unsure = r < rounds && m.unsure[r % 2];
    if (unsure) {
      if (sums) s = here->run();  // before the round
      UNROLL for (u32 j = 0; j < each; j++) here[mine + j].set(now[j]);
      barrier();
      if (sums) {
        s.lost = m.lost[lane];
        s = merge_each(s, here, count(r));
        m.lost[lane] = s.lost;
      }
      barrier();
    }
    if (squared && r - 1 < rounds) {
      RunState to[each];
      double terms[each];
      bool sure = true;
      UNROLL for (u32 j = 0; j < each; j++) {
        to[j] = before[mine + j].run();
        to[j].sum = into[j];
        bool both = had[j].n > 0 && to[j].n > 0, fine = true;
        double term = squares_of_merging(to[j], had[j], fine);
        terms[j] = both ? term : had[j].n > 0 ? had[j].squares : 0;
        sure = sure && (fine || !both);
      }
      UNROLL for (u32 j = 0; j < each; j++) {
        if (!sure && had[j].n > 0 && to[j].n > 0) {
          terms[j] = squares_again(to[j].n, to[j].sum, to[j].lost, had[j].n, had[j].sum, had[j].lost, had[j].squares);
        }
        before[mine + j].lost = terms[j];
      }
    }
    UNROLL for (u32 j = 0; j < each; j++) {
      Cell& c = here[mine + j];
      into[j] = c.sum;
      if (!unsure && r < rounds) {
        c.sum = lost_by(into[j], now[j].sum, into[j] + now[j].sum);
        c.lost = now[j].lost;
      }
      had[j] = now[j];
      now[j] = next[j];
    }
    if (r + 1 < rounds) begin(r + 1, before);
    Cell* swap = here;
    here = before, before = swap;
    barrier();
  }
  s.lost = m.lost[lane];
  s.squares = m.squares[lane];
}

#define MERGE_THREADS MAX_THREADS_AND_BLOCKS(256, 2)

KERNEL MERGE_THREADS merge_runs(MERGE_PARAMETERS) {
  SHARED Merging merging;
  MergeJob job = MERGE_JOB;
  job.begin();
  const Parts all = kSumPart | kSquaresPart;
  for (u32 i = block_y(); i < count; i += blocks_y()) {
    u32 had = group_n[job.groups.count_at(groups[i], job.k)];
    RunState s{};
    if (had > 0) s = job.groups.load(groups[i], job.k, all);
    if (had == 0) s.sum = -0.0;
    if (group_parts & kSquaresPart) {
      merge_group<all>(job, starts[i], starts[i + 1], merging, s);
    } else if (group_parts & kSumPart) {
      merge_group<kSumPart>(job, starts[i], starts[i + 1], merging, s);
    } else {
      merge_group<0>(job, starts[i], starts[i + 1], merging, s);
    }
    if (!job.owns || thread_y() > 0) continue;
    job.groups.store(groups[i], job.k, s, all);
    group_n[job.groups.count_at(groups[i], job.k)] = s.n;
  }
}
