package cpuexec

import (
	"slices"

	"github.com/prometheus/prometheus/model/value"

	"github.com/promwarp/promwarp/plan"
	"github.com/promwarp/promwarp/selection"
)

// samples are what a window function reads of a series.
type samples struct {
	times sampleTimes
	vs    []float64
	stale bool    // there are stale markers among them
	col   *column // of which the shared times are the part from lo on, nil if decoded just now
	lo    int
	lent  bool // the values behind those of col are in its spare memory, to be given back
	// Where windows are looked at from their ends alone, the values of a packed column
	// stay so: those of the shared times are here, and in vs is what comes then.
	packed
	starts startRuns // start timestamps, if they are wanted
}

// sampleTimes are the times of a series' samples in ms, in two parts.
type sampleTimes struct {
	shared []int64      // a part of a list of times that series share and that never changes
	own    []int64      // those that come then
	list   *sharedTimes // that list, nil if there are no shared times
	at     int          // index in list of the first of the shared ones
}

func (t sampleTimes) len() int { return len(t.shared) + len(t.own) }

// atEnd reports whether the shared times are the last of their list.
func (t sampleTimes) atEnd() bool { return t.list != nil && t.at+len(t.shared) == len(t.list.ts) }

// release gives back what load borrowed.
func (in samples) release() {
	if in.lent {
		in.col.spare.Unlock()
	}
}

// load returns the samples of series i that lie in mint to maxt (ms, both
// included), and possibly some before and after, as f wants them. They come from
// decoded columns as far as such are kept. The caller must release them.
func (s *worker) load(h *hotSet, tick int64, sel *selection.Selection, i int, mint, maxt int64, f *plan.WindowFunc) (samples, error) {
	dropStale := !f.Instant
	cs := sel.Overlapping(i, mint, maxt)
	if len(cs) == 0 {
		return samples{}, nil
	}
	stays := len(cs) // chunks that will be asked for again
	for stays > 0 && cs[stays-1].MaxT >= sel.KeptUntil() {
		stays--
	}
	hot, before := h.series(sel.Memo(i), tick)
	if hot == nil || stays == 0 {
		return s.decode(sel, i, cs, dropStale)
	}
	cols, known := hot.cols.Load(), 0
	if cols != nil && s.cols.wantStarts && !cols.starts {
		cols = nil
	}
	if cols != nil {
		known = cols.match(sel, cs[:stays])
	}
	if known < stays {
		if err := s.keep(h, hot, before, cols, sel, i, cs[:stays]); err != nil {
			return samples{}, err
		}
		if cols = hot.cols.Load(); cols == nil || cols.match(sel, cs[:stays]) < stays || s.cols.wantStarts && !cols.starts {
			return s.decode(sel, i, cs, dropStale)
		}
	} else {
		s.read.hot += count(cs[:stays])
	}
	in := cols.part(max(mint, cs[0].MinT), min(maxt, cs[stays-1].MaxT), f, &s.joined)
	if s.cols.wantStarts && len(in.col.starts) > 0 {
		s.starts = in.col.starts.cut(in.lo, in.lo+len(in.times.shared), s.starts)
		in.starts = s.starts
	}
	if stays == len(cs) {
		return in, nil
	}
	// The newest chunks are others at every look.
	tail, err := s.decode(sel, i, cs[stays:], dropStale)
	if err != nil {
		return samples{}, err
	}
	if len(in.starts) > 0 || len(tail.starts) > 0 {
		s.starts = append(s.starts[:0], in.starts...)
		s.starts.join(len(in.times.shared), tail.starts)
		in.starts = s.starts
	}
	in.append(tail, &s.joined)
	return in, nil
}

// append puts the values of tail behind those of in: into the spare memory of
// the column if nobody else is doing so, otherwise into a copy. That of packed
// values is in scratch already.
func (in *samples) append(tail samples, scratch *[]float64) {
	in.times.own, in.stale = tail.times.own, in.stale || tail.stale
	if in.units != nil {
		in.vs = tail.vs
		return
	}
	end := in.lo + len(in.vs)
	if in.col.units != nil {
		*scratch = append(in.vs, tail.vs...)
		in.vs = *scratch
		return
	}
	if all := in.col.vs; end == len(all) && len(tail.vs) <= cap(all)-end && in.col.spare.TryLock() {
		in.lent = true
		in.vs = append(all[in.lo:end], tail.vs...)
		return
	}
	*scratch = append(append((*scratch)[:0], in.vs...), tail.vs...)
	in.vs = *scratch
}

