package encode

import (
	"fmt"
	"io"
	"math/rand/v2"
	"runtime"
	"strconv"
	"testing"

	"github.com/prometheus/common/model"
	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/promql"

	"github.com/promwarp/promwarp/plan"
)

// kind is a kind of values that series have.
type kind struct {
	name  string
	value func(r *rand.Rand, series int) float64
}

var kinds = []kind{
	{"random", func(r *rand.Rand, _ int) float64 { return r.Float64() * 1000 }},
	{"integers", func(r *rand.Rand, _ int) float64 { return float64(r.IntN(1_000_000)) }},
	{"decimals", func(r *rand.Rand, _ int) float64 { return float64(r.IntN(1_000_000)) / 1000 }},
	{"mixed", func(r *rand.Rand, series int) float64 {
		switch series % 4 {
		case 0:
			return r.Float64() * 1000
		case 1:
			return float64(r.IntN(1_000_000))
		case 2:
			return float64(r.IntN(1000)) / 100
		}
		return 1
	}},
}

// matrix returns series on the steps of a range query.
func (k kind) matrix(series, points int) promql.Matrix {
	r := rand.New(rand.NewPCG(4, 4))
	m := make(promql.Matrix, series)
	for i := range m {
		m[i].Metric = labels.FromStrings(model.MetricNameLabel, "http_requests_total", "instance", fmt.Sprintf("10.0.0.%d:9090", i), "job", "api", "n", strconv.Itoa(i))
		m[i].Floats = make([]promql.FPoint, points)
		for j := range m[i].Floats {
			m[i].Floats[j] = promql.FPoint{T: 1435781451781 + int64(j)*15_000, F: k.value(r, i)}
		}
	}
	return m
}

// steps returns the same as an executor has it.
func (k kind) steps(series, points int) *plan.Matrix {
	m := &plan.Matrix{Grid: plan.Grid{Start: 1435781451781, Interval: 15_000, Steps: points}}
	for _, s := range k.matrix(series, points) {
		row := plan.Row{Labels: s.Metric, Runs: []plan.Run{{Len: int32(points)}}}
		for _, p := range s.Floats {
			row.Values = append(row.Values, p.F)
		}
		m.Rows = append(m.Rows, row)
	}
	return m
}

// encoded encodes a result at once.
func encoded(r Result) error {
	a, err := New(r)
	if err == nil {
		whole(a)
	}
	return err
}

// BenchmarkMatrix encodes 1000 series of 760 points, and a day of 8 groups, by Prometheus's codec,
// whole, as an executor has them, and written piece by piece, as the API does, on one core and on all.
func BenchmarkMatrix(b *testing.B) {
	for i := range 2 * len(kinds) {
		k, series, points := kinds[i/2], []int{1000, 8}[i%2], []int{760, 1441}[i%2]
		resp, steps := respond(k.matrix(series, points)), respond(k.steps(series, points))
		run := func(name string, f func() error) {
			b.Run(fmt.Sprint(k.name, "/", series, "/", name), func(b *testing.B) {
				b.ReportAllocs()
				for b.Loop() {
					if err := f(); err != nil {
						b.Fatal(err)
					}
				}
				b.ReportMetric(float64(series*points)*float64(b.N)/b.Elapsed().Seconds()/1e6, "Mpoints/s")
			})
		}
		run("prometheus", func() error { _, err := byPrometheus(resp); return err })
		run("whole", func() error { return encoded(resp) })
		run("steps", func() error { return encoded(steps) })
		for _, cores := range []int{1, runtime.GOMAXPROCS(0)} {
			name := "stream"
			if cores == 1 {
				name += "-1core"
			}
			run(name, func() error {
				a, err := New(resp)
				if err != nil {
					return err
				}
				a.cores = cores
				return a.WriteRest(io.Discard)
			})
		}
	}
}

// BenchmarkVector encodes 100 000 samples.
func BenchmarkVector(b *testing.B) {
	v := make(promql.Vector, 100_000)
	for i, s := range kinds[0].matrix(len(v), 1) {
		v[i] = promql.Sample{Metric: s.Metric, T: s.Floats[0].T, F: s.Floats[0].F}
	}
	resp := respond(v)
	for _, c := range []struct {
		name   string
		encode func(Result) error
	}{{"prometheus", func(r Result) error { _, err := byPrometheus(r); return err }}, {"whole", encoded}} {
		b.Run(c.name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				if err := c.encode(resp); err != nil {
					b.Fatal(err)
				}
			}
			b.ReportMetric(float64(len(v))*float64(b.N)/b.Elapsed().Seconds()/1e6, "Msamples/s")
		})
	}
}
