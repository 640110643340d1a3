package engine

import (
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/prometheus/prometheus/promql"
	"github.com/prometheus/prometheus/promql/promqltest"
	"github.com/prometheus/prometheus/storage"
	"github.com/stretchr/testify/require"

	"github.com/promwarp/promwarp/planner"
)

// wrappers are what a vector is put into, a level of a query at a time. The levels are about
// what each counts for.
var wrappers = []struct {
	before, after string
	levels        int
}{
	{"sum(", ")", 1},
	{"abs(", ")", 1},
	{"(", ")", 1},
	{"-", "", 1},
	{"-(", ")", 2},
	{"", " + 1", 1},
	{"", " + x", 1},
	{"1 - (", ")", 2},
	{"", " or x", 1},
	{"", " > 0", 1},
	{"(", ") and y", 2},
	{"sum by (a) (", ")", 1},
	{"topk(1, ", ")", 1},
	{"topk(scalar(y), ", ")", 1},
	{"clamp_max(", ", 1 + 1)", 1},
	{"label_replace(", `, "b", "$1", "a", "(.*)")`, 1},
	{"max_over_time((", ")[1m:1m])", 3},
	{"vector(scalar(", "))", 2},
	{"sort(", ")", 1},
	{"histogram_quantile(0.9, ", ")", 1},
	{"absent(", ")", 1},
	{"histogram_count(", ")", 1}, // never on an executor
}

var leaves = []string{"x", "x", "x @ 60", "rate(x[5m])", "histogram_count(x)", "time() * x", "x offset 1m"}

// deepQuery is a random query of about that number of levels, of one kind of level or of several.
func deepQuery(r *rand.Rand, levels int) string {
	kinds := r.Perm(len(wrappers))[:1+r.IntN(2)*r.IntN(len(wrappers))]
	var before []string
	var after strings.Builder
	for levels > 0 {
		w := wrappers[kinds[r.IntN(len(kinds))]]
		before = append(before, w.before)
		after.WriteString(w.after)
		levels -= w.levels
	}
	var b strings.Builder
	for i := len(before) - 1; i >= 0; i-- {
		b.WriteString(before[i])
	}
	return b.String() + leaves[r.IntN(len(leaves))] + after.String()
}

// watch measures what something takes: of the time on the clock and that on the cores the
// shorter, as the machine may be busy with other things.
func watch() (took func() time.Duration) {
	cores := func() time.Duration {
		var u syscall.Rusage
		if syscall.Getrusage(syscall.RUSAGE_SELF, &u) != nil {
			return 0
		}
		return time.Duration(u.Utime.Nano() + u.Stime.Nano())
	}
	clock, before := time.Now(), cores()
	return func() time.Duration { return min(time.Since(clock), cores()-before) }
}

// asked asks an engine and says how long the query took.
func (q question) asked(e promql.QueryEngine, st storage.Queryable) (answer string, took time.Duration) {
	stop := watch()
	asked, err := q.on(e, st)
	if err != nil {
		return err.Error(), stop()
	}
	res := asked.Exec(context.Background())
	took = stop()
	defer asked.Close()
	if res.Err != nil {
		return res.Err.Error(), took
	}
	return res.String(), took
}

// TestDeepQueries: whatever the shape of a query, it is answered as by Prometheus's engine,
// and in about the time that that takes, which grows with the square of the depth: half as
// much again and 10 ms where PROMWARP_DEEP says how many to ask. Without it, among other
// tests on a busy machine, only what is of another order is found. A slow case is
// repeated, and the best time counts.
func TestDeepQueries(t *testing.T) {
	const seed = 14
	// Series that are loaded together come to the storage in any order, which shows.
	st := promqltest.LoadedStorage(t, `
load 1m
  x{a="1"} 0+1x20

load 1m
  x{a="2"} 0+2x20

load 1m
  y{a="1"} 1+0x20
`)
	r := rand.New(rand.NewPCG(seed, 0))
	bar := func(stock time.Duration) time.Duration { return stock*3/2 + 10*time.Millisecond }
	if os.Getenv("PROMWARP_DEEP") == "" {
		bar = func(stock time.Duration) time.Duration { return stock*4 + 200*time.Millisecond }
	}
	for i := range fromEnv(t, "PROMWARP_DEEP", 150) {
		c := newComparison(r.IntN(4) == 0, 1)
		levels := 10 << r.IntN(8)
		levels = min(levels+r.IntN(levels), planner.DefaultDepth*9/10)
		ask := question{query: deepQuery(r, levels), start: 300_000}
		if r.IntN(3) == 0 {
			ask.end, ask.step = 600_000, 60_000
		}
		shown := fmt.Sprintf("seed %d case %d: %d levels, %.200s", seed, i, levels, ask.query)
		want, stock := ask.asked(c.stock, st)
		got, ours := ask.asked(c.ours, st)
		if strings.Contains(got, "--query.max-depth") || strings.Contains(got, "--query.max-selectors") {
			continue // an upper bound may be above it, or there are as many selectors
		}
		require.Equal(t, want, got, shown)
		for range 12 {
			if ours <= bar(stock) {
				break
			}
			_, again := ask.asked(c.stock, st)
			stock = min(stock, again)
			_, again = ask.asked(c.ours, st)
			ours = min(ours, again)
		}
		require.LessOrEqual(t, ours, bar(stock), shown)
	}
}

// TestAttacks: the queries that were found to take minutes.
func TestAttacks(t *testing.T) {
	st := promqltest.LoadedStorage(t, "load 1m\n  x 0+1x20\n")
	c := newComparison(false, 1)
	for name, query := range map[string]string{
		"sums":     strings.Repeat("sum(", 2000) + "x" + strings.Repeat(")", 2000),
		"terms":    "1" + strings.Repeat("+1", 2000),
		"brackets": strings.Repeat("(", 2000) + "x" + strings.Repeat(")", 2000),
		"left":     strings.Repeat("sum(", 2000) + "histogram_count(x)" + strings.Repeat(")", 2000),
	} {
		ask := question{query: query, start: 300_000}
		want, stock := ask.asked(c.stock, st)
		got, ours := ask.asked(c.ours, st)
		require.Equal(t, want, got, name)
		require.Less(t, ours, 3*stock+time.Second, name)

		start := time.Now()
		x, err := c.ours.Explain(t.Context(), Request{Storage: st, Query: query, Start: time.UnixMilli(0), End: time.UnixMilli(0)}, false)
		require.NoError(t, err)
		require.Less(t, len(x.Tree()), 5<<20, name)
		require.Less(t, time.Since(start), 3*stock+2*time.Second, name)
	}
	_, err := c.ours.NewInstantQuery(t.Context(), st, nil, strings.Repeat("abs(", 600_000), time.UnixMilli(0))
	var beyond *planner.LimitError
	require.ErrorAs(t, err, &beyond)
}

// TestExplainCutsTexts: an expression that is long in the query is shown by its beginning.
func TestExplainCutsTexts(t *testing.T) {
	st := promqltest.LoadedStorage(t, "load 1m\n  x 0+1x20\n")
	query := "sum(x+" + strings.Repeat("  x +", 300) + "x)"
	x, err := newComparison(false, 1).ours.Explain(t.Context(), Request{Storage: st, Query: query, Start: time.UnixMilli(0), End: time.UnixMilli(0)}, true)
	require.NoError(t, err)
	require.Equal(t, query[:1000]+"…", x.Root.Expr)
	require.Equal(t, "x", x.Root.Children[0].Children[1].Expr)
}
