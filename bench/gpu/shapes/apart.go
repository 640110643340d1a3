package shapes

import (
	"fmt"
	"math"
	"slices"

	"github.com/prometheus/prometheus/promql"
)

// tolerance is how far values of two answers may be apart, relative to the larger.
const tolerance = 1e-12

// apart is how far the values of two answers are apart at most, relative to the larger:
// 0 where all bits are the same, but those of NaN. Series may come in any order.
func apart(want, got promql.Matrix) (most float64, err error) {
	if len(want) != len(got) {
		return 0, fmt.Errorf("%d series instead of %d", len(got), len(want))
	}
	of := map[string][]promql.FPoint{}
	for _, s := range got {
		of[s.Metric.String()] = s.Floats
	}
	for _, s := range want {
		name := s.Metric.String()
		g, ok := of[name]
		if !ok {
			return 0, fmt.Errorf("series %s is missing", name)
		}
		if len(g) != len(s.Floats) {
			return 0, fmt.Errorf("series %s has %d points instead of %d", name, len(g), len(s.Floats))
		}
		for i, p := range s.Floats {
			switch {
			case p.T != g[i].T:
				return 0, fmt.Errorf("series %s has a point at %d instead of %d", name, g[i].T, p.T)
			case math.Float64bits(p.F) == math.Float64bits(g[i].F), math.IsNaN(p.F) && math.IsNaN(g[i].F):
				continue
			}
			d := math.Abs(p.F-g[i].F) / max(math.Abs(p.F), math.Abs(g[i].F))
			if !(d <= tolerance) {
				return 0, fmt.Errorf("series %s is %g instead of %g at %d", name, g[i].F, p.F, p.T)
			}
			most = max(most, d)
		}
	}
	return most, nil
}

// clone copies an answer, whose memory its engine will use again.
func clone(m promql.Matrix) promql.Matrix {
	m = slices.Clone(m)
	for i := range m {
		m[i].Floats = slices.Clone(m[i].Floats)
	}
	return m
}
