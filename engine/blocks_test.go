package engine

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"math"
	mathrand "math/rand"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/cortexproject/promqlsmith"
	"github.com/prometheus/common/model"
	"github.com/prometheus/prometheus/model/histogram"
	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/model/value"
	"github.com/prometheus/prometheus/promql/parser"
	"github.com/prometheus/prometheus/promql/promqltest"
	"github.com/prometheus/prometheus/storage"
	"github.com/prometheus/prometheus/tsdb/chunkenc"
	"github.com/prometheus/prometheus/tsdb/chunks"
	"github.com/prometheus/prometheus/util/annotations"
	"github.com/stretchr/testify/require"

	"github.com/promwarp/promwarp/cpuexec/aggregate"
	"github.com/promwarp/promwarp/cpuexec/window"
	"github.com/promwarp/promwarp/selection"
)

// blocks is a storage of blocks whose time ranges overlap, as a store has that
// took in late samples or runs two replicas. Prometheus's engine reads the
// samples that Prometheus's own merge makes of the blocks; promwarp gets the
// chunks, by its selection's joining.
type blocks struct {
	series []labels.Labels
	chunks [][][]chunks.Meta // by block and series
	seed   uint64            // decides in which ways selections are put together
}

const (
	blocksLength = 7_200_000 // ms
	scrape       = 30_000    // ms
)

// newBlocks fills three blocks: one of regular scrapes cut into chunks, one with
// copies of stretches of it that start and end anywhere, and one with samples
// between the scrapes. Copies are equal: of samples that differ at one time,
// Prometheus keeps the one of the block that it did not read last.
func newBlocks(t testing.TB, seed uint64) *blocks {
	r := rand.New(rand.NewPCG(seed, 1))
	b := &blocks{series: blocksSeries(), seed: seed}
	const n = 3
	b.chunks = make([][][]chunks.Meta, n)
	for _, l := range b.series {
		var at [n][]chunks.Sample
		for _, s := range blocksSamples(r, l) {
			if s.T()%scrape == 0 || r.IntN(2) == 0 {
				at[0] = append(at[0], s)
			} else {
				at[2] = append(at[2], s)
			}
		}
		for range r.IntN(3) {
			if len(at[0]) == 0 {
				break
			}
			from := r.IntN(len(at[0]))
			at[1] = append(at[1], at[0][from:min(from+1+r.IntN(50), len(at[0]))]...)
		}
		slices.SortFunc(at[1], func(x, y chunks.Sample) int { return cmp.Compare(x.T(), y.T()) })
		at[1] = slices.CompactFunc(at[1], func(x, y chunks.Sample) bool { return x.T() == y.T() })
		for k := range at {
			var cs []chunks.Meta
			for rest := at[k]; len(rest) > 0; {
				m := min(1+r.IntN(60), len(rest))
				c, err := chunks.ChunkFromSamples(rest[:m])
				require.NoError(t, err)
				cs = append(cs, c)
				rest = rest[m:]
			}
			b.chunks[k] = append(b.chunks[k], cs)
		}
	}
	return b
}

// blocksSeries lists, in label order, counters and gauges that share their
// label sets, a classic histogram, series of one sample, and target_info.
func blocksSeries() (out []labels.Labels) {
	for _, job := range []string{"api", "db"} {
		for _, instance := range []string{"a:1", "b:2", "c:3"} {
			for _, name := range []string{"reqs_total", "errs_total", "temp"} {
				out = append(out, labels.FromStrings("__name__", name, "job", job, "instance", instance))
			}
			out = append(out, labels.FromStrings("__name__", "target_info", "job", job, "instance", instance, "version", instance[:1]))
		}
		for _, le := range []string{"0.1", "1", "10", "+Inf"} {
			out = append(out, labels.FromStrings("__name__", "lat_bucket", "job", job, "instance", "a:1", "le", le))
		}
		out = append(out, labels.FromStrings("__name__", "lat_count", "job", job, "instance", "a:1"))
		for k := range 3 {
			out = append(out, labels.FromStrings("__name__", "once", "job", job, "k", fmt.Sprint(k)))
		}
	}
	slices.SortFunc(out, labels.Compare)
	return out
}

