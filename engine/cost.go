package engine

import (
	"context"
	"fmt"
	"slices"
	"time"

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

// reads is what a query reads of one selector.
type reads struct {
	text       fmt.Stringer
	matchers   []*labels.Matcher
	hints      storage.SelectHints
	mint, maxt int64 // ms, both included
	width      int64 // ms, of the window of a step
	instant    bool  // each step reads one sample of a series
	grid       plan.Grid
	window     *plan.Window // nil without a plan

	known   bool
	exact   bool
	total   amount  // expected
	counted amount  // at least
	cached  float64 // bytes
	lacks   float64 // bytes
	holds   float64 // bytes of memory that a byte to be fetched will take
	decoded float64 // share of the samples that cores retain decoded

	fetching func(work float64) time.Duration // by bytes, chunks counted
	sources  map[string]int64
}

// amount is what series have in a stretch of time.
type amount struct {
	series, samples, bytes, chunks float64
	lived                          float64 // ms from first to last sample, over all series
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
	if err := q.foresee(ctx); err != nil {
		return nil, err
	}
	if r.Mode == Prometheus {
		q.plan.Node = nil
	}
	all, err := q.survey()
	if err != nil {
		return nil, err
	}
	c := &plan.Cost{Complete: true, Executor: q.Executors(), Selectors: []plan.SelectorCost{}}
	if q.plan.Node == nil {
		c.Executor = plan.OnPrometheus
	}
	fetched := map[string]*reads{} // by selector, the one that fetches most
	for _, s := range all {
		one := s.cost()
		if key := matching.Key(s.matchers); fetched[key] == nil || fetched[key].lacks < s.lacks {
			fetched[key] = s
		}
		if !s.known {
			c.Complete = false
			c.Warnings = append(c.Warnings, fmt.Sprintf("the estimate is incomplete: %s: %s", one.Selector, one.Unknown))
		}
		c.Estimate.Series += one.Series
		c.Estimate.Samples += one.Read
		c.CachedBytes += one.CachedBytes
		c.MemoryBytes += int64(s.total.series) * operator.RowBytes(s.grid.Steps)
		c.Selectors = append(c.Selectors, one)
	}
	for _, s := range fetched {
		c.FetchBytes += int64(s.lacks)
		c.MemoryBytes += int64(s.lacks * s.holds)
	}
	if slices.ContainsFunc(all, func(s *reads) bool { return s.window != nil && s.window.Func == window.InfoTime }) {
		c.Warnings = append(c.Warnings, "the estimate is incomplete: which series info() reads shows only in its input")
	}
	q.expect(c, all)
	return c, nil
}

// survey finds what a planned query reads, and what is known of it.
func (q *query) survey() ([]*reads, error) {
	mint, maxt := promql.FindMinMaxTime(q.stmt)
	querier, err := q.request.Storage.Querier(mint, maxt)
	if err != nil {
		return nil, err
	}
	defer querier.Close()
	keeper, ok := querier.(selection.Keeper)
	all := q.allReads()
	if !ok {
		return all, nil
	}
	looks := max(16, mostExamined/max(1, len(all)))
	for _, s := range all {
		ask := selection.Ask{MinT: s.mint, MaxT: s.maxt, Matchers: s.matchers, Hints: func() storage.SelectHints { return s.hints }}
		holdings := keeper.Holdings(ask, looks)
		s.known, s.exact, s.sources = len(holdings) > 0, true, map[string]int64{}
		for i := range holdings {
			s.add(&holdings[i], looks/len(holdings))
		}
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
		s := &reads{text: v, matchers: v.LabelMatchers, hints: h, grid: grid, mint: h.Start, maxt: h.End, width: h.Range, instant: h.Range == 0}
		if s.instant {
			s.width = q.stmt.LookbackDelta.Milliseconds()
		}
		if r, ok := planned[v.PosRange]; ok {
			s.window, s.grid = r.window, r.grid
			s.mint, s.maxt = r.window.Reads(r.grid)
		}
		all = append(all, s)
		return nil
	})
	return all
}

// add adds what one source has, by that many series at most.
func (s *reads) add(h *selection.Holding, looks int) {
	maxt := min(s.maxt, h.Now)
	asked := float64(max(0, maxt+1-s.mint))
	held := overlap(h.Covered, s.mint, maxt+1)
	for _, p := range h.Parts {
		s.sources[p.Source] += max(0, min(p.To, maxt+1)-max(p.From, s.mint))
	}
	if h.Sel == nil || asked == 0 {
		s.known, s.exact = s.known && asked == 0, s.exact && asked == 0
		return
	}
	total, whole := s.count(h, s.mint, maxt, looks)
	if whole {
		s.counted.add(total)
	}
	if held < asked {
		whole = false
		if held == 0 {
			total, _ = s.count(h, -1<<61, 1<<61, looks)
			held = overlap(h.Covered, -1<<61, 1<<61)
		}
		share := asked / max(held, 1)
		total = amount{total.series, total.samples * share, total.bytes * share, total.chunks * share, total.series * asked}
	}
	text := total.series * float64(h.Sel.TextBytes()) / float64(max(1, h.Sel.NumSeries()))
	lacks := false
	for _, p := range h.Parts {
		bytes := total.bytes * float64(p.To-p.From) / asked
		if p.Source == upstream {
			s.lacks, lacks = s.lacks+bytes, true
		} else {
			s.cached += min(bytes, total.bytes) // what is widened to whole tiles is not read
		}
	}
	if lacks {
		s.lacks += text
	} else {
		s.cached += text
	}
	s.fetching = h.Fetching
	if s.lacks == 0 {
		s.decoded = cpuexec.DecodedShare(h.Sel)
	}
	s.holds = max(s.holds, float64(h.Sel.SizeBytes())/float64(max(1, h.Sel.PayloadBytes())))
	s.exact = s.exact && whole
	s.total.add(total)
}

