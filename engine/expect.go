package engine

import (
	"cmp"
	"math"
	"runtime"
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

// newEvaluating is the pace of evaluations before any was observed: the units are a selector, a
// series, a sample that is decoded, one that was, and a window of a series.
func newEvaluating() *pace {
	n := float64(runtime.GOMAXPROCS(0))
	return &pace{unit: []float64{200, 1.5 / n, 0.02 / n, 0.001 / n, 0.004 / n}, off: map[string]float64{}}
}

// newFetching is that of fetches: the units are a fetch, a series and a byte.
func newFetching() *pace {
	return &pace{unit: []float64{200, 15, 0.01}, off: map[string]float64{}}
}

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

// learn notes how long the query took on cores: to fetch, and for all else by a function of its
// windows, of which most queries have one. Of that it learns nothing where steps were evaluated
// during a fetch or remembered, or leaves on GPUs.
func (q *query) learn(took time.Duration) {
	waited := q.waited + q.fetches.waited
	var selectors, series, windows, fetched, bytes float64
	function := ""
	for _, r := range readings(q.plan.Node, q.plan.Grid, nil) {
		f := q.fetches.of[r.window.Scan.Pos]
		if f.sel == nil {
			continue
		}
		n := float64(f.sel.NumSeries())
		selectors, series, windows = selectors+1, series+n, windows+n*float64(r.grid.Steps)
		if b := f.tiles.FetchedBytes.Load(); b > 0 {
			fetched, bytes = fetched+n, bytes+float64(b)
		}
		function = max(function, r.window.Func.Name)
	}
	if bytes > 0 {
		q.e.fetching.observe(waited, "", 1, fetched, bytes)
	}
	w := &q.matrix.Work
	if selectors > 0 && w.Device == nil && !q.remembered && len(q.fetches.took) == 0 {
		q.e.evaluating.observe(took-waited-q.queued, function, selectors, series, float64(w.Samples), float64(w.Kept), windows)
	}
}

// expect adds to the cost what the query will take: as things are, with nothing cached, and with
// all. Each selector is fetched once.
func (q *query) expect(c *plan.Cost, all []*reads, once map[string]*reads) {
	if q.plan.Node == nil || !c.Complete || len(all) == 0 {
		return
	}
	var series, samples, windows, decoded, retained float64
	function := ""
	for _, s := range all {
		series, samples, windows = series+s.series, samples+s.samples, windows+s.series*float64(s.grid.Steps)
		decoded += s.decoded * s.samples
		if s.window != nil {
			function = max(function, s.window.Func.Name)
		}
	}
	if q.e.opts.DecodedBytes > 0 {
		retained = samples
	}
	now, cold := [3]float64{1}, [3]float64{1}
	for _, s := range once {
		cold[1], cold[2] = cold[1]+s.series, cold[2]+s.lacks+s.cached
		if s.lacks > 0 {
			now[1], now[2] = now[1]+s.series, now[2]+s.lacks
		}
	}
	c.Cores, c.GPU = &plan.Times{}, &plan.Times{}
	for _, state := range []struct {
		cores, gpu *plan.Took
		fetches    [3]float64
		missing    float64 // bytes, on the GPU
		decoded    float64 // samples
	}{
		{&c.Cores.Now, &c.GPU.Now, now, cold[2], decoded},
		{&c.Cores.Cold, &c.GPU.Cold, cold, cold[2], 0},
		{&c.Cores.Warm, &c.GPU.Warm, [3]float64{}, 0, retained},
	} {
		var t plan.Took
		if state.fetches[2] > 0 {
			t.Fetch = int64(q.e.fetching.expect("", state.fetches[:]...))
		}
		evaluation := func(decoded float64) int64 {
			return int64(q.e.evaluating.expect(function, float64(len(all)), series, samples-decoded, decoded, windows))
		}
		t.Evaluate = min(evaluation(samples), evaluation(state.decoded))
		t.Decode = evaluation(state.decoded) - t.Evaluate
		t.Total = t.Fetch + t.Decode + t.Evaluate
		*state.cores = t
		size := offload.Size{Function: function, Series: int64(series), Samples: int64(samples), Missing: int64(state.missing), Windows: int64(windows)}
		gpu, ok := q.e.opts.GPUs.Expect(size)
		if !ok {
			c.GPU = nil
			continue
		}
		evaluate := gpu[placement.Device].Microseconds()
		*state.gpu = plan.Took{Fetch: t.Fetch, Evaluate: evaluate, Total: t.Fetch + evaluate}
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
