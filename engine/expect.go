package engine

import (
	"runtime"
	"strings"
	"time"

	"github.com/promwarp/promwarp/plan"
	"github.com/promwarp/promwarp/plan/offload"
	"github.com/promwarp/promwarp/planner/placement"
	"github.com/promwarp/promwarp/selection"
)

// assumed is what one core takes before the engine has learned anything, as calibration measured
// it.
func assumed() placement.Constants {
	cores := float64(runtime.GOMAXPROCS(0))
	return placement.Constants{Cores: placement.Costs{Fixed: 30 * time.Microsecond, Sample: 14 / cores}, Link: 1}
}

// learn notes how long executors took for the query, but for waiting. Of steps whose results were
// remembered, of steps that were evaluated during a fetch and of leaves on GPUs it says nothing. A
// moment at which the machine had no time for the query counts little.
func (q *query) learn() {
	if q.worked == nil || q.remembered {
		return
	}
	for _, shape := range []string{q.worked.Function, ""} {
		q.worked.Function = shape + stateOf(q.worked.Decoded)
		took := min(q.ran-q.queued-q.waited, 3*q.e.costs.Estimate(*q.worked)[placement.Cores])
		q.e.costs.Observe(placement.Cores, *q.worked, took)
	}
}

// noteWork notes what was evaluated on cores.
func (q *query) noteWork(w *plan.Work) {
	if w.Device != nil || len(q.fetches.took) > 0 {
		return
	}
	size := offload.Size{Function: shape(q.plan.Node), Series: int64(w.Series), Samples: w.Samples + w.Kept}
	size.Decoded = float64(w.Kept) / float64(max(1, size.Samples))
	for _, r := range readings(q.plan.Node, q.plan.Grid, nil) {
		if f := q.fetches.of[r.window.Scan.Pos]; f.sel != nil {
			size.Windows += int64(f.sel.NumSeries()) * int64(r.grid.Steps)
		}
	}
	q.worked = &size
}

// shape is the functions and operators of a plan, by which costs are learned.
func shape(n plan.Node) (names string) {
	switch n := n.(type) {
	case *plan.Window:
		names = n.Func.Name
	case *plan.Subwindow:
		names = n.Func.Name
	case *plan.Aggregate:
		names = n.Func.Name
	}
	for _, in := range n.Inputs() {
		if below := shape(in); len(names)+len(below) < longestShape && !strings.Contains(names, below) {
			names += " " + below
		}
	}
	return names
}

const longestShape = 200

// stateOf has what is decoded already learned apart: a little of it takes other times than much of
// the rest.
func stateOf(decoded float64) string {
	if decoded > 0.5 {
		return " decoded"
	}
	return ""
}

// size is how much work what is read is, with a share of it decoded already.
func (s *reads) size(function string, decoded float64) offload.Size {
	return offload.Size{
		Function: function, Series: int64(s.total.series), Samples: int64(s.total.samples), Decoded: decoded,
		Windows: int64(s.total.series) * int64(s.grid.Steps),
	}
}

// expect adds to the cost what the query will take: as things are, with nothing cached, and with
// all.
func (q *query) expect(c *plan.Cost, all []*reads) {
	if q.plan.Node == nil || !c.Complete {
		return
	}
	function, retained := shape(q.plan.Node), 0.0
	if q.e.opts.DecodedBytes > 0 {
		retained = 1
	}
	c.Cores = &plan.Times{
		Now:  q.times(all, function, func(s *reads) (lacks, decoded float64) { return s.lacks, s.decoded }, c),
		Cold: q.times(all, function, func(s *reads) (lacks, decoded float64) { return s.lacks + s.cached, 0 }, nil),
		Warm: q.times(all, function, func(*reads) (lacks, decoded float64) { return 0, retained }, nil),
	}
	if q.e.opts.GPUs == nil {
		return
	}
	gpu := *c.Cores
	for t, missing := range map[*plan.Took]float64{&gpu.Now: 1, &gpu.Cold: 1, &gpu.Warm: 0} {
		size := sum(all, function, func(*reads) float64 { return 0 })
		size.Missing = int64(float64(c.CachedBytes+c.FetchBytes) * missing)
		e, ok := q.e.opts.GPUs.Expect(size)
		if !ok {
			return
		}
		t.Decode, t.Evaluate = 0, e[placement.Device].Microseconds()
		t.Total = t.Fetch + t.Evaluate
	}
	c.GPU = &gpu
}

// sum is how much work all that is read is.
func sum(all []*reads, function string, decoded func(*reads) float64) (t offload.Size) {
	t.Function = function
	kept := 0.0
	for _, s := range all {
		one := s.size(function, decoded(s))
		t.Series, t.Samples, t.Windows = t.Series+one.Series, t.Samples+one.Samples, t.Windows+one.Windows
		kept += one.Decoded * float64(one.Samples)
	}
	t.Decoded = kept / float64(max(1, t.Samples))
	return t
}

// times is what the query takes where selectors lack bytes and have a share decoded. Where c is
// given, it is told what dominates.
func (q *query) times(all []*reads, function string, of func(*reads) (lacks, decoded float64), c *plan.Cost) (t plan.Took) {
	cores := func(s offload.Size) int64 { return q.e.costs.Estimate(s)[placement.Cores].Microseconds() }
	size := sum(all, function, func(s *reads) float64 { _, decoded := of(s); return decoded })
	state := stateOf(size.Decoded)
	if function += state; !q.e.costs.Knows(function) {
		function = state
	}
	size.Function = function
	whole := cores(size)
	size.Decoded = 1
	t.Evaluate = cores(size)
	t.Decode = max(0, whole-t.Evaluate)
	largest, work := int64(-1), 0.0
	for _, s := range all {
		lacks, decoded := of(s)
		one, fetched := s.size(function, decoded), int64(0)
		if lacks > 0 {
			of := lacks * (1 + selection.ChunkBytes*s.total.chunks/max(1, s.total.bytes))
			fetched, work = s.fetching(of).Microseconds(), work+of
			t.Fetch = s.fetching(work).Microseconds() // of all, which are fetched at once
		}
		took := cores(one)
		one.Decoded = 1
		for phase, us := range map[string]int64{"fetch": fetched, "decode": took - cores(one), "evaluate": cores(one)} {
			if c != nil && us > largest {
				largest, c.Dominates = us, &plan.Dominant{Selector: s.text.String(), Phase: phase}
			}
		}
	}
	t.Total = t.Fetch + t.Decode + t.Evaluate
	return t
}
