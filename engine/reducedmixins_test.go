package engine

import (
	"context"
	"maps"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/promql/parser"
	"github.com/prometheus/prometheus/promql/promqltest"
	"github.com/prometheus/prometheus/storage"
	"github.com/prometheus/prometheus/util/annotations"
	"github.com/stretchr/testify/require"
	"go.yaml.in/yaml/v2"

	"github.com/promwarp/promwarp/selection"
)

// exchanged is a storage of chunks that can be exchanged for another.
type exchanged struct{ *blocks }

func (e *exchanged) ChunkQuerier(mint, maxt int64) (storage.ChunkQuerier, error) {
	q, err := e.Querier(mint, maxt)
	return exchangedQuerier{storage.NoopChunkedQuerier(), q.(blocksQuerier)}, err
}

type exchangedQuerier struct {
	storage.ChunkQuerier
	of blocksQuerier
}

func (q exchangedQuerier) SelectChunks(ctx context.Context, hints *storage.SelectHints, ms ...*labels.Matcher) (*selection.Selection, annotations.Annotations, error) {
	return q.of.SelectChunks(ctx, hints, ms...)
}

// TestReducedMixins asks readers the expressions that TestMixins evaluates.
func TestReducedMixins(t *testing.T) {
	files, err := filepath.Glob("testdata/mixins/*.yaml")
	require.NoError(t, err)
	st := &exchanged{}
	rs := newReaders(t, st, labels.EmptyLabels(), labels.EmptyLabels(), 0)
	asked, answered, each := 0, 0, 1
	if testing.Short() {
		each = 10
	}
	for _, file := range files {
		text, err := os.ReadFile(file)
		require.NoError(t, err)
		var mixin map[string][]string
		require.NoError(t, yaml.UnmarshalStrict(text, &mixin))
		for _, kind := range slices.Sorted(maps.Keys(mixin)) {
			for i := 0; i < len(mixin[kind]); i += each {
				query := mixin[kind][i]
				expr, err := parser.NewParser(promqltest.TestParserOpts).ParseExpr(query)
				require.NoError(t, err, query)
				st.blocks = dataFor(t, expr)
				for _, ask := range []question{
					{query: query, start: 3_600_000, end: 7_200_000, step: 60_000},
					{query: query, start: 3_600_000, end: 7_200_000, step: 600_000},
					{query: query, start: 7_100_007, end: 7_100_007},
				} {
					asked++
					if rs.requireSame(t, ask, "thin", "aggregate") {
						answered++
					}
				}
			}
		}
	}
	t.Logf("%d of %d with series; thin: %v thinned, %v not; aggregate: %v aggregated, %v thinned, %v not", answered, asked,
		rs.sent("thin", "thinned"), rs.sent("thin", "all"), rs.sent("aggregate", "aggregated"), rs.sent("aggregate", "thinned"), rs.sent("aggregate", "all"))
	require.GreaterOrEqual(t, asked, 200)
	require.Greater(t, answered, asked/2)
	require.Greater(t, rs.sent("aggregate", "aggregated"), float64(asked)/10)
}

// TestReducedNative asks readers for native histograms, and for floats beside them.
func TestReducedNative(t *testing.T) {
	rs := newReaders(t, nativeDB(t, 3, hour), labels.EmptyLabels(), labels.EmptyLabels(), 0)
	r := rand.New(rand.NewPCG(uint64(fromEnv(t, "SEED", 78)), 5))
	answered := 0
	for range fromEnv(t, "QUERIES", 300) {
		ask := question{query: randomNative(r, 2), start: 600_000 + int64(r.IntN(15))*60_000, step: []int64{0, 15_000, 60_000, 600_000}[r.IntN(4)]}
		ask.end = ask.start
		if ask.step > 0 {
			ask.start -= ask.start % ask.step
			ask.end += int64(r.IntN(2_000_000))
		}
		if rs.requireSame(t, ask, "thin", "aggregate") {
			answered++
		}
	}
	require.Greater(t, answered, 150)
	require.Greater(t, rs.sent("thin", "thinned"), 100.0)
	require.Greater(t, rs.sent("aggregate", "aggregated"), 10.0)
}

// TestReducedBeyondPromise: what docs/readers.md asks of readers is not asked for nothing.
func TestReducedBeyondPromise(t *testing.T) {
	rs := newReaders(t, randomStorage(t, rand.New(rand.NewPCG(1, 0))), labels.EmptyLabels(), labels.EmptyLabels(), 0)
	for name, ask := range map[string]question{
		"an offset that is no multiple of the subquery's step":   {query: "max_over_time(sum(reqs_total offset 7s)[20m:1m])", start: 2_407_000},
		"another lookback, by as much as some steps":             {query: "sum(odd)", start: 1_200_000, end: 2_400_000, step: 60_000, lookback: 10 * time.Minute},
		"another lookback, as much shorter as the query is long": {query: "sum(odd)", start: 1_200_000, end: 1_380_000, step: 120_000, lookback: 2 * time.Minute},
		"smoothed": {query: "reqs_total smoothed", start: 1_200_000, end: 2_400_000, step: 60_000},
		"anchored": {query: "increase(reqs_total[1m] anchored)", start: 1_200_000, end: 2_400_000, step: 300_000},
	} {
		if ask.end == 0 {
			ask.end = ask.start
		}
		require.Equal(t, ask.lookback != 0, promised(ask.query), name)
		all, err := rs.ask(ask, rs.raw)
		require.NoError(t, err)
		left, err := rs.ask(ask, rs.reduced["aggregate"])
		require.NoError(t, err)
		require.NotEqual(t, summary(all, ask.query), summary(left, ask.query), name)
	}
}
