package column

import (
	"slices"
	"weak"

	"github.com/promwarp/promwarp/cpuexec/decode"
	"github.com/promwarp/promwarp/selection"
)

// Reader reads the samples of one series after another. It holds the scratch memory of
// one goroutine.
type Reader struct {
	buf    decode.Buffer
	joined []float64     // values of a column and those after it
	starts decode.Starts // of a column and the samples behind it
	chunks []selection.Chunk
	needed []selection.Chunk
	last   use // of a series
	Stats  decode.Stats
}

// Request says what to read of the series of a selection.
type Request struct {
	Set        *Set
	Tick       int64 // of the set's clock
	Sel        *selection.Selection
	Mint, Maxt int64 // ms, both included
	// Only the samples of Width ms from Mint on are read, and of Width ms from each further Every
	// ms on. Of chunks that lie between, samples may be missing. An Every of 0 is
	// for all between Mint and Maxt.
	Width, Every int64
	// KeepStale leaves the stale markers among the samples.
	KeepStale bool
	// Partial says that a query reads these samples for some of its steps alone, because the values at
	// the others are known, or that its values will be known next time.
	Partial bool
	// TakePacked leaves packed values as they are.
	TakePacked bool
	// LeastChunks is how many chunks a window must have for their digests to be worth it.
	LeastChunks int
	// Table is the selection's, for what is asked of digests.
	Table weak.Pointer[selection.Chunk]
}

// Reset begins an evaluation. With wantStarts, start timestamps are read.
func (s *Reader) Reset(wantStarts bool) {
	s.Stats, s.buf.WantStarts, s.last = decode.Stats{}, wantStarts, use{}
}

// Load returns the samples of series i that q asks for, and possibly some before and
// after. They come from decoded columns as far as such are retained.
func (s *Reader) Load(q *Request, i int) (Samples, error) {
	h, sel := q.Set, q.Sel
	cs := sel.OverlappingIn(&s.chunks, i, q.Mint, q.Maxt)
	if len(cs) == 0 {
		return Samples{}, nil
	}
	stays := len(cs) // chunks that will be asked for again
	for stays > 0 && cs[stays-1].MaxT >= sel.KeptUntil {
		stays--
	}
	u := s.use(q, i)
	e, before := u.entry, u.before
	if e == nil || stays == 0 {
		return s.decode(q, i, cs)
	}
	columns := &e.plain
	if q.KeepStale {
		columns = &e.marked
	}
	cols, known := columns.Load(), 0
	// At the first use no more is decoded than is looked at, and memory is free for values and times
	// that are neither packed nor shared, so that nothing is decoded twice. To retain few chunks for
	// one window takes longer than to decode them again. Of a partial read the results are remembered.
	few := q.Mint >= q.Maxt-q.Width && stays <= fewChunks
	if before == never && cols == nil && (q.Partial || q.Every > q.Width || few || !h.makeRoom(leastSize(stays, 4*int(CountSamples(cs[:stays]))), never)) {
		return s.decode(q, i, cs)
	}
	if cols != nil && s.buf.WantStarts && !cols.withStarts {
		cols = nil
	}
	if cols != nil {
		known = cols.match(sel, cs[:stays])
	}
	if known < stays {
		if err := s.retain(q, use{entry: e, before: before, cols: cols}, i, cs[:stays]); err != nil {
			return Samples{}, err
		}
		if cols = columns.Load(); cols == nil || cols.match(sel, cs[:stays]) < stays || s.buf.WantStarts && !cols.withStarts {
			return s.decode(q, i, cs)
		}
	} else {
		s.Stats.Retained += CountSamples(cs[:stays])
	}
	in := cols.within(q, max(q.Mint, cs[0].MinT), min(q.Maxt, cs[stays-1].MaxT), &s.joined)
	if s.buf.WantStarts && len(in.column.starts) > 0 {
		s.starts = in.column.starts.Cut(in.Times.At, in.Times.At+in.Times.Known, s.starts)
		in.Starts = s.starts
	}
	if stays == len(cs) {
		return in, nil
	}
	// The newest chunks are others at every look.
	tail, err := s.decode(q, i, cs[stays:])
	if err != nil {
		return Samples{}, err
	}
	if len(in.Starts) > 0 || len(tail.Starts) > 0 {
		s.starts = append(s.starts[:0], in.Starts...)
		s.starts.Join(in.Times.Known, tail.Starts)
		in.Starts = s.starts
	}
	in.append(tail, &s.joined)
	return in, nil
}

