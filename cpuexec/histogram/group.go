package histogram

import (
	"strconv"

	"github.com/prometheus/common/model"
	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/util/annotations"

	"github.com/promwarp/promwarp/plan"
)

// Buckets are the series of one classic histogram.
type Buckets struct {
	labels  labels.Labels // without le
	rows    []int32       // indices of its input rows, ascending
	bounds  []float64     // upper bound of each
	repairs repairs       // steps at which the counts decreased
}

// Group groups rows into histograms, in the order of their first rows.
// Rows whose label le is no number belong to none and are warned of, with their names if
// names is set.
func Group(n *plan.Histogram, in []plan.Row, names bool, note func(error)) []Buckets {
	var hs []Buckets
	index := map[string]int{}
	var key []byte
	b := labels.NewBuilder(labels.EmptyLabels())
	for i := range in {
		l := in[i].Labels
		le := l.Get(model.BucketLabel)
		bound, err := strconv.ParseFloat(le, 64)
		if err != nil {
			name := ""
			if names {
				name = l.Get(model.MetricNameLabel)
			}
			note(annotations.NewBadBucketLabelWarning(name, le, n.InputPos))
			continue
		}
		key = l.BytesWithoutLabels(key, model.BucketLabel)
		k, ok := index[string(key)]
		if !ok {
			k = len(hs)
			index[string(key)] = k
			b.Reset(l)
			hs = append(hs, Buckets{labels: b.Del(model.BucketLabel).Labels()})
		}
		hs[k].rows = append(hs[k].rows, int32(i))
		hs[k].bounds = append(hs[k].bounds, bound)
	}
	return hs
}
