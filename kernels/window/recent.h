// The last samples of a series in shared memory, where a thread has them for all windows that hold them: it
// loads and scales a sample once, and begins a window without looking for it.
//
//	slot  0  1  2  …  30 31        sample i is in slot i % 32 until sample i+32 comes
//	     32 33 34  …  30 31        window: samples first to next-1
#pragma once
#include "in_turn.h"
#include "stretch.h"

const u32 kRecent = 32;  // samples; mirrored by abi.RecentSamples

// The threads of a block, and the steps of a series that they store at once: what they keep leaves room for eight
// blocks in a multiprocessor of an H200, each thread of which has 128 registers.
const u32 kRecentThreads = 64, kRecentLine = 8;
#define RECENT_THREADS MAX_THREADS_AND_BLOCKS(64, 8)

// The value of sample i in a slot of this thread, which has banks of its own.
DEVICE double& value_of(u32 i) {
  SHARED double all[kRecent * kRecentThreads];
  const u32 row = kRecentThreads * sizeof(double);
  return *(double*)((u8*)all + ((i * row & (kRecent - 1) * row) | (u32)(thread_x() * sizeof(double))));
}

// The samples of a window at regular times.
struct Recent {
  u32 first, next;  // numbers of samples: the window's first, and the one to come
  u32 odd;          // behind the last one that is not plain
  u32 change;       // the last one whose value is not that of the one before; zeros are equal
  u32 every;        // ms
  double last;      // value
  i64 t;            // of the window's first

  // Drops the samples up to time `begin`.
  DEVICE void drop(i64 begin) {
    while (first < next && t <= begin) {
      first++;
      t += every;
    }
  }

  DEVICE void add(double v) {
    if (v != last) change = next;
    last = v;
    value_of(next++) = v;
  }

  // Adds rows. It says whether all have room beside samples from `kept` on, and are as far apart as the others.
  template <u32 most>
  DEVICE bool add(const Walker& w, const NextRows<most>& rows, u32 kept) {
    if (next == first) {
      t = w.t;
      every = w.i + 1 < w.n ? (u32)(time(w, w.i + 1) - t) : w.every;
      change = next;
    }
    if (next - kept + rows.n > kRecent) return false;
    NO_UNROLL for (u32 i = 0; i < rows.n; i++) {
      if (time(w, w.i + i) != t + (i64)((u64)(next - first) * every)) return false;
      double v = value(w, w.i + i);
      if (rows.whole && !is_plain(v)) odd = next + 1;
      add(v);
    }
    return true;
  }

  // Goes on to the samples of the window up to `end`. It says whether add took them.
  DEVICE bool go_on(const Columns& c, Walker& w, i64 end, u32 kept) {
    while (w.t <= end) {
      NextRows<kRowsAtOnce> rows;
      rows.load(w, end);
      if (!add(w, rows, kept)) return false;
      rows.pass(w, c);
    }
    return true;
  }

  // Whether two steps after that up to `end` have `ahead` samples each that the one before has not, all in this chunk of
  // packed values, as many leave the window, and there is room.
  DEVICE bool steady(const Walker& w, i64 end, i64 width, i64 interval, u32 ahead) const {
    return (w.kind & kTimesOf) == kRegular && (w.kind & kValuesOf) != kWhole && w.every == every && first < next &&
           (u64)ahead * every == (u64)interval && w.i + 2 * ahead < w.n && next - first + ahead <= kRecent && w.t > end &&
           w.t <= end + every && w.t == t + (i64)((u64)(next - first) * every) && t <= end - width + every;
  }

  // Adds the next rows, which are steady. Returns `change` as it is before sample number `half` comes.
  DEVICE u32 add_steady(Walker& w, u32 rows, u32 half) {
    const Scale scale(w);
    bool words = (w.kind & kValuesOf) == kHalf, more = w.i + 2 * rows < w.n;
    u32 row = words ? 128 : 64, shift = (u32)(u64)w.values % 4 * 8, mask = words ? ~0u : 0xffff, earlier = change;
    const u8* at = w.values + (u64)w.i * row;
    at -= (u64)at & 2;
    NO_UNROLL for (u32 i = 0; i < rows; i += kRowsAtOnce, at += kRowsAtOnce * row) {
      u32 u[kRowsAtOnce];
      UNROLL for (u32 k = 0; k < kRowsAtOnce; k++) u[k] = load_if(i + k < rows, at + k * row, 0);
      UNROLL for (u32 k = 0; k < kRowsAtOnce; k++) {
        if (more) prefetch(at + (rows + k) * row);
        if (next == half) earlier = change;
        if (i + k < rows) add(scale(u[k] >> shift & mask));
      }
    }
    w.i += rows;
    w.t += (i64)((u64)rows * every);
    return earlier;
  }

  // What comes of this window and of a later one that shares its samples, by the policy P. Two at once, as each
  // operation on a sum waits for the one before. It says whether P has found both.
  template <class P>
  DEVICE bool found(const Recent& o, const Beginning (&at)[2], u64 (&v)[2], const u32 (&n)[2]) const {
    if (o.odd > first) return false;
    P p{}, q{};
    p.begin(at[0]);
    q.begin(at[1]);
    p.starts(*this, value_of(first), change <= first);
    q.starts(o, value_of(o.first), o.change <= o.first);
    u32 i = 0, both = least(n[0], n[1]);
    NO_UNROLL for (; i + 2 <= both; i += 2) {
      take<2>(p, first, i);
      take<2>(q, o.first, i);
    }
    bool all = true;
    NO_UNROLL for (u32 j = 0; j < 2; j++) {
      u32 many = j ? n[1] : n[0], from = j ? o.first : first;
      NO_UNROLL for (u32 k = i; k < many; k++) take<1>(p, from, k);
      u64 x = p.found(many, 0, 0).value;
      v[0] = v[1];
      v[1] = many > 0 ? x : kAbsent;
      all = all && !p.failed();
      p = q;
    }
    return all;
  }

  // The policy takes samples of a window that begins with number `from`, from its i-th on.
  template <u32 many, class P>
  DEVICE static void take(P& p, u32 from, u32 i) {
    double v[many];
    typename P::Time t[many];
    UNROLL for (u32 k = 0; k < many; k++) v[k] = value_of(from + i + k);
    p.next(i, t);
    UNROLL for (u32 k = 0; k < many; k++) p.add(i + k, t[k], v[k]);
  }
};
