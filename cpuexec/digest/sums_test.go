package digest

import (
	"math"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/tsdb/chunkenc"
	"github.com/stretchr/testify/require"

	"github.com/promwarp/promwarp/cpuexec/column"
	"github.com/promwarp/promwarp/cpuexec/exact"
	"github.com/promwarp/promwarp/kernels/abi"
	"github.com/promwarp/promwarp/selection"
	"github.com/promwarp/promwarp/selection/selectiontest"
)

// TestSums: sums and means by digests have the bits of Prometheus's operations on all samples, or are
// said to be uncertain, which those of ordinary values are not.
func TestSums(t *testing.T) {
	seed := uint64(time.Now().UnixNano())
	t.Logf("seed %d", seed)
	r := rand.New(rand.NewPCG(seed, 2))
	last, calls := 0.0, 0
	for name, kind := range map[string]struct {
		value func() float64
		sums  int // of ten that are certain
		means int
	}{
		"integers":        {func() float64 { return float64(r.IntN(1000) - 500) }, 10, 10},
		"quarters":        {func() float64 { return 1e6 + float64(r.IntN(1000))/4 }, 10, 10},
		"large integers":  {func() float64 { return 1e14 + float64(r.IntN(1000)) }, 8, 0},
		"shares":          {func() float64 { return r.Float64() }, 8, 0},
		"of both signs":   {func() float64 { return r.NormFloat64() }, 8, 0},
		"around a mean":   {func() float64 { return 1e9 + r.NormFloat64() }, 8, 0},
		"of many decades": {func() float64 { return r.NormFloat64() * math.Pow(10, float64(r.IntN(6)-3)) }, 8, 0},
		"zeros":           {func() float64 { return math.Copysign(0, float64(r.IntN(2)-1)) }, 10, 10},
		"that cancel":     {func() float64 { last = -last + float64(r.IntN(3)-1)*0x1p-40*r.Float64(); return last }, 0, 0},
		"far apart":       {func() float64 { return r.NormFloat64() * math.Pow(10, float64(r.IntN(200)-100)) }, 0, 0},
		"small later": {func() float64 {
			if calls++; calls > 1000 {
				return r.Float64() * 0x1p-28
			}
			return float64(1<<23 + 4*r.IntN(1000))
		}, 0, 0},
		"too large":        {func() float64 { return 1e300 * r.Float64() }, 0, 0},
		"at the bits' end": {func() float64 { return 1 + float64(r.IntN(3)-1)*0x1p-52 + float64(r.IntN(2))*0x1p30 }, 8, 0},
	} {
		t.Run(name, func(t *testing.T) {
			sums, means := 0, 0
			for range 10 {
				last, calls = 1, 0
				s, m := requireBits(t, r, kind.value)
				sums, means = sums+s, means+m
			}
			require.GreaterOrEqual(t, sums, kind.sums)
			require.GreaterOrEqual(t, means, kind.means)
		})
	}
}

// requireBits compares a window over values with all of them, and returns how many of a sum and of
// a mean are certain.
func requireBits(t *testing.T, r *rand.Rand, value func() float64) (sums, means int) {
	b := selection.NewBuilder(0)
	b.Series(labels.FromStrings("__name__", "m"))
	var times []int64
	var values []float64
	for range 40 + r.IntN(40) {
		first := len(times)
		for range 1 + r.IntN(120) {
			times, values = append(times, int64(len(times))*15_000), append(values, value())
		}
		ts, vs := times[first:], values[first:]
		require.NoError(t, b.Chunk(chunkenc.EncXOR, ts[0], ts[len(ts)-1], selectiontest.Chunk(t, chunkenc.EncXOR, nil, ts, vs)))
	}
	sel, err := b.Finish()
	require.NoError(t, err)
	sel = sel.WithMemos(times[len(times)*3/4])
	lo, hi := r.IntN(len(times)/8), len(times)-r.IntN(10)
	start, end := times[lo]-1, times[hi-1]
	set := column.NewSet(1 << 20)
	q := &column.Request{Set: set, Tick: set.Tick(), Sel: sel, Mint: start + 1, Maxt: end, Table: sel.Table()}
	of := func(policy string) (float64, bool) {
		var reader column.Reader
		form := Of(abi.Policy{Name: policy})
		v, ok, err := reader.Digests(q, form.Kind, 1, 0)
		require.NoError(t, err)
		var w column.Digested
		if ok {
			ok, err = reader.Window(q, &v, start, end, &w)
			require.NoError(t, err)
		}
		require.True(t, ok)
		require.Equal(t, hi-lo, w.Samples())
		return form.Value(&w)
	}
	want := values[lo:hi]
	if v, ok := of("Sum"); ok {
		require.Equal(t, math.Float64bits(exact.Sum(want)), math.Float64bits(v))
		sums = 1
	}
	if v, ok := of("Avg"); ok {
		require.Equal(t, math.Float64bits(exact.Mean(want)), math.Float64bits(v))
		means = 1
	}
	return sums, means
}
