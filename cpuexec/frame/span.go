package frame

import (
	"slices"

	"github.com/promwarp/promwarp/cpuexec/column"
	"github.com/promwarp/promwarp/plan"
)

// Span is what the steps of a grid read.
type Span struct {
	Grid      plan.Grid
	Scan      *plan.Scan
	Width     int64           // ms
	Instant   bool            // only the window's newest sample counts
	Done      <-chan struct{} // of the query: evaluations end early
	Extension plan.Extension  // that width and scan are extended by
}

// SpanOf is what steps of g read of w.
func SpanOf(w *plan.Window, g plan.Grid, done <-chan struct{}) Span {
	s := Span{Grid: g, Scan: w.Scan, Instant: w.Func.Instant, Done: done, Extension: w.Extension}
	offset := int64(0)
	if s.Width, offset = w.Reach(); offset != w.Scan.Offset {
		s.Scan = &plan.Scan{Offset: offset, Fixed: w.Scan.Fixed}
	}
	return s
}

// useful returns those of the runs that windows can be found from.
func (s *Span) useful(runs column.Runs) column.Runs {
	// Runs.Newest needs samples of a run to be near each other.
	sparse := func(e column.EvenRun) bool { return s.Instant && e.Every+e.Late > s.Width }
	if s.Scan.Fixed != nil || s.Grid.Interval <= 0 || slices.ContainsFunc(runs.Even, sparse) {
		return column.Runs{}
	}
	return runs
}

// notAfter fills lo and hi with the number of samples that are not later than the
// start and the end of a step's window; the first step's ends at end.
func (s *Span) notAfter(ts []int64, end int64, lo, hi []int32) {
	interval := s.Grid.Interval
	if s.Scan.Fixed != nil {
		interval = 0
	}
	i, j, strideI, strideJ := 0, 0, 0, 0
	for k := range hi {
		j, strideJ = after(ts, j, strideJ, end)
		if !s.Instant {
			i, strideI = after(ts, i, strideI, end-s.Width)
		} else if i = j; j > 0 && ts[j-1] > end-s.Width {
			i = j - 1
		}
		lo[k], hi[k] = int32(i), int32(j)
		end += interval
	}
}

// stepsOf encloses the steps whose windows hold some of the samples from oldest to newest (ms).
func (s *Span) stepsOf(oldest, newest int64) (from, to int) {
	steps := s.Grid.Steps
	const far = 1 << 61 // ms, where sums of times might overflow
	if s.Scan.Fixed != nil || steps == 0 || oldest < -far || newest > far {
		return 0, steps
	}
	start := s.Scan.Times(s.Grid.Start)
	first := (oldest - start + s.Grid.Interval - 1) / s.Grid.Interval
	beyond := (newest + s.Width - start + s.Grid.Interval - 1) / s.Grid.Interval
	from = int(min(max(first, 0), int64(steps)))
	return from, int(min(max(beyond, int64(from)), int64(steps)))
}

// after returns the index of the first sample later than t, at or after from,
// and how far that is from from. Scrapes are regular, so the distance of the
// step before is tried first.
func after(ts []int64, from, stride int, t int64) (int, int) {
	if g := from + stride; g <= len(ts) && (g == from || ts[g-1] <= t) && (g == len(ts) || ts[g] > t) {
		return g, stride
	}
	i, leap := from, 16
	for i+leap <= len(ts) && ts[i+leap-1] <= t {
		i += leap
		leap *= 2
	}
	for n := min(leap, len(ts)-i); n > 0; { // it is among the n from i on, or just behind them
		half := (n + 1) / 2
		if ts[i+half-1] <= t {
			i += half
			n -= half
		} else {
			n = half - 1
		}
	}
	return i, i - from
}
