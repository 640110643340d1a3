package resample

import (
	"slices"
	"time"

	"github.com/prometheus/prometheus/tsdb/chunkenc"

	"github.com/promwarp/promwarp/cpuexec/decode"
	"github.com/promwarp/promwarp/resample/aggregate"
	"github.com/promwarp/promwarp/resample/bucket"
	"github.com/promwarp/promwarp/selection"
)

// worker is scratch memory of a goroutine.
type worker struct {
	samples decode.Buffer
	parts   []decode.Part // of samples: a series each
	times   []int64       // of a series, those of the plan's time
	values  []float64
	floats  []selection.Chunk // of series that have others, too
	diffs   []float64
	runs    aggregate.Runs // that were cut last
	block   aggregate.Runs // some of them
	states  []aggregate.State
	memory  aggregate.Memory // of states
	slab    slab             // that rows of the result are cut from
}

// do decodes and aggregates the series of some items: the values of each become rows of the result
// if its group has no other, or else states of the item.
func (w *worker) do(c *computing, items []item) error {
	began := time.Now()
	if err := w.read(c, items); err != nil {
		return err
	}
	decoded := time.Now()
	runs := 0
	for i := range items {
		w.choose(c, &w.parts[i])
		n := 0
		var err error
		if c.alone(items[i].group) {
			n, err = w.rows(c, &items[i])
		} else {
			n, err = w.columns(c, &items[i])
		}
		if err != nil {
			return err
		}
		runs += n
	}
	c.work.decode.Add(int64(decoded.Sub(began)))
	c.work.aggregate.Add(int64(time.Since(decoded)))
	c.work.series.Add(int64(len(items)))
	c.work.runs.Add(int64(runs))
	return nil
}

// read decodes the samples of some items' series.
func (w *worker) read(c *computing, items []item) error {
	w.parts, w.floats = w.parts[:0], w.floats[:0]
	for i := range items {
		chunks := items[i].chunks
		if !c.sel.OnlyFloats() {
			first := len(w.floats)
			for _, ch := range chunks {
				if ch.Enc == chunkenc.EncXOR || ch.Enc == chunkenc.EncXOR2 {
					w.floats = append(w.floats, ch)
				} else {
					c.work.histograms.Store(true)
				}
			}
			chunks = w.floats[first:]
		}
		w.parts = append(w.parts, decode.Part{Series: items[i].series, Chunks: chunks})
	}
	w.samples.Reset()
	stats, err := w.samples.ReadAll(c.sel, w.parts, true)
	c.work.chunks.Add(int64(stats.Chunks))
	c.work.samples.Add(stats.Samples)
	c.work.bytes.Add(stats.Bytes)
	return err
}

// choose makes the samples of a part that are of the plan's time those that are aggregated next.
func (w *worker) choose(c *computing, p *decode.Part) {
	ts, vs := w.samples.Times[p.First:p.End], w.samples.Values[p.First:p.End]
	lo, _ := slices.BinarySearch(ts, c.from)
	hi, _ := slices.BinarySearch(ts, c.to)
	w.times, w.values = ts[lo:hi], vs[lo:hi]
}

// of returns the times and values that a source has of the series.
func (w *worker) of(s *Source) (ts []int64, vs []float64) {
	ts, vs = w.times, w.values
	if !s.Differences {
		return ts, vs
	}
	w.diffs = slices.Grow(w.diffs[:0], len(vs))
	return ts[min(1, len(ts)):], aggregate.Differences(vs, w.diffs)
}

// cut finds the runs of the series in source i. Those of the source before it may be the same.
func (w *worker) cut(c *computing, i int) {
	s := &c.Sources[i]
	if i > 0 && c.Sources[i-1].Differences == s.Differences {
		return
	}
	w.runs.Times, w.runs.Values = w.of(s)
	w.runs.Runs, w.runs.Grid = c.Grid.CountUniqs(w.runs.Times, w.runs.Runs[:0]), c.Grid
}

// runBlock is the number of runs whose states stay in a core's first cache until the results are
// made of them.
const runBlock = 64

