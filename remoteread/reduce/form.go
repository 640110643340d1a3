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
	"github.com/prometheus/prometheus/storage"
	"github.com/prometheus/prometheus/tsdb/chunkenc"

	"github.com/promwarp/promwarp/cpuexec/aggregate"
	"github.com/promwarp/promwarp/internal/memory"
	"github.com/promwarp/promwarp/remoteread/serve"
	"github.com/promwarp/promwarp/selection"
	"github.com/promwarp/promwarp/selection/encoding"
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
}

// unchanged reports whether a reader's aggregation has these values as its results again, bit by bit:
// sums add 0 to what they return.
func unchanged(again aggregate.Again, points []promql.FPoint) bool {
	for _, p := range points {
		zero := p.F == 0 && math.Signbit(p.F) && again == aggregate.Rounded
		if zero || value.IsStaleNaN(p.F) {
			return false
		}
	}
	return true
}

// add adds what a group is sent as: a series with its values, or, if they are counts, as many
// series as it counts, at each step as many with a value.
func (f *form) add(ctx context.Context, again aggregate.Again, g promql.Series) error {
	if again != aggregate.Counted {
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
	got := serve.WithExternal(b, l, f.external)
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
	f.parts = encode(f.parts[:0], f.times, f.values)
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

// part is some of what a series is sent as: a chunk of the selection as it is, or a new one.
type part struct {
	*selection.Chunk
	data []byte // of a new one
}

// perChunk is the most samples of a chunk. Each chunk costs the bytes of some ten samples, and
// no reader asks for a part of what is left.
const perChunk = 1000

// encode appends the chunks of samples to parts.
func encode(parts []part, times []int64, values []float64) []part {
	for len(times) > 0 {
		n := min(len(times), perChunk)
		data := encoding.AppendTightXOR(nil, times[:n], values[:n])
		parts = append(parts, part{&selection.Chunk{Enc: chunkenc.EncXOR, MinT: times[0], MaxT: times[n-1]}, data})
		times, values = times[n:], values[n:]
	}
	return parts
}

// write adds parts of a series to b. Parts that are not new are chunks of sel.
func write(b *selection.Builder, parts []part, sel *selection.Selection) error {
	for _, p := range parts {
		data := p.data
		if data == nil {
			data = sel.Bytes(*p.Chunk)
		}
		if err := b.Chunk(p.Enc, p.MinT, p.MaxT, data); err != nil {
			return err
		}
	}
	return nil
}

// labelled reports whether one of series has an external label of its own.
func labelled(series []labels.Labels, external labels.Labels) (found bool) {
	external.Range(func(e labels.Label) {
		found = found || slices.ContainsFunc(series, func(l labels.Labels) bool { return l.Has(e.Name) })
	})
	return found
}

// become returns what series are with external labels.
func become(series []labels.Labels, external labels.Labels) []labels.Labels {
	out := make([]labels.Labels, len(series))
	b := labels.NewBuilder(labels.EmptyLabels())
	for i, l := range series {
		out[i] = serve.WithExternal(b, l, external)
	}
	return out
}

// joined reports whether two of series, which differ, become one with external labels.
func joined(series []labels.Labels, external labels.Labels) bool {
	if !labelled(series, external) {
		return false
	}
	all := become(series, external)
	slices.SortFunc(all, labels.Compare)
	return len(slices.CompactFunc(all, labels.Equal)) < len(series)
}

// apart reports whether external labels leave series what they are: none has one of its own,
// and, for sums, whose bits depend on it, they are in the same order with them.
func apart(series []labels.Labels, external labels.Labels, again aggregate.Again) bool {
	switch {
	case labelled(series, external):
		return false
	case external.IsEmpty() || again != aggregate.Rounded:
		return true
	}
	return slices.IsSortedFunc(become(series, external), labels.Compare)
}
