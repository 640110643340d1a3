package main

import (
	"fmt"
	"math"
	"math/rand/v2"
	"strconv"

	"github.com/prometheus/prometheus/model/labels"

	"github.com/promwarp/promwarp/selection"
	"github.com/promwarp/promwarp/selection/synthetic"
)

// The metrics: requests, a tenth as many of errors, and as many buckets of classic
// histograms of ten.
const (
	counters = "m_total"
	failures = "e_total"
	buckets  = "m_bucket"
)

// data makes selections when they are first asked for, and holds them.
type data struct {
	samples int
	made    map[key]*selection.Selection
}

// key is a metric, and the series that there would be of m_total.
type key struct {
	metric string
	series int
}

// metrics are the selections that a query reads.
func (d *data) metrics(names []string, series int) (synthetic.Metrics, error) {
	of := synthetic.Metrics{}
	for _, name := range names {
		s, err := d.of(name, series)
		if err != nil {
			return nil, err
		}
		of[name] = s
	}
	return of, nil
}

// of is the selection of a metric.
func (d *data) of(metric string, series int) (*selection.Selection, error) {
	k := key{metric, series}
	if s := d.made[k]; s != nil {
		return s, nil
	}
	var s *selection.Selection
	var err error
	switch metric {
	case buckets:
		s, err = histograms(max(series/len(les), 1), d.samples)
	case failures:
		s, err = synthetic.Counters(metric, max(series/10, 1), d.samples)
	default:
		s, err = synthetic.Counters(metric, series, d.samples)
	}
	if err == nil {
		d.made[k] = s
	}
	return s, err
}

// les are the upper bounds of buckets as labels are sorted, and rank which of the
// bounds each is.
var (
	les  = []string{"+Inf", "0.005", "0.01", "0.025", "0.05", "0.1", "0.25", "0.5", "1", "2.5"}
	rank = []int{9, 0, 1, 2, 3, 4, 5, 6, 7, 8}
)

// histograms makes classic histograms in 20 jobs, of 51 kinds.
func histograms(count, samples int) (*selection.Selection, error) {
	return synthetic.Make(synthetic.Options{
		Series: count * len(les), Distinct: 51 * len(les),
		Labels: func(i int) labels.Labels {
			h := i / len(les)
			return labels.FromStrings("__name__", buckets, "instance", fmt.Sprintf("host-%06d", h), "job", "job-"+strconv.Itoa(h%20), "le", les[i%len(les)])
		},
		Samples: func(k int) ([]int64, []float64) {
			r := rand.New(rand.NewPCG(43, uint64(k/len(les))))
			offset, bound := r.Int64N(synthetic.Interval), rank[k%len(les)]
			ts, vs := make([]int64, samples), make([]float64, samples)
			count := 0.0
			for i := range ts {
				// This share of the new observations is in this bucket or one below it.
				fresh := math.Round(100 * r.ExpFloat64())
				count += math.Floor(fresh * math.Pow(float64(bound+1)/float64(len(les)), 1.5))
				ts[i], vs[i] = synthetic.Start+offset+int64(i)*synthetic.Interval, count
			}
			return ts, vs
		},
	})
}
