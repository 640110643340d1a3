package cpuexec

import (
	"slices"

	"github.com/promwarp/promwarp/selection"
)

// samples are what a window function reads of a series.
type samples struct {
	ts     []int64
	vs     []float64
	stale  bool    // there are stale markers among them
	shared bool    // ts is a part of a column that stays and that series share
	column *column // of which ts and vs are the part from lo on, nil if decoded just now
	lo     int
}

// load returns the samples of series i that lie in mint to maxt (ms, both
// included), and possibly some before and after. With dropStale, stale markers
// are left out. They come from decoded columns as far as such are kept.
func (s *worker) load(h *hotSet, tick int64, sel *selection.Selection, i int, mint, maxt int64, dropStale bool) (samples, error) {
	cs := overlapping(sel, i, mint, maxt)
	if len(cs) == 0 {
		return samples{}, nil
	}
	hot, before := h.series(sel.Memo(i), tick)
	if hot == nil {
		return s.decode(sel, i, cs, dropStale)
	}
	known := 0 // chunks of cs that are decoded
	cols := hot.cols.Load()
	if cols != nil {
		known = cols.match(sel, cs)
	}
	if known == 0 || known < len(cs)-max(2, len(cs)/8) {
		got, err := s.decode(sel, i, cs, false)
		if err != nil {
			return got, err
		}
		if cols = h.keep(hot, before, origins(sel, cs), got.ts, got.vs, got.stale); cols == nil {
			if got.stale && dropStale {
				n := removeStale(got.ts, got.vs)
				got.ts, got.vs, got.stale = got.ts[:len(got.ts)-n], got.vs[:len(got.vs)-n], false
			}
			return got, nil
		}
		known = len(cs)
	} else {
		s.read.hot += int64(cols.all.count(cs[0].MinT, cs[known-1].MaxT))
	}
	if known == len(cs) {
		return cols.part(max(mint, cs[0].MinT), min(maxt, cs[known-1].MaxT), dropStale), nil
	}
	// The newest chunks are others at every look: decode them behind a copy.
	got := cols.part(cs[0].MinT, cs[known-1].MaxT, dropStale)
	s.cols.reset()
	s.cols.ts, s.cols.vs, s.cols.stale = append(s.cols.ts, got.ts...), append(s.cols.vs, got.vs...), got.stale
	return s.append(sel, i, cs[known:], dropStale)
}

// decode decodes chunks of series i.
func (s *worker) decode(sel *selection.Selection, i int, cs []selection.Chunk, dropStale bool) (samples, error) {
	s.cols.reset()
	return s.append(sel, i, cs, dropStale)
}

// append decodes chunks behind what is in the worker's columns.
func (s *worker) append(sel *selection.Selection, i int, cs []selection.Chunk, dropStale bool) (samples, error) {
	r, err := s.cols.read(sel, i, cs, dropStale)
	s.read.add(r)
	if err != nil {
		sel.Discard()
		return samples{}, err
	}
	return samples{ts: s.cols.ts, vs: s.cols.vs, stale: s.cols.stale}, nil
}

// resets returns the samples that are less than the one before, as indices. The
// memory is the worker's.
func (s *worker) resets(in samples) []int32 {
	if in.column != nil {
		s.indices = in.column.resetsBetween(in.lo, in.lo+len(in.vs), s.indices)
	} else {
		s.indices = findResets(in.vs, s.indices[:0])
	}
	return s.indices
}

func origins(sel *selection.Selection, cs []selection.Chunk) []selection.Origin {
	out := make([]selection.Origin, len(cs))
	for k := range cs {
		out[k] = sel.Origin(cs[k])
	}
	return out
}

// match returns how many of the chunks, from the first on, h holds the samples
// of.
func (h *hotColumns) match(sel *selection.Selection, cs []selection.Chunk) int {
	at := slices.Index(h.chunks, sel.Origin(cs[0]))
	if at < 0 {
		return 0
	}
	n := 1
	for n < len(cs) && at+n < len(h.chunks) && h.chunks[at+n] == sel.Origin(cs[n]) {
		n++
	}
	return n
}

// part returns the samples from mint to maxt (ms, both included).
func (h *hotColumns) part(mint, maxt int64, dropStale bool) samples {
	c := h.all
	if dropStale {
		c = h.clean
	}
	lo, hi := within(c.ts, mint, maxt)
	return samples{ts: c.ts[lo:hi:hi], vs: c.vs[lo:hi:hi], stale: h.all != h.clean && !dropStale, shared: true, column: c, lo: lo}
}

// count is the number of samples from mint to maxt (ms, both included).
func (c *column) count(mint, maxt int64) int {
	lo, hi := within(c.ts, mint, maxt)
	return hi - lo
}