// keep decodes those of the chunks of series i that cols lacks and keeps all of
// them decoded in hot if there is room, together with what cols has before or
// after them: queries over different ranges, as of a metric and the same an hour
// ago, take turns.
func (s *worker) keep(h *hotSet, hot *hotSeries, before int64, cols *hotColumns, sel *selection.Selection, i int, cs []selection.Chunk) error {
	if !h.room(leastSize(len(cs), int(count(cs))), before) {
		return nil
	}
	s.cols.reset()
	list := origins(sel, cs)
	from, to := 0, 0 // chunks of cs that cols has
	if cols != nil && len(cols.chunks) <= 2*len(cs) {
		if from = slices.Index(list, cols.chunks[0]); from < 0 {
			from = 0
		}
		at := slices.Index(cols.chunks, list[from])
		for at >= 0 && from+to < len(cs) && at+to < len(cols.chunks) && cols.chunks[at+to] == list[from+to] {
			to++
		}
		if to > 0 && (at+to == len(cols.chunks) || from+to == len(cs)) {
			list = slices.Concat(list[:from], cols.chunks, list[from+to:])
		} else {
			from, to = 0, 0
		}
	}
	_, err := s.more(sel, i, cs[:from], false)
	if err == nil && to > 0 {
		if len(s.cols.starts) > 0 || len(cols.all.starts) > 0 {
			s.cols.starts.join(len(s.cols.ts), cols.all.starts)
		}
		s.cols.ts, s.cols.vs = append(s.cols.ts, cols.all.ts...), append(s.cols.vs, cols.all.values(0, len(cols.all.ts), &s.joined)...)
		s.cols.stale = s.cols.stale || cols.all != cols.clean
		s.read.hot += count(cs[from : from+to])
	}
	if err == nil {
		_, err = s.more(sel, i, cs[from+to:], false)
	}
	if err == nil {
		h.keep(hot, before, list, &s.cols)
	}
	return err
}

// decode decodes chunks of series i.
func (s *worker) decode(sel *selection.Selection, i int, cs []selection.Chunk, dropStale bool) (samples, error) {
	s.cols.reset()
	return s.more(sel, i, cs, dropStale)
}

// more decodes chunks behind what is in the worker's columns.
func (s *worker) more(sel *selection.Selection, i int, cs []selection.Chunk, dropStale bool) (samples, error) {
	r, err := s.cols.read(sel, i, cs, dropStale)
	s.read.add(r)
	if err != nil {
		sel.Discard()
		return samples{}, err
	}
	return samples{times: sampleTimes{own: s.cols.ts}, vs: s.cols.vs, stale: s.cols.stale, starts: s.cols.starts}, nil
}

// resets returns the samples that are less than the one before, as indices; the
// first may be, too, of which no window has the one before. The memory is the
// worker's.
func (s *worker) resets(in samples) []int32 {
	s.indices = s.indices[:0]
	known := len(in.times.shared)
	if in.col != nil {
		s.indices = in.col.resets.between(in.lo, in.lo+known, s.indices, func() []int32 { return findResets(in.col.all(), 0, nil) })
	}
	s.indices = findResets(in.vs, known, s.indices)
	return s.indices
}

// stale returns the samples that are stale markers, as indices. The memory is the
// worker's.
func (s *worker) stale(in samples) []int32 {
	s.indices = s.indices[:0]
	if !in.stale {
		return s.indices
	}
	known := len(in.times.shared)
	if in.col != nil {
		s.indices = in.col.stale.between(in.lo, in.lo+known, s.indices, func() []int32 { return findStale(in.col.all(), 0, nil) })
	}
	return findStale(in.vs, known, s.indices)
}

// findStale appends the indices, at least from, of the stale markers to stale.
func findStale(vs []float64, from int, stale []int32) []int32 {
	for i := from; i < len(vs); i++ {
		if value.IsStaleNaN(vs[i]) {
			stale = append(stale, int32(i))
		}
	}
	return stale
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

// part returns the samples from mint to maxt (ms, both included) for f, with stale
// markers if that is an instant selector. Their values may be in scratch.
func (h *hotColumns) part(mint, maxt int64, f *plan.WindowFunc, scratch *[]float64) samples {
	c := h.clean
	if f.Instant {
		c = h.all
	}
	lo, hi := within(c.ts, mint, maxt)
	t := sampleTimes{shared: c.ts[lo:hi:hi], list: c.sharedTimes, at: lo}
	in := samples{times: t, stale: h.all != h.clean && f.Instant, col: c, lo: lo}
	if c.units != nil && lo < hi && takesPacked(f) {
		in.packed = packed{c.units[lo:hi], c.base, c.unit}
	} else {
		in.vs = c.values(lo, hi, scratch)
	}
	return in
}

// count is the number of samples in chunks.
func count(cs []selection.Chunk) (n int64) {
	for k := range cs {
		n += int64(cs[k].Samples)
	}
	return n
}
