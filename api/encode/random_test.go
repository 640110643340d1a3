package encode

import (
	"math"
	"math/rand/v2"
	"slices"

	"github.com/prometheus/prometheus/model/histogram"
	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/promql"
	"github.com/prometheus/prometheus/promql/parser"
	"github.com/prometheus/prometheus/tsdb/tsdbutil"
	"github.com/prometheus/prometheus/util/stats"

	"github.com/promwarp/promwarp/plan"
)

// oddFloats are where formats, digits or shortcuts change.
var oddFloats = func() []float64 {
	fs := []float64{
		0, math.Copysign(0, -1), math.NaN(), math.Inf(1), math.Inf(-1),
		math.Float64frombits(0x7ff0000000000002), // Prometheus's stale marker
		math.Float64frombits(0xfff8000000000001),
		math.MaxFloat64, math.SmallestNonzeroFloat64, 0x1p-1022, 0x0.fffffffffffffp-1022,
		1e21, 1e20, 123456789012345678901, 1e-6, 1e-7, 1.5e-6, 1.234567890123456e-6,
		1 << 53, 1<<53 - 1, 1<<53 + 2, 1 << 54, 1 << 63, 1 << 64, 1e15, 1e16, 1e17,
		0.1, 0.2, 0.3, 0.1 + 0.2, 1.0 / 3, 2.0 / 3, 0.5, 0.25, 0.000001, 0.000002, 0.0000015,
		1e9, 999999999.999999, 999999999.9999999, 1e9 + 0.000001, 123456789.123456, 8388608.000001,
		9, 10, 11, 99, 100, 101, 999, 1000, 1435781451.781,
	}
	for p, x := 0, 1.0; p < 25; p, x = p+1, x*10 {
		fs = append(fs, x, x-1, x+1)
	}
	for _, f := range slices.Clone(fs) {
		fs = append(fs, -f, math.Nextafter(f, math.Inf(1)), math.Nextafter(f, math.Inf(-1)))
	}
	return fs
}()

var oddTimes = []int64{
	0, 1, 9, 10, 99, 100, 999, 1000, 1001, 1010, 1100, -1, -9, -99, -100, -999, -1000, -1001,
	1435781451781, 1435781451000, 1435781451080, math.MaxInt64, math.MinInt64, math.MinInt64 + 1,
}

var oddStrings = []string{
	"", "a", `"`, `\`, "\n\r\t", "\x00\x01\x1f\x7f", "<script>&amp;</script>", "\u2028\u2029", "\xff\xfe", "a\xc3",
	"日本語", "😀", `\u0000`, "é\"è\\", "a\u0000b", "'`",
}

func randomFloat(r *rand.Rand) float64 {
	switch r.IntN(8) {
	case 0:
		return oddFloats[r.IntN(len(oddFloats))]
	case 1:
		return math.Float64frombits(r.Uint64())
	case 2:
		return float64(r.Int64N(1<<uint(1+r.IntN(62)))) * float64(1-2*r.IntN(2))
	case 3: // a decimal
		return float64(r.Int64N(1<<uint(1+r.IntN(54)))) / math.Pow10(r.IntN(12))
	case 4: // next to one
		f := float64(r.Int64N(1<<uint(1+r.IntN(54)))) / math.Pow10(r.IntN(12))
		return math.Nextafter(f, float64(1-2*r.IntN(2))*math.MaxFloat64)
	case 5:
		return r.ExpFloat64() / 1000
	case 6:
		return float64(r.IntN(5))
	}
	return r.NormFloat64() * 1e6
}

func randomString(r *rand.Rand) string {
	switch r.IntN(4) {
	case 0:
		return oddStrings[r.IntN(len(oddStrings))]
	case 1:
		b := make([]byte, r.IntN(12))
		for i := range b {
			b[i] = byte(r.Uint32())
		}
		return string(b)
	case 2:
		s := ""
		for range r.IntN(4) {
			s += oddStrings[r.IntN(len(oddStrings))] + string(rune(r.IntN(0x3000)))
		}
		return s
	}
	return "instance-" + string(rune('a'+r.IntN(26)))
}

func randomLabels(r *rand.Rand) labels.Labels {
	b := labels.NewScratchBuilder(4)
	seen := map[string]bool{}
	for range r.IntN(5) {
		if n := randomString(r); !seen[n] {
			seen[n] = true
			b.Add(n, randomString(r))
		}
	}
	b.Sort()
	return b.Labels()
}

func randomHistogram(r *rand.Rand) *histogram.FloatHistogram {
	switch r.IntN(3) {
	case 0:
		return &histogram.FloatHistogram{Count: randomFloat(r), Sum: randomFloat(r)}
	case 1:
		return tsdbutil.GenerateTestCustomBucketsFloatHistogram(r.Int64N(100))
	}
	h := tsdbutil.GenerateTestFloatHistogram(r.Int64N(100))
	h.PositiveBuckets[0], h.Sum = 0, randomFloat(r)
	return h
}