// blocksSamples makes one series: a counter with resets, or a gauge with NaN and
// infinities; either with gaps, stale markers and samples off the scrape grid. Some
// have start timestamps.
func blocksSamples(r *rand.Rand, l labels.Labels) (out []chunks.Sample) {
	name := l.Get(model.MetricNameLabel)
	began := int64(0) // of a counter
	add := func(t int64, v float64) {
		start := int64(0)
		switch n := len(out); {
		case name == "reqs_total" && n > 0 && v < out[n-1].F():
			began = t - 7
			start = began
		case name == "reqs_total":
			start = began
		case name == "errs_total" && l.Get("job") == "db" && n > 0: // a delta
			start = out[n-1].T()
		}
		out = append(out, floatSample{start, t, v})
	}
	if name == "once" {
		add(r.Int64N(blocksLength), float64(r.IntN(5)))
		return out
	}
	v, up := 0.0, true
	for t := int64(0); t <= blocksLength; t += scrape {
		if r.IntN(40) == 0 {
			if up = !up; !up && r.IntN(2) == 0 {
				add(t, math.Float64frombits(value.StaleNaN))
			}
		}
		if !up {
			continue
		}
		for _, at := range []int64{t, t + 1 + r.Int64N(scrape-1)} {
			if at > t && r.IntN(6) > 0 {
				continue
			}
			switch {
			case name == "target_info":
				v = 1
			case name == "temp" && r.IntN(30) == 0:
				v = []float64{math.NaN(), math.Inf(1), math.Inf(-1), 0, math.MaxFloat64, math.Copysign(0, -1)}[r.IntN(6)]
			case name == "temp":
				v = r.NormFloat64() * math.Pow(10, float64(r.IntN(6)))
			case r.IntN(40) == 0:
				v = float64(r.IntN(3))
			default:
				v += float64(r.IntN(50)) * []float64{1, 0.1}[r.IntN(2)]
			}
			add(at, v)
		}
	}
	return out
}

// floatSample is a sample that is a float.
type floatSample struct {
	start, t int64
	v        float64
}

func (s floatSample) T() int64                      { return s.t }
func (s floatSample) ST() int64                     { return s.start }
func (s floatSample) F() float64                    { return s.v }
func (s floatSample) H() *histogram.Histogram       { return nil }
func (s floatSample) FH() *histogram.FloatHistogram { return nil }
func (s floatSample) Type() chunkenc.ValueType      { return chunkenc.ValFloat }
func (s floatSample) Copy() chunks.Sample           { return s }

func (b *blocks) Querier(mint, maxt int64) (storage.Querier, error) {
	qs := make([]storage.Querier, len(b.chunks))
	for k := range qs {
		qs[k] = blockQuerier{b: b, k: k}
	}
	return blocksQuerier{storage.NewMergeQuerier(qs, nil, storage.ChainedSeriesMerge), b}, nil
}

// matching calls f for each series that the matchers match and that has chunks
// in block k.
func (b *blocks) matching(k int, ms []*labels.Matcher, f func(labels.Labels, []chunks.Meta)) {
series:
	for i, l := range b.series {
		for _, m := range ms {
			if !m.Matches(l.Get(m.Name)) {
				continue series
			}
		}
		if cs := b.chunks[k][i]; len(cs) > 0 {
			f(l, cs)
		}
	}
}

// blocksQuerier hands out samples as Prometheus merges them, and chunks.
type blocksQuerier struct {
	storage.Querier
	b *blocks
}

func (q blocksQuerier) SelectChunks(ctx context.Context, _ *storage.SelectHints, ms ...*labels.Matcher) (*selection.Selection, annotations.Annotations, error) {
	r := rand.New(rand.NewPCG(q.b.seed, 2))
	together := r.IntN(2) == 0
	var all []storage.ChunkSeries
	var parts []*selection.Selection
	for k := range q.b.chunks {
		var list []storage.ChunkSeries
		q.b.matching(k, ms, func(l labels.Labels, cs []chunks.Meta) {
			cs = slices.Clone(cs)
			r.Shuffle(len(cs), func(i, j int) { cs[i], cs[j] = cs[j], cs[i] })
			list = append(list, &storage.ChunkSeriesEntry{Lset: l, ChunkIteratorFn: func(chunks.Iterator) chunks.Iterator {
				return storage.NewListChunkSeriesIterator(cs...)
			}})
		})
		if together {
			all = append(all, list...)
			continue
		}
		part, _, err := selection.FromChunkSeriesSet(ctx, &set[storage.ChunkSeries]{list: list}, 0)
		if err != nil {
			return nil, nil, err
		}
		parts = append(parts, part)
	}
	if together {
		return selection.FromChunkSeriesSet(ctx, &set[storage.ChunkSeries]{list: all}, 0)
	}
	s, err := selection.Join(context.Background(), parts...)
	return s, nil, err
}

