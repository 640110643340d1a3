package reduce

import (
	"context"
	"fmt"
	"math"
	"slices"

	"github.com/prometheus/common/model"
	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/model/value"
	"github.com/prometheus/prometheus/promql"
	"github.com/prometheus/prometheus/promql/parser"
	"github.com/prometheus/prometheus/storage"

	"github.com/promwarp/promwarp/internal/memory"
	"github.com/promwarp/promwarp/selection"
)

// form makes series on which a reader's own aggregation yields what was aggregated here.
type form struct {
	grid
	b        *selection.Builder
	lease    *memory.Lease // of what b holds
	number   string        // a label that the reader's aggregation drops
	external labels.Labels

	sent       int
	last       labels.Labels // as the reader gets it
	disordered bool          // some series did not come behind the one before it
	points     []promql.FPoint
	times      []int64
	values     []float64
	parts      []part
	encoder
}

// unchanged reports whether a reader's op, over a series with these values alone, has them as
// its results, bit by bit: sums add 0 to what they return.
func unchanged(op parser.ItemType, points []promql.FPoint) bool {
	for _, p := range points {
		zero := p.F == 0 && math.Signbit(p.F) && (op == parser.SUM || op == parser.AVG)
		if zero || value.IsStaleNaN(p.F) {
			return false
		}
	}
	return true
}

// add adds what a group is sent as: a series with its values, or, if they are counts, as many
// series as it counts, at each step as many with a value.
func (f *form) add(ctx context.Context, op parser.ItemType, g promql.Series) error {
	if op != parser.COUNT {
		return f.series(ctx, g.Metric, g.Floats)
	}
	most := 0.0
	for _, p := range g.Floats {
		most = max(most, p.F)
	}
	for k := 1.0; k <= most; k++ {
		f.points = f.points[:0]
		for _, p := range g.Floats {
			if p.F >= k {
				f.points = append(f.points, promql.FPoint{T: p.T, F: 1})
			}
		}
		if err := f.series(ctx, g.Metric, f.points); err != nil {
			return err
		}
	}
	return nil
}

// series adds a series that has these values at these steps, and none at others: where the next
// step has no value there is a stale marker, so that none is seen from earlier. The reader gets
// series in the order of their labels, and its groups are in the order of their first series:
// the number keeps them in the order in which they are added.
func (f *form) series(ctx context.Context, l labels.Labels, points []promql.FPoint) error {
	b := labels.NewBuilder(l)
	b.Set(f.number, fmt.Sprintf("n%08d", f.sent))
	f.sent++
	l = b.Labels()
	f.external.Range(func(e labels.Label) {
		if !l.Has(e.Name) {
			b.Set(e.Name, e.Value)
		}
	})
	got := b.Labels()
	f.disordered = f.disordered || f.sent > 1 && labels.Compare(f.last, got) >= 0
	f.last = got

	f.times, f.values = f.times[:0], f.values[:0]
	for i, p := range points {
		f.times, f.values = append(f.times, p.T), append(f.values, p.F)
		if next := p.T + f.step; next <= f.grid.last && (i+1 == len(points) || points[i+1].T > next) {
			f.times, f.values = append(f.times, next), append(f.values, math.Float64frombits(value.StaleNaN))
		}
	}
	before := f.b.Bytes()
	f.b.Series(l)
	f.parts = f.encode(f.parts[:0], f.times, f.values)
	if err := write(f.b, f.parts, nil); err != nil {
		return err
	}
	return f.lease.Grow(ctx, f.b.Bytes()-before+int64(l.ByteSize()))
}

// numberName returns the name of a label that the reader's aggregation drops. It is one that
// comes before most others.
func numberName(h *storage.SelectHints) string {
	if h.By && slices.Contains(h.Grouping, model.MetricNameLabel) {
		name := "A"
		for slices.Contains(h.Grouping, name) {
			name += "A"
		}
		return name
	}
	return model.MetricNameLabel
}
