package carbonara

import (
	"fmt"
	"math"
	"math/rand/v2"

	"github.com/prometheus/prometheus/model/labels"

	"github.com/promwarp/promwarp/internal/parallel"
	"github.com/promwarp/promwarp/selection"
	"github.com/promwarp/promwarp/selection/synthetic"
)

// points are those of the experiment's series, of one kind, and the means they come
// to. A point at second t of its series belongs to mean (t-1)/to, that is to the
// window that ends at the next multiple of to or at t, as in Prometheus.
type points struct {
	values   string
	from, to int  // s
	gaps     bool // some are missing

	steps int       // means of a series
	first []int     // of each series, and their number
	time  []uint32  // s since the series' beginning
	value []float64 // by series

	mean []float64 // NaN where there is no point
}

// kinds are the points of the experiment.
func (o Options) kinds() []*points {
	return []*points{
		{values: "zeros", from: 5, to: 35},
		{values: "range", from: 5, to: 35},
		{values: "random", from: 5, to: 35},
		{values: "range", from: 7, to: 13, gaps: true},
		{values: "range", from: 7, to: 55, gaps: true},
		{values: "range", from: 7, to: 300, gaps: true},
	}
}

// name is the kind's.
func (p *points) name() string { return fmt.Sprintf("%s %d-%d", p.values, p.from, p.to) }

// make makes the points and their means.
func (p *points) make(o Options) {
	r := rand.New(rand.NewPCG(7, uint64(p.to)))
	p.steps = (o.Points*p.from + p.to - 1) / p.to
	for k := range o.Series {
		p.first = append(p.first, len(p.value))
		for i := 0; i < o.Points; i++ {
			if p.gaps && r.IntN(500) == 0 {
				i += r.IntN(200) // up to 23 min without points
			} else if p.gaps && r.IntN(50) == 0 {
				continue
			}
			if i >= o.Points {
				break
			}
			p.time = append(p.time, uint32((i+1)*p.from))
			p.value = append(p.value, p.at(r, k*o.Points+i))
		}
	}
	p.first = append(p.first, len(p.value))
	p.average()
}

// at is the value of point i.
func (p *points) at(r *rand.Rand, i int) float64 {
	switch p.values {
	case "zeros":
		return 0
	case "range":
		return float64(i)
	}
	return 2*r.Float64() - 1
}

// average makes the means with a plain loop.
func (p *points) average() {
	p.mean = make([]float64, p.steps*(len(p.first)-1))
	count := make([]float64, len(p.mean))
	for k := range len(p.first) - 1 {
		for i := p.first[k]; i < p.first[k+1]; i++ {
			at := k*p.steps + int(p.time[i]-1)/p.to
			p.mean[at] += p.value[i]
			count[at]++
		}
	}
	for at, n := range count {
		p.mean[at] /= n // 0/0 is NaN
	}
}

// selection is the points as promwarp has them, size times the series.
func (p *points) selection(size int) (*selection.Selection, error) {
	series := len(p.first) - 1
	return synthetic.Make(synthetic.Options{
		Series: series * size, Distinct: series,
		Labels: func(i int) labels.Labels {
			return labels.FromStrings("__name__", "points", "series", fmt.Sprintf("%07d", i))
		},
		Samples: func(k int) ([]int64, []float64) {
			var ts []int64
			for _, t := range p.time[p.first[k]:p.first[k+1]] {
				ts = append(ts, synthetic.Start+1000*int64(t))
			}
			return ts, p.value[p.first[k]:p.first[k+1]]
		},
	})
}

// worst is the largest error of got, beside the larger of the mean and 1, or an error
// where a mean is there that should not be or is not that should. got has size times
// the means.
func worst[T float32 | float64](p *points, got []T) (float64, error) {
	n := len(p.mean)
	errs, bad := make([]float64, len(got)/n), make([]error, len(got)/n)
	parallel.For(len(errs), func(s int) {
		for i, want := range p.mean {
			v := float64(got[s*n+i])
			if math.IsNaN(v) != math.IsNaN(want) {
				bad[s] = fmt.Errorf("mean %d is %g, not %g", s*n+i, v, want)
			} else if !math.IsNaN(v) {
				errs[s] = max(errs[s], math.Abs(v-want)/max(1, math.Abs(want)))
			}
		}
	})
	most := 0.0
	for s, e := range errs {
		if bad[s] != nil {
			return 0, bad[s]
		}
		most = max(most, e)
	}
	return most, nil
}