// blockQuerier reads one block.
type blockQuerier struct {
	storage.LabelQuerier
	b *blocks
	k int
}

func (q blockQuerier) Close() error { return nil }

func (q blockQuerier) Select(_ context.Context, _ bool, _ *storage.SelectHints, ms ...*labels.Matcher) storage.SeriesSet {
	var list []storage.Series
	q.b.matching(q.k, ms, func(l labels.Labels, cs []chunks.Meta) {
		list = append(list, &storage.SeriesEntry{Lset: l, SampleIteratorFn: func(chunkenc.Iterator) chunkenc.Iterator {
			its := make([]chunkenc.Iterator, len(cs))
			for i, c := range cs {
				its[i] = c.Chunk.Iterator(nil)
			}
			return storage.ChainSampleIteratorFromIterators(nil, its)
		}})
	})
	return &set[storage.Series]{list: list}
}

// set is a storage.SeriesSet or storage.ChunkSeriesSet.
type set[S any] struct {
	list []S
	i    int
}

func (s *set[S]) Next() bool                        { s.i++; return s.i <= len(s.list) }
func (s *set[S]) At() S                             { return s.list[s.i-1] }
func (s *set[S]) Err() error                        { return nil }
func (s *set[S]) Warnings() annotations.Annotations { return nil }

// TestSmith compares the answers to queries that promqlsmith makes up, over
// blocks that overlap, with start timestamps used where names are removed late.
// PROMWARP_RANDOM sets the number of queries with and without delayed name removal,
// PROMWARP_SEED the first of their seeds, of which every query has its own: with
// PROMWARP_RANDOM=1 one of them is asked alone.
func TestSmith(t *testing.T) {
	n, first := fromEnv(t, "PROMWARP_RANDOM", 5000), fromEnv(t, "PROMWARP_SEED", 0)
	for _, delayed := range []bool{false, true} {
		t.Run(fmt.Sprintf("delayed=%v", delayed), func(t *testing.T) {
			t.Parallel()
			c := newComparison(delayed, 2, useStarts(delayed))
			s := newSmith()
			drawn := map[string]int{}
			var data *blocks
			for seed := int64(first); seed < int64(first+n); seed++ {
				if of := uint64(seed / queriesPerBlocks); data == nil || data.seed != of {
					data = newBlocks(t, of)
				}
				ask := s.question(seed, drawn)
				require.NoError(t, c.compare(t, data, ask), "%s: again with PROMWARP_SEED=%d PROMWARP_RANDOM=1", ask, seed)
			}
			whole, part, none := c.taken()
			t.Logf("%d queries: %v wholly, %v partly, %v not at all on cpuexec; %d with series, %d errors, %d undecided\n%s",
				n, whole, part, none, c.answered, c.failed, c.undecided, byCount(drawn))
			if n < 5000 {
				return
			}
			require.Greater(t, whole+part, 0.8*float64(n))
			require.Greater(t, c.answered, n*2/5)
			require.Greater(t, c.failed, n/500)
			require.Less(t, c.undecided, n/1000)
			for _, name := range window.Names() {
				require.Greater(t, drawn[name], n/2000, "%s is hardly drawn", name)
			}
			for _, f := range aggregate.Functions() {
				require.Greater(t, drawn[f.Name], n/200, "%s is hardly drawn", f.Name)
			}
		})
	}
}

const queriesPerBlocks = 1000

// byCount lists what was drawn, by count.
func byCount(drawn map[string]int) string {
	names := slices.SortedFunc(maps.Keys(drawn), func(a, b string) int { return drawn[b] - drawn[a] })
	for i, name := range names {
		names[i] = fmt.Sprint(drawn[name], " ", name)
	}
	return strings.Join(names, ", ")
}

// smith makes up queries: every second one with all functions there are, the
// others with those alone that look at the samples in a window.
type smith struct {
	rnd          *mathrand.Rand
	any, windows *promqlsmith.PromQLSmith
}

