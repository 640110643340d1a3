package reduce

import (
	"context"
	"errors"
	"runtime"
	"sort"

	"github.com/prometheus/prometheus/tsdb/chunkenc"

	"github.com/promwarp/promwarp/cpuexec/decode"
	"github.com/promwarp/promwarp/internal/memory"
	"github.com/promwarp/promwarp/internal/parallel"
	"github.com/promwarp/promwarp/remoteread/serve"
	"github.com/promwarp/promwarp/selection"
)

// thin returns those samples of sel that q's reader sees. Where that cannot be told, or is all,
// it returns sel, and why.
func (r *Reducer) thin(ctx context.Context, q serve.Query, sel *selection.Selection, lease *memory.Lease) (*selection.Selection, reason, error) {
	a, why := understand(q, r.o.Lookback)
	if why != "" {
		return sel, why, nil
	}
	f := latest
	if q.Hints.Range != 0 {
		f = overTime[q.Hints.Func]
	}
	switch {
	case f == everything && (a.width >= a.step || a.steps() == 1):
		return sel, everySample, nil
	case decode.HasStarts(sel):
		return sel, startTimestamps, nil
	}
	t := &thinner{q: q, sel: sel, asked: a, function: f}
	out, err := t.run(ctx, lease)
	if errors.As(err, new(*selection.CorruptError)) {
		sel.Discard()
	}
	return out, "", err
}

// thinner thins the series of a selection.
type thinner struct {
	q   serve.Query
	sel *selection.Selection
	asked
	function
}

// part is some of what a series keeps: a chunk as it is, or samples.
type part struct {
	chunk  *selection.Chunk
	times  []int64
	values []float64
}

// worker is the scratch memory of a goroutine.
type worker struct {
	marker
	buf  decode.Buffer
	kept []int
}

// thinBatch is how many series are thinned before what they keep is encoded.
const thinBatch = 256

func (t *thinner) run(ctx context.Context, lease *memory.Lease) (*selection.Selection, error) {
	b := selection.NewBuilder(0).Within(ctx)
	workers := make([]worker, runtime.GOMAXPROCS(0))
	for i := range workers {
		workers[i].marker = marker{asked: t.asked, function: t.function}
	}
	var parts [thinBatch][]part
	var errs [thinBatch]error
	for first := 0; first < t.sel.NumSeries(); first += thinBatch {
		n := min(thinBatch, t.sel.NumSeries()-first)
		parallel.While(len(workers), n, func(w, i int) bool {
			if errs[i] = ctx.Err(); errs[i] == nil {
				parts[i], errs[i] = t.series(&workers[w], first+i, parts[i][:0])
			}
			return errs[i] == nil
		})
		before := b.Bytes()
		for i := range n {
			if errs[i] != nil {
				return nil, errs[i]
			}
			if err := t.write(b, first+i, parts[i]); err != nil {
				return nil, err
			}
		}
		if err := lease.Grow(ctx, b.Bytes()-before); err != nil {
			return nil, err
		}
	}
	return b.Finish()
}

// write adds series i of which parts are kept.
func (t *thinner) write(b *selection.Builder, i int, parts []part) error {
	if len(parts) > 0 {
		b.Series(t.sel.Labels(i))
	}
	for _, p := range parts {
		var err error
		if c := p.chunk; c != nil {
			err = b.Chunk(c.Enc, c.MinT, c.MaxT, t.sel.Bytes(*c))
		} else {
			err = b.Floats(p.times, p.values)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// series appends to parts what is kept of series i.
func (t *thinner) series(w *worker, i int, parts []part) ([]part, error) {
	chunks := t.sel.Overlapping(i, t.q.MinT, t.q.MaxT)
	for _, c := range chunks {
		if c.Enc != chunkenc.EncXOR && c.Enc != chunkenc.EncXOR2 {
			for k := range chunks { // one with histograms is sent whole
				parts = append(parts, part{chunk: &chunks[k]})
			}
			return parts, nil
		}
	}
	for len(chunks) > 0 {
		n := len(chunks)
		if t.function == everything {
			n = 1 // no sample decides about another
			if t.inOneWindow(chunks[0]) {
				parts = append(parts, part{chunk: &chunks[0]})
				chunks = chunks[1:]
				continue
			}
		}
		w.buf.Reset()
		for k := range n {
			if !t.seen(chunks[k]) {
				continue
			}
			if _, err := w.buf.Read(t.sel, i, chunks[k:k+1], t.q.Hints.Range != 0); err != nil {
				return nil, err
			}
		}
		chunks = chunks[n:]
		parts = t.samples(w, parts)
	}
	return parts, nil
}

// seen reports whether an evaluation sees times of c at all.
func (t *thinner) seen(c selection.Chunk) bool {
	at := t.after(c.MinT)
	return at <= t.last && at < c.MaxT+t.width
}

// inOneWindow reports whether some evaluation sees all of c.
func (t *thinner) inOneWindow(c selection.Chunk) bool {
	at := t.after(c.MaxT)
	return at <= t.last && at < c.MinT+t.width
}

// samples appends to parts what is kept of the samples in w's buffer.
func (t *thinner) samples(w *worker, parts []part) []part {
	ts, vs := w.buf.Times, w.buf.Values
	lo, hi := search(ts, t.q.MinT), search(ts, t.q.MaxT+1)
	// A reader may drop what is behind the query's end, and then sees what is before it for longer.
	cut := max(lo, min(hi, search(ts, t.q.End+1)))
	w.kept = w.mark(w.kept[:0], ts[lo:cut], vs[lo:cut])
	n := len(w.kept)
	w.kept = w.mark(w.kept, ts[cut:hi], vs[cut:hi])
	if len(w.kept) == 0 {
		return parts
	}
	p := part{times: make([]int64, len(w.kept)), values: make([]float64, len(w.kept))}
	for i, k := range w.kept {
		if k += lo; i >= n {
			k += cut - lo
		}
		p.times[i], p.values[i] = ts[k], vs[k]
	}
	return append(parts, p)
}

// search returns how many of ts are before t.
func search(ts []int64, t int64) int {
	return sort.Search(len(ts), func(i int) bool { return ts[i] >= t })
}
