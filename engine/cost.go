package engine

import (
	"cmp"
	"context"
	"fmt"
	"math"

	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/promql"
	"github.com/prometheus/prometheus/promql/parser"
	"github.com/prometheus/prometheus/promql/parser/posrange"
	"github.com/prometheus/prometheus/storage"

	"github.com/promwarp/promwarp/cache/matching"
	"github.com/promwarp/promwarp/cpuexec"
	"github.com/promwarp/promwarp/cpuexec/operator"
	"github.com/promwarp/promwarp/cpuexec/window"
	"github.com/promwarp/promwarp/plan"
	"github.com/promwarp/promwarp/selection"
)

// This file says what a query would cost, by the cache's tables alone: nothing is fetched, and no
// chunk is decoded. What is kept of a selector is counted, and what is missing is expected to be as
// dense.

// mostExamined is how many series, and how many entries of a cache, are looked at for all selectors
// of a query together; a selector of more series is judged by every few. It takes a millisecond or
// two.
const mostExamined = 1 << 15

// reads is what a query reads of one selector. Its cost's numbers are rounded from what is added up.
type reads struct {
	plan.SelectorCost
	matchers []*labels.Matcher
	hints    storage.SelectHints
	width    int64 // ms, of the window of a step
	grid     plan.Grid
	window   *plan.Window // nil without a plan
	refused  string       // why executors cannot evaluate it

	amount
	// lacks and cached are bytes, memory the bytes that fetched samples will take: 0 where another
	// selector fetches the same.
	lacks, cached, memory float64
	decoded               float64 // share of the samples that cores retain decoded
}

// amount is what series have in a stretch of time.
type amount struct {
	series, samples, bytes float64
	lived                  float64 // ms from first to last sample, over all series
}

// Cost says what a query would read and take. It does not run the query.
func (e *Engine) Cost(ctx context.Context, r Request) (*plan.Cost, error) {
	if r.Step == 0 {
		r.End = r.Start
	}
	r.Plan = true
	made, err := e.NewQuery(ctx, r)
	if err != nil {
		return nil, err
	}
	q := made.(*query)
	defer q.Close()
	all, err := q.foresee(ctx)
	if err != nil {
		return nil, err
	}
	c := &plan.Cost{Complete: true, Executor: q.Executors(), Selectors: []plan.SelectorCost{}}
	if r.Mode == Prometheus {
		q.plan.Node = nil
	}
	if q.plan.Node == nil {
		c.Executor = plan.OnPrometheus
	}
	most := map[string]*reads{} // by selector, the one that fetches most
	for _, s := range all {
		if s.Unknown != "" {
			c.Complete = false
			c.Warnings = append(c.Warnings, fmt.Sprintf("the estimate is incomplete: %s: %s", s.Selector, s.Unknown))
		}
		if s.window != nil && s.window.Func == window.InfoTime {
			c.Warnings = append(c.Warnings, "the estimate is incomplete: which series info() reads shows only in its input")
		}
		c.Estimate.Series += s.Series
		c.Estimate.Samples += s.Read
		c.CachedBytes += s.CachedBytes
		c.MemoryBytes += s.Series * operator.RowBytes(s.grid.Steps)
		c.Selectors = append(c.Selectors, s.SelectorCost)
		key, other := matching.Key(s.matchers), s
		if m := most[key]; m == nil || m.lacks < s.lacks {
			most[key], other = s, m
		}
		if other != nil {
			other.lacks, other.cached, other.memory = 0, 0, 0
		}
	}
	for _, s := range most {
		c.FetchBytes += s.FetchBytes
		c.MemoryBytes += int64(s.memory)
	}
	q.expect(c, all)
	return c, nil
}

// survey finds what a planned query reads, and what is known of it.
func (q *query) survey() ([]*reads, error) {
	querier, err := q.request.Storage.Querier(promql.FindMinMaxTime(q.stmt))
	if err != nil {
		return nil, err
	}
	defer querier.Close()
	all := q.allReads()
	keeper, ok := querier.(selection.Keeper)
	if !ok {
		return all, nil
	}
	looks := max(16, mostExamined/max(1, len(all)))
	for _, s := range all {
		ask := selection.Ask{MinT: s.Start, MaxT: s.End, Matchers: s.matchers, Hints: func() storage.SelectHints { return s.hints }}
		s.Unknown, s.Exact, s.Sources = "", true, map[string]int64{}
		holdings := keeper.Holdings(ask, looks)
		for i := range holdings {
			s.add(&holdings[i], looks/len(holdings))
		}
		s.Series, s.Samples, s.Read = int64(s.series+0.5), int64(s.samples+0.5), int64(s.read()+0.5)
		s.FetchBytes, s.CachedBytes = int64(s.lacks), int64(s.cached)
	}
	return all, nil
}

