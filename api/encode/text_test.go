package encode

import (
	"math"
	"math/rand/v2"
	"slices"
	"strconv"
	"testing"

	"github.com/prometheus/prometheus/promql"
)

// TestFloats: a value's text is that of Prometheus's jsonutil.MarshalFloat.
func TestFloats(t *testing.T) {
	floats := slices.Clone(oddFloats)
	r := rand.New(rand.NewPCG(2, 2))
	for range 20 * random(t, 2000) {
		floats = append(floats, randomFloat(r))
	}
	for e := range 1100 { // powers of two and their neighbours
		f := math.Ldexp(1, e-1074)
		floats = append(floats, f, -f, math.Nextafter(f, 0), math.Nextafter(f, 1e308))
	}
	for _, f := range floats {
		format := byte('f')
		if abs := math.Abs(f); abs != 0 && (abs < 1e-6 || abs >= 1e21) {
			format = 'e'
		}
		equal(t, strconv.FormatFloat(f, format, -1, 64), string(AppendFloat(nil, f)), "float")
	}
	v := make(promql.Vector, len(oddFloats))
	for i, f := range oddFloats {
		v[i].F = f
	}
	check(t, respond(v), "floats")
}

func TestTimestamps(t *testing.T) {
	r := rand.New(rand.NewPCG(3, 3))
	times := slices.Clone(oddTimes)
	for range 100_000 {
		times = append(times, int64(r.Uint64())>>r.IntN(64))
	}
	m := promql.Matrix{{}}
	for _, ms := range times {
		m[0].Floats = append(m[0].Floats, promql.FPoint{T: ms})
	}
	check(t, respond(m), "times")
}
