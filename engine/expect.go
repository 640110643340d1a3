package engine

import (
	"cmp"
	"runtime"
	"slices"
	"time"

	"github.com/promwarp/promwarp/plan"
	"github.com/promwarp/promwarp/plan/offload"
	"github.com/promwarp/promwarp/planner/placement"
)

// assumed is what one core takes before the engine has learned anything, as calibration measured
// it.
func assumed() placement.Constants {
	cores := float64(runtime.GOMAXPROCS(0))
	return placement.Constants{Cores: placement.Costs{Fixed: 30 * time.Microsecond, Sample: 14 / cores}, Link: 1}
}

// learn notes how long cores took to evaluate the query, by a function of its windows: most queries
// have one. It learns nothing from steps that were evaluated during a fetch, nor from leaves on GPUs. A
// moment at which the machine had no time for the query counts little.
func (q *query) learn(w *plan.Work) {
	if w.Device != nil || len(q.fetches.took) > 0 {
		return
	}
	size := offload.Size{Series: int64(w.Series), Samples: w.Samples + w.Kept}
	size.Decoded = float64(w.Kept) / float64(max(1, size.Samples))
	for _, r := range readings(q.plan.Node, q.plan.Grid, nil) {
		if f := q.fetches.of[r.window.Scan.Pos]; f.sel != nil {
			size.Windows += int64(f.sel.NumSeries()) * int64(r.grid.Steps)
		}
		size.Function = max(size.Function, r.window.Func.Name)
	}
	size.Function += stateOf(size.Decoded)
	took := time.Duration(w.EvalMicros) * time.Microsecond
	q.e.costs.Observe(placement.Cores, size, min(took, 3*q.e.costs.Estimate(size)[placement.Cores]))
}

// stateOf has what is decoded already learned apart: a little of it takes other times than much of
// the rest.
func stateOf(decoded float64) string {
	if decoded > 0.5 {
		return " decoded"
	}
	return ""
}

// expect adds to the cost what the query will take: as things are, with nothing cached, and with
// all.
func (q *query) expect(c *plan.Cost, all []*reads) {
	if q.plan.Node == nil || !c.Complete {
		return
	}
	var size offload.Size
	function, decoded, retained := "", 0.0, 0.0
	for _, s := range all {
		size.Series += s.Series
		size.Samples += s.Samples
		size.Windows += s.Series * int64(s.grid.Steps)
		decoded += s.decoded * s.samples
		if s.window != nil {
			function = max(function, s.window.Func.Name)
		}
	}
	if q.e.opts.DecodedBytes > 0 {
		retained = 1
	}
	bytes := c.FetchBytes + c.CachedBytes
	c.Cores, c.GPU = &plan.Times{}, &plan.Times{}
	for _, state := range []struct {
		cores, gpu       *plan.Took
		fetched, missing int64 // bytes; missing on the GPU
		decoded          float64
	}{
		{&c.Cores.Now, &c.GPU.Now, c.FetchBytes, bytes, decoded / float64(max(1, size.Samples))},
		{&c.Cores.Cold, &c.GPU.Cold, bytes, bytes, 0},
		{&c.Cores.Warm, &c.GPU.Warm, 0, 0, retained},
	} {
		fetch := int64(0)
		if state.fetched > 0 {
			fetch = all[0].fetching(state.fetched).Microseconds()
		}
		size.Missing, size.Decoded, size.Function = state.missing, state.decoded, function+stateOf(state.decoded)
		whole := q.e.costs.Estimate(size)[placement.Cores].Microseconds()
		if gpu, ok := q.e.opts.GPUs.Expect(size); ok {
			evaluate := gpu[placement.Device].Microseconds()
			*state.gpu = plan.Took{Fetch: fetch, Evaluate: evaluate, Total: fetch + evaluate}
		} else {
			c.GPU = nil
		}
		size.Decoded = 1
		evaluate := min(whole, q.e.costs.Estimate(size)[placement.Cores].Microseconds())
		*state.cores = plan.Took{Fetch: fetch, Decode: whole - evaluate, Evaluate: evaluate, Total: fetch + whole}
	}
	c.Dominates = dominant(c.Cores.Now, all)
}

// dominant is the phase that takes longest, and the selector of which most is fetched or read.
func dominant(t plan.Took, all []*reads) *plan.Dominant {
	if len(all) == 0 {
		return nil
	}
	phase, of := "evaluate", func(s *reads) int64 { return s.Samples }
	switch max(t.Fetch, t.Decode, t.Evaluate) {
	case t.Fetch:
		phase, of = "fetch", func(s *reads) int64 { return s.FetchBytes }
	case t.Decode:
		phase = "decode"
	}
	most := slices.MaxFunc(all, func(a, b *reads) int { return cmp.Compare(of(a), of(b)) })
	return &plan.Dominant{Selector: most.Selector, Phase: phase}
}
