package engine

import (
	"fmt"
	"maps"
	mathrand "math/rand"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/cortexproject/promqlsmith"
	"github.com/prometheus/prometheus/promql/parser"
	"github.com/prometheus/prometheus/promql/promqltest"
	"github.com/stretchr/testify/require"

	"github.com/promwarp/promwarp/cpuexec/aggregate"
	"github.com/promwarp/promwarp/cpuexec/window"
)

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
			whole, none := c.taken()
			t.Logf("%d queries: %v on cpuexec, %v not; %d with series, %d errors, %d undecided\n%s",
				n, whole, none, c.answered, c.failed, c.undecided, byCount(drawn))
			if n < 5000 {
				return
			}
			require.Greater(t, whole, 0.8*float64(n))
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
