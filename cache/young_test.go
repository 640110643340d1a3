package cache

import (
	"math"
	"testing"

	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/model/value"
	"github.com/stretchr/testify/require"

	"github.com/promwarp/promwarp/selection"
	"github.com/promwarp/promwarp/selection/selectiontest"
)

// valueAt is a time in ms and a value.
type valueAt struct {
	t int64
	v float64
}

func TestComplete(t *testing.T) {
	stale := math.Float64frombits(value.StaleNaN)
	const alive, until = 1000, 5000
	for _, test := range []struct {
		name   string
		series map[string][]valueAt // by the value of a label; floats
		want   int64
		ok     bool
	}{
		{name: "nothing"},
		{name: "nothing that goes on", series: map[string][]valueAt{"a": {{t: 999, v: 1}}}},
		{"newer than that", map[string][]valueAt{"a": {{t: 4000, v: 1}, {t: 6000, v: 1}}, "b": {{t: 4999, v: 1}}}, until, true},
		{"behind", map[string][]valueAt{"a": {{t: 6000, v: 1}}, "b": {{t: 2000, v: 1}, {t: 3000, v: 1}}, "c": {{t: 3500, v: 1}}}, 3001, true},
		{"just alive", map[string][]valueAt{"a": {{t: 6000, v: 1}}, "b": {{t: alive, v: 1}}}, alive + 1, true},
		{"ended", map[string][]valueAt{"a": {{t: 6000, v: 1}}, "b": {{t: 2000, v: 1}, {t: 3000, v: stale}}}, until, true},
		{"all ended", map[string][]valueAt{"b": {{t: 2000, v: 1}, {t: 3000, v: stale}}}, 0, false},
		{"goes on after its end", map[string][]valueAt{"b": {{t: 2000, v: stale}, {t: 3000, v: 1}}}, 3001, true},
		{"long ago", map[string][]valueAt{"a": {{t: 6000, v: 1}}, "b": {{t: 100, v: 1}}}, until, true},
	} {
		t.Run(test.name, func(t *testing.T) {
			b := selection.NewBuilder(0)
			for _, name := range []string{"a", "b", "c"} {
				if test.series[name] == nil {
					continue
				}
				b.Series(labels.FromStrings("__name__", "m", "i", name))
				for _, s := range test.series[name] {
					require.NoError(t, b.Floats([]int64{s.t}, []float64{s.v}))
				}
			}
			sel, err := b.Finish()
			require.NoError(t, err)
			got, ok := complete(selection.Empty(), sel, alive, until)
			require.Equal(t, test.ok, ok)
			if ok {
				require.Equal(t, test.want, got)
			}
		})
	}
	_, ok := complete(selection.Empty(), histograms(t), alive, until)
	require.False(t, ok, "histograms")
}

func TestSigned(t *testing.T) {
	zero := math.Copysign(0, -1)
	for _, test := range []struct {
		values []float64
		want   bool
	}{
		{[]float64{0, 1, 2}, false}, {[]float64{0, -1, 2}, true}, {[]float64{zero}, true}, {[]float64{math.Inf(-1), 1}, true},
		{[]float64{math.Inf(1), math.Float64frombits(value.StaleNaN), math.Copysign(math.NaN(), -1)}, false},
	} {
		b := selection.NewBuilder(0)
		b.Series(labels.FromStrings("a", "b"))
		require.NoError(t, b.Floats(selectiontest.TimesBetween(0, int64(len(test.values)-1), 1), test.values))
		sel, err := b.Finish()
		require.NoError(t, err)
		require.Equal(t, test.want, signed(sel)(0), "%v", test.values)
	}
}
