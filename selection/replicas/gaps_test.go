package replicas

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/prometheus/prometheus/model/labels"
	"github.com/stretchr/testify/require"

	"github.com/promwarp/promwarp/selection"
	"github.com/promwarp/promwarp/selection/selectiontest"
)

// Example answers from one replica, which was down for three minutes, and in that gap from the other.
func Example() {
	scraped := func(offset int64, down func(t int64) bool) *selection.Selection {
		b := selection.NewBuilder(0)
		b.Series(labels.FromStrings("__name__", "up"))
		var times []int64
		for t := offset; t <= 600_000; t += 15_000 {
			if !down(t) {
				times = append(times, t)
			}
		}
		_ = b.Floats(times, make([]float64, len(times)))
		sel, _ := b.Finish()
		return sel
	}
	a := scraped(0, func(t int64) bool { return t > 300_000 && t < 480_000 })
	b := scraped(7_000, func(int64) bool { return false })
	ctx := context.Background()
	gaps, _ := Gaps(ctx, a, 0, 600_000)
	fmt.Println(gaps)
	sel, _ := Fill(ctx, a, b, gaps)
	fmt.Println(sel.NumSamples())
	// Output:
	// [{300000 480000}]
	// 42
}

// all has series by their number, each of chunks of times in seconds.
func all(t testing.TB, series map[int][][]int64) *selection.Selection {
	t.Helper()
	b := selection.NewBuilder(0)
	for i, chunks := range series {
		b.Series(selectiontest.Name(i))
		for _, times := range chunks {
			var ms []int64
			for _, s := range times {
				ms = append(ms, 1000*s)
			}
			require.NoError(t, b.Floats(ms, make([]float64, len(ms))))
		}
	}
	sel, err := b.Finish()
	require.NoError(t, err)
	return sel
}

var from = selectiontest.TimesBetween

func TestGaps(t *testing.T) {
	for name, c := range map[string]struct {
		series map[int][][]int64
		want   []Gap
	}{
		"nothing":                     {want: []Gap{{-1, 600_001}}},
		"all of it":                   {series: map[int][][]int64{0: {from(0, 600, 15)}}},
		"three scrapes missed":        {series: map[int][][]int64{0: {slices.Concat(from(0, 300, 15), from(360, 600, 15))}}, want: []Gap{{300_000, 360_000}}},
		"two scrapes missed":          {series: map[int][][]int64{0: {slices.Concat(from(0, 300, 15), from(345, 600, 15))}}},
		"between chunks":              {series: map[int][][]int64{0: {from(0, 300, 15), from(360, 600, 15)}}, want: []Gap{{300_000, 360_000}}},
		"at the begin and at the end": {series: map[int][][]int64{0: {from(60, 540, 15)}}, want: []Gap{{-1, 60_000}, {540_000, 600_001}}},
		"another series is there":     {series: map[int][][]int64{0: {from(0, 300, 15)}, 1: {from(290, 600, 15)}}},
		"another is there in parts":   {series: map[int][][]int64{0: {from(0, 150, 15), from(450, 600, 15)}, 1: {from(300, 330, 15)}}, want: []Gap{{150_000, 300_000}, {330_000, 450_000}}},
		"scraped every minute":        {series: map[int][][]int64{0: {from(0, 600, 60)}}},
		"and another every second":    {series: map[int][][]int64{0: {from(0, 600, 60)}, 1: {from(0, 540, 1)}}, want: []Gap{{540_000, 600_000}}},
	} {
		t.Run(name, func(t *testing.T) {
			got, err := Gaps(t.Context(), all(t, c.series), 0, 600_000)
			require.NoError(t, err)
			require.Equal(t, c.want, got)
		})
	}
}

func TestFill(t *testing.T) {
	a := all(t, map[int][][]int64{0: {slices.Concat(from(0, 300, 15), from(420, 600, 15))}})
	gaps, err := Gaps(t.Context(), a, 0, 600_000)
	require.NoError(t, err)
	times := func(sel *selection.Selection, i int) (out []int64) {
		for _, p := range read(t, sel.Filter(func(l labels.Labels) bool { return labels.Equal(l, selectiontest.Name(i)) })) {
			out = append(out, p.t/1000)
		}
		return out
	}
	for name, c := range map[string]struct {
		other  map[int][][]int64
		want   []int64
		second []int64
	}{
		"the other was down, too":         {other: map[int][][]int64{0: {from(7, 290, 15), from(427, 592, 15)}}, want: slices.Concat(from(0, 300, 15), from(420, 600, 15))},
		"a sample alone proves nothing":   {other: map[int][][]int64{0: {from(60, 600, 300)}}, want: slices.Concat(from(0, 300, 15), from(420, 600, 15))},
		"the other has it":                {other: map[int][][]int64{0: {from(7, 597, 15)}}, want: slices.Concat(from(0, 300, 15), from(307, 412, 15), from(420, 600, 15))},
		"the other has more series there": {other: map[int][][]int64{0: {from(7, 297, 15)}, 1: {from(7, 597, 15)}}, want: slices.Concat(from(0, 300, 15), from(420, 600, 15)), second: from(307, 412, 15)},
	} {
		t.Run(name, func(t *testing.T) {
			got, err := Fill(t.Context(), a, all(t, c.other), gaps)
			require.NoError(t, err)
			require.Equal(t, c.want, times(got, 0))
			require.Equal(t, c.second, times(got, 1))
			if len(times(got, 0)) == len(times(a, 0)) && c.second == nil {
				require.Same(t, a, got)
			} else {
				require.Nil(t, got.Memo(0))
				require.Nil(t, got.Provenance)
			}
		})
	}
}

// TestGapsRandom holds Gaps against all times in order.
func TestGapsRandom(t *testing.T) {
	for seed := range uint64(2000) {
		r := rand.New(rand.NewPCG(seed, 3))
		series, every := map[int][][]int64{}, map[int64]bool{}
		for i := range 1 + r.IntN(4) {
			at, step := r.Int64N(300), int64(15*(1+r.IntN(2)))
			for range 1 + r.IntN(4) {
				var times []int64
				for range 12 + r.IntN(30) {
					times = append(times, at)
					every[at] = true
					at += step
				}
				series[i] = append(series[i], times)
				at += r.Int64N(3) * r.Int64N(300)
			}
		}
		sel := all(t, series)
		const mint, maxt = 200_000, 1_500_000
		least := missedScrapes * scrapeInterval(sel)
		var want []Gap
		last := int64(mint - 1)
		for _, at := range append(from(mint, maxt, 1000), maxt+1) {
			if at == maxt+1 || every[at/1000] {
				if at-last > least {
					want = append(want, Gap{last, at})
				}
				last = at
			}
		}
		got, err := Gaps(t.Context(), sel, mint, maxt)
		require.NoError(t, err)
		require.Equal(t, want, got, "seed %d", seed)
	}
}
