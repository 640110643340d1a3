package engine

import (
	"hash/crc32"
	"maps"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/prometheus/prometheus/model/histogram"
	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/model/value"
	"github.com/prometheus/prometheus/promql"
	"github.com/prometheus/prometheus/storage"
	"github.com/prometheus/prometheus/tsdb/tsdbutil"
	"github.com/prometheus/prometheus/util/teststorage"
	"github.com/stretchr/testify/require"
)

// unevenStorage has the series of blocksSeries, each scraped at times of its own, some of them
// more than once, under several values of an external label and without it. There are gaps longer
// than the lookback, runs of equal values, resets, stale markers, values that are no numbers, and,
// among floats, native histograms with resets.
func unevenStorage(t testing.TB, r *rand.Rand) storage.Storage {
	st := teststorage.New(t)
	app := st.Appender(t.Context())
	for _, l := range blocksSeries() {
		for _, cluster := range []string{"", "eu", "us"}[:1+r.IntN(3)] {
			b := labels.NewBuilder(l)
			b.Set("cluster", cluster)
			for _, s := range unevenSamples(r, l.Get("__name__")) {
				var err error
				if s.h != nil {
					_, err = app.AppendHistogram(0, b.Labels(), s.t, s.h, nil)
				} else {
					_, err = app.Append(0, b.Labels(), s.t, s.v)
				}
				require.NoError(t, err)
			}
		}
	}
	require.NoError(t, app.Commit())
	return st
}

// unevenSample is a float, or a native histogram.
type unevenSample struct {
	t int64
	v float64
	h *histogram.Histogram
}

// unevenSamples makes the samples of a series. Those of several series have times in common now
// and then.
func unevenSamples(r *rand.Rand, name string) (out []unevenSample) {
	every := []int64{5, 7, 13, 15, 15, 55, 300}[r.IntN(7)] * 1000
	jitter := []int64{1, 1, 3, 4000}[r.IntN(4)]
	histograms := r.IntN(60) == 0
	mixed := r.IntN(40) == 0
	v, n := 0.0, int64(0)
	for t := r.Int64N(every); t <= blocksLength; t += every {
		at := t - t%1000 + r.Int64N(jitter)
		if len(out) > 0 && at <= out[len(out)-1].t {
			continue
		}
		switch k := r.IntN(200); {
		case k == 0:
			t += minute * (1 + r.Int64N(20))
		case k == 1, k == 2:
			out = append(out, unevenSample{t: at, v: math.Float64frombits(value.StaleNaN)})
			t += every * r.Int64N(6)
			continue
		case k < 6:
			v, n = float64(r.IntN(3)), 0
		case mixed && k < 14:
			histograms = !histograms
		}
		if histograms {
			n += r.Int64N(3)
			out = append(out, unevenSample{t: at, h: tsdbutil.GenerateTestHistogram(n)})
			continue
		}
		switch k := r.IntN(4); {
		case k == 0: // as before
		case name == "target_info":
			v = 1
		case name == "temp" && r.IntN(20) == 0:
			v = []float64{math.NaN(), math.NaN(), math.Inf(1), math.Inf(-1), 0, math.Copysign(0, -1), math.MaxFloat64}[r.IntN(7)]
		case name == "temp" || name == "once":
			v = []float64{r.NormFloat64(), float64(r.IntN(4)), math.Copysign(0, -1)}[r.IntN(3)]
		default:
			v += float64(r.IntN(50)) * []float64{1, 0.1}[k%2]
		}
		out = append(out, unevenSample{t: at, v: v})
	}
	return out
}

// madeUp is a question by smith, mostly with an aligned grid.
func madeUp(r *rand.Rand, s *smith) (ask question) {
	for ask.query == "" || !promised(ask.query) {
		ask = s.question(r.Int64(), map[string]int{})
		if r.IntN(2) == 0 {
			ask.query = strings.NewReplacer("odd", "once", "build_info", "target_info", "reqs_total", "temp", "job=\"j1\"", "job=\"db\"").Replace(simpleQuery(r))
		}
	}
	switch {
	case ask.step > 0 && r.IntN(8) > 0:
		ask.step = []int64{1000, 7000, 15_000, 60_000, 120_000, 300_000, 600_000, 3_600_000}[r.IntN(8)]
		ask.start -= ask.start % ask.step
		ask.end = min(ask.start+ask.step*r.Int64N(100), blocksLength+10*minute)
		ask.end = max(ask.start, ask.end+r.Int64N(2)*r.Int64N(ask.step))
	case r.IntN(2) == 0:
		ask.start, ask.end = ask.start+r.Int64N(1000), ask.start
		ask.end, ask.step = ask.start, 0
	}
	return ask
}

// TestReducedUneven asks readers what smith makes up, of series that are unlike each other.
// PROMWARP_RANDOM sets the number of queries of each kind of reader, which are others for each,
// PROMWARP_SEED the seed.
func TestReducedUneven(t *testing.T) {
	n := fromEnv(t, "PROMWARP_RANDOM", 300)
	for name, c := range map[string]struct {
		external, own labels.Labels
		delayed       bool
		localStart    int64
		cached        bool
	}{
		"plain":                           {},
		"names are removed late":          {delayed: true},
		"cached":                          {cached: true, delayed: true},
		"external labels that some have":  {external: labels.FromStrings("cluster", "eu")},
		"those that readers have, too":    {external: labels.FromStrings("cluster", "eu"), own: labels.FromStrings("cluster", "eu")},
		"external labels that none has":   {external: labels.FromStrings("a", "eu"), own: labels.FromStrings("a", "eu")},
		"readers that have newer samples": {localStart: 4_000_000},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			seed := uint64(fromEnv(t, "PROMWARP_SEED", 1))
			r := rand.New(rand.NewPCG(seed, uint64(crc32.ChecksumIEEE([]byte(name)))))
			s := newSmith()
			answered := 0
			var rs *readers
			var paths []string
			for i := range n {
				if i%queriesPerBlocks == 0 {
					var st storage.ChunkQueryable = unevenStorage(t, rand.New(rand.NewPCG(seed, uint64(i))))
					if c.cached {
						st, _ = cached(t, st, blocksLength, i%(2*queriesPerBlocks) > 0)
					}
					rs = newReaders(t, st, c.external, c.own, c.localStart, func(o *promql.EngineOpts) { o.EnableDelayedNameRemoval = c.delayed })
					paths = slices.Sorted(maps.Keys(rs.reduced))
				}
				if rs.requireSame(t, madeUp(r, s), paths[r.IntN(len(paths))]) {
					answered++
				}
			}
			t.Logf("%d of %d with series; of the last ones thin: %v thinned, %v not; aggregate: %v aggregated, %v thinned, %v not", answered, n,
				rs.sent("thin", "thinned"), rs.sent("thin", "all"), rs.sent("aggregate", "aggregated"), rs.sent("aggregate", "thinned"), rs.sent("aggregate", "all"))
			require.LessOrEqual(t, rs.undecided, n/200)
			require.Greater(t, answered, n/4)
			require.Positive(t, rs.sent("thin", "thinned"))
			require.Positive(t, rs.sent("aggregate", "aggregated")+rs.sent("aggregate", "thinned"))
		})
	}
}