// allReads is what the selectors of the statement read, by the windows of the plan where there is
// one.
func (q *query) allReads() (all []*reads) {
	grid := plan.NewGrid(q.stmt.Start.UnixMilli(), q.stmt.End.UnixMilli(), q.stmt.Interval.Milliseconds())
	planned := map[posrange.PositionRange]reading{}
	if q.plan != nil && q.plan.Node != nil {
		for _, r := range readings(q.plan.Node, q.plan.Grid, nil) {
			planned[r.window.Scan.Pos] = r
		}
	}
	of := hints(q.stmt)
	parser.Inspect(q.stmt.Expr, func(n parser.Node, _ []parser.Node) error {
		v, ok := n.(*parser.VectorSelector)
		if !ok {
			return nil
		}
		h := of[v.PosRange]
		s := &reads{matchers: v.LabelMatchers, hints: h, grid: grid, width: cmp.Or(h.Range, q.stmt.LookbackDelta.Milliseconds())}
		s.SelectorCost = plan.SelectorCost{Selector: v.String(), Start: h.Start, End: h.End, Unknown: reasonUnknown}
		if r, ok := planned[v.PosRange]; ok {
			s.window, s.grid = r.window, r.grid
			s.Start, s.End = r.window.Reads(r.grid)
		}
		all = append(all, s)
		return nil
	})
	return all
}

// add adds what one source has, by that many series at most.
func (s *reads) add(h *selection.Holding, looks int) {
	for source, ms := range h.Sources {
		s.Sources[source] += ms
	}
	if s.window != nil && h.Sel != nil && h.Matchers == nil {
		s.refused = cmp.Or(s.refused, cpuexec.Refuses(s.window, s.grid, h.Sel))
	}
	if h.Asked <= 0 {
		return
	}
	if h.Sel == nil {
		s.Unknown, s.Exact = reasonUnknown, false
		return
	}
	every, asked := max(1, (h.Sel.NumSeries()+looks-1)/looks), float64(h.Asked)
	s.Exact = s.Exact && h.MinT == s.Start && h.Held == h.Asked && every == 1
	n, share := amountOf(h.Sel, h.Matchers, h.MinT, h.MaxT, every), asked/max(float64(h.Held), 1)
	s.series += n.series
	s.samples += n.samples * share
	s.lived += n.lived * share
	s.cached += n.bytes * share * (1 - float64(h.Sources["upstream"])/asked)
	lacks := n.bytes * share * float64(h.Fetched) / asked // more than is asked for, as tiles are fetched whole
	text := n.series * float64(h.Sel.TextBytes()) / float64(max(1, h.Sel.NumSeries()))
	if h.Fetched > 0 {
		lacks += text
	} else {
		s.cached += text
		s.decoded = cpuexec.DecodedShare(h.Sel)
	}
	s.lacks += lacks
	s.memory += lacks * float64(h.Sel.SizeBytes()) / float64(max(1, h.Sel.PayloadBytes()))
}

// amountOf adds up what a selection has from mint to maxt (ms, both included) of series that all
// matchers match, by every few of them. Samples of a chunk count as if they were evenly spaced.
func amountOf(sel *selection.Selection, matchers []*labels.Matcher, mint, maxt int64, every int) (n amount) {
	var memory []selection.Chunk
	weight := float64(every)
	for i := 0; i < sel.NumSeries(); i += every {
		if !labels.Selector(matchers).Matches(sel.Labels(i)) {
			continue
		}
		chunks := sel.OverlappingIn(&memory, i, mint, maxt)
		if len(chunks) == 0 {
			continue
		}
		n.series += weight
		first, last := int64(math.MaxInt64), int64(math.MinInt64)
		for _, c := range chunks {
			from, to, samples := max(c.MinT, mint), min(c.MaxT, maxt), float64(c.Samples)
			if to-from < c.MaxT-c.MinT {
				samples = math.Floor(float64(to-from)/float64(c.MaxT-c.MinT)*(samples-1)) + 1
			}
			first, last = min(first, from), max(last, to)
			n.samples += weight * samples
			n.bytes += weight * float64(c.Len) * samples / float64(c.Samples)
		}
		n.lived += weight * float64(last-first)
	}
	return n
}

// read is how many samples windows are over, each counted once: all of a range's, unless its
// windows leave gaps, and one of an instant's at each step.
func (s *reads) read() float64 {
	steps, interval := float64(s.grid.Steps), float64(s.grid.Interval)
	if s.hints.Range == 0 { // an instant's
		lives := s.lived/max(s.series, 1) + float64(s.width)
		return s.series * steps * min(1, lives/(steps*interval))
	}
	return s.samples * min(1, steps*float64(s.width)/((steps-1)*interval+float64(s.width)))
}

const reasonUnknown = "nothing is cached of it, so its series are unknown; a run of the query over a short range tells, or count() of the selector"
