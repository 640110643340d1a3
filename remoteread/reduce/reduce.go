// Package reduce makes less of what a remote reader asks for, where the reader's answer stays
// the same.
//
// A Prometheus says with each selector what it does with the samples: its hints. From these
// follow the times at which it evaluates the selector, its grid. Thin keeps of each series the
// samples that the reader can see from one of these times. Aggregate sends a series a group in
// place of the group's series. What flows in is a query of remote read and the selection that
// it matched; what flows out is a selection that is sent instead. The reader's answer is the
// one that it would give to all samples, bit by bit, under the conditions in docs/readers.md.
// Whatever does not say enough gets all.
//
// Start with Reducer.Thin; grid.go is what hints mean, seen.go which samples a function sees
// and which of them are sent at the ends of windows, aggregate.go which aggregations have a form that
// the reader's own leaves as it is.
package reduce

import (
	"context"
	"errors"
	"runtime"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/prometheus/promql"
	"github.com/prometheus/prometheus/tsdb/chunkenc"

	"github.com/promwarp/promwarp/cpuexec/column"
	"github.com/promwarp/promwarp/cpuexec/decode"
	"github.com/promwarp/promwarp/cpuexec/exact"
	"github.com/promwarp/promwarp/cpuexec/window"
	"github.com/promwarp/promwarp/internal/instrument"
	"github.com/promwarp/promwarp/internal/memory"
	"github.com/promwarp/promwarp/internal/parallel"
	"github.com/promwarp/promwarp/remoteread/serve"
	"github.com/promwarp/promwarp/selection"
)

// Options are what a Reducer is made from.
type Options struct {
	// Lookback is how far back readers' instant selectors look, as --query.lookback-delta is
	// set where they run. Other than the rest, readers do not say it.
	Lookback time.Duration
	// Engine evaluates aggregations over selections.
	Engine promql.QueryEngine
	// Columns retains decoded samples; nil if none are.
	Columns *column.Set
	// Memory is the process's memory, of which what is sent takes leases; nil is no limit.
	Memory *memory.Pool
	// Registerer gets the metrics; may be nil.
	Registerer prometheus.Registerer
}

// Reducer reduces selections. It is safe for concurrent use.
type Reducer struct {
	o       Options
	reduced *prometheus.CounterVec
}

// New returns a reducer.
func New(o Options) *Reducer {
	return &Reducer{o, instrument.With(o.Registerer).Counters("promwarp_read_reduced_total",
		"Queries of remote read below /api/v1/read/ by path, by what was sent, and by why that was not less.", "path", "sent", "reason")}
}

// What is sent.
const (
	sentAll        = "all"
	sentThinned    = "thinned"
	sentAggregated = "aggregated"
)

// reduction makes the results of a serve.Reduce of the selection that is sent, which it counts, and
// of the lease of its memory.
func (r *Reducer) reduction(path, sent string, why reason, out *selection.Selection, lease *memory.Lease, err error) (*selection.Selection, func(), error) {
	if err != nil {
		lease.Release()
		return nil, nil, err
	}
	r.reduced.WithLabelValues(path, sent, string(why)).Inc()
	return out, lease.Release, nil
}

// thin returns those samples of sel that q's reader sees, which says whether it has no others of
// the same series. Where that cannot be told, or is all, it returns sel, and why.
func (r *Reducer) thin(ctx context.Context, q serve.Query, sel *selection.Selection, alone bool, lease *memory.Lease) (*selection.Selection, reason, error) {
	a, why := understand(q, r.o.Lookback)
	if why != "" {
		return sel, why, nil
	}
	f, onGrid := a.choose(q, alone)
	switch {
	case f == window.Everything && (fewest*a.width > a.step || a.steps() == 1), (f >= window.LastTwo || f.Added()) && crowded(q, sel, f.PerWindow()*a.steps()):
		return sel, mostSamples, nil
	case decode.HasStarts(sel):
		return sel, startTimestamps, nil
	case joined(sel.Series(), q.External):
		return sel, withExternal, nil // whose value counts at a time of both, all chunks decide
	}
	t := r.thinner(q, sel, a, f)
	t.onGrid = onGrid
	out, err := t.run(ctx, lease)
	if errors.As(err, new(*selection.CorruptError)) {
		sel.Discard()
	}
	return out, "", err
}

// crowded reports whether the seen samples are most samples of a series.
func crowded(q serve.Query, sel *selection.Selection, seen int64) bool {
	n, series := int64(0), int64(0)
	for i := range sel.NumSeries() {
		chunks := sel.Overlapping(i, q.MinT, q.MaxT)
		for k := range chunks {
			n += int64(chunks[k].Samples)
		}
		if len(chunks) > 0 {
			series++
		}
	}
	return fewest*seen*series > n
}

// thinner thins the series of a selection.
type thinner struct {
	q   serve.Query
	sel *selection.Selection
	asked
	window.Sees
	onGrid  bool        // whether samples are sent at the ends of their windows
	columns *column.Set // or nil
	tick    int64       // of its clock
}

func (r *Reducer) thinner(q serve.Query, sel *selection.Selection, a asked, f window.Sees) *thinner {
	t := &thinner{q: q, sel: sel, asked: a, Sees: f, columns: r.o.Columns}
	if t.columns != nil {
		t.tick = t.columns.Tick()
	}
	return t
}

