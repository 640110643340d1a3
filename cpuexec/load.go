package cpuexec

import (
	"slices"

	"github.com/prometheus/prometheus/model/value"

	"github.com/promwarp/promwarp/cpuexec/decode"
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
	starts decode.Starts // start timestamps, if they are wanted
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

// givenSamples are samples that are not in chunks.
func givenSamples(ts []int64, vs []float64) samples {
	return samples{times: sampleTimes{own: ts}, vs: vs}
}

// appendEven appends the runs that the shared times and then tail are made of to out, if
// the list of the shared ones has any.
func (t sampleTimes) appendEven(tail []int64, out evenRuns) evenRuns {
	if t.list == nil || t.list.even == nil {
		return out
	}
	return t.list.even.cut(int32(t.at), int32(t.at+len(t.shared)), out).add(tail)
}

// join returns the shared times and then tail in one list. With borrow, it puts tail into
// the spare memory of the shared list where it may; that list is then the lender, to be
// released by the caller. Otherwise the list may be in scratch.
func (t sampleTimes) join(tail []int64, borrow bool, scratch *[]int64) (all []int64, lender *sharedTimes) {
	switch {
	case len(tail) == 0:
		return t.shared, nil
	case len(t.shared) == 0:
		return tail, nil
	case borrow && t.atEnd() && cap(t.list.ts)-len(t.list.ts) >= len(tail) && t.list.spare.TryLock():
		return append(t.list.ts[t.at:], tail...), t.list
	}
	*scratch = append(append((*scratch)[:0], t.shared...), tail...)
	return *scratch, nil
}

// release gives the spare memory back that join borrowed.
func (t *sharedTimes) release() { t.spare.Unlock() }

// release gives back what load borrowed.
func (in samples) release() {
	if in.lent {
		in.col.spare.Unlock()
	}
}

// reader reads the samples of one series after another. It holds the scratch memory of
// one goroutine.
type reader struct {
	buf    decode.Buffer
	joined []float64     // values of a column and those after it
	starts decode.Starts // of a column and the samples behind it
	stats  decode.Stats
}

// readRequest says what to read of the series of a selection.
type readRequest struct {
	set        *hotSet
	tick       int64 // of the set's clock
	sel        *selection.Selection
	mint, maxt int64 // ms, both included
	// keepStale leaves the stale markers among the samples.
	keepStale bool
	// takePacked leaves packed values as they are.
	takePacked bool
}

// reset begins an evaluation. With wantStarts, start timestamps are read.
func (s *reader) reset(wantStarts bool) { s.stats, s.buf.WantStarts = decode.Stats{}, wantStarts }

// load returns the samples of series i that q asks for, and possibly some before and
// after. They come from decoded columns as far as such are kept. The caller must release
// them.
func (s *reader) load(q *readRequest, i int) (samples, error) {
	h, sel, dropStale := q.set, q.sel, !q.keepStale
	cs := sel.Overlapping(i, q.mint, q.maxt)
	if len(cs) == 0 {
		return samples{}, nil
	}
	stays := len(cs) // chunks that will be asked for again
	for stays > 0 && cs[stays-1].MaxT >= sel.KeptUntil() {
		stays--
	}
	hot, before := h.series(sel.Memo(i), q.tick)
	if hot == nil || stays == 0 {
		return s.decode(sel, i, cs, dropStale)
	}
	cols, known := hot.cols.Load(), 0
	if cols != nil && s.buf.WantStarts && !cols.starts {
		cols = nil
	}
	if cols != nil {
		known = cols.match(sel, cs[:stays])
	}
	if known < stays {
		if err := s.keep(h, hot, before, cols, sel, i, cs[:stays]); err != nil {
			return samples{}, err
		}
		if cols = hot.cols.Load(); cols == nil || cols.match(sel, cs[:stays]) < stays || s.buf.WantStarts && !cols.starts {
			return s.decode(sel, i, cs, dropStale)
		}
	} else {
		s.stats.Retained += count(cs[:stays])
	}
	in := cols.part(q, max(q.mint, cs[0].MinT), min(q.maxt, cs[stays-1].MaxT), &s.joined)
	if s.buf.WantStarts && len(in.col.starts) > 0 {
		s.starts = in.col.starts.Cut(in.lo, in.lo+len(in.times.shared), s.starts)
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
		s.starts.Join(len(in.times.shared), tail.starts)
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
func (s *reader) keep(h *hotSet, hot *hotSeries, before int64, cols *hotColumns, sel *selection.Selection, i int, cs []selection.Chunk) error {
	if !h.room(leastSize(len(cs), int(count(cs))), before) {
		return nil
	}
	s.buf.Reset()
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
		if len(s.buf.Starts) > 0 || len(cols.all.starts) > 0 {
			s.buf.Starts.Join(len(s.buf.Times), cols.all.starts)
		}
		s.buf.Times, s.buf.Values = append(s.buf.Times, cols.all.ts...), append(s.buf.Values, cols.all.values(0, len(cols.all.ts), &s.joined)...)
		s.buf.Stale = s.buf.Stale || cols.all != cols.clean
		s.stats.Retained += count(cs[from : from+to])
	}
	if err == nil {
		_, err = s.more(sel, i, cs[from+to:], false)
	}
	if err == nil {
		h.keep(hot, before, list, &s.buf)
	}
	return err
}

// decode decodes chunks of series i.
func (s *reader) decode(sel *selection.Selection, i int, cs []selection.Chunk, dropStale bool) (samples, error) {
	s.buf.Reset()
	return s.more(sel, i, cs, dropStale)
}

// more decodes chunks behind what is in the worker's columns.
func (s *reader) more(sel *selection.Selection, i int, cs []selection.Chunk, dropStale bool) (samples, error) {
	r, err := s.buf.Read(sel, i, cs, dropStale)
	s.stats.Add(r)
	if err != nil {
		sel.Discard()
		return samples{}, err
	}
	return samples{times: sampleTimes{own: s.buf.Times}, vs: s.buf.Values, stale: s.buf.Stale, starts: s.buf.Starts}, nil
}

// appendResets appends the samples that are less than the one before, as indices, to out;
// the first may be, too, of which no window has the one before.
func (in *samples) appendResets(out []int32) []int32 {
	known := len(in.times.shared)
	if in.col != nil {
		out = in.col.resets.between(in.lo, in.lo+known, out, func() []int32 { return findResets(in.col.all(), 0, nil) })
	}
	return findResets(in.vs, known, out)
}

// appendStale appends the samples that are stale markers, as indices, to out.
func (in *samples) appendStale(out []int32) []int32 {
	if !in.stale {
		return out
	}
	known := len(in.times.shared)
	if in.col != nil {
		out = in.col.stale.between(in.lo, in.lo+known, out, func() []int32 { return findStale(in.col.all(), 0, nil) })
	}
	return findStale(in.vs, known, out)
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

// part returns the samples from mint to maxt (ms, both included) as q wants them. Their
// values may be in scratch.
func (h *hotColumns) part(q *readRequest, mint, maxt int64, scratch *[]float64) samples {
	c := h.clean
	if q.keepStale {
		c = h.all
	}
	lo, hi := within(c.ts, mint, maxt)
	t := sampleTimes{shared: c.ts[lo:hi:hi], list: c.sharedTimes, at: lo}
	in := samples{times: t, stale: h.all != h.clean && q.keepStale, col: c, lo: lo}
	if c.units != nil && lo < hi && q.takePacked {
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

// unpackFrom puts the packed values from sample from on, and those behind them, into vs,
// at their places: what is before them means nothing. The memory is scratch.
func (in *samples) unpackFrom(from int, scratch *[]float64) {
	known, tail := len(in.units), in.vs
	in.vs = slices.Grow((*scratch)[:0], known+len(tail))[:known+len(tail)]
	*scratch = in.vs
	widen(in.vs[from:known], in.units[from:], in.base, in.unit)
	copy(in.vs[known:], tail)
}

// unpack puts all values into vs. The memory is scratch.
func (in *samples) unpack(scratch *[]float64) {
	if in.units != nil {
		*scratch = append(in.packed.append((*scratch)[:0], 0, len(in.units)), in.vs...)
		in.vs, in.packed = *scratch, packed{}
	}
}

// at is the value of sample i, which a step reads that is given to split's caller.
func (in *samples) at(i int32) float64 {
	if int(i) < len(in.units) {
		return in.value(i)
	}
	return in.vs[i]
}