// upstream is the source of what is fetched.
const upstream = "upstream"

// overlap is how many ms of the stretches lie from from to to, the end excluded.
func overlap(stretches [][2]int64, from, to int64) (length float64) {
	for _, c := range stretches {
		length += float64(max(0, min(c[1], to)-max(c[0], from)))
	}
	return length
}

func (t *amount) add(o amount) {
	t.series, t.samples, t.bytes, t.chunks, t.lived = t.series+o.series, t.samples+o.samples, t.bytes+o.bytes, t.chunks+o.chunks, t.lived+o.lived
}

// count adds up what is held from mint to maxt (ms, both included). Of more series than looks it
// takes every few; whole says that it took all.
func (s *reads) count(h *selection.Holding, mint, maxt int64, looks int) (t amount, whole bool) {
	n := h.Sel.NumSeries()
	every := max(1, (n+looks-1)/looks)
	var memory []selection.Chunk
	for i := 0; i < n; i += every {
		if h.Narrow && !matchesAll(h.Sel.Labels(i), s.matchers) {
			continue
		}
		first, last := int64(0), int64(-1)
		for _, c := range h.Sel.OverlappingIn(&memory, i, mint, maxt) {
			from, to, samples := samplesIn(c, mint, maxt)
			if samples == 0 {
				continue
			}
			if last < first {
				first = from
			}
			last = max(last, to)
			t.chunks++
			t.samples += float64(samples)
			t.bytes += float64(c.Len) * float64(samples) / float64(c.Samples)
		}
		if last >= first {
			t.series++
			t.lived += float64(last - first)
		}
	}
	if every > 1 {
		scale := float64(n) / float64((n+every-1)/every)
		t = amount{t.series * scale, t.samples * scale, t.bytes * scale, t.chunks * scale, t.lived * scale}
	}
	return t, every == 1
}

// samplesIn is how many samples a chunk has from mint to maxt (ms, both included), as if they were
// evenly spaced, and from when to when.
func samplesIn(c selection.Chunk, mint, maxt int64) (from, to, samples int64) {
	n := int64(c.Samples) - 1
	if c.MinT >= mint && c.MaxT <= maxt || n <= 0 || c.MaxT <= c.MinT {
		return c.MinT, c.MaxT, n + 1
	}
	gap := float64(c.MaxT-c.MinT) / float64(n)
	lo, hi := int64(0), n
	if c.MinT < mint {
		lo = int64((float64(mint-c.MinT) + gap - 1) / gap)
	}
	if c.MaxT > maxt {
		hi = int64(float64(maxt-c.MinT) / gap)
	}
	return c.MinT + int64(float64(lo)*gap), c.MinT + int64(float64(hi)*gap), max(0, hi-lo+1)
}

func matchesAll(ls labels.Labels, matchers []*labels.Matcher) bool {
	return !slices.ContainsFunc(matchers, func(m *labels.Matcher) bool { return !m.Matches(ls.Get(m.Name)) })
}

// read is how many samples windows are over, each counted once: all of a range's, unless its
// windows leave gaps, and one of an instant's at each step.
func (s *reads) read() float64 {
	steps, interval := float64(s.grid.Steps), float64(s.grid.Interval)
	if s.instant {
		lives := s.total.lived/max(s.total.series, 1) + float64(s.width)
		return s.total.series * steps * min(1, lives/(steps*interval))
	}
	return s.total.samples * min(1, steps*float64(s.width)/((steps-1)*interval+float64(s.width)))
}

// cost is what is said of the selector.
func (s *reads) cost() plan.SelectorCost {
	c := plan.SelectorCost{
		Selector: s.text.String(), Start: s.mint, End: s.maxt, Exact: s.known && s.exact,
		Series: int64(s.total.series + 0.5), Samples: int64(s.total.samples + 0.5), Read: int64(s.read() + 0.5),
		FetchBytes: int64(s.lacks), CachedBytes: int64(s.cached), Sources: s.sources,
	}
	if !s.known {
		c.Unknown = reasonUnknown
	}
	return c
}

const reasonUnknown = "nothing is cached of it, so its series are unknown; a run of the query over a short range tells, or count() of the selector"