// newSmith returns a smith that makes the same query of the same seed. What a
// PromQLSmith makes of a seed depends on the order in which it came upon the
// labels in a map, so one of the many there can be is picked by what it says.
func newSmith() *smith {
	s := &smith{rnd: mathrand.New(mathrand.NewSource(0))}
	var functions []*parser.Function
	for _, name := range window.Names() {
		functions = append(functions, parser.Functions[name])
	}
	s.any = s.pick(promqlsmith.WithEnableExperimentalPromQLFunctions(true), promqlsmith.WithMaxDepth(4))
	s.windows = s.pick(promqlsmith.WithEnabledFunctions(functions), promqlsmith.WithMaxDepth(5))
	return s
}

func (s *smith) pick(opts ...promqlsmith.Option) (best *promqlsmith.PromQLSmith) {
	opts = append(opts, promqlsmith.WithEnableOffset(true), promqlsmith.WithEnableAtModifier(true),
		promqlsmith.WithAtModifierMaxTimestamp(blocksLength), promqlsmith.WithEnableVectorMatching(true))
	least := ""
	for range 200 {
		one := promqlsmith.New(s.rnd, blocksSeries(), opts...)
		s.rnd.Seed(0)
		var says strings.Builder
		for range 20 {
			if expr := parsed(one.WalkRangeQuery); expr != nil {
				says.WriteString(expr.String())
			}
		}
		if best == nil || says.String() < least {
			best, least = one, says.String()
		}
	}
	return best
}

// question makes a question of a seed and counts what is in it.
func (s *smith) question(seed int64, drawn map[string]int) (q question) {
	s.rnd.Seed(seed)
	q.start = s.rnd.Int63n(blocksLength/1000) * 1000
	q.end, q.step = q.start, 0
	by := []*promqlsmith.PromQLSmith{s.any, s.windows}[seed%2]
	walk := by.WalkInstantQuery
	if s.rnd.Intn(4) > 0 {
		q.step = int64(1+s.rnd.Intn(90)) * 1000
		q.end += q.step * int64(s.rnd.Intn(100))
		walk = by.WalkRangeQuery
	}
	for {
		if expr := parsed(walk); expr != nil {
			s.vary(expr)
			count(expr, drawn)
			q.query = expr.String()
			return q
		}
	}
}

// parsed is what walk makes, as it reads once printed. It is nil where that is
// nothing to ask: where the depth runs out, arguments are missing.
func parsed(walk func() parser.Expr) (expr parser.Expr) {
	defer func() {
		if recover() != nil {
			expr = nil
		}
	}()
	expr, err := parser.NewParser(promqltest.TestParserOpts).ParseExpr(walk().String())
	if err != nil {
		return nil
	}
	return expr
}

// vary gives ranges and subqueries widths and steps of many kinds.
func (s *smith) vary(expr parser.Expr) {
	widths := []time.Duration{time.Millisecond, 15 * time.Second, 90 * time.Second, 5 * time.Minute, 17 * time.Minute}
	parser.Inspect(expr, func(n parser.Node, _ []parser.Node) error {
		switch n := n.(type) {
		case *parser.MatrixSelector:
			n.Range = widths[s.rnd.Intn(len(widths))]
		case *parser.SubqueryExpr:
			n.Range = widths[1+s.rnd.Intn(len(widths)-1)]
			n.Step = []time.Duration{0, 17 * time.Second, 30 * time.Second, time.Minute}[s.rnd.Intn(4)]
		}
		return nil
	})
}

// count counts functions, operators, and how selectors are moved in time.
func count(expr parser.Expr, drawn map[string]int) {
	at := func(ts *int64, startOrEnd parser.ItemType, offset time.Duration) {
		if ts != nil || startOrEnd != 0 {
			drawn["@"]++
		}
		if offset != 0 {
			drawn["offset"]++
		}
	}
	parser.Inspect(expr, func(n parser.Node, _ []parser.Node) error {
		switch n := n.(type) {
		case *parser.Call:
			drawn[n.Func.Name]++
		case *parser.AggregateExpr:
			drawn[n.Op.String()]++
		case *parser.BinaryExpr:
			drawn[n.Op.String()]++
			if m := n.VectorMatching; m != nil && len(m.MatchingLabels) > 0 {
				drawn["matching "+m.Card.String()]++
			}
		case *parser.UnaryExpr:
			drawn["unary "+n.Op.String()]++
		case *parser.SubqueryExpr:
			drawn["subquery"]++
			at(n.Timestamp, n.StartOrEnd, n.OriginalOffset)
		case *parser.VectorSelector:
			drawn["selector"]++
			at(n.Timestamp, n.StartOrEnd, n.OriginalOffset)
		}
		return nil
	})
}