// clock gives the times of a series' points.
func clock(r *rand.Rand) func() int64 {
	if r.IntN(6) == 0 {
		return func() int64 { return oddTimes[r.IntN(len(oddTimes))] }
	}
	t := oddTimes[r.IntN(len(oddTimes)-3)]
	step := []int64{1, 15, 1000, 15_000, 60_000, 86_400_000}[r.IntN(6)]
	gaps := r.IntN(3)
	return func() int64 {
		now := t
		t += step
		for gaps > 0 && r.IntN(8) == 0 {
			t += step
		}
		if gaps == 2 && r.IntN(8) == 0 {
			t += r.Int64N(step)
		}
		return now
	}
}

func randomMatrix(r *rand.Rand) promql.Matrix {
	m := make(promql.Matrix, r.IntN(6))
	seed := r.Uint64()
	points := r.IntN(50)
	if r.IntN(20) == 0 {
		points = 1000
	}
	for i := range m {
		m[i].Metric = randomLabels(r)
		tick := clock(r)
		if r.IntN(4) > 0 { // most series share a grid
			tick = clock(rand.New(rand.NewPCG(seed, 0)))
			for range r.IntN(3) {
				tick()
			}
		}
		last := randomFloat(r)
		for range r.IntN(points + 1) {
			if r.IntN(4) > 0 {
				last = randomFloat(r)
			}
			m[i].Floats = append(m[i].Floats, promql.FPoint{T: tick(), F: last})
		}
		if r.IntN(5) == 0 {
			for range r.IntN(200) {
				m[i].Histograms = append(m[i].Histograms, promql.HPoint{T: tick(), H: randomHistogram(r)})
			}
		}
	}
	return m
}

// randomSteps returns an executor's matrix and the same points as Prometheus has them.
func randomSteps(r *rand.Rand) (*plan.Matrix, promql.Matrix) {
	m := &plan.Matrix{Grid: plan.Grid{Start: oddTimes[r.IntN(len(oddTimes)-3)], Interval: 1 + r.Int64N(100_000), Steps: 1 + r.IntN(700)}}
	points := promql.Matrix{}
	for range r.IntN(6) {
		row, series := plan.Row{Labels: randomLabels(r)}, promql.Series{}
		series.Metric = row.Labels
		last, gaps := randomFloat(r), r.IntN(3)
		for k := range m.Grid.Steps {
			if gaps == 1 && r.IntN(8) == 0 || gaps == 2 && r.IntN(8) > 0 {
				continue
			}
			if r.IntN(4) > 0 {
				last = randomFloat(r)
			}
			row.Runs = plan.AppendRun(row.Runs, plan.Run{First: int32(k), Len: 1})
			row.Values = append(row.Values, last)
			series.Floats = append(series.Floats, promql.FPoint{T: m.Grid.At(k), F: last})
		}
		if len(row.Values) > 0 {
			m.Rows, points = append(m.Rows, row), append(points, series)
		}
	}
	return m, points
}

func randomVector(r *rand.Rand) promql.Vector {
	v := make(promql.Vector, r.IntN(20))
	t := oddTimes[r.IntN(len(oddTimes))]
	for i := range v {
		v[i] = promql.Sample{T: t, F: randomFloat(r), Metric: randomLabels(r)}
		if r.IntN(6) == 0 {
			v[i].H = randomHistogram(r)
		}
		if r.IntN(10) == 0 {
			v[i].T = oddTimes[r.IntN(len(oddTimes))]
		}
	}
	return v
}

// respond returns a result with a value and nothing else.
func respond(v parser.Value) Result { return Result{Value: v} }

func randomResponse(r *rand.Rand) Result {
	var v parser.Value
	switch r.IntN(10) {
	case 0:
		v = promql.Scalar{T: oddTimes[r.IntN(len(oddTimes))], V: randomFloat(r)}
	case 1:
		v = promql.String{T: oddTimes[r.IntN(len(oddTimes))], V: randomString(r)}
	case 2, 3, 4:
		v = randomVector(r)
	default:
		v = randomMatrix(r)
	}
	resp := respond(v)
	if r.IntN(3) == 0 {
		samples := stats.NewQuerySamples(true)
		samples.InitStepTracking(0, 10, 1)
		samples.IncrementSamplesAtStep(1, r.Int64N(100))
		resp.Stats = stats.NewQueryStats(&stats.Statistics{Timers: stats.NewQueryTimers(), Samples: samples})
	}
	for range r.IntN(3) {
		resp.Warnings = append(resp.Warnings, randomString(r)+`"result":[]`)
	}
	for range r.IntN(3) {
		resp.Infos = append(resp.Infos, randomString(r))
	}
	return resp
}