// fewest is the part of its samples that a range must see of a series for thinning to cost less
// than it saves: one of fewest samples, at most.
const fewest = 4

// worker is the scratch memory of a goroutine.
type worker struct {
	marker
	buf    decode.Buffer
	reader column.Reader
	joined []int64
	kept   []int
	times  []int64
	values []float64
}

// thinBatch is how many series are thinned before what they keep is encoded.
const thinBatch = 256

func (t *thinner) run(ctx context.Context, lease *memory.Lease) (*selection.Selection, error) {
	b := selection.NewBuilder(0).Within(ctx)
	workers := make([]worker, runtime.GOMAXPROCS(0))
	for i := range workers {
		workers[i].marker = marker{asked: t.asked, Sees: t.Sees}
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
			if len(parts[i]) == 0 {
				continue
			}
			b.Series(t.sel.Labels(first + i))
			if err := write(b, parts[i], t.sel); err != nil {
				return nil, err
			}
		}
		if err := lease.Grow(ctx, b.Bytes()-before); err != nil {
			return nil, err
		}
	}
	return b.Finish()
}

// series appends to parts what is kept of series i.
func (t *thinner) series(w *worker, i int, parts []part) ([]part, error) {
	chunks := t.sel.Overlapping(i, t.q.MinT, t.q.MaxT)
	for _, c := range chunks {
		if c.Enc != chunkenc.EncXOR && c.Enc != chunkenc.EncXOR2 {
			for k := range chunks { // one with histograms is sent whole
				parts = append(parts, part{Chunk: &chunks[k]})
			}
			return parts, nil
		}
	}
	if t.columns != nil && t.sel.Memo(i) != nil { // decoded samples may be retained
		in, err := w.reader.Load(&column.Request{
			Set: t.columns, Tick: t.tick, Sel: t.sel, Mint: t.q.MinT, Maxt: t.q.MaxT,
			KeepStale: t.q.Hints.Range == 0, TakePacked: !t.ByValue(),
		}, i)
		if err != nil {
			return nil, err
		}
		return t.samples(w, in.Times.Join(in.Times.Own, &w.joined), &in, parts), nil
	}
	w.buf.Reset()
	for k, c := range chunks {
		if at := t.after(c.MinT); at > t.last || at >= c.MaxT+t.width {
			continue // no evaluation sees times of it
		}
		if err := w.buf.Read(t.sel, i, chunks[k:k+1], t.q.Hints.Range != 0, new(decode.Stats)); err != nil {
			return nil, err
		}
	}
	in := column.NewSamples(w.buf.Times, w.buf.Values)
	return t.samples(w, w.buf.Times, &in, parts), nil
}

// samples appends to parts what is kept of samples, which have the times ts.
func (t *thinner) samples(w *worker, ts []int64, in *column.Samples, parts []part) []part {
	lo, hi := beyond(ts, 0, t.q.MinT-1), beyond(ts, 0, t.q.MaxT)
	// A reader may drop what is behind the query's end, and then sees what is before it for longer.
	cut := max(lo, min(hi, beyond(ts, 0, t.q.End)))
	var before, behind []float64
	if t.ByValue() {
		before, behind = in.Values[lo:cut], in.Values[cut:hi]
	}
	w.times, w.values = w.times[:0], w.values[:0]
	if t.Added() {
		w.add(ts[lo:hi], in.Values[lo:hi])
		return encode(parts, w.times, w.values)
	}
	w.kept = w.mark(w.kept[:0], ts[lo:cut], before)
	n := len(w.kept)
	w.kept = w.mark(w.kept, ts[cut:hi], behind)
	for i, k := range w.kept {
		if k += lo; i >= n {
			k += cut - lo
		}
		at := ts[k]
		if t.onGrid {
			at = t.grid.after(at)
		}
		w.times = append(w.times, at)
		if k < len(in.Units) { // a packed sample, else one behind them
			w.values = append(w.values, in.Value(int32(k)))
		} else {
			w.values = append(w.values, in.Values[k-len(in.Units)])
		}
	}
	return encode(parts, w.times, w.values)
}

// Thin is a serve.Reduce that sends those samples that the reader can see.
func (r *Reducer) Thin(ctx context.Context, q serve.Query, sel *selection.Selection) (*selection.Selection, func(), error) {
	lease := r.o.Memory.Lease(memory.Answers)
	out, why, err := r.thin(ctx, q, sel, false, lease)
	sent := sentThinned
	if why != "" {
		sent = sentAll
	}
	return r.reduction("thin", sent, why, out, lease, err)
}

// add appends to w's times and values those of windows that are made of all of their samples.
func (w *worker) add(ts []int64, vs []float64) {
	for lo, hi := 0, 0; hi < len(ts); {
		at := w.grid.after(ts[hi])
		if at > w.last {
			return
		}
		lo, hi = beyond(ts, hi, at-w.width), beyond(ts, hi, at)
		if lo == hi {
			continue
		}
		v := 0.0
		if w.Sees == window.Total {
			v = exact.Sum(vs[lo:hi])
		} else {
			v = exact.Mean(vs[lo:hi])
		}
		w.times, w.values = append(w.times, at), append(w.values, v)
	}
}
