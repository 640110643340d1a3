package resample

import (
	"slices"
	"time"

	"github.com/prometheus/prometheus/tsdb/chunkenc"

	"github.com/promwarp/promwarp/cpuexec/column"
	"github.com/promwarp/promwarp/cpuexec/decode"
	"github.com/promwarp/promwarp/resample/aggregate"
	"github.com/promwarp/promwarp/resample/bucket"
	"github.com/promwarp/promwarp/selection"
)

// worker is scratch memory of a goroutine, and what it has done.
type worker struct {
	reader column.Reader
	floats decode.Buffer     // of a series that has histograms, too
	chunks []selection.Chunk // that floats was read from
	cuts   []cut             // of times that series share
	own    cut               // of times that no other series has, as far as is known
	cut    *cut              // of the series
	values []float64         // of the series, those of the plan's time
	diffs  []float64
	runs   aggregate.Runs // of the series and a source
	states aggregate.States
	alone  item      // whose group has no other
	since  time.Time // when it began with the series
	work   counters
}

// reset has the worker forget a request. Its memory stays.
func (w *worker) reset() {
	w.reader.Reset(false)
	for i := range w.cuts {
		w.cuts[i].of, w.cuts[i].times = sharedTimes{}, nil
	}
	w.cuts, w.cut, w.own.times, w.values, w.runs = w.cuts[:0], nil, nil, nil, aggregate.Runs{}
	w.work = counters{}
}

// cut is which samples of a series are of the plan's time, and the runs of these and of the differences
// between them: what depends on times alone.
type cut struct {
	of     sharedTimes
	times  []int64
	first  int // number of the first of these samples
	runs   [2][]bucket.Run
	isDone [2]bool
	joined []int64 // memory of times
}

// sharedTimes are times that retained columns share.
type sharedTimes struct {
	column.Place
	n int
}

// mostCuts is the most cuts that a worker keeps of times that series share.
const mostCuts = 16

// cutOf returns the cut of times, which series that are scraped together share.
func (w *worker) cutOf(c *computing, t column.Times) *cut {
	to, of := &w.own, sharedTimes{t.Place, t.Known}
	if t.Known > 0 && len(t.Own) == 0 {
		for i := range w.cuts {
			if w.cuts[i].of == of {
				return &w.cuts[i]
			}
		}
		if n := len(w.cuts); n < mostCuts {
			w.cuts = slices.Grow(w.cuts, mostCuts-n)[:n+1]
			to = &w.cuts[n]
			to.of = of
		}
	}
	ts := t.Join(t.Own, &to.joined)
	lo, _ := slices.BinarySearch(ts, c.from)
	hi, _ := slices.BinarySearch(ts, c.to)
	to.times, to.first, to.isDone = ts[lo:hi], lo, [2]bool{}
	return to
}

// do decodes and aggregates the series of an item: its values become rows of the result if its group
// has no other, or else states of the item.
func (w *worker) do(c *computing, it *item) error {
	if err := w.read(c, it); err != nil {
		return err
	}
	w.work.decode += w.lap(c)
	var err error
	if c.alone(it.group) {
		w.work.runs += int64(w.columns(c, &w.alone))
		err = c.finishAlone(it.group, w.alone.columns)
	} else {
		w.work.runs += int64(w.columns(c, it))
	}
	w.work.aggregate += w.lap(c)
	w.work.series++
	return err
}

// lap is the time since the call before, of a request whose answer says what it took; else it is 0.
func (w *worker) lap(c *computing) time.Duration {
	if !c.Explained {
		return 0
	}
	before := w.since
	w.since = time.Now()
	return w.since.Sub(before)
}

// read has the samples of an item's series within the plan's time aggregated next.
func (w *worker) read(c *computing, it *item) (err error) {
	var in column.Samples
	if c.sel.OnlyFloats() {
		in, err = w.reader.Load(&c.reads, it.series)
	} else {
		in, err = w.readFloats(c, it)
	}
	if err != nil {
		return err
	}
	w.cut = w.cutOf(c, in.Times)
	w.values = in.Values[w.cut.first : w.cut.first+len(w.cut.times)]
	return nil
}

// readFloats reads the floats of a series that may have histograms, too.
func (w *worker) readFloats(c *computing, it *item) (column.Samples, error) {
	w.chunks = w.chunks[:0]
	for _, ch := range c.sel.Overlapping(it.series, c.from, c.to-1) {
		if ch.Enc == chunkenc.EncXOR || ch.Enc == chunkenc.EncXOR2 {
			w.chunks = append(w.chunks, ch)
		} else {
			w.work.histograms = true
		}
	}
	w.floats.Reset()
	err := w.floats.Read(c.sel, it.series, w.chunks, true, &w.reader.Stats)
	return column.NewSamples(w.floats.Times, w.floats.Values), err
}

// take has the runs of the series in source i aggregated next. The runs of the source before it may
// be the same.
func (w *worker) take(c *computing, i int) {
	s := &c.Sources[i]
	if i > 0 && c.Sources[i-1].Differences == s.Differences {
		return
	}
	ts, vs, kind := w.cut.times, w.values, 0
	if s.Differences {
		w.diffs = slices.Grow(w.diffs[:0], len(vs))
		ts, vs, kind = ts[min(1, len(ts)):], aggregate.Differences(vs, w.diffs), 1
	}
	if !w.cut.isDone[kind] {
		w.cut.runs[kind], w.cut.isDone[kind] = c.Grid.CountUniqs(ts, w.cut.runs[kind][:0]), true
	}
	w.runs = aggregate.Runs{Times: ts, Values: vs, Runs: w.cut.runs[kind], Grid: c.Grid}
}

// make makes room for the values of buckets in some of the rows, which share these.
func (r *run) make(rows []Row, which []int, buckets []int32) error {
	n := len(buckets)
	if err := r.hold(n * len(which)); err != nil {
		return err
	}
	bytes := rowBytes(n) * int64(len(which))
	if n < r.Grid.N() { // the buckets are theirs alone
		bytes += 4 * int64(n)
	}
	if err := r.chargeRows(bytes); err != nil {
		return err
	}
	values := make([]float64, n*len(which))
	for i, a := range which {
		rows[a] = Row{buckets, values[i*n : (i+1)*n : (i+1)*n]}
	}
	return nil
}

// columns makes what an item's group is made of. It returns the number of runs.
func (w *worker) columns(c *computing, it *item) (n int) {
	it.columns = slices.Grow(it.columns[:0], len(c.Slots))[:len(c.Slots)]
	for i := range c.Sources {
		s := &c.Sources[i]
		w.take(c, i)
		runs := w.runs.Runs
		n += len(runs)
		buckets := c.bucketsOf(runs)
		if c.Reaggregate == nil {
			it.columns[i].buckets = buckets
			s.Contents.Make(&it.columns[i].states, &w.runs)
			continue
		}
		s.Contents.Make(&w.states, &w.runs)
		for _, a := range s.Outputs {
			of, col := &c.Aggregates[a], &it.columns[a]
			col.buckets, col.values = buckets, slices.Grow(col.values[:0], len(runs))[:len(runs)]
			of.Results(&w.states, c.result.whole[:len(runs)], of.Q, col.values)
		}
	}
	return n
}

// bucketsOf returns the buckets of runs, which rows share where they are all.
func (r *run) bucketsOf(runs []bucket.Run) []int32 {
	if len(runs) == r.Grid.N() {
		return r.result.whole
	}
	buckets := make([]int32, len(runs))
	for k, run := range runs {
		buckets[k] = run.Bucket
	}
	return buckets
}
