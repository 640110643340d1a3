package encode

import (
	"math"
	"math/rand/v2"
	"strconv"
	"testing"

	"github.com/prometheus/prometheus/promql"
	"github.com/stretchr/testify/require"
)

// prometheusFloat is the rule of Prometheus's jsonutil.MarshalFloat.
func prometheusFloat(v float64) string {
	format := byte('f')
	if abs := math.Abs(v); abs != 0 && (abs < 1e-6 || abs >= 1e21) {
		format = 'e'
	}
	return strconv.FormatFloat(v, format, -1, 64)
}

func checkFloat(t testing.TB, v float64) {
	got := string(AppendFloat(nil, v))
	if want := prometheusFloat(v); got != want {
		t.Fatalf("%x: want %s, got %s", math.Float64bits(v), want, got)
	}
	if len(got) > textBytes {
		t.Fatalf("%s is %d bytes", got, len(got))
	}
}

func TestFloats(t *testing.T) {
	for _, f := range oddFloats {
		checkFloat(t, f)
		// The rule above is Prometheus's.
		equal(t, prometheus(t, respond(promql.Vector{{F: f}})), `{"status":"success","data":{"resultType":"vector","result":[{"metric":{},"value":[0,"`+string(AppendFloat(nil, f))+`"]}]}}`, "value")
	}
	r := rand.New(rand.NewPCG(2, 2))
	n := 200 * random(t, 2000)
	for range n {
		checkFloat(t, randomFloat(r))
	}
	for e := range 1100 { // powers of two and their neighbours
		f := math.Ldexp(1, e-1074)
		for _, f := range []float64{f, math.Nextafter(f, 0), math.Nextafter(f, 1e308)} {
			checkFloat(t, f)
			checkFloat(t, -f)
		}
	}
	// Every exponent with fractions: random significands, the first and the
	// last, and such as end in zeros, which may be halfway between two decimals.
	for e := minExponent; e < 0; e++ {
		for i := range n / 200 {
			c := r.Uint64N(1 << significandBits)
			switch i % 4 {
			case 0:
				c = c >> (i % significandBits) << (i % significandBits)
			case 1:
				c >>= i % significandBits
			case 2:
				c = 1<<significandBits - 1 - c>>(i%significandBits)
			}
			checkFloat(t, math.Ldexp(float64(c|1<<significandBits), e))
		}
	}
	for i := range 200_000 { // short decimals
		for _, p := range []float64{10, 1000, 1e6, 1e7} {
			checkFloat(t, float64(i)/p)
			checkFloat(t, float64(i)*(1/p)) // often the next float
			checkFloat(t, 999_999_999+float64(i)/p)
		}
	}
}

func TestUints(t *testing.T) {
	b := make([]byte, valueBytes)
	for _, p := range powers {
		for _, u := range []uint64{p - 1, p, p + 1, 2 * p, 9 * p} {
			require.Equal(t, strconv.FormatUint(u, 10), string(b[:putUint(b, 0, u)]))
		}
	}
	require.Equal(t, "18446744073709551615", string(b[:putUint(b, 0, math.MaxUint64)]))
}

func TestTimestamps(t *testing.T) {
	r := rand.New(rand.NewPCG(3, 3))
	times := append([]int64{}, oddTimes...)
	for range 100_000 {
		times = append(times, int64(r.Uint64())>>r.IntN(64))
	}
	m := promql.Matrix{{}}
	for _, ms := range times {
		s := slotFor(ms)
		require.Equal(t, `"],[`+string(appendTimestamp(nil, ms))+`,"`, string(s[:s[slotBytes-1]]))
		m[0].Floats = append(m[0].Floats, promql.FPoint{T: ms})
	}
	check(t, respond(m), "times")
}