// fewChunks are not retained at the first use for a single window.
const fewChunks = 2

// use is the use of a series: its entry, the tick of the use before, and what is retained.
type use struct {
	entry  *entry
	before int64
	cols   *column
	memo   *selection.Memo // what it is of
	tick   int64
}

// use notes the use of series i by a query, once however often it is asked for in a row.
func (s *Reader) use(q *Request, i int) use {
	if m := q.Sel.Memo(i); m == nil || m != s.last.memo || q.Tick != s.last.tick {
		s.last = use{memo: m, tick: q.Tick}
		s.last.entry, s.last.before = q.Set.use(m, q.Tick)
	}
	return s.last
}

// retain decodes those of the chunks of series i that are not retained and retains all of
// them if there is room, together with those retained before or after them: queries over
// different ranges, as of a metric and the same an hour ago, take turns.
func (s *Reader) retain(q *Request, u use, i int, cs []selection.Chunk) error {
	h, sel, before, cols := q.Set, q.Sel, u.before, u.cols
	if !h.makeRoom(leastSize(len(cs), int(CountSamples(cs))), before) {
		return nil
	}
	s.buf.Reset()
	list := make([]selection.Origin, len(cs))
	for k := range cs {
		list[k] = sel.Origin(cs[k])
	}
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
	_, err := s.more(sel, i, cs[:from], !q.KeepStale)
	if err == nil && to > 0 {
		if len(s.buf.Starts) > 0 || len(cols.starts) > 0 {
			s.buf.Starts.Join(len(s.buf.Times), cols.starts)
		}
		s.buf.Times, s.buf.Values = cols.appendTimes(s.buf.Times, 0, cols.n), append(s.buf.Values, cols.values(0, cols.n, &s.joined)...)
		s.buf.Stale, s.buf.Marked = s.buf.Stale || cols.withStale, s.buf.Marked || cols.marked
		s.Stats.Retained += CountSamples(cs[from : from+to])
	}
	if err == nil {
		_, err = s.more(sel, i, cs[from+to:], !q.KeepStale)
	}
	if err == nil {
		h.retain(u.entry, before, list, &s.buf)
	}
	return err
}

// decode decodes those of the chunks of series i that q looks at.
func (s *Reader) decode(q *Request, i int, cs []selection.Chunk) (Samples, error) {
	s.buf.Reset()
	if q.Every > q.Width {
		s.needed = s.needed[:0]
		for _, c := range cs {
			if q.looksAt(c) {
				s.needed = append(s.needed, c)
			}
		}
		cs = s.needed
	}
	return s.more(q.Sel, i, cs, !q.KeepStale)
}

// looksAt reports whether q looks at samples of c, which lies between its ends.
func (q *Request) looksAt(c selection.Chunk) bool {
	from := q.Mint + max(0, (min(c.MaxT, q.Maxt)-q.Mint)/q.Every*q.Every) // the last that begins before c ends
	return c.MinT < from+q.Width
}

// more decodes chunks behind what is in the buffer.
func (s *Reader) more(sel *selection.Selection, i int, cs []selection.Chunk, dropStale bool) (Samples, error) {
	if err := s.buf.Read(sel, i, cs, dropStale, &s.Stats); err != nil {
		sel.Discard()
		return Samples{}, err
	}
	return Samples{Times: Times{Own: s.buf.Times}, Values: s.buf.Values, hasStale: s.buf.Stale, Starts: s.buf.Starts}, nil
}

// CountSamples is the number of samples in chunks.
func CountSamples(cs []selection.Chunk) (n int64) {
	for k := range cs {
		n += int64(cs[k].Samples)
	}
	return n
}
