package aggregate

import (
	"fmt"
	"math"
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/promwarp/promwarp/resample/bucket"
)

func Example() {
	mean, _ := Library{}.Parse("mean")
	contents := Contents{Parts: mean.Reads.With()}
	var states States
	contents.Make(&states, &Runs{
		Times: []int64{0, 10, 25}, Values: []float64{1, 2, 6}, Runs: []bucket.Run{{Bucket: 0, First: 0, End: 2}, {Bucket: 1, First: 2, End: 3}},
	})
	contents.Merge(&states, []int32{0}, &states, 1)
	out := make([]float64, 1)
	mean.Results(&states, []int32{0}, 0, out)
	fmt.Println(PartNames(contents.Parts), out)
	// Output: [mean sum count] [3]
}

// odd are values that sums and extremes take care of.
var odd = []float64{math.NaN(), math.Inf(1), math.Inf(-1), math.MaxFloat64, -math.MaxFloat64, 1e200, math.Copysign(0, -1), 5e-324}

// randomValues are n values, some of them odd.
func randomValues(r *rand.Rand, n int) []float64 {
	vs := make([]float64, n)
	scale, share := math.Pow(10, float64(r.IntN(20)-10)), []float64{0, 0.02, 0.5}[r.IntN(3)]
	for i := range vs {
		if vs[i] = 1e6*scale + scale*r.NormFloat64(); r.Float64() < share {
			vs[i] = odd[r.IntN(len(odd))]
		}
	}
	return vs
}

// TestMake: states of many runs have the bits of those that are made one by one.
func TestMake(t *testing.T) {
	r := rand.New(rand.NewPCG(3, 4))
	for range 1000 {
		n, longest := 1+r.IntN(2000), 1+r.IntN(100)
		in := Runs{Times: make([]int64, n), Values: randomValues(r, n), Grid: &bucket.Grid{Ends: []int64{int64(n)}}}
		for i := range in.Times {
			in.Times[i] = int64(i)
		}
		for at := 0; at < n; {
			end := min(at+1+r.IntN(longest), n)
			in.Runs = append(in.Runs, bucket.Run{First: int32(at), End: int32(end)})
			at = end - r.IntN(2)*r.IntN(end-at) // some overlap
		}
		for _, c := range []Contents{{Parts: Sum}, {Parts: Sum | Mean | Count}, {Parts: Least | Most | Oldest | Newest}, {Parts: (Squares | Least | Most | Oldest | Newest | Weighted).With()}} {
			var all, alone States
			c.Make(&all, &in)
			for i := range in.Runs {
				one := in
				one.Runs = in.Runs[i : i+1]
				c.Make(&alone, &one)
				require.Equal(t, numbers(&alone, 0), numbers(&all, i), "run %d of %d: %v", i, len(in.Runs), in.values(i))
			}
		}
	}
}

// numbers are the bits of all columns of state k; NaN is NaN.
func numbers(s *States, k int) (out []uint64) {
	for _, column := range s.columns() {
		if *column.is == nil {
			continue
		}
		v := (*column.is)[k]
		if v != v {
			v = math.NaN()
		}
		out = append(out, math.Float64bits(v))
	}
	return out
}

// TestOrder: NaN is the smallest, and in groups the zero below zero is before the other.
func TestOrder(t *testing.T) {
	s := States{grouped: true, Values: [][]float64{{2, math.Inf(-1), math.NaN(), 0, math.Copysign(0, -1), -3, math.Inf(1), -math.NaN(), 2}}}
	out := make([]float64, 9)
	for k := range out {
		quantiles(&s, []int32{0}, float64(k)/8, out[k:])
	}
	require.True(t, math.IsNaN(out[0]) && math.IsNaN(out[1]))
	require.Equal(t, []float64{-3, 0, 0, 2}, out[3:7])
	require.True(t, math.Signbit(s.Values[0][4]) && !math.Signbit(s.Values[0][5]))
	require.Equal(t, 6.0, s.distinct(0))
}

// TestParse: names and what is near them.
func TestParse(t *testing.T) {
	a, err := Library{}.Parse("rate:99.9pct")
	require.NoError(t, err)
	require.True(t, a.Rate)
	require.Equal(t, 0.999, a.Q)
	for text, nearest := range map[string]string{"maxx": "max", "rate:stdd": "rate:std", "95pc": "95pct", "zzzzzzzzzz": "", "rate:rate:sum": ""} {
		_, err := Library{}.Parse(text)
		var unknown *UnknownError
		require.ErrorAs(t, err, &unknown, text)
		if nearest != "" {
			require.Equal(t, fmt.Sprintf("did you mean %q?", nearest), unknown.Hint, text)
		}
	}
	for _, text := range []string{"-1pct", "100.1pct", "NaNpct", "1e9pct"} {
		_, err := Library{}.Parse(text)
		require.ErrorIs(t, err, ErrPercent, text)
	}
}
