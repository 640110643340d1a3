package engine

import (
	"cmp"
	"math"
	"slices"
	"sync"
	"time"

	"github.com/promwarp/promwarp/plan"
	"github.com/promwarp/promwarp/plan/offload"
	"github.com/promwarp/promwarp/planner/placement"
)

// pace is how long each unit of some work takes. It learns from what happened, and is safe for
// concurrent use.
type pace struct {
	mu   sync.Mutex
	unit []float64          // µs
	off  map[string]float64 // by kind of work, the logarithm of how many times as long it takes
}

const (
	learning = 0.1 // weight of the newest observation
	// outlier is how many times as long or short as expected counts no more than that: the machine
	// may have had no time for a query.
	outlier = 4
)

// newPace is a pace before anything was observed, by the µs of each unit.
func newPace(unit ...float64) *pace { return &pace{unit: unit, off: map[string]float64{}} }

// expect is how many µs that many of each unit take of a kind of work.
func (p *pace) expect(kind string, units ...float64) (took float64) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for i, n := range units {
		took += n * p.unit[i]
	}
	return took * math.Exp(p.off[kind])
}

// observe notes what they took. The units that most of it was expected of are corrected most.
func (p *pace) observe(took time.Duration, kind string, units ...float64) {
	expected, most := p.expect(kind, units...), math.Log(outlier)
	off := learning * max(-most, min(most, math.Log(max(1, float64(took.Microseconds()))/expected)))
	p.mu.Lock()
	defer p.mu.Unlock()
	for i, n := range units {
		p.unit[i] *= math.Exp(off * min(1, n*p.unit[i]*math.Exp(p.off[kind])/expected))
	}
	p.off[kind] += off
}

// work is what a query has executors and upstreams do.
type work struct {
	function  string     // of its windows: most queries have one
	evaluated [5]float64 // selectors, series, samples that are decoded, and that were, windows of all series
	fetched   [3]float64 // fetches, series, bytes
}

// add adds what a window does on that many steps, nil without a plan, and what is fetched for it.
func (w *work) add(of *plan.Window, steps int, series, bytes float64) {
	if of != nil {
		w.function = max(w.function, of.Func.Name)
	}
	w.evaluated[0]++
	w.evaluated[1] += series
	w.evaluated[4] += series * float64(steps)
	if bytes > 0 {
		w.fetched = [3]float64{1, w.fetched[1] + series, w.fetched[2] + bytes}
	}
}

// learn notes how long the query took on cores: to fetch, and all else. Of that it learns nothing
// where steps were evaluated during a fetch or remembered, or leaves on GPUs.
func (q *query) learn(took time.Duration) {
	var w work
	for _, r := range readings(q.plan.Node, q.plan.Grid, nil) {
		if f := q.fetches.of[r.window.Scan.Pos]; f.sel != nil {
			w.add(r.window, r.grid.Steps, float64(f.sel.NumSeries()), float64(f.tiles.FetchedBytes.Load()))
		}
	}
	waited, did := q.waited+q.fetches.waited, &q.matrix.Work
	if w.fetched[0] > 0 {
		q.e.fetching.observe(waited, "", w.fetched[:]...)
	}
	if w.evaluated[0] > 0 && did.Device == nil && !q.remembered && len(q.fetches.took) == 0 {
		w.evaluated[2], w.evaluated[3] = float64(did.Samples), float64(did.Kept)
		q.e.evaluating.observe(took-waited-q.queued, w.function, w.evaluated[:]...)
	}
}

// expect adds to the cost what the query will take: as things are, with nothing cached, and with
// all.
func (q *query) expect(c *plan.Cost, all []*reads) {
	if q.plan.Node == nil || !c.Complete || len(all) == 0 {
		return
	}
	var now, cold work
	var samples, decoded, retained float64
	for _, s := range all {
		now.add(s.window, s.grid.Steps, s.series, s.lacks)
		cold.add(s.window, s.grid.Steps, s.series, s.lacks+s.cached)
		samples += s.samples
		decoded += s.decoded * s.samples
	}
	if q.e.opts.DecodedBytes > 0 {
		retained = samples
	}
	size := offload.Size{Function: now.function, Series: int64(now.evaluated[1]), Samples: int64(samples), Windows: int64(now.evaluated[4])}
	c.Cores, c.GPU = &plan.Times{}, &plan.Times{}
	for _, state := range []struct {
		cores, gpu *plan.Took
		fetched    [3]float64
		missing    float64 // bytes, on the GPU
		decoded    float64 // samples
	}{
		{&c.Cores.Now, &c.GPU.Now, now.fetched, cold.fetched[2], decoded},
		{&c.Cores.Cold, &c.GPU.Cold, cold.fetched, cold.fetched[2], 0},
		{&c.Cores.Warm, &c.GPU.Warm, [3]float64{}, 0, retained},
	} {
		evaluation := func(decoded float64) int64 {
			now.evaluated[2], now.evaluated[3] = samples-decoded, decoded
			return int64(q.e.evaluating.expect(now.function, now.evaluated[:]...))
		}
		fetch, whole := int64(q.e.fetching.expect("", state.fetched[:]...)), evaluation(state.decoded)
		evaluate := min(whole, evaluation(samples))
		*state.cores = plan.Took{Fetch: fetch, Decode: whole - evaluate, Evaluate: evaluate, Total: fetch + whole}
		size.Missing = int64(state.missing)
		if gpu, ok := q.e.opts.GPUs.Expect(size); ok {
			evaluate := gpu[placement.Device].Microseconds()
			*state.gpu = plan.Took{Fetch: fetch, Evaluate: evaluate, Total: fetch + evaluate}
		} else {
			c.GPU = nil
		}
	}
	phase, of := "evaluate", func(s *reads) int64 { return s.Samples }
	switch t := c.Cores.Now; max(t.Fetch, t.Decode, t.Evaluate) {
	case t.Fetch:
		phase, of = "fetch", func(s *reads) int64 { return s.FetchBytes }
	case t.Decode:
		phase = "decode"
	}
	most := slices.MaxFunc(all, func(a, b *reads) int { return cmp.Compare(of(a), of(b)) })
	c.Dominates = &plan.Dominant{Selector: most.Selector, Phase: phase}
}
