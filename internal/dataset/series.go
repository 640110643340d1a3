package dataset

import (
	"math"

	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/model/value"
	"github.com/prometheus/prometheus/storage"
)

// Series is one series of the data set.
type Series struct {
	Labels labels.Labels

	written bool // has had a sample
	// The writer's handle, good while its head is.
	ref  storage.SeriesRef
	head int
}

// Emit takes samples of a series, in time order. The slices may be used again
// after it returns.
type Emit func(s *Series, t []int64, v []float64) error

// family generates the series of one metric, or of metrics that belong
// together, of one target.
type family interface {
	window(w *scrapes, b *buffer, emit Emit) error
}

// buffer holds the samples of one series in one window while they are made.
type buffer struct {
	t      []int64
	v      []float64
	resets int64 // counted over all series
}

func (b *buffer) clear() { b.t, b.v = b.t[:0], b.v[:0] }

func (b *buffer) add(t int64, v float64) {
	b.t = append(b.t, t)
	b.v = append(b.v, v)
}

// flush hands the samples over and clears the buffer.
func (b *buffer) flush(s *Series, emit Emit) error {
	if len(b.t) == 0 {
		return nil
	}
	err := emit(s, b.t, b.v)
	b.clear()
	return err
}

var staleMarker = math.Float64frombits(value.StaleNaN)

// skip says whether scrape i yields no sample for a series other than up. It
// adds the stale marker where the series ends.
func (b *buffer) skip(w *scrapes, i int) bool {
	f := w.flags[i]
	if f&(flagDown|flagRemoved|flagLost) == 0 {
		return false
	}
	if f&flagFirst != 0 {
		b.add(w.t[i], staleMarker)
	}
	return true
}

// IsStale says whether v is the stale marker.
func IsStale(v float64) bool { return value.IsStaleNaN(v) }
