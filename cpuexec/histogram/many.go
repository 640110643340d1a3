package histogram

import (
	"slices"

	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/promql"

	"github.com/promwarp/promwarp/plan"
)

// RepairsOf lists histograms as often as each has results, so that each result has
// repairs of its own.
func RepairsOf(hs []Buckets, results int) []Buckets {
	if results == 1 {
		return hs
	}
	return slices.Repeat(hs, results)
}

// ManyQuantiles computes histogram_quantiles of histogram i: of rows one for each
// quantile, those of the first quantile of all histograms before those of the second.
// Prometheus's function makes the buckets monotonic where they are, and the next
// quantile finds what it has left, so it is called in the same order.
func (s *Evaluator) ManyQuantiles(n *plan.Histogram, hs []Buckets, i int, in, rows []plan.Row) {
	each := len(rows) / len(n.Args)
	first := s.walk(&hs[i], in, func(first int, out []float64) {
		for k := range out {
			s.buckets = s.buckets[:0]
			for _, c := range s.columns {
				s.buckets = append(s.buckets, promql.Bucket{UpperBound: c.bound, Count: c.counts[k]})
			}
			for j, q := range n.Args {
				v, forced, _, low, high, diff := promql.BucketQuantile(q, s.buckets)
				if forced {
					hs[i+j*each].repairs.mark(first + k)
					hs[i+j*each].repairs.widen(low, high, diff)
				}
				if j == 0 {
					out[k] = v
				} else {
					rows[i+j*each].Values = append(rows[i+j*each].Values, v)
				}
			}
		}
	})
	for at := i + each; at < len(rows); at += each {
		rows[at].Labels, rows[at].Runs = first.Labels, first.Runs
	}
	rows[i] = first
}

// QuantileLabels are the values of the label of histogram_quantiles.
func QuantileLabels(n *plan.Histogram) []string {
	if !n.Many() {
		return nil
	}
	out := make([]string, len(n.Args))
	for i, q := range n.Args {
		out[i] = labels.FormatOpenMetricsFloat(q)
		// 0 and -0 are one to Prometheus's engine, which writes them as the first one is.
		if k := slices.Index(n.Args[:i], q); k >= 0 {
			out[i] = out[k]
		}
	}
	return out
}
