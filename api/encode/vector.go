package encode

import "github.com/prometheus/prometheus/promql"

// vector encodes the samples of a vector. A row has no points to stop at.
type vector struct {
	samples    promql.Vector
	histograms bool
}

func newVector(v promql.Vector) *vector {
	r := &vector{samples: v}
	for i := range v {
		r.histograms = r.histograms || v[i].H != nil
	}
	return r
}

func (v *vector) next(c cursor, weight int) (cursor, int) {
	w := 0
	for ; c.row < len(v.samples) && w < weight; c.row++ {
		w += seriesWeight
		if v.samples[c.row].H != nil {
			w += histogramWeight
		}
	}
	return c, w
}

func (v *vector) append(b []byte, from, to cursor) []byte {
	// The samples of a vector have one time.
	var between slot
	var ms int64
	known := false
	for i := from.row; i < to.row; i++ {
		s := &v.samples[i]
		if i > 0 {
			b = append(b, ',')
		}
		b = append(b, `{"metric":`...)
		b = AppendLabels(b, s.Metric)
		if s.H != nil {
			b = append(b, `,"histogram":`...)
			b = appendHistograms(b, []promql.HPoint{{T: s.T, H: s.H}})
			b = append(b, '}')
			continue
		}
		if !known || ms != s.T {
			between, ms, known = slotFor(s.T), s.T, true
		}
		b = append(b, `,"value":`...)
		b = append(b, between[opening:between[slotBytes-1]]...)
		b = AppendFloat(b, s.F)
		b = append(b, `"]}`...)
	}
	return b
}