// rows makes the rows of a group that has one series. It returns the number of runs.
func (w *worker) rows(c *computing, it *item) (n int, err error) {
	rows := make([]Row, len(c.Aggregates))
	for i := range c.Sources {
		s := &c.Sources[i]
		w.cut(c, i)
		runs := w.runs.Runs
		if len(runs) == 0 {
			continue
		}
		n += len(runs)
		if err := c.make(&w.slab, rows, s.Outputs, len(runs)); err != nil {
			return n, err
		}
		if len(runs) < c.Grid.N() {
			buckets := rows[s.Outputs[0]].Buckets
			for k, run := range runs {
				buckets[k] = run.Bucket
			}
		}
		block := &w.block
		*block = w.runs
		for at := 0; at < len(runs) && c.ctx.Err() == nil; at += runBlock {
			block.Runs = runs[at:min(at+runBlock, len(runs))]
			w.states = s.Contents.Make(w.states, block, &w.memory)
			if len(c.groups.labels) < len(c.groups.members) { // a group of one series among others
				s.Contents.Begin(w.states)
			}
			for _, a := range s.Outputs {
				of := &c.Aggregates[a]
				of.Results(w.states, of.Q, rows[a].Values[at:])
			}
		}
	}
	if n > 0 {
		c.result.Series[it.group] = Series{c.groups.labels[it.group], rows}
	}
	return n, nil
}

// slab is memory that values of the result are cut from: many series share an allocation, and the
// slabs grow with the result.
type slab struct {
	rest []float64
	last int // values of the last slab
}

// mostSlab is the number of values of a slab, at most, unless one piece is longer.
const mostSlab = 32 << 10

// cut returns n values that are 0.
func (s *slab) cut(n int) []float64 {
	if len(s.rest) < n {
		s.last = max(n, min(2*s.last, mostSlab))
		s.rest = make([]float64, s.last)
	}
	out := s.rest[:n:n]
	s.rest = s.rest[n:]
	return out
}

// make makes room for n values in some of the rows, which share their buckets. Those of all buckets
// are there already.
func (r *run) make(s *slab, rows []Row, which []int, n int) error {
	if err := r.hold(n * len(which)); err != nil {
		return err
	}
	bytes, buckets := rowBytes(n)*int64(len(which)), r.result.whole
	if n < r.Grid.N() {
		bytes += 4 * int64(n)
	}
	if err := r.budget.Charge(bytes); err != nil {
		return err
	}
	if n < r.Grid.N() {
		buckets = make([]int32, n)
	}
	values := s.cut(n * len(which))
	for i, a := range which {
		rows[a] = Row{buckets, values[i*n : (i+1)*n : (i+1)*n]}
	}
	return nil
}

// columns makes the states that are merged into the item's group. It returns the number of runs.
func (w *worker) columns(c *computing, it *item) (n int, err error) {
	it.columns = slices.Grow(it.columns[:0], c.slots())[:c.slots()]
	for i := range c.Sources {
		s := &c.Sources[i]
		w.cut(c, i)
		runs := w.runs.Runs
		n += len(runs)
		if c.Reaggregate == nil {
			col := &it.columns[i]
			col.states = s.Contents.Make(col.states, &w.runs, &col.memory)
			col.setBuckets(runs)
			continue
		}
		w.states = s.Contents.Make(w.states, &w.runs, &w.memory)
		for _, a := range s.Outputs {
			it.columns[a].again(c, a, runs, w.states)
		}
	}
	return n, nil
}

func (col *columnStates) setBuckets(runs []bucket.Run) {
	col.buckets = col.buckets[:0]
	for _, run := range runs {
		col.buckets = append(col.buckets, run.Bucket)
	}
}

// again puts the values of aggregate a, one a run, into the column, to be aggregated again.
func (col *columnStates) again(c *computing, a int, runs []bucket.Run, of []aggregate.State) {
	col.setBuckets(runs)
	col.memory.Values = slices.Grow(col.memory.Values[:0], len(runs))[:len(runs)]
	c.Aggregates[a].Results(of, c.Aggregates[a].Q, col.memory.Values)
}
