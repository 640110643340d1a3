// Package reduce makes less of what a remote reader asks for, where the reader's answer stays
// the same.
//
// A Prometheus says with each selector what it does with the samples: its hints. From these
// follow the times at which it evaluates the selector, its grid. Thin keeps of each series the
// samples that the reader can see from one of these times. Aggregate sends a series a group in
// place of the group's series. What flows in is a query of remote read and the selection that
// it matched; what flows out is a selection that is sent instead. The reader's answer is the
// one that it would give to all samples, bit by bit, under the conditions in docs/readers.md.
// Whatever does not say enough gets all.
//
// Start with Reducer.Thin; grid.go is what hints mean, seen.go which samples a function sees
// and which of them are sent at the ends of windows, aggregate.go which aggregations have a form that
// the reader's own leaves as it is.
package reduce

import (
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/prometheus/promql"

	"github.com/promwarp/promwarp/cpuexec/column"
	"github.com/promwarp/promwarp/internal/instrument"
	"github.com/promwarp/promwarp/internal/memory"
	"github.com/promwarp/promwarp/selection"
)

// Options are what a Reducer is made from.
type Options struct {
	// Lookback is how far back readers' instant selectors look, as --query.lookback-delta is
	// set where they run. Other than the rest, readers do not say it.
	Lookback time.Duration
	// Engine evaluates aggregations over selections.
	Engine promql.QueryEngine
	// Columns retains decoded samples; nil if none are.
	Columns *column.Set
	// Memory is the process's memory, of which what is sent takes leases; nil is no limit.
	Memory *memory.Pool
	// Registerer gets the metrics; may be nil.
	Registerer prometheus.Registerer
}

// Reducer reduces selections. It is safe for concurrent use.
type Reducer struct {
	o       Options
	reduced *prometheus.CounterVec
}

// New returns a reducer.
func New(o Options) *Reducer {
	return &Reducer{o, instrument.With(o.Registerer).Counters("promwarp_read_reduced_total",
		"Queries of remote read below /api/v1/read/ by path, by what was sent, and by why that was not less.", "path", "sent", "reason")}
}

// What is sent.
const (
	sentAll        = "all"
	sentThinned    = "thinned"
	sentAggregated = "aggregated"
)

// reduction is what a serve.Reduce returns: what is sent in place of a selection, which is counted, and what
// gives its memory back.
func (r *Reducer) reduction(path, sent string, why reason, out *selection.Selection, lease *memory.Lease, err error) (*selection.Selection, func(), error) {
	if err != nil {
		lease.Release()
		return nil, nil, err
	}
	r.reduced.WithLabelValues(path, sent, string(why)).Inc()
	return out, lease.Release, nil
}
