// window_totals: sums of the panes that first windows of ranges of steps are made of. window_slide makes
// all windows of them and of samples.
//
// Computes: totals[p] = the sum of pane p in twice the precision, where panes are those of windows whose
//   interval is a range of steps.
// Grid: x tiles of 32 series, four a block of 128 threads; y panes.
// A thread owns one series in one pane.
// Bytes per sample: reads its value, 2 to 8, and its time where it is not regular. Writes 40 a pane.
// Operations per sample: 20, of which 11 in float64.
#include "panes.h"
#include "sums.h"

KERNEL ROWS_THREADS window_totals(COLUMNS_PARAMETERS, i64 base, i64 interval, i64 head, u32 per, u32 count,
                                  Total* totals) {
  u32 id = block_x() * threads_x() + thread_x(), tile = id / 32, lane = id % 32, p = block_y();
  if (tile >= tiles) return;
  Panes panes{base, interval, head, per};
  const Columns c = COLUMNS;
  Walker w{};
  seek(w, c, lane, first[tile], first[tile + 1], panes.begin(p));
  Total s{};
  for (i64 end = panes.end(p); w.t <= end;) {
    NextRows<8> some;
    some.load(w, end);
    move<false>(s, w, some);
    some.pass(w, c);
  }
  totals[((u64)tile * count + p) * 32 + lane] = s;
}
